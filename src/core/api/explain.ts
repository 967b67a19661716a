import { z } from "zod";
import { VERDICTS } from "../call-result.ts";
import { names, stages } from "./inventory.ts";
import type { ReadonlyDeep } from "./readonly.ts";

const statement = z.object({
  stage: z.enum(["REGISTRY", "PERMISSION", "VALIDATION", "APPROVAL", "LIMIT"]),
  point: z.string().describe("A policy point, or `registry`, `schema`, `approval`, `grants`, `quotas`."),
  verdict: z.enum([...VERDICTS, "unknown"]),
  reasons: names,
  code: z.string().optional(),
});

const flowSource = z.object({
  argument: z.string(),
  tool: z.string(),
  traceId: z.string(),
  field: z.string(),
  place: z.string().optional(),
  labels: names,
  trusted: z.boolean().optional(),
  part: z.boolean().optional(),
});

/** Something that an operator would have to change, or the agent would have to send, for the call to run by itself. */
const change = z.object({
  kind: z.enum([
    "tool",
    "permissions",
    "arguments",
    "rules",
    "points",
    "approval",
    "manifest",
    "halts",
    "dataFlow",
    "quotas",
    "store",
    "nothing",
  ]),
  names,
  text: z.string(),
});

/** What every policy says about a call that is not made: `POST /explain`. */
export const explanation = z.object({
  tool: z.string(),
  policyVersion: z.string().describe("Digest of the configuration, as audit entries name it."),
  caller: z.object({ iss: z.string(), sub: z.string(), permissions: names }),
  mode: z.string(),
  verdict: z.enum([...VERDICTS, "unknown"]),
  code: z.string().optional().describe("The refusal of a call that is denied."),
  statements: z.array(statement).describe("What was decided, in the order of the pipeline."),
  permissions: z.object({ required: names, missing: names }),
  risk: z.string().optional(),
  rules: names.describe("Rules that matched: `operator:` and a name, or a built-in one."),
  approvalPolicies: z
    .array(z.looseObject({ name: z.string(), stages }))
    .describe("Who would have to approve; empty: anybody."),
  dataFlow: z
    .object({ labels: names.optional(), sources: z.array(flowSource).optional() })
    .optional()
    .describe("What the caller has read, and where values of arguments appeared in it."),
  plan: z.unknown().optional().describe("What an approver would see."),
  noPlan: z.string().optional().describe("Why there is no plan."),
  changes: z.array(change).describe("What would have to change for the call to run by itself."),
});

export type Statement = ReadonlyDeep<z.output<typeof statement>>;
export type Change = ReadonlyDeep<z.output<typeof change>>;
export type Explanation = ReadonlyDeep<z.output<typeof explanation>>;
