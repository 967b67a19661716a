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
export function isWrittenEnd(text: string, at: number): boolean {
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

/** Returns the combined classes of the characters in a range. */
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
