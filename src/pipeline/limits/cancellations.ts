import type { Caller } from "../../core/types.ts";
import { steady } from "./monotonic-clock.ts";

/** Maximum number of callers whose cancellations are counted; beyond it, those that cancelled longest ago are dropped. */
const CALLERS_MAX = 10_000;
const MINUTE_MS = 60_000;

export interface CancellationLimit {
  /**
   * How many cancellations one caller (issuer and subject) may make per minute, and in one burst. Read at each count and each
   * query.
   */
  readonly perMinuteMax: number;
  /** Returns milliseconds since 1970. */
  readonly clock: () => number;
}

interface Level {
  /** Cancellations that have not drained yet. */
  readonly count: number;
  readonly at: number;
}

/**
 * Counts the calls that one caller starts and abandons. Each costs the target its work, and a storm of them on a shared
 * connection makes the target's server drop everybody's calls. One evenly draining bucket per caller.
 */
export class Cancellations {
  readonly #limit: CancellationLimit;
  readonly #clock: () => number;
  /** Levels in the order of the last cancellation. */
  readonly #levels = new Map<string, Level>();

  constructor(limit: CancellationLimit) {
    this.#limit = limit;
    this.#clock = steady(limit.clock);
  }

  count(caller: Caller): void {
    const key = keyOf(caller);
    const at = this.#clock();
    const count = this.#levelOf(key, at) + 1;
    this.#levels.delete(key);
    this.#levels.set(key, { count, at });
    if (this.#levels.size <= CALLERS_MAX) return;
    const [oldest] = this.#levels.keys();
    if (oldest !== undefined) this.#levels.delete(oldest);
  }

  /** Returns how long the caller must wait before its next call; 0 when it may call now. */
  retryAfterMs(caller: Caller): number {
    // Fast path: almost no caller has cancelled anything.
    if (this.#levels.size === 0) return 0;
    const key = keyOf(caller);
    const over = this.#levelOf(key, this.#clock()) - this.#limit.perMinuteMax;
    return over < 0 ? 0 : Math.floor((over * MINUTE_MS) / this.#limit.perMinuteMax) + 1;
  }

  #levelOf(key: string, now: number): number {
    const level = this.#levels.get(key);
    if (level === undefined) return 0;
    const { perMinuteMax } = this.#limit;
    const drained = ((now - level.at) * perMinuteMax) / MINUTE_MS;
    // The limit may have been higher when the cancellations were counted.
    const count = Math.min(level.count, perMinuteMax * 2);
    if (drained < count) return count - drained;
    this.#levels.delete(key);
    return 0;
  }
}

function keyOf({ issuer, subject }: Caller): string {
  return JSON.stringify([issuer, subject]);
}
