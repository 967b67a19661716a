import { hash } from "node:crypto";
import { givenWithin } from "../../core/time-limits.ts";
import type { RateLimiter } from "./rate-limiter.ts";
import type { Rates } from "./rates.ts";

/** How often replicas hear of each other; what they admit too much is at most what comes in this time, and a call each. */
const TELL_EVERY_MS = 100;
/** Buckets that are told of at once; the others a moment later. */
const BUCKETS_MAX = 1_000;
/** For one answer of the table. No call waits for it. */
const ANSWER_MS_MAX = 1_000;

/** What one replica adds to a bucket that all of them have. */
export interface SharedCharge {
  readonly bucket: string;
  readonly addedMs: number;
}

/** Where buckets are kept that all replicas have. */
export interface RateTable {
  /** Adds to the buckets and answers, in their order, how full each is then, in milliseconds. */
  add(charges: readonly SharedCharge[]): Promise<readonly number[]>;
  /** Ends what is under way and connects anew at the next use. */
  close(): Promise<void>;
}

export interface SharedRatesOptions {
  readonly rates: Rates;
  readonly table: RateTable;
  /** The clock of the rates. */
  readonly now: () => number;
  /** Told when the table is lost, and when it is back. */
  readonly log: (message: string, cause?: unknown) => void;
}

/**
 * Joins the limits of several replicas: each admits by its own buckets, tells the table what it charged, and takes over how
 * full the table says they are. So a call never waits for the database, and while it is away every replica holds callers to
 * its own count. What was not heard then is not told later: whether a statement without an answer was carried out is not
 * known, and nothing is to be counted twice.
 */
export class SharedRates {
  readonly #options: SharedRatesOptions;
  readonly #timer: NodeJS.Timeout;
  #telling: Promise<void> | undefined;
  #isAway = false;

  constructor(options: SharedRatesOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.tell(), TELL_EVERY_MS);
    this.#timer.unref();
  }

  /** One round. Rounds do not overlap. */
  tell(): Promise<void> {
    this.#telling ??= this.#exchange().finally(() => {
      this.#telling = undefined;
    });
    return this.#telling;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#telling;
    await this.#options.table.close();
  }

  async #exchange(): Promise<void> {
    const { table, now } = this.#options;
    const told = this.#take(now());
    if (told.length === 0) return;
    try {
      const filled = await givenWithin(table.add(told.map(({ charge }) => charge)), ANSWER_MS_MAX, noAnswer);
      const at = now();
      for (const [index, { pace, key }] of told.entries()) pace.adopt(key, filled[index] ?? 0, at);
      this.#note(false);
    } catch (error) {
      this.#note(true, error);
      // What does not answer is not asked again: the next round has a connection of its own.
      await table.close().catch(() => {});
    }
  }

  #take(now: number): readonly Told[] {
    const told: Told[] = [];
    for (const [name, pace] of this.#options.rates.paces) {
      for (const { key, addedMs } of pace.takeUntold(BUCKETS_MAX - told.length, now)) {
        // Who calls is nobody's business in a database, and a subject may be long.
        const bucket = hash("sha256", `${name}\n${key}`, "base64url");
        told.push({ pace, key, charge: { bucket, addedMs } });
      }
    }
    return told;
  }

  #note(isAway: boolean, cause?: unknown): void {
    if (isAway === this.#isAway) return;
    this.#isAway = isAway;
    this.#options.log(
      isAway ? "replicas count calls for themselves: the database is away" : "replicas count calls together again",
      cause,
    );
  }
}

interface Told {
  readonly pace: RateLimiter;
  readonly key: string;
  readonly charge: SharedCharge;
}

function noAnswer(): Error {
  return new Error(`no answer in ${ANSWER_MS_MAX} ms`);
}
