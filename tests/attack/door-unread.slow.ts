import { expect, test } from "bun:test";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Connections } from "../../src/http/connections/connections.ts";
import { openLoadStand, Wire, wholeCall } from "../http/load-stand.ts";
import { until } from "../support/until.ts";

const ANSWER_BYTES = 1_000_000;
const ANSWERS = 120;

/** Each answer would wait in memory for a minute, and the calls are over, so that no limit counts them. */
test("a connection that sends requests and reads nothing is closed before its answers fill the memory", async () => {
  const stand = await openLoadStand({});
  const token = await stand.token();
  const call = wholeCall(token, { tool: "load_echo", args: { text: "x".repeat(1_000), times: 1_000 } });
  const wire = new Wire(stand.port, { reads: false }).send(call.repeat(ANSWERS));
  await until("the connection's end is counted", async () =>
    (await stand.metrics()).includes('stc_connections_ended_total{reason="slow_reader"} 1') ? true : undefined,
  );
  expect((await stand.call(token)).status).toBe(200);
  wire.end();
  await stand.close();
});

test("a client that reads every answer gets them one after the other", async () => {
  const stand = await openLoadStand({});
  const token = await stand.token();
  const wire = new Wire(stand.port);
  for (let at = 0; at < ANSWERS; at += 1) {
    const args = { text: `${String(at).padStart(4, "0")}${"x".repeat(996)}`, times: 1_000 };
    wire.send(wholeCall(token, { tool: "load_echo", args }));
    await until("its answer", () => (wire.received.length > (at + 1) * ANSWER_BYTES ? true : undefined));
  }
  const order = [...wire.received.matchAll(/"text":"(\d{4})/g)].map(([, mark]) => Number(mark));
  expect(order).toEqual(Array.from({ length: ANSWERS }, (_, at) => at));
  expect(await stand.metrics()).not.toContain('stc_connections_ended_total{reason="slow_reader"}');
  wire.end();
  await stand.close();
});

/** 256 MB of answers may wait, of all connections together. */
test("of many connections that read nothing, those beyond the common limit are closed", async () => {
  const body = Buffer.alloc(16 * 1_048_576, "x");
  const ends: string[] = [];
  const limits = { connectionsMax: 100, connectionsPerSourceMax: 100, answerTimeoutMs: 60_000 };
  const connections = new Connections(limits, (end) => ends.push(end));
  let answered = 0;
  const server = createServer(({ socket }, response) => {
    connections.answering(socket, response, body.length);
    response.end(body);
    answered += 1;
  });
  connections.guard(server);
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const wires = Array.from({ length: 20 }, () =>
    new Wire(port, { reads: false }).send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
  );
  await until("every answer has begun", () => (answered === wires.length ? true : undefined));
  connections.sweep();
  expect(ends).toEqual(["slow_reader", "slow_reader", "slow_reader", "slow_reader"]);
  await until("they are gone", () => (connections.size === 16 ? true : undefined));
  connections.sweep();
  expect(ends).toHaveLength(4);
  for (const wire of wires) wire.end();
  server.close();
});
