import { z } from "zod";
import { REFUSALS, type RefusalCode, STAGE_NAMES } from "../../src/core/refusals.ts";
import { TOKEN_KINDS } from "./live-tokens.ts";
import { SEND_MODES } from "./raw-http.ts";

/** Where a row is played: each is a service of its own, described in `case-situations.ts`. */
export const SITUATIONS = [
  ...[
    "plain",
    "small limits",
    "keys down",
    "caller at its limit",
    "service at its limit",
    "tool at its limit",
    "listener at its limit",
  ],
  ...["asking", "asking in a hurry", "questions lost"],
  ...["draining", "few unauthenticated lines", "audit deleted", "audit replaced", "audit failing"],
] as const;

export type SituationName = (typeof SITUATIONS)[number];

const codes = Object.keys(REFUSALS) as [RefusalCode, ...RefusalCode[]];
const members = z.record(z.string(), z.unknown());

const token = z.strictObject({
  kind: z.enum(TOKEN_KINDS).default("good"),
  sub: z.string().default("agent-7"),
  permissions: z.array(z.string()).default(["case:run"]),
  claims: members.optional(),
});

/** Text, the same text many times over, or bytes that are no text. */
const part = z.union([
  z.string(),
  z.strictObject({ text: z.string(), times: z.int().min(1) }),
  z.strictObject({ hex: z.string().regex(/^([0-9a-f]{2})+$/) }),
]);

const given = z.strictObject({
  through: z.enum(["http", "library"]).default("http"),
  situation: z.enum(SITUATIONS).default("plain"),
  token: token.prefault({}),
  method: z.string().default("POST"),
  path: z.string().default("/call"),
  /** Header lines beside those of an ordinary call, or instead of those of the same name. */
  headers: z.array(z.string().regex(/^[^:]+: /)).default([]),
  without: z.array(z.string()).default([]),
  tool: z.string().optional(),
  args: members.optional(),
  /** Instead of `tool` and `args`: the bytes of the body. */
  body: z.union([part, z.array(part)]).optional(),
  send: z.enum(SEND_MODES).default("whole"),
  /** A call before it: the same, but for what stands here. */
  earlier: z
    .strictObject({
      tool: z.string().optional(),
      args: members.optional(),
      sub: z.string().optional(),
      /** It is under way still when the row's call is sent. */
      unanswered: z.boolean().default(false),
      /** What became of the question that it asked; the row's call names it, in place of `$APPROVAL`. */
      question: z.enum(["pending", "approved", "denied", "cancelled", "revoked", "used", "expired"]).optional(),
    })
    .optional(),
  approval: z.string().optional(),
  /** Sends it again and again; what is wanted is wanted of the last answer. */
  times: z.int().min(1).default(1),
  /** Sends it until an answer has this code. */
  until: z.enum(codes).optional(),
});

const success = z.strictObject({
  http: z.literal(200).default(200),
  status: z.literal("success"),
  result: z.unknown(),
  filteredFields: z.array(z.string()),
});

const refusal = z.strictObject({
  http: z.int(),
  status: z.enum(["denied", "error", "pending"]),
  code: z.enum(codes),
  stage: z.enum(STAGE_NAMES),
  message: z.string().min(1),
  details: members.optional(),
  retryable: z.boolean(),
  retryAfterMs: z.union([z.int(), z.literal("some")]).optional(),
  headers: z.record(z.string(), z.string()).optional(),
});

/** What is not a call answers something else. */
const other = z.strictObject({ http: z.int(), body: members.optional(), text: z.string().optional() });

const audited = z.strictObject({
  decision: z.enum(["ALLOWED", "DENIED", "ERROR", "PENDING"]),
  caller: z.strictObject({
    sub: z.string(),
    permissions: z.array(z.string()).optional(),
    iss: z.string().optional(),
    act: z.array(z.string()).optional(),
  }),
  tool: z.strictObject({ name: z.string(), classification: z.string(), targetSystem: z.string() }).optional(),
  request: members.optional(),
  denial: z.strictObject({ details: members }).optional(),
  response: z.strictObject({ filteredFields: z.array(z.string()) }).optional(),
  approval: z.strictObject({ by: z.string().optional(), id: z.literal("$APPROVAL").optional() }).optional(),
  trace: members.optional(),
  /** Members that the line must not have. */
  absent: z.array(z.enum(["plan", "approval", "approval.by", "response", "denial", "error", "trace"])).default([]),
});

export const row = z.strictObject({
  id: z.int().min(100).max(999),
  title: z.string().min(8),
  given,
  want: z.union([success, refusal, other, z.literal("no answer")]),
  /** Of the call's one line, in part. `nothing`: no line; `summed`: fewer lines than calls. */
  audited: z.union([audited, z.enum(["nothing", "summed"])]),
  /** Whether an intent stands in the journal, before the line. */
  intent: z.boolean().default(false),
  /** Texts that must stand nowhere: not in the answer, the audit, the journal or the log. */
  secrets: z.array(z.string().min(4)).default([]),
});

export type Row = z.output<typeof row>;
export type Want = Row["want"];
export type WantedRefusal = z.output<typeof refusal>;
export const rows = z.array(row).min(1);

export function isRefusal(want: Want): want is WantedRefusal {
  return typeof want === "object" && "code" in want;
}
