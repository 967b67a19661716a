import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { ENVELOPE, McpWorld, MODERN } from "./mcp-world.ts";

let world: McpWorld;
beforeAll(async () => {
  world = await new McpWorld().start({ server: { port: 0, resource: "https://tools.example" } });
});
afterAll(() => world.end());

const CALL = {
  jsonrpc: "2.0",
  id: 1,
  method: "tools/call",
  params: { name: "orders_find", arguments: { order: "ord_1" } },
};
const LIST = { jsonrpc: "2.0", id: 1, method: "tools/list" };
const META = "io.modelcontextprotocol/";

function modernCall(meta: object = {}, more: object = {}) {
  return { ...CALL, params: { ...CALL.params, _meta: { ...ENVELOPE, ...meta }, ...more } };
}

const MODERN_HEADERS = { "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "orders_find" };

interface Row {
  readonly title: string;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly http: number;
  readonly code: number;
  readonly says: string;
}

/** Requests that are malformed calls, or may be. */
const MALFORMED: readonly Row[] = [
  { title: "a batch of calls", body: [CALL, CALL], http: 400, code: -32_600, says: "Batches are not accepted" },
  { title: "an empty batch", body: [], http: 400, code: -32_600, says: "Batches are not accepted" },
  { title: "a batch of one", body: [modernCall()], headers: MODERN_HEADERS, http: 400, code: -32_600, says: "Batches" },
  { title: "text that is no JSON", body: "{", http: 400, code: -32_700, says: "not acceptable JSON" },
  {
    title: "a duplicate key",
    body: '{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}',
    http: 400,
    code: -32_700,
    says: "not acceptable JSON",
  },
  {
    title: "a key __proto__",
    body: '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"__proto__":{}}}',
    http: 400,
    code: -32_700,
    says: "not acceptable JSON",
  },
  {
    title: "a body deeper than the limit",
    body: `{"a":${"[".repeat(40)}${"]".repeat(40)}}`,
    http: 400,
    code: -32_700,
    says: "not acceptable JSON",
  },
  {
    title: "the body of POST /call",
    body: { tool: "orders_find", args: {} },
    http: 400,
    code: -32_600,
    says: "JSON-RPC",
  },
  {
    title: "another version of JSON-RPC",
    body: { ...CALL, jsonrpc: "1.0" },
    http: 400,
    code: -32_600,
    says: "JSON-RPC",
  },
  { title: "an unknown member", body: { ...CALL, extra: 1 }, http: 400, code: -32_600, says: "JSON-RPC" },
  { title: "an id that is null", body: { ...CALL, id: null }, http: 400, code: -32_600, says: "JSON-RPC" },
  { title: "an id that is an object", body: { ...CALL, id: {} }, http: 400, code: -32_600, says: "JSON-RPC" },
  {
    title: "an id of 300 characters",
    body: { ...CALL, id: "x".repeat(300) },
    http: 400,
    code: -32_600,
    says: "JSON-RPC",
  },
  { title: "params that are a list", body: { ...CALL, params: [] }, http: 400, code: -32_600, says: "JSON-RPC" },
  {
    title: "no id",
    body: { jsonrpc: "2.0", method: "tools/call", params: CALL.params },
    http: 400,
    code: -32_600,
    says: "needs an id",
  },
  { title: "no tool name", body: { ...CALL, params: {} }, http: 200, code: -32_602, says: "name must be" },
  {
    title: "a tool name that is a number",
    body: { ...CALL, params: { name: 7 } },
    http: 200,
    code: -32_602,
    says: "name must be",
  },
  {
    title: "arguments that are a list",
    body: { ...CALL, params: { name: "orders_find", arguments: [] } },
    http: 200,
    code: -32_602,
    says: "arguments must be an object",
  },
  {
    title: "_meta that is text",
    body: { ...CALL, params: { ...CALL.params, _meta: "x" } },
    http: 200,
    code: -32_602,
    says: "_meta must be an object",
  },
  {
    title: "a progress token that is an object",
    body: { ...CALL, params: { ...CALL.params, _meta: { progressToken: {} } } },
    http: 200,
    code: -32_602,
    says: "progressToken",
  },
  {
    title: "a progress token of a megabyte",
    body: { ...CALL, params: { ...CALL.params, _meta: { progressToken: "x".repeat(500_000) } } },
    http: 200,
    code: -32_602,
    says: "progressToken",
  },
  {
    title: "an approval that is no id",
    body: { ...CALL, params: { ...CALL.params, _meta: { "safe-tool-call/approval": { id: "a b" } } } },
    http: 200,
    code: -32_602,
    says: "safe-tool-call/approval",
  },
  {
    title: "an approval with more members",
    body: { ...CALL, params: { ...CALL.params, _meta: { "safe-tool-call/approval": { id: "a", by: "me" } } } },
    http: 200,
    code: -32_602,
    says: "safe-tool-call/approval",
  },
  {
    title: "an idempotency key that is a number",
    body: { ...CALL, params: { ...CALL.params, _meta: { "safe-tool-call/idempotencyKey": 1 } } },
    http: 200,
    code: -32_602,
    says: "safe-tool-call/idempotencyKey",
  },
  {
    title: "two different idempotency keys",
    body: { ...CALL, params: { ...CALL.params, _meta: { "safe-tool-call/idempotencyKey": "a" } } },
    headers: { "idempotency-key": "b" },
    http: 200,
    code: -32_602,
    says: "differ",
  },
  {
    title: "a version in the header that is not known",
    body: CALL,
    headers: { "mcp-protocol-version": "2024-11-05" },
    http: 400,
    code: -32_000,
    says: "Unsupported protocol version: 2024-11-05",
  },
  {
    title: "a version in the body that is not known",
    body: modernCall({ [`${META}protocolVersion`]: "2099-01-01" }),
    headers: { ...MODERN_HEADERS, "mcp-protocol-version": "2099-01-01" },
    http: 400,
    code: -32_022,
    says: "Unsupported protocol version: 2099-01-01",
  },
  {
    title: "another version in the header than in the body",
    body: modernCall(),
    headers: { ...MODERN_HEADERS, "mcp-protocol-version": "2025-11-25" },
    http: 400,
    code: -32_020,
    says: "protocol version",
  },
  {
    title: "another method in the header than in the body",
    body: modernCall(),
    headers: { ...MODERN_HEADERS, "mcp-method": "tools/list" },
    http: 400,
    code: -32_020,
    says: "method",
  },
  {
    title: "another tool in the header than in the body",
    body: modernCall(),
    headers: { ...MODERN_HEADERS, "mcp-name": "reports_read" },
    http: 400,
    code: -32_020,
    says: "tool",
  },
  {
    title: "another method in the header than in the body of an earlier version",
    body: CALL,
    headers: { "mcp-method": "tools/list" },
    http: 400,
    code: -32_020,
    says: "method",
  },
  {
    title: "another tool in the header than in the body of an earlier version",
    body: CALL,
    headers: { "mcp-protocol-version": "2025-11-25", "mcp-name": "reports_read" },
    http: 400,
    code: -32_020,
    says: "tool",
  },
  {
    title: "a tool in the header that is not canonical Base64",
    body: modernCall(),
    headers: { ...MODERN_HEADERS, "mcp-name": "=?base64?b3JkZXJzX2ZpbmR?=" },
    http: 400,
    code: -32_020,
    says: "Base64",
  },
  {
    title: "no version in the header of a modern request",
    body: modernCall(),
    headers: { "mcp-method": "tools/call", "mcp-name": "orders_find" },
    http: 400,
    code: -32_020,
    says: "MCP-Protocol-Version",
  },
  {
    title: "no method in the header of a modern request",
    body: modernCall(),
    headers: { "mcp-protocol-version": MODERN, "mcp-name": "orders_find" },
    http: 400,
    code: -32_020,
    says: "Mcp-Method",
  },
  {
    title: "no tool in the header of a modern call",
    body: modernCall(),
    headers: { "mcp-protocol-version": MODERN, "mcp-method": "tools/call" },
    http: 400,
    code: -32_020,
    says: "Mcp-Name",
  },
  {
    title: "a modern header without the body's version",
    body: CALL,
    headers: MODERN_HEADERS,
    http: 400,
    code: -32_602,
    says: `${META}protocolVersion`,
  },
  {
    title: "no capabilities of a modern client",
    body: modernCall({ [`${META}clientCapabilities`]: undefined }),
    headers: MODERN_HEADERS,
    http: 400,
    code: -32_602,
    says: `${META}clientCapabilities`,
  },
  {
    title: "a modern client without a name",
    body: modernCall({ [`${META}clientInfo`]: { version: "1" } }),
    headers: MODERN_HEADERS,
    http: 400,
    code: -32_602,
    says: `${META}clientInfo`,
  },
];

describe("a malformed call gets the protocol's error and one audit entry", () => {
  test.each(MALFORMED.map((row) => [row.title, row] as const))(
    "%s",
    async (_title, { body, headers, http, code, says }) => {
      const before = world.entries().length;
      const answer = await world.post(body, headers && { headers });
      expect([answer.http, answer.body.error.code]).toEqual([http, code]);
      expect(answer.body.error.message).toContain(says);
      expect(answer.body.jsonrpc).toBe("2.0");
      expect(world.entries().length).toBe(before + 1);
      expect(world.last()).toMatchObject({
        caller: { sub: "agent-7" },
        decision: "DENIED",
        denial: { stage: "REQUEST" },
        error: { code: "MALFORMED_REQUEST" },
        protocol: { name: "mcp" },
      });
      expect(world.last()?.denial?.reason).toContain(says);
    },
  );
});

describe("requests that are no calls", () => {
  test("leave no audit entry when they are malformed", async () => {
    const before = world.entries().length;
    const unknown = await world.post({ jsonrpc: "2.0", id: "a", method: "resources/list" });
    expect([unknown.http, unknown.body]).toEqual([
      200,
      { jsonrpc: "2.0", id: "a", error: { code: -32_601, message: "Method not found" } },
    ]);
    const modern = await world.modern("ping");
    expect([modern.http, modern.body.error.code]).toEqual([404, -32_601]);
    for (const invented of ["ä", "zzz", "", "YWJj", Buffer.from("unknown_tool").toString("base64")]) {
      const cursor = await world.post({ ...LIST, params: { cursor: invented } });
      expect([invented, cursor.http, cursor.body.error?.code]).toEqual([invented, 200, -32_602]);
    }
    expect(world.entries().length).toBe(before);
  });

  test("null for an optional member counts as absent", async () => {
    const usual = await world.post(LIST);
    for (const params of [null, { cursor: null }, { _meta: null, cursor: null }]) {
      expect((await world.post({ ...LIST, params })).body).toEqual(usual.body);
    }
    const called = await world.post({ ...CALL, params: { ...CALL.params, _meta: null } });
    expect(called.body.result.structuredContent).toBeDefined();
    const without = await world.post({ ...CALL, params: { name: "orders_find", arguments: null } });
    const empty = await world.post({ ...CALL, params: { name: "orders_find", arguments: {} } });
    expect(without.body.result.content).toEqual(empty.body.result.content);
    const list = await world.post({ ...LIST, params: [] });
    expect([list.http, list.body.error.code]).toEqual([400, -32_600]);
  });

  test("notifications and responses are accepted without an answer", async () => {
    for (const body of [
      { jsonrpc: "2.0", method: "notifications/initialized" },
      { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 7 } },
      { jsonrpc: "2.0", id: 3, result: {} },
    ]) {
      const before = world.entries().length;
      const { http, body: answer } = await world.post(body);
      expect([http, answer]).toEqual([202, undefined]);
      expect(world.entries().length).toBe(before);
    }
  });

  test("what a client says of itself is journaled without secrets and in plain ASCII", async () => {
    const clientInfo = { name: `ghp_${"a1B2c3D4e5F6".repeat(3)}`, version: "1\n\u202e\u2028" };
    const initialize = { ...LIST, method: "initialize", params: { clientInfo, protocolVersion: "2025-11-25" } };
    expect((await world.post(initialize)).http).toBe(200);
    expect(world.journal().at(-1)).toMatchObject({
      type: "mcp.introduced",
      protocol: { client: { name: "[REDACTED]", version: "1\\u000a\\u202e\\u2028" } },
    });
  });

  test("a client's name is journaled without what the operators' own rules find", async () => {
    const rule = { id: "EMPLOYEE", anchors: ["emp-"], pattern: "EMP-[0-9]{6}", matches: ["EMP-123456"] };
    const strict = await new McpWorld().start({ redaction: { rules: [rule] } });
    const clientInfo = { name: "agent of EMP-123456", version: "1" };
    const initialize = { ...LIST, method: "initialize", params: { clientInfo, protocolVersion: "2025-11-25" } };
    expect((await strict.post(initialize)).http).toBe(200);
    const name = { protocol: { client: { name: "agent of [REDACTED]" } } };
    expect(strict.journal().at(-1)).toMatchObject({ type: "mcp.introduced", ...name });
    await strict.end();
  });

  test("lists and introductions are journal lines with the client's name", async () => {
    const client = await world.client("2025-11-25");
    await client.listTools();
    const types = world.journal().filter(({ type }) => type === "mcp.introduced" || type === "tools.listed");
    expect(types.at(-2)).toMatchObject({
      type: "mcp.introduced",
      sub: "agent-7",
      protocol: { name: "mcp", version: "2025-11-25", client: { name: "test-client" } },
    });
    expect(types.at(-1)).toMatchObject({
      type: "tools.listed",
      sub: "agent-7",
      protocol: { name: "mcp", version: "2025-11-25" },
    });
  });
});

