import { z } from "zod";
import type { ReadonlyDeep } from "./readonly.ts";

/** What the endpoints of approvals answer operators. Members that a client can do without may be missing, or have any text. */

const time = z.iso.datetime();
const party = z.object({ iss: z.string(), sub: z.string() });
const deciders = z.object({ permissions: z.array(z.string()), subjects: z.array(party).optional() });

const lacking = z.object({ policy: z.string(), stage: z.string(), have: z.number(), needed: z.number() });

const voter = party.extend({ at: z.string().optional(), scope: z.string().optional(), reason: z.string().optional() });

const quorum = z.object({
  reasonRequired: z.string().default("never"),
  policies: z
    .array(
      z.object({
        name: z.string(),
        distinctPeople: z.boolean().default(false),
        stages: z.array(
          z.object({
            name: z.string(),
            state: z.string(),
            have: z.number(),
            needed: z.number(),
            voters: z.array(voter).default([]),
            deciders: deciders.optional(),
          }),
        ),
      }),
    )
    .default([]),
  missing: z.array(lacking).default([]),
});

const escalation = z.object({
  policy: z.string(),
  stage: z.string().optional(),
  afterSeconds: z.number(),
  dueAt: time,
  takenAt: time.optional(),
  webhooks: z.array(z.string()).default([]),
});

const earlierDecision = z.object({
  id: z.string().optional(),
  decision: z.string(),
  at: z.string(),
  by: party,
  reason: z.string().optional(),
});

/** How many calls an approver grants, how long, and which arguments may vary. */
const terms = z.object({ runs: z.number(), minutes: z.number(), arguments: z.record(z.string(), z.unknown()) });

/** An approval request, as operators see it. */
export const approvalAnswer = z.object({
  id: z.string().regex(/^[\w-]{1,128}$/),
  state: z.string(),
  tool: z.string(),
  summary: z.string(),
  createdAt: z.string().optional(),
  version: z.number().optional(),
  decideBy: time,
  executeBy: time.optional(),
  scope: z.string().optional(),
  decisionReason: z.string().optional(),
  /** The terms of the grant, for scope `bounded`. */
  granted: terms.optional(),
  /** The widest grant that an approver may give. */
  offer: terms.optional(),
  options: z.array(z.string()).default([]),
  risk: z.string().optional(),
  rules: z.array(z.string()).default([]),
  requester: party.extend({ act: z.array(z.string()).default([]), session: z.string().optional() }).optional(),
  /** The members of the hub through which the request came. */
  members: z.array(z.string()).default([]),
  classification: z.string().optional(),
  category: z.string().optional(),
  traceId: z.string().optional(),
  planDigest: z.string().optional(),
  view: z.unknown().optional(),
  /** In lists: what the call does, in one line. */
  headline: z.object({ does: z.string().optional(), what: z.string(), more: z.string().optional() }).optional(),
  arguments: z.unknown().optional(),
  viewDigest: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
  decidedAt: z.string().optional(),
  decidedBy: party.optional(),
  decidable: z.boolean().default(true),
  quorum: quorum.optional(),
  escalations: z.array(escalation).default([]),
  earlierDecisions: z.array(earlierDecision).default([]),
  answer: z.object({ choices: z.array(z.string()).optional(), text: z.string().optional() }).optional(),
  canDecide: z
    .object({
      approve: z.boolean().optional(),
      deny: z.boolean().optional(),
      vouch: z.boolean().optional(),
      because: z.string().optional(),
    })
    .optional(),
});

/** `GET /grants`. */
export const grantListing = z.object({
  grants: z.array(
    z.object({
      id: z.string(),
      issuer: z.string().optional(),
      subject: z.string(),
      session: z.string().optional(),
      tool: z.string(),
      summary: z.string(),
      expiresAt: time,
      grantedBy: party.optional(),
      /** Runs, and the bounds of arguments that may vary, in words. */
      bounded: z
        .object({ runs: z.number(), runsUsed: z.number(), arguments: z.record(z.string(), z.string()) })
        .optional(),
    }),
  ),
  truncated: z.boolean().default(false),
});

/** `GET /sessions`. */
export const sessionListing = z.object({
  sessions: z.array(
    z.object({
      id: z.string(),
      issuer: z.string(),
      subject: z.string(),
      mode: z.string(),
      modeUntil: time.optional(),
      modeSetBy: party.optional(),
      createdAt: z.string().optional(),
      expiresAt: time,
    }),
  ),
  truncated: z.boolean().default(false),
});

export type ApprovalAnswer = ReadonlyDeep<z.output<typeof approvalAnswer>>;
export type ApprovalQuorum = NonNullable<ApprovalAnswer["quorum"]>;
export type ApprovalTerms = ReadonlyDeep<z.output<typeof terms>>;
export type ShownGrant = ReadonlyDeep<z.output<typeof grantListing>>["grants"][number];
export type ShownSession = ReadonlyDeep<z.output<typeof sessionListing>>["sessions"][number];
