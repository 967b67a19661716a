import { givenWithin } from "../../core/patience.ts";
import { type Sql, transact } from "./sql.ts";

/** From its beginning to its end; the server gives up its own part of it sooner. Then the connection is cut. */
const TRANSACTION_MS_MAX = 12_000;
/** Who waits longer for a connection is told that there is none. */
const QUEUE_MS_MAX = 10_000;
const QUEUED_MAX = 5_000;

/**
 * A few connections, each for one transaction at a time. Rejected: the runtime's own pool, which waits for a silent server
 * without an end, and hands out connections of which it does not know that they are broken.
 */
export class Lanes {
  readonly #free: Lane[];
  readonly #all: readonly Lane[];
  readonly #queue = new Set<(lane: Lane | undefined) => void>();
  #closed = false;

  constructor(count: number, connect: () => Bun.SQL) {
    this.#all = Array.from({ length: count }, () => new Lane(connect));
    this.#free = [...this.#all];
  }

  async run<T>(mode: string, work: (sql: Sql) => Promise<T>): Promise<T> {
    const lane = this.#free.pop() ?? (await this.#nextFree());
    if (lane === undefined || this.#closed) throw new StoreAway("has no connection free: it is slow, or away");
    try {
      return await lane.run(mode, work);
    } finally {
      const [next] = this.#queue;
      if (next === undefined) this.#free.push(lane);
      else next(lane);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const next of [...this.#queue]) next(undefined);
    await Promise.all(this.#all.map((lane) => lane.close()));
  }

  #nextFree(): Promise<Lane | undefined> {
    if (this.#queue.size >= QUEUED_MAX || this.#closed) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const settle = (lane: Lane | undefined): void => {
        clearTimeout(timer);
        this.#queue.delete(settle);
        resolve(lane);
      };
      const timer = setTimeout(() => settle(undefined), QUEUE_MS_MAX);
      this.#queue.add(settle);
    });
  }
}

/** One connection at most, made when it is needed and thrown away after any fault that is not the work's own. */
class Lane {
  readonly #connect: () => Bun.SQL;
  #sql: Bun.SQL | undefined;
  #closed = false;

  constructor(connect: () => Bun.SQL) {
    this.#connect = connect;
  }

  async run<T>(mode: string, work: (sql: Sql) => Promise<T>): Promise<T> {
    const wasOpen = this.#sql !== undefined;
    const progress = { isBegun: false };
    const noted = (sql: Sql): Promise<T> => {
      progress.isBegun = true;
      return work(sql);
    };
    try {
      return await this.#once(mode, noted);
    } catch (error) {
      // Between two transactions the server had ended the connection, or was restarted: of this one nothing was sent.
      if (!wasOpen || progress.isBegun || !(error instanceof Bun.SQL.SQLError)) throw error;
    }
    return this.#once(mode, noted);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#drop();
  }

  async #once<T>(mode: string, work: (sql: Sql) => Promise<T>): Promise<T> {
    if (this.#closed) throw new StoreAway("is closed");
    this.#sql ??= this.#connect();
    const tooLate = (): Error => new StoreAway("does not answer");
    try {
      return await givenWithin(transact(this.#sql, mode, work), TRANSACTION_MS_MAX, tooLate);
    } catch (error) {
      if (isFault(error)) void this.#drop();
      throw error;
    }
  }

  /** At once: what is under way on it is rolled back. */
  async #drop(): Promise<void> {
    const sql = this.#sql;
    this.#sql = undefined;
    await sql?.close({ timeout: 0 }).catch(() => {});
  }
}

/** The server, or the way to it. */
class StoreAway extends Error {
  override readonly name = "StoreAway";

  constructor(how: string) {
    super(`the approvals' PostgreSQL ${how}`);
  }
}

function isFault(error: unknown): boolean {
  return error instanceof StoreAway || error instanceof Bun.SQL.SQLError;
}
