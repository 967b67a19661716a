import { defineTool } from "safe-tool-call";
import { z } from "zod";

/** The cheapest possible tool, so that the pipeline itself is measured. */
export const echo = defineTool({
  name: "bench_echo",
  description: "Answer what was asked",
  classification: "read",
  permissions: { required: ["bench:run"] },
  input: z.strictObject({ text: z.string().max(200), count: z.int().min(0).max(100) }),
  handler: ({ text, count }) => ({ text, count, email: "somebody@example.org" }),
  output: z.strictObject({ text: z.string(), count: z.number(), email: z.string() }),
  outputPolicy: { text: "allow", count: "allow" },
});

/** A tiny program, without lookups. */
export const tiny = defineTool({
  name: "bench_tiny",
  description: "Run a tiny program",
  classification: "read",
  permissions: { required: ["bench:run"] },
  input: z.strictObject({
    text: z
      .string()
      .max(40)
      .regex(/^[a-z][a-z ]*$/),
  }),
  target: { system: "bench", cli: { command: "echo", argsBuilder: ({ text }) => [text] } },
  output: z.strictObject({ said: z.string() }),
  outputPolicy: { said: "allow" },
});
