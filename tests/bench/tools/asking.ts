import { defineTool } from "safe-tool-call";
import { z } from "zod";

/** Changes nothing, but asks a person first; or changes something without asking. */
export const asking = defineTool({
  name: "bench_ask",
  description: "Change something after an approval",
  classification: "write",
  category: "write",
  permissions: { required: ["bench:run"] },
  approval: { needsApproval: ({ asks }) => asks },
  input: z.strictObject({ asks: z.boolean(), what: z.int().min(0) }),
  output: z.strictObject({}),
  outputPolicy: {},
  handler: () => ({}),
});
