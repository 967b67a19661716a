import type { Finding } from "../finding.ts";
import {
  BLANK,
  classesIn,
  DASH,
  DIGIT,
  DOT,
  isA,
  LINE_END,
  LOWER,
  QUOTE,
  runEnd,
  runStart,
  STOP,
  UPPER,
  WORD,
} from "../views/characters.ts";
import { type SecretKind, secretKind } from "./names.ts";
import { isSecretValue, JUDGED_CHARS_MAX, type ValueStyle } from "./values.ts";

/** A longer name names nothing. UTF-16 units. */
const NAME_CHARS_MAX = 96;

/** Between a name and its value, and between a name and `value:` on the next line. UTF-16 units. */
const GAP_CHARS_MAX = 64;

/** A quoted value ends here at the latest. UTF-16 units. */
const QUOTED_CHARS_MAX = 4_096;

/** Names remembered while one text is read. */
const NAMES_MAX = 1_024;

const HASH = 0x23;
const AMPERSAND = 0x26;
const ROUND = 0x29;
const BACKSLASH = 0x5c;
const SQUARE = 0x5d;
const CURLY = 0x7d;

const NAME = WORD | DASH | DOT;
const QUOTES = "\"'`";
/** A value without quotation marks ends here, or at a bracket that closes when nothing but ends follows; */
const BARE_ENDS = BLANK | LINE_END | QUOTE | STOP;
/** one of the environment ends here. */
const ASSIGNED_ENDS = BLANK | LINE_END | QUOTE;
const HEADER_ENDS = "\n\r\"'`";

