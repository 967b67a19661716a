import {
  BLANK,
  classesIn,
  DASH,
  DIGIT,
  isA,
  LINE_END,
  LOWER,
  PLUS_SLASH,
  QUOTE,
  runEnd,
  runStart,
  STOP,
  UPPER,
} from "../views/characters.ts";
import { behindIndex, behindTag, declaredValue, type Name, statedValue } from "./stated-value.ts";
import { JUDGED_CHARS_MAX, type ValueStyle } from "./values.ts";

/** A longer name names nothing. UTF-16 units. */
export const NAME_CHARS_MAX = 96;

/** Between a name and its value, and between a name and `value:` on the next line. UTF-16 units. */
const GAP_CHARS_MAX = 64;

/** A quoted value ends here at the latest. UTF-16 units. */
export const QUOTED_CHARS_MAX = 4_096;

const HASH = 0x23;
const AMPERSAND = 0x26;
const ROUND = 0x29;
const BACKSLASH = 0x5c;
const SQUARE = 0x5d;
const CURLY = 0x7d;

const QUOTES = "\"'`";
/** A value without quotation marks ends here, or at a bracket that closes when nothing but ends follows; */
const BARE_ENDS = BLANK | LINE_END | QUOTE | STOP;
/** one of the environment ends here. */
const ASSIGNED_ENDS = BLANK | LINE_END | QUOTE;

/** What stands behind a name. */
export interface Value {
  readonly start: number;
  /** Of the part to be judged: a longer value goes on. */
  readonly end: number;
  readonly style: ValueStyle;
  /** What ends the value: a quote, or nothing for a bare word. */
  readonly quote: string;
  /** Of an address: the next parameter ends it. */
  readonly inQuery: boolean;
}

/** Where the value of the name between `from` and `to` stands, if there is one. */
export function valueAfter(text: string, from: number, to: number): Value | undefined {
  const afterQuote = skipQuote(text, to);
  const behind = behindIndex(text, { to, at: afterQuote });
  const separator = separatorAfter(text, from, { name: to, at: behind });
  if (separator === undefined) return valueWithoutSign(text, { from, to, at: afterQuote });
  const opening = skipQuote(text, separator.end);
  const isAssigned = separator.sign === "=" && !separator.spaced && isOfEnvironment(text, from, to);
  if (opening > separator.end) return quotedValue(text, opening, isAssigned ? "assigned" : "quoted");
  if (separator.sign === "==") return undefined;
  if (separator.sign !== ":") return bareValue(text, from, { ...separator, name: to });
  const declared = declaredValue(text, separator.end, true);
  if (declared !== -1) return quotedValue(text, declared + 1, "quoted");
  const end = behindTag(text, separator.end);
  const quote = end > separator.end ? skipQuote(text, end) : end;
  if (quote > end) return quotedValue(text, quote, "quoted");
  return blockLines(text, from, end) ?? bareValue(text, from, { ...separator, end, name: to });
}

function valueWithoutSign(text: string, name: Name): Value | undefined {
  const declared = name.at === name.to ? declaredValue(text, name.to, false) : -1;
  if (declared !== -1) return quotedValue(text, declared + 1, "quoted");
  const stated = statedValue(text, name);
  if (stated === undefined) return undefined;
  const { start, end, style } = stated;
  return end === undefined ? quotedValue(text, start, style) : { start, end, style, quote: " ", inQuery: false };
}

/** After a quotation mark that may itself be escaped. */
function skipQuote(text: string, at: number): number {
  let end = at;
  while (text[end] === "\\" && end < at + 8) end += 1;
  return QUOTES.includes(text[end] ?? "?") ? end + 1 : at;
}

/** `NAME=`, `export name=`: of a shell's or a process's environment, where nothing but a value follows. */
function isOfEnvironment(text: string, from: number, to: number): boolean {
  if ("?&".includes(text[from - 1] ?? " ")) return false;
  const seen = classesIn(text, from, to);
  return (
    ((seen & UPPER) !== 0 && (seen & LOWER) === 0) ||
    ENVIRONMENT_WORDS.some((word) => text.startsWith(word, from - word.length))
  );
}

const ENVIRONMENT_WORDS = ["export ", "setenv ", "declare -x "];

/** YAML's `name: |`: the lines below that stand farther in than the name. */
function blockLines(text: string, from: number, at: number): Value | undefined {
  if (text[at] !== "|" && text[at] !== ">") return undefined;
  const mark = runEnd(text, at + 1, DIGIT | DASH | PLUS_SLASH, at + 3);
  const lineEnd = runEnd(text, mark, BLANK, mark + GAP_CHARS_MAX);
  const indent = from - runStart(text, from, BLANK | DASH | QUOTE, from - NAME_CHARS_MAX);
  const first = nextLine(text, lineEnd);
  if (first === -1 || indentOf(text, first) <= indent) return undefined;
  const start = first + indentOf(text, first);
  let end = start;
  for (let line = first; line !== -1 && line < start + QUOTED_CHARS_MAX && indentOf(text, line) > indent; ) {
    end = lineEndAfter(text, line);
    line = nextLine(text, end);
  }
  return { start, end, style: "line", quote: "\n", inQuery: false };
}

/** Where the line behind the line end at `at` begins; -1 when there is none. */
function nextLine(text: string, at: number): number {
  if (!isA(text, at, LINE_END)) return -1;
  const next = text.startsWith("\r\n", at) ? at + 2 : at + 1;
  return next < text.length ? next : -1;
}

function indentOf(text: string, line: number): number {
  return runEnd(text, line, BLANK, line + GAP_CHARS_MAX) - line;
}

