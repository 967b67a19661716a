import { Refusal } from "../../core/errors.ts";
import type { RefusalCode } from "../../core/refusals.ts";
import { isTimeout } from "../../core/time-limits.ts";
import {
  BUSY_RETRY_AFTER_MS,
  FAILURE_MESSAGES,
  FailedAttempt,
  type OutgoingCall,
  waitOf,
} from "../../egress/resilience.ts";

type Facts = Pick<SqlFailure, "code" | "status" | "sqlState" | "origin" | "message"> &
  Partial<Pick<SqlFailure, "isConflict" | "isDefinite" | "maybeDrifted">>;

/** A statement that the database refused or did not answer. Its text holds nothing that the database said. */
export class SqlFailure extends FailedAttempt {
  override readonly name = "SqlFailure";
  readonly code: RefusalCode;
  /** Name of the status, as gRPC has it. */
  readonly status: string;
  /** SQLSTATE, or the engine's own name of the error. Empty when the database said nothing. */
  readonly sqlState: string;
  /** Whether the same transaction may succeed at once: another one was in its way. */
  readonly isConflict: boolean;
  /** Whether the database itself said that the transaction failed: then nothing is changed. */
  readonly isDefinite: boolean;
  /** Whether the tables or functions of the statement may have changed. */
  readonly maybeDrifted: boolean;

  constructor({ code, message, origin, status, sqlState, isConflict, isDefinite, maybeDrifted }: Facts) {
    super(message, { origin, sent: true, answerStarted: false, isUnavailable: code === "TARGET_UNAVAILABLE" });
    this.code = code;
    this.status = status;
    this.sqlState = sqlState;
    this.isConflict = isConflict === true;
    this.isDefinite = isDefinite === true;
    this.maybeDrifted = maybeDrifted === true;
  }
}

/** Refusal code and gRPC status of an error, for the caller. */
export type Meaning = readonly [code: RefusalCode, status: string];

export const UNAVAILABLE: Meaning = ["TARGET_UNAVAILABLE", "UNAVAILABLE"];
/** Another transaction was in the way: a deadlock, or a serialization failure. */
export const CONFLICT: Meaning = ["TARGET_UNAVAILABLE", "ABORTED"];
export const WRONG_VALUE: Meaning = ["TARGET_REFUSED", "INVALID_ARGUMENT"];
export const FAILED: Meaning = ["TARGET_FAILED", "INTERNAL"];
export const EXISTS: Meaning = ["TARGET_REFUSED", "ALREADY_EXISTS"];
export const CONSTRAINED: Meaning = ["TARGET_REFUSED", "FAILED_PRECONDITION"];
export const FORBIDDEN: Meaning = ["TARGET_FAILED", "PERMISSION_DENIED"];
export const TOO_LATE: Meaning = ["DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"];

/** Returns the refusal for a failed query. */
export function refusalOf(failed: SqlFailure, call: OutgoingCall): Refusal {
  const code = call.signal.aborted ? abortCode(call.signal) : failed.code;
  const { status, sqlState, message, origin } = failed;
  const isUnavailable = code === "TARGET_UNAVAILABLE";
  const isConflict = isUnavailable && failed.isConflict;
  return new Refusal(code, isConflict ? CONFLICTED : (MESSAGES[code] ?? "The call failed."), {
    ...(isConflict ? { retryAfterMs: BUSY_RETRY_AFTER_MS } : waitOf(failed, code)),
    // A change ends with this code only when it has not happened, so the same call may be made again.
    details: { status, ...(isUnavailable && !call.safe && { outcome: "not_run" }) },
    cause: { system: call.system, tool: call.path, status, sqlState, because: message, origin },
  });
}

/** Returns the refusal of a call for one row that does not exist. */
export function noSuchRow(): Refusal {
  return new Refusal("TARGET_REFUSED", "There is no such row.", { details: { status: "NOT_FOUND" } });
}

/** Returns the refusal of a change that would do more or less than its plan says. */
export function otherEffects(): Refusal {
  const message =
    "The database has changed: this call would have other effects than planned. Nothing was changed; call again.";
  return new Refusal("TARGET_REFUSED", message, { details: { status: "FAILED_PRECONDITION" } });
}

/** Returns the refusal of a result that is larger than its limits. */
export function tooLarge(): Refusal {
  return new Refusal("OUTPUT_TOO_LARGE", "The result is larger than this tool may return. Ask for less.");
}

const CONFLICTED = "Another transaction was in the way. Nothing was changed; call again.";
const MESSAGES: Partial<Record<RefusalCode, string>> = FAILURE_MESSAGES;

function abortCode(signal: AbortSignal): RefusalCode {
  return isTimeout(signal) ? "DEADLINE_EXCEEDED" : "CANCELLED";
}
