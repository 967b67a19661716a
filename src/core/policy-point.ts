import type { REFUSALS, RefusalCode } from "./refusals.ts";
import type { CallerContext, EpochMs, ExecutionPlan, Tool } from "./types.ts";

/** The input of the policy points of each stage. */
export interface PolicyRequests {
  /** A tool that exists and its authenticated caller. The arguments are not read yet. */
  readonly permission: { readonly tool: Tool; readonly caller: CallerContext };
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
  /** True when the point decides from the request alone. `stc replay` asks other points only with `--ask-external`. */
  readonly isLocal?: boolean;
  /** True when the decision may depend on claims of the caller's token, which the audit does not have, or on the time. */
  readonly readsMoment?: boolean;
  /** Returns whether the point decides about a tool: about all when left out. It allows every call of another tool. */
  concerns?(tool: Tool): boolean;
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

/** Upper bounds of the histogram of decision times, in seconds. */
export const POINT_SECONDS: readonly number[] = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5,
];

/** The state of a configured decision point, for operators. Counts are since the start of the service. */
export interface PointState {
  readonly name: string;
  /** The key of its kind. */
  readonly kind: string;
  /** Left out by kinds that reach no other system. */
  readonly circuit?: "closed" | "open" | "half-open";
  readonly calls?: { readonly inFlight: number; readonly max: number };
  /** Facts in the kind's own words, such as the number of policies. */
  readonly facts?: Readonly<Record<string, string | number>>;
  /** `reason`: in our own words, bounded, without texts of the point. */
  readonly lastError: { readonly at: EpochMs; readonly reason: string } | undefined;
  readonly verdicts: Readonly<Record<"allow" | "deny" | "ask", number>>;
  /** Decisions that could not be made: each denied a call. */
  readonly errors: number;
  /** Verdicts from the cache. They are among the verdicts. */
  readonly cached: number;
  /** Observations per bucket of `POINT_SECONDS`, not cumulative; the last is for everything above the bounds. */
  readonly seconds: { readonly counts: ArrayLike<number>; readonly sum: number };
}

/** The agent's text for a point that could not decide. */
export const UNDECIDED = "A policy of the service's operators could not be decided, so the call was not run.";

/** Returns the denial of a point that could not decide. `reason` and `cause` are for operators. */
export function undecided(reason: string, cause: unknown): PolicyDecision {
  return { verdict: "deny", reasons: [reason], message: UNDECIDED, cause };
}

/** A check that may deny a call or require a person's approval for it. It can never weaken another check. */
export type PolicyPoint = { [Stage in PointStage]: StagePoint<Stage> }[PointStage];
