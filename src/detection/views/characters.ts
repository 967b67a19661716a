/** Classes of ASCII characters, to be combined with `|`. */
export const DIGIT = 1;
export const LOWER = 2;
export const UPPER = 4;
/** Letters of hexadecimal numbers, upper and lower case. */
export const HEX_LETTER = 8;
export const DASH = 16;
export const UNDERSCORE = 32;
export const DOT = 64;
export const PLUS_SLASH = 128;
export const EQUALS = 256;
export const TILDE = 512;
export const PERCENT = 1024;
export const DOLLAR = 2048;
/** Space and tab. */
export const BLANK = 4096;
export const LINE_END = 8192;
export const QUOTE = 16384;
/** Characters that end an unquoted value, in addition to `BLANK`, `LINE_END` and `QUOTE`: `,;<>|`. */
export const STOP = 32768;
export const COLON = 65536;

export const LETTER = LOWER | UPPER;
export const ALPHANUMERIC = LETTER | DIGIT;
export const HEX = DIGIT | HEX_LETTER;
export const WORD = ALPHANUMERIC | UNDERSCORE;
export const BASE64URL = WORD | DASH;
/** Characters in names of variables, fields, headers and settings. */
export const NAME = WORD | DASH | DOT;
export const BASE64 = ALPHANUMERIC | PLUS_SLASH;

const ASCII_CODES = 128;

const CLASSES = makeClasses();

function makeClasses(): Uint32Array {
  const classes = new Uint32Array(ASCII_CODES);
  const give = (characters: string, flag: number) => {
    for (let at = 0; at < characters.length; at += 1) {
      const code = characters.charCodeAt(at);
      classes[code] = (classes[code] ?? 0) | flag;
    }
  };
  give("0123456789", DIGIT);
  give("abcdefghijklmnopqrstuvwxyz", LOWER);
  give("ABCDEFGHIJKLMNOPQRSTUVWXYZ", UPPER);
  give("abcdefABCDEF", HEX_LETTER);
  give("-", DASH);
  give("_", UNDERSCORE);
  give(".", DOT);
  give("+/", PLUS_SLASH);
  give("=", EQUALS);
  give("~", TILDE);
  give("%", PERCENT);
  give("$", DOLLAR);
  give(" \t", BLANK);
  give("\n\r", LINE_END);
  give("\"'`", QUOTE);
  give(",;<>|", STOP);
  give(":", COLON);
  return classes;
}

/** Returns the classes of a UTF-16 unit; 0 for `NaN` and for non-ASCII units. */
export function classOf(code: number): number {
  return code < ASCII_CODES ? (CLASSES[code] ?? 0) : 0;
}

export function isA(text: string, at: number, classes: number): boolean {
  const code = text.charCodeAt(at);
  return code < ASCII_CODES && ((CLASSES[code] ?? 0) & classes) !== 0;
}

/**
 * Returns whether one of these characters is at this offset. Indexing the text would allocate a string for each character beyond
 * Latin-1.
 */
export function isOneOf(text: string, at: number, characters: string): boolean {
  const code = text.charCodeAt(at);
  for (let index = 0; index < characters.length; index += 1) if (characters.charCodeAt(index) === code) return true;
  return false;
}

/** Returns whether an escaped line end is at this offset: `\n` or `\r` as two characters. */
export function isEscapedLineEnd(text: string, at: number): boolean {
  return isOneOf(text, at, "\\") && isOneOf(text, at + 1, "nr");
}

/** Returns the end of the run of characters of these classes, at most `limit`. */
export function runEnd(text: string, from: number, classes: number, limit: number = text.length): number {
  const end = Math.min(limit, text.length);
  let at = from;
  while (at < end && (classOf(text.charCodeAt(at)) & classes) !== 0) at += 1;
  return at;
}

/** Returns the offset of the first character of these classes; `limit` or the end of the text when there is none before it. */
export function endBefore(text: string, from: number, classes: number, limit: number = text.length): number {
  const end = Math.min(limit, text.length);
  let at = from;
  while (at < end && (classOf(text.charCodeAt(at)) & classes) === 0) at += 1;
  return at;
}

