import { afterAll, beforeAll, expect, test } from "bun:test";
import { createMcpHandler, ProtocolError, Server } from "@modelcontextprotocol/server";
import { VERSION } from "../../src/core/version.ts";
import type { Loose } from "../support/asking-service.ts";
import { ENVELOPE, McpWorld, MODERN } from "./mcp-world.ts";

/**
 * Compares the replies of the service with those of the official server: status, error code, and the members that the protocol
 * defines. Texts of errors are each server's own.
 */

const TASKS = { extensions: { "io.modelcontextprotocol/tasks": {} } };
const VERSIONS = [MODERN, "2025-11-25", "2025-06-18"];
let world: McpWorld;
let tools: Loose[];

/** The official server with the same tools; a call of the only tool that it knows returns what the service returned. */
const official = createMcpHandler(
  ({ era }) => {
    const capabilities = { tools: { listChanged: true } };
    const server = new Server(
      { name: "safe-tool-call", title: "Safe Tool Call", version: VERSION },
      { capabilities: { ...capabilities, ...(era === "modern" && TASKS) }, supportedProtocolVersions: VERSIONS },
    );
    server.setRequestHandler("tools/list", () => ({ tools }));
    server.setRequestHandler("tools/call", ({ params }) => {
      if (params.name !== "orders_find") throw new ProtocolError(-32_602, `Unknown tool: ${params.name}`);
      return { content: [{ type: "text", text: "x" }], structuredContent: { order: "ord_1" } };
    });
    return server;
  },
  { legacy: "stateless" },
);

beforeAll(async () => {
  world = await new McpWorld().start();
  tools = (await world.modern("tools/list")).body.result.tools;
});
afterAll(async () => {
  await official.close();
  await world.end();
});

