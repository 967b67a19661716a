import type { ApprovalEvent } from "../types.ts";
import type { Committed } from "./database.ts";

const POLLED_EVENTS_MAX = 500;

interface NotifierOptions {
  /** Poll interval for changes by other processes, in milliseconds. */
  readonly pollMs: number;
  readonly eventsAfter: (seq: number, limit: number) => Promise<readonly ApprovalEvent[]>;
  readonly lastSeq: () => Promise<number>;
  readonly log: (message: string, cause: unknown) => void;
}

/**
 * Notifies waiters and listeners of changes. Commits of this process notify at once. Commits of other processes are found by
 * reading new events, after an announcement and at a poll interval, only while there are waiters or listeners. A notification
 * is a hint: the receiver reads the store again.
 */
export class Notifier {
  readonly #options: NotifierOptions;
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly #listeners = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;
  #seen = 0;
  #started: Promise<void> | undefined;
  #isPolling = false;
  /** Set when an announcement came during a read, perhaps too late for that read. */
  #pollAgain = false;
  #failing = false;
  #closed = false;

  constructor(options: NotifierOptions) {
    this.#options = options;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  /** Calls `callback` for each change of `id` after `ready` has resolved. Returns a function that unsubscribes. */
  subscribe(id: string, callback: () => void): () => void {
    const callbacks = this.#waiting.get(id) ?? new Set();
    this.#waiting.set(id, callbacks.add(callback));
    return () => {
      callbacks.delete(callback);
      if (callbacks.size === 0 && this.#waiting.get(id) === callbacks) this.#waiting.delete(id);
      this.#stopWhenIdle();
    };
  }

  /** Notifies `listener` of changes after this call, perhaps only once `ready` has resolved. Returns how to remove it. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    this.ready().catch((cause) => this.#options.log("approval events cannot be watched", cause));
    return () => {
      this.#listeners.delete(listener);
      this.#stopWhenIdle();
    };
  }

  /** Resolves when no further change can be missed. */
  ready(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    if (this.#timer === undefined) {
      this.#timer = setInterval(() => void this.#poll(), this.#options.pollMs);
      this.#timer.unref();
    }
    this.#started ??= this.#start();
    return this.#started;
  }

  committed({ firstSeq, ids }: Committed): void {
    // Advance only without a gap: otherwise events of other processes would be skipped.
    if (this.#seen === firstSeq - 1) this.#seen += ids.length;
    this.#notify(ids);
  }

  announced(): void {
    if (this.#timer === undefined || this.#closed) return;
    this.#pollAgain = true;
    void this.#poll();
  }

  close(): void {
    this.#closed = true;
    clearInterval(this.#timer);
    this.#listeners.clear();
    this.#notify([...this.#waiting.keys()]);
  }

  async #start(): Promise<void> {
    try {
      this.#seen = await this.#options.lastSeq();
    } catch (error) {
      this.#started = undefined;
      throw error;
    }
    // Changes by other processes between a listener's own read and this one would otherwise be missed.
    this.#notifyListeners();
  }

  #stopWhenIdle(): void {
    if (this.#waiting.size > 0 || this.#listeners.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#started = undefined;
  }

  async #poll(): Promise<void> {
    if (this.#isPolling) return;
    this.#isPolling = true;
    try {
      do {
        this.#pollAgain = false;
        await this.#notifyNew();
      } while (this.#pollAgain && !this.#closed);
      // Notify waiters whose reads failed while the store was unavailable.
      if (this.#failing) this.#notify([...this.#waiting.keys()]);
      this.#failing = false;
    } catch (error) {
      // Log once per outage.
      if (!this.#closed && !this.#failing) this.#options.log("approval events cannot be read", error);
      this.#failing = true;
    } finally {
      this.#isPolling = false;
    }
  }

  async #notifyNew(): Promise<void> {
    await this.ready();
    const events = await this.#options.eventsAfter(this.#seen, POLLED_EVENTS_MAX);
    const last = events.at(-1);
    if (last === undefined || this.#closed) return;
    this.#seen = Math.max(this.#seen, last.seq);
    this.#notify(events.map(({ id }) => id));
  }

  #notify(ids: readonly string[]): void {
    for (const id of new Set(ids)) for (const callback of [...(this.#waiting.get(id) ?? [])]) callback();
    this.#notifyListeners();
  }

  #notifyListeners(): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener();
      } catch (error) {
        this.#options.log("a listener to approval events threw", error);
      }
    }
  }
}
