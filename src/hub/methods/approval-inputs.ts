import { z } from "zod";
import { wantedAnswerSchema } from "../../approvals/answer.ts";
import { requirementSchema } from "../../approvals/approver-policies/requirement.ts";
import { grantBounds } from "../../approvals/grants.ts";
import { RISKS } from "../../approvals/types.ts";
import { APPROVAL_SCOPES, APPROVAL_STATES, CATEGORIES, CLASSIFICATIONS, type Json } from "../../core/types.ts";

/** Schemas of the inputs of approval methods. The store limits large parts; the wire limits the whole request. */

/** Longest wait of one request for events, in milliseconds. */
export const WAIT_MS_MAX = 25_000;

const NAME_LENGTH_MAX = 1_024;
const TEXT_LENGTH_MAX = 65_536;

const name = z.string().max(NAME_LENGTH_MAX);
const text = z.string().max(TEXT_LENGTH_MAX);
const id = z.string().min(1).max(128);
const digest = z.string().max(256);
// The wire has read JSON; bytes are what else it reads. `z.json()` takes seconds for a large view.
const json = z.custom<Json>(isJson, "is not JSON");

const owner = z.strictObject({ issuer: name, subject: name });

const requester = z
  .strictObject({ issuer: name, subject: name, actors: z.array(name).max(64), session: name.optional() })
  .transform(({ session, ...named }) => ({ ...named, session }));

const attach = z.union([z.literal("any"), z.strictObject({ id })]);

const request = z
  .strictObject({
    requester,
    tool: name,
    category: z.enum(CATEGORIES),
    classification: z.enum(CLASSIFICATIONS),
    risk: z.enum(RISKS),
    rules: z.array(text).max(1_000),
    planDigest: digest,
    view: json,
    viewDigest: digest,
    summary: text,
    scopes: z.array(z.enum(APPROVAL_SCOPES)).max(APPROVAL_SCOPES.length),
    grantKey: digest.optional(),
    offer: grantBounds.optional(),
    traceId: name,
    requirement: requirementSchema.optional(),
    answer: wantedAnswerSchema.optional(),
    callDigest: digest.optional(),
    attach: attach.optional(),
    shownPriors: z
      .array(z.strictObject({ id, state: z.enum(APPROVAL_STATES) }))
      .max(16)
      .optional(),
    claims: z.boolean().optional(),
  })
  .transform(({ grantKey, ...facts }) => ({ ...facts, grantKey }));

const claimed = { requester, planDigest: digest, requirementDigest: digest.optional() };

const usedKey = z.strictObject({ issuer: name, subject: name, tool: name, keyHash: digest });
const use = usedKey.extend({ argsHash: digest });
const keyEnd = z.enum(["not_run", "unknown"]);
const storedAnswer = z.strictObject({
  result: json,
  filteredFields: z.array(text),
  truncated: z.literal(true).optional(),
  outputHash: digest,
});

const call = z
  .strictObject({ tool: name, args: json, idempotencyKey: z.string().max(TEXT_LENGTH_MAX).optional() })
  .transform(({ idempotencyKey, ...made }) => ({ ...made, ...(idempotencyKey !== undefined && { idempotencyKey }) }));

const seq = z.int().min(0);
const limit = z.int().min(1).max(1_000);

export const APPROVAL_INPUTS = {
  ask: request,
  foresee: request,
  claim: z.strictObject({ id, ...claimed }),
  priorOf: z
    .strictObject({ ...claimed, callDigest: digest, attach: attach.optional() })
    .transform(({ attach: attached, ...facts }) => ({ ...facts, attach: attached })),
  settle: z.strictObject({ id, outcome: z.enum(["executed", "failed", "in_doubt", "unused"]) }),
  cancel: z.strictObject({ id, requester: owner }),
  get: z.strictObject({ id }),
  ageOf: z.strictObject({ id }),
  list: z.strictObject({
    requester: owner,
    state: z.enum(APPROVAL_STATES).optional(),
    limit: z.int().min(1).max(200),
    cursor: name.optional(),
  }),
  backlog: z.strictObject({}),
  findGrant: z.strictObject({ requester, grantKey: digest }),
  boundedGrants: z.strictObject({ requester, boundsKey: digest }),
  useGrant: z.strictObject({ id, traceId: name }),
  revokeGrantsFor: z.strictObject({ tools: z.array(name).max(10_000) }),
  openSession: z.strictObject({ requester: owner }),
  findSession: z.strictObject({ id: name, requester: owner }),
  hasSessionEnded: z.strictObject({ id: name, requester: owner }),
  endSession: z.strictObject({ id: name, requester: owner }),
  beginKey: z.strictObject({ use }),
  endKey: z.strictObject({
    use,
    end: z.union([keyEnd, storedAnswer, z.strictObject({ approvalId: id })]),
    unkept: keyEnd.optional(),
  }),
  createTask: z.strictObject({ requester, approvalId: id, call }),
  readTask: z.strictObject({ id, requester }),
  hasTask: z.strictObject({ id, requester }),
  endTask: z.strictObject({ id, end: z.strictObject({ answer: json, short: json, mayRunLater: z.boolean() }) }),
  cancelTask: z.strictObject({ id, requester }),
  eventsAfter: z.strictObject({ seq, limit }),
  lastSeq: z.strictObject({}),
  awaitEvents: z.strictObject({ seq, limit, timeoutMs: z.int().min(0).max(WAIT_MS_MAX) }),
  claimsOf: z.strictObject({ instance: name }),
  doubtClaimsOf: z.strictObject({ instance: name }),
  resolveDoubt: z
    .strictObject({
      instance: name,
      approvalId: id.optional(),
      use: usedKey.optional(),
      startedAt: z.number(),
      isDone: z.boolean(),
    })
    .transform(({ approvalId, use: key, ...found }) => ({ ...found, approvalId, use: key })),
} as const satisfies Readonly<Record<string, z.ZodType>>;

function isJson(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return value !== undefined;
  return !(value instanceof Uint8Array) && Object.values(value).every(isJson);
}

export type ApprovalMethodName = keyof typeof APPROVAL_INPUTS;
export type ApprovalInput<Name extends ApprovalMethodName> = z.output<(typeof APPROVAL_INPUTS)[Name]>;

/** Returns the name of a method in requests. */
export function approvalMethodName(method: ApprovalMethodName): string {
  return `approvals.${method}`;
}
