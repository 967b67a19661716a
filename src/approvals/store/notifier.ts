import type { ApprovalEvent } from "../types.ts";
import type { Committed } from "./database.ts";

const POLLED_EVENTS_MAX = 500;

interface WakesOptions {
  /** How often to look for changes by other processes, in milliseconds. */
  readonly pollMs: number;
  readonly eventsAfter: (seq: number, limit: number) => Promise<readonly ApprovalEvent[]>;
  readonly lastSeq: () => Promise<number>;
  readonly log: (message: string, cause: unknown) => void;
}

/**
 * Who waits for what. This process's commits ring at once; those of others on the same store are found by looking at
 * the newest event, when they are announced and now and then besides, only while somebody waits or listens. A ring is
 * a hint: whoever hears it reads again.
 */
export class Notifier {
  readonly #options: WakesOptions;
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly #listeners = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;
  /** Every event up to this one has rung. */
  #seen = 0;
  #started: Promise<void> | undefined;
  #looking = false;
  /** Something was announced while we looked, perhaps too late to be seen. */
  #lookAgain = false;
  #failing = false;
  #closed = false;

  constructor(options: WakesOptions) {
    this.#options = options;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  /** Rings for each change of `id` after `ready` has resolved; answers how to stop. */
  subscribe(id: string, ring: () => void): () => void {
    const rings = this.#waiting.get(id) ?? new Set();
    this.#waiting.set(id, rings.add(ring));
    return () => {
      rings.delete(ring);
      if (rings.size === 0 && this.#waiting.get(id) === rings) this.#waiting.delete(id);
      this.#rest();
    };
  }

  /** Rings for each change after the call, though perhaps only when `ready` has resolved. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    this.ready().catch((cause) => this.#options.log("approval events cannot be watched", cause));
    return () => {
      this.#listeners.delete(listener);
      this.#rest();
    };
  }

  /** Resolves when no later change can be missed. */
  ready(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    if (this.#timer === undefined) {
      this.#timer = setInterval(() => void this.#look(), this.#options.pollMs);
      this.#timer.unref();
    }
    this.#started ??= this.#start();
    return this.#started;
  }

  committed({ firstSeq, ids }: Committed): void {
    // Only when nothing lies between: an event of another process would be skipped.
    if (this.#seen === firstSeq - 1) this.#seen += ids.length;
    this.#ring(ids);
  }

  /** Others have changed something, or may have. */
  announced(): void {
    if (this.#timer === undefined || this.#closed) return;
    this.#lookAgain = true;
    void this.#look();
  }

  close(): void {
    this.#closed = true;
    clearInterval(this.#timer);
    this.#listeners.clear();
    this.#ring([...this.#waiting.keys()]);
  }

  async #start(): Promise<void> {
    try {
      this.#seen = await this.#options.lastSeq();
    } catch (error) {
      this.#started = undefined;
      throw error;
    }
    // What another process changed before this look, and after a listener's own, rings for nobody any more.
    this.#tellAll();
  }

  #rest(): void {
    if (this.#waiting.size > 0 || this.#listeners.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#started = undefined;
  }

  async #look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      do {
        this.#lookAgain = false;
        await this.#ringNew();
      } while (this.#lookAgain && !this.#closed);
      // Whoever could not read meanwhile reads now.
      if (this.#failing) this.#ring([...this.#waiting.keys()]);
      this.#failing = false;
    } catch (error) {
      // Once for each time that the store is away.
      if (!this.#closed && !this.#failing) this.#options.log("approval events cannot be read", error);
      this.#failing = true;
    } finally {
      this.#looking = false;
    }
  }

  async #ringNew(): Promise<void> {
    await this.ready();
    const events = await this.#options.eventsAfter(this.#seen, POLLED_EVENTS_MAX);
    const last = events.at(-1);
    if (last === undefined || this.#closed) return;
    this.#seen = Math.max(this.#seen, last.seq);
    this.#ring(events.map(({ id }) => id));
  }

  #ring(ids: readonly string[]): void {
    for (const id of new Set(ids)) for (const ring of [...(this.#waiting.get(id) ?? [])]) ring();
    this.#tellAll();
  }

  #tellAll(): void {
    for (const listener of [...this.#listeners]) this.#tell(listener);
  }

  #tell(listener: () => void): void {
    try {
      listener();
    } catch (error) {
      this.#options.log("a listener to approval events threw", error);
    }
  }
}
