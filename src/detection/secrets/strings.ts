import {
  ALPHANUMERIC,
  BLANK,
  classesIn,
  endBefore,
  isA,
  isOneOf,
  LINE_END,
  QUOTE,
  runEnd,
  type TextRange,
  UPPER,
} from "../views/characters.ts";
import { isReference } from "./value-shapes.ts";

/** Maximum distance to the start of the line, which decides whether a quote opens or closes. UTF-16 units. */
const LINE_CHARS_MAX = 128;
const GAP_CHARS_MAX = 8;

const LINE_FEED = 0x0a;
const BACKSLASH = 0x5c;

const FOLLOW_STRINGS = ")]},;.:+?&|*/%=!<>";

/**
 * Returns whether the quote at `quote` closes a program's string that contains the name at `from`. The text after it is then no
 * value: `"TOKEN=");`, `"password: " + x`. A quote that may open or close counts as opening.
 */
export function endsString(text: string, quote: number, from: number): boolean {
  if (isOneOf(text, quote - 1, "\\") || isA(text, quote + 1, ALPHANUMERIC | QUOTE)) return false;
  if (from < quote && text[from - 1] === text[quote]) return true;
  const next = runEnd(text, quote + 1, BLANK, quote + GAP_CHARS_MAX);
  return (isA(text, next, LINE_END) || isOneOf(text, next, FOLLOW_STRINGS)) && isOddOnLine(text, quote);
}

/** Returns whether an odd number of such quotes is before this one on the line; false for a line that is too long. */
function isOddOnLine(text: string, quote: number): boolean {
  const mark = text.charCodeAt(quote);
  const limit = Math.max(-1, quote - LINE_CHARS_MAX);
  let isOdd = false;
  for (let at = quote - 1; at > limit; at -= 1) {
    const code = text.charCodeAt(at);
    if (code === LINE_FEED) return isOdd;
    if (code === mark && text.charCodeAt(at - 1) !== BACKSLASH) isOdd = !isOdd;
  }
  return limit === -1 && isOdd;
}

/** Returns the offset after `opening` where the same quote or a character of the classes `ends` follows; at most `limit`. */
export function stringEnd(
  text: string,
  opening: number,
  { ends, limit }: { readonly ends: number; readonly limit: number },
): number {
  let end = opening + 1;
  while (end < limit && text[end] !== text[opening] && !isA(text, end, ends)) end += 1;
  return end;
}

/** Skips the prefix of a string literal: `N'…'`, `b"…"`. */
export function afterPrefix(text: string, at: number): number {
  return isOneOf(text, at, "NEbBrRuU") && isA(text, at + 1, QUOTE) ? at + 1 : at;
}

const TAG_CHARS_MAX = 64;

/** Returns the end of the tag at `at`; -1 when there is none. */
export function tagEnd(text: string, at: number): number {
  if (!isOneOf(text, at, "<")) return -1;
  let end = at + 1;
  while (end < at + TAG_CHARS_MAX && !isOneOf(text, end, "<>") && end < text.length) end += 1;
  return isOneOf(text, end, ">") ? end + 1 : -1;
}

const PASSWORD_CHARS_MIN = 3;
/** Minimum length of a password without letters and digits. */
const LIKELY_CHARS_MIN = 6;

/** Returns the word or quoted text at `from` when it can be a password: neither a reference nor a flag. */
export function passwordArgument(text: string, from: number, limit: number): TextRange | undefined {
  const isQuoted = isA(text, from, QUOTE);
  const start = isQuoted ? from + 1 : from;
  const end = isQuoted ? stringEnd(text, from, { ends: 0, limit }) : endBefore(text, start, BLANK | QUOTE, limit);
  if (end - start < PASSWORD_CHARS_MIN) return undefined;
  // Keywords, variables, placeholders and flags are not passwords.
  if (!isQuoted && (runEnd(text, start, UPPER) === end || isOneOf(text, start, "$<{-%:"))) return undefined;
  return isPlaceholderArgument(text, { start, end }, isQuoted) ? undefined : { start, end };
}

/** Returns whether the argument is a placeholder, a reference, or follows a string that ends with the flag. */
function isPlaceholderArgument(text: string, { start, end }: TextRange, isQuoted: boolean): boolean {
  const password = text.slice(start, end);
  if (password.length < LIKELY_CHARS_MIN && (classesIn(password, 0, password.length) & ALPHANUMERIC) === 0) return true;
  if (password.toLowerCase() === "password" || /^(?:\.{3}|…+)$/.test(password)) return true;
  return isQuoted && (isReference(password, "quoted") || endsString(text, start - 1, start));
}

const COMPOUND_FIRST = "?+|&.!:/<~^%";
/** Matches operators that end with `=` and assign or compare, but not `-=`, `*=` or `<=`; also R's arrow. */
const COMPOUND = /^(?:[?+|&.!~^%]{1,2}==?|\/\/=|::?:=|<<?-)(?![=>-])/;
const COMPOUND_CHARS_MAX = 5;

/** Returns the end of an operator such as `?=`, `||=`, `::=` or `<-` at `at`; -1 when there is none. */
export function compoundEnd(text: string, at: number): number {
  if (!isOneOf(text, at, COMPOUND_FIRST)) return -1;
  const operator = COMPOUND.exec(text.slice(at, at + COMPOUND_CHARS_MAX));
  return operator === null ? -1 : at + operator[0].length;
}