/** Returns the start of the run of characters of these classes that ends before `to`, at least `limit`. */
export function runStart(text: string, to: number, classes: number, limit = 0): number {
  let at = to;
  while (at > limit && (classOf(text.charCodeAt(at - 1)) & classes) !== 0) at -= 1;
  return at;
}

export function classesIn(text: string, start: number, end: number): number {
  let seen = 0;
  for (let at = start; at < end; at += 1) seen |= classOf(text.charCodeAt(at));
  return seen;
}

const BACKSLASH = 0x5c;
const ESCAPE_LETTERS = "nrtbf";

/**
 * Returns whether a word can start here: the previous character is not a letter or digit, or belongs to an escape such as `\n`.
 */
export function beginsWord(text: string, at: number): boolean {
  if (!isA(text, at - 1, ALPHANUMERIC)) return true;
  return text.charCodeAt(at - 2) === BACKSLASH && ESCAPE_LETTERS.includes(text[at - 1] ?? "");
}

/** A part of a text: offsets in UTF-16 units, `end` exclusive. */
export interface TextRange {
  readonly start: number;
  readonly end: number;
}

/** Returns the start of the run without characters of these classes that ends before `to`, at least `limit`. */
export function startAfter(text: string, to: number, classes: number, limit: number): number {
  const start = Math.max(limit, 0);
  let at = to;
  while (at > start && (classOf(text.charCodeAt(at - 1)) & classes) === 0) at -= 1;
  return at;
}

/** Returns the end of the line that contains `from`; `limit` when the line is longer. */
export function lineEnd(text: string, from: number, limit: number = text.length): number {
  return endBefore(text, from, LINE_END, limit);
}

export function beginsLine(text: string, at: number): boolean {
  return at === 0 || isA(text, at - 1, LINE_END);
}

export function endsLine(text: string, at: number): boolean {
  return at >= text.length || isA(text, at, LINE_END);
}

export function textBefore(text: string, at: number, chars: number): string {
  return text.slice(Math.max(0, at - chars), at);
}

/** Finds the next position in a text. Queries in text order read a range that several of them share only once. */
export class NextPosition {
  readonly #find: (from: number) => number;
  #from = 0;
  #at = -1;

  /** @param find - returns the first position at or after `from`; the text's length when there is none */
  constructor(find: (from: number) => number) {
    this.#find = find;
  }

  after(from: number): number {
    if (from < this.#from || from > this.#at) this.#at = this.#find(from);
    this.#from = from;
    return this.#at;
  }
}

/** Skips the line end at `at`, if there is one. */
export function afterLineEnd(text: string, at: number): number {
  if (text.startsWith("\r\n", at)) return at + 2;
  return isA(text, at, LINE_END) ? at + 1 : at;
}

const BACKSLASHES_MAX = 8;

/** Skips the quote at `at`, which may be escaped, if there is one. */
export function afterQuote(text: string, at: number): number {
  let end = at;
  while (isOneOf(text, end, "\\") && end < at + BACKSLASHES_MAX) end += 1;
  return isA(text, end, QUOTE) ? end + 1 : at;
}

/** Maximum length of a line of a table. UTF-16 units. */
export const ROW_CHARS_MAX = 4_096;

/** Returns the end of the line at `from`, at a literal or escaped (`\n`) line end; `limit` when the line is too long. */
export function rowEnd(text: string, from: number, limit: number = from + ROW_CHARS_MAX): number {
  const end = Math.min(text.length, limit);
  let at = from;
  while (at < end && !isA(text, at, LINE_END) && !isEscapedLineEnd(text, at)) at += 1;
  return at;
}

/** Skips the literal or escaped line end at `at`, if there is one. */
export function nextRow(text: string, at: number): number {
  const next = afterLineEnd(text, at);
  if (next > at) return next;
  if (text.startsWith("\\r\\n", at)) return at + 4;
  return isEscapedLineEnd(text, at) ? at + 2 : at;
}

export function words(...lines: readonly string[]): readonly string[] {
  return lines.flatMap((line) => line.split(" "));
}

export function wordSet(...lines: readonly string[]): ReadonlySet<string> {
  return new Set(words(...lines));
}
