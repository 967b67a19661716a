import type { REFUSALS, RefusalCode } from "./errors.ts";
import type { Caller, EpochMs, ExecutionPlan, Tool } from "./types.ts";

/** The input of the policy points of each stage. */
export interface PolicyRequests {
  /** A tool that exists and its authenticated caller. The arguments are not read yet. */
  readonly permission: { readonly tool: Tool; readonly caller: Caller };
  /** Adds the parsed arguments, and the id by which operators find the call in the audit. */
  readonly elevation: PolicyRequests["permission"] & { readonly input: unknown; readonly traceId?: string };
  /** Adds the plan: exactly what would run. */
  readonly approval: PolicyRequests["permission"] & { readonly input: unknown; readonly plan: ExecutionPlan };
}

export type PointStage = keyof PolicyRequests;

type Refusals = typeof REFUSALS;

/** Codes to which a denial may map: the refusals that the audit records as DENIED. */
export type DenialCode = {
  [Code in RefusalCode]: Refusals[Code]["decision"] extends "DENIED" ? Code : never;
}[RefusalCode];

/** The decision of one policy point. Reasons are short texts or codes for the audit and for approvers, without secrets. */
export type PolicyDecision =
  | { readonly verdict: "allow" }
  | {
      readonly verdict: "deny";
      readonly reasons: readonly string[];
      /** POLICY_DENIED when left out. */
      readonly code?: DenialCode;
      /** Tells the agent how to fix the call. */
      readonly message?: string;
      /** Details for the agent. */
      readonly details?: Readonly<Record<string, unknown>>;
      readonly retryAfterMs?: number;
      /** Cause for the operator: written to the log, never sent to the client. */
      readonly cause?: unknown;
    }
  | {
      readonly verdict: "requireApproval";
      readonly reasons: readonly string[];
      /** Whether an approval for the session may cover the identical call later. */
      readonly rememberable?: boolean;
    };

/** An approval that is about to be used. */
export interface GivenApproval {
  readonly id: string;
  readonly approvers: readonly { readonly issuer: string; readonly subject: string }[];
  readonly decidedAt: EpochMs;
  /** Time until which it may be used; undefined for an approval that is used at once. */
  readonly usableUntil?: EpochMs | undefined;
}

/** The decision of a point without an objection. */
export const ALLOWED: PolicyDecision & { readonly verdict: "allow" } = Object.freeze({ verdict: "allow" });

/** A policy point of one stage. `Decision` is narrower for the built-in points, which always decide synchronously. */
export interface StagePoint<Stage extends PointStage, Decision = PolicyDecision | Promise<PolicyDecision>> {
  /** Appears in the audit: lower-case letters, digits and dashes. */
  readonly name: string;
  readonly stage: Stage;
  /** Milliseconds for an asynchronous decision; default 1,000. */
  readonly timeoutMs?: number;
  /** Decides about one call. An exception or a late decision denies the call. Must not change the request. */
  decide(request: PolicyRequests[Stage]): Decision;
  /**
   * Decides again about a call for which the point required an approval, now that there is one and before it is used. Anything but
   * `allow` refuses the call and leaves the approval unused. Left out: the approval is enough. Only for the stage `elevation`.
   */
  confirm?(request: PolicyRequests[Stage], approval: GivenApproval): Decision;
}

/** The agent's text for a point that could not decide. */
export const UNDECIDED = "A policy of the service's operators could not be decided, so the call was not run.";

/** Returns the denial of a point that could not decide. `reason` and `cause` are for operators. */
export function undecided(reason: string, cause: unknown): PolicyDecision {
  return { verdict: "deny", reasons: [reason], message: UNDECIDED, cause };
}

/** A check that may deny a call or require a person's approval for it. It can never weaken another check. */
export type PolicyPoint = { [Stage in PointStage]: StagePoint<Stage> }[PointStage];
