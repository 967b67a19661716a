import { BLANK, DIGIT, isA, isOneOf, LETTER, runEnd, words } from "../views/characters.ts";

/** First letters of the months, in several languages. */
const MONTHS = words(
  "jan feb mar apr may jun jul aug sep oct nov dec mai mär okt dez ene abr ago dic fév avr aoû déc juin juil gen",
  "mag giu lug set ott",
);

const MONTH_CHARS_MAX = 12;
const YEAR_MIN = 1880;
const YEAR_MAX = 2100;

/** Returns the end of the date that starts at `at`, in digits or with the month in words; -1 when there is none. */
export function dateEnd(text: string, at: number): number {
  if (isA(text, at, LETTER)) return wordsEnd(text, at);
  const first = runEnd(text, at, DIGIT, at + 9);
  if (first - at === 8) return isCompact(text.slice(at, first)) ? first : -1;
  if (first === at || first - at > 4 || first - at === 3) return -1;
  const numeric = numericEnd(text, at, first);
  return numeric === -1 && first - at < 3 ? dayFirstEnd(text, first) : numeric;
}

function isCompact(digits: string): boolean {
  return isDay(Number(digits.slice(0, 4)), Number(digits.slice(4, 6)), Number(digits.slice(6)));
}

/** Reads `1985-03-12`, `12.03.1985` or `3/12/85`. */
function numericEnd(text: string, at: number, first: number): number {
  const separator = text[first] ?? "";
  if (!"-/. ".includes(separator) || separator === "") return -1;
  const second = runEnd(text, first + 1, DIGIT, first + 3);
  if (second === first + 1 || text[second] !== separator) return -1;
  const third = runEnd(text, second + 1, DIGIT, second + 5);
  const [one, two, three] = [text.slice(at, first), text.slice(first + 1, second), text.slice(second + 1, third)];
  if (three.length !== 2 && three.length !== 4 && one.length !== 4) return -1;
  return isDate(one, two, three) ? third : -1;
}

function isDate(one: string, two: string, three: string): boolean {
  if (one.length === 4) return isDay(Number(one), Number(two), Number(three));
  const year = three.length === 2 ? 1900 + Number(three) : Number(three);
  return isDay(year, Number(two), Number(one)) || isDay(year, Number(one), Number(two));
}

function isDay(year: number, month: number, day: number): boolean {
  return year >= YEAR_MIN && year <= YEAR_MAX && month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

/** Reads `12 March 1985` or `12th of March, 1985`, from the end of the day. */
function dayFirstEnd(text: string, day: number): number {
  const ordinal = ["st", "nd", "rd", "th", "."].find((ending) => text.startsWith(ending, day)) ?? "";
  let at = skip(text, day + ordinal.length);
  if (text.startsWith("of ", at)) at = skip(text, at + 3);
  if (text.startsWith("de ", at)) at = skip(text, at + 3);
  const month = monthEnd(text, at);
  return month === -1 ? -1 : yearEnd(text, month);
}

/** Reads `March 12, 1985`. */
function wordsEnd(text: string, at: number): number {
  const month = monthEnd(text, at);
  if (month === -1) return -1;
  const from = skip(text, month);
  const day = runEnd(text, from, DIGIT, from + 2);
  if (day === from) return -1;
  const ordinal = ["st", "nd", "rd", "th"].find((ending) => text.startsWith(ending, day)) ?? "";
  return yearEnd(text, day + ordinal.length);
}

function monthEnd(text: string, at: number): number {
  const word = text.slice(at, at + MONTH_CHARS_MAX).toLowerCase();
  if (!MONTHS.some((month) => word.startsWith(month))) return -1;
  let end = at;
  while (end < at + MONTH_CHARS_MAX && (isA(text, end, LETTER) || text.charCodeAt(end) > 0x7f)) end += 1;
  return end;
}

function yearEnd(text: string, at: number): number {
  let from = skip(text, at);
  if (text.startsWith("de ", from)) from = skip(text, from + 3);
  const end = runEnd(text, from, DIGIT, from + 5);
  const year = Number(text.slice(from, end));
  return end - from === 4 && year >= YEAR_MIN && year <= YEAR_MAX ? end : -1;
}

function skip(text: string, at: number): number {
  let end = runEnd(text, at, BLANK, at + 3);
  if (isOneOf(text, end, ",./-")) end += 1;
  return runEnd(text, end, BLANK, end + 3);
}
