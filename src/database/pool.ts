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
  /** Most connections that one user has at once. Left out: all. */
  readonly countPerUser?: number;
  /** Name of the server in errors. */
  readonly server?: string;
  readonly limits: PoolLimits;
  readonly open: () => Bun.SQL;
  /** Ends the transaction that `using` has left open; undefined when there is none. Called unless another transaction waits. */
  readonly end?: (sql: Bun.SQL) => Promise<unknown> | undefined;
}

interface RunOptions extends Partial<Pick<Run<unknown>, "using" | "signal">> {
  /** The user of the connections that runs the transaction. Users take turns, and each has a queue of its own. */
  readonly user?: string | undefined;
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
    const { count, countPerUser, server = APPROVALS_SERVER, limits } = options;
    this.#permits = new Semaphore({
      permits: count,
      permitsPerKey: countPerUser,
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
    { using = transact, signal, user }: RunOptions = {},
  ): Promise<T> {
    await this.#permits.acquire(signal, user);
    const connection = this.#take();
    try {
      return await connection.run({ mode, work, using, signal });
    } finally {
      // With a transaction that waits, the end of this one is sent together with the begin of the next.
      connection.isUnended = this.#permits.isAwaited;
      if (!connection.isUnended) await connection.settle();
      this.#free.push(connection);
      this.#permits.release(user);
    }
  }

  /** Refuses the transactions of a user that wait for a connection. */
  refuse(user: string | undefined): void {
    this.#permits.refuse(user);
  }

  /** Takes a free connection: first one with a transaction to be ended, so that none stays open. */
  #take(): PooledConnection {
    const unended = this.#free.findLastIndex(({ isUnended }) => isUnended);
    const [taken] = this.#free.splice(unended, 1);
    return present(taken, "a connection for each permit");
  }

  async close(): Promise<void> {
    this.#permits.close();
    await Promise.all(this.#all.map((connection) => connection.close()));
  }
}

/** At most one connection, opened on demand and discarded after any database or connection error. */
class PooledConnection {
  /** Whether its last transaction may have been left open, for the next one to end. */
  isUnended = false;
  readonly #options: PoolOptions;
  #sql: Bun.SQL | undefined;
  #closed = false;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  async run<T>({ mode, work, using, signal }: Run<T>): Promise<T> {
    const wasOpen = this.#sql !== undefined;
    let isBegun = false;
    const noted = (sql: Bun.TransactionSQL): Promise<T> => {
      isBegun = true;
      return work(sql);
    };
    const run = { mode, work: noted, using, signal };
    try {
      return await this.#once(run);
    } catch (error) {
      // The server closed the connection or restarted between two transactions: this transaction has not sent anything.
      if (!wasOpen || isBegun || !(error instanceof Bun.SQL.SQLError)) throw error;
    }
    return this.#once(run);
  }

  /** Ends a transaction that was left open. Drops the connection when that fails: the server ends the transaction then. */
  async settle(): Promise<void> {
    const { end, limits, server = APPROVALS_SERVER } = this.#options;
    const ending = this.#sql && end?.(this.#sql);
    if (ending === undefined) return;
    const tooLate = (): Error => new StoreUnavailable(`${server} does not answer`);
    await resultWithin(ending, limits.transactionMs, tooLate).catch(() => this.#drop());
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
