import type { Finding } from "../finding.ts";

/** How sure a detector is, from 0 to 1: a checksum or a shape that nothing else has is 0.9, a shape that other things have 0.3. */
export interface PiiFinding extends Finding {
  readonly confidence: number;
  /** The word beside it that says what it is. */
  readonly context?: string | undefined;
}

export const CERTAIN = 0.95;
export const LIKELY = 0.7;
export const POSSIBLE = 0.3;
