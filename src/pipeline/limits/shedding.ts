export const LOOP_MEASURE_EVERY_MS = 50;
/**
 * Consecutive late measurements before shedding starts: a single long stop (garbage collection, a noisy neighbour) is over when
 * it is measured, and refusing calls would not help.
 */
const LATE_MEASUREMENTS = 5;
const CALM_MEASUREMENTS = 20;
/**
 * Calls that are always accepted between two measurements, however late the second is: with fewer, calls are not the cause of the
 * delay.
 */
const CALLS_MIN = 32;

export interface SheddingOptions {
  readonly delayMsMax: number;
  /** Milliseconds from an arbitrary origin. */
  readonly now: () => number;
  readonly observe?: ((delayMs: number) => void) | undefined;
}

/** Decides for one service of the process whether to accept its calls. */
export interface Shedder {
  /** Returns whether to refuse a call. Call it once per call. */
  refuses(): boolean;
  /** Notes how long the request that begins next has waited for its service's turn. */
  noteWait(waitedMs: number): void;
}

interface Tally {
  measurement: number;
  /** Calls accepted since then. */
  accepted: number;
  waitedMs: number;
}

/**
 * Decides whether to accept more work. Requests that wait for the event loop are still in the sockets, where they cannot be
 * counted; the delay of the loop shows that they exist. While the loop is repeatedly late, calls are accepted until the next
 * measurement is overdue, and later calls are asked to retry, so that accepted calls are answered in time. Rejected: a bound on
 * calls in flight, because a loop that takes one call after the other may have few of them; failing `/readyz`, because the load
 * of one replica would then take all replicas out of service.
 *
 * There is one event loop for all services of a process, and one measurement. When the next one is overdue, a service is refused
 * what exceeds an equal share of the calls that were accepted in time; a service that has sent fewer still gets the rest of its
 * share, so that nobody is refused because of another's calls. While the same services call, this at most doubles the accepted
 * calls.
 */
export class Shedding implements Shedder {
  readonly #options: SheddingOptions;
  #measuredAt: number | undefined;
  #late = 0;
  #calm = 0;
  #isShedding = false;
  #measurement = 0;
  /** Calls accepted since the last measurement, before the next was overdue. */
  #accepted = 0;
  /** Services that have sent a call since the last measurement, and those between the two before it. */
  #active = 0;
  #activeBefore = 0;
  readonly #own = newTally();

  constructor(options: SheddingOptions) {
    this.#options = options;
  }

  /** Measures the delay. Call it every `LOOP_MEASURE_EVERY_MS`. */
  measure(): void {
    const { delayMsMax, now, observe } = this.#options;
    const at = now();
    const delayMs = this.#overdueMs(at);
    this.#measuredAt = at;
    this.#measurement += 1;
    this.#accepted = 0;
    this.#activeBefore = this.#active;
    this.#active = 0;
    this.#late = delayMs >= delayMsMax ? this.#late + 1 : 0;
    this.#calm = delayMs < delayMsMax / 2 ? this.#calm + 1 : 0;
    if (this.#late >= LATE_MEASUREMENTS) this.#isShedding = true;
    else if (this.#calm >= CALM_MEASUREMENTS) this.#isShedding = false;
    observe?.(delayMs);
  }

  refuses(): boolean {
    return this.#refuses(this.#own);
  }

  noteWait(waitedMs: number): void {
    this.#own.waitedMs = waitedMs;
  }

  /** Returns what decides for another service of the process, such as a tenant. */
  another(): Shedder {
    const tally = newTally();
    return {
      refuses: () => this.#refuses(tally),
      noteWait: (waitedMs) => {
        tally.waitedMs = waitedMs;
      },
    };
  }

  #refuses(tally: Tally): boolean {
    // The loop may be on time while a service has more requests than it begins in its turns.
    if (tally.waitedMs >= this.#options.delayMsMax) return true;
    if (tally.measurement !== this.#measurement) {
      tally.measurement = this.#measurement;
      tally.accepted = 0;
      this.#active += 1;
    }
    if (this.#isInTime()) this.#accepted += 1;
    // A service alone has everything that was accepted as its share.
    else if (tally.accepted * Math.max(this.#active, this.#activeBefore) >= this.#accepted) return true;
    tally.accepted += 1;
    return false;
  }

  #isInTime(): boolean {
    if (!this.#isShedding || this.#accepted < CALLS_MIN) return true;
    return this.#overdueMs(this.#options.now()) < this.#options.delayMsMax;
  }

  #overdueMs(at: number): number {
    return this.#measuredAt === undefined ? 0 : Math.max(0, at - this.#measuredAt - LOOP_MEASURE_EVERY_MS);
  }
}

function newTally(): Tally {
  return { measurement: -1, accepted: 0, waitedMs: 0 };
}
