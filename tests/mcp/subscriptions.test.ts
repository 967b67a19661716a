import { afterAll, beforeAll, expect, test } from "bun:test";
import { connect } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import type { Loose } from "../support/asking-service.ts";
import { manifest, ReloadService } from "../support/reload-service.ts";
import { until } from "../support/until.ts";
import { ENVELOPE, MODERN } from "./mcp-world.ts";

let service: ReloadService;
beforeAll(async () => {
  service = await new ReloadService().start();
});
afterAll(() => service.end());

async function post(params: Loose, token?: string): Promise<Response> {
  return fetch(`${service.running.url}/mcp`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${token ?? (await service.agent())}`,
      "content-type": "application/json",
      ...{ "mcp-protocol-version": MODERN, "mcp-method": "subscriptions/listen" },
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 5,
      method: "subscriptions/listen",
      params: { ...params, _meta: ENVELOPE },
    }),
  });
}

function messagesIn(text: string): readonly Loose[] {
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, data = ""]) => JSON.parse(data));
}

test("a client that listens is notified when a reload has changed its tools, and the call list follows", async () => {
  const notified: string[] = [];
  const client = new Client(
    { name: "listener", version: "1" },
    {
      versionNegotiation: { mode: { pin: MODERN } },
      listChanged: { tools: { onChanged: () => notified.push("changed") } },
    },
  );
  const headers = { authorization: `Bearer ${await service.agent()}` };
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${service.running.url}/mcp`), { requestInit: { headers } }),
  );
  await until("the journal line", () => service.journal("tools.followed")[0]);
  service.write("tools/bye.ts", manifest({ name: "bye" }));
  expect((await service.reload()).http).toBe(200);
  await until("the notification", () => notified[0]);
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toEqual(["bye", "hello"]);
  await client.close();
});

test("a reload that changes nothing for the caller, and a filter for nothing, notify nobody", async () => {
  const nothing = await post({ notifications: {} });
  const [acknowledged, end] = messagesIn(await nothing.text());
  expect(acknowledged).toMatchObject({
    method: "notifications/subscriptions/acknowledged",
    params: { notifications: {}, _meta: { "io.modelcontextprotocol/subscriptionId": 5 } },
  });
  expect(end).toMatchObject({
    id: 5,
    result: { resultType: "complete", _meta: { "io.modelcontextprotocol/subscriptionId": 5 } },
  });
});

test("a filter that is no object is an invalid parameter", async () => {
  const answer = (await (await post({})).json()) as Loose;
  expect(answer).toMatchObject({ id: 5, error: { code: -32_602 } });
});

test("one caller has a limited number of streams", async () => {
  const token = await service.agent();
  const opened = await Promise.all(
    Array.from({ length: 9 }, () => post({ notifications: { toolsListChanged: true } }, token)),
  );
  const refused = opened.filter(({ status }) => status === 429);
  expect(refused.length).toBe(1);
  expect(await refused[0]?.json()).toMatchObject({ error: { data: { code: "RATE_LIMITED" } } });
  for (const stream of opened) if (stream.status === 200) await stream.body?.cancel();
});

test("a client that disconnects before its stream begins takes no stream from others", async () => {
  const token = await service.agent();
  const { port, hostname, host } = new URL(service.running.url);
  const params = { notifications: { toolsListChanged: true }, _meta: ENVELOPE };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 5, method: "subscriptions/listen", params });
  const head = [
    "POST /mcp HTTP/1.1",
    `Host: ${host}`,
    `Authorization: Bearer ${token}`,
    "Content-Type: application/json",
    `MCP-Protocol-Version: ${MODERN}`,
    "Mcp-Method: subscriptions/listen",
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  const before = service.journal("tools.followed").length;
  for (let client = 0; client < 12; client += 1) {
    const socket = connect(Number(port), hostname);
    socket.write(`${head.join("\r\n")}\r\n\r\n${body}`);
    await pause(client % 6);
    socket.destroy();
  }
  await until("the requests", () => (service.journal("tools.followed").length >= before + 8 ? true : undefined));
  const stream = await until("a free stream", async () => {
    const next = await post({ notifications: { toolsListChanged: true } }, token);
    return next.status === 200 ? next : undefined;
  });
  await stream.body?.cancel();
});

test("a drain ends the streams with their result", async () => {
  const closing = await new ReloadService().start();
  const before = service;
  service = closing;
  const stream = await post({ notifications: { toolsListChanged: true } }, await closing.agent());
  service = before;
  const text = stream.text();
  await closing.end();
  expect(messagesIn(await text).at(-1)).toMatchObject({ id: 5, result: { resultType: "complete" } });
});
