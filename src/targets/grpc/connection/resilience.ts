import { AttemptFailed, circuitOpen, type FailedCall, type Origin, systemBusy } from "../status.ts";

export interface ResilienceLimits {
  readonly concurrentCallsMax: number;
  readonly retriesMax: number;
  /** Consecutive connection errors. */
  readonly circuitFailuresMax: number;
  readonly circuitOpenMs: number;
}

export const RESILIENCE_DEFAULTS: ResilienceLimits = {
  concurrentCallsMax: 256,
  retriesMax: 2,
  circuitFailuresMax: 10,
  circuitOpenMs: 2_000,
};

export type Circuit = "closed" | "open" | "half-open";

const BACKOFF_FIRST_MS = 100;
const BACKOFF_FACTOR = 4;
const BUSY_RETRY_AFTER_MS = 1_000;
/** Retry budget: one retry per ten calls, and at most this many in reserve. */
const BUDGET_TOKENS_MAX = 10;
const BUDGET_TOKENS_PER_CALL = 0.1;

export interface GuardedCall<T> extends FailedCall {
  /** Makes one attempt. Rejects with `AttemptFailed` when there is no answer. */
  attempt(): Promise<T>;
  connected(): boolean;
}

/** Concurrency limit, circuit breaker and retry budget of one system. */
export class Resilience {
  readonly #limits: ResilienceLimits;
  readonly #random: () => number;
  readonly #breaker: CircuitBreaker;
  #underWay = 0;
  #tokens = BUDGET_TOKENS_MAX;

  constructor(limits: ResilienceLimits, random: () => number) {
    this.#limits = limits;
    this.#random = random;
    this.#breaker = new CircuitBreaker(limits);
  }

  get circuit(): Circuit {
    return this.#breaker.state;
  }

  /** Returns the answer. Rejects with the last `AttemptFailed`, or with a `Refusal` when nothing was sent. */
  async run<T>(call: GuardedCall<T>): Promise<T> {
    if (this.#underWay >= this.#limits.concurrentCallsMax) throw systemBusy(call, BUSY_RETRY_AFTER_MS);
    this.#underWay += 1;
    this.#tokens = Math.min(BUDGET_TOKENS_MAX, this.#tokens + BUDGET_TOKENS_PER_CALL);
    try {
      let last: AttemptFailed | undefined;
      for (let retries = 0; ; retries += 1) {
        const outcome = await this.#attempt(call, last);
        if ("answer" in outcome) return outcome.answer;
        last = outcome.failed;
        if (!this.#mayRepeat(call, last, retries)) throw last;
        const jitter = 0.5 + this.#random() / 2;
        await pause(BACKOFF_FIRST_MS * BACKOFF_FACTOR ** retries * jitter, call.signal);
        if (call.signal.aborted) throw last;
      }
    } finally {
      this.#underWay -= 1;
    }
  }

  /** Makes one attempt. Throws the previous failure when the circuit rejects a retry. */
  async #attempt<T>(
    call: GuardedCall<T>,
    before: AttemptFailed | undefined,
  ): Promise<{ readonly answer: T } | { readonly failed: AttemptFailed }> {
    const entry = this.#breaker.enter();
    // While one call probes a half-open circuit, other calls run if there is a connection.
    const isRejected = entry === "open" || (entry === "half-open" && !call.connected());
    if (isRejected) throw before ?? circuitOpen(call, this.#limits.circuitOpenMs);
    let ended: Origin | "answer" = "local";
    try {
      const answer = await call.attempt();
      ended = "answer";
      return { answer };
    } catch (error) {
      if (!(error instanceof AttemptFailed)) throw error;
      ended = error.origin;
      return { failed: error };
    } finally {
      this.#breaker.leave(entry, ended);
    }
  }

  #mayRepeat({ safe, signal }: FailedCall, { origin, status, answerStarted }: AttemptFailed, retries: number): boolean {
    const isUnavailable = origin === "transport" || status === "UNAVAILABLE";
    if (!safe || signal.aborted || answerStarted || !isUnavailable || retries >= this.#limits.retriesMax) return false;
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }
}

/** Opens after consecutive connection errors. A service that answers with any status is available. */
class CircuitBreaker {
  readonly #limits: ResilienceLimits;
  state: Circuit = "closed";
  #failures = 0;
  /** True when an open circuit may let a probe through. */
  #mayProbe = false;

  constructor(limits: ResilienceLimits) {
    this.#limits = limits;
  }

  /** Starts an attempt. Returns the circuit's state, or "probe" when this attempt probes an open circuit. */
  enter(): Circuit | "probe" {
    if (this.state !== "open" || !this.#mayProbe) return this.state;
    this.state = "half-open";
    return "probe";
  }

  leave(entry: Circuit | "probe", ended: Origin | "answer"): void {
    if (entry === "probe") {
      if (ended === "transport") this.#open();
      else this.state = "closed";
    } else if (this.state === "closed") {
      // Attempts that began in another state are ignored.
      if (ended === "transport") this.#failures += 1;
      else if (ended !== "local") this.#failures = 0;
      if (this.#failures >= this.#limits.circuitFailuresMax) this.#open();
    }
  }

  #open(): void {
    this.state = "open";
    this.#failures = 0;
    this.#mayProbe = false;
    const allowProbe = (): void => {
      this.#mayProbe = true;
    };
    setTimeout(allowProbe, this.#limits.circuitOpenMs).unref();
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done, { once: true });
  });
}
