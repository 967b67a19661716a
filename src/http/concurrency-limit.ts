import { Refusal } from "../core/errors.ts";
import type { Caller } from "../core/types.ts";

const RETRY_AFTER_MS = 1_000;

export interface ConcurrencyLimitOptions {
  readonly totalMax: number;
  readonly perCallerMax: number;
}

/** Limits concurrent requests, in total and per caller. */
export class ConcurrencyLimit {
  readonly #options: ConcurrencyLimitOptions;
  readonly #byCaller = new Map<string, number>();
  #taken = 0;

  constructor(options: ConcurrencyLimitOptions) {
    this.#options = options;
  }

  /**
   * Takes a slot. Returns a function that releases it, to be called once.
   *
   * @throws {Refusal} RATE_LIMITED
   */
  take({ issuer, subject }: Pick<Caller, "issuer" | "subject">): () => void {
    const key = JSON.stringify([issuer, subject]);
    const own = this.#byCaller.get(key) ?? 0;
    if (own >= this.#options.perCallerMax) throw full("You have too many requests of this kind open at once.");
    if (this.#taken >= this.#options.totalMax) throw full("Too many requests of this kind are open at once.");
    this.#taken += 1;
    this.#byCaller.set(key, own + 1);
    return () => this.#leave(key);
  }

  #leave(key: string): void {
    this.#taken -= 1;
    const left = (this.#byCaller.get(key) ?? 1) - 1;
    if (left === 0) this.#byCaller.delete(key);
    else this.#byCaller.set(key, left);
  }
}

function full(message: string): Refusal {
  return new Refusal("RATE_LIMITED", message, { details: { limit: "openRequests" }, retryAfterMs: RETRY_AFTER_MS });
}
