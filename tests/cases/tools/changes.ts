import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { defineTool } from "safe-tool-call";
import { z } from "zod";

const permissions = { required: ["case:run"] };
const PLANTED = "planted-in-answer";
const PLANTED_ERROR = "planted-in-error";

const change = {
  classification: "write",
  category: "network",
  permissions,
  approval: { needsApproval: () => false },
  input: z.strictObject({}),
  output: z.strictObject({}),
  outputPolicy: {},
} as const;

/** Says how many intents of this very call lie in the journal while it runs. */
export const write = defineTool({
  ...change,
  name: "case_write",
  description: "Change something, and look whether the intent was there before",
  input: z.strictObject({ journal: z.string().max(4_096).optional() }),
  handler: ({ journal }, { traceId }) => ({ intents: journal === undefined ? 0 : intents(journal, traceId) }),
  output: z.strictObject({ intents: z.number() }),
  outputPolicy: { intents: "allow" },
});

function intents(journal: string, traceId: string): number {
  const lines = readdirSync(journal).flatMap((name) => readFileSync(join(journal, name), "utf8").split("\n"));
  return lines.filter((line) => line.includes('"type":"intent"') && line.includes(traceId)).length;
}

export const writeDeaf = defineTool({
  ...change,
  name: "case_write_deaf",
  description: "Begin a change and never answer",
  handler: () => new Promise<Record<string, never>>(() => {}),
  timeoutMs: 2_000, // The intent has to be on disk before: a busy disk takes a while.
});

export const writeThrows = defineTool({
  ...change,
  name: "case_write_throws",
  description: "Begin a change and fail",
  handler: () => {
    throw new Error(PLANTED_ERROR);
  },
});

export const writeLies = defineTool({
  ...change,
  name: "case_write_lies",
  description: "Change something and answer what was not declared",
  handler: () => JSON.parse(`{"surplus":"${PLANTED}"}`),
});

export const writeAsks = defineTool({
  ...change,
  name: "case_write_asks",
  description: "Change something; nothing says that nobody need be asked",
  approval: {},
  handler: () => ({}),
});

export const writeMayAsk = defineTool({
  ...change,
  name: "case_write_may_ask",
  description: "Change something; whether a person is asked depends on the input",
  input: z.strictObject({ how: z.enum(["no", "yes", "throws", "not boolean"]) }),
  approval: {
    needsApproval: ({ how }) => {
      if (how === "throws") throw new Error(PLANTED_ERROR);
      return (how === "not boolean" ? 0 : how === "yes") as boolean;
    },
  },
  handler: () => ({}),
});

export const readRequired = defineTool({
  ...change,
  name: "case_read_required",
  description: "Read something that a person must agree to each time",
  classification: "read",
  category: "read",
  approval: { required: true, needsApproval: () => false },
  handler: () => ({}),
});

export const question = defineTool({
  ...change,
  name: "case_question",
  description: "Ask a person",
  classification: "read",
  category: "ask",
  handler: () => ({}),
});

export const destroy = defineTool({
  ...change,
  name: "case_destroy",
  description: "Destroy something",
  classification: "destructive",
  handler: () => ({}),
});

export const elevated = defineTool({
  ...change,
  name: "case_elevated",
  description: "Read; some arguments need more",
  classification: "read",
  category: "read",
  permissions: {
    ...permissions,
    elevatedIf: {
      when: ({ level }: { readonly level: string }) => {
        if (level === "throws") throw new Error(PLANTED_ERROR);
        return (level === "not boolean" ? undefined : level === "high") as boolean;
      },
      required: ["case:elevated"],
    },
  },
  input: z.strictObject({ level: z.string().max(16).trim().toLowerCase() }),
  inputPolicy: { level: "allow" },
  handler: () => ({}),
});
