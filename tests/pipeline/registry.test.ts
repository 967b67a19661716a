import { expect, test } from "bun:test";
import { z } from "zod";
import { ManifestError } from "../../src/core/errors.ts";
import type { Handler, Tool } from "../../src/core/types.ts";
import { defineTool } from "../../src/index.ts";
import { createRegistry } from "../../src/pipeline/registry.ts";

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
