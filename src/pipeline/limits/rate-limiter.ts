/** So many in so many seconds; up to `burst` of them at once, or as many as `calls` when it is left out. */
export interface Rate {
  readonly calls: number;
  readonly seconds: number;
  readonly burst?: number | undefined;
}

/** Keys of one generation; at most twice as many are remembered. 100,000 of them take about 15 MB. */
const KEYS_MAX = 50_000;
/** What a floating-point clock may be off by, in milliseconds. */
const CLOCK_STEP_MS = 0.001;

/** How full one key's bucket is. */
interface Level {
  /** When it has drained, on the clock that `now` is of. */
  emptyAt: number;
  /** Charges that other replicas have not heard of. */
  untold: number;
}

/** What one key was charged since the others heard of it last. */
export interface UnsharedCounts {
  readonly key: string;
  /** What those charges fill the bucket by, in milliseconds. */
  readonly addedMs: number;
}

/**
 * One limit, kept for each key: a bucket that drains evenly (GCRA), so that whoever waits as long as it is told is served,
 * and nobody gets two windows' worth at a window's edge. Two numbers a key; keys that have drained are forgotten, and beyond
 * `KEYS_MAX` those that were charged longest ago. Rejected: rate-limiter-flexible, which counts fixed windows, keeps a timer
 * and 580 bytes for every key without a bound, and answers by promise: 180 ns a limit where this takes 20.
 */
export class RateLimiter {
  #rate: Rate;
  #steps: Steps;
  #tells: boolean;
  #young = new Map<string, Level>();
  #old = new Map<string, Level>();
  #untold = new Map<string, Level>();
  #turnedAt = Number.NEGATIVE_INFINITY;

  constructor(rate: Rate, options: { readonly tells?: boolean } = {}) {
    this.#rate = rate;
    this.#steps = stepsOf(rate);
    this.#tells = options.tells === true;
  }

  get rate(): Rate {
    return this.#rate;
  }

  /**
   * Another limit from now on. What a key was charged and has not drained counts on, call by call; whoever has had more than
   * the new limit gives at once waits as if it had just used that up.
   */
  change(rate: Rate, { now, tells = false }: { readonly now: number; readonly tells?: boolean | undefined }): void {
    if (tells === this.#tells && isSame(rate, this.#rate)) return;
    const before = this.#steps;
    const after = stepsOf(rate);
    this.#rate = rate;
    this.#steps = after;
    this.#tells = tells;
    for (const levels of [this.#young, this.#old]) {
      for (const level of levels.values()) {
        const calls = Math.max(0, level.emptyAt - now) / before.stepMs;
        level.emptyAt = now + Math.min(calls * after.stepMs, after.drainMs);
        if (!tells) level.untold = 0;
      }
    }
    if (!tells) this.#untold.clear();
    // What has not drained by then is not forgotten.
    this.#turnedAt = now;
  }

  /** Whole milliseconds until one more may be charged; 0 when it may be now. */
  waitMs(key: string, now: number): number {
    const level = this.#young.get(key) ?? this.#old.get(key);
    if (level === undefined) return 0;
    const { fullestMs, toleranceMs } = this.#steps;
    // Fuller than it can be: the clock was set back.
    level.emptyAt = Math.min(level.emptyAt, now + fullestMs);
    const over = level.emptyAt - now - toleranceMs;
    return over <= CLOCK_STEP_MS ? 0 : Math.ceil(over - CLOCK_STEP_MS);
  }

  charge(key: string, now: number): void {
    if (now - this.#turnedAt > this.#steps.fullestMs) this.#turn(now);
    const level = this.#young.get(key) ?? this.#remember(key, now);
    level.emptyAt = Math.max(level.emptyAt, now) + this.#steps.stepMs;
    if (!this.#tells) return;
    if (level.untold === 0 && this.#untold.size >= KEYS_MAX) return;
    level.untold += 1;
    if (level.untold === 1) this.#untold.set(key, level);
  }

  /** Keys that are remembered. */
  get size(): number {
    return this.#young.size + this.#old.size;
  }

  /** Takes what was charged and not told, of at most `max` keys. What has drained since is nobody's concern any more. */
  takeUntold(max: number, now: number): readonly UnsharedCounts[] {
    const taken: UnsharedCounts[] = [];
    for (const [key, level] of this.#untold) {
      if (taken.length >= max) break;
      this.#untold.delete(key);
      const addedMs = Math.min(level.untold * this.#steps.stepMs, Math.max(0, level.emptyAt - now));
      if (addedMs > 0) taken.push({ key, addedMs });
      level.untold = 0;
    }
    return taken;
  }

  /**
   * What all replicas together have filled a key's bucket to, in milliseconds. It is never emptier for it, and never so full
   * that another configuration elsewhere could keep callers out for longer than two bursts take to drain.
   */
  adopt(key: string, filledMs: number, now: number): void {
    const level = this.#young.get(key) ?? this.#old.get(key);
    if (level === undefined) return;
    const fill = Math.min(filledMs + level.untold * this.#steps.stepMs, this.#steps.fullestMs);
    level.emptyAt = Math.max(level.emptyAt, now + fill);
  }

  #remember(key: string, now: number): Level {
    if (this.#young.size >= KEYS_MAX) this.#turn(now);
    const level = this.#old.get(key) ?? { emptyAt: now, untold: 0 };
    this.#old.delete(key);
    this.#young.set(key, level);
    return level;
  }

  /** What no turn touched for as long as a bucket takes to drain has drained. */
  #turn(now: number): void {
    this.#old = this.#young;
    this.#young = new Map();
    this.#turnedAt = now;
  }
}

function isSame(one: Rate, other: Rate): boolean {
  return one.calls === other.calls && one.seconds === other.seconds && one.burst === other.burst;
}

/** A rate as times, in milliseconds. */
interface Steps {
  /** What one charge fills a bucket by. */
  readonly stepMs: number;
  /** How full it may be for one more charge. */
  readonly toleranceMs: number;
  /** What a full one takes to drain. */
  readonly drainMs: number;
  /** Replicas that have not heard of each other fill a bucket further than one could. */
  readonly fullestMs: number;
}

function stepsOf({ calls, seconds, burst = calls }: Rate): Steps {
  const stepMs = (seconds * 1000) / calls;
  const drainMs = burst * stepMs;
  return { stepMs, toleranceMs: (burst - 1) * stepMs, drainMs, fullestMs: 2 * drainMs };
}
