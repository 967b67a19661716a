import { expect, test } from "bun:test";
import { defineTool, type InputOf, type OutputOf, type ToolConfig } from "safe-tool-call";
import { z } from "zod";

const add = defineTool({
  name: "add",
  description: "Add two numbers",
  classification: "read",
  permissions: { required: ["math:use"], elevatedIf: { when: ({ a }) => a > 10, required: ["math:big"] } },
  input: z.strictObject({ a: z.number(), b: z.number().default(1) }),
  handler: ({ a, b }) => ({ sum: a + b }),
  output: z.strictObject({ sum: z.number() }),
  outputPolicy: { sum: "allow" },
});

const input: InputOf<typeof add> = { a: 1 };
const output: OutputOf<typeof add> = { sum: 2 };

/** Rows that must not compile. */
export function mistakes(): void {
  // @ts-expect-error what goes in has the schema's type
  const wrongInput: InputOf<typeof add> = { a: "1" };
  // @ts-expect-error what comes out has the schema's type
  const wrongOutput: OutputOf<typeof add> = { sum: "2" };
  void [wrongInput, wrongOutput];
  defineTool({
    name: "x",
    description: "x",
    classification: "read",
    permissions: { required: ["x:y"] },
    input: z.strictObject({ text: z.string() }),
    // @ts-expect-error the handler gets what the input schema yields
    handler: ({ missing }) => ({ said: missing }),
    output: z.strictObject({ said: z.string() }),
    outputPolicy: { said: "allow" },
  });
  defineTool({
    name: "x",
    description: "x",
    // @ts-expect-error classifications are a closed list
    classification: "harmless",
    permissions: { required: ["x:y"] },
    input: z.strictObject({}),
    handler: () => ({}),
    output: z.strictObject({}),
    outputPolicy: {},
  });
  defineTool((config: ToolConfig) => ({
    name: "x",
    description: "x",
    classification: "read",
    permissions: { required: ["x:y"] },
    input: z.strictObject({ repo: config.oneOf("git", "repositories") }),
    target: {
      system: "git",
      cli: {
        command: "git",
        lookups: { id: () => [] },
        // @ts-expect-error only declared lookups are found
        argsBuilder: (_input, { other }) => [other],
      },
    },
    output: z.strictObject({ text: z.string() }),
    outputPolicy: { text: "allow" },
  }));
}

test("types are inferred from the schemas", () => {
  expect([input, output, typeof mistakes]).toEqual([{ a: 1 }, { sum: 2 }, "function"]);
});
