import type { ServerResponse } from "node:http";

export interface ServerSentEventsOptions {
  readonly response: ServerResponse;
  /** Returns the remaining validity of the token in milliseconds. */
  readonly tokenLeftMs: () => number;
  /** Rejects when the token is no longer valid. */
  readonly verifyAgain: () => Promise<void>;
  readonly heartbeatMs: number;
  /** Maximum time during which a client reads nothing of what was sent. */
  readonly patienceMs: number;
}

/**
 * One client's stream of server-sent events. It ends with the token, the client or the service, or when a slow client exceeds
 * `patienceMs`.
 */
export class ServerSentEvents {
  readonly #options: ServerSentEventsOptions;
  #isEnded = false;
  #isBlocked = false;
  /** Ends the current wait of the stream. */
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
   * @param id the event id from which a client resumes that is cut off before its first event
   * @param onBeat called after each heartbeat that the client can receive
   */
  async run(step: () => Promise<void>, { id, onBeat }: { id?: number; onBeat?: () => void } = {}): Promise<void> {
    const { tokenLeftMs, heartbeatMs } = this.#options;
    const expiry = setTimeout(() => this.end(), tokenLeftMs());
    const heartbeat = setInterval(() => this.#beat(onBeat), heartbeatMs);
    try {
      this.#open(id);
      while (!this.#isEnded && tokenLeftMs() > 0) await step();
    } finally {
      clearTimeout(expiry);
      clearInterval(heartbeat);
      this.end();
    }
  }

  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#resume();
    const { response } = this.#options;
    // Data that a slow client has not read by now is discarded.
    if (this.#isBlocked) response.destroy();
    else response.end();
  }

  /** Resolves when the client can receive more. */
  async send(text: string): Promise<void> {
    const { response, tokenLeftMs, patienceMs } = this.#options;
    if (this.#isEnded || text === "") return;
    if (tokenLeftMs() <= 0) return this.end();
    if (response.write(text)) return;
    this.#isBlocked = true;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#resume = resolve;
    response.once("drain", resolve);
    const patience = setTimeout(() => this.end(), patienceMs);
    await promise;
    clearTimeout(patience);
    response.removeListener("drain", resolve);
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

  #open(id: number | undefined): void {
    const { response } = this.#options;
    response.once("close", () => this.end());
    // Writing after the client disconnected raises an error.
    response.on("error", () => this.end());
    response.writeHead(200, {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
      "x-accel-buffering": "no",
      connection: "close",
    });
    response.write(id === undefined ? ": open\n\n" : `: open\nid: ${id}\n\n`);
  }

  #beat(onBeat: (() => void) | undefined): void {
    this.#options.verifyAgain().then(
      () => {
        if (this.#isEnded || this.#isBlocked) return;
        this.#options.response.write(":\n\n");
        onBeat?.();
      },
      () => this.end(),
    );
  }
}
