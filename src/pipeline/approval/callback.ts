import { answerProblem } from "../../approvals/answer.ts";
import { type ApprovalCallback, askCallback } from "../../approvals/callback.ts";
import type { RiskAssessment } from "../../approvals/risk.ts";
import type { PolicyFinding } from "../../core/errors.ts";
import type { Planned } from "../../core/evidence.ts";
import type { GivenApproval } from "../../core/policy-point.ts";
import type { GivenAnswer } from "../../core/types.ts";
import type { CallScope } from "../call-scope.ts";
import type { ApprovalNeed, GatedCall, GateOptions } from "./call.ts";
import { wantedAnswerOf } from "./manifest.ts";
import { deniedRefusal, unanswered } from "./refusals.ts";

const NONE: readonly PolicyFinding[] = [];

/** Returns the callback of the call itself, otherwise that of all calls. */
export function callbackOf({ onToolApprove }: GateOptions, { request }: GatedCall): ApprovalCallback | undefined {
  return request.onToolApprove ?? onToolApprove;
}

interface DecidedCall {
  readonly assessment: Pick<RiskAssessment, "requirement">;
  readonly findings?: readonly PolicyFinding[] | undefined;
}

/** Returns whether a callback may decide. A policy that requires people accepts the callback only if the policy says so. */
export function acceptsCallback({ assessment: { requirement }, findings = NONE }: DecidedCall): boolean {
  if (findings.some(({ peopleOnly }) => peopleOnly === true)) return false;
  return requirement === undefined || requirement.callback;
}

/** The embedding program, as the approver that points see. */
const CALLBACK = { issuer: "safe-tool-call", subject: "onToolApprove" };

interface Allowed {
  /** With the callback's arguments, if it has changed them. */
  readonly planned: Planned;
  readonly by: string;
  readonly answer: GivenAnswer | undefined;
}

/**
 * Asks the callback.
 *
 * @throws {Refusal} APPROVAL_DENIED, or the denial of a point
 */
export async function decideByCallback(
  options: GateOptions & { readonly callback: ApprovalCallback },
  call: GatedCall,
  { requester, rules }: ApprovalNeed,
): Promise<Allowed> {
  const { planned, assessment, request, scope } = call;
  const { tool, input, plan, digest: planDigest } = planned;
  const use = {
    name: tool.name,
    params: structuredClone(input) as Record<string, unknown>,
    approvalId: options.newId(),
    callId: request.callId,
    category: tool.category,
    sessionId: requester.session,
    risk: assessment.risk,
    rules: [...rules, ...assessment.rules],
    plan: structuredClone(plan),
    planDigest,
  };
  const { callback, callbackTimeoutMs: timeoutMs } = options;
  // An approver's time to think does not count as the tool's run time.
  const answer = await scope.hold((signal) => askCallback(callback, use, { timeoutMs, signal }));
  if (!answer.approved) {
    // When the call itself is over, no approver has denied it.
    scope.assertOpen();
    throw answer.cause === undefined ? deniedRefusal(tool, answer) : unanswered(answer.cause);
  }
  // The token may have expired or been revoked while the approver decided.
  await call.verifyAgain();
  const given: GivenApproval = { id: use.approvalId, approvers: [CALLBACK], decidedAt: scope.now() };
  if (answer.params === undefined) {
    await options.confirmation?.(call)?.(given);
    return { planned, by: "callback", answer: answerFrom(answer, planned, scope) };
  }
  const changed = await call.replan(answer.params);
  const { planned: amended, findings = NONE } = changed;
  if (!acceptsCallback(changed)) throw unanswered(new Error("a policy requires approvers for the changed arguments"));
  await options.confirmation?.({ planned: amended, findings, traceId: call.traceId })?.(given);
  return { planned: amended, by: "callback:amended", answer: answerFrom(answer, amended, scope) };
}

/** @throws {Refusal} when an approval lacks the answer that the manifest requires */
function answerFrom({ answer: text }: { readonly answer?: string | undefined }, planned: Planned, scope: CallScope) {
  const wanted = wantedAnswerOf(planned);
  const problem = wanted && answerProblem(wanted, text);
  if (problem !== undefined) throw unanswered(new Error(`the callback's answer: ${problem}`));
  return wanted === undefined || text === undefined ? undefined : { text, at: scope.now() };
}
