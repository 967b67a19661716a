import { Refusal } from "../../../core/errors.ts";
import type { Origin } from "../../../egress/resilience.ts";
import {
  CONSTRAINED,
  EXISTS,
  FAILED,
  FORBIDDEN,
  type Meaning,
  SqlFailure,
  TOO_LATE,
  UNAVAILABLE,
  WRONG_VALUE,
} from "../failures.ts";
import { INVALID_TEXT } from "./protocol.ts";

/** Refusals by SQLite's name of an error, or by the start of the name: https://www.sqlite.org/rescode.html */
const MEANINGS: readonly (readonly [name: string, meaning: Meaning])[] = [
  ["SQLITE_CONSTRAINT_UNIQUE", EXISTS],
  ["SQLITE_CONSTRAINT_PRIMARYKEY", EXISTS],
  ["SQLITE_CONSTRAINT_ROWID", EXISTS],
  ["SQLITE_CONSTRAINT", CONSTRAINED],
  ["SQLITE_MISMATCH", WRONG_VALUE],
  ["SQLITE_TOOBIG", WRONG_VALUE],
  ["SQLITE_AUTH", FORBIDDEN],
  ["SQLITE_BUSY", UNAVAILABLE],
  ["SQLITE_LOCKED", UNAVAILABLE],
  ["SQLITE_PROTOCOL", UNAVAILABLE],
  ["SQLITE_NOMEM", UNAVAILABLE],
  ["SQLITE_FULL", UNAVAILABLE],
  ["SQLITE_READONLY", UNAVAILABLE],
  ["SQLITE_CANTOPEN", UNAVAILABLE],
  ["SQLITE_IOERR", UNAVAILABLE],
];

/** Errors by which a process may show that the database's files are others than when it was started. */
const STALE = /^SQLITE_(?:READONLY|CANTOPEN|IOERR|PERM)/;

/** Returns what an error of SQLite means. */
export function failureOf(error: string): SqlFailure | Refusal {
  if (error === INVALID_TEXT) {
    return new Refusal("INVALID_OUTPUT", "The service's answer could not be read.", {
      cause: { because: "a text is not Unicode" },
    });
  }
  const [code, status] = MEANINGS.find(([name]) => error.startsWith(name))?.[1] ?? FAILED;
  return new SqlFailure({
    code,
    status,
    sqlState: error,
    origin: "service",
    message: error,
    isDefinite: true,
    // SQLite has no code of its own for a missing table or column.
    maybeDrifted: error === "SQLITE_ERROR" || error === "SQLITE_SCHEMA",
  });
}

/** Returns whether the error may mean that the process has other files open than the database's. */
export function isStale(error: unknown): boolean {
  return error instanceof SqlFailure && STALE.test(error.sqlState);
}

/** Returns the failure of a statement whose process was killed at the time limit. */
export function tooLate(): SqlFailure {
  const [code, status] = TOO_LATE;
  return new SqlFailure({ code, status, sqlState: "", origin: "service", message: "the time limit was reached" });
}

/** Returns the failure of a statement whose process cannot be used. `because`: the reason, for operators. */
export function unavailable(because: string, origin: Origin = "transport"): SqlFailure {
  const [code, status] = UNAVAILABLE;
  return new SqlFailure({ code, status, sqlState: "", origin, message: because });
}
