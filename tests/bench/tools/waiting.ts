import { defineTool } from "safe-tool-call";
import { z } from "zod";

/** Answers after a time, without using the processor meanwhile. */
export const waiting = defineTool({
  name: "bench_wait",
  description: "Answer later",
  classification: "read",
  permissions: { required: ["bench:run"] },
  limits: { concurrentCallsMax: 10_000 },
  input: z.strictObject({ ms: z.int().min(0).max(10_000) }),
  handler: async ({ ms }) => {
    await Bun.sleep(ms);
    return { ms };
  },
  output: z.strictObject({ ms: z.number() }),
  outputPolicy: { ms: "allow" },
});
