import { afterEach, beforeEach, expect, test } from "bun:test";
import { Agent, request } from "node:http";
import { defineTool } from "safe-tool-call";
import { z } from "zod";
import type { Loose } from "../support/asking-service.ts";
import { until } from "../support/until.ts";
import { McpWorld, TOOLS } from "./mcp-world.ts";

/** A service that drains and comes back on the same port, with requests by hand. */

const EVENTS = { accept: "application/json, text/event-stream" };
const STREAM = { accept: "text/event-stream", "mcp-protocol-version": "2025-11-25" };

let started: PromiseWithResolvers<void>;
let finish: PromiseWithResolvers<void>;
let world: McpWorld;
/** Keeps its connections, so that a request can arrive while the service drains. */
let kept: Agent;

const SLOW = defineTool({
  name: "orders_count",
  description: "Counts orders",
  classification: "read",
  permissions: { required: ["orders:read"] },
  input: z.strictObject({}),
  output: z.object({ orders: z.int() }),
  outputPolicy: { orders: "allow" },
  async handler() {
    started.resolve();
    await finish.promise;
    return { orders: 3 };
  },
});
const tools = [...TOOLS, SLOW];

beforeEach(async () => {
  started = Promise.withResolvers();
  finish = Promise.withResolvers();
  kept = new Agent({ keepAlive: true, maxSockets: 2 });
  world = await new McpWorld().start({ tools });
});
afterEach(async () => {
  finish.resolve();
  kept.destroy();
  await world.end();
});

interface Answer {
  readonly status: number;
  readonly connection: string | undefined;
  readonly body: string;
}

async function overKept(method: "GET" | "POST", headers: Readonly<Record<string, string>>, body = ""): Promise<Answer> {
  const authorization = `Bearer ${await world.caller()}`;
  return new Promise((resolve, reject) => {
    const options = { method, agent: kept, headers: { ...headers, authorization } };
    const sent = request(`${world.url}/mcp`, options, (response) => {
      let text = "";
      response.on("data", (bytes) => {
        text += bytes;
      });
      const { statusCode: status = 0, headers: received } = response;
      response.on("end", () => resolve({ status, connection: received.connection, body: text }));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

async function pendingApproval(): Promise<string> {
  return until("the approval request", async () => {
    const { body } = await world.send("GET", "/approvals?state=pending", { token: await world.person() });
    return body.approvals[0]?.id;
  });
}

async function restart(drained: Promise<void>): Promise<void> {
  const { port } = new URL(world.url);
  await drained;
  await world.start({ tools, server: { port: Number(port) } });
}

function messagesIn(text: string): readonly Loose[] {
  return [...text.matchAll(/^data: (.+)$/gm)].map(([, data = ""]) => JSON.parse(data));
}

test("a running call gets its result, and a request on an open connection is refused as long as the service drains", async () => {
  const running = world.call("orders_count", {});
  await started.promise;
  const ping = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });
  expect(await overKept("POST", { "content-type": "application/json" }, ping)).toMatchObject({
    status: 200,
    connection: "keep-alive",
  });
  const drained = world.stop();
  // A client gives up a stream after a 405, and tries again after anything else.
  const late = await overKept("GET", STREAM);
  expect([late.status, late.connection]).toEqual([503, "close"]);
  expect(JSON.parse(late.body)).toMatchObject({ error: { data: { code: "SHUTTING_DOWN" } } });
  finish.resolve();
  expect((await running).body.result.structuredContent).toEqual({ orders: 3 });
  await drained;
});

test("a held call ends as pending on its stream, and after the restart the same call runs once", async () => {
  const token = await world.caller();
  const refund = { order: "ord_1", cents: 5 };
  const params = { name: "orders_refund", arguments: refund, _meta: { progressToken: 7 } };
  const response = await fetch(`${world.url}/mcp`, {
    method: "POST",
    headers: { ...EVENTS, authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 9, method: "tools/call", params }),
  });
  const id = await pendingApproval();
  const { port } = new URL(world.url);
  const drained = world.stop();
  const messages = messagesIn(await response.text());
  expect(messages[0]).toMatchObject({ method: "notifications/progress", params: { progressToken: 7 } });
  expect(messages.at(-1)).toMatchObject({
    id: 9,
    result: { _meta: { "safe-tool-call/approval": { id, state: "pending" } } },
  });
  await drained;
  await world.start({ tools, server: { port: Number(port) } });
  await world.decide(id, "approve");
  const again = await world.call("orders_refund", refund, { token });
  expect(again.body.result.structuredContent).toEqual({ refunded: 5 });
  expect(world.entries().filter(({ decision }) => decision === "ALLOWED")).toHaveLength(1);
});

test("streams of notifications end, and do not keep the service from stopping", async () => {
  const authorization = `Bearer ${await world.caller()}`;
  const stream = await fetch(`${world.url}/mcp`, { headers: { ...STREAM, authorization } });
  const text = stream.text();
  await restart(world.stop());
  expect(await text).toMatch(/retry: 5000\nid: \d+\ndata:\n\n$/);
  const next = await fetch(`${world.url}/mcp`, { headers: { ...STREAM, authorization } });
  expect(next.status).toBe(200);
  await next.body?.cancel();
});

test("in the shutdown delay, streams and calls are served, and the drain after it ends the streams", async () => {
  await world.stop();
  await world.start({ tools, server: { port: 0, shutdownDelayMs: 600_000 } });
  world.shutDown();
  const stream = await fetch(`${world.url}/mcp`, {
    headers: { ...STREAM, authorization: `Bearer ${await world.caller()}` },
  });
  expect([stream.status, stream.headers.get("connection")]).toEqual([200, "close"]);
  const running = world.call("orders_count", {});
  await started.promise;
  const stopped = world.stop();
  finish.resolve();
  expect((await running).body.result.structuredContent).toEqual({ orders: 3 });
  expect(await stream.text()).toMatch(/retry: 5000\nid: \d+\ndata:\n\n$/);
  await stopped;
});
