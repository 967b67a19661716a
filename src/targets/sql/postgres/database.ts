import { transact } from "../../../database/dialect.ts";
import { ConnectionPool, StoreUnavailable } from "../../../database/pool.ts";
import { connect } from "../../../database/postgres.ts";
import type { PostgresAddress } from "../../../database/postgres-url.ts";
import type { Outcome, RecordedTransaction } from "../engine.ts";
import { sqlStateOf } from "./failures.ts";
import { SERVER_SQL } from "./state.ts";

const QUEUE_MS_MAX = 5_000;

const READ = "ISOLATION LEVEL READ COMMITTED READ ONLY";
/** Transaction mode of changes, and of the check of a statement, which is rolled back. */
const WRITE = "ISOLATION LEVEL READ COMMITTED READ WRITE";

/** Limits that the server enforces in every transaction, in milliseconds. */
export interface StatementLimits {
  readonly statementMs: number;
  readonly lockMs: number;
}

interface DatabaseOptions extends StatementLimits {
  readonly name: string;
  /** Called for each connection: password and certificates may have been renewed. */
  readonly address: () => PostgresAddress;
  readonly connections: number;
}

/** The columns of a row, as the driver returns them. */
export type SentRow = readonly (string | number | boolean | null)[];

/** A column of a query, as the server describes it. */
export interface SentColumn {
  readonly name: string;
  readonly type: number;
  /** 0 when the column is computed. */
  readonly table: number;
  readonly number: number;
}

/** One transaction. Every statement is sent by the extended protocol, in which there is only one at a time. */
export interface Transaction {
  query(text: string, parameters: readonly (string | null)[]): Promise<readonly SentRow[]>;
  columns(text: string, parameters: readonly (string | null)[]): Promise<readonly SentColumn[]>;
  /** Runs a command that has no parameters. */
  command(text: string): Promise<void>;
}

/** A setting of one transaction. */
export type Setting = readonly [name: string, value: string];

/** Makes settings, in their order. */
export async function makeSettings(transaction: Transaction, settings: readonly Setting[]): Promise<void> {
  if (settings.length === 0) return;
  const made = settings.map((_, index) => `set_config($${2 * index + 1}::text, $${2 * index + 2}::text, true)`);
  await transaction.query(`SELECT ${made.join(", ")}`, settings.flat());
}

/** Returns the limits, and the forms in which values are written. */
function settingsOf({ statementMs, lockMs }: StatementLimits): readonly Setting[] {
  return [
    ["statement_timeout", String(statementMs)],
    ["idle_in_transaction_session_timeout", String(statementMs)],
    ["lock_timeout", String(lockMs)],
    ["TimeZone", "UTC"],
    ["DateStyle", "ISO, YMD"],
    ["IntervalStyle", "iso_8601"],
    ["bytea_output", "hex"],
    ["extra_float_digits", "1"],
    ["xmloption", "content"],
    // Names of types in descriptions.
    ["quote_all_identifiers", "off"],
    // Settings that change the meaning of a statement, and of a list.
    ["standard_conforming_strings", "on"],
    ["transform_null_equals", "off"],
    ["array_nulls", "on"],
  ];
}

/** Most transactions between which a connection is never without one: a pooler gives a free one to others that wait. */
const CHAINED_MAX = 16;

interface Unended {
  readonly held: Bun.ReservedSQL;
  /** Mode of the transaction. */
  readonly mode: string;
  /** Number of transactions since the connection was without one. */
  readonly chained: number;
}

/** The connections of one database, as one user. */
export class SqlDatabase {
  readonly #options: DatabaseOptions;
  readonly #pool: ConnectionPool;
  /** Limits of every transaction. */
  readonly #settings: readonly Setting[];
  /** Commands that set `#settings` in a transaction. */
  readonly #setting: string;
  /** Transactions that are still to be rolled back, by connection. */
  readonly #unended = new WeakMap<Bun.SQL, Unended>();
  #hasAnswered = false;

