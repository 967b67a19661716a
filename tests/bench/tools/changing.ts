import { defineTool } from "safe-tool-call";
import { z } from "zod";

/** Changes nothing, but could. */
export const changing = defineTool({
  name: "bench_change",
  description: "Change something",
  classification: "write",
  category: "write",
  permissions: { required: ["bench:run"] },
  approval: { needsApproval: ({ how }) => how !== "quiet" },
  input: z.strictObject({ how: z.enum(["quiet", "loud"]) }),
  output: z.strictObject({}),
  outputPolicy: {},
  handler: () => ({}),
});
