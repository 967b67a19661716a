import { ALPHANUMERIC, DIGIT, HEX, isA, LETTER, LINE_END, runEnd } from "./characters.ts";
import { sequenceEnd } from "./terminal-sequences.ts";

const PERCENT = 0x25;
const AMPERSAND = 0x26;
const BACKSLASH = 0x5c;
const ESCAPE = 0x1b;
const QUOTATION = 0x22;
const APOSTROPHE = 0x27;
const ZERO = 0x30;
const SEVEN = 0x37;

const ENTITY_CHARS_MAX = 10;
const UTF8_BYTES_MAX = 4;
const OCTAL_DIGITS = 3;
const POINT_MAX = 0x10ffff;
const REPLACEMENT = 0xfffd;

/** The code stands for no character. */
export const NOTHING = -1;

const ENTITIES: ReadonlyMap<string, string> = new Map([
  ...([
    ["amp", "&"],
    ["lt", "<"],
    ["gt", ">"],
    ["quot", '"'],
    ["apos", "'"],
    ["nbsp", " "],
    ["commat", "@"],
  ] as const),
  ...([
    ["period", "."],
    ["colon", ":"],
    ["sol", "/"],
    ["lowbar", "_"],
    ["equals", "="],
    ["plus", "+"],
  ] as const),
  ...([
    ["num", "#"],
    ["dash", "-"],
    ["hyphen", "-"],
    ["shy", ""],
    ["Tab", "\t"],
    ["NewLine", "\n"],
  ] as const),
  ...([
    ["percnt", "%"],
    ["dollar", "$"],
    ["excl", "!"],
    ["bsol", "\\"],
    ["lpar", "("],
    ["rpar", ")"],
  ] as const),
  ...([
    ["ast", "*"],
    ["comma", ","],
    ["semi", ";"],
    ["quest", "?"],
    ["Hat", "^"],
    ["vert", "|"],
    ["lbrack", "["],
  ] as const),
  ...([
    ["rbrack", "]"],
    ["lcub", "{"],
    ["rcub", "}"],
    ["grave", "`"],
    ["zwnj", ""],
    ["zwj", ""],
  ] as const),
]);

const ESCAPES: ReadonlyMap<string, string> = new Map([
  ...([
    ["n", "\n"],
    ["r", "\r"],
    ["t", "\t"],
    ["e", "\u001b"],
    ["E", "\u001b"],
  ] as const),
  ...["/", '"', "'", "\\", "`", "$", "@", ":", "=", "-", "_", ".", " ", "&", "#"].map((sign) => [sign, sign] as const),
]);

/** ASCII codes of the characters that can start a code. */
const BEGINS = Uint8Array.from({ length: 128 }, (_, code) =>
  [PERCENT, AMPERSAND, BACKSLASH, ESCAPE, QUOTATION, APOSTROPHE].includes(code) ? 1 : 0,
);

/** Reads codes for one character or for none: percent and HTML codes, escapes of programming languages, shell quoting. */
export class CodeReader {
  readonly #text: string;
  /** The code point that was read, or `NOTHING`. */
  point = NOTHING;
  /** End of the code that was read. */
  end = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** Returns whether a code starts at `at`; `code` is the character code at `at`. */
  read(at: number, code: number): boolean {
    if (BEGINS[code] !== 1) return false;
    switch (code) {
      case PERCENT:
        return this.#percent(at);
      case AMPERSAND:
        return this.#entity(at);
      case BACKSLASH:
        return this.#escape(at);
      case ESCAPE:
        return this.#is(NOTHING, sequenceEnd(this.#text, at));
      default:
        return this.#emptyQuotes(at, code);
    }
  }

