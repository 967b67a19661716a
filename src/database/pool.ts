import { present } from "../core/present.ts";
import { resultSoonAfter, resultWithin } from "../core/time-limits.ts";
import { StoreProblem, transact } from "./dialect.ts";
import { Semaphore } from "./semaphore.ts";

export interface PoolLimits {
  /** Limit for a whole transaction, after which the connection is closed, in milliseconds. */
  readonly transactionMs: number;
  /** Longest wait for a connection, in milliseconds; after it the transaction fails. */
  readonly queueMs: number;
}

/** Time that a server has to end a transaction whose signal has fired, in milliseconds. */
const END_MS_MAX = 1_000;
const APPROVALS_SERVER = "the approvals' PostgreSQL";

interface Run<T> {
  readonly mode: string;
  readonly work: (sql: Bun.TransactionSQL) => Promise<T>;
  readonly using: typeof transact;
  readonly signal: AbortSignal | undefined;
}

interface PoolOptions {
  readonly count: number;
  /** Name of the server in errors. */
  readonly server?: string;
  readonly limits: PoolLimits;
  readonly open: () => Bun.SQL;
}

/**
 * A connection pool; each connection runs one transaction at a time. Rejected: the runtime's own pool, which waits for a silent
 * server indefinitely and hands out broken connections.
 */
export class ConnectionPool {
  readonly #free: PooledConnection[];
  readonly #all: readonly PooledConnection[];
  readonly #permits: Semaphore;

  constructor(options: PoolOptions) {
    const { count, server = APPROVALS_SERVER, limits } = options;
    this.#permits = new Semaphore({
      permits: count,
      waitMs: limits.queueMs,
      refused: () => new NoFreeConnection(`${server} has no free connection: it is slow or unavailable`),
    });
    this.#all = Array.from({ length: count }, () => new PooledConnection(options));
    this.#free = [...this.#all];
  }

  /** `using`: how the transaction begins and ends. Soon after the signal, it fails, and its connection is closed. */
  async run<T>(
    mode: string,
    work: (sql: Bun.TransactionSQL) => Promise<T>,
    { using = transact, signal }: Partial<Pick<Run<T>, "using" | "signal">> = {},
  ): Promise<T> {
    await this.#permits.acquire(signal);
    const connection = present(this.#free.pop(), "a connection for each permit");
    try {
      return await connection.run({ mode, work, using, signal });
    } finally {
      this.#free.push(connection);
      this.#permits.release();
    }
  }

  async close(): Promise<void> {
    this.#permits.close();
    await Promise.all(this.#all.map((connection) => connection.close()));
  }
}

/** At most one connection, opened on demand and discarded after any database or connection error. */
class PooledConnection {
  readonly #options: PoolOptions;
  #sql: Bun.SQL | undefined;
  #closed = false;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  async run<T>({ work, ...run }: Run<T>): Promise<T> {
    const wasOpen = this.#sql !== undefined;
    const progress = { isBegun: false };
    const noted = (sql: Bun.TransactionSQL): Promise<T> => {
      progress.isBegun = true;
      return work(sql);
    };
    try {
      return await this.#once({ ...run, work: noted });
    } catch (error) {
      // The server closed the connection or restarted between two transactions: this transaction has not sent anything.
      if (!wasOpen || progress.isBegun || !(error instanceof Bun.SQL.SQLError)) throw error;
    }
    return this.#once({ ...run, work: noted });
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#drop();
  }

  async #once<T>({ mode, work, using, signal }: Run<T>): Promise<T> {
    const { open, limits, server = APPROVALS_SERVER } = this.#options;
    if (this.#closed) throw new StoreUnavailable(`${server} is closed`);
    this.#sql ??= open();
    const tooLate = (): Error => new StoreUnavailable(`${server} does not answer`);
    try {
      const ended = resultWithin(using(this.#sql, mode, work), limits.transactionMs, tooLate);
      return await (signal === undefined ? ended : resultSoonAfter(ended, signal, END_MS_MAX, tooLate));
    } catch (error) {
      if (isOfServer(error)) void this.#drop();
      throw error;
    }
  }

  /** Closes the connection immediately; the server rolls back an open transaction. */
  async #drop(): Promise<void> {
    const sql = this.#sql;
    this.#sql = undefined;
    await sql?.close({ timeout: 0 }).catch(() => {});
  }
}

/** A server that has become a standby stays one: its address may lead to the primary by now. */
function isOfServer(error: unknown): boolean {
  return error instanceof StoreUnavailable || error instanceof StoreProblem || error instanceof Bun.SQL.SQLError;
}

/** The server is unavailable or unreachable. */
export class StoreUnavailable extends Error {
  override readonly name = "StoreUnavailable";
}

/** All connections are in use. Nothing was sent. */
export class NoFreeConnection extends StoreUnavailable {}
