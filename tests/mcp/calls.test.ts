import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { defineTool } from "safe-tool-call";
import { z } from "zod";
import { McpWorld, TOOLS } from "./mcp-world.ts";

let world: McpWorld;
beforeAll(async () => {
  world = await new McpWorld().start();
});
afterAll(() => world.end());

describe.each(["2026-07-28", "2025-11-25", "2025-06-18"])("the official client, protocol version %s", (version) => {
  test("lists exactly the tools that its caller can call", async () => {
    const client = await world.client(version);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(["orders_find", "orders_refund", "reports_read"]);
    const reader = await world.client(version, await world.caller({ permissions: ["orders:read"] }));
    const { tools: fewer } = await reader.listTools();
    expect(fewer.map(({ name }) => name)).toEqual(["orders_find", "reports_read"]);
  });

  test("gets a filtered result, and its call is one audit line with the protocol", async () => {
    const client = await world.client(version);
    const before = world.entries().length;
    const { content, structuredContent, isError } = await client.callTool({
      name: "orders_find",
      arguments: { order: "ord_1" },
    });
    const result = { order: "ord_1", email: "a**@c********.example", total: 12.5 };
    expect([isError, structuredContent]).toEqual([undefined, result]);
    expect(content).toEqual([{ type: "text", text: JSON.stringify(result) }]);
    expect(world.entries().length).toBe(before + 1);
    expect(world.last()).toMatchObject({
      decision: "ALLOWED",
      tool: { name: "orders_find" },
      protocol: { name: "mcp", version, client: { name: "test-client", version: "1.2.3" } },
      response: { filteredFields: ["email", "note"] },
    });
  });

  test("is told what to change about refused arguments, and the corrected call runs", async () => {
    const client = await world.client(version);
    const refused = await client.callTool({ name: "orders_find", arguments: { order: "1" } });
    expect(refused.isError).toBe(true);
    const [{ text = "" } = {}] = refused.content as readonly { readonly text?: string }[];
    expect(text).toStartWith("INVALID_INPUT: The arguments do not match the tool's input schema: order.");
    expect(text).toContain("- order: ");
    expect(refused._meta?.["safe-tool-call/refusal"]).toMatchObject({ code: "INVALID_INPUT", stage: "VALIDATION" });
    expect(world.last()).toMatchObject({
      decision: "DENIED",
      denial: { stage: "VALIDATION" },
      error: { code: "INVALID_INPUT" },
    });
    const corrected = await client.callTool({ name: "orders_find", arguments: { order: "ord_1" } });
    expect(corrected.isError).toBeUndefined();
  });
});

test.each([
  [[]],
  [["orders:read"]],
  [["orders:refund"]],
  [["orders:refund-large"]],
  [["orders:read", "orders:refund"]],
  [["orders:rea"]],
  [["*"]],
])("with the permissions %j, what is listed is what can be called, in both eras", async (permissions) => {
  const token = await world.caller({ permissions });
  const callable: string[] = [];
  for (const { name } of TOOLS) {
    const { body } = await world.call(name, {}, { token });
    if (body.error === undefined) callable.push(name);
  }
  const list = { jsonrpc: "2.0", id: 1, method: "tools/list" };
  for (const answer of [await world.modern("tools/list", {}, { token }), await world.post(list, { token })]) {
    const listed = answer.body.result?.tools.map(({ name }: { readonly name: string }) => name) ?? [];
    expect(listed).toEqual(callable.toSorted());
    expect(answer.http).toBe(callable.length > 0 ? 200 : 403);
  }
});

/** Lists `items` numbers. */
function numbers(name: string, limits: { readonly resultBytesMax?: number; readonly outputBytesMax?: number }) {
  return defineTool({
    name,
    description: "Lists numbers",
    classification: "read",
    permissions: { required: ["orders:read"] },
    input: z.strictObject({ items: z.int() }),
    output: z.object({ items: z.array(z.int()) }),
    outputPolicy: { "items[]": "allow" },
    limits,
    handler: ({ items }) => ({ items: Array.from({ length: items }, (_, index) => 100_000 + index) }),
  });
}

