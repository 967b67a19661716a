import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { until } from "../support/until.ts";
import { AGENTS_SERVERS } from "./agents-servers.ts";
import { head, type LoadStand, openLoadStand, Wire, wholeCall } from "./load-stand.ts";

const TRICKLE_MS = 20;
describe.each(AGENTS_SERVERS)("with the HTTP server %s", (http) => {
  let stand: LoadStand;
  let token: string;

  beforeAll(async () => {
    const server = { http, headersTimeoutMs: 400, requestTimeoutMs: 400 };
    stand = await openLoadStand({ server, limits: { answerTimeoutMs: 1_000, strangerLinesPerMinute: 100_000 } });
    token = await stand.token();
  });
  afterAll(() => stand.close());

  /** Sends `piece` again and again until the other side has had enough. */
  async function trickle(wire: Wire, piece: string): Promise<void> {
    const timer = setInterval(() => wire.send(piece), TRICKLE_MS);
    await wire.closed;
    clearInterval(timer);
  }

  test("a client that connects and sends nothing is disconnected", async () => {
    const wire = new Wire(stand.port);
    await wire.closed;
    expect(wire.statuses).toEqual([408]);
  });

  test.each([
    ["headers", "POST /call HTTP/1.1\r\nHost: localhost\r\n", "X-Slow: a\r\n"],
    ["one endless header", "POST /call HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", "a"],
    ["the request line", "POST /call?", "a"],
  ] as const)("%s that arrive in drops end with 408", async (_title, begin, piece) => {
    const wire = new Wire(stand.port).send(begin);
    await trickle(wire, piece);
    expect(wire.statuses).toEqual([408]);
    expect(wire.received).toContain('"code":"REQUEST_TIMEOUT","stage":"REQUEST"');
    expect(await stand.metrics()).toContain('stc_connections_ended_total{reason="timeout"}');
  });

  test("empty lines before a request keep no connection open", async () => {
    const wire = new Wire(stand.port);
    await trickle(wire, "\r\n");
    expect(wire.statuses).toEqual([408]);
  });

  test.each([
    ["a body", ["Content-Length: 100000"], " "],
    ["chunks", ["Transfer-Encoding: chunked"], "1\r\n \r\n"],
    ...(http === "fastify" ? ([["extensions of one chunk", ["Transfer-Encoding: chunked"], ";a=b"]] as const) : []),
  ] as const)("%s that arrives in drops ends with 408 and its audit entry", async (title, size, piece) => {
    const before = stand.audited().length;
    const wire = new Wire(stand.port).send(head([`Authorization: Bearer ${token}`, ...size]));
    if (title.startsWith("extensions")) wire.send("5");
    await trickle(wire, piece);
    expect(wire.statuses).toEqual([408]);
    expect(wire.received).toContain('"code":"REQUEST_TIMEOUT"');
    const line = await until("its line", () => stand.audited()[before]);
    expect(line).toMatchObject({ decision: "DENIED", caller: { sub: "agent-7" }, error: { code: "REQUEST_TIMEOUT" } });
  });

  test("an answer that is not read is dropped; other requests are answered meanwhile", async () => {
    const big = { tool: "load_echo", args: { text: "x".repeat(4_000), times: 900 } };
    const wire = new Wire(stand.port, { reads: false }).send(wholeCall(token, big).repeat(8));
    await until("the connection to be ended", async () =>
      (await stand.metrics()).includes('stc_connections_ended_total{reason="slow_reader"}') ? true : undefined,
    );
    expect((await stand.call(token)).status).toBe(200);
    wire.end();
  });

  test("an answer that is read slowly, but in time, arrives whole", async () => {
    const text = "x".repeat(1_000);
    const wire = new Wire(stand.port, { reads: false }).send(
      wholeCall(token, { tool: "load_echo", args: { text, times: 500 } }),
    );
    await until("the call", () => stand.audited().find((line) => JSON.stringify(line).includes('"outputHash"')));
    wire.socket.on("data", (bytes) => (wire.received += bytes.toString("latin1")));
    wire.socket.resume();
    await until("all of it", () => (wire.received.length > 500_000 ? true : undefined));
    expect(wire.received).toContain('"status":"success"');
    wire.end();
  });
});
