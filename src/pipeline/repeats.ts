import type { Approvals, KeyUse } from "../approvals/types.ts";
import { sha256Hex } from "../core/digest.ts";
import { Refusal } from "../core/errors.ts";
import { type CallOutcome, type Elevated, type Fresh, mint, type Released } from "../core/evidence.ts";
import { REFUSALS, ranOf } from "../core/refusals.ts";
import { approvalIdOf, approvalsUnavailable } from "./approval/refusals.ts";
import type { CallRecord, Consumed } from "./call-record.ts";
import { assertUsesNothing, isJudged } from "./dry-run.ts";
import { cutAgain } from "./output-filter.ts";

const RETRY_AFTER_MS = 1_000;

/**
 * Runs a call with an `Idempotency-Key` only once: the same call again gets the first answer, as it was released then.
 *
 * @throws {Refusal} IDEMPOTENCY_CONFLICT for other arguments, CALL_IN_PROGRESS, OUTCOME_UNKNOWN when the result of the first call
 * is unknown, MALFORMED_REQUEST without a store or for a dry run that names a key or an approval, OUTPUT_TOO_LARGE when the first answer cannot be cut to the caller's bound
 */
export function checkRepeat(
  elevated: Elevated,
  record: Pick<CallRecord, "request" | "argsText">,
  approvals: Approvals | undefined,
): Fresh | Promise<Fresh | Released> {
  const { idempotencyKey, resultBytesMax } = record.request;
  assertUsesNothing(record.request);
  if (idempotencyKey === undefined) return mint<Fresh>(elevated);
  if (approvals === undefined) {
    throw new Refusal("MALFORMED_REQUEST", "Idempotency-Key is not supported here: send the call without it.", {
      details: { unsupported: "Idempotency-Key" },
    });
  }
  const { tool, caller } = elevated;
  const keyUse = {
    issuer: caller.issuer,
    subject: caller.subject,
    tool: tool.name,
    keyHash: sha256Hex(idempotencyKey),
    argsHash: sha256Hex(record.argsText),
  };
  return recall(elevated, approvals, { keyUse, bytesMax: resultBytesMax ?? Number.POSITIVE_INFINITY });
}

/** Returns the same call with the approver's arguments. */
export function amended({ keyUse, keyApprovalId }: Fresh, elevated: Elevated): Fresh {
  return mint<Fresh>({ ...elevated, keyUse, keyApprovalId });
}

interface Recalled {
  readonly keyUse: KeyUse;
  readonly bytesMax: number;
}

async function recall(
  elevated: Elevated,
  approvals: Approvals,
  { keyUse, bytesMax }: Recalled,
): Promise<Fresh | Released> {
  const known = await approvals.beginKey(keyUse).catch((error: unknown) => {
    throw approvalsUnavailable(error);
  });
  if (known.outcome === "begin") return mint<Fresh>({ ...elevated, keyUse, keyApprovalId: known.approvalId });
  if (known.outcome === "answered")
    return mint<Released>({ ...cutAgain(elevated.tool, known.answer, bytesMax), by: "idempotency-key" });
  if (known.outcome === "unknown") {
    throw new Refusal(
      "OUTCOME_UNKNOWN",
      "The first call with this Idempotency-Key ended without a definite answer. Check before you call again.",
    );
  }
  if (known.outcome === "running") {
    throw new Refusal("CALL_IN_PROGRESS", "The first call with this Idempotency-Key is still in progress.", {
      retryAfterMs: RETRY_AFTER_MS,
    });
  }
  throw new Refusal("IDEMPOTENCY_CONFLICT", "This Idempotency-Key was used with other arguments. Use a new one.");
}

/**
 * Reports to the store how a call ended that consumed an approval or an `Idempotency-Key`. If that fails, the lease ends it as
 * "in doubt": neither can ever be used twice. Returns undefined when the answer need not wait for the report: later requests to a
 * remote store wait for it, and after a crash the audit entry says how the run ended. The answer of a key is kept in the store alone.
 */
export function reportOutcome(
  approvals: Approvals | undefined,
  record: CallRecord,
  outcome: RecordedOutcome,
): Promise<void> | undefined {
  // Most calls consume neither and do not wait here.
  const consumed = approvals && record.consumed();
  if (!consumed) return undefined;
  const reporting = report(approvals, record, { ...consumed, outcome });
  const answersFirst = approvals.isRemote === true && consumed.keyUse === undefined && isReleased(outcome);
  return answersFirst ? undefined : reporting;
}

/** How a call ended; `unrecorded`: its audit entry could not be written. */
type RecordedOutcome = CallOutcome | "unrecorded";

async function report(
  approvals: Approvals,
  record: CallRecord,
  { approvalId, keyUse, outcome }: Consumed & { readonly outcome: RecordedOutcome },
): Promise<void> {
  const end = endOf(record, outcome);
  const answer = end === "done" && isReleased(outcome) ? storedAnswer(outcome) : undefined;
  // If operators stop a call before it has started, its approval stays usable.
  const isUnused = outcome instanceof Refusal && REFUSALS[outcome.code].cause === "stop" && !record.hasStarted;
  // Another use of the key finds the approval that this one has requested, or has not used.
  const askedId = isUnused ? approvalId : outcome !== "unrecorded" && approvalIdOf(outcome);
  const asked = !askedId ? undefined : { approvalId: askedId };
  const reports = [
    approvalId !== undefined && approvals.settle(approvalId, isUnused ? "unused" : approvalOutcome(outcome, end)),
    keyUse !== undefined &&
      approvals.endKey(
        keyUse,
        answer ?? asked ?? (end === "not_run" ? end : "unknown"),
        record.safeToRepeat ? "not_run" : "unknown",
      ),
  ];
  for (const settled of await Promise.allSettled(reports)) {
    if (settled.status === "rejected") record.logUnsettled(settled.reason);
  }
}

type End = "done" | "not_run" | "unknown";

/** Returns how the run ended. A changing call whose answer was lost or withheld counts as a possible change. */
function endOf(record: CallRecord, outcome: RecordedOutcome): End {
  if (!record.ran) return "not_run";
  if (isReleased(outcome)) return "done";
  if (!record.changes) return "not_run";
  if (outcome === "unrecorded" || !(outcome instanceof Refusal)) return "unknown";
  const hadNoIntent = outcome.code === "AUDIT_UNAVAILABLE" && outcome.details?.["outcome"] === "not_run";
  const ran = ranOf(outcome.code);
  return hadNoIntent || ran === "no" || ran === "cut" ? "not_run" : "unknown";
}

/** A target that reported a failure is not in doubt, although the change may have been made in part. */
function approvalOutcome(outcome: RecordedOutcome, end: End): "executed" | "failed" | "in_doubt" {
  if (end === "done") return "executed";
  const isReported = outcome instanceof Refusal && outcome.code === "TARGET_FAILED";
  return end === "unknown" && !isReported ? "in_doubt" : "failed";
}

function isReleased(outcome: RecordedOutcome): outcome is Released {
  return outcome !== "unrecorded" && !(outcome instanceof Refusal) && !isJudged(outcome);
}

function storedAnswer({ result, filteredFields, truncated, outputHash }: Released) {
  return { result, filteredFields, truncated, outputHash };
}