describe("a tool's own limit of results", () => {
  const tools = [
    numbers("plain", {}),
    numbers("lower", { resultBytesMax: 1_000 }),
    numbers("higher", { resultBytesMax: 200_000 }),
    numbers("highest", { resultBytesMax: 600_000, outputBytesMax: 600_000 }),
  ];
  const TRUNCATED = "safe-tool-call/call";
  let own: McpWorld;
  beforeAll(async () => {
    own = await new McpWorld().start({ tools });
  });
  afterAll(() => own.end());

  test.each([
    ["plain", 65_536],
    ["lower", 1_000],
    ["higher", 200_000],
  ])("%s: what is longer than %i bytes is cut, in both eras", async (name, bytesMax) => {
    for (const version of ["2026-07-28", "2025-11-25"]) {
      const client = await own.client(version);
      const whole = await client.callTool({ name, arguments: { items: 100 } });
      expect(whole._meta?.[TRUNCATED]).not.toHaveProperty("truncated");
      const cut = await client.callTool({ name, arguments: { items: 50_000 } });
      expect(cut._meta?.[TRUNCATED]).toMatchObject({ truncated: true });
      const [{ text = "" } = {}] = cut.content as readonly { readonly text?: string }[];
      // Lists are cut at elements.
      expect(text.length).toBeLessThanOrEqual(bytesMax);
      expect(text.length).toBeGreaterThan(bytesMax - 20);
      expect(JSON.stringify(cut.structuredContent)).toBe(text);
    }
  });

  test("does not apply to /call, where the limit of outputs does", async () => {
    const { body } = await own.send("POST", "/call", {
      token: await own.caller(),
      body: { tool: "lower", args: { items: 1_000 } },
    });
    expect([body.result.items.length, body.truncated]).toEqual([1_000, undefined]);
  });

  test("is announced to Claude Code where a manifest sets it, up to the largest value that it takes", async () => {
    const { body } = await own.modern("tools/list");
    const sizes = body.result.tools.map(({ name, _meta }: { readonly name: string; readonly _meta: object }) => [
      name,
      (_meta as Readonly<Record<string, unknown>>)["anthropic/maxResultSizeChars"],
    ]);
    expect(sizes).toEqual([
      ["higher", 200_128],
      ["highest", 500_000],
      ["lower", 1_128],
      ["plain", undefined],
    ]);
  });
});

test("a tool is listed with the title of its manifest, or its name in words, in both eras and at GET /tools", async () => {
  const titles = [
    ["orders_find", "Find an order by its id"],
    ["orders_refund", "Orders refund"],
    ["reports_read", "Reports read"],
  ] as const;
  for (const version of ["2026-07-28", "2025-11-25"]) {
    const { tools } = await (await world.client(version)).listTools();
    expect(tools.map(({ name, title = "" }) => [name, title])).toEqual(titles.map((pair) => [...pair]));
    expect(tools.map(({ name, annotations }) => [name, annotations?.title])).toEqual(titles.map((pair) => [...pair]));
  }
  const { body } = await world.send("GET", "/tools", { token: await world.caller() });
  const listed = body.tools.map(({ name, title }: { readonly name: string; readonly title: string }) => [name, title]);
  expect(listed.toSorted()).toEqual(titles.map((pair) => [...pair]));
});

test("a call that repeats the `_meta` of its tool's list entry is a call like any other", async () => {
  const { body } = await world.modern("tools/list");
  const [{ name, _meta }] = body.result.tools;
  expect(_meta).toEqual({
    "safe-tool-call/approval": { category: "read", asks: "never" },
    "safe-tool-call/location": "server",
  });
  const answer = await world.call(name, { order: "ord_1" }, { _meta });
  expect(answer.body.result.structuredContent).toMatchObject({ order: "ord_1" });
  expect(world.last()).toMatchObject({ decision: "ALLOWED", tool: { name } });
});
