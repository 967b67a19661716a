import { defineTool } from "safe-tool-call";
import { z } from "zod";

const permissions = { required: ["case:run"] };

/** What rows plant in errors and answers, and look for everywhere afterwards. */
const PLANTED = "planted-in-answer";
const PLANTED_ERROR = "planted-in-error";

/** Everything a careless or hostile target may answer; one of them is what was declared. */
const ANSWERS = {
  proper: () => ({ text: "fine" }),
  "wrong type": () => ({ text: 7 }),
  "missing field": () => ({}),
  "extra field": () => ({ text: "fine", more: PLANTED }),
  cyclic: () => {
    const answer: Record<string, unknown> = { text: PLANTED };
    answer["self"] = answer;
    return answer;
  },
  "own __proto__": () => JSON.parse(`{"text":"fine","__proto__":{"admin":"${PLANTED}"}}`),
  "not a number": () => ({ text: "fine", count: Number.NaN }),
  bigint: () => ({ text: "fine", count: 10n }),
  "throwing getter": () => ({
    get text(): string {
      throw new Error(PLANTED_ERROR);
    },
  }),
  "class instance": () => new Map([["text", PLANTED]]),
  nothing: () => undefined,
  "bare text": () => PLANTED,
  deep: () => JSON.parse(`${'{"text":'.repeat(100)}"${PLANTED}"${"}".repeat(100)}`),
  flood: () => ({ text: "fine", [PLANTED.repeat(10_000)]: 1 }),
  throws: () => {
    throw new Error(`${PLANTED_ERROR} at /srv/secret/path`);
  },
  "throws a text": () => {
    throw PLANTED_ERROR;
  },
  "throws nothing": () => {
    throw undefined;
  },
  "rejects late": async () => {
    await Promise.resolve();
    throw new Error(PLANTED_ERROR);
  },
} as const satisfies Record<string, () => unknown>;

type How = keyof typeof ANSWERS;

export const answer = defineTool({
  name: "case_answer",
  description: "Answer well or badly",
  classification: "read",
  permissions,
  input: z.strictObject({ how: z.enum(Object.keys(ANSWERS) as [How, ...How[]]) }),
  handler: ({ how }) => ANSWERS[how]() as { text: string },
  output: z.strictObject({ text: z.string() }),
  outputPolicy: { text: "allow" },
  limits: { outputBytesMax: 4_096 },
});

export const looseAnswer = defineTool({
  name: "case_loose_answer",
  description: "Answer well or badly, with a schema that overlooks what it does not know",
  classification: "read",
  permissions,
  input: z.strictObject({ how: z.enum(Object.keys(ANSWERS) as [How, ...How[]]) }),
  handler: ({ how }) => ANSWERS[how]() as { text: string },
  output: z.looseObject({ text: z.string() }),
  outputPolicy: { text: "allow" },
});

const Said = z.strictObject({
  text: z.string().max(64).optional(),
  count: z.int().min(0).max(100).optional(),
  mood: z.enum(["calm", "cross"]).optional(),
  public: z.string().max(64).optional(),
  half: z.string().max(64).optional(),
});

export const echo = defineTool({
  name: "case_echo",
  description: "Answer what was asked",
  classification: "read",
  permissions,
  input: Said,
  inputPolicy: { public: "allow", half: "mask" },
  handler: (input) => input,
  output: Said,
  outputPolicy: { "*": "allow" },
});

/** This runtime's own matcher takes exponential time for it. */
const Ambiguous = z.string().regex(/^(a+)+$/);

export const ambiguous = defineTool({
  name: "case_ambiguous",
  description: "Answer the letters that were sent, well or badly",
  classification: "read",
  permissions,
  input: z.strictObject({ letters: Ambiguous, well: z.boolean() }),
  handler: ({ letters, well }) => ({ letters: well ? letters : `${letters}!` }),
  output: z.strictObject({ letters: Ambiguous }),
  outputPolicy: { letters: "allow" },
});

/** Ends when its caller is gone or its time is up, and not before. */
export const hold = defineTool({
  name: "case_hold",
  description: "Wait until the call ends",
  classification: "read",
  permissions,
  input: z.strictObject({}),
  handler: (_input, { signal }) =>
    new Promise<Record<string, never>>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  output: z.strictObject({}),
  outputPolicy: {},
  timeoutMs: 600_000,
  limits: { concurrentCallsMax: 1 },
});

/** Does not listen to its signal. */
export const deaf = defineTool({
  name: "case_deaf",
  description: "Never answer",
  classification: "read",
  permissions,
  input: z.strictObject({}),
  handler: () => new Promise<Record<string, never>>(() => {}),
  output: z.strictObject({}),
  outputPolicy: {},
  timeoutMs: 50,
});

export const person = defineTool({
  name: "case_person",
  description: "Answer personal data in every corner",
  classification: "read",
  permissions,
  input: z.strictObject({}),
  handler: () => ({
    name: "Jane Roe",
    email: "jane.roe@example.com",
    card: 4_111_111_111_111_111,
    tags: ["vip", "jane.roe@example.com"],
    people: [{ name: "Jane Roe", ssn: "078-05-1120", notes: { ssn: "078-05-1120" } }],
    byEmail: { "jane.roe@example.com": "member" },
    kept: true,
  }),
  output: z.object({
    name: z.string(),
    email: z.string(),
    card: z.number(),
    tags: z.array(z.string()),
    people: z.array(z.object({ name: z.string(), ssn: z.string(), notes: z.record(z.string(), z.string()) })),
    byEmail: z.record(z.string(), z.string()),
    kept: z.boolean(),
  }),
  outputPolicy: { name: "mask", email: "redact", card: "mask", "people[].name": "mask", kept: "allow" },
});
