import { Refusal } from "../../core/errors.ts";
import type { RefusalCode } from "../../core/refusals.ts";
import { isTimeout } from "../../core/time-limits.ts";
import { FAILURE_MESSAGES, FailedAttempt, type Origin, type OutgoingCall, waitOf } from "../../egress/resilience.ts";

/** A query that the database refused or did not answer. */
export class SqlFailure extends FailedAttempt {
  override readonly name = "SqlFailure";
  readonly code: RefusalCode;
  /** Name of the status, as gRPC has it. */
  readonly status: string;
  /** Empty when the server said nothing. */
  readonly sqlState: string;

  constructor(facts: Pick<SqlFailure, "code" | "status" | "sqlState" | "origin" | "message">) {
    const { code, message, origin } = facts;
    super(message, { origin, sent: true, answerStarted: false, isUnavailable: code === "TARGET_UNAVAILABLE" });
    this.code = code;
    this.status = facts.status;
    this.sqlState = facts.sqlState;
  }
}

type Meaning = readonly [code: RefusalCode, status: string];

const UNAVAILABLE: Meaning = ["TARGET_UNAVAILABLE", "UNAVAILABLE"];
const WRONG_VALUE: Meaning = ["TARGET_REFUSED", "INVALID_ARGUMENT"];
const FAILED: Meaning = ["TARGET_FAILED", "INTERNAL"];

/** By SQLSTATE, whole or its class: https://www.postgresql.org/docs/current/errcodes-appendix.html */
const MEANINGS: ReadonlyMap<string, Meaning> = new Map([
  ["23505", ["TARGET_REFUSED", "ALREADY_EXISTS"]],
  ["23", ["TARGET_REFUSED", "FAILED_PRECONDITION"]],
  ["P0001", ["TARGET_REFUSED", "FAILED_PRECONDITION"]],
  ["22", WRONG_VALUE],
  ["42804", WRONG_VALUE],
  ["25006", ["TARGET_FAILED", "PERMISSION_DENIED"]],
  ["42501", ["TARGET_FAILED", "PERMISSION_DENIED"]],
  ["28", ["TARGET_FAILED", "UNAUTHENTICATED"]],
  ["57014", ["DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"]],
  ["25P", ["DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"]],
  ["40", UNAVAILABLE],
  ["55P03", UNAVAILABLE],
  ["53", UNAVAILABLE],
  ["57P", UNAVAILABLE],
  ["08", UNAVAILABLE],
]);

/** States of a statement that may not fit the database any more: tables, columns, functions, rights, or what a function does. */
const DRIFTED = new Set(["42P01", "42703", "42883", "42P10", "3F000", "0A000", "42501", "25006"]);

/** Returns what an error of the driver means. Its text may hold rows, and is in none of the results. */
export function failureOf(error: unknown): SqlFailure {
  const sqlState = error instanceof Bun.SQL.PostgresError ? (error.errno ?? "") : "";
  if (!/^[0-9A-Z]{5}$/.test(sqlState)) {
    const message = error instanceof Error ? error.name : "no answer";
    return new SqlFailure({ code: UNAVAILABLE[0], status: UNAVAILABLE[1], sqlState: "", origin: "transport", message });
  }
  const meaning = [5, 3, 2].map((length) => MEANINGS.get(sqlState.slice(0, length))).find((found) => found);
  const [code, status] = meaning ?? FAILED;
  const origin: Origin = /^(?:08|57P|53)/.test(sqlState) ? "transport" : "service";
  return new SqlFailure({ code, status, sqlState, origin, message: `SQLSTATE ${sqlState}` });
}

/** Returns whether the same transaction may succeed at once: another one was in its way. */
export function isConflict({ sqlState }: SqlFailure): boolean {
  return sqlState === "40001" || sqlState === "40P01";
}

/** Returns whether the server itself said that the transaction failed: then nothing is changed. */
export function isDefinite({ sqlState, origin }: SqlFailure): boolean {
  return sqlState !== "" && origin === "service";
}

/** Returns whether the tables or functions of a statement may have changed. */
export function maybeDrifted({ sqlState }: SqlFailure): boolean {
  return DRIFTED.has(sqlState);
}

/** Returns the refusal for a failed query. */
export function refusalOf(failed: SqlFailure, call: OutgoingCall): Refusal {
  const code = call.signal.aborted ? abortCode(call.signal) : failed.code;
  const { status, sqlState, message, origin } = failed;
  return new Refusal(code, MESSAGES[code] ?? "The call failed.", {
    ...waitOf(failed, code),
    details: { status },
    cause: { system: call.system, tool: call.path, status, sqlState, because: message, origin },
  });
}

/** Returns the refusal of a call for one row that does not exist. */
export function noSuchRow(): Refusal {
  return new Refusal("TARGET_REFUSED", "There is no such row.", { details: { status: "NOT_FOUND" } });
}

const MESSAGES: Partial<Record<RefusalCode, string>> = FAILURE_MESSAGES;

function abortCode(signal: AbortSignal): RefusalCode {
  return isTimeout(signal) ? "DEADLINE_EXCEEDED" : "CANCELLED";
}
