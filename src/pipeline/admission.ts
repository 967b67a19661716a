import { Refusal } from "../core/errors.ts";
import { type Admitted, type Authorized, mint, type Verified, type WithinRate } from "../core/evidence.ts";
import { type CancellationLimit, Cancellations } from "./limits/cancellations.ts";
import type { Rates } from "./limits/rates.ts";

export interface AdmissionOptions {
  /** Maximum number of calls in flight, over all callers. */
  readonly concurrentCallsMax: number;
  /** Maximum number of calls in flight per caller (issuer and subject). */
  readonly concurrentCallsPerCallerMax: number;
  /** Returns whether the audit can take another call; otherwise no call runs. */
  readonly auditReady: () => boolean;
  /** Returns why the audit cannot take a call, for operators. */
  readonly auditFault?: (() => string | undefined) | undefined;
  /** Limits how often one caller may start a call and disconnect. Undefined: no limit. */
  readonly cancellations?: CancellationLimit | undefined;
  /** Rate limits for callers and tools. Undefined: no limits. */
  readonly rates?: Rates | undefined;
}

export interface Admission {
  /** @throws {Refusal} SHUTTING_DOWN, AUDIT_UNAVAILABLE, OVERLOADED, RATE_LIMITED */
  admit(verified: Verified): Admitted;
  /**
   * Applies the rate limit of the tool. Comes after the check that the caller may know the tool.
   * @throws {Refusal} RATE_LIMITED
   */
  pace(authorized: Authorized): WithinRate;
  /** Releases the slot. Every admitted call leaves exactly once. `abandoned`: its client disconnected before the answer. */
  leave(admitted: Admitted, abandoned?: boolean): void;
  /** Stops admitting calls. */
  drain(): void;
  inFlight(): number;
}

const RETRY_AFTER_MS = 1_000;

export function createAdmission(options: AdmissionOptions): Admission {
  /** Maps issuer → subject → calls in flight. Issuer and subject together identify the caller. */
  const perCaller = new Map<string, Map<string, number>>();
  const cancellations = options.cancellations && new Cancellations(options.cancellations);
  let total = 0;
  let draining = false;

  return {
    admit({ caller }) {
      if (draining) {
        throw new Refusal("SHUTTING_DOWN", "The service is shutting down.", { retryAfterMs: RETRY_AFTER_MS });
      }
      if (!options.auditReady()) {
        throw new Refusal("AUDIT_UNAVAILABLE", "The call was not run: it could not be recorded.", {
          details: { outcome: "not_run" },
          retryAfterMs: RETRY_AFTER_MS,
          cause: new Error(options.auditFault?.() ?? "the audit takes no line now"),
        });
      }
      if (total >= options.concurrentCallsMax) {
        throw new Refusal("OVERLOADED", "Too many calls are under way.", { retryAfterMs: RETRY_AFTER_MS });
      }
      const ofIssuer = perCaller.get(caller.issuer) ?? new Map<string, number>();
      const mine = ofIssuer.get(caller.subject) ?? 0;
      if (mine >= options.concurrentCallsPerCallerMax) {
        throw new Refusal("RATE_LIMITED", "Too many of your calls are under way at once.", {
          details: {
            limit: "concurrentCallsPerCaller",
            concurrentCallsPerCallerMax: options.concurrentCallsPerCallerMax,
          },
          retryAfterMs: RETRY_AFTER_MS,
        });
      }
      const retryAfterMs = cancellations?.retryAfterMs(caller) ?? 0;
      if (retryAfterMs > 0) {
        throw new Refusal(
          "RATE_LIMITED",
          "You have abandoned too many calls. Wait for the answers of those you make.",
          {
            details: { limit: "cancellations", cancellationsPerMinuteMax: options.cancellations?.perMinuteMax },
            retryAfterMs,
          },
        );
      }
      // This comes last: a call that is refused for another reason does not count against the rate limit.
      options.rates?.takeCall(caller);
      perCaller.set(caller.issuer, ofIssuer.set(caller.subject, mine + 1));
      total += 1;
      return mint<Admitted>({ caller });
    },
    pace(authorized) {
      options.rates?.takeTool(authorized.caller, authorized.tool.name);
      return mint<WithinRate>(authorized);
    },
    leave({ caller }, abandoned = false) {
      if (abandoned) cancellations?.count(caller);
      const ofIssuer = perCaller.get(caller.issuer);
      const left = (ofIssuer?.get(caller.subject) ?? 1) - 1;
      if (left === 0) ofIssuer?.delete(caller.subject);
      else ofIssuer?.set(caller.subject, left);
      total -= 1;
    },
    drain: () => {
      draining = true;
    },
    inFlight: () => total,
  };
}
