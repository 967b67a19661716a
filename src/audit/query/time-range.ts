const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

/** Greatest distance from 1970 that `Date` has. */
export const TIME_MS_MAX = 8.64e15;

const UNITS_MS: Readonly<Record<string, number>> = {
  s: SECOND_MS,
  m: MINUTE_MS,
  h: HOUR_MS,
  d: DAY_MS,
  w: 7 * DAY_MS,
};
const DURATION = /^(\d{1,6})([smhdw])$/;
const DATE = /^(\d{4})-(\d{2})-(\d{2})$/;
const TIME = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(Z|[+-]\d{2}:\d{2})?$/;

/** Descriptions of the accepted times and durations, for messages. */
export const TIME_HINT = "a time such as 30m, 3h, 7d, today, yesterday, 2026-02-16 or 2026-02-16T12:30:00Z (UTC)";
export const DURATION_HINT = "a duration such as 30m, 3h, 7d or 2w";

/** Returns the milliseconds of `30s`, `30m`, `3h`, `7d` or `2w`; `undefined` for any other text. */
export function readDuration(text: string): number | undefined {
  const [, amount, unit = ""] = DURATION.exec(text) ?? [];
  const ms = Number(amount) * (UNITS_MS[unit] ?? Number.NaN);
  return ms > 0 ? ms : undefined;
}

/**
 * Reads a time and returns milliseconds since 1970. A duration counts back from `nowMs`; `today`, `yesterday` and a
 * date are the first moment of that day. Like the log, times are UTC unless they have an offset of their own. Returns
 * `undefined` when the text is not a valid time.
 */
export function readTime(text: string, nowMs: number): number | undefined {
  const ago = readDuration(text);
  if (ago !== undefined) return Math.max(0, nowMs - ago);
  if (text === "today") return startOfDay(nowMs);
  if (text === "yesterday") return startOfDay(nowMs) - DAY_MS;
  return readDate(text) ?? readInstant(text);
}

function startOfDay(ms: number): number {
  return Math.floor(ms / DAY_MS) * DAY_MS;
}

/**
 * Returns the day of a moment as `YYYY-MM-DD`, which is the name of the day file. Limits moments outside the years 0 to
 * 9999 to that range.
 */
export function dayOf(ms: number): string {
  return new Date(withinYears(ms)).toISOString().slice(0, "YYYY-MM-DD".length);
}

/** Returns the nearest moment that has a four-digit year, so that timestamps can be compared as strings. */
export function withinYears(ms: number): number {
  return Math.min(Math.max(ms, YEAR_0_MS), YEAR_9999_END_MS);
}

const YEAR_0_MS = -62_167_219_200_000;
const YEAR_9999_END_MS = 253_402_300_799_999;

/** Returns the first moment of `YYYY-MM-DD`; `undefined` for a date that does not exist. */
export function readDate(text: string): number | undefined {
  const [, year, month, day] = DATE.exec(text) ?? [];
  if (year === undefined) return undefined;
  return dateMs(Number(year), Number(month), Number(day));
}

function readInstant(text: string): number | undefined {
  const [, year, month, day, hour, minute, second = "0", fraction = "", zone = "Z"] = TIME.exec(text) ?? [];
  if (year === undefined) return undefined;
  const date = dateMs(Number(year), Number(month), Number(day));
  const offset = offsetMs(zone);
  if (date === undefined || offset === undefined) return undefined;
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) return undefined;
  const clock = Number(hour) * HOUR_MS + Number(minute) * MINUTE_MS + Number(second) * SECOND_MS;
  return date + clock + Number(fraction.slice(0, 3).padEnd(3, "0")) - offset;
}

/** Returns `undefined` for a date that does not exist: the built-in parser would read 30 February as 2 March. */
function dateMs(year: number, month: number, day: number): number | undefined {
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  const isReal = date.getUTCFullYear() === year && date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
  return isReal ? date.getTime() : undefined;
}

function offsetMs(zone: string): number | undefined {
  if (zone === "Z") return 0;
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(4, 6))];
  if (hours > 14 || minutes > 59) return undefined;
  const ms = hours * HOUR_MS + minutes * MINUTE_MS;
  return zone.startsWith("-") ? -ms : ms;
}
