import { retryDelayMs } from "../../core/retry.ts";
import type { HubAnswer, HubCallOptions, HubClient, Pushed } from "../contract.ts";
import { HubUnavailable } from "../errors.ts";
import { encodeWire } from "../wire.ts";
import { HubConnection, type HubConnectionOptions, isTime, NoAnswer, unavailable } from "./connection.ts";
import { HubStream, type HubStreamOptions } from "./stream.ts";

const REPEAT = { firstMs: 25, maxMs: 250 } as const;
/** Shortest time for which an attempt waits for its answer before it counts as lost. */
const ATTEMPT_MS_MIN = 250;
/** An attempt with a longer limit ends when the stream is lost: a wait for a decision must not stay on a dead connection. */
const LONG_MS = 3_000;
/** Time for which a request is repeated after its time limit, in milliseconds: well below the time for which the hub keeps its answer. */
const LATE_MS = 300_000;
const LATE_ATTEMPT_MS = 5_000;
/** Time after which another one has its turn: the hub may never answer this one. */
const LATE_TURN_MS = 10_000;
const LATE_REPEAT = { firstMs: 250, maxMs: 2_000 } as const;
/** Maximum number of requests that are repeated after their time limits at the same time. */
const LATE_MAX = 1_000;

export interface HubClientOptions extends HubConnectionOptions, Omit<HubStreamOptions, "connection"> {
  /** Returns a new request id with 128 random bits. */
  readonly newId: () => string;
  /** Time limit for all attempts of a call. */
  readonly requestMs: number;
}

interface Repetition {
  /** Limit for all attempts, in milliseconds. */
  readonly timeoutMs: number;
  readonly attemptMs: number;
  readonly delays: Parameters<typeof retryDelayMs>[0];
  readonly signal: AbortSignal;
}

interface Sent {
  readonly method: string;
  readonly id: string;
  readonly body: string;
  /** Whether the hub may have carried out the request: false when it was not sent, or the hub was too busy each time. */
  mayHaveRun: boolean;
}

/** A request that is repeated after its time limit. */
interface Late {
  readonly sent: Sent;
  readonly report: HubCallOptions["late"];
  readonly endMs: number;
  /** Fires when the same request is made again, which then continues under the same id. */
  readonly resumed: AbortController;
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
  /** In the order in which they are sent. Keys: the request's text where the same request may continue it, otherwise its id. */
  readonly #late = new Map<string, Late>();
  #isSendingLate = false;

  constructor(options: HubClientOptions) {
    this.#options = options;
    this.#connection = new HubConnection(options);
    this.#stream = new HubStream({ ...options, connection: this.#connection });
  }

