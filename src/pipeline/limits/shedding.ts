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

/**
 * Decides whether to accept more work. Requests that wait for the event loop are still in the sockets, where they cannot be
 * counted; the delay of the loop shows that they exist. While the loop is repeatedly late, calls are accepted until the next
 * measurement is overdue, and later calls are asked to retry, so that accepted calls are answered in time. Rejected: a bound on
 * calls in flight, because a loop that takes one call after the other may have few of them; failing `/readyz`, because the load
 * of one replica would then take all replicas out of service.
 */
export class Shedding {
  readonly #options: SheddingOptions;
  #measuredAt: number | undefined;
  #late = 0;
  #calm = 0;
  #taken = 0;
  #isShedding = false;

  constructor(options: SheddingOptions) {
    this.#options = options;
  }

  /** Measures the delay. Call it every `LOOP_MEASURE_EVERY_MS`. */
  measure(): void {
    const { delayMsMax, now, observe } = this.#options;
    const at = now();
    const delayMs = this.#overdueMs(at);
    this.#measuredAt = at;
    this.#taken = 0;
    this.#late = delayMs >= delayMsMax ? this.#late + 1 : 0;
    this.#calm = delayMs < delayMsMax / 2 ? this.#calm + 1 : 0;
    if (this.#late >= LATE_MEASUREMENTS) this.#isShedding = true;
    else if (this.#calm >= CALM_MEASUREMENTS) this.#isShedding = false;
    observe?.(delayMs);
  }

  /** Returns whether to refuse a call. Call it once per call. */
  refuses(): boolean {
    this.#taken += 1;
    if (!this.#isShedding || this.#taken <= CALLS_MIN) return false;
    return this.#overdueMs(this.#options.now()) >= this.#options.delayMsMax;
  }

  #overdueMs(at: number): number {
    return this.#measuredAt === undefined ? 0 : Math.max(0, at - this.#measuredAt - LOOP_MEASURE_EVERY_MS);
  }
}
