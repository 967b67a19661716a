import { Refusal } from "../../core/errors.ts";
import type { Caller } from "../../core/types.ts";
import { Pace, type Rate } from "../../proxy/limits/rates-pace.ts";
import { steady } from "../../proxy/limits/steady-clock.ts";

/** How often one caller may send what is no call: listings, sessions, questions and their answers, streams, queries. */
export class RequestPace {
  readonly #pace: Pace;
  readonly #clock: () => number;

  /** `clock`: milliseconds. */
  constructor(rate: Rate, clock: () => number) {
    this.#pace = new Pace(rate);
    this.#clock = steady(clock);
  }

  /** @throws {Refusal} RATE_LIMITED */
  take({ issuer, subject }: Caller): void {
    const key = JSON.stringify([issuer, subject]);
    const now = this.#clock();
    const retryAfterMs = this.#pace.waitMs(key, now);
    if (retryAfterMs === 0) {
      this.#pace.charge(key, now);
      return;
    }
    const { calls, seconds } = this.#pace.rate;
    throw new Refusal("RATE_LIMITED", `You have asked too often: ${calls} requests in ${seconds} s are yours.`, {
      details: { limit: "requests", calls, seconds },
      retryAfterMs,
    });
  }
}
