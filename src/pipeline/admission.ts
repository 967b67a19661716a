import type { CapacityShare } from "../core/capacity.ts";
import { Refusal } from "../core/errors.ts";
import { type Admitted, type Authorized, mint, type Verified, type WithinRate } from "../core/evidence.ts";
import type { CallerContext } from "../core/types.ts";
import { monotonic } from "./limits/monotonic-clock.ts";
import type { Rates } from "./limits/rates.ts";

export interface AdmissionOptions {
  /** Limit for all callers together. */
  readonly concurrentCallsMax: number;
  /** Limit per caller, which is an issuer and a subject. */
  readonly concurrentCallsPerCallerMax: number;
  /** Returns whether the audit can record another call; otherwise no call runs. */
  readonly auditReady: (now: number | undefined) => boolean;
  /** Returns why the audit cannot record a call, for operators. */
  readonly auditProblem?: (() => string | undefined) | undefined;
  /** Limits how often one caller may start a call and disconnect. Undefined: no limit. */
  readonly cancellations?: CancellationLimit | undefined;
  readonly rates?: Rates | undefined;
  /** This service's share of what the process can carry out at once. Undefined: no other service is in the process. */
  readonly capacity?: CapacityShare | undefined;
}

/** `now` is the monotonic time, if the caller knows it; otherwise the clock is read. */
export interface Admission {
  /** @throws {Refusal} SHUTTING_DOWN, AUDIT_UNAVAILABLE, OVERLOADED, RATE_LIMITED */
  admit(verified: Verified, now?: number): Admitted;
  /**
   * Applies the rate limit of the tool. Comes after the check that the caller may know the tool.
   * @throws {Refusal} RATE_LIMITED
   */
  limitRate(authorized: Authorized, now?: number): WithinRate;
  /** Releases the slot. Every admitted call leaves exactly once. `abandoned`: its client disconnected before the answer. */
  leave(admitted: Admitted, abandoned?: boolean): void;
  drain(): void;
  inFlight(): number;
}

const RETRY_AFTER_MS = 1_000;

export function createAdmission(options: AdmissionOptions): Admission {
  /** Maps issuer → subject → calls in flight. */
  const perCaller = new Map<string, Map<string, number>>();
  const cancellations = options.cancellations && new Cancellations(options.cancellations);
  const { capacity } = options;
  let total = 0;
  let draining = false;

  return {
    admit({ caller }, now) {
      if (draining) {
        throw new Refusal("SHUTTING_DOWN", "The service is shutting down.", { retryAfterMs: RETRY_AFTER_MS });
      }
      if (!options.auditReady(now)) {
        throw new Refusal("AUDIT_UNAVAILABLE", "The call was not run: it could not be recorded.", {
          details: { outcome: "not_run" },
          retryAfterMs: RETRY_AFTER_MS,
          cause: new Error(options.auditProblem?.() ?? "the audit accepts no lines now"),
        });
      }
      // The answer does not tell which of the two is full: agents learn nothing about other services.
      if (total >= options.concurrentCallsMax || capacity?.isFull() === true) {
        throw new Refusal("OVERLOADED", "Too many calls are in progress.", { retryAfterMs: RETRY_AFTER_MS });
      }
      const bySubject = perCaller.get(caller.issuer) ?? new Map<string, number>();
      const own = bySubject.get(caller.subject) ?? 0;
      if (own >= options.concurrentCallsPerCallerMax) {
        throw new Refusal("RATE_LIMITED", "Too many of your calls are in progress at once.", {
          details: {
            limit: "concurrentCallsPerCaller",
            concurrentCallsPerCallerMax: options.concurrentCallsPerCallerMax,
          },
          retryAfterMs: RETRY_AFTER_MS,
        });
      }
      const retryAfterMs = cancellations?.retryAfterMs(caller) ?? 0;
      if (retryAfterMs > 0) {
        throw new Refusal("RATE_LIMITED", "You have abandoned too many calls. Wait for the answers of your calls.", {
          details: { limit: "cancellations", cancellationsPerMinuteMax: options.cancellations?.perMinuteMax },
          retryAfterMs,
        });
      }
      // This comes last: a call that is refused for another reason does not count against the rate limit.
      options.rates?.takeCall(caller, now);
      perCaller.set(caller.issuer, bySubject.set(caller.subject, own + 1));
      total += 1;
      capacity?.take();
      return mint<Admitted>({ caller });
    },
    limitRate(authorized, now) {
      options.rates?.takeTool(authorized.caller, authorized.tool.name, now);
      return mint<WithinRate>(authorized);
    },
    leave({ caller }, abandoned = false) {
      if (abandoned) cancellations?.count(caller);
      const bySubject = perCaller.get(caller.issuer);
      const left = (bySubject?.get(caller.subject) ?? 1) - 1;
      if (left === 0) bySubject?.delete(caller.subject);
      else bySubject?.set(caller.subject, left);
      total -= 1;
      capacity?.release();
    },
    drain: () => {
      draining = true;
    },
    inFlight: () => total,
  };
}

/** Maximum number of callers whose cancellations are counted; beyond it, those that cancelled longest ago are dropped. */
const CALLERS_MAX = 10_000;
const MINUTE_MS = 60_000;

export interface CancellationLimit {
  /** Per caller (issuer and subject), and in one burst. Read at each count and each query. */
  readonly perMinuteMax: number;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
}

interface Level {
  readonly count: number;
  readonly at: number;
}

/**
 * Counts the calls that one caller starts and abandons. Each costs the target its work, and a storm of them on a shared
 * connection makes the target's server drop everybody's calls. One evenly draining bucket per caller.
 */
export class Cancellations {
  readonly #limit: CancellationLimit;
  readonly #clock: () => number;
  /** In the order of the last cancellation. */
  readonly #levels = new Map<string, Level>();

  constructor(limit: CancellationLimit) {
    this.#limit = limit;
    this.#clock = monotonic(limit.clock);
  }

  count(caller: CallerContext): void {
    const key = keyOf(caller);
    const at = this.#clock();
    const count = this.#levelOf(key, at) + 1;
    this.#levels.delete(key);
    this.#levels.set(key, { count, at });
    if (this.#levels.size <= CALLERS_MAX) return;
    const [oldest] = this.#levels.keys();
    if (oldest !== undefined) this.#levels.delete(oldest);
  }

  /** Returns how long the caller must wait before its next call; 0 when it may call now. */
  retryAfterMs(caller: CallerContext): number {
    // Fast path: almost no caller has cancelled anything.
    if (this.#levels.size === 0) return 0;
    const key = keyOf(caller);
    const over = this.#levelOf(key, this.#clock()) - this.#limit.perMinuteMax;
    return over < 0 ? 0 : Math.floor((over * MINUTE_MS) / this.#limit.perMinuteMax) + 1;
  }

  #levelOf(key: string, now: number): number {
    const level = this.#levels.get(key);
    if (level === undefined) return 0;
    const { perMinuteMax } = this.#limit;
    const drained = ((now - level.at) * perMinuteMax) / MINUTE_MS;
    // The limit may have been higher when the cancellations were counted.
    const count = Math.min(level.count, perMinuteMax * 2);
    if (drained < count) return count - drained;
    this.#levels.delete(key);
    return 0;
  }
}

function keyOf({ issuer, subject }: CallerContext): string {
  return JSON.stringify([issuer, subject]);
}
