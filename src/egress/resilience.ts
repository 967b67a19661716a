import { Refusal } from "../core/errors.ts";
import type { RefusalCode } from "../core/refusals.ts";
import type { CallsInFlight } from "../core/target-kind.ts";
import { isTimeout } from "../core/time-limits.ts";

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
/** Longest wait within a call that a service may ask for. */
const WAITED_MAX_MS = 2_000;
/** Time after which an agent may call a busy system again. */
export const BUSY_RETRY_AFTER_MS = 1_000;
/** Retry budget: one retry per ten calls, and at most this many in reserve. */
const BUDGET_TOKENS_MAX = 10;
const BUDGET_TOKENS_PER_CALL = 0.1;

/** A call of one system. */
export interface OutgoingCall {
  readonly system: string;
  /** Path of the call, for operators. */
  readonly path: string;
  /** True when repeating the call is harmless: the tool reads, or is declared idempotent. */
  readonly safe: boolean;
  readonly signal: AbortSignal;
}

export interface GuardedCall<T> extends OutgoingCall {
  /** Makes one attempt. Rejects with `FailedAttempt` when there is no answer. */
  attempt(): Promise<T>;
  connected(): boolean;
}

/**
 * The party that ended an attempt: the service with a status of its own, the connection, or the proxy itself (deadline,
 * disconnect, invalid answer).
 */
export type Origin = "service" | "transport" | "local";

export class FailedAttempt extends Error {
  readonly origin: Origin;
  /** True when the same attempt may succeed soon. */
  readonly isUnavailable: boolean;
  /** True when a part of an answer was received that was not a status. Such an attempt is not repeated. */
  readonly answerStarted: boolean;
  /** Whether the service may have received the request. */
  readonly sent: boolean;
  /** Time that the service asks to wait before the next attempt; 0 when it asks for nothing. */
  readonly waitMs: number;

  constructor(
    message: string,
    facts: Pick<FailedAttempt, "origin" | "isUnavailable" | "answerStarted" | "sent"> & { readonly waitMs?: number },
  ) {
    super(message);
    this.origin = facts.origin;
    this.isUnavailable = facts.isUnavailable;
    this.answerStarted = facts.answerStarted;
    this.sent = facts.sent;
    this.waitMs = facts.waitMs ?? 0;
  }
}

/** Returns what the refusal of a failed attempt says about the time to wait. */
export function waitOf(
  { waitMs }: Pick<FailedAttempt, "waitMs">,
  code: RefusalCode,
): { readonly retryAfterMs?: number } {
  return waitMs > 0 && code === "TARGET_UNAVAILABLE" ? { retryAfterMs: waitMs } : {};
}

export const UNAVAILABLE = "The service is unavailable now.";

/** The agent's texts for failures of a service, whatever its protocol. */
export const FAILURE_MESSAGES = {
  TARGET_REFUSED: "The service refused these arguments; details.status says why.",
  TARGET_FAILED: "The service failed on this call; details.status says how.",
  TARGET_UNAVAILABLE: UNAVAILABLE,
  DEADLINE_EXCEEDED: "The service did not answer in time.",
  CANCELLED: "The call was cancelled.",
  OUTCOME_UNKNOWN:
    "The service gave no definite answer: the change may or may not have happened. Check before trying again.",
} as const satisfies Partial<Record<RefusalCode, string>>;

/** Returns the refusal of an open circuit, after many failed calls. Nothing was sent. */
function circuitOpen(call: OutgoingCall, retryAfterMs: number): Refusal {
  return new Refusal("TARGET_UNAVAILABLE", UNAVAILABLE, {
    details: { status: "UNAVAILABLE" },
    retryAfterMs,
    cause: { system: call.system, path: call.path, hint: "the system's circuit is open: its last calls all failed" },
  });
}

/** Returns the refusal for more concurrent calls than the system's limit. Nothing was sent. */
function systemBusy(call: OutgoingCall): Refusal {
  return new Refusal("OVERLOADED", "Too many calls to this tool's service are in progress.", {
    retryAfterMs: BUSY_RETRY_AFTER_MS,
    cause: { system: call.system, path: call.path },
  });
}