describe("the token", () => {
  test("comes before every error of the protocol; a 401 says where to get one", async () => {
    const where = 'resource_metadata="https://tools.example/.well-known/oauth-protected-resource"';
    for (const body of [
      CALL,
      LIST,
      [CALL],
      "{",
      { ...CALL, params: {} },
      { jsonrpc: "2.0", method: "notifications/initialized" },
    ]) {
      for (const token of [undefined, "a.b.c"]) {
        const { http, headers, body: answer } = await world.send("POST", "/mcp", { body, ...(token && { token }) });
        expect([http, answer.error.data.code]).toEqual([401, "UNAUTHENTICATED"]);
        expect(headers.get("www-authenticate")).toContain(where);
      }
    }
  });

  test("an unauthenticated call is audited as for POST /call, an unauthenticated list is not", async () => {
    const before = world.entries().length;
    await world.send("POST", "/mcp", { body: LIST });
    expect(world.entries().length).toBe(before);
    await world.send("POST", "/mcp", { body: CALL });
    expect(world.last()).toMatchObject({
      caller: { sub: "anonymous" },
      tool: { name: "orders_find" },
      error: { code: "UNAUTHENTICATED" },
      protocol: { name: "mcp" },
    });
  });

  test("without any permission that a tool requires is told that its scope is insufficient", async () => {
    const token = await world.caller({ permissions: ["something:else"] });
    const { http, headers } = await world.post(LIST, { token });
    expect(http).toBe(403);
    expect(headers.get("www-authenticate")).toStartWith('Bearer error="insufficient_scope", resource_metadata=');
  });
});

