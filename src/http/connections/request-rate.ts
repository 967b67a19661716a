import { Refusal } from "../../core/errors.ts";
import type { Caller } from "../../core/types.ts";
import { steady } from "../../pipeline/limits/monotonic-clock.ts";
import { type Rate, RateLimiter } from "../../pipeline/limits/rate-limiter.ts";

/**
 * Limits how often one caller may send requests other than calls: listings, sessions, approval requests and decisions,
 * streams, queries.
 */
export class RequestRateLimiter {
  readonly #rate: () => Rate | "off";
  readonly #clock: () => number;
  #pace: RateLimiter | undefined;

  /** `rate` returns the current limit, `clock` the time in milliseconds. */
  constructor(rate: () => Rate | "off", clock: () => number) {
    this.#rate = rate;
    this.#clock = steady(clock);
  }

  /** @throws {Refusal} RATE_LIMITED */
  take({ issuer, subject }: Caller): void {
    const now = this.#clock();
    const pace = this.#held(now);
    if (pace === undefined) return;
    const key = JSON.stringify([issuer, subject]);
    const retryAfterMs = pace.waitMs(key, now);
    if (retryAfterMs === 0) {
      pace.charge(key, now);
      return;
    }
    const { calls, seconds } = pace.rate;
    throw new Refusal("RATE_LIMITED", `You have asked too often: ${calls} requests in ${seconds} s are yours.`, {
      details: { limit: "requests", calls, seconds },
      retryAfterMs,
    });
  }

  #held(now: number): RateLimiter | undefined {
    const rate = this.#rate();
    if (rate === "off") {
      this.#pace = undefined;
      return undefined;
    }
    this.#pace ??= new RateLimiter(rate);
    if (this.#pace.rate !== rate) this.#pace.change(rate, { now });
    return this.#pace;
  }
}
