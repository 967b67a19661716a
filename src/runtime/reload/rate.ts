const MINUTE_MS = 60_000;

/** So many a minute, and at once. */
export class ReloadRate {
  readonly #perMinuteMax: number;
  /** Milliseconds since 1970, oldest first. */
  #taken: readonly number[] = [];

  constructor({ perMinuteMax }: { readonly perMinuteMax: number }) {
    this.#perMinuteMax = perMinuteMax;
  }

  /** 0 takes a place; else how long until there is one. A clock that goes back gives none away. */
  take(now: number): number {
    this.#taken = this.#taken.filter((at) => Math.abs(now - at) < MINUTE_MS);
    const [oldest] = this.#taken;
    if (oldest !== undefined && this.#taken.length >= this.#perMinuteMax) return MINUTE_MS - Math.abs(now - oldest);
    this.#taken = [...this.#taken, now];
    return 0;
  }
}
