import type { Approvals, KeyUse } from "../approvals/types.ts";
import { canonicalJson, sha256Hex } from "../core/digest.ts";
import { Refusal, type RefusalCode } from "../core/errors.ts";
import { type Elevated, type Fresh, mint, type Released } from "../core/evidence.ts";
import { ARGUMENT_LIMITS } from "../core/json.ts";
import { approvalsUnavailable } from "./approval-refusals.ts";
import type { CallRecord, Consumed } from "./call-record.ts";
import type { CallRequest } from "./call-request.ts";

const RETRY_AFTER_MS = 1_000;

/**
 * Runs a call with an `Idempotency-Key` only once: the same call again gets the first answer, as it was released then.
 *
 * @throws {Refusal} IDEMPOTENCY_CONFLICT for other arguments, CALL_IN_PROGRESS, OUTCOME_UNKNOWN when the result of the first call
 * is unknown, MALFORMED_REQUEST without a store
 */
export function checkRepeat(
  elevated: Elevated,
  { idempotencyKey, args }: CallRequest,
  approvals: Approvals | undefined,
): Fresh | Promise<Fresh | Released> {
  if (idempotencyKey === undefined) return mint<Fresh>(elevated);
  if (approvals === undefined) {
    throw new Refusal("MALFORMED_REQUEST", "Idempotency-Key is not supported here: send the call without it.");
  }
  const { tool, caller } = elevated;
  return recall(elevated, approvals, {
    issuer: caller.issuer,
    subject: caller.subject,
    tool: tool.name,
    keyHash: sha256Hex(idempotencyKey),
    argsHash: sha256Hex(canonicalJson(args, ARGUMENT_LIMITS)),
  });
}

/** Returns the same call with the arguments that an approver gave it. */
export function amended({ keyUse }: Fresh, elevated: Elevated): Fresh {
  return mint<Fresh>({ ...elevated, keyUse });
}

async function recall(elevated: Elevated, approvals: Approvals, keyUse: KeyUse): Promise<Fresh | Released> {
  const known = await approvals.beginKey(keyUse).catch((error: unknown) => {
    throw approvalsUnavailable(error);
  });
  if (known.outcome === "begin") return mint<Fresh>({ ...elevated, keyUse });
  if (known.outcome === "answered") return mint<Released>({ ...known.answer, by: "idempotency-key" });
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

/** Refusals of a run after which it is known that nothing was changed. */
const UNCHANGED: ReadonlySet<RefusalCode> = new Set([
  "TARGET_REFUSED",
  "TARGET_UNAVAILABLE",
  "OVERLOADED",
  "CANCELLED",
  "DEADLINE_EXCEEDED",
  "SHUTTING_DOWN",
]);

/**
 * Reports to the store how a call ended that consumed an approval or an `Idempotency-Key`. If that fails, the lease ends it as
 * "in doubt": neither can ever be used twice.
 */
export function reportOutcome(
  approvals: Approvals | undefined,
  record: CallRecord,
  ending: Released | Refusal | "unrecorded",
): Promise<void> | undefined {
  // Most calls consume neither and do not wait here.
  const consumed = approvals && record.consumed();
  return consumed && tell(approvals, { ...consumed, record, ending });
}

interface Settling extends Consumed {
  readonly record: CallRecord;
  readonly ending: Released | Refusal | "unrecorded";
}

async function tell(approvals: Approvals, { approvalId, keyUse, record, ending }: Settling): Promise<void> {
  const end = endOf(record, ending);
  const told = [
    approvalId !== undefined && approvals.settle(approvalId, outcomeOf(ending, end)),
    keyUse !== undefined &&
      approvals.endKey(
        keyUse,
        end === "done" && isReleased(ending) ? answerOf(ending) : endWithout(end),
        record.safeToRepeat ? "not_run" : "unknown",
      ),
  ];
  for (const outcome of await Promise.allSettled(told)) {
    if (outcome.status === "rejected") record.logUnsettled(outcome.reason);
  }
}

type End = "done" | "not_run" | "unknown";

/** Returns how the run ended. A changing call whose answer was lost or withheld counts as a possible change. */
function endOf(record: CallRecord, ending: Released | Refusal | "unrecorded"): End {
  if (!record.ran) return "not_run";
  if (isReleased(ending)) return "done";
  if (!record.changes) return "not_run";
  if (ending === "unrecorded") return "unknown";
  const hadNoIntent = ending.code === "AUDIT_UNAVAILABLE" && ending.details?.["outcome"] === "not_run";
  return hadNoIntent || UNCHANGED.has(ending.code) ? "not_run" : "unknown";
}

/**
 * Returns the outcome of the approval. A target that reported a failure is not in doubt, although the change may have been made
 * in part.
 */
function outcomeOf(ending: Released | Refusal | "unrecorded", end: End): "executed" | "failed" | "in_doubt" {
  if (end === "done") return "executed";
  const isDoubtful =
    end === "unknown" && (ending === "unrecorded" || !("code" in ending) || ending.code !== "TARGET_FAILED");
  return isDoubtful ? "in_doubt" : "failed";
}

function endWithout(end: End): "not_run" | "unknown" {
  return end === "not_run" ? "not_run" : "unknown";
}

function isReleased(ending: Released | Refusal | "unrecorded"): ending is Released {
  return ending !== "unrecorded" && !(ending instanceof Refusal);
}

function answerOf({ result, filteredFields, truncated, outputHash }: Released) {
  return { result, filteredFields, truncated, outputHash };
}
