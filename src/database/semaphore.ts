/** Most waiting callers of one key. */
const WAITING_MAX = 5_000;

interface SemaphoreOptions {
  /** Most permits at once. */
  readonly permits: number;
  /** Most permits at once of one key. Left out: all. */
  readonly permitsPerKey?: number | undefined;
  /** Longest wait for a permit, in milliseconds. Left out: as long as the caller's signal allows. */
  readonly waitMs?: number;
  /** Returns the error for a caller that gets no permit. `isAborted`: because of the caller's signal. */
  readonly refused: (isAborted: boolean) => Error;
}

/** Callers with the same key. */
interface Queue {
  readonly waiting: Set<(isGranted: boolean) => void>;
  granted: number;
}

/**
 * Bounds how many callers use a resource at once. A bounded number of callers of each key waits in their order, and the keys take
 * turns: whoever is first of its key waits for at most one caller of each other key.
 */
export class Semaphore {
  readonly #options: SemaphoreOptions;
  /** Keys that wait or have permits; the one whose turn is next comes first. */
  readonly #queues = new Map<string, Queue>();
  #free: number;
  #isClosed = false;

  constructor(options: SemaphoreOptions) {
    this.#options = options;
    this.#free = options.permits;
  }

  /** Waits for a permit, which the caller returns with `release` and the same key. @throws the error of `refused` */
  async acquire(signal?: AbortSignal, key = ""): Promise<void> {
    const refused = (): Error => this.#options.refused(signal?.aborted === true);
    if (this.#isClosed || signal?.aborted === true) throw refused();
    const queue = this.#queues.get(key) ?? { waiting: new Set(), granted: 0 };
    // A permit that is free while callers of other keys wait is one that these keys may not have.
    if (this.#mayHave(queue)) this.#grant(key, queue);
    else if (queue.waiting.size >= WAITING_MAX || !(await this.#turn(key, queue, signal))) throw refused();
  }

  /** Whether a caller waits for a permit. */
  get isAwaited(): boolean {
    return this.#queues.values().some(({ waiting }) => waiting.size > 0);
  }

  /** Returns a permit: it goes to the key that has waited longest since its last one, and there to the caller that has waited longest. */
  release(key = ""): void {
    const queue = this.#queues.get(key);
    if (queue !== undefined) queue.granted -= 1;
    this.#forgetUnused(key);
    this.#free += 1;
    for (const [each, { waiting }] of this.#queues) {
      const [next] = waiting;
      if (next === undefined || !this.#mayHave(this.#queues.get(each))) continue;
      next(true);
      return;
    }
  }

  /** Refuses the callers of a key that wait. */
  refuse(key = ""): void {
    for (const next of [...(this.#queues.get(key)?.waiting ?? [])]) next(false);
  }

  /** Refuses all callers that wait, and those that come later. */
  close(): void {
    this.#isClosed = true;
    for (const key of [...this.#queues.keys()]) this.refuse(key);
  }

  #mayHave(queue: Queue | undefined): boolean {
    const { permits, permitsPerKey = permits } = this.#options;
    return this.#free > 0 && (queue?.granted ?? 0) < permitsPerKey;
  }

  /** Grants a permit, after which it is every other key's turn first. */
  #grant(key: string, queue: Queue): void {
    this.#free -= 1;
    queue.granted += 1;
    this.#queues.delete(key);
    this.#queues.set(key, queue);
  }

  #forgetUnused(key: string): void {
    const queue = this.#queues.get(key);
    if (queue?.granted === 0 && queue.waiting.size === 0) this.#queues.delete(key);
  }

  /** Waits; returns whether a permit was granted. */
  #turn(key: string, queue: Queue, signal: AbortSignal | undefined): Promise<boolean> {
    const { waitMs } = this.#options;
    return new Promise((resolve) => {
      const settle = (isGranted: boolean): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", leave);
        queue.waiting.delete(settle);
        if (isGranted) this.#grant(key, queue);
        else this.#forgetUnused(key);
        resolve(isGranted);
      };
      const leave = (): void => settle(false);
      const timer = waitMs === undefined ? undefined : setTimeout(leave, waitMs);
      signal?.addEventListener("abort", leave, { once: true });
      this.#queues.set(key, queue);
      queue.waiting.add(settle);
    });
  }
}
