/** Classes of ASCII characters, to be joined with `|`. */
export const DIGIT = 1;
export const LOWER = 2;
export const UPPER = 4;
/** The letters of hexadecimal numbers, in both cases. */
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
/** What ends a value that is not in quotes, apart from blanks, line ends and quotes: `,;<>|`. */
export const STOP = 32768;
export const COLON = 65536;

export const LETTER = LOWER | UPPER;
export const ALPHANUMERIC = LETTER | DIGIT;
export const HEX = DIGIT | HEX_LETTER;
export const WORD = ALPHANUMERIC | UNDERSCORE;
export const BASE64URL = WORD | DASH;
/** Of variables, fields, headers and settings. */
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

/** The classes of a UTF-16 unit; 0 for `NaN` and for all that is not ASCII. */
export function classOf(code: number): number {
  return code < ASCII_CODES ? (CLASSES[code] ?? 0) : 0;
}

export function isA(text: string, at: number, classes: number): boolean {
  const code = text.charCodeAt(at);
  return code < ASCII_CODES && ((CLASSES[code] ?? 0) & classes) !== 0;
}

/** Whether one of these characters stands there. Indexing would make a string of each character beyond Latin-1. */
export function isOneOf(text: string, at: number, characters: string): boolean {
  const code = text.charCodeAt(at);
  for (let index = 0; index < characters.length; index += 1) if (characters.charCodeAt(index) === code) return true;
  return false;
}

/** A line end written out: `\n`, `\r`. */
export function isWrittenEnd(text: string, at: number): boolean {
  return isOneOf(text, at, "\\") && isOneOf(text, at + 1, "nr");
}

/** Where the characters of these classes end: at `limit` at the latest. */
export function runEnd(text: string, from: number, classes: number, limit: number = text.length): number {
  const end = Math.min(limit, text.length);
  let at = from;
  while (at < end && (classOf(text.charCodeAt(at)) & classes) !== 0) at += 1;
  return at;
}

/** Where the first character of these classes stands; `limit` or the text's end when none does before it. */
export function endBefore(text: string, from: number, classes: number, limit: number = text.length): number {
  const end = Math.min(limit, text.length);
  let at = from;
  while (at < end && (classOf(text.charCodeAt(at)) & classes) === 0) at += 1;
  return at;
}

/** Where the characters of these classes that end before `to` begin: at `limit` at the earliest. */
export function runStart(text: string, to: number, classes: number, limit = 0): number {
  let at = to;
  while (at > limit && (classOf(text.charCodeAt(at - 1)) & classes) !== 0) at -= 1;
  return at;
}

/** The classes that occur in a stretch, joined. */
export function classesIn(text: string, start: number, end: number): number {
  let seen = 0;
  for (let at = start; at < end; at += 1) seen |= classOf(text.charCodeAt(at));
  return seen;
}

const BACKSLASH = 0x5c;
const ESCAPE_LETTERS = "nrtbf";

/** Whether a word can begin here: no letter or digit stands before, unless it belongs to an escape such as `\n`. */
export function beginsWord(text: string, at: number): boolean {
  if (!isA(text, at - 1, ALPHANUMERIC)) return true;
  return text.charCodeAt(at - 2) === BACKSLASH && ESCAPE_LETTERS.includes(text[at - 1] ?? "");
}