  #is(point: number, end: number): boolean {
    this.point = point;
    this.end = end;
    return true;
  }

  /** Reads `%40`, or the UTF-8 bytes of one character: `%EF%BC%A0`. */
  #percent(at: number): boolean {
    const first = byteAt(this.#text, at);
    if (first === -1) return false;
    const length = first < 0xc0 ? 1 : utf8Length(first);
    if (length === 1) return this.#is(first < 0x80 ? first : REPLACEMENT, at + 3);
    let point = first & (0xff >> (length + 1));
    for (let index = 1; index < length; index += 1) {
      const byte = byteAt(this.#text, at + index * 3);
      if (byte === -1 || (byte & 0xc0) !== 0x80) return this.#is(REPLACEMENT, at + index * 3);
      point = (point << 6) | (byte & 0x3f);
    }
    return this.#is(point > POINT_MAX ? REPLACEMENT : point, at + length * 3);
  }

  /** Reads `&#64;`, `&#x40;` or `&commat;`. */
  #entity(at: number): boolean {
    const text = this.#text;
    if (text[at + 1] !== "#") {
      const end = runEnd(text, at + 1, LETTER, at + ENTITY_CHARS_MAX);
      const named = text[end] === ";" ? ENTITIES.get(text.slice(at + 1, end)) : undefined;
      return named !== undefined && this.#is(named === "" ? NOTHING : named.charCodeAt(0), end + 1);
    }
    const isHex = text[at + 2] === "x" || text[at + 2] === "X";
    const from = isHex ? at + 3 : at + 2;
    const end = runEnd(text, from, isHex ? HEX : DIGIT, from + ENTITY_CHARS_MAX);
    const point = numberIn(text, from, { end, base: isHex ? 16 : 10 });
    return end > from && point <= POINT_MAX && this.#is(point, text[end] === ";" ? end + 1 : end);
  }

  /** Reads `\u0040`, `\u{40}`, `\x40`, `\100`, `\n`, `\"`; also a backslash that a shell removes. */
  #escape(at: number): boolean {
    const text = this.#text;
    const letter = text[at + 1] ?? "";
    if (letter === "u" || letter === "U" || letter === "x") {
      const isBraced = text[at + 2] === "{";
      const digits = letter === "x" ? 2 : 4;
      return isBraced
        ? this.#coded(at + 3, { digits: 6, close: "}" })
        : (letter === "U" && this.#coded(at + 2, { digits: 8, close: "" })) ||
            this.#coded(at + 2, { digits, close: "" });
    }
    if (isOctal(text, at + 1)) {
      const end = at + 1 + OCTAL_DIGITS;
      return this.#is(numberIn(text, at + 1, { end, base: 8 }) & 0xff, end);
    }
    const plain = ESCAPES.get(letter);
    if (plain !== undefined) return this.#is(plain.charCodeAt(0), at + 2);
    if (isA(text, at + 1, LINE_END)) return this.#is(NOTHING, text.startsWith("\r\n", at + 1) ? at + 3 : at + 2);
    return isA(text, at + 1, ALPHANUMERIC) && isA(text, at - 1, ALPHANUMERIC) && this.#is(NOTHING, at + 1);
  }

  #coded(from: number, { digits, close }: { readonly digits: number; readonly close: string }): boolean {
    const end = runEnd(this.#text, from, HEX, from + digits);
    const isWhole = close === "" ? end - from === digits : end > from && this.#text.startsWith(close, end);
    const point = isWhole ? numberIn(this.#text, from, { end, base: 16 }) : POINT_MAX + 1;
    return point <= POINT_MAX && this.#is(point, end + close.length);
  }

  /** Reads empty quotes inside a word: `pass''word` is one word to a shell. */
  #emptyQuotes(at: number, code: number): boolean {
    const isPair = this.#text.charCodeAt(at + 1) === code;
    if (!isPair || !isA(this.#text, at - 1, ALPHANUMERIC) || !isA(this.#text, at + 2, ALPHANUMERIC)) return false;
    return this.#is(NOTHING, at + 2);
  }
}

/** Returns the byte of a code such as `%40`; -1 when there is none. */
function byteAt(text: string, at: number): number {
  if (text.charCodeAt(at) !== PERCENT) return -1;
  const high = digitOf(text.charCodeAt(at + 1));
  const low = digitOf(text.charCodeAt(at + 2));
  return high > 15 || low > 15 ? -1 : high * 16 + low;
}

function utf8Length(first: number): number {
  if (first < 0xe0) return 2;
  return first < 0xf0 ? 3 : UTF8_BYTES_MAX;
}

/** Returns the value of a digit in any base up to 16; 16 for any other character. */
function digitOf(code: number): number {
  if (code >= ZERO && code <= ZERO + 9) return code - ZERO;
  const letter = (code | 0x20) - 0x61;
  return letter >= 0 && letter < 6 ? letter + 10 : 16;
}

function numberIn(text: string, from: number, { end, base }: { readonly end: number; readonly base: number }): number {
  let value = 0;
  for (let at = from; at < end; at += 1) value = value * base + digitOf(text.charCodeAt(at));
  return value;
}

function isOctal(text: string, from: number): boolean {
  for (let at = from; at < from + OCTAL_DIGITS; at += 1) {
    const code = text.charCodeAt(at);
    if (!(code >= ZERO && code <= (at === from ? ZERO + 3 : SEVEN))) return false;
  }
  return true;
}
