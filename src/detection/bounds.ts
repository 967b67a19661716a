export const REDACTION_BOUNDS = {
  /** Containers inside one another. */
  depthMax: 64,
  /** Values of a tree. */
  nodesMax: 500_000,
  /** UTF-16 units of all strings and keys. */
  charsMax: 8 * 1_024 * 1_024,
  /** What is found in all strings and keys, and in what they encode. */
  findingsMax: 250_000,
  /** Steps of all detectors, of about a nanosecond each, for a value of any size; */
  stepsMax: 170_000_000,
  /** for a larger one so many for each UTF-16 unit. Source code takes up to 45, plain logs 10 to 30. */
  stepsPerCharMax: 60,
} as const;

/** A value exceeds what is looked through. Nothing of it may be released. */
export class TooLarge extends Error {
  override readonly name = "TooLarge";
  readonly bound: keyof typeof REDACTION_BOUNDS;

  constructor(bound: keyof typeof REDACTION_BOUNDS) {
    super(`the value exceeds ${bound} = ${REDACTION_BOUNDS[bound]}`);
    this.bound = bound;
  }
}

/**
 * What one look-through may still do. It is counted, not timed: the same value always has the same end. Whoever reads text
 * tells beforehand how many steps that takes at most; over the bound nothing is looked at further, and so nothing leaves.
 */
export class Work {
  /** How many encodings deep is still read: base64 of base64 is, what lies deeper is not. */
  encodings = 2;
  #chars = 0;
  #steps: number = REDACTION_BOUNDS.stepsMax;
  #findings: number = REDACTION_BOUNDS.findingsMax;

  /** For text of a known length that is looked through. UTF-16 units. */
  constructor(chars = 0) {
    this.allow(chars);
  }

  /** Counts in more text. */
  allow(chars: number): void {
    const before = stepsFor(this.#chars);
    this.#chars += chars;
    this.#steps += stepsFor(this.#chars) - before;
  }

  /** @throws {TooLarge} when no more may be done */
  spend(steps: number): void {
    this.#steps -= steps;
    if (this.#steps < 0) throw new TooLarge("stepsMax");
  }

  /** @throws {TooLarge} when no more may be found */
  find(): void {
    this.#findings -= 1;
    if (this.#findings < 0) throw new TooLarge("findingsMax");
  }
}

function stepsFor(chars: number): number {
  return Math.max(REDACTION_BOUNDS.stepsMax, chars * REDACTION_BOUNDS.stepsPerCharMax);
}