/** Finds values beside names that announce a secret: `NAME=value`, `"name": "value"`, `--name value`, `<name>value`. */
export class AssignmentReader {
  readonly #text: string;
  readonly #kinds = new Map<string, SecretKind | undefined>();
  /** Names that end before here have been looked at. */
  #done = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** Whether a part of a name that stands at `start` belongs to an assignment of a secret. */
  match(start: number, end: number): Finding | undefined {
    if (start < this.#done) return undefined;
    const text = this.#text;
    const from = runStart(text, start, NAME, start - NAME_CHARS_MAX);
    const to = runEnd(text, end, NAME, end + NAME_CHARS_MAX);
    this.#done = to;
    if (to - from > NAME_CHARS_MAX) return undefined;
    const value = valueAfter(text, from, to);
    if (value === undefined || value.start === value.end) return undefined;
    const kind = this.#kindOf(text.slice(from, to));
    return kind === undefined ? undefined : judge(text, kind, value);
  }

  #kindOf(name: string): SecretKind | undefined {
    if (this.#kinds.has(name)) return this.#kinds.get(name);
    const kind = secretKind(name);
    if (this.#kinds.size < NAMES_MAX) this.#kinds.set(name, kind);
    return kind;
  }
}

interface Value {
  readonly start: number;
  /** Of the part to be judged: a longer value goes on. */
  readonly end: number;
  readonly style: ValueStyle;
  /** What ends the value: a quote, or nothing for a bare word. */
  readonly quote: string;
  /** Of an address: the next parameter ends it. */
  readonly inQuery: boolean;
}

function judge(text: string, kind: SecretKind, value: Value): Finding | undefined {
  if (kind === "cookie" || kind === "authorization") return header(text, kind, value);
  const judged = text.slice(value.start, Math.min(value.end, value.start + JUDGED_CHARS_MAX));
  if (!isSecretValue(judged, kind, value.style)) return undefined;
  return { rule: `${kind}-assignment`, start: value.start, end: wholeEnd(text, value) };
}

function wholeEnd(text: string, { start, end, quote, style, inQuery }: Value): number {
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

/** A header's value is the rest of its line; of an authorization the scheme may stay. */
function header(text: string, kind: SecretKind, { start, quote, end, style }: Value): Finding | undefined {
  const lineEnd = quote === "" ? endOf(text, start, HEADER_ENDS) : end;
  if (style === "assigned" || lineEnd - start < 6) return undefined;
  const from = kind === "authorization" ? afterScheme(text, start, lineEnd) : start;
  const value = text.slice(from, Math.min(lineEnd, from + JUDGED_CHARS_MAX));
  if (kind === "cookie" && !value.includes("=")) return undefined;
  if (kind === "authorization" && quote === "" && from === start && !isOnePiece(value)) return undefined;
  if (!isSecretValue(value, kind, style)) return undefined;
  return { rule: kind === "cookie" ? "cookie" : "authorization-header", start: from, end: lineEnd };
}

/** Credentials without a scheme and without quotation marks: no words, no call, and a digit. */
function isOnePiece(value: string): boolean {
  return !value.includes(" ") && !value.includes("(") && (classesIn(value, 0, value.length) & DIGIT) !== 0;
}

const SCHEMES: ReadonlySet<string> = new Set([
  ...[
    "bearer",
    "basic",
    "digest",
    "token",
    "apikey",
    "api-key",
    "key",
    "negotiate",
    "ntlm",
    "hawk",
    "dpop",
    "mac",
    "jwt",
  ],
  ...["aws4-hmac-sha256", "sharedkey", "sharedaccesssignature", "genie_key", "splunk", "bot", "oauth", "scram-sha-256"],
  ...["googlelogin", "x-auth", "snowflake", "vapid", "signature", "s3cmd", "ssws", "pve", "eg1-hmac-sha256", "discogs"],
]);

/** Where the credentials begin: behind a scheme that is known. */
function afterScheme(text: string, start: number, limit: number): number {
  const scheme = runEnd(text, start, NAME, limit);
  const next = runEnd(text, scheme, BLANK, limit);
  const isKnown = next > scheme && next < limit && SCHEMES.has(text.slice(start, scheme).toLowerCase());
  return isKnown ? next : start;
}

function endOf(text: string, start: number, ends: string): number {
  const limit = Math.min(text.length, start + QUOTED_CHARS_MAX);
  let at = start;
  while (at < limit && !ends.includes(text[at] ?? "")) at += 1;
  return at;
}

/** Where the value of the name between `from` and `to` stands, if there is one. */
function valueAfter(text: string, from: number, to: number): Value | undefined {
  const afterQuote = skipQuote(text, to);
  const separator = separatorAfter(text, from, { name: to, at: afterQuote });
  if (separator === undefined) return undefined;
  const opening = skipQuote(text, separator.end);
  if (opening > separator.end) return quotedValue(text, opening);
  if (separator.sign === "==") return undefined;
  return bareValue(text, from, { ...separator, name: to });
}

/** After a quotation mark that may itself be escaped. */
function skipQuote(text: string, at: number): number {
  let end = at;
  while (text[end] === "\\" && end < at + 8) end += 1;
  return QUOTES.includes(text[end] ?? "?") ? end + 1 : at;
}

function quotedValue(text: string, start: number): Value {
  const quote = text[start - 1] ?? "";
  const limit = Math.min(text.length, start + QUOTED_CHARS_MAX);
  let end = start;
  while (end < limit && text[end] !== quote && !isA(text, end, LINE_END)) {
    const isEscaped = text[end] === "\\" && text[start - 2] !== "\\" && end + 1 < limit;
    end += isEscaped ? 2 : 1;
  }
  while (end > start && text[end - 1] === "\\") end -= 1;
  return { start, end: Math.min(end, text.length), style: "quoted", quote, inQuery: false };
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
  if (sign > name && isA(text, sign, QUOTE)) return { end: sign, sign: " ", spaced: true };
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
  const seen = classesIn(text, from, name);
  const isCapital = (seen & UPPER) !== 0 && (seen & LOWER) === 0;
  const style = sign === "=" && !spaced && isCapital && !inQuery ? "assigned" : "loose";
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

function endsLine(text: string, at: number): boolean {
  const end = runEnd(text, at, BLANK, at + GAP_CHARS_MAX);
  return end >= text.length || isA(text, end, LINE_END);
}
