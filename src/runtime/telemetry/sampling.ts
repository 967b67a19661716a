/** The digits used from a trace id's last seven bytes, which are random: as many as a number holds exactly. */
const RANDOM_FROM = 18;
const RANDOM_TO = 31;
const RANDOM_RANGE = 2 ** 52;

/**
 * Returns whether a trace belongs to the sampled share. The trace id alone decides, so that every service with the same share
 * keeps the same traces.
 */
export function isInShare(traceId: string, share: number): boolean {
  return Number.parseInt(traceId.slice(RANDOM_FROM, RANDOM_TO), 16) >= (1 - share) * RANDOM_RANGE;
}
