import { Refusal } from "../../core/errors.ts";
import type { CallerContext } from "../../core/types.ts";
import { monotonic } from "../../pipeline/limits/monotonic-clock.ts";
import { type Rate, RateLimiter } from "../../pipeline/limits/rate-limiter.ts";
import type { ReceivedRequest } from "../messages.ts";
import { CountByKey, sourceOf } from "./sources.ts";

const RETRY_AFTER_MS = 1_000;

export interface ConcurrencyLimitOptions {
  readonly totalMax: number;
  readonly perCallerMax: number;
}

export class ConcurrencyLimit {
  readonly #options: ConcurrencyLimitOptions;
  readonly #byCaller = new CountByKey();
  #taken = 0;

  constructor(options: ConcurrencyLimitOptions) {
    this.#options = options;
  }

  /**
   * Takes a slot. Returns a function that releases it, to be called once.
   *
   * @throws {Refusal} RATE_LIMITED
   */
  take({ issuer, subject }: Pick<CallerContext, "issuer" | "subject">): () => void {
    const key = JSON.stringify([issuer, subject]);
    if (this.#byCaller.of(key) >= this.#options.perCallerMax)
      throw full("You have too many requests of this kind open at once.");
    if (this.#taken >= this.#options.totalMax) throw full("Too many requests of this kind are open at once.");
    this.#taken += 1;
    this.#byCaller.enter(key);
    return () => {
      this.#taken -= 1;
      this.#byCaller.leave(key);
    };
  }
}

function full(message: string): Refusal {
  return new Refusal("RATE_LIMITED", message, { details: { limit: "openRequests" }, retryAfterMs: RETRY_AFTER_MS });
}

/**
 * Limits how often one caller may send requests other than calls: listings, sessions, approval requests and decisions,
 * streams, queries.
 */
export class RequestRateLimiter {
  readonly #rate: () => Rate | "off";
  readonly #clock: () => number;
  #rateLimiter: RateLimiter | undefined;

  /** `rate` returns the current limit, `clock` the time in milliseconds. */
  constructor(rate: () => Rate | "off", clock: () => number) {
    this.#rate = rate;
    this.#clock = monotonic(clock);
  }

  /** @throws {Refusal} RATE_LIMITED */
  take({ issuer, subject }: CallerContext): void {
    const now = this.#clock();
    const limiter = this.#limiter(now);
    if (limiter === undefined) return;
    const key = JSON.stringify([issuer, subject]);
    const retryAfterMs = limiter.waitMs(key, now);
    if (retryAfterMs === 0) {
      limiter.charge(key, now);
      return;
    }
    const { calls, seconds } = limiter.rate;
    throw new Refusal("RATE_LIMITED", `You have sent too many requests: the limit is ${calls} in ${seconds} s.`, {
      details: { limit: "requests", calls, seconds },
      retryAfterMs,
    });
  }

  #limiter(now: number): RateLimiter | undefined {
    const rate = this.#rate();
    if (rate === "off") {
      this.#rateLimiter = undefined;
      return undefined;
    }
    this.#rateLimiter ??= new RateLimiter(rate);
    if (this.#rateLimiter.rate !== rate) this.#rateLimiter.change(rate, { now });
    return this.#rateLimiter;
  }
}

const MINUTE_SECONDS = 60;

export interface WrongTokensOptions {
  /** Wrong tokens per source and minute, also the maximum burst. Read each time a token is counted or checked. */
  readonly perMinuteMax: number;
  readonly knows: (authorization: string | undefined) => boolean;
  /** Returns the current time in milliseconds. */
  readonly clock: () => number;
}

/**
 * Limits the work that unauthenticated clients can cause: verifying a signature is the expensive part of refusing a token. A
 * source that has sent too many wrong tokens must wait, without its tokens being verified. A token that was verified before
 * passes, so that legitimate clients behind the same address can go on working.
 */
export class WrongTokens {
  readonly #options: WrongTokensOptions;
  readonly #rateLimiter: RateLimiter;
  readonly #clock: () => number;

  constructor(options: WrongTokensOptions) {
    this.#options = options;
    this.#clock = monotonic(options.clock);
    this.#rateLimiter = new RateLimiter({ calls: options.perMinuteMax, seconds: MINUTE_SECONDS });
  }

  /**
   * The token is the header's, unless it arrived in the body.
   *
   * @throws {Refusal} RATE_LIMITED
   */
  assertRoom(request: ReceivedRequest, authorization = request.headers.authorization): void {
    const retryAfterMs = this.waitMs(request, authorization);
    if (retryAfterMs === 0) return;
    throw new Refusal("RATE_LIMITED", "Too many tokens from your address were wrong.", {
      details: { limit: "wrongTokens" },
      retryAfterMs,
    });
  }

  /** Returns the time until this request's token may be verified; 0 when it may be now, or was verified before. */
  waitMs({ headers, socket }: ReceivedRequest, authorization = headers.authorization): number {
    // Nearly always, no source has sent a wrong token.
    if (this.#rateLimiter.size === 0 || authorization === undefined) return 0;
    const now = this.#clock();
    const waitMs = this.#limiter(now).waitMs(sourceOf(socket), now);
    return waitMs > 0 && !this.#options.knows(authorization) ? waitMs : 0;
  }

  count({ headers, socket }: ReceivedRequest, authorization = headers.authorization): void {
    if (authorization === undefined) return;
    const now = this.#clock();
    this.#limiter(now).charge(sourceOf(socket), now);
  }

  /** Counts the token of a request that was not answered with 401, because it was verified nevertheless. */
  countUnverified(request: ReceivedRequest): void {
    if (!this.#options.knows(request.headers.authorization)) this.count(request);
  }

  #limiter(now: number): RateLimiter {
    const { perMinuteMax: calls } = this.#options;
    if (this.#rateLimiter.rate.calls !== calls) this.#rateLimiter.change({ calls, seconds: MINUTE_SECONDS }, { now });
    return this.#rateLimiter;
  }
}
