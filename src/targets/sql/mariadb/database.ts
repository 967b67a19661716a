import { resultSoonAfter, resultWithin } from "../../../core/time-limits.ts";
import { StoreUnavailable } from "../../../database/pool.ts";
import {
  type MariaDbAddress,
  MariaDbConnection,
  type PreparedOnServer,
  type ReadBounds,
  type StatementAnswer,
} from "./connection.ts";
import { commitFailureOf } from "./failures.ts";
import { MariaDbPool } from "./pool.ts";

/** Time that a server has to end a transaction that was rolled back. */
const END_MS_MAX = 1_000;

interface DatabaseOptions {
  readonly name: string;
  /** Called for each connection: password and certificates may have been renewed. */
  readonly address: () => MariaDbAddress;
  readonly connections: number;
  readonly statementMs: number;
  readonly lockMs: number;
}

/** One transaction. */
export interface MariaDbTransaction {
  /** Number of its connection on the server. */
  readonly connection: number;
  /** Runs the statement of a tool. */
  run(sql: string, values: readonly (string | null)[], bounds: ReadBounds): Promise<StatementAnswer>;
  /** Runs a query of the service itself. */
  ask(sql: string, values?: readonly string[]): Promise<readonly (readonly (string | null)[])[]>;
  prepare(sql: string): Promise<PreparedOnServer>;
  /** Returns the numbers of the warnings of the last statement. */
  warnings(): Promise<readonly number[]>;
}

/** Time limit for COMMIT, in addition to the limit for a statement, in milliseconds. The caller's deadline does not shorten it. */
const COMMIT_MS_MAX = 5_000;
/** Number of the error of a statement that the service has interrupted, because it needs no more rows. */
const INTERRUPTED = 1317;
/** Number of the note, which is no warning, of a value that was rounded or cut when it was stored. */
const CUT = 1265;
/** Limits for results of the service's own queries. */
const OWN: ReadBounds = { rows: 100_000, bytes: 67_108_864 };

/** The connections of one database, as one user. */
export class MariaDbDatabase {
  readonly #options: DatabaseOptions;
  readonly #pool: MariaDbPool;
  #hasAnswered = false;

  constructor(options: DatabaseOptions) {
    this.#options = options;
    const { name, connections, address } = options;
    this.#pool = new MariaDbPool({ name, count: connections, open: () => MariaDbConnection.open(address()) });
  }

  /** Whether the last transaction had an answer. */
  get hasAnswered(): boolean {
    return this.#hasAnswered;
  }

  /** Reads in one transaction, which is rolled back. `rows`: most rows that the server sends, where the statement has no LIMIT. */
  read<T>(signal: AbortSignal, work: (transaction: MariaDbTransaction) => Promise<T>, rows?: number): Promise<T> {
    return this.#rolledBack("READ ONLY", signal, work, rows);
  }

  /** Like `read`, for the check of a change: the server does not prepare a change in a read-only transaction. */
  look<T>(signal: AbortSignal, work: (transaction: MariaDbTransaction) => Promise<T>): Promise<T> {
    return this.#rolledBack("READ WRITE", signal, work);
  }

  async #rolledBack<T>(
    mode: string,
    signal: AbortSignal,
    work: (transaction: MariaDbTransaction) => Promise<T>,
    rows?: number,
  ): Promise<T> {
    this.#hasAnswered = false;
    const result = await this.#pool.run(signal, async (connection) => {
      await inTime(signal, this.#begin(connection, mode, rows));
      const done = await work(transactionOn(connection, signal));
      if (!connection.isBroken) await inTime(signal, connection.command("ROLLBACK"));
      return done;
    });
    this.#hasAnswered = true;
    return result;
  }

  /**
   * Changes in one transaction, which is committed when `work` has returned.
   * @throws what `work` throws, after which nothing is changed; any other error leaves open whether the change was committed
   */
  async change<T>(signal: AbortSignal, work: (transaction: MariaDbTransaction) => Promise<T>): Promise<T> {
    this.#hasAnswered = false;
    return this.#pool.run(signal, async (connection) => {
      await inTime(signal, this.#begin(connection, "READ WRITE"));
      let done: T;
      try {
        done = await work(transactionOn(connection, signal));
      } catch (error) {
        // Rolled back before the refusal is returned: the rows are free again. The server does it too, when the connection ends.
        if (!connection.isBroken)
          await inTime(signal, connection.command("ROLLBACK")).catch(() => connection.destroy());
        throw error;
      }
      await this.#commit(connection);
      this.#hasAnswered = true;
      return done;
    });
  }

  close(): Promise<void> {
    return this.#pool.close();
  }

  /** Commits. @throws {SqlFailure} With a conflict, nothing is changed; with any other failure, the outcome is unknown. */
  async #commit(connection: MariaDbConnection): Promise<void> {
    try {
      await resultWithin(connection.command("COMMIT"), this.#options.statementMs + COMMIT_MS_MAX, silent);
    } catch (error) {
      throw commitFailureOf(error);
    }
  }

  async #begin(connection: MariaDbConnection, mode: string, rows?: number): Promise<void> {
    const { statementMs, lockMs } = this.#options;
    const lock = Math.ceil(lockMs / 1_000);
    const settings = [
      // In another mode, the server reads another statement than the one that was checked.
      "sql_mode = 'STRICT_ALL_TABLES,STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
      "time_zone = '+00:00'",
      "sql_auto_is_null = 0",
      "sql_notes = 1",
      "max_error_count = 64",
      "group_concat_max_len = 16777216",
      `max_statement_time = ${statementMs / 1_000}`,
      `lock_wait_timeout = ${lock}`,
      `innodb_lock_wait_timeout = ${lock}`,
      `sql_select_limit = ${rows ?? "18446744073709551615"}`,
    ];
    // A server may be configured to ignore the character set that a client names when it connects.
    await connection.command(`SET NAMES utf8mb4 COLLATE utf8mb4_general_ci, SESSION ${settings.join(", ")}`);
    await connection.command("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    await connection.command(`START TRANSACTION ${mode}`);
  }
}

function transactionOn(connection: MariaDbConnection, signal: AbortSignal): MariaDbTransaction {
  const asked = () => inTime(signal, connection.command("SHOW WARNINGS"));
  return {
    connection: connection.id,
    run: (sql, values, bounds) => connection.run(sql, values, bounds, signal),
    ask: async (sql, values = []) => (await connection.run(sql, values, OWN, signal)).rows,
    prepare: (sql) => inTime(signal, connection.prepare(sql)),
    async warnings() {
      // An interruption that came after the end of its statement hits the next one.
      const rows = await asked().catch(asked);
      return rows
        .map(([level, code]) => ({ isNote: level === "Note", code: Number(code) }))
        .filter(({ isNote, code }) => code !== INTERRUPTED && (!isNote || code === CUT))
        .map(({ code }) => code);
    },
  };
}

/** Settles like `work`, but fails when that has not ended soon after the signal. */
function inTime<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return resultSoonAfter(work, signal, END_MS_MAX, silent);
}

function silent(): Error {
  return new StoreUnavailable("the server does not answer");
}
