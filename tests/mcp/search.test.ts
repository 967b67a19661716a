import { afterAll, beforeAll, expect, test } from "bun:test";
import { defineTool } from "safe-tool-call";
import { z } from "zod";
import type { Loose } from "../support/asking-service.ts";
import { McpWorld, TOOLS } from "./mcp-world.ts";

const MANY = Array.from({ length: 70 }, (_, index) =>
  defineTool({
    name: `warehouse_${String(index).padStart(2, "0")}`,
    description: index % 2 === 0 ? "Counts pallets" : "Counts boxes",
    classification: "read",
    permissions: { required: [index < 66 ? "stock:read" : "stock:audit"] },
    input: z.strictObject({}),
    output: z.object({ stock: z.int() }),
    outputPolicy: { stock: "allow" },
    handler: () => ({ stock: index }),
  }),
);

let world: McpWorld;
let token: string;
beforeAll(async () => {
  world = await new McpWorld().start({ tools: [...TOOLS, ...MANY] });
  token = await world.caller({ permissions: ["orders:refund", "stock:read"] });
});
afterAll(() => world.end());

function find(query: unknown, more: object = {}) {
  return world.call("find_tools", { query, ...more }, { token });
}

const namesIn = (tools: readonly { readonly name: string }[]) => tools.map(({ name }) => name);

test("a caller with more tools than mcp.searchAbove gets two, every other caller the whole list", async () => {
  const many = await world.modern("tools/list", {}, { token });
  expect(namesIn(many.body.result.tools)).toEqual(["find_tools", "call_tool"]);
  expect(many.body.result.tools.map(({ title, annotations }: Loose) => [title, annotations])).toEqual([
    [
      "Find tools",
      {
        ...{ title: "Find tools", readOnlyHint: true, destructiveHint: false },
        ...{ idempotentHint: true, openWorldHint: false },
      },
    ],
    [
      "Call a tool",
      {
        ...{ title: "Call a tool", readOnlyHint: false, destructiveHint: true },
        ...{ idempotentHint: false, openWorldHint: true },
      },
    ],
  ]);
  const few = await world.modern("tools/list", {}, { token: await world.caller({ permissions: ["stock:audit"] }) });
  expect(namesIn(few.body.result.tools)).toEqual(["warehouse_66", "warehouse_67", "warehouse_68", "warehouse_69"]);
});

test("what is found is what can be called: the same permissions, with the same descriptions as in a list", async () => {
  const { body } = await find("boxes audit refund", { limit: 25 });
  const names = namesIn(body.result.structuredContent.tools);
  expect(names[0]).toBe("orders_refund");
  expect(names.length).toBe(25);
  expect(names).not.toContain("warehouse_67");
  expect(JSON.parse(body.result.content[0].text)).toEqual(body.result.structuredContent);
  expect(body.result.structuredContent.tools[1]).toMatchObject({
    inputSchema: { type: "object" },
    annotations: { readOnlyHint: true },
  });
  for (const name of names.slice(1, 4)) {
    const called = await world.call("call_tool", { name }, { token });
    expect(called.body.result.structuredContent).toEqual({ stock: Number(name.slice(-2)) });
    expect(world.last()).toMatchObject({ decision: "ALLOWED", tool: { name } });
    const direct = await world.call(name, {}, { token });
    expect(direct.body.result.structuredContent).toEqual(called.body.result.structuredContent);
  }
});

test("a tool is found by the words of its title", async () => {
  const reader = await world.caller({ permissions: ["stock:read", "orders:read"] });
  const { body } = await world.call("find_tools", { query: "its" }, { token: reader });
  expect(namesIn(body.result.structuredContent.tools)).toEqual(["orders_find"]);
});

test("a tool that the caller may not use is unknown to the search and to the call", async () => {
  expect(namesIn((await find("warehouse_67")).body.result.structuredContent.tools)).not.toContain("warehouse_67");
  const hidden = await world.call("call_tool", { name: "warehouse_67" }, { token });
  expect([hidden.body.error.code, hidden.body.error.message]).toEqual([
    -32_602,
    "Unknown tool: warehouse_67; did you mean warehouse_07?",
  ]);
  expect(world.last()).toMatchObject({ error: { code: "PERMISSION_DENIED" }, tool: { name: "warehouse_67" } });
  for (const name of ["find_tools", "call_tool", "nothing"]) {
    expect((await world.call("call_tool", { name }, { token })).body.error.code).toBe(-32_602);
    expect(world.last()).toMatchObject({ error: { code: "TOOL_NOT_FOUND" } });
  }
});

test("a search is recorded as a list, and a search that is malformed as a malformed call", async () => {
  const before = world.entries().length;
  const { tools } = (await find("pallets ghp_0123456789abcdefghijABCDEFGHIJ012345")).body.result.structuredContent;
  const line = world.journal().at(-1);
  expect(line).toMatchObject({
    ...{ type: "tools.listed", sub: "agent-7", found: tools.length },
    protocol: { name: "mcp", version: "2026-07-28", client: { name: "hand", version: "1" } },
  });
  expect(line?.["iss"]).toBeString();
  // The words may be anything that a person said to the model.
  expect(JSON.stringify(line)).not.toMatch(/pallets|ghp_/);
  expect(world.entries().length).toBe(before);
  for (const args of [
    {},
    { query: 7 },
    { query: "x".repeat(300) },
    { query: "x", limit: 0 },
    { query: "x", more: 1 },
  ]) {
    const { body } = await world.call("find_tools", args, { token });
    expect(body.error.code).toBe(-32_602);
    expect(world.last()).toMatchObject({ error: { code: "MALFORMED_REQUEST" } });
  }
  for (const args of [{}, { name: 7 }, { name: "orders_refund", arguments: [] }, { name: "orders_refund", more: 1 }]) {
    expect((await world.call("call_tool", args, { token })).body.error.code).toBe(-32_602);
    expect(world.last()).toMatchObject({ error: { code: "MALFORMED_REQUEST" } });
  }
});

test("a caller whose list is whole has neither tool", async () => {
  for (const name of ["find_tools", "call_tool"]) {
    const { body } = await world.call(name, { query: "x", name: "orders_find" });
    expect(body.error.message).toBe(`Unknown tool: ${name}`);
    expect(world.last()).toMatchObject({ error: { code: "TOOL_NOT_FOUND" } });
  }
});

test("with mcp.searchAbove off the list is whole, in pages, without gaps", async () => {
  const whole = await new McpWorld().start({ tools: [...TOOLS, ...MANY, ...more(60)], mcp: { searchAbove: "off" } });
  const permissions = ["orders:refund", "orders:read", "stock:read", "stock:audit"];
  const client = await whole.client("2026-07-28", await whole.caller({ permissions }));
  const first = await client.request({ method: "tools/list", params: {} });
  expect(first.tools.length).toBe(100);
  const second = await client.request({ method: "tools/list", params: { cursor: first.nextCursor ?? "" } });
  const names = namesIn([...first.tools, ...second.tools]);
  expect([names.length, second.nextCursor]).toEqual([TOOLS.length + MANY.length + 60, undefined]);
  expect(names).toEqual(names.toSorted());
  await whole.end();
});

function more(count: number) {
  return Array.from({ length: count }, (_, index) =>
    defineTool({
      name: `yard_${index}`,
      description: "Counts trucks",
      classification: "read",
      permissions: { required: ["stock:read"] },
      input: z.strictObject({}),
      output: z.object({ stock: z.int() }),
      outputPolicy: { stock: "allow" },
      handler: () => ({ stock: index }),
    }),
  );
}
