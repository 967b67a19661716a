import { resultWithin } from "../../../core/time-limits.ts";
import { NoFreeConnection, StoreUnavailable } from "../../../database/pool.ts";
import type { MariaDbConnection } from "./connection.ts";

const QUEUE_MS_MAX = 5_000;
const RESET_MS_MAX = 1_000;
const QUEUED_MAX = 5_000;

interface PoolOptions {
  readonly name: string;
  readonly count: number;
  readonly open: () => Promise<MariaDbConnection>;
}

/** At most `count` connections. Each one is reset before another call gets it, and is thrown away after an error. */
export class MariaDbPool {
  readonly #options: PoolOptions;
  readonly #idle: MariaDbConnection[] = [];
  readonly #used = new Set<MariaDbConnection>();
  readonly #queue = new Set<(mayGo: boolean) => void>();
  #free: number;
  #closed = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#free = options.count;
  }

  async run<T>(signal: AbortSignal, work: (connection: MariaDbConnection) => Promise<T>): Promise<T> {
    await this.#turn(signal);
    let connection: MariaDbConnection | undefined;
    try {
      connection = await this.#connection(signal);
      this.#used.add(connection);
      const result = await work(connection);
      void this.#release(connection);
      return result;
    } catch (error) {
      this.#discard(connection);
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const next of [...this.#queue]) next(false);
    for (const connection of [...this.#idle, ...this.#used]) connection.destroy();
  }

  /** Resets a connection for the next call. No caller waits for it: the answer of the call is known. */
  async #release(connection: MariaDbConnection): Promise<void> {
    try {
      if (connection.isBroken || this.#closed) return this.#discard(connection);
      await resultWithin(connection.reset(), RESET_MS_MAX, () => new Error("it does not answer"));
    } catch {
      return this.#discard(connection);
    }
    this.#used.delete(connection);
    this.#idle.push(connection);
    this.#next();
  }

  #discard(connection: MariaDbConnection | undefined): void {
    connection?.destroy();
    if (connection !== undefined) this.#used.delete(connection);
    this.#next();
  }

  #next(): void {
    const [next] = this.#queue;
    if (next === undefined) this.#free += 1;
    else next(true);
  }

  /** Waits until the caller may have a connection. */
  async #turn(signal: AbortSignal): Promise<void> {
    const unavailable = (): Error =>
      new NoFreeConnection(`the database of ${this.#options.name} has no free connection`);
    if (this.#closed || signal.aborted) throw unavailable();
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    if (this.#queue.size >= QUEUED_MAX) throw unavailable();
    const mayGo = await new Promise<boolean>((resolve) => {
      const settle = (result: boolean): void => {
        clearTimeout(timer);
        signal.removeEventListener("abort", leave);
        this.#queue.delete(settle);
        resolve(result);
      };
      const leave = (): void => settle(false);
      const timer = setTimeout(leave, QUEUE_MS_MAX);
      signal.addEventListener("abort", leave, { once: true });
      this.#queue.add(settle);
    });
    if (!mayGo) throw unavailable();
  }

  async #connection(signal: AbortSignal): Promise<MariaDbConnection> {
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      if (!idle.isBroken) return idle;
      idle.destroy();
    }
    const opening = this.#options.open();
    const left = Promise.withResolvers<never>();
    const leave = (): void =>
      left.reject(new StoreUnavailable(`the database of ${this.#options.name} does not answer`));
    signal.addEventListener("abort", leave, { once: true });
    try {
      return await Promise.race([opening, left.promise]);
    } catch (error) {
      opening.then((late) => late.destroy()).catch(() => {});
      throw error;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }
}
