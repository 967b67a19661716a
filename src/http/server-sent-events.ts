import type { EndpointAnswer, EventSink } from "./endpoint.ts";

const HEARTBEAT_MS = 15_000;
const PATIENCE_MS = 30_000;
/** When a client of a stream that can be resumed connects again. */
export const RETRY_MS = 1_000;

export function eventStream(stream: NonNullable<EndpointAnswer["stream"]>): EndpointAnswer {
  const headers = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
  };
  return { status: 200, headers, stream };
}

/** Returns the head of a download. */
export function download(
  { type, name }: { readonly type: string; readonly name: string },
  stream: NonNullable<EndpointAnswer["stream"]>,
): EndpointAnswer {
  const headers = {
    "content-type": type,
    "content-disposition": `attachment; filename="${name}"`,
    "cache-control": "no-store",
    "x-accel-buffering": "no",
  };
  return { status: 200, headers, stream };
}

export interface ServerSentEventsOptions {
  readonly client: EventSink;
  /** Returns the remaining validity of the token in milliseconds. */
  readonly tokenLeftMs: () => number;
  /** Rejects when the token is no longer valid. */
  readonly verifyAgain: () => Promise<void>;
  readonly heartbeatMs?: number;
  /** Maximum time during which a client reads nothing of what was sent. */
  readonly patienceMs?: number;
}

/**
 * A stream to one client. It ends with the token, the client or the service, or when a slow client exceeds
 * `patienceMs`.
 */
class ClientStream {
  readonly #options: ServerSentEventsOptions;
  #isEnded = false;
  #isBlocked = false;
  #resume: () => void = () => {};

  constructor(options: ServerSentEventsOptions) {
    this.#options = options;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  /**
   * Runs `step` repeatedly until the stream ends, and resolves then.
   *
   * @param open called before the first step
   * @param beat called at each heartbeat at which the token is valid and the client can receive
   */
  protected async repeat(
    step: () => Promise<void>,
    { open, beat }: { readonly open?: () => void; readonly beat?: () => void } = {},
  ): Promise<void> {
    const { client, tokenLeftMs, heartbeatMs = HEARTBEAT_MS } = this.#options;
    const expiry = setTimeout(() => this.end(), tokenLeftMs());
    const heartbeat = setInterval(() => this.#beat(beat), heartbeatMs);
    try {
      client.onDisconnect(() => this.end());
      open?.();
      while (!this.#isEnded && tokenLeftMs() > 0) await step();
    } finally {
      clearTimeout(expiry);
      clearInterval(heartbeat);
      this.end();
    }
  }

  end(): void {
    this.endAs({ isWhole: true });
  }

  protected endAs({ isWhole }: { readonly isWhole: boolean }): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#resume();
    const { client } = this.#options;
    // Data that a slow client has not read by now is discarded.
    if (this.#isBlocked || !isWhole) client.destroy();
    else client.end();
  }

  async send(text: string): Promise<void> {
    const { client, tokenLeftMs, patienceMs = PATIENCE_MS } = this.#options;
    if (this.#isEnded || text === "") return;
    if (tokenLeftMs() <= 0) return this.end();
    if (client.write(text)) return;
    this.#isBlocked = true;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#resume = resolve;
    const stop = client.onceDrained(resolve);
    const patience = setTimeout(() => this.end(), patienceMs);
    await promise;
    clearTimeout(patience);
    stop();
    this.#isBlocked = false;
  }

  /** Waits at most `ms`; `wake` and the end of the stream cut the wait short. */
  async pause(ms?: number): Promise<void> {
    if (this.#isEnded) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#resume = resolve;
    const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
    await promise;
    clearTimeout(timer);
  }

  /** Ends a pause. A stream that waits for a slow client continues when the client reads. */
  wake(): void {
    if (!this.#isBlocked) this.#resume();
  }

  #beat(beat: (() => void) | undefined): void {
    this.#options.verifyAgain().then(
      () => {
        if (!this.#isEnded && !this.#isBlocked) beat?.();
      },
      () => this.end(),
    );
  }
}

interface RunOptions {
  readonly id?: number;
  readonly retryMs?: number;
  readonly onBeat?: () => void;
}

/** One client's stream of server-sent events. */
export class ServerSentEvents extends ClientStream {
  readonly #client: EventSink;

  constructor(options: ServerSentEventsOptions) {
    super(options);
    this.#client = options.client;
  }

  /**
   * Runs `step` repeatedly until the stream ends, and resolves then.
   *
   * @param id the event id from which a client resumes that is cut off before its first event
   * @param retryMs when the client connects again after the end of the stream
   * @param onBeat called after each heartbeat that the client can receive
   */
  run(step: () => Promise<void>, { id, retryMs, onBeat }: RunOptions = {}): Promise<void> {
    const retry = retryMs === undefined ? "" : `retry: ${retryMs}\n`;
    const position = id === undefined ? "" : `id: ${id}\n`;
    return this.repeat(step, {
      open: () => void this.#client.write(`: open\n${retry}${position}\n`),
      beat: () => {
        this.#client.write(":\n\n");
        onBeat?.();
      },
    });
  }
}

/** One client's download. Unless `complete` ends it, its connection is cut off: a partial one must not pass for a complete one. */
export class Download extends ClientStream {
  /** Runs `step` repeatedly until it calls `complete`, or the download is cut off. */
  run(step: () => Promise<void>): Promise<void> {
    return this.repeat(step);
  }

  complete(): void {
    this.endAs({ isWhole: true });
  }

  override end(): void {
    this.endAs({ isWhole: false });
  }
}
