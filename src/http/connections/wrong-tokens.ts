import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { networkOf } from "../../audit/unauthenticated.ts";
import { Refusal } from "../../core/errors.ts";
import { steady } from "../../pipeline/limits/monotonic-clock.ts";
import { RateLimiter } from "../../pipeline/limits/rate-limiter.ts";

const MINUTE_SECONDS = 60;

export interface WrongTokensOptions {
  /** Wrong tokens per source and minute, also the maximum burst. Read each time a token is counted or checked. */
  readonly perMinuteMax: number;
  /** Returns true when the token was verified before and is still valid. */
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
  readonly #pace: RateLimiter;
  readonly #clock: () => number;
  /** Caches sources: reading a socket's peer address is expensive, and connections are kept alive. */
  readonly #sources = new WeakMap<Socket, string>();

  constructor(options: WrongTokensOptions) {
    this.#options = options;
    this.#clock = steady(options.clock);
    this.#pace = new RateLimiter({ calls: options.perMinuteMax, seconds: MINUTE_SECONDS });
  }

  /** @throws {Refusal} RATE_LIMITED */
  assertRoom(request: IncomingMessage): void {
    const retryAfterMs = this.waitMs(request);
    if (retryAfterMs === 0) return;
    throw new Refusal("RATE_LIMITED", "Too many tokens from your address were wrong.", {
      details: { limit: "wrongTokens" },
      retryAfterMs,
    });
  }

  /** Returns the time until this request's token may be verified; 0 when it may be now, or was verified before. */
  waitMs({ headers, socket }: IncomingMessage): number {
    // Nearly always, no source has sent a wrong token.
    if (this.#pace.size === 0 || headers.authorization === undefined) return 0;
    const now = this.#clock();
    const waitMs = this.#held(now).waitMs(this.#sourceOf(socket), now);
    return waitMs > 0 && !this.#options.knows(headers.authorization) ? waitMs : 0;
  }

  /** Counts this request's token as wrong. */
  count({ headers, socket }: IncomingMessage): void {
    if (headers.authorization === undefined) return;
    const now = this.#clock();
    this.#held(now).charge(this.#sourceOf(socket), now);
  }

  /** Counts the token of a request that was refused for another reason, because it was verified nevertheless. */
  countUnverified(request: IncomingMessage): void {
    if (!this.#options.knows(request.headers.authorization)) this.count(request);
  }

  #held(now: number): RateLimiter {
    const { perMinuteMax: calls } = this.#options;
    if (this.#pace.rate.calls !== calls) this.#pace.change({ calls, seconds: MINUTE_SECONDS }, { now });
    return this.#pace;
  }

  #sourceOf(socket: Socket): string {
    const known = this.#sources.get(socket);
    if (known !== undefined) return known;
    const source = networkOf(socket.remoteAddress ?? "");
    this.#sources.set(socket, source);
    return source;
  }
}
