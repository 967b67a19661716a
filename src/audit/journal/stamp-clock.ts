import { AuditLogError } from "../audit-log-error.ts";

/** The last millisecond of the year 9999: later ones have no four-digit year, and no day file. */
const STAMP_MS_MAX = 253_402_300_799_999;

/** Timestamps that never go backwards: a clock that is set back stands still until it has caught up. */
export class StampClock {
  readonly #clock: () => number;
  #lastMs: number;
  #lastStamp: string;

  /** No stamp will be earlier than `lastMs`, in milliseconds since 1970. */
  constructor(clock: () => number, lastMs: number) {
    this.#clock = clock;
    this.#lastMs = lastMs;
    this.#lastStamp = new Date(lastMs).toISOString();
  }

  next(): string {
    const now = Math.floor(this.#clock());
    if (!(now >= 0 && now <= STAMP_MS_MAX)) {
      throw new AuditLogError(`the clock says ${now} ms since 1970: set it`);
    }
    if (now > this.#lastMs) {
      this.#lastMs = now;
      this.#lastStamp = new Date(now).toISOString();
    }
    return this.#lastStamp;
  }
}