describe("Host, Origin, size and method", () => {
  test("a page of another origin and another host are refused and audited", async () => {
    for (const headers of [{ origin: "https://evil.example" }, { host: "evil.example" }]) {
      const answer = await world.post(CALL, { headers });
      expect([answer.http, answer.body.error.data.code]).toEqual([403, "HOST_NOT_ALLOWED"]);
      expect(world.last()).toMatchObject({ error: { code: "HOST_NOT_ALLOWED" }, protocol: { name: "mcp" } });
    }
  });

  test("a body over the limit and another media type are refused and audited", async () => {
    const large = await world.post({ ...CALL, params: { ...CALL.params, more: "x".repeat(1_100_000) } });
    expect([large.http, large.body.error.data.code]).toEqual([413, "PAYLOAD_TOO_LARGE"]);
    expect(world.last()?.error?.code).toBe("PAYLOAD_TOO_LARGE");
    const typed = await world.post(CALL, { headers: { "content-type": "text/plain" } });
    expect([typed.http, typed.body.error.data.code]).toEqual([415, "UNSUPPORTED_MEDIA_TYPE"]);
    expect(world.last()?.error?.code).toBe("UNSUPPORTED_MEDIA_TYPE");
  });

  test.each(["DELETE", "PUT"])("%s is 405: there are no sessions", async (method) => {
    for (const path of ["/mcp", "/mcp?x=1", "/%6dcp"]) {
      const { http, headers } = await world.send(method, path, { token: await world.caller() });
      expect([http, headers.get("allow")]).toEqual([405, "GET, POST"]);
      const elsewhere = await world.send(method, path, { headers: { host: "evil.example" } });
      expect([elsewhere.http, elsewhere.body.error.code]).toEqual([403, "HOST_NOT_ALLOWED"]);
    }
  });

  const STREAM = { accept: "text/event-stream", "mcp-protocol-version": "2025-11-25" };
  const NO_STREAMS: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
    ["without a version", { accept: "text/event-stream" }],
    ["of 2026-07-28", { ...STREAM, "mcp-protocol-version": MODERN }],
    ["of an unknown version", { ...STREAM, "mcp-protocol-version": "2024-11-05" }],
    ["that does not read events", { ...STREAM, accept: "application/json" }],
    ["without an Accept", { "mcp-protocol-version": "2025-06-18", accept: "" }],
  ];

  test.each(NO_STREAMS)("GET %s is 405, before the token is looked at and after Host and Origin", async (_, asked) => {
    for (const path of ["/mcp", "/mcp?x=1", "/%6dcp"]) {
      const { http, headers, body } = await world.send("GET", path, { headers: asked });
      expect([http, headers.get("allow"), body.error.code]).toEqual([405, "POST", "METHOD_NOT_ALLOWED"]);
      for (const from of [{ host: "evil.example" }, { origin: "https://evil.example" }]) {
        const elsewhere = await world.send("GET", path, { headers: { ...asked, ...from } });
        expect([elsewhere.http, elsewhere.body.error.data.code]).toEqual([403, "HOST_NOT_ALLOWED"]);
      }
    }
  });

  test("GET for a stream is 401 without a valid token", async () => {
    for (const token of [undefined, "x.y.z", await world.person()]) {
      const { http, headers, body } = await world.send("GET", "/mcp", { ...(token && { token }), headers: STREAM });
      expect([http, body.error.data.code]).toEqual([401, "UNAUTHENTICATED"]);
      expect(headers.get("www-authenticate")).toStartWith("Bearer ");
    }
    const forged = await world.send("GET", "/mcp", { headers: { ...STREAM, host: "evil.example" } });
    expect([forged.http, forged.body.error.data.code]).toEqual([403, "HOST_NOT_ALLOWED"]);
  });
});

