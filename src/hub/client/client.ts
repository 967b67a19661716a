import { retryDelayMs } from "../../core/retry.ts";
import type { HubAnswer, HubCallOptions, HubClient, Pushed } from "../contract.ts";
import { HubUnavailable } from "../errors.ts";
import { encodeWire } from "../wire.ts";
import { HubConnection, type HubConnectionOptions, NoAnswer, unavailable } from "./connection.ts";
import { HubStream, type HubStreamOptions } from "./stream.ts";

const REPEAT = { firstMs: 25, maxMs: 250 } as const;
/** Shortest time for which an attempt waits for its answer before it counts as lost. */
const ATTEMPT_MS_MIN = 250;

export interface HubClientOptions extends HubConnectionOptions, Omit<HubStreamOptions, "connection"> {
  /** Returns a new request id with 128 random bits. */
  readonly newId: () => string;
  /** Time limit for all attempts of a call. */
  readonly requestMs: number;
}

/** Connects to the hub, and keeps trying. */
export function openHubClient(options: HubClientOptions): HubClient {
  return new Client(options);
}

class Client implements HubClient {
  readonly #options: HubClientOptions;
  readonly #connection: HubConnection;
  readonly #stream: HubStream;
  readonly #closing = new AbortController();

  constructor(options: HubClientOptions) {
    this.#options = options;
    this.#connection = new HubConnection(options);
    this.#stream = new HubStream({ ...options, connection: this.#connection });
  }

  async call(
    method: string,
    input: unknown,
    { timeoutMs = this.#options.requestMs, signal }: HubCallOptions = {},
  ): Promise<HubAnswer> {
    const { monotonic, newId, random } = this.#options;
    const body = encodeWire({ id: newId(), input });
    const endMs = monotonic() + timeoutMs;
    // An answer that was lost without a sign must leave time for another attempt.
    const attemptMs = Math.max(timeoutMs / 2, ATTEMPT_MS_MIN);
    const signals = AbortSignal.any([this.#closing.signal, ...(signal === undefined ? [] : [signal])]);
    for (let failures = 1; ; failures += 1) {
      const leftMs = endMs - monotonic();
      try {
        const limit = Math.min(leftMs, attemptMs);
        return answerIn(await this.#connection.post(method, body, { timeoutMs: limit, signal: signals }));
      } catch (error) {
        if (!(error instanceof NoAnswer)) throw error;
        const delayMs = error.retryAfterMs ?? retryDelayMs(REPEAT, failures, random());
        if (signals.aborted || monotonic() + delayMs >= endMs) throw unavailable(error);
        await new Promise((resolve) => setTimeout(resolve, delayMs));
      }
    }
  }

  get isConnected(): boolean {
    return this.#stream.isFresh;
  }

  pushed(name: string): Pushed | undefined {
    return this.#stream.pushed(name);
  }

  watch(changed: () => void): () => void {
    return this.#stream.watch(changed);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#stream.close();
    this.#connection.close();
  }
}

function answerIn(body: unknown): HubAnswer {
  if (typeof body !== "object" || body === null || !("now" in body) || typeof body.now !== "number") {
    throw new HubUnavailable("the hub's answer is malformed");
  }
  return { value: "value" in body ? body.value : undefined, now: body.now };
}
