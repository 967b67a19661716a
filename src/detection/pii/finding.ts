import type { Finding } from "../finding.ts";

/**
 * A finding with a confidence from 0 to 1: `CERTAIN` for a checksum or a unique shape, `POSSIBLE` for a shape that other values
 * share.
 */
export interface PiiFinding extends Finding {
  readonly confidence: number;
  /** The nearby word that identifies the finding. */
  readonly context?: string | undefined;
}

export const CERTAIN = 0.95;
export const LIKELY = 0.7;
export const POSSIBLE = 0.3;
