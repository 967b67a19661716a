import type { REFUSALS, RefusalCode } from "./errors.ts";
import type { Caller, ExecutionPlan, Tool } from "./types.ts";

/** The input of the policy points of each stage. */
export interface PolicyRequests {
  /** A tool that exists and its authenticated caller. The arguments are not read yet. */
  readonly permission: { readonly tool: Tool; readonly caller: Caller };
  /** Adds the parsed arguments. */
  readonly elevation: PolicyRequests["permission"] & { readonly input: unknown };
  /** Adds the plan: exactly what would run. */
  readonly approval: PolicyRequests["elevation"] & { readonly plan: ExecutionPlan };
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

/** The decision of a point without an objection. */
export const ALLOWED: PolicyDecision & { readonly verdict: "allow" } = Object.freeze({ verdict: "allow" });

/** A policy point of one stage. `Decision` is narrower for the built-in points, which always decide synchronously. */
export interface StagePoint<Stage extends PointStage, Decision = PolicyDecision | Promise<PolicyDecision>> {
  /** Appears in the audit: lower-case letters, digits and dashes. */
  readonly name: string;
  readonly stage: Stage;
  /** True when the point decides from the request alone. `stc replay` asks other points only with `--ask-external`. */
  readonly isLocal?: boolean;
  /** Milliseconds for an asynchronous decision; default 1,000. */
  readonly timeoutMs?: number;
  /** Decides about one call. An exception or a late decision denies the call. Must not change the request. */
  decide(request: PolicyRequests[Stage]): Decision;
}

/** A check that may deny a call or require a person's approval for it. It can never weaken another check. */
export type PolicyPoint = { [Stage in PointStage]: StagePoint<Stage> }[PointStage];
