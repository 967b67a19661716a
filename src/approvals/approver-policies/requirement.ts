import { z } from "zod";
import { APPROVAL_SCOPES, type ApprovalScope } from "../../core/types.ts";
import { type GrantTerms, grantTerms } from "../grants.ts";
import type { Approver } from "../identities.ts";

/** Eligible approvers. All given conditions must hold; without any, everybody with `approvals:decide` is eligible. */
export interface EligibleApprovers {
  /** The approver's token must have all of them. */
  readonly permissions: readonly string[];
  /** The approver must be one of them, compared exactly. */
  readonly subjects?: readonly Approver[] | undefined;
}

export interface PolicyStage {
  readonly name: string;
  readonly deciders: EligibleApprovers;
  /** Approvers whom escalation steps have added; each counts like one of `deciders`. Never stored: derived from the steps taken. */
  readonly also?: readonly EligibleApprovers[] | undefined;
  readonly count: number;
}

/** A step of a policy: when nobody has decided for a while, others are notified, and may decide too. */
export interface EscalationStep {
  /** Time from the creation of the request; longer than that of the policy's previous step. */
  readonly afterSeconds: number;
  /** Further approvers of one stage, given by its index. When absent, the step only notifies. */
  readonly adds?: { readonly stage: number; readonly deciders: EligibleApprovers } | undefined;
  /** Webhooks that are notified; when absent, those that subscribe to `approval.escalated`. */
  readonly webhooks?: readonly string[] | undefined;
}

/** A step that was taken: the indexes of its policy and of the step, and the time in Unix milliseconds. */
export interface Escalation {
  readonly policy: number;
  readonly step: number;
  readonly at: number;
}

export type ReasonRequired = "never" | "deny" | "always";

/** Requirement of one policy. Its stages are completed in order. */
export interface RequiredPolicy {
  readonly name: string;
  /** True when a person counts in one stage only. Within a stage, a person counts once in any case. */
  readonly distinctPeople: boolean;
  readonly stages: readonly PolicyStage[];
  readonly escalate?: readonly EscalationStep[] | undefined;
}

/** Requirement for an approval: all its policies. Stored with the request; later changes of the policies do not affect it. */
export interface Requirement {
  /** Hex SHA-256 over the other members; compared when the approval is claimed. */
  readonly digest: string;
  readonly policies: readonly RequiredPolicy[];
  readonly reasonRequired: ReasonRequired;
  /** Scopes that may be offered, out of those that the tool offers. */
  readonly scopes: readonly ApprovalScope[];
  /** Applied when shorter than the limit of the store. */
  readonly decideBySeconds?: number | undefined;
  readonly executeBySeconds?: number | undefined;
  readonly callback: boolean;
}

/** Indexes of the policy and the stage in which a vote counts. */
export interface VotePosition {
  readonly policy: number;
  readonly stage: number;
}

export interface Vote extends Approver {
  /** `sub`s of the token's `act` chain. */
  readonly actors: readonly string[];
  /** Unix milliseconds. */
  readonly at: number;
  readonly scope: ApprovalScope;
  /** The terms that the voter chose, for scope `bounded`. */
  readonly grant?: GrantTerms | undefined;
  readonly reason?: string | undefined;
  /** Digest of the view that the voter saw, and the approval's version at that time. */
  readonly viewDigest: string;
  readonly version: number;
  readonly places: readonly VotePosition[];
}

const identity = z.strictObject({ issuer: z.string(), subject: z.string() });
const scope = z.enum(APPROVAL_SCOPES);
const count = z.int().min(1);
const index = z.int().min(0);

const eligible = z.strictObject({ permissions: z.array(z.string()), subjects: z.array(identity).optional() });

/** A requirement as it is stored. */
export const requirementSchema = z.strictObject({
  digest: z.string(),
  policies: z
    .array(
      z.strictObject({
        name: z.string(),
        distinctPeople: z.boolean(),
        stages: z.array(z.strictObject({ name: z.string(), deciders: eligible, count })).min(1),
        escalate: z
          .array(
            z.strictObject({
              afterSeconds: count,
              adds: z.strictObject({ stage: index, deciders: eligible }).optional(),
              webhooks: z.array(z.string()).optional(),
            }),
          )
          .optional(),
      }),
    )
    .min(1),
  reasonRequired: z.enum(["never", "deny", "always"]),
  scopes: z.array(scope),
  decideBySeconds: count.optional(),
  executeBySeconds: count.optional(),
  callback: z.boolean(),
});

const votes = z.array(
  identity.extend({
    actors: z.array(z.string()),
    at: z.int(),
    scope,
    grant: grantTerms.optional(),
    reason: z.string().optional(),
    viewDigest: z.string(),
    version: z.int(),
    places: z.array(z.strictObject({ policy: index, stage: index })).min(1),
  }),
);

const escalations = z.array(z.strictObject({ policy: index, step: index, at: z.int() }));

/** Reads a stored requirement; undefined when it is corrupt. */
export function readRequirement(stored: unknown): Requirement | undefined {
  return requirementSchema.safeParse(stored).data;
}

export function readVotes(stored: unknown): readonly Vote[] | undefined {
  return votes.safeParse(stored).data;
}

export function readEscalations(stored: unknown): readonly Escalation[] | undefined {
  return escalations.safeParse(stored).data;
}
