import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { ManifestError } from "../../src/core/errors.ts";
import type { RegisteredTool } from "../../src/core/evidence.ts";
import type { Handler, Tool } from "../../src/core/types.ts";
import { defineTool } from "../../src/index.ts";
import { createRegistry, meantTool } from "../../src/pipeline/registry.ts";

const handler: Handler = {
  bind: () => ({ plan: () => ({ kind: "inline" }), run: async () => ({}) }),
  close: async () => {},
};
const HANDLERS = { grpc: handler, cli: handler, fs: handler, handler };

const tool = defineTool({
  name: "look",
  description: "Look at nothing",
  classification: "read",
  permissions: { required: ["look:run"] },
  input: z.strictObject({}),
  handler: () => ({}),
  output: z.strictObject({}),
  outputPolicy: {},
});

test.each([
  ["no known kind", { submarine: {} }],
  ["two kinds", { grpc: {}, cli: {} }],
])("a tool whose target is of %s is refused, and never counts as another kind", (_title, target) => {
  const unknown = { ...tool, name: "dive", target: { system: "sea", ...target } } as unknown as Tool;
  let thrown: unknown;
  try {
    createRegistry([tool, unknown], HANDLERS, () => "");
  } catch (error) {
    thrown = error;
  }
  const [problem] = (thrown as AggregateError).errors;
  expect(problem).toBeInstanceOf(ManifestError);
  expect((problem as ManifestError).message).toContain("dive");
  expect((problem as ManifestError).message).toContain("target");
});

test("a function is bound by its own kind", () => {
  expect(createRegistry([tool], HANDLERS, () => "").list()).toHaveLength(1);
});

describe("the tool that was probably meant", () => {
  const named = (name: string, required = ["look:run"]): RegisteredTool =>
    ({ tool: { ...tool, name, permissions: { required } } }) as unknown as RegisteredTool;
  const tools = [named("find_orders"), named("delete_order", ["orders:delete"]), named("list_orders")];
  const caller = { permissions: ["look:run"] };

  test.each([
    ["find_order", "find_orders"],
    ["findOrders", "find_orders"],
    ["FIND-ORDERS", "find_orders"],
    ["functions.find_orders", "find_orders"],
    ["mcp__orders__list_orders", "list_orders"],
    ["orders:fnd_orders", "find_orders"],
    ["delete_orders", undefined],
    ["delete_order", undefined],
    ["functions.delete_order", undefined],
    ["weather", undefined],
    ["", undefined],
  ])("%p", (name, meant) => expect(meantTool(name, tools, caller)).toBe(meant as string));

  test("is found among 10,000 tools with names that are almost the same, and a huge name has none", () => {
    const many = Array.from({ length: 10_000 }, (_, at) => named(`${"a".repeat(50)}_${String(at).padStart(5, "0")}`));
    expect(meantTool("find_orders".repeat(100_000), [...tools, ...many], caller)).toBeUndefined();
    expect(meantTool(`${"a".repeat(50)}_0777`, many, caller)).toBe(`${"a".repeat(50)}_00777`);
  });
});
