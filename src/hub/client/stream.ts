import { errorText } from "../../core/error-text.ts";
import { EventReader, type StreamedEvent } from "../../core/event-reader.ts";
import { OutageReporter, retryDelayMs } from "../../core/retry.ts";
import { pause } from "../../core/time-limits.ts";
import type { EpochMs } from "../../core/types.ts";
import type { Pushed } from "../contract.ts";
import { decodeWire, HUB_BYTES_MAX } from "../wire.ts";
import { type HubConnection, isTime } from "./connection.ts";

/** Maximum age of the hub's last message for its values to be used. */
const FRESH_MS = 2_000;
/** Time without a message after which the stream is opened again. */
const SILENCE_MS = 3_000;
const CONNECT_MS_MAX = 5_000;
/** Interval at which watchers are called while the hub is away. */
const AWAY_MS = 500;
const RECONNECT = { firstMs: 100, maxMs: 2_000 } as const;

export interface HubStreamOptions {
  readonly connection: Pick<HubConnection, "open" | "stated">;
  /** Milliseconds of a monotonic clock. */
  readonly monotonic: () => number;
  /** At least 0, below 1. */
  readonly random: () => number;
  readonly log: (message: string, cause: unknown) => void;
}

/** Keeps the stream from the hub open, and what the hub pushed. */
export class HubStream {
  readonly #options: HubStreamOptions;
  readonly #watchers = new Set<() => void>();
  readonly #values = new Map<string, unknown>();
  readonly #outage: OutageReporter;
  readonly #away: ReturnType<typeof setInterval>;
  readonly #ended: Promise<void>;
  readonly #closing = new AbortController();
  #attempt = new AbortController();
  #lost = new AbortController();
  /** The database's clock when the hub last knew that nothing had changed. */
  #now: EpochMs = 0;
  /**
   * The largest difference between the database's clock in a message and ours at its arrival, since the stream is open: a message
   * with a smaller one was on its way for longer.
   */
  #offset = Number.NEGATIVE_INFINITY;
  #failures = 0;

  constructor(options: HubStreamOptions) {
    this.#options = options;
    this.#outage = new OutageReporter(options.monotonic, (message) => options.log(message, undefined));
    this.#away = setInterval(() => {
      if (!this.isFresh) this.#callWatchers();
    }, AWAY_MS);
    this.#away.unref();
    this.#ended = this.#keepOpen();
  }

  /** Whether the hub's last message is recent. The age includes the time for which the message was on its way. */
  get isFresh(): boolean {
    return this.#now > 0 && this.#estimate - this.#now <= FRESH_MS;
  }

  /** Fires when the open stream breaks or is silent: connections that were open then may be dead, too. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  pushed(name: string): Pushed | undefined {
    const known = this.#values.get(name);
    return !this.#values.has(name) || !this.isFresh ? undefined : { value: known, now: Math.round(this.#estimate) };
  }

  watch(changed: () => void): () => void {
    // An object of its own: the same function may watch twice.
    const watcher = (): void => changed();
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#attempt.abort();
    clearInterval(this.#away);
    this.#watchers.clear();
    await this.#ended;
  }

  /** The database's clock now, or a little earlier. */
  get #estimate(): number {
    return this.#options.monotonic() + this.#offset;
  }

  async #keepOpen(): Promise<void> {
    const { random } = this.#options;
    while (!this.#closing.signal.aborted) {
      this.#attempt = new AbortController();
      try {
        await this.#read(this.#attempt);
      } catch (error) {
        this.#failures += 1;
        if (!this.#closing.signal.aborted) this.#outage.failed(`the hub is away: ${errorText(error)}`);
      }
      if (!this.#closing.signal.aborted)
        await pause(retryDelayMs(RECONNECT, this.#failures + 1, random()), this.#closing.signal);
    }
  }

  /** Reads one stream to its end. */
  async #read(attempt: AbortController): Promise<void> {
    let silence = setTimeout(() => attempt.abort(), CONNECT_MS_MAX);
    const { connection } = this.#options;
    const { stated } = connection;
    let isOpen = false;
    try {
      const stream = await connection.open(attempt.signal);
      isOpen = true;
      this.#offset = Number.NEGATIVE_INFINITY;
      this.#now = 0;
      // Another hub may answer, and the member may belong to another tenant now.
      this.#values.clear();
      const reader = new EventReader(HUB_BYTES_MAX);
      for await (const piece of stream.body) {
        for (const event of reader.read(piece)) this.#take(event);
        // A hub whose database's clock was set back says nothing new: the next stream begins with that clock.
        if (this.isFresh) {
          clearTimeout(silence);
          silence = setTimeout(() => attempt.abort(), SILENCE_MS);
        }
        // The hub learns what changed, as after a reload, with the head of the next stream.
        if (connection.stated !== stated) return;
      }
    } catch (error) {
      if (isOpen) {
        this.#lost.abort();
        // Later attempts do not depend on a stream that cannot be opened.
        this.#lost = new AbortController();
      }
      throw error;
    } finally {
      clearTimeout(silence);
    }
  }

  /** @throws {Error} for an event that no hub sends */
  #take({ type, bytes }: StreamedEvent): void {
    if (type !== "ping" && type !== "pushed") return;
    const event = decodeWire(bytes);
    if (typeof event !== "object" || event === null || !("now" in event) || !isTime(event.now)) {
      throw new Error("an event without a time");
    }
    const { now } = event;
    this.#offset = Math.max(this.#offset, now - this.#options.monotonic());
    this.#now = Math.max(this.#now, now);
    this.#failures = 0;
    this.#outage.recovered();
    if (type !== "pushed" || !("name" in event) || typeof event.name !== "string" || !("value" in event)) return;
    this.#values.set(event.name, event.value);
    this.#callWatchers();
  }

  #callWatchers(): void {
    for (const changed of [...this.#watchers]) {
      try {
        changed();
      } catch (error) {
        this.#options.log("a watcher of the hub threw", error);
      }
    }
  }
}