const META = "io.modelcontextprotocol/";
const PARAMS = { name: "orders_find", arguments: { order: "ord_1" } };
const CLIENT = { name: "hand", version: "1" };
const call = (params: unknown = PARAMS) => ({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
const modern = (method: string, params: Loose = {}, meta: Loose = {}) => {
  const _meta = { ...ENVELOPE, ...meta };
  return { jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } };
};
const headers = (method: string, name?: string) => ({
  "mcp-protocol-version": MODERN,
  "mcp-method": method,
  ...(name !== undefined && { "mcp-name": name }),
});
const CALL_HEADERS = headers("tools/call", "orders_find");
const initialize = (protocolVersion: unknown) => ({
  jsonrpc: "2.0",
  id: "init",
  method: "initialize",
  params: { protocolVersion, capabilities: {}, clientInfo: CLIENT },
});

type Row = readonly [title: string, body: unknown, headers?: Readonly<Record<string, string>>];

const ROWS: readonly Row[] = [
  ["initialize with 2025-11-25", initialize("2025-11-25")],
  ["initialize with 2025-06-18", initialize("2025-06-18")],
  ["initialize with an older version", initialize("2024-11-05")],
  ["initialize with an unknown version", initialize("2099-01-01")],
  ["initialize with the modern version", initialize(MODERN)],
  ["initialize with a modern header", initialize("2025-11-25"), { "mcp-protocol-version": MODERN }],
  ["initialize in a modern envelope", modern("initialize"), headers("initialize")],
  ["ping", { jsonrpc: "2.0", id: 7, method: "ping" }],
  ["a modern ping", modern("ping"), headers("ping")],
  ["server/discover", modern("server/discover"), headers("server/discover")],
  ["server/discover of a legacy client", { jsonrpc: "2.0", id: 7, method: "server/discover" }],
  ["a legacy list", { jsonrpc: "2.0", id: 1, method: "tools/list" }, { "mcp-protocol-version": "2025-06-18" }],
  ["a modern list", modern("tools/list"), headers("tools/list")],
  ["a cursor that is a number", modern("tools/list", { cursor: 7 }), headers("tools/list")],
  ["a legacy call", call(), { "mcp-protocol-version": "2025-11-25" }],
  ["a call without a version", call()],
  ["a modern call", modern("tools/call", PARAMS), CALL_HEADERS],
  [
    "a tool in Base64",
    modern("tools/call", PARAMS),
    { ...CALL_HEADERS, "mcp-name": `=?base64?${btoa("orders_find")}?=` },
  ],
  [
    "a tool in Base64 that is not canonical",
    modern("tools/call", PARAMS),
    { ...CALL_HEADERS, "mcp-name": "=?base64?b3J?=" },
  ],
  ["spaces around a header", modern("tools/call", PARAMS), { ...CALL_HEADERS, "mcp-name": " orders_find " }],
  ["an unknown tool", call({ name: "nothing" })],
  ["an unknown tool of a modern client", modern("tools/call", { name: "nothing" }), headers("tools/call", "nothing")],
  ["no tool name", call({})],
  ["a tool name that is a number", call({ name: 7 })],
  ["arguments that are a list", call({ name: "orders_find", arguments: [] })],
  ["an unknown method", { jsonrpc: "2.0", id: 1, method: "resources/list" }],
  ["a method that nobody defined", { jsonrpc: "2.0", id: 1, method: "x/y" }],
  ["an unknown modern method", modern("resources/list"), headers("resources/list")],
  ["a modern method that nobody defined", modern("x/y"), headers("x/y")],
  ["an unknown version in the header", call(), { "mcp-protocol-version": "2024-11-05" }],
  [
    "an unknown version in both",
    modern("tools/call", PARAMS, { [`${META}protocolVersion`]: "2099-01-01" }),
    { ...CALL_HEADERS, "mcp-protocol-version": "2099-01-01" },
  ],
  [
    "a legacy version in the envelope",
    modern("tools/call", PARAMS, { [`${META}protocolVersion`]: "2025-11-25" }),
    { ...CALL_HEADERS, "mcp-protocol-version": "2025-11-25" },
  ],
  [
    "another version in the header",
    modern("tools/call", PARAMS),
    { ...CALL_HEADERS, "mcp-protocol-version": "2025-11-25" },
  ],
  ["another method in the header", modern("tools/call", PARAMS), { ...CALL_HEADERS, "mcp-method": "tools/list" }],
  ["another tool in the header", modern("tools/call", PARAMS), { ...CALL_HEADERS, "mcp-name": "reports_read" }],
  ["no version in the header", modern("tools/call", PARAMS), { "mcp-method": "tools/call", "mcp-name": "orders_find" }],
  [
    "no method in the header",
    modern("tools/call", PARAMS),
    { "mcp-protocol-version": MODERN, "mcp-name": "orders_find" },
  ],
  ["no tool in the header", modern("tools/call", PARAMS), headers("tools/call")],
  ["neither a name nor its header", modern("tools/call", {}), headers("tools/call")],
  ["a modern header without an envelope", call(), CALL_HEADERS],
  [
    "an envelope without capabilities",
    modern("tools/call", PARAMS, { [`${META}clientCapabilities`]: undefined }),
    CALL_HEADERS,
  ],
  ["an envelope without a client", modern("tools/call", PARAMS, { [`${META}clientInfo`]: undefined }), CALL_HEADERS],
  ["a client without a name", modern("tools/call", PARAMS, { [`${META}clientInfo`]: { version: "1" } }), CALL_HEADERS],
  [
    "a version in the envelope that is a number",
    modern("tools/call", PARAMS, { [`${META}protocolVersion`]: 7 }),
    CALL_HEADERS,
  ],
  ["capabilities that are text", modern("tools/call", PARAMS, { [`${META}clientCapabilities`]: "x" }), CALL_HEADERS],
  ["an id that is null", { ...call(), id: null }],
  ["an id that is a fraction", { ...call(), id: 1.5 }],
  ["another version of JSON-RPC", { ...call(), jsonrpc: "1.0" }],
  ["no message", { tool: "orders_find" }],
  ["text", '"text"'],
  ["params that are a list", { ...call(), params: [] }],
  ["an empty batch", []],
  ["a batch with a modern call", [modern("tools/call", PARAMS)]],
  ["a notification", { jsonrpc: "2.0", method: "notifications/initialized" }],
  [
    "a modern notification",
    { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1, _meta: ENVELOPE } },
    headers("notifications/cancelled"),
  ],
  [
    "a notification with another method in the header",
    { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1, _meta: ENVELOPE } },
    headers("tools/call"),
  ],
  ["a response", { jsonrpc: "2.0", id: 1, result: {} }],
];

