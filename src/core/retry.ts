/** Minimum time between two reports: a receiver may fail and recover with every message. */
const REPORT_EVERY_MS = 60_000;

const DOUBLINGS_MAX = 16;

/** Reports failures to the operators' log: once per outage, and at most once a minute. */
export class OutageReporter {
  readonly #nowMs: () => number;
  readonly #report: (message: string) => void;
  #isReported = false;
  #reportedAtMs = Number.NEGATIVE_INFINITY;

  constructor(nowMs: () => number, report: (message: string) => void) {
    this.#nowMs = nowMs;
    this.#report = report;
  }

  failed(message: string): void {
    const nowMs = this.#nowMs();
    if (this.#isReported || !isReportDue(this.#reportedAtMs, nowMs)) return;
    this.#isReported = true;
    this.#reportedAtMs = nowMs;
    this.#report(message);
  }

  recovered(): void {
    this.#isReported = false;
  }
}

/** Uses the absolute difference, so that a clock that was set back does not suppress reports. */
export function isReportDue(reportedAtMs: number, nowMs: number): boolean {
  return Math.abs(nowMs - reportedAtMs) >= REPORT_EVERY_MS;
}

interface RetryDelays {
  readonly firstMs: number;
  readonly maxMs: number;
}

/**
 * Returns a delay that doubles with each failure, randomized in its upper half so that retries do not coincide. `failures` is at
 * least 1; `random` is at least 0 and below 1.
 */
export function retryDelayMs({ firstMs, maxMs }: RetryDelays, failures: number, random: number): number {
  const ceiling = Math.min(maxMs, firstMs * 2 ** Math.min(failures - 1, DOUBLINGS_MAX));
  return Math.floor(ceiling * (0.5 + random / 2));
}