describe("names", () => {
  test("a tool that the caller may not use and a tool that does not exist get the same answer; the audit tells them apart", async () => {
    const token = await world.caller({ permissions: ["orders:read"] });
    const answerFor = async (name: string) => {
      const { http, body } = await world.call(name, { order: "ord_1", cents: 5 }, { token });
      return [http, body.error.code, body.error.message.replace(name, "NAME"), body.error.data];
    };
    const hidden = await answerFor("orders_refund");
    expect(world.last()).toMatchObject({
      decision: "DENIED",
      error: { code: "PERMISSION_DENIED" },
      tool: { name: "orders_refund" },
    });
    const missing = await answerFor("orders_delete");
    expect(world.last()).toMatchObject({
      decision: "DENIED",
      error: { code: "TOOL_NOT_FOUND" },
      tool: { name: "orders_delete" },
    });
    expect(hidden).toEqual([200, -32_602, "Unknown tool: NAME", undefined]);
    expect(missing).toEqual(hidden);
  });

  test.each([
    "orders.find",
    "orders find",
    "ORDERS_FIND",
    "__proto__",
    "constructor",
    "x".repeat(65),
    "orders_find\u0000",
    "ordеrs_find",
  ])("%p is an unknown tool", async (name) => {
    const { http, body } = await world.post({ ...CALL, params: { name, arguments: {} } });
    expect([http, body.error.code]).toEqual([200, -32_602]);
    expect(body.error.message).toMatch(/^Unknown tool: [ -~]{1,64}$/);
    expect(world.last()).toMatchObject({ decision: "DENIED", error: { code: "TOOL_NOT_FOUND" } });
  });

  test("a call that needs more permissions than listing its tool is refused with a reason", async () => {
    const { body } = await world.call("orders_refund", { order: "ord_1", cents: 2_000 });
    expect(body.result).toMatchObject({
      isError: true,
      _meta: { "safe-tool-call/refusal": { code: "PERMISSION_DENIED" } },
    });
    expect(body.result.content[0].text).toStartWith("PERMISSION_DENIED: Your token lacks: orders:refund-large.");
    expect(world.last()).toMatchObject({ error: { code: "PERMISSION_DENIED" } });
  });
});

