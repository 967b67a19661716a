import type { IncomingHttpHeaders } from "node:http";
import type { EpochMs } from "../core/types.ts";

/** Longest wait that is reported to an agent: a longer one, perhaps a mistake, would stop its work. */
const RETRY_AFTER_MS_MAX = 3_600_000;

/** RFC 9110, 5.6.7: the form that is sent today, and the two obsolete ones. */
const DATE =
  /^(?:[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT|[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4})$/;

interface WaitOptions {
  /** Clock for a date in an answer that does not say what the sender's clock shows. Left out: such a date asks for nothing. */
  readonly now?: () => EpochMs;
  /** Longest wait that is returned. Left out: an hour. */
  readonly msMax?: number;
}

/**
 * Returns how long the sender of an answer asks to wait: the seconds of `Retry-After`, or the time until its date, by the sender's
 * own clock if the answer says what it shows. Undefined when the answer asks for nothing.
 */
export function retryAfterMs(headers: IncomingHttpHeaders, { now, msMax }: WaitOptions): number | undefined {
  const written = headers["retry-after"]?.trim() ?? "";
  if (/^\d{1,9}(?:\.\d{1,9})?$/.test(written)) return boundedWaitMs(Number(written) * 1_000, msMax);
  const until = dateOf(written);
  const from = dateOf(headers.date) ?? now?.();
  return until === undefined || from === undefined ? undefined : boundedWaitMs(until - from, msMax);
}

/** Returns a service's wait as it is reported to agents; undefined when there is nothing to wait for. */
export function boundedWaitMs(ms: number, msMax = RETRY_AFTER_MS_MAX): number | undefined {
  return ms > 0 ? Math.min(Math.ceil(ms), msMax) : undefined;
}

function dateOf(text = ""): EpochMs | undefined {
  const at = DATE.test(text) ? Date.parse(text.endsWith("GMT") ? text : `${text} GMT`) : Number.NaN;
  return Number.isNaN(at) ? undefined : at;
}
