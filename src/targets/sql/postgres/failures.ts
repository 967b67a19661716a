import { Refusal } from "../../../core/errors.ts";
import { NoFreeConnection, StoreUnavailable } from "../../../database/pool.ts";
import { stateOf } from "../../../database/postgres.ts";
import type { Origin } from "../../../egress/resilience.ts";
import {
  CONFLICT,
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

/** Returns whether the database, the driver or the network failed. Errors of the system and of TLS have codes. */
function isOfConnection(error: unknown): error is Error {
  if (error instanceof Refusal || error instanceof SqlFailure) return false;
  if (error instanceof StoreUnavailable || error instanceof Bun.SQL.SQLError) return true;
  return error instanceof Error && !(error instanceof TypeError) && "code" in error;
}

/** Returns the SQLSTATE; an empty text when the server said nothing. */
export function sqlStateOf(error: unknown): string {
  const state = stateOf(error);
  return /^[0-9A-Z]{5}$/.test(state) ? state : "";
}

/** Serialization failure (also on a standby, by a change of the primary), and deadlock. */
const CONFLICTS = ["40001", "40P01"] as const;
/** The server does not know itself whether the transaction was committed. */
const UNKNOWN = "40003";

/** Refusals by SQLSTATE, or by its class: https://www.postgresql.org/docs/current/errcodes-appendix.html */
const MEANINGS: ReadonlyMap<string, Meaning> = new Map([
  ["23505", EXISTS],
  ["23", CONSTRAINED],
  ["P0001", CONSTRAINED],
  ["22", WRONG_VALUE],
  ["42804", WRONG_VALUE],
  ["25006", FORBIDDEN],
  ["42501", FORBIDDEN],
  ["28", ["TARGET_FAILED", "UNAUTHENTICATED"]],
  ["57014", TOO_LATE],
  ["25P", TOO_LATE],
  ...CONFLICTS.map((state) => [state, CONFLICT] as const),
  ["40", UNAVAILABLE],
  ["55P03", UNAVAILABLE],
  ["53", UNAVAILABLE],
  ["57P", UNAVAILABLE],
  ["08", UNAVAILABLE],
]);

/** States of a statement that may not fit the database any more: tables, columns, functions, rights, or what a function does. */
const DRIFTED = new Set(["42P01", "42703", "42883", "42P10", "3F000", "0A000", "42501", "25006"]);

/**
 * Returns what an error of the driver means. Its text may hold rows, and is in none of the results. Returns other errors as they are:
 * refusals, and errors of this program.
 */
export function failureOf(error: unknown): unknown {
  if (!isOfConnection(error)) return error;
  const sqlState = sqlStateOf(error);
  if (sqlState === "") {
    return new SqlFailure({
      code: UNAVAILABLE[0],
      status: UNAVAILABLE[1],
      sqlState: "",
      // A wait for a connection is no failure of the server.
      origin: error instanceof NoFreeConnection ? "local" : "transport",
      message: error.name,
    });
  }
  const meaning = [5, 3, 2].map((length) => MEANINGS.get(sqlState.slice(0, length))).find((found) => found);
  const [code, status] = meaning ?? FAILED;
  const origin: Origin = /^(?:08|57P|53)/.test(sqlState) ? "transport" : "service";
  return new SqlFailure({
    code,
    status,
    sqlState,
    origin,
    message: `SQLSTATE ${sqlState}`,
    isConflict: CONFLICTS.some((state) => state === sqlState),
    isDefinite: origin === "service" && sqlState !== UNKNOWN,
    maybeDrifted: DRIFTED.has(sqlState),
  });
}
