import { resultWithin } from "../../../core/time-limits.ts";
import { NoFreeConnection, StoreUnavailable } from "../../../database/pool.ts";
import { Semaphore } from "../../../database/semaphore.ts";
import type { MariaDbConnection } from "./connection.ts";

const QUEUE_MS_MAX = 5_000;
const RESET_MS_MAX = 1_000;

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
  readonly #permits: Semaphore;
  #closed = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    const { name, count } = options;
    this.#permits = new Semaphore({
      permits: count,
      waitMs: QUEUE_MS_MAX,
      refused: () => new NoFreeConnection(`the database of ${name} has no free connection`),
    });
  }

  async run<T>(signal: AbortSignal, work: (connection: MariaDbConnection) => Promise<T>): Promise<T> {
    await this.#permits.acquire(signal);
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
    this.#permits.close();
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
    this.#permits.release();
  }

  #discard(connection: MariaDbConnection | undefined): void {
    connection?.destroy();
    if (connection !== undefined) this.#used.delete(connection);
    this.#permits.release();
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
