import { z } from "zod";
import type { Scope } from "../identities.ts";

/** Whose yes counts. Everything that is named must hold; a table that names nothing means whoever holds `approvals:decide`. */
export interface Deciders {
  /** The operator's token must hold all of them. */
  readonly permissions: readonly string[];
  /** The operator must be one of them, letter by letter. */
  readonly subjects?: readonly ApproverIdentity[] | undefined;
}

export interface ApproverIdentity {
  readonly issuer: string;
  readonly subject: string;
}

/** One step of a policy: so many people, of those. */
export interface PolicyStage {
  readonly name: string;
  readonly deciders: Deciders;
  readonly count: number;
}

export type ReasonRequired = "never" | "deny" | "always";

/** What one policy wants of a question. Its stages follow each other. */
export interface RequiredPolicy {
  readonly name: string;
  /** Whether one person counts in one stage alone; within a stage a person counts once in any case. */
  readonly distinctPeople: boolean;
  readonly stages: readonly PolicyStage[];
}

/** What must come together for a yes: every policy of it. It is kept with the question, and counts as it was then. */
export interface Requirement {
  /** Hex SHA-256 over all that decides; compared at the claim. */
  readonly digest: string;
  readonly policies: readonly RequiredPolicy[];
  readonly reasonRequired: ReasonRequired;
  /** What is offered, of what the tool offers. */
  readonly scopes: readonly Scope[];
  /** Shorter than those of the store, when given. */
  readonly decideBySeconds?: number | undefined;
  readonly executeBySeconds?: number | undefined;
  /** Whether the library's own callback may answer. */
  readonly callback: boolean;
}

/** Where a yes counts: which policy of the requirement, and which stage of it. */
export interface VotePosition {
  readonly policy: number;
  readonly stage: number;
}

/** A yes on the way to an approval. */
export interface Vote extends ApproverIdentity {
  /** Of the token's `act` chain. */
  readonly actors: readonly string[];
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly scope: Scope;
  readonly reason?: string | undefined;
  /** What the voter was shown, and the approval's version then. */
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

/** As the store holds it; undefined: it was damaged, and what it wanted is not known. */
export function readRequirement(stored: unknown): Requirement | undefined {
  return requirement.safeParse(stored).data;
}

export function readVotes(stored: unknown): readonly Vote[] | undefined {
  return votes.safeParse(stored).data;
}