describe("what a client says of itself", () => {
  test("is bounded, escaped and without secrets in the audit", async () => {
    const clientInfo = { name: `\u202eevil\n${"x".repeat(500)}`, version: "ghp_0123456789abcdefghijABCDEFGHIJ012345" };
    await world.call("orders_find", { order: "ord_1" }, { _meta: { [`${META}clientInfo`]: clientInfo } });
    const { client } = world.last()?.protocol ?? {};
    expect(client?.name).toStartWith("\\u202eevil\\u000axxx");
    expect(client?.name.length).toBeLessThanOrEqual(128);
    expect(client?.version).not.toContain("0123456789abcdef");
  });

  test.each([
    "",
    "x",
    "W10",
    "WzEsMiwzXQ",
    Buffer.from('["2025-11-25","admin"]').toString("base64url"),
    "x".repeat(3_000),
  ])("a forged session id %p changes nothing", async (id) => {
    const { http, body } = await world.post(CALL, { headers: { "mcp-session-id": id } });
    expect([http, body.result.isError]).toEqual([200, undefined]);
    expect(world.last()).toMatchObject({
      caller: { sub: "agent-7" },
      protocol: { name: "mcp", version: "2025-03-26" },
    });
    expect(world.last()?.protocol?.client).toBeUndefined();
  });

  test("other members of _meta mean nothing", async () => {
    const { body } = await world.call(
      "orders_find",
      { order: "ord_1" },
      { _meta: { "safe-tool-call/caller": "root", sub: "root", "safe-tool-call/session": "x" } },
    );
    expect(body.result.isError).toBeUndefined();
    expect(world.last()).toMatchObject({ caller: { sub: "agent-7" } });
    expect(world.last()?.request.session).toBeUndefined();
  });
});

