import type { DryRun } from "../core/call-result.ts";
import { Refusal } from "../core/errors.ts";
import type { CallOutcome, Judged } from "../core/evidence.ts";
import { REFUSALS } from "../core/refusals.ts";
import type { CallRequest } from "./call-request.ts";

/**
 * Returns the verdict that a dry run ends with; undefined when the call was not judged: it is no dry run, or was refused for a
 * reason that says nothing about the call, such as a rate limit or an invalid token.
 */
export function verdictOf(request: Pick<CallRequest, "dryRun">, outcome: CallOutcome): DryRun["verdict"] | undefined {
  if (request.dryRun !== true) return undefined;
  if (!(outcome instanceof Refusal)) return isJudged(outcome) ? outcome.verdict : undefined;
  const { cause, decision } = REFUSALS[outcome.code];
  // A denial that is about the request for the dry run says nothing about the call; a target that refuses the plan does.
  const isOfCall = decision === "DENIED" ? cause !== "request" && cause !== "load" : cause === "target";
  const isOfPoint = outcome.findings?.some(({ verdict }) => verdict === "deny") === true;
  return isOfCall || isOfPoint ? "deny" : undefined;
}

/** Returns whether the call was judged and not run. */
export function isJudged(outcome: CallOutcome): outcome is Judged {
  return !(outcome instanceof Refusal) && "verdict" in outcome;
}

/**
 * Refuses a dry run that names what only a real call may use up. Ignoring it would let the sender believe that it was judged.
 *
 * @throws {Refusal} MALFORMED_REQUEST
 */
export function assertUsesNothing({ dryRun, approvalId, newApproval, idempotencyKey }: CallRequest): void {
  if (dryRun !== true) return;
  const named = approvalId !== undefined || newApproval === true ? "an approval" : "an Idempotency-Key";
  if (named === "an Idempotency-Key" && idempotencyKey === undefined) return;
  throw new Refusal("MALFORMED_REQUEST", `A dry run uses nothing up: send it without ${named}.`);
}