function lineEndAfter(text: string, from: number): number {
  const limit = Math.min(text.length, from + QUOTED_CHARS_MAX);
  let at = from;
  while (at < limit && !isA(text, at, LINE_END)) at += 1;
  return at;
}

function quotedValue(text: string, start: number, style: ValueStyle): Value {
  const quote = text[start - 1] ?? "";
  const limit = Math.min(text.length, start + QUOTED_CHARS_MAX);
  let end = start;
  while (end < limit && text[end] !== quote && !isA(text, end, LINE_END)) {
    const isEscaped = text[end] === "\\" && text[start - 2] !== "\\" && end + 1 < limit;
    end += isEscaped ? 2 : 1;
  }
  while (end > start && text[end - 1] === "\\") end -= 1;
  return { start, end: Math.min(end, text.length), style, quote, inQuery: false };
}

interface Separator {
  /** Where the value or its quotation mark stands. */
  readonly end: number;
  readonly sign: string;
  readonly spaced: boolean;
}

function separatorAfter(text: string, from: number, { name, at }: { name: number; at: number }): Separator | undefined {
  const sign = runEnd(text, at, BLANK, at + GAP_CHARS_MAX);
  const character = text[sign] ?? "";
  if (character === "=" || character === ":") return signed(text, sign, at);
  if (character === ">" && text[from - 1] === "<" && sign === name) return { end: sign + 1, sign: ">", spaced: false };
  if (text.startsWith("--", from) && sign > name) return { end: sign, sign: "--", spaced: true };
  if (sign > at && isA(text, sign, QUOTE)) return { end: sign, sign: " ", spaced: true };
  return valueLine(text, at);
}

/** `=`, `:`, `:=`, `==`, `=>`, `?=`, with blanks. */
function signed(text: string, at: number, from: number): Separator | undefined {
  let end = at + 1;
  while (end < at + 3 && "=>".includes(text[end] ?? "?")) end += 1;
  if (text.startsWith("://", at)) return undefined;
  const value = runEnd(text, end, BLANK, end + GAP_CHARS_MAX);
  const sign = text.startsWith("==", at) ? "==" : (text[at] ?? "");
  return { end: value, sign, spaced: value > end || at > from };
}

/** `- name: DB_PASSWORD`, and `value: …` on the next line. */
function valueLine(text: string, at: number): Separator | undefined {
  const next = runEnd(text, text[at] === "," ? at + 1 : at, BLANK | LINE_END, at + GAP_CHARS_MAX);
  if (next === at) return undefined;
  const word = skipQuote(text, next);
  if (text.slice(word, word + 5).toLowerCase() !== "value") return undefined;
  const sign = runEnd(text, skipQuote(text, word + 5), BLANK, word + GAP_CHARS_MAX);
  return text[sign] === ":" || text[sign] === "="
    ? { end: runEnd(text, sign + 1, BLANK, sign + GAP_CHARS_MAX), sign: "", spaced: true }
    : undefined;
}

function bareValue(text: string, from: number, { end, sign, spaced, name }: Separator & { name: number }): Value {
  const inQuery = "?&".includes(text[from - 1] ?? " ");
  const style = sign === "=" && !spaced && isOfEnvironment(text, from, name) ? "assigned" : "loose";
  const to = bareEnd(text, end, { style, inQuery, limit: end + JUDGED_CHARS_MAX });
  const value = { start: end, end: to, quote: "", inQuery };
  if (style === "assigned") return { ...value, style };
  const onLine = sign === "" || sign === ">" || sign === "--" || (sign === "=" && !spaced) || isAlone(text, from, to);
  return { ...value, style: onLine ? "line" : "loose" };
}

/** Name and value have a line for themselves. */
function isAlone(text: string, from: number, to: number): boolean {
  return runStart(text, from, BLANK | DASH, from - GAP_CHARS_MAX) === lineStart(text, from) && endsLine(text, to);
}

/** A diff's sign may stand first in a line. */
function lineStart(text: string, at: number): number {
  const start = runStart(text, at, BLANK | DASH, at - GAP_CHARS_MAX);
  if (start === 0 || isA(text, start - 1, LINE_END)) return start;
  return text[start - 1] === "+" && (start === 1 || isA(text, start - 2, LINE_END)) ? start : -1;
}

/** A comment may follow. */
function endsLine(text: string, at: number): boolean {
  const end = runEnd(text, at, BLANK, at + GAP_CHARS_MAX);
  return end >= text.length || isA(text, end, LINE_END) || (end > at && text.charCodeAt(end) === HASH);
}

/** Where a value ends of which only the beginning was judged. */
export function wholeEnd(text: string, { start, end, quote, style, inQuery }: Value): number {
  return quote === "" ? bareEnd(text, start, { style, inQuery, limit: text.length }) : end;
}

interface Bareness {
  readonly style: ValueStyle;
  readonly inQuery: boolean;
  readonly limit: number;
}

function bareEnd(text: string, start: number, { style, inQuery, limit }: Bareness): number {
  const ends = style === "assigned" ? ASSIGNED_ENDS : BARE_ENDS;
  let at = start;
  while (at < limit && at < text.length && !isA(text, at, ends) && !isMark(text, at, inQuery)) at += 1;
  return at;
}

/** The next parameter of an address, an escaped line end or quotation mark, a bracket that closes at the value's end. */
function isMark(text: string, at: number, inQuery: boolean): boolean {
  switch (text.charCodeAt(at)) {
    case AMPERSAND:
    case HASH:
      return inQuery;
    case BACKSLASH:
      return "nrt\"'\\".includes(text[at + 1] ?? "?");
    case ROUND:
    case SQUARE:
    case CURLY:
      return at + 1 >= text.length || isA(text, at + 1, BARE_ENDS) || ")]}".includes(text[at + 1] ?? " ");
    default:
      return false;
  }
}
