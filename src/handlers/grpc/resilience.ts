import {
  BrokenCircuitError,
  BulkheadRejectedError,
  bulkhead,
  CircuitState,
  ConsecutiveBreaker,
  circuitBreaker,
  handleWhen,
} from "cockatiel";
import { AttemptFailed, circuitOpen, type FailedCall, systemBusy } from "./status.ts";

/** How much one system's trouble may cost. */
export interface ResilienceLimits {
  /** Calls to the system under way at once, of all tools together. */
  readonly concurrentCallsMax: number;
  /** Further attempts at a call that is safe to repeat. */
  readonly retriesMax: number;
  /** Faults of the connection in a row that open the circuit. */
  readonly circuitFailuresMax: number;
  /** How long an open circuit lets nothing through. */
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
/** A tenth of the calls may be repeated; this many repeats are saved up at most. */
const BUDGET_TOKENS_MAX = 10;
const BUDGET_TOKENS_PER_CALL = 0.1;

const CIRCUITS: Readonly<Record<CircuitState, Circuit>> = {
  [CircuitState.Closed]: "closed",
  [CircuitState.Open]: "open",
  [CircuitState.Isolated]: "open",
  [CircuitState.HalfOpen]: "half-open",
};

export interface GuardedCall<T> extends FailedCall {
  /** One try. Rejects with `AttemptFailed` where there was no answer. */
  attempt(): Promise<T>;
  /** Whether there is a connection now. */
  connected(): boolean;
}

type Outcome<T> = { readonly answer: T } | { readonly failed: AttemptFailed };

/** Concurrency limit, circuit breaker and retry budget of one system. */
export class Resilience {
  readonly #limits: ResilienceLimits;
  readonly #random: () => number;
  readonly #room;
  readonly #circuit;
  #tokens = BUDGET_TOKENS_MAX;

  constructor(limits: ResilienceLimits, random: () => number) {
    this.#limits = limits;
    this.#random = random;
    this.#room = bulkhead(limits.concurrentCallsMax);
    // Only faults of the connection count: a service that answers, whatever it answers, is there.
    this.#circuit = circuitBreaker(
      handleWhen((error) => error instanceof AttemptFailed && error.origin === "transport"),
      { halfOpenAfter: limits.circuitOpenMs, breaker: new ConsecutiveBreaker(limits.circuitFailuresMax) },
    );
  }

  get circuit(): Circuit {
    return CIRCUITS[this.#circuit.state];
  }

  /** The answer. Rejects with the last `AttemptFailed`, or a `Refusal` where nothing was tried. */
  async run<T>(call: GuardedCall<T>): Promise<T> {
    try {
      return await this.#room.execute(() => this.#attempts(call));
    } catch (error) {
      throw error instanceof BulkheadRejectedError ? systemBusy(call, BUSY_RETRY_AFTER_MS) : error;
    }
  }

  async #attempts<T>(call: GuardedCall<T>): Promise<T> {
    this.#tokens = Math.min(BUDGET_TOKENS_MAX, this.#tokens + BUDGET_TOKENS_PER_CALL);
    let last: AttemptFailed | undefined;
    for (let made = 0; ; made += 1) {
      const failed = await this.#through(call, last);
      if ("answer" in failed) return failed.answer;
      last = failed.failed;
      if (!this.#mayRepeat(call, last, made)) throw last;
      await pause(this.#backoffMs(made), call.signal);
      if (call.signal.aborted) throw last;
    }
  }

  /** One attempt, through the circuit. Where the circuit refuses a repeat, what failed before it is told. */
  async #through<T>(call: GuardedCall<T>, before: AttemptFailed | undefined): Promise<Outcome<T>> {
    try {
      // While one call tries a circuit out, the others do not wait for it: with a connection they need no circuit.
      if (this.#circuit.state !== CircuitState.HalfOpen) return await this.#circuit.execute(() => outcomeOf(call));
      if (call.connected()) return await outcomeOf(call);
    } catch (error) {
      if (error instanceof AttemptFailed) return { failed: error };
      if (!(error instanceof BrokenCircuitError)) throw error;
    }
    throw before ?? circuitOpen(call, this.#limits.circuitOpenMs);
  }

  #mayRepeat({ safe, signal }: FailedCall, { origin, status, begun }: AttemptFailed, made: number): boolean {
    const isUnavailable = origin === "transport" || status === "UNAVAILABLE";
    if (!safe || signal.aborted || begun || !isUnavailable || made >= this.#limits.retriesMax) return false;
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }

  #backoffMs(made: number): number {
    return BACKOFF_FIRST_MS * BACKOFF_FACTOR ** made * (0.5 + this.#random() / 2);
  }
}

/** A service's own no is an outcome; only what is nobody's answer is thrown, for the circuit to see. */
async function outcomeOf<T>(call: GuardedCall<T>): Promise<Outcome<T>> {
  try {
    return { answer: await call.attempt() };
  } catch (error) {
    if (error instanceof AttemptFailed && error.origin === "service") return { failed: error };
    throw error;
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
