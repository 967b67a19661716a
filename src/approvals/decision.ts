import type { AnswerFault, WantedAnswer } from "./answer.ts";
import type { Lacking, Objection } from "./policies/quorum.ts";
import type { Approval, Decider, Scope } from "./types.ts";

/** The message that carries a decision: a program says who made it. Each counts once, in the very transaction of its decision. */
export interface Relay {
  readonly webhook: string;
  readonly messageId: string;
  /** The program's own name for the decider. */
  readonly user: string;
}

/** A decision as it came in; the decider is verified already. */
export interface Decision {
  readonly id: string;
  readonly by: Decider;
  /** What the decider's token holds; without it, nothing that a policy could ask for. */
  readonly permissions?: readonly string[] | undefined;
  /** `sub`s of its `act` chain: whoever holds somebody's token is that person here, and themselves. */
  readonly actors?: readonly string[] | undefined;
  readonly decision: "approve" | "deny";
  readonly scope?: Scope | undefined;
  readonly reason?: string | undefined;
  /** To a question that wants one, with a yes. */
  readonly answer?: string | undefined;
  /** What the decider saw. When given it must be what is stored. */
  readonly viewDigest?: string | undefined;
  /** Where no token came with it. */
  readonly relay?: Relay | undefined;
}

export type Decided =
  | { readonly outcome: "decided"; readonly approval: Approval }
  /** The yes was counted, and others are still missing. */
  | { readonly outcome: "counted"; readonly approval: Approval; readonly lacking: readonly Lacking[] }
  /** A policy does not take this decider, or not now, or has counted this person. */
  | Objection
  /** A policy wants to know why. */
  | { readonly outcome: "reason_missing" }
  /** The question wants an answer, and not this one; or none at all. */
  | { readonly outcome: "answer_refused"; readonly fault: AnswerFault; readonly wanted: WantedAnswer | undefined }
  /** Unknown, or no longer pending. */
  | { readonly outcome: "not_pending"; readonly approval: Approval | undefined }
  /** The decider asked it, or stands in the asker's `act` chain. */
  | { readonly outcome: "own_question" }
  /** The message that carries it was received before. */
  | { readonly outcome: "replayed" }
  /** The decider saw something else. */
  | { readonly outcome: "stale_view" }
  /** The scope was not offered. */
  | { readonly outcome: "scope_not_offered"; readonly offered: readonly Scope[] };