describe("long results", () => {
  test("are cut to mcp.resultBytesMax, and say so", async () => {
    const { body } = await world.call("reports_read", { characters: 200_000 });
    const [{ text }, note] = body.result.content;
    expect(JSON.stringify(body.result.structuredContent)).toHaveLength(65_536);
    expect(JSON.parse(text)).toEqual(body.result.structuredContent);
    expect(note.text).toStartWith("The result was too long");
    expect(body.result._meta["safe-tool-call/call"].truncated).toBe(true);
    expect(world.last()).toMatchObject({ decision: "ALLOWED", response: { truncated: true } });
  });

  test("are cut when an answer at POST /call is repeated for its idempotency key", async () => {
    const token = await world.caller();
    const headers = { "idempotency-key": "long-result" };
    const args = { characters: 200_000 };
    const sent = { token, headers, body: { tool: "reports_read", args } };
    expect((await world.send("POST", "/call", sent)).body.result.text.length).toBe(200_000);
    const { body } = await world.call("reports_read", args, { token, headers });
    expect(JSON.stringify(body.result.structuredContent)).toHaveLength(65_536);
    expect(body.result._meta["safe-tool-call/call"].truncated).toBe(true);
    expect(world.last()).toMatchObject({ approval: { by: "idempotency-key" }, response: { truncated: true } });
    expect((await world.send("POST", "/call", sent)).body.result.text.length).toBe(200_000);
  });

  test("are not cut for POST /call", async () => {
    const token = await world.caller();
    const { body } = await world.send("POST", "/call", {
      token,
      body: { tool: "reports_read", args: { characters: 200_000 } },
    });
    expect(body.result.text.length).toBe(200_000);
    expect(world.last()?.protocol).toBeUndefined();
    expect(JSON.stringify(world.last())).not.toContain("protocol");
  });
});
