import { classOf, endBefore, isA, isOneOf, LINE_END, QUOTE } from "../views/characters.ts";

/** A part of a text: offsets in UTF-16 units, `end` exclusive. */
export interface Stretch {
  readonly start: number;
  readonly end: number;
}

/** Where the run begins that ends before `to` and has no character of these classes: at `limit` at the earliest. */
export function startBehind(text: string, to: number, classes: number, limit: number): number {
  const start = Math.max(limit, 0);
  let at = to;
  while (at > start && (classOf(text.charCodeAt(at - 1)) & classes) === 0) at -= 1;
  return at;
}

/** Where the line ends in which `from` stands; `limit` when it is longer. */
export function lineEnd(text: string, from: number, limit: number = text.length): number {
  return endBefore(text, from, LINE_END, limit);
}

/** Behind the line end at `at`; `at` itself when none stands there. */
export function behindLineEnd(text: string, at: number): number {
  if (text.startsWith("\r\n", at)) return at + 2;
  return isA(text, at, LINE_END) ? at + 1 : at;
}

const BACKSLASHES_MAX = 8;

/** Behind the quotation mark at `at`, which may itself be escaped; `at` itself when none stands there. */
export function behindQuote(text: string, at: number): number {
  let end = at;
  while (isOneOf(text, end, "\\") && end < at + BACKSLASHES_MAX) end += 1;
  return isA(text, end, QUOTE) ? end + 1 : at;
}
