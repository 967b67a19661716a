import { defineTool } from "safe-tool-call";
import { z } from "zod";

/** An example of a manifest of your own: it is mounted beside those of the image. */
const RUNBOOKS = {
  SafeToolCallDown: "https://runbooks.example/safe-tool-call/down",
  SafeToolCallAuditUnavailable: "https://runbooks.example/safe-tool-call/audit",
} as const;

const Alert = z.enum(Object.keys(RUNBOOKS) as [keyof typeof RUNBOOKS, ...(keyof typeof RUNBOOKS)[]]);

export const findRunbook = defineTool({
  name: "find_runbook",
  description: "Where the runbook of an alert is",
  classification: "read",
  permissions: { required: ["runbooks:read"] },
  input: z.strictObject({ alert: Alert }),
  handler: ({ alert }) => ({ alert, url: RUNBOOKS[alert] }),
  output: z.strictObject({ alert: Alert, url: z.url() }),
  outputPolicy: { alert: "allow", url: "allow" },
  examples: { accepts: [{ alert: "SafeToolCallDown" }], rejects: [{ alert: "constructor" }] },
});
