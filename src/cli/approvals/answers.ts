import { z } from "zod";
import { canonicalJson, NotJsonError, sha256Hex } from "../../core/digest.ts";
import type { Json } from "../../core/types.ts";

const time = z.iso.datetime().transform((text) => Date.parse(text));
const party = z.object({ iss: z.string(), sub: z.string() });

const lacking = z.object({ policy: z.string(), stage: z.string(), have: z.number(), needed: z.number() });

const quorum = z.object({
  reasonRequired: z.string().default("never"),
  policies: z
    .array(
      z.object({
        name: z.string(),
        stages: z.array(
          z.object({
            name: z.string(),
            state: z.string(),
            have: z.number(),
            needed: z.number(),
            voters: z.array(party).default([]),
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
  decision: z.string(),
  at: z.string(),
  by: party,
  reason: z.string().optional(),
});

/** Limits for the view in an answer: larger than any view that a service sends. */
const VIEW_LIMITS = { depthMax: 64, nodesMax: 300_000, bytesMax: 2_097_152 } as const;

const view = z.unknown().transform((shown, context): Json => {
  try {
    canonicalJson(shown, VIEW_LIMITS);
    // Returns the value, not its canonical text, so that the members keep the order of the service.
    return shown as Json;
  } catch (error) {
    if (!(error instanceof NotJsonError)) throw error;
    context.addIssue({ code: "custom", message: error.message });
    return z.NEVER;
  }
});

const approval = z.object({
  id: z.string().regex(/^[\w-]{1,128}$/),
  state: z.string(),
  tool: z.string(),
  summary: z.string(),
  decideBy: time,
  executeBy: time.nullish(),
  scope: z.string().nullish(),
  decisionReason: z.string().nullish(),
  options: z.array(z.string()).default([]),
  risk: z.string().optional(),
  rules: z.array(z.string()).default([]),
  requester: party.extend({ act: z.array(z.string()).default([]), session: z.string().nullish() }).optional(),
  planDigest: z.string().optional(),
  view: view.optional(),
  arguments: view.optional(),
  viewDigest: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
  decidedBy: party.nullish(),
  decidable: z.boolean().default(true),
  quorum: quorum.optional(),
  escalations: z.array(escalation).default([]),
  earlierDecisions: z.array(earlierDecision).default([]),
  answer: z.object({ choices: z.array(z.string()).optional(), text: z.string().optional() }).optional(),
  canDecide: z.object({ because: z.string().optional() }).optional(),
});

export type ShownApproval = z.output<typeof approval>;

const one = z.object({ approval });
const page = z.object({ approvals: z.array(approval), cursor: z.string().nullish() });
const event = z.object({ id: z.string() });

/** Returns whether the view matches its digest. A decision applies to the digest. */
export function isViewOfDigest({ view, viewDigest, planDigest }: ShownApproval): boolean {
  const limits = { ...VIEW_LIMITS, depthMax: VIEW_LIMITS.depthMax + 1 };
  if (view === undefined) return true;
  if (planDigest === undefined) return false;
  return sha256Hex(canonicalJson({ t: "stc/view/v1", planDigest, view }, limits)) === viewDigest;
}

export function readApproval(body: unknown): ShownApproval | undefined {
  return one.safeParse(body).data?.approval;
}

export function readApprovalPage(body: unknown): z.output<typeof page> | undefined {
  return page.safeParse(body).data;
}

export function readEventSubject(data: string): string | undefined {
  try {
    return event.safeParse(JSON.parse(data)).data?.id;
  } catch {
    return undefined;
  }
}

const grants = z.object({
  grants: z.array(
    z.object({
      id: z.string(),
      subject: z.string(),
      session: z.string().optional(),
      tool: z.string(),
      summary: z.string(),
      expiresAt: time,
      bounded: z
        .object({ runs: z.number(), runsUsed: z.number(), arguments: z.record(z.string(), z.string()) })
        .optional(),
    }),
  ),
  truncated: z.boolean().default(false),
});

export function readGrants(body: unknown): z.output<typeof grants> | undefined {
  return grants.safeParse(body).data;
}

const sessions = z.object({
  sessions: z.array(
    z.object({
      id: z.string(),
      issuer: z.string(),
      subject: z.string(),
      mode: z.string(),
      modeUntil: time.nullish(),
      expiresAt: time,
    }),
  ),
  truncated: z.boolean().default(false),
});

export function readSessions(body: unknown): z.output<typeof sessions> | undefined {
  return sessions.safeParse(body).data;
}
