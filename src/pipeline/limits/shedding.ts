/** How often the loop's lateness is looked at. */
export const LOOP_LOOK_EVERY_MS = 50;
/** Looks in a row: a single long stop (a collection of garbage, a neighbour) is over when it is seen, and refusing helps nobody. */
const LATE_LOOKS = 5;
const CALM_LOOKS = 20;
/** Calls that are taken between two looks however late the second is: with fewer it is not calls that make the loop late. */
const CALLS_MIN = 32;

export interface SheddingOptions {
  /** How late the loop may be. */
  readonly delayMsMax: number;
  /** Milliseconds from any origin. */
  readonly now: () => number;
  /** Told of every look. */
  readonly observe?: ((delayMs: number) => void) | undefined;
}

/**
 * Whether to take more work. What waits for the loop waits unseen, in the sockets: the loop's own lateness tells of it. While it is
 * late again and again, calls are taken until the next look is overdue, and those behind them are told to come again, so that
 * what is answered is answered in time. Rejected: a bound of the calls in flight, of which there may be few in a loop that takes one
 * after the other; failing `/readyz`, with which the load of one replica would take all of them away.
 */
export class Shedding {
  readonly #options: SheddingOptions;
  #lookedAt: number | undefined;
  #late = 0;
  #calm = 0;
  #taken = 0;
  #isShedding = false;

  constructor(options: SheddingOptions) {
    this.#options = options;
  }

  /** To be called every `LOOP_LOOK_EVERY_MS`. */
  look(): void {
    const { delayMsMax, now, observe } = this.#options;
    const at = now();
    const delayMs = this.#overdueMs(at);
    this.#lookedAt = at;
    this.#taken = 0;
    this.#late = delayMs >= delayMsMax ? this.#late + 1 : 0;
    this.#calm = delayMs < delayMsMax / 2 ? this.#calm + 1 : 0;
    if (this.#late >= LATE_LOOKS) this.#isShedding = true;
    else if (this.#calm >= CALM_LOOKS) this.#isShedding = false;
    observe?.(delayMs);
  }

  /** Asked once for each call. */
  refuses(): boolean {
    this.#taken += 1;
    if (!this.#isShedding || this.#taken <= CALLS_MIN) return false;
    return this.#overdueMs(this.#options.now()) >= this.#options.delayMsMax;
  }

  #overdueMs(at: number): number {
    return this.#lookedAt === undefined ? 0 : Math.max(0, at - this.#lookedAt - LOOP_LOOK_EVERY_MS);
  }
}
