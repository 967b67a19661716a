import type { ApprovalCallback } from "../../approvals/callback.ts";
import type { Requester } from "../../approvals/identities.ts";
import type { RiskAssessment } from "../../approvals/risk.ts";
import type { Approvals, Mode } from "../../approvals/types.ts";
import { type PolicyFinding, Refusal } from "../../core/errors.ts";
import type { Planned } from "../../core/evidence.ts";
import type { Detector } from "../../detection/sensitive.ts";
import type { CallBudget } from "../../quotas/quotas.ts";
import type { CallRequest } from "../call-request.ts";
import type { CallScope } from "../call-scope.ts";
import type { CallSession } from "../call-session.ts";
import type { Assessed, PolicyEvaluator } from "../policy-points.ts";
import { approvalsUnavailable } from "./refusals.ts";

export interface GateOptions {
  /** Stores approval requests. Without it and without a callback, a call that needs an approval is denied. */
  readonly approvals?: Approvals | undefined;
  /** Mode of sessions for which no operator has set another one. */
  readonly mode: Mode;
  /** Whether the same call again uses the approval that was given for it. */
  readonly attaches: boolean;
  readonly onToolApprove?: ApprovalCallback | undefined;
  readonly callbackTimeoutMs: number;
  /** Hides secrets in what an approver sees. */
  readonly detector: Detector;
  readonly newId: () => string;
  /** Asks the points that required an approval again, before it is used. Default: an approval is enough. */
  readonly confirmation?: PolicyEvaluator["confirmation"] | undefined;
}

/** Facts about a call that its plan does not contain. */
export interface GateContext {
  readonly request: CallRequest;
  readonly traceId: string;
  readonly scope: CallScope;
  /** Runs other arguments through the stages from VALIDATION to PLAN, and asks the policy points about the plan. */
  replan(args: unknown): Promise<Assessed>;
  /**
   * Verifies the token again.
   * @throws {Refusal} UNAUTHENTICATED, AUTH_UNAVAILABLE
   */
  verifyAgain(): Promise<unknown>;
  /** Takes what the call needs of the quotas, before an approval is used or the call passes. Undefined: there are none. */
  readonly budget?: CallBudget | undefined;
  /** Receives the mode that an operator has set for the session, when it is read. */
  noteMode?(mode: Mode): void;
}

/** A call at the approval gate. */
export interface GatedCall extends GateContext {
  readonly planned: Planned;
  readonly assessment: RiskAssessment;
  /** These require an approval: no mode, manifest or callback weakens them. */
  readonly findings: readonly PolicyFinding[];
  readonly flow: Assessed["flow"];
}

/** What an approval of a call is for: who makes the call, in which session, and the rules that require the approval. */
export interface ApprovalNeed {
  readonly requester: Requester;
  readonly session: Pick<CallSession, "within" | "hasGrants">;
  readonly rules: readonly string[];
}

/** Runs work on the store. A store failure never approves a call. */
export async function guarded<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof Refusal ? error : approvalsUnavailable(error);
  }
}