  constructor(options: DatabaseOptions) {
    this.#options = options;
    this.#settings = settingsOf(options);
    // In one message with BEGIN, by the simple protocol: nothing of it comes from a tool or a caller.
    this.#setting = this.#settings.map(([name, value]) => `SET LOCAL ${name} = '${value}'`).join("; ");
    this.#pool = new ConnectionPool({
      count: options.connections,
      server: `the database of ${options.name}`,
      // The server's own limit and the caller's deadline end a statement earlier.
      limits: { transactionMs: options.statementMs + QUEUE_MS_MAX, queueMs: QUEUE_MS_MAX },
      open: () => connect({ ...options.address(), isPooled: true }),
      end: (sql) => this.#end(sql),
    });
  }

  /** Whether the last transaction had an answer. */
  get hasAnswered(): boolean {
    return this.#hasAnswered;
  }

  /**
   * Reads in one transaction. When the signal fires, the statement is cancelled on the server.
   * @throws StoreUnavailable, or an SQLError of the server
   */
  read<T>(signal: AbortSignal, work: (transaction: Transaction) => Promise<T>): Promise<T> {
    return this.#rolledBack(READ, signal, work);
  }

  /** Like `read`, but the transaction may create temporary objects. */
  look<T>(signal: AbortSignal, work: (transaction: Transaction) => Promise<T>): Promise<T> {
    return this.#rolledBack(WRITE, signal, work);
  }

  /**
   * Changes in one transaction, which is committed when `work` has returned.
   * @throws what `work` throws, after which nothing is changed; any other error leaves open whether the change was committed
   */
  change<T>(signal: AbortSignal, work: (transaction: Transaction) => Promise<T>): Promise<T> {
    const using: typeof transact = async (connection, mode, run) => {
      await this.#end(connection);
      return transact(connection, mode, run);
    };
    return this.#run(WRITE, signal, using, async (transaction) => {
      await makeSettings(transaction, this.#settings);
      return work(transaction);
    });
  }

  /**
   * Returns the outcome of a transaction. Undefined when the server does not know it, or has started again since: after a crash or from
   * a backup, it may have given the same id to another transaction.
   */
  async outcomeOf({ transaction: id, server = "" }: RecordedTransaction, signal: AbortSignal) {
    const [[status] = []] = await this.read(signal, (transaction) =>
      transaction.query(`SELECT CASE WHEN ${SERVER_SQL} = $2::text THEN pg_xact_status($1::text::xid8) END`, [
        id,
        server,
      ]),
    );
    return typeof status === "string" ? (status as Outcome) : undefined;
  }

  close(): Promise<void> {
    return this.#pool.close();
  }

  async #rolledBack<T>(mode: string, signal: AbortSignal, work: (transaction: Transaction) => Promise<T>): Promise<T> {
    return this.#run(mode, signal, (...run) => this.#rollBack(...run), work);
  }

  /**
   * Runs `work` in a transaction that is rolled back: settings, notifications and cursors of its statements are undone with it. After
   * a success, ROLLBACK is sent by `#end` or with the next BEGIN.
   */
  async #rollBack<T>(connection: Bun.SQL, mode: string, work: (sql: Bun.TransactionSQL) => Promise<T>): Promise<T> {
    const unended = this.#unended.get(connection);
    this.#unended.delete(connection);
    // Reserves one connection: after a lost one, the pool would run the statement on a new connection, outside of the transaction.
    const { held, chained } = unended ?? { held: await connection.reserve(), chained: 0 };
    let result: T;
    try {
      await held.unsafe(`${beginOf(mode, unended)}; ${this.#setting}`);
      result = await work(held as unknown as Bun.TransactionSQL);
    } catch (error) {
      await rollBack(held);
      throw error;
    }
    this.#unended.set(connection, { held, mode, chained: chained + 1 });
    if (chained + 1 >= CHAINED_MAX) await this.#end(connection);
    return result;
  }

  /** Rolls back the transaction that the last one on this connection has left open. */
  #end(connection: Bun.SQL): Promise<void> | undefined {
    const unended = this.#unended.get(connection);
    this.#unended.delete(connection);
    return unended && rollBack(unended.held);
  }

  async #run<T>(
    mode: string,
    signal: AbortSignal,
    using: typeof transact,
    work: (transaction: Transaction) => Promise<T>,
  ): Promise<T> {
    try {
      const result = await this.#pool.run(mode, (sql) => work(this.#transaction(sql, signal)), { using, signal });
      this.#hasAnswered = true;
      return result;
    } catch (error) {
      this.#hasAnswered = !isNoAnswer(error);
      throw error;
    }
  }

  #transaction(sql: Bun.TransactionSQL, signal: AbortSignal): Transaction {
    const run = async (query: Bun.SQL.Query<unknown>): Promise<unknown> => {
      if (signal.aborted) throw new StoreUnavailable(`the call of ${this.#options.name} has ended`);
      // The pool ends the wait for a server that does not even answer this.
      const cancel = (): void => void query.cancel();
      signal.addEventListener("abort", cancel, { once: true });
      try {
        return await query;
      } finally {
        signal.removeEventListener("abort", cancel);
      }
    };
    return {
      query: async (text, parameters) =>
        (await run(
          parameters.length === 0 ? sql(extended(text)).values() : sql.unsafe(text, [...parameters]).values(),
        )) as readonly SentRow[],
      async columns(text, parameters) {
        const result = (await run(sql.unsafe(text, [...parameters]))) as { readonly columns?: readonly SentColumn[] };
        return result.columns ?? [];
      },
      async command(text) {
        await run(sql(extended(text)));
      },
    };
  }
}

/** Returns the command that begins a transaction, and ends the one before it. */
function beginOf(mode: string, unended: Unended | undefined): string {
  if (unended === undefined) return `BEGIN ${mode}`;
  // AND CHAIN begins a transaction in the same mode.
  return unended.mode === mode ? "ROLLBACK AND CHAIN" : `ROLLBACK; BEGIN ${mode}`;
}

async function rollBack(held: Bun.ReservedSQL): Promise<void> {
  try {
    await held.unsafe("ROLLBACK");
  } finally {
    held.release();
  }
}

/** Returns whether the server said nothing at all. */
function isNoAnswer(error: unknown): boolean {
  return error instanceof StoreUnavailable || (error instanceof Bun.SQL.SQLError && sqlStateOf(error) === "");
}

/** Returns a text as a template without values: such a one is sent by the extended protocol, a plain text is not. */
function extended(text: string): TemplateStringsArray {
  const strings = [text];
  // The runtime takes a list with an enumerable `raw` for values.
  Object.defineProperty(strings, "raw", { value: strings, enumerable: false });
  return strings as unknown as TemplateStringsArray;
}
