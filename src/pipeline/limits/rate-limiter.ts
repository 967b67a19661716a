/** A rate of `calls` in `seconds`; up to `burst` of them at once, by default as many as `calls`. */
export interface Rate {
  readonly calls: number;
  readonly seconds: number;
  readonly burst?: number | undefined;
}

/** Maximum number of keys in each of the two maps. 100,000 keys take about 15 MB. */
const KEYS_MAX = 50_000;
/** The rounding error of a floating-point clock, in milliseconds. */
const CLOCK_STEP_MS = 0.001;

interface Level {
  /** When the bucket has drained, on the clock of `now`. */
  emptyAt: number;
  /** Charges not yet shared with other replicas. */
  unshared: number;
}

export interface UnsharedCounts {
  readonly key: string;
  /** How far the charges since the last round fill the bucket, in milliseconds. */
  readonly addedMs: number;
}

/**
 * One rate limit with a bucket per key that drains evenly (GCRA): a caller that waits as long as it was asked to is served, and
 * nobody gets two windows' worth at the edge of a window. Each key takes two numbers. Drained keys are dropped, and beyond
 * `KEYS_MAX` those charged longest ago. Rejected: rate-limiter-flexible, which counts fixed windows, keeps a timer and 580 bytes
 * for every key without a bound, and answers by promise: 180 ns per limit instead of 20.
 */
export class RateLimiter {
  #rate: Rate;
  #steps: Steps;
  #isShared: boolean;
  #young = new Map<string, Level>();
  #old = new Map<string, Level>();
  #unshared = new Map<string, Level>();
  #rotatedAt = Number.NEGATIVE_INFINITY;

  constructor(rate: Rate, options: { readonly isShared?: boolean } = {}) {
    this.#rate = rate;
    this.#steps = stepsOf(rate);
    this.#isShared = options.isShared === true;
  }

  get rate(): Rate {
    return this.#rate;
  }

  /**
   * Changes the limit. Charges that have not drained still count, call by call; a caller that exceeds the new burst waits as if
   * it had just used it up.
   */
  change(
    rate: Rate,
    { now, isShared = false }: { readonly now: number; readonly isShared?: boolean | undefined },
  ): void {
    if (isShared === this.#isShared && isSame(rate, this.#rate)) return;
    const before = this.#steps;
    const after = stepsOf(rate);
    this.#rate = rate;
    this.#steps = after;
    this.#isShared = isShared;
    for (const levels of [this.#young, this.#old]) {
      for (const level of levels.values()) {
        const calls = Math.max(0, level.emptyAt - now) / before.stepMs;
        level.emptyAt = now + Math.min(calls * after.stepMs, after.drainMs);
        if (!isShared) level.unshared = 0;
      }
    }
    if (!isShared) this.#unshared.clear();
    // Delays the next rotation, so that charges that have not drained by then are kept.
    this.#rotatedAt = now;
  }

  /** Returns the whole milliseconds until one more call may be charged; 0 when it may be charged now. */
  waitMs(key: string, now: number): number {
    const level = this.#young.get(key) ?? this.#old.get(key);
    if (level === undefined) return 0;
    const { fullestMs, toleranceMs } = this.#steps;
    // A level above the maximum means that the clock was set back.
    level.emptyAt = Math.min(level.emptyAt, now + fullestMs);
    const over = level.emptyAt - now - toleranceMs;
    return over <= CLOCK_STEP_MS ? 0 : Math.ceil(over - CLOCK_STEP_MS);
  }

  charge(key: string, now: number): void {
    if (now - this.#rotatedAt > this.#steps.fullestMs) this.#rotate(now);
    const level = this.#young.get(key) ?? this.#remember(key, now);
    level.emptyAt = Math.max(level.emptyAt, now) + this.#steps.stepMs;
    if (!this.#isShared) return;
    if (level.unshared === 0 && this.#unshared.size >= KEYS_MAX) return;
    level.unshared += 1;
    if (level.unshared === 1) this.#unshared.set(key, level);
  }

  get size(): number {
    return this.#young.size + this.#old.size;
  }

  get hasUnshared(): boolean {
    return this.#unshared.size > 0;
  }

  /** Takes the unshared charges of at most `max` keys. Charges that have drained since are dropped. */
  takeUnshared(max: number, now: number): readonly UnsharedCounts[] {
    const taken: UnsharedCounts[] = [];
    for (const [key, level] of this.#unshared) {
      if (taken.length >= max) break;
      this.#unshared.delete(key);
      const addedMs = Math.min(level.unshared * this.#steps.stepMs, Math.max(0, level.emptyAt - now));
      if (addedMs > 0) taken.push({ key, addedMs });
      level.unshared = 0;
    }
    return taken;
  }

  /**
   * Adopts the level, in milliseconds, to which all replicas together have filled a key's bucket. The level never decreases, and
   * it never rises so far that another configuration elsewhere could block callers for longer than two bursts take to drain.
   */
  adopt(key: string, filledMs: number, now: number): void {
    const level = this.#young.get(key) ?? this.#old.get(key);
    if (level === undefined) return;
    const fill = Math.min(filledMs + level.unshared * this.#steps.stepMs, this.#steps.fullestMs);
    level.emptyAt = Math.max(level.emptyAt, now + fill);
  }

  #remember(key: string, now: number): Level {
    if (this.#young.size >= KEYS_MAX) this.#rotate(now);
    const level = this.#old.get(key) ?? { emptyAt: now, unshared: 0 };
    this.#old.delete(key);
    this.#young.set(key, level);
    return level;
  }

  /** Starts a new young map. Keys that were not charged for as long as a bucket takes to drain have drained. */
  #rotate(now: number): void {
    this.#old = this.#young;
    this.#young = new Map();
    this.#rotatedAt = now;
  }
}

function isSame(one: Rate, other: Rate): boolean {
  return one.calls === other.calls && one.seconds === other.seconds && one.burst === other.burst;
}

interface Steps {
  /** How much one charge fills a bucket. */
  readonly stepMs: number;
  /** How full a bucket may be for one more charge. */
  readonly toleranceMs: number;
  /** How long a full bucket takes to drain. */
  readonly drainMs: number;
  /** The highest level: replicas that have not shared yet can together fill a bucket further than one alone. */
  readonly fullestMs: number;
}

function stepsOf({ calls, seconds, burst = calls }: Rate): Steps {
  const stepMs = (seconds * 1000) / calls;
  const drainMs = burst * stepMs;
  return { stepMs, toleranceMs: (burst - 1) * stepMs, drainMs, fullestMs: 2 * drainMs };
}
