import { Refusal } from "../core/errors.ts";
import { type Admitted, type Authorized, mint, type Verified, type WithinRate } from "../core/evidence.ts";
import { type CancellationLimit, Cancellations } from "./limits/cancellations.ts";
import type { Rates } from "./limits/rates.ts";

export interface AdmissionOptions {
  /** Calls in flight, all callers together. */
  readonly concurrentCallsMax: number;
  /** Calls in flight of one (issuer, subject). */
  readonly concurrentCallsPerCallerMax: number;
  /** Whether the audit can take one more call; without it nothing runs. */
  readonly auditReady: () => boolean;
  /** Why it cannot, for operators. */
  readonly auditFault?: (() => string | undefined) | undefined;
  /** How often one caller may start a call and go away; without it as often as it likes. */
  readonly cancellations?: CancellationLimit | undefined;
  /** How often callers may call; without it as often as they like. */
  readonly rates?: Rates | undefined;
}

export interface Admission {
  /** @throws {Refusal} SHUTTING_DOWN, AUDIT_UNAVAILABLE, OVERLOADED, RATE_LIMITED */
  admit(verified: Verified): Admitted;
  /** Once the caller may know that the tool exists: how often it may be called. @throws {Refusal} RATE_LIMITED */
  pace(authorized: Authorized): WithinRate;
  /** Gives the place back. Every admitted call leaves exactly once; `abandoned`: its client was gone before the answer. */
  leave(admitted: Admitted, abandoned?: boolean): void;
  /** From now on nobody is admitted. */
  drain(): void;
  inFlight(): number;
}

const RETRY_AFTER_MS = 1_000;

export function createAdmission(options: AdmissionOptions): Admission {
  /** Issuer → subject → calls under way; the two together are the caller. */
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
      // Last: who is refused for something else is charged nothing.
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
