import type { EpochMs } from "../core/types.ts";
import { keyFrom, newSecret } from "./sealing.ts";
import type { SessionRows } from "./session-rows.ts";

/** Minimum time between two looks for another secret in the rows. */
const READ_AGAIN_MS = 10_000;

/** The secret that all replicas share, from which each use has a key of its own. It is read once, at the first use. */
export class SharedSecret {
  readonly #rows: SessionRows;
  readonly #clock: () => EpochMs;
  #secret: Promise<string> | undefined;
  #readAtMs = Number.NEGATIVE_INFINITY;

  constructor(rows: SessionRows, clock: () => EpochMs) {
    this.#rows = rows;
    this.#clock = clock;
  }

  /** Rejects while the secret was never read and the rows cannot be. */
  async keyFor(use: string): Promise<Buffer> {
    this.#secret ??= this.#read().catch((error: unknown) => {
      this.#secret = undefined;
      throw error;
    });
    return keyFrom(await this.#secret, use);
  }

  /**
   * Returns what `open` returns for the key. When that is undefined, looks for a secret that has replaced the known one, but rarely:
   * what anybody can send must not cause a read each time.
   */
  async tried<T>(use: string, open: (key: Buffer) => T | undefined): Promise<T | undefined> {
    const opened = open(await this.keyFor(use));
    if (opened !== undefined || Math.abs(this.#clock() - this.#readAtMs) < READ_AGAIN_MS) return opened;
    const found = await this.#read().catch(() => undefined);
    if (found === undefined) return undefined;
    this.#secret = Promise.resolve(found);
    return open(keyFrom(found, use));
  }

  #read(): Promise<string> {
    this.#readAtMs = this.#clock();
    return this.#rows.secret(newSecret());
  }
}
