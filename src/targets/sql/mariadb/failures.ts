import { NoFreeConnection } from "../../../database/pool.ts";
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

/** Refusals by the number of the error: https://mariadb.com/kb/en/mariadb-error-code-reference/ */
const MEANINGS: ReadonlyMap<number, Meaning> = new Map([
  ...[1062, 1586].map((number) => [number, EXISTS] as const),
  ...[1364, 1644, 4025].map((number) => [number, CONSTRAINED] as const),
  ...[1264, 1265, 1267, 1292, 1366, 1406, 1411, 1690].map((number) => [number, WRONG_VALUE] as const),
  ...[1044, 1142, 1143, 1227, 1370, 1792].map((number) => [number, FORBIDDEN] as const),
  ...[1020, 1213].map((number) => [number, CONFLICT] as const),
  ...[1317, 1969].map((number) => [number, TOO_LATE] as const),
  ...[1021, 1030, 1040, 1053, 1114, 1158, 1159, 1160, 1161, 1203, 1205, 1226, 1290, 1927].map(
    (number) => [number, UNAVAILABLE] as const,
  ),
]);

/** Refusals by class of the SQLSTATE, for all other numbers. */
const CLASSES: ReadonlyMap<string, Meaning> = new Map([
  ["22", WRONG_VALUE],
  ["23", CONSTRAINED],
  ["28", ["TARGET_FAILED", "UNAUTHENTICATED"]],
  ["45", CONSTRAINED],
  ["40", UNAVAILABLE],
  ["08", UNAVAILABLE],
]);

/** Failures of the server or its connections, not of the statement. */
const OF_SERVER = new Set([1040, 1053, 1158, 1159, 1160, 1161, 1203, 1226, 1927]);
/** Errors after which the check of a statement may be outdated: tables, columns, views, functions or rights may have changed. */
const DRIFTED = new Set([1044, 1049, 1054, 1064, 1142, 1143, 1146, 1305, 1356, 1370, 1792, 4078, 4079]);
const CONFLICTS = new Set([1020, 1213]);

/** Returns what an error of the driver means. Its text may hold rows, and is in none of the results. */
function failureOf(error: unknown): SqlFailure {
  if (error instanceof SqlFailure) return error;
  const { errno, sqlState, code } = error as {
    readonly errno?: unknown;
    readonly sqlState?: unknown;
    readonly code?: unknown;
  };
  if (typeof errno !== "number" || typeof sqlState !== "string" || !/^[0-9A-Z]{5}$/.test(sqlState)) {
    // The driver's own codes, as PROTOCOL_CONNECTION_LOST or HANDSHAKE_SSL_ERROR.
    const named = typeof code === "string" && /^[A-Z_]{1,64}$/.test(code) ? code : "no answer";
    return new SqlFailure({
      code: UNAVAILABLE[0],
      status: UNAVAILABLE[1],
      sqlState: "",
      // A wait for a connection is no failure of the server.
      origin: error instanceof NoFreeConnection ? "local" : "transport",
      message: named,
    });
  }
  const [refusal, status] = MEANINGS.get(errno) ?? CLASSES.get(sqlState.slice(0, 2)) ?? FAILED;
  const origin: Origin = OF_SERVER.has(errno) ? "transport" : "service";
  return new SqlFailure({
    code: refusal,
    status,
    sqlState,
    origin,
    message: `error ${errno}, SQLSTATE ${sqlState}`,
    isConflict: CONFLICTS.has(errno),
    isDefinite: origin === "service",
    maybeDrifted: DRIFTED.has(errno),
  });
}

/** Returns what an error means in a call. The end of a connection with its call is no failure of the server. */
export function failureIn(signal: AbortSignal, error: unknown): SqlFailure {
  const failure = failureOf(error);
  if (!signal.aborted || failure.origin !== "transport" || error instanceof SqlFailure) return failure;
  const [code, status] = TOO_LATE;
  return new SqlFailure({ code, status, sqlState: "", origin: "local", message: failure.message });
}

/** Returns the failure for an error of COMMIT. Only a conflict guarantees that nothing was changed. */
export function commitFailureOf(error: unknown): SqlFailure {
  const { code, status, sqlState, origin, message, isConflict } = failureOf(error);
  return new SqlFailure({ code, status, sqlState, origin, message, isConflict, isDefinite: isConflict });
}

/** Returns the failure of a statement with warnings: a value was cut, or was compared as another one than it is. */
export function warned(numbers: readonly number[]): SqlFailure {
  const [code, status] = WRONG_VALUE;
  const message = `the server warned: ${[...new Set(numbers)].slice(0, 5).join(", ")}`;
  return new SqlFailure({ code, status, sqlState: "01000", origin: "service", message, isDefinite: true });
}
