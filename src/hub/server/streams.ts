import type { ServerResponse } from "node:http";
import type { EpochMs } from "../../core/types.ts";
import type { PushSource } from "../contract.ts";
import { encodeWire } from "../wire.ts";

const PING_MS = 500;
/** Maximum age of the values that the hub has read for a ping to be sent. */
const FRESH_MS = 1_500;
/** Time for which a stream waits for a slow reader. */
const PATIENCE_MS = 3_000;

interface StreamsOptions {
  readonly sources: readonly PushSource[];
  /** Milliseconds of a monotonic clock. */
  readonly monotonic: () => number;
  readonly clock: () => EpochMs;
  readonly logError: (message: string, error: unknown) => void;
}

interface Known {
  /** The value as it is sent. */
  text: string | undefined;
  now: EpochMs;
  /** Time of the request for it, by the monotonic clock. */
  askedMs: number;
}

/** The streams of all members: sends what changes to all of them, and a ping while it is known that nothing changed. */
export class Streams {
  readonly #options: StreamsOptions;
  readonly #known = new Map<string, Known>();
  readonly #open = new Set<Stream>();
  readonly #stops: (() => void)[] = [];
  readonly #pings: ReturnType<typeof setInterval>;
  #isFailing = false;

  constructor(options: StreamsOptions) {
    this.#options = options;
    for (const source of options.sources) {
      this.#known.set(source.name, { text: undefined, now: 0, askedMs: Number.NEGATIVE_INFINITY });
      const refresh = oneAtATime(() => this.#refresh(source));
      this.#stops.push(source.watch(refresh));
      refresh();
    }
    this.#pings = setInterval(() => this.#ping(), PING_MS);
    this.#pings.unref();
  }

  get size(): number {
    return this.#open.size;
  }

  /** Sends the stream to a member until it leaves, or until the given time. Resolves then. */
  async send(response: ServerResponse, untilMs: EpochMs): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const stream = new Stream(response, () => this.#begin(stream));
    const expiry = setTimeout(
      () => response.end(),
      Math.min(Math.max(untilMs - this.#options.clock(), 0), 2 ** 31 - 1),
    );
    response.on("close", resolve);
    response.on("error", resolve);
    response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-store" });
    this.#open.add(stream);
    this.#begin(stream);
    await promise;
    clearTimeout(expiry);
    this.#open.delete(stream);
    stream.close();
  }

  close(): void {
    clearInterval(this.#pings);
    for (const stop of this.#stops) stop();
    this.endAll();
  }

  /** Ends all streams: members open them again, and are identified again. */
  endAll(): void {
    for (const stream of this.#open) stream.end();
  }

  /** Sends everything that is known. */
  #begin(stream: Stream): void {
    stream.write(": open\n\n");
    for (const name of this.#known.keys()) {
      const pushed = this.#pushed(name);
      if (pushed !== undefined) stream.write(pushed);
    }
    const ping = this.#pingText();
    if (ping !== undefined) stream.write(ping);
  }

  async #refresh({ name, current }: PushSource): Promise<void> {
    const askedMs = this.#options.monotonic();
    try {
      const { value, now } = await current();
      const text = encodeWire(value);
      const before = this.#known.get(name)?.text;
      this.#known.set(name, { text, now, askedMs });
      this.#isFailing = false;
      const pushed = text === before ? undefined : this.#pushed(name);
      if (pushed !== undefined) for (const stream of this.#open) stream.write(pushed);
    } catch (error) {
      if (!this.#isFailing) this.#options.logError(`the hub cannot read ${name}`, error);
      this.#isFailing = true;
    }
  }

  #pushed(name: string): string | undefined {
    const { text, now } = this.#known.get(name) ?? {};
    return text === undefined
      ? undefined
      : `event: pushed\ndata: {"name":${JSON.stringify(name)},"value":${text},"now":${now}}\n\n`;
  }

  #ping(): void {
    const text = this.#pingText();
    if (text !== undefined) for (const stream of this.#open) stream.write(text);
  }

  /** Returns undefined while something may have changed without the hub's knowledge. */
  #pingText(): string | undefined {
    const known = [...this.#known.values()];
    const { monotonic, clock } = this.#options;
    if (known.some(({ askedMs }) => monotonic() - askedMs > FRESH_MS)) return undefined;
    const now = known.length === 0 ? clock() : Math.min(...known.map(({ now: at }) => at));
    return `event: ping\ndata: {"now":${now}}\n\n`;
  }
}

/** One member's stream. Sends nothing more while the member reads too slowly, and then everything again. */
class Stream {
  readonly #response: ServerResponse;
  readonly #resume: () => void;
  #patience: ReturnType<typeof setTimeout> | undefined;

  constructor(response: ServerResponse, resume: () => void) {
    this.#response = response;
    this.#resume = resume;
  }

  write(text: string): void {
    if (this.#patience !== undefined || this.#response.destroyed || this.#response.writableEnded) return;
    if (this.#response.write(text)) return;
    this.#patience = setTimeout(() => this.#response.destroy(), PATIENCE_MS);
    this.#response.once("drain", () => {
      this.close();
      this.#resume();
    });
  }

  end(): void {
    this.#response.end();
  }

  close(): void {
    clearTimeout(this.#patience);
    this.#patience = undefined;
  }
}

/** Returns the function that runs the work once more when it is called while the work runs. */
function oneAtATime(work: () => Promise<void>): () => void {
  let isRunning = false;
  let isWanted = false;
  const run = async (): Promise<void> => {
    isRunning = true;
    do {
      isWanted = false;
      await work();
    } while (isWanted);
    isRunning = false;
  };
  return () => {
    isWanted = true;
    if (!isRunning) void run();
  };
}
