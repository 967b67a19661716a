const WAITING_MAX = 5_000;

interface SemaphoreOptions {
  /** Most permits at once. */
  readonly permits: number;
  /** Longest wait for a permit, in milliseconds. Left out: as long as the caller's signal allows. */
  readonly waitMs?: number;
  /** Returns the error for a caller that gets no permit. `isAborted`: because of the caller's signal. */
  readonly refused: (isAborted: boolean) => Error;
}

/** Bounds how many callers use a resource at once. The others wait in their order, a bounded number of them. */
export class Semaphore {
  readonly #options: SemaphoreOptions;
  readonly #waiting = new Set<(isGranted: boolean) => void>();
  #free: number;
  #isClosed = false;

  constructor(options: SemaphoreOptions) {
    this.#options = options;
    this.#free = options.permits;
  }

  /** Waits for a permit, which the caller returns with `release`. @throws the error of `refused` */
  async acquire(signal?: AbortSignal): Promise<void> {
    const isRefused = this.#isClosed || signal?.aborted === true;
    if (!isRefused && this.#free > 0) this.#free -= 1;
    else if (isRefused || this.#waiting.size >= WAITING_MAX || !(await this.#turn(signal))) {
      throw this.#options.refused(signal?.aborted === true);
    }
  }

  /** Whether a caller waits for a permit. */
  get isAwaited(): boolean {
    return this.#waiting.size > 0;
  }

  /** Returns a permit: it goes to the caller that has waited longest. */
  release(): void {
    const [next] = this.#waiting;
    if (next === undefined) this.#free += 1;
    else next(true);
  }

  /** Refuses all callers that wait, and those that come later. */
  close(): void {
    this.#isClosed = true;
    for (const next of [...this.#waiting]) next(false);
  }

  /** Waits; returns whether a permit was granted. */
  #turn(signal: AbortSignal | undefined): Promise<boolean> {
    const { waitMs } = this.#options;
    return new Promise((resolve) => {
      const settle = (isGranted: boolean): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", leave);
        this.#waiting.delete(settle);
        resolve(isGranted);
      };
      const leave = (): void => settle(false);
      const timer = waitMs === undefined ? undefined : setTimeout(leave, waitMs);
      signal?.addEventListener("abort", leave, { once: true });
      this.#waiting.add(settle);
    });
  }
}
