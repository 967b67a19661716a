import type { DryRun, Failure, Pending, ToolCallResult } from "../core/call-result.ts";
import { Refusal } from "../core/errors.ts";
import type { Judged, Receipt, Released } from "../core/evidence.ts";
import { REFUSALS } from "../core/refusals.ts";
import type { CallRecord } from "./call-record.ts";
import { verdictOf } from "./dry-run.ts";
import { outputShown } from "./output-filter.ts";
import { releasableText } from "./target-text.ts";

/** A result and its HTTP status. */
export interface Answer {
  readonly http: number;
  readonly result: ToolCallResult | DryRun;
}

export function succeeded({ traceId }: Receipt, released: Released, record: CallRecord): Answer {
  const { result, filteredFields, truncated } = released;
  const { durationMs } = record;
  const { tool } = record.request;
  if (truncated === undefined && record.secretsSent === undefined) {
    return {
      http: 200,
      result: { status: "success", tool, untrusted: true, result, filteredFields, traceId, durationMs },
    };
  }
  const answered = { status: "success", tool, untrusted: true, result, filteredFields } as const;
  return {
    http: 200,
    result: { ...answered, ...(truncated && { truncated }), traceId, durationMs, ...warned(record) },
  };
}

/** A verdict is an answer of its own, whatever it is: nothing went wrong. */
export function judged({ traceId }: Receipt, { verdict }: Pick<Judged, "verdict">, record: CallRecord): Answer {
  const { tool } = record.request;
  return { http: 200, result: { status: "dryRun", tool, verdict, traceId, ...warned(record) } };
}

export function refused(receipt: Receipt, refusal: Refusal, record: CallRecord): Answer {
  if (verdictOf(record.request, refusal) !== undefined) {
    const { tool } = record.request;
    const { error, traceId } = failure(refusal, record, receipt).result;
    return { http: 200, result: { status: "dryRun", tool, verdict: "deny", error, traceId, ...warned(record) } };
  }
  const { http, result } =
    refusal.code === "APPROVAL_REQUIRED" ? pending(receipt, refusal) : failure(refusal, record, receipt);
  return { http, result: { ...result, ...warned(record) } };
}

/** The sender of a secret is warned whatever the result of the call. */
function warned({ secretsSent }: CallRecord): { readonly secretsSent?: readonly string[] } {
  return secretsSent === undefined ? {} : { secretsSent };
}

/** An open approval request is neither a result nor a refusal. */
function pending({ traceId }: Receipt, { message, details }: Refusal): Answer {
  const approval = { ...(details?.["approval"] as Omit<Pending["approval"], "message">), message };
  return { http: REFUSALS.APPROVAL_REQUIRED.http, result: { status: "pending", approval, traceId } };
}

/**
 * Builds the only answer without a receipt: the audit could not be written. The answer contains nothing of the call's result, and
 * it says whether anything may have run.
 */
export function unrecorded(record: CallRecord, cause: unknown): Answer {
  const outcome = record.ran ? "unknown" : "not_run";
  record.logUnrecorded(cause);
  return {
    http: REFUSALS.AUDIT_UNAVAILABLE.http,
    result: {
      status: "error",
      error: {
        code: "AUDIT_UNAVAILABLE",
        stage: "AUDIT",
        message:
          outcome === "not_run"
            ? "The call was not run: it could not be recorded."
            : "The call could not be recorded, so its result is withheld. It may have run.",
        details: { outcome },
        retryable: outcome === "not_run",
      },
      traceId: record.traceId,
    },
  };
}

function failure(
  refusal: Refusal,
  record: CallRecord,
  { traceId }: Receipt,
): { readonly http: number; readonly result: Failure } {
  const { code, message, retryAfterMs } = refusal;
  const row = REFUSALS[code];
  const text = releasableText(Refusal.targetTextOf(refusal), record.detector) ?? outputShown(refusal);
  const details = text === undefined ? refusal.details : { ...refusal.details, ...text };
  return {
    http: row.http,
    result: {
      status: row.decision === "DENIED" ? "denied" : "error",
      error: {
        code,
        stage: record.stageOf(refusal),
        message,
        ...(details !== undefined && { details }),
        retryable: !refusal.isLasting && isRetryable(refusal, record),
        ...(retryAfterMs !== undefined && { retryAfterMs }),
      },
      traceId,
    },
  };
}

function isRetryable({ code, details }: Refusal, { safeToRepeat }: CallRecord): boolean {
  const { retryable } = REFUSALS[code];
  if (details?.["outcome"] === "not_run") return true;
  return retryable === "if-safe" ? safeToRepeat : retryable;
}