  async call(method: string, input: unknown, options: HubCallOptions = {}): Promise<HubAnswer> {
    const { timeoutMs = this.#options.requestMs, signal, late: report, isReport = false, resumes = false } = options;
    const key = resumes ? `${method} ${encodeWire(input)}` : undefined;
    const earlier = this.#resume(key);
    const sent = earlier?.sent ?? this.#request(method, input);
    const signals = AbortSignal.any([this.#closing.signal, ...(signal === undefined ? [] : [signal])]);
    // An answer that was lost without a sign must leave time for another attempt.
    const attemptMs = Math.max(timeoutMs / 2, ATTEMPT_MS_MIN);
    try {
      return await this.#repeat(sent, { timeoutMs, attemptMs, delays: REPEAT, signal: signals });
    } catch (error) {
      if (error instanceof HubUnavailable) {
        const endMs = earlier?.endMs ?? this.#options.monotonic() + LATE_MS;
        const late = { sent, report, endMs, resumed: new AbortController() };
        const isRepeatable = isReport || (report !== undefined && sent.mayHaveRun);
        if (!isRepeatable || !this.#repeatLate(late, key)) report?.(undefined);
      }
      throw error;
    }
  }

  #request(method: string, input: unknown): Sent {
    const id = this.#options.newId();
    return { method, id, body: encodeWire({ id, input }), mayHaveRun: false };
  }

  async #repeat(sent: Sent, { timeoutMs, attemptMs, delays, signal }: Repetition): Promise<HubAnswer> {
    const { monotonic, random } = this.#options;
    const { method, id, body } = sent;
    const endMs = monotonic() + timeoutMs;
    let failure: NoAnswer | undefined;
    for (let failures = 1; ; failures += 1) {
      const leftMs = endMs - monotonic();
      // A process that stood still during the delay sends nothing more: a hub that has forgotten the request would run it again.
      if (leftMs <= 0) throw unavailable(failure ?? new NoAnswer("the time limit has passed"));
      try {
        const limit = Math.min(leftMs, attemptMs);
        const ends = limit > LONG_MS ? AbortSignal.any([signal, this.#stream.lost]) : signal;
        return answerIn(await this.#connection.post(method, body, { timeoutMs: limit, signal: ends }), id);
      } catch (error) {
        if (!(error instanceof NoAnswer)) throw error;
        sent.mayHaveRun ||= error.mayHaveRun;
        // An attempt that the time limit cuts off says less than the one before it.
        if (monotonic() < endMs) failure = error;
        const delayMs = Math.max(error.retryAfterMs ?? 0, retryDelayMs(delays, failures, random()));
        if (signal.aborted || monotonic() + delayMs >= endMs) throw unavailable(failure ?? error);
        await new Promise((resolve) => setTimeout(resolve, delayMs));
      }
    }
  }

  /** Takes the same request, which got no answer in time, out of the late ones: its new caller continues it. */
  #resume(key: string | undefined): Late | undefined {
    if (key === undefined) return undefined;
    const late = this.#late.get(key);
    this.#late.delete(key);
    late?.resumed.abort();
    return late;
  }

  /** Returns false when too many requests are repeated already. */
  #repeatLate(late: Late, key = late.sent.id): boolean {
    if (this.#late.size >= LATE_MAX) return false;
    this.#late.set(this.#late.has(key) ? late.sent.id : key, late);
    if (!this.#isSendingLate) void this.#sendLate();
    return true;
  }

  /** One at a time: a hub that is overloaded must not get more requests because it is. */
  async #sendLate(): Promise<void> {
    const { monotonic, log } = this.#options;
    this.#isSendingLate = true;
    // Those that are added meanwhile follow.
    for (const [key, late] of this.#late) {
      const { sent, report, endMs, resumed } = late;
      const signal = AbortSignal.any([this.#closing.signal, resumed.signal]);
      const timeoutMs = Math.min(endMs - monotonic(), LATE_TURN_MS);
      let isOver = true;
      try {
        const answer = await this.#repeat(sent, { timeoutMs, attemptMs: LATE_ATTEMPT_MS, delays: LATE_REPEAT, signal });
        if (!resumed.signal.aborted) report?.(answer);
      } catch (error) {
        isOver = signal.aborted || !(error instanceof HubUnavailable) || monotonic() >= endMs - LATE_REPEAT.maxMs;
        if (isOver && !signal.aborted) {
          log(`the hub never answered ${sent.method}`, error);
          report?.(undefined);
        }
      }
      if (resumed.signal.aborted) continue;
      this.#late.delete(key);
      if (isOver) continue;
      this.#late.set(key, late);
      // Also where a turn is shorter than the hub's own delay.
      await new Promise((resolve) => setTimeout(resolve, LATE_REPEAT.firstMs));
    }
    this.#isSendingLate = false;
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

/** Compares the id: a proxy may have mixed up two answers. @throws {NoAnswer} for an answer that is malformed or to another request */
function answerIn(body: unknown, id: string): HubAnswer {
  const {
    id: answered,
    value,
    now,
  } = typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
  if (!isTime(now)) throw new NoAnswer("the hub's answer is malformed");
  if (answered !== id) throw new NoAnswer("the hub's answer is to another request");
  return { value, now };
}
