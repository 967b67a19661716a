import { hash } from "node:crypto";
import { resultWithin } from "../../core/time-limits.ts";
import type { Rate, RateLimiter } from "./rate-limiter.ts";
import type { Rates } from "./rates.ts";

/** How often replicas share their charges. Together they exceed a limit by at most the calls of this interval and one each. */
const SHARE_EVERY_MS = 100;
/** Maximum number of buckets that are shared in one round; the others follow in the next. */
const BUCKETS_MAX = 1_000;
/** Time limit for one answer of the table. No call waits for it. */
export const ANSWER_MS_MAX = 1_000;

export interface SharedCharge {
  readonly bucket: string;
  readonly addedMs: number;
}

/** Buckets shared by all replicas. */
export interface RateTable {
  /** What keeps it, for the log. */
  readonly keeper: string;
  /** Connects to the table, and creates it if it is missing. Does nothing while it is open. Left out: always open. */
  open?(): Promise<void>;
  /** Adds to the buckets and returns, in their order, how full each is afterwards, in milliseconds. */
  add(charges: readonly SharedCharge[]): Promise<readonly number[]>;
  /** Aborts running statements and reconnects at the next use. */
  close(): Promise<void>;
}

export interface SharedRatesOptions {
  readonly rates: Rates;
  readonly table: RateTable;
  readonly now: () => number;
  /** Called when the table becomes unavailable and when it is available again. */
  readonly log: (message: string, cause?: unknown) => void;
}

/**
 * Combines the rate limits of several replicas: each admits by its own buckets, sends its charges to the table, and adopts the
 * levels that the table returns. A call never waits for the database, and while the database is unavailable every replica
 * enforces its own count. Charges wait until the table is open. Charges whose statement failed are not sent again: it is unknown
 * whether a statement without an answer was executed, and no charge may count twice.
 */
export class SharedRates {
  readonly #options: SharedRatesOptions;
  readonly #timer: NodeJS.Timeout;
  #sharing: Promise<void> | undefined;
  #isUnavailable = false;

  constructor(options: SharedRatesOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.share(), SHARE_EVERY_MS);
    this.#timer.unref();
  }

  /** Runs one round. Rounds do not overlap. */
  share(): Promise<void> {
    this.#sharing ??= this.#exchange().finally(() => {
      this.#sharing = undefined;
    });
    return this.#sharing;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#sharing;
    await this.#options.table.close();
  }

  async #exchange(): Promise<void> {
    const { rates, table, now } = this.#options;
    if (!rates.limiters.values().some((limiter) => limiter.hasUnshared)) return;
    try {
      if (table.open !== undefined) await resultWithin(table.open(), ANSWER_MS_MAX, timeout);
      const taken = this.#take(now());
      if (taken.length === 0) return;
      const filled = await resultWithin(table.add(taken.map(({ charge }) => charge)), ANSWER_MS_MAX, timeout);
      const at = now();
      for (const [index, { limiter, rate, key }] of taken.entries()) {
        // A level is a time at the rate that it was asked for: with another one it would be another number of calls.
        if (limiter.rate === rate) limiter.adopt(key, filled[index] ?? 0, at);
      }
      this.#setUnavailable(false);
    } catch (error) {
      this.#setUnavailable(true, error);
      // A connection that does not answer is not reused: the next round opens its own.
      await table.close().catch(() => {});
    }
  }

  #take(now: number): readonly TakenCharge[] {
    const taken: TakenCharge[] = [];
    for (const [name, limiter] of this.#options.rates.limiters) {
      for (const { key, addedMs } of limiter.takeUnshared(BUCKETS_MAX - taken.length, now)) {
        // The hash keeps callers' identities out of the database and bounds the length of the key.
        const bucket = hash("sha256", `${name}\n${key}`, "base64url");
        taken.push({ limiter, rate: limiter.rate, key, charge: { bucket, addedMs } });
      }
    }
    return taken;
  }

  #setUnavailable(isUnavailable: boolean, cause?: unknown): void {
    if (isUnavailable === this.#isUnavailable) return;
    this.#isUnavailable = isUnavailable;
    const { log, table } = this.#options;
    log(
      isUnavailable
        ? `replicas count calls separately: ${table.keeper} is unavailable`
        : "replicas count calls together again",
      cause,
    );
  }
}

interface TakenCharge {
  readonly limiter: RateLimiter;
  /** The limiter's rate when the charge was taken; each change of the limit gives it another object. */
  readonly rate: Rate;
  readonly key: string;
  readonly charge: SharedCharge;
}

function timeout(): Error {
  return new Error(`no answer in ${ANSWER_MS_MAX} ms`);
}