interface Reply {
  readonly http: number;
  readonly body: Loose;
}

async function officially(body: unknown, more: Readonly<Record<string, string>>): Promise<Reply> {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const request = new Request("http://127.0.0.1/mcp", {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...more },
    body: text,
  });
  const response = await official.fetch(request);
  const answer = await response.text();
  const [, data = answer] = /^data: (.*)$/m.exec(answer) ?? [];
  return { http: response.status, body: data === "" ? undefined : JSON.parse(data) };
}

/** The part of a reply that must be the same for both servers. */
function compared({ http, body }: Reply): unknown {
  if (body === undefined) return { http };
  const { jsonrpc, id, error, result } = body;
  if (error !== undefined) return { http, jsonrpc, id, code: error.code, supported: error.data?.supported };
  const { content: _, structuredContent, instructions: __, _meta: meta, ...rest } = result;
  const server = meta?.["io.modelcontextprotocol/serverInfo"];
  return { http, jsonrpc, id, ...rest, server, isStructured: structuredContent !== undefined };
}

/** Where the official server's own habits are not followed. */
const OURS: Readonly<Record<string, unknown>> = {
  // Its low-level server calls this an error of its own (-32603).
  "a cursor that is a number": { http: 200, code: -32_602 },
  // It leaves the id out.
  "an unknown version in the header": { http: 400, id: 1, code: -32_000 },
  // It repeats an id that it refuses.
  "an id that is a fraction": { http: 400, id: null, code: -32_600 },
};

test.each(ROWS)("%s", async (title, body, more = {}) => {
  const ours = await world.post(body, { headers: { accept: "application/json, text/event-stream", ...more } });
  const want = compared(await officially(body, more));
  const own = OURS[title];
  if (own === undefined) expect(compared(ours)).toEqual(want);
  else expect([compared(ours)]).toMatchObject([own]);
});

const STREAM = { accept: "text/event-stream" };
const OTHER_METHODS: readonly (readonly [string, string, Readonly<Record<string, string>>])[] = [
  ["GET without a version", "GET", STREAM],
  ["GET of 2026-07-28", "GET", { ...STREAM, "mcp-protocol-version": MODERN }],
  ["GET that wants JSON", "GET", { accept: "application/json", "mcp-protocol-version": "2025-11-25" }],
  ["DELETE", "DELETE", { "mcp-protocol-version": "2025-11-25" }],
  ["PUT", "PUT", {}],
];

test.each(OTHER_METHODS)("%s", async (_, method, sent) => {
  const ours = await world.send(method, "/mcp", { token: await world.caller(), headers: sent });
  const theirs = await official.fetch(new Request("http://127.0.0.1/mcp", { method, headers: sent }));
  expect([ours.http, theirs.status]).toEqual([405, 405]);
});

test("the stream of clients before 2026-07-28, which the official server has only with sessions, notifies them as announced", async () => {
  const sent = { ...STREAM, "mcp-protocol-version": "2025-11-25" };
  expect((await official.fetch(new Request("http://127.0.0.1/mcp", { headers: sent }))).status).toBe(405);
  const authorization = `Bearer ${await world.caller()}`;
  const stream = await fetch(`${world.url}/mcp`, { headers: { ...sent, authorization } });
  expect([stream.status, stream.headers.get("content-type")]).toEqual([200, "text/event-stream; charset=utf-8"]);
  await stream.body?.cancel();
  const { body } = await world.post(initialize("2025-11-25"));
  expect(body.result.capabilities).toEqual({ tools: { listChanged: true } });
});

test("a batch of legacy calls, which the official server runs, is refused", async () => {
  const answer = await officially([call(), { ...call(), id: 2 }], {});
  expect(answer.http).toBe(200);
  expect((await world.post([call(), { ...call(), id: 2 }])).http).toBe(400);
});

test("a request without Accept gets JSON, and lists have the same tools in the same order for every client", async () => {
  const legacy = await world.post({ jsonrpc: "2.0", id: 1, method: "tools/list" });
  expect(legacy.headers.get("content-type")).toStartWith("application/json");
  expect(legacy.body.result.tools).toEqual(tools);
});
