/** Of a trace id's last seven bytes, which are the random ones, as many digits as a number holds exactly. */
const RANDOM_FROM = 18;
const RANDOM_TO = 31;
const RANDOM_RANGE = 2 ** 52;

/**
 * Whether this share of all traces holds this one. The trace id alone decides, so that every service with the same share
 * keeps the same traces.
 */
export function isInShare(traceId: string, share: number): boolean {
  return Number.parseInt(traceId.slice(RANDOM_FROM, RANDOM_TO), 16) >= (1 - share) * RANDOM_RANGE;
}
