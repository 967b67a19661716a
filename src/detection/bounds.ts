export const REDACTION_BOUNDS = {
  /** Maximum nesting depth of containers. */
  depthMax: 64,
  /** Maximum number of values in a tree. */
  nodesMax: 500_000,
  /** Total UTF-16 units of all strings and keys. */
  charsMax: 8 * 1_024 * 1_024,
  /** Findings in all strings and keys, and in the text that they encode. */
  findingsMax: 250_000,
  /** Steps of all detectors that a value of any size may take; a step takes about a nanosecond. */
  stepsMax: 170_000_000,
  /** Steps per UTF-16 unit for a larger value. Source code takes up to 45, plain logs 10 to 30. */
  stepsPerCharMax: 60,
} as const;

/** The value is too large to be scanned. No part of it may be released. */
export class TooLarge extends Error {
  override readonly name = "TooLarge";
  readonly bound: keyof typeof REDACTION_BOUNDS;

  constructor(bound: keyof typeof REDACTION_BOUNDS) {
    super(`the value exceeds ${bound} = ${REDACTION_BOUNDS[bound]}`);
    this.bound = bound;
  }
}

/**
 * The remaining work budget of one scan. Work is counted instead of timed, so that the same value always gives the same result.
 * Detectors report the maximum number of steps before they read text. When the budget is exceeded, the scan stops and nothing is
 * released.
 */
export class Work {
  /** Levels of encoding that are still decoded: base64 within base64 is decoded, deeper levels are not. */
  encodings = 2;
  #chars = 0;
  #steps: number = REDACTION_BOUNDS.stepsMax;
  #findings: number = REDACTION_BOUNDS.findingsMax;

  /** @param chars - length of the text to scan, in UTF-16 units */
  constructor(chars = 0) {
    this.allow(chars);
  }

  /** Adds the budget for more text. */
  allow(chars: number): void {
    const before = stepsFor(this.#chars);
    this.#chars += chars;
    this.#steps += stepsFor(this.#chars) - before;
  }

  /** @throws {TooLarge} when the step budget is used up */
  spend(steps: number): void {
    this.#steps -= steps;
    if (this.#steps < 0) throw new TooLarge("stepsMax");
  }

  /** @throws {TooLarge} when the findings budget is used up */
  find(): void {
    this.#findings -= 1;
    if (this.#findings < 0) throw new TooLarge("findingsMax");
  }
}

function stepsFor(chars: number): number {
  return Math.max(REDACTION_BOUNDS.stepsMax, chars * REDACTION_BOUNDS.stepsPerCharMax);
}
