import { z } from "zod";
import type { Approver, Scope } from "../identities.ts";

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
  readonly count: number;
}

export type ReasonRequired = "never" | "deny" | "always";

/** Requirement of one policy. Its stages are completed in order. */
export interface RequiredPolicy {
  readonly name: string;
  /** True when a person counts in one stage only. Within a stage, a person counts once in any case. */
  readonly distinctPeople: boolean;
  readonly stages: readonly PolicyStage[];
}

/** Requirement for an approval: all its policies. Stored with the request; later changes of the policies do not affect it. */
export interface Requirement {
  /** Hex SHA-256 over the other members; compared when the approval is claimed. */
  readonly digest: string;
  readonly policies: readonly RequiredPolicy[];
  readonly reasonRequired: ReasonRequired;
  /** Scopes that may be offered, out of those that the tool offers. */
  readonly scopes: readonly Scope[];
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
  readonly scope: Scope;
  readonly reason?: string | undefined;
  /** Digest of the view that the voter saw, and the approval's version at that time. */
  readonly viewDigest: string;
  readonly version: number;
  readonly places: readonly VotePosition[];
}

const identity = z.strictObject({ issuer: z.string(), subject: z.string() });
const scope = z.enum(["once", "session"]);
const count = z.int().min(1);
const index = z.int().min(0);

const requirement = z.strictObject({
  digest: z.string(),
  policies: z
    .array(
      z.strictObject({
        name: z.string(),
        distinctPeople: z.boolean(),
        stages: z
          .array(
            z.strictObject({
              name: z.string(),
              deciders: z.strictObject({ permissions: z.array(z.string()), subjects: z.array(identity).optional() }),
              count,
            }),
          )
          .min(1),
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
    reason: z.string().optional(),
    viewDigest: z.string(),
    version: z.int(),
    places: z.array(z.strictObject({ policy: index, stage: index })).min(1),
  }),
);

/** Reads a stored requirement; undefined when it is corrupt. */
export function readRequirement(stored: unknown): Requirement | undefined {
  return requirement.safeParse(stored).data;
}

export function readVotes(stored: unknown): readonly Vote[] | undefined {
  return votes.safeParse(stored).data;
}
