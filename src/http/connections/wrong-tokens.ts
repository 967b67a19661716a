import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { networkOf } from "../../audit/unauthenticated.ts";
import { Refusal } from "../../core/errors.ts";
import { steady } from "../../pipeline/limits/monotonic-clock.ts";
import { RateLimiter } from "../../pipeline/limits/rate-limiter.ts";

const MINUTE_SECONDS = 60;

export interface WrongTokensOptions {
  /** Of one source a minute, and at once. Read whenever one is counted or asked about. */
  readonly perMinuteMax: number;
  /** Whether a token was verified already and still is good. */
  readonly knows: (authorization: string | undefined) => boolean;
  /** In milliseconds. */
  readonly clock: () => number;
}

/**
 * What strangers may make us compute: looking at a token's signature is the dear part of refusing it. A source that has shown
 * too many wrong tokens is asked to wait, unlooked at; a token that was verified before passes, so that nobody behind the same
 * address is locked out of work.
 */
export class WrongTokens {
  readonly #options: WrongTokensOptions;
  readonly #pace: RateLimiter;
  readonly #clock: () => number;
  /** Asking a socket for its peer is dear; connections are kept alive. */
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

  /** Until this request's token may be looked at; 0 when it may be now, or was before. */
  waitMs({ headers, socket }: IncomingMessage): number {
    // Nearly always nobody has shown a wrong one.
    if (this.#pace.size === 0 || headers.authorization === undefined) return 0;
    const now = this.#clock();
    const waitMs = this.#held(now).waitMs(this.#sourceOf(socket), now);
    return waitMs > 0 && !this.#options.knows(headers.authorization) ? waitMs : 0;
  }

  /** This request's token was wrong. */
  count({ headers, socket }: IncomingMessage): void {
    if (headers.authorization === undefined) return;
    const now = this.#clock();
    this.#held(now).charge(this.#sourceOf(socket), now);
  }

  /** This request was refused for something else, and its token was looked at all the same. */
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