/** Concurrency limit, circuit breaker and retry budget of one system. */
export class Resilience {
  readonly #limits: ResilienceLimits;
  readonly #random: () => number;
  readonly #breaker: CircuitBreaker;
  #inFlight = 0;
  #tokens = BUDGET_TOKENS_MAX;

  constructor(limits: ResilienceLimits, random: () => number) {
    this.#limits = limits;
    this.#random = random;
    this.#breaker = new CircuitBreaker(limits);
  }

  get circuit(): Circuit {
    return this.#breaker.state;
  }

  /** Calls in progress, and the limit. */
  get calls(): CallsInFlight {
    return { inFlight: this.#inFlight, max: this.#limits.concurrentCallsMax };
  }

  /** Returns the answer. Rejects with the last `FailedAttempt`, or with a `Refusal` when nothing was sent. */
  async run<T>(call: GuardedCall<T>): Promise<T> {
    if (this.#inFlight >= this.#limits.concurrentCallsMax) throw systemBusy(call);
    this.#inFlight += 1;
    this.#tokens = Math.min(BUDGET_TOKENS_MAX, this.#tokens + BUDGET_TOKENS_PER_CALL);
    try {
      let last: FailedAttempt | undefined;
      for (let retries = 0; ; retries += 1) {
        const outcome = await this.#attempt(call, last);
        if ("answer" in outcome) return outcome.answer;
        last = outcome.failed;
        if (!this.#mayRepeat(call, last, retries)) throw last;
        const jitter = 0.5 + this.#random() / 2;
        await pause(Math.max(last.waitMs, BACKOFF_FIRST_MS * BACKOFF_FACTOR ** retries * jitter), call.signal);
        if (call.signal.aborted) throw last;
      }
    } finally {
      this.#inFlight -= 1;
    }
  }

  /** Makes one attempt. Throws the previous failure when the circuit rejects a retry. */
  async #attempt<T>(
    call: GuardedCall<T>,
    before: FailedAttempt | undefined,
  ): Promise<{ readonly answer: T } | { readonly failed: FailedAttempt }> {
    const entry = this.#breaker.enter();
    // While one call probes a half-open circuit, other calls run if there is a connection.
    const isRejected = entry === "open" || (entry === "half-open" && !call.connected());
    if (isRejected) throw before ?? circuitOpen(call, this.#limits.circuitOpenMs);
    let ended: Ended = "local";
    try {
      const answer = await call.attempt();
      ended = "answer";
      return { answer };
    } catch (error) {
      const isLeft = call.signal.aborted && !isTimeout(call.signal);
      if (isLeft) ended = "disconnect";
      if (!(error instanceof FailedAttempt)) throw error;
      if (!isLeft) ended = error.origin;
      return { failed: error };
    } finally {
      this.#breaker.leave(entry, ended);
    }
  }

  #mayRepeat({ safe, signal }: OutgoingCall, failed: FailedAttempt, retries: number): boolean {
    const { isUnavailable, answerStarted } = failed;
    if (!safe || signal.aborted || answerStarted || !isUnavailable || retries >= this.#limits.retriesMax) return false;
    // The agent waits, not the call.
    if (failed.waitMs > WAITED_MAX_MS) return false;
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }
}

/** The end of an attempt. A caller's disconnect says nothing about the service, whichever error follows it. */
type Ended = Origin | "answer" | "disconnect";

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

  leave(entry: Circuit | "probe", ended: Ended): void {
    if (entry === "probe") {
      if (ended === "transport") this.#open();
      // The next attempt probes.
      else this.state = ended === "disconnect" ? "open" : "closed";
    } else if (this.state === "closed") {
      // Attempts that started in another state are ignored.
      if (ended === "transport") this.#failures += 1;
      else if (ended === "answer" || ended === "service") this.#failures = 0;
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
