import { BrokenCircuitError, CircuitState, ConsecutiveBreaker, circuitBreaker, handleWhen } from "cockatiel";
import { AttemptFailed, circuitOpen, type FailedCall, systemBusy } from "../status.ts";

/** Limits on the cost of one system's failures. */
export interface ResilienceLimits {
  /** Maximum number of concurrent calls to the system, over all tools. */
  readonly concurrentCallsMax: number;
  /** Maximum number of retries of a call that is safe to repeat. */
  readonly retriesMax: number;
  /** Number of consecutive connection errors that opens the circuit. */
  readonly circuitFailuresMax: number;
  /** Time for which an open circuit rejects calls. */
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
/** Retry budget: one retry per ten calls, of which at most this many are saved up. */
const BUDGET_TOKENS_MAX = 10;
const BUDGET_TOKENS_PER_CALL = 0.1;

const CIRCUITS: Readonly<Record<CircuitState, Circuit>> = {
  [CircuitState.Closed]: "closed",
  [CircuitState.Open]: "open",
  [CircuitState.Isolated]: "open",
  [CircuitState.HalfOpen]: "half-open",
};

export interface GuardedCall<T> extends FailedCall {
  /** Makes one attempt. Rejects with `AttemptFailed` when there is no answer. */
  attempt(): Promise<T>;
  /** Returns true when there is a connection now. */
  connected(): boolean;
}

type Outcome<T> = { readonly answer: T } | { readonly failed: AttemptFailed };

/** Concurrency limit, circuit breaker and retry budget of one system. */
export class Resilience {
  readonly #limits: ResilienceLimits;
  readonly #random: () => number;
  readonly #circuit;
  #underWay = 0;
  /** True when an error has occurred and no answer since. Only then does the circuit need to see every attempt. */
  #isTroubled = false;
  #faults = 0;
  #tokens = BUDGET_TOKENS_MAX;

  constructor(limits: ResilienceLimits, random: () => number) {
    this.#limits = limits;
    this.#random = random;
    // Only connection errors count: a service that answers, with whatever status, is available.
    this.#circuit = circuitBreaker(
      handleWhen((error) => error instanceof AttemptFailed && error.origin === "transport"),
      { halfOpenAfter: limits.circuitOpenMs, breaker: new ConsecutiveBreaker(limits.circuitFailuresMax) },
    );
  }

  get circuit(): Circuit {
    return CIRCUITS[this.#circuit.state];
  }

  /** Returns the answer. Rejects with the last `AttemptFailed`, or with a `Refusal` when nothing was attempted. */
  async run<T>(call: GuardedCall<T>): Promise<T> {
    if (this.#underWay >= this.#limits.concurrentCallsMax) throw systemBusy(call, BUSY_RETRY_AFTER_MS);
    this.#underWay += 1;
    this.#tokens = Math.min(BUDGET_TOKENS_MAX, this.#tokens + BUDGET_TOKENS_PER_CALL);
    try {
      let last: AttemptFailed | undefined;
      for (let made = 0; ; made += 1) {
        if (this.#isTroubled) {
          const outcome = await this.#through(call, last);
          if ("answer" in outcome) return outcome.answer;
          last = outcome.failed;
        } else {
          // While there are no errors, the end of an attempt is reported to the circuit only when it changes something.
          try {
            const answer = await call.attempt();
            if (this.#isTroubled) await this.#tell(undefined);
            return answer;
          } catch (error) {
            last = await this.#noted(error);
          }
        }
        if (!this.#mayRepeat(call, last, made)) throw last;
        await pause(this.#backoffMs(made), call.signal);
        if (call.signal.aborted) throw last;
      }
    } finally {
      this.#underWay -= 1;
    }
  }

  /** Records how an attempt failed that did not go through the circuit. */
  async #noted(error: unknown): Promise<AttemptFailed> {
    if (!(error instanceof AttemptFailed)) throw error;
    if (error.origin === "transport") {
      // Set before the circuit is notified: an answer that arrives in between must be reported to it, too.
      this.#isTroubled = true;
      this.#faults += 1;
      await this.#tell(error);
    } else if (error.origin === "service" && this.#isTroubled) await this.#tell(undefined);
    return error;
  }

  async #tell(fault: AttemptFailed | undefined): Promise<void> {
    // An attempt that started before the circuit opened says nothing about whether it may close.
    if (this.#circuit.state !== CircuitState.Closed) return;
    await this.#watched(async () => {
      if (fault !== undefined) throw fault;
    }).catch(() => {});
  }

  /** Runs the work through the circuit. */
  async #watched<T>(work: () => Promise<T>): Promise<T> {
    let faults = this.#faults;
    try {
      const done = await this.#circuit.execute(async () => {
        const result = await work();
        faults = this.#faults;
        return result;
      });
      if (this.#faults === faults && this.#circuit.state === CircuitState.Closed) this.#isTroubled = false;
      return done;
    } catch (error) {
      this.#faults += 1;
      this.#isTroubled = true;
      throw error;
    }
  }

  /** Makes one attempt through the circuit. When the circuit rejects a retry, throws the failure before it. */
  async #through<T>(call: GuardedCall<T>, before: AttemptFailed | undefined): Promise<Outcome<T>> {
    try {
      // While one call probes a half-open circuit, other calls do not wait for it: with a connection, they bypass the
      // circuit.
      if (this.#circuit.state !== CircuitState.HalfOpen) return await this.#watched(() => outcomeOf(call));
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

/** Returns a service's own error as an outcome; throws only when the service did not answer, for the circuit to see. */
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
