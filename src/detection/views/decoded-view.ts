import type { Work } from "../bounds.ts";
import { ALPHANUMERIC, DIGIT, HEX, isA, LETTER, LINE_END, runEnd, words } from "./characters.ts";
import { sequenceEnd } from "./clean-text.ts";
import { isPlain, plainForm, plainUnit } from "./plain-characters.ts";

/** A text after decoding, with the original range of each of its characters. */
export interface DecodedText {
  readonly text: string;
  /** Returns the start of the original of the character at `at`. */
  startOf(at: number): number;
  /** Returns the end of the original of the character at `at`. */
  endOf(at: number): number;
}

const BYTE_MAX = 0xff;

/**
 * Builds a view from left to right. Each unchanged range and each replaced range takes one entry, whatever its length.
 */
export class ViewWriter implements DecodedText {
  readonly #original: string;
  /** Character codes; one byte each as long as that is sufficient. */
  #codes: Uint8Array | Uint16Array;
  #length = 0;
  #text = "";
  /** Three numbers for each entry: start in the view, start in the original, end in the original (0 for an unchanged range). */
  #entries = new Uint32Array(96);
  #count = 0;

  constructor(original: string) {
    this.#original = original;
    this.#codes = new Uint8Array(original.length + 16);
  }

  get text(): string {
    return this.#text;
  }

  copy(start: number, end: number): void {
    if (start === end) return;
    this.#enter(start, 0);
    for (let at = start; at < end; at += 1) this.#push(this.#original.charCodeAt(at));
  }

  /** Writes a character that replaces a range of the original. */
  put(code: number, start: number, end: number): void {
    this.#enter(start, end);
    this.#push(code);
  }

  /** Writes a text that replaces a range of the original. An empty text removes the range. */
  putText(text: string, start: number, end: number): void {
    if (text === "") return;
    this.#enter(start, end);
    for (let at = 0; at < text.length; at += 1) this.#push(text.charCodeAt(at));
  }

  finish(): DecodedText {
    const codes = this.#codes.subarray(0, this.#length);
    const bytes = Buffer.from(codes.buffer, codes.byteOffset, codes.byteLength);
    this.#text = bytes.toString(codes instanceof Uint8Array ? "latin1" : "utf16le");
    return this;
  }

  startOf(at: number): number {
    const entry = this.#entryAt(at);
    return this.#isCopy(entry) ? this.#startAt(entry) + at - this.#viewAt(entry) : this.#startAt(entry);
  }

  endOf(at: number): number {
    const entry = this.#entryAt(at);
    return this.#isCopy(entry)
      ? this.#startAt(entry) + at - this.#viewAt(entry) + 1
      : (this.#entries[entry * 3 + 2] ?? 0);
  }

  #viewAt(entry: number): number {
    return this.#entries[entry * 3] ?? 0;
  }

  #startAt(entry: number): number {
    return this.#entries[entry * 3 + 1] ?? 0;
  }

  #isCopy(entry: number): boolean {
    return this.#entries[entry * 3 + 2] === 0;
  }

  #entryAt(at: number): number {
    let low = 0;
    let high = this.#count - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (this.#viewAt(middle) <= at) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  #enter(start: number, end: number): void {
    const at = this.#count * 3;
    if (at === this.#entries.length) {
      const larger = new Uint32Array(at * 2);
      larger.set(this.#entries);
      this.#entries = larger;
    }
    this.#entries[at] = this.#length;
    this.#entries[at + 1] = start;
    this.#entries[at + 2] = end;
    this.#count += 1;
  }

  #push(code: number): void {
    if (this.#length === this.#codes.length) this.#widen(this.#codes.length * 2, this.#codes instanceof Uint16Array);
    if (code > BYTE_MAX && this.#codes instanceof Uint8Array) this.#widen(this.#codes.length, true);
    this.#codes[this.#length] = code;
    this.#length += 1;
  }

  #widen(capacity: number, isWide: boolean): void {
    const larger = isWide ? new Uint16Array(capacity) : new Uint8Array(capacity);
    larger.set(this.#codes);
    this.#codes = larger;
  }
}

/** Returns a view of a view, with offsets in the original. */
export function compose(inner: DecodedText, outer: DecodedText): DecodedText {
  return {
    text: outer.text,
    startOf: (at) => inner.startOf(outer.startOf(at)),
    endOf: (at) => inner.endOf(outer.endOf(at) - 1),
  };
}

/** Returns a finding in a view with offsets in the original. */
export function inOriginal<Found extends { readonly start: number; readonly end: number }>(
  view: DecodedText,
  found: Found,
): Found {
  return { ...found, start: view.startOf(found.start), end: view.endOf(found.end - 1) };
}

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

/** Marks a code that represents no character. */
export const NOTHING = -1;

const ENTITIES: ReadonlyMap<string, string> = new Map([
  ...words(
    "amp& lt< gt> quot\" apos' commat@ period. colon: sol/ lowbar_ equals= plus+ num# dash- hyphen- percnt% dollar$",
    "excl! bsol\\ lpar( rpar) ast* comma, semi; quest? Hat^ vert| lbrack[ rbrack] lcub{ rcub} grave`",
  ).map((row) => [row.slice(0, -1), row.slice(-1)] as const),
  ...([
    ["nbsp", " "],
    ["Tab", "\t"],
    ["NewLine", "\n"],
    ["shy", ""],
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
  ...["/", '"', "'", "\\", "`", "$", "@", ":", "=", "-", "_", ".", " ", "&", "#"].map(
    (character) => [character, character] as const,
  ),
]);

/** ASCII codes of the characters that can start a code. */
const STARTS_CODE = Uint8Array.from({ length: 128 }, (_, code) =>
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
    if (STARTS_CODE[code] !== 1) return false;
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

/** Maximum number of decoding passes; `%2540` takes two. */
const DEPTH_MAX = 3;

/** Steps for a character that is copied, and for one that is decoded. */
const STEPS_PER_CHAR = 3;
const STEPS_PER_CODE = 30;

/** Characters that a reader or a program may take for something else. A single character class, so linear. */
const NOT_PLAIN = /[^\t\n\r\x20-\x7e]/;

/**
 * Returns the text after decoding: compatibility forms, digits of other scripts, invisible characters, percent and HTML encoding,
 * escapes of programming languages, and shell quoting. Decodes repeatedly when needed. Returns undefined when decoding changes
 * nothing.
 */
export function decodedView(text: string, work: Work): DecodedText | undefined {
  if (isVerbatim(text)) return undefined;
  let view: DecodedText | undefined;
  for (let depth = 0; depth < DEPTH_MAX; depth += 1) {
    const current = view?.text ?? text;
    const first = firstCoded(current);
    if (first === -1) return view;
    const next = new Decoding(current, work).from(first);
    if (next === undefined) return view;
    view = view === undefined ? next : compose(view, next);
    // A text without codes is completely decoded after one pass.
    if (firstCode(current) === -1) return view;
  }
  return view;
}

class Decoding {
  readonly #text: string;
  readonly #work: Work;
  readonly #codes: CodeReader;
  readonly #writer: ViewWriter;
  /** End of the part that has been written. */
  #done = 0;

  constructor(text: string, work: Work) {
    this.#text = text;
    this.#work = work;
    this.#codes = new CodeReader(text);
    this.#writer = new ViewWriter(text);
    work.spend(text.length * STEPS_PER_CHAR);
  }

  /** Returns the decoded text; undefined when nothing changes from `first` on. */
  from(first: number): DecodedText | undefined {
    const text = this.#text;
    let isSame = true;
    let at = first;
    while (at < text.length) {
      const code = text.charCodeAt(at);
      const end = code > 0x7e || code < 0x20 ? this.#nonAscii(at, code) : this.#coded(at, code);
      if (end < 0) {
        at = -end;
        continue;
      }
      isSame = false;
      at = end;
    }
    if (isSame) return undefined;
    this.#writer.copy(this.#done, text.length);
    return this.#writer.finish();
  }

  /** Returns the end of the decoded code; negative, with the offset to continue from, when the character is unchanged. */
  #coded(at: number, code: number): number {
    return this.#codes.read(at, code) ? this.#replace(at, this.#codes.end, this.#codes.point) : -(at + 1);
  }

  /** Handles a control or a non-ASCII character. */
  #nonAscii(at: number, code: number): number {
    if (code === 0x0a || code === 0x09 || code === 0x0d) return -(at + 1);
    const unit = code > 0x7e ? plainUnit(code) : -1;
    if (unit === code) return -(at + 1);
    if (unit > 0) return this.#replace(at, at + 1, unit);
    if (unit === 0) return this.#replace(at, at + 1, NOTHING);
    if (this.#codes.read(at, code)) return this.#replace(at, this.#codes.end, this.#codes.point);
    const point = this.#text.codePointAt(at) ?? code;
    const width = point > 0xffff ? 2 : 1;
    return width === 2 && isPlain(point) ? -(at + 2) : this.#replace(at, at + width, point);
  }

  #replace(start: number, end: number, point: number): number {
    this.#work.spend(STEPS_PER_CODE);
    this.#writer.copy(this.#done, start);
    if (point > 0x7e || (point >= 0 && point < 0x20 && !isKept(point))) {
      this.#writer.putText(plainForm(point), start, end);
    } else if (point !== NOTHING) this.#writer.put(point, start, end);
    this.#done = end;
    return end;
  }
}

/**
 * Returns whether a control is kept: whitespace, and the escape character, because it may start a sequence that the next pass
 * removes.
 */
function isKept(code: number): boolean {
  return code === 0x0a || code === 0x09 || code === 0x0d || code === 0x1b;
}

const PLAIN = 1;

/** ASCII codes of characters that never need decoding. */
const VERBATIM = Uint8Array.from({ length: 0x7f }, (_, code) =>
  (code >= 0x20 || code === 0x09 || code === 0x0a || code === 0x0d) && !`%&\\"'`.includes(String.fromCharCode(code))
    ? PLAIN
    : 0,
);

/** Returns whether nothing in the text needs decoding. This is true for most texts and reads each character once. */
function isVerbatim(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) if (VERBATIM[text.charCodeAt(at)] !== PLAIN) return false;
  return true;
}

/** Returns the offset of the first character that may need decoding; -1 when there is none. */
function firstCoded(text: string): number {
  return earliest(earliest(firstCode(text), text.search(NOT_PLAIN)), firstEmptyQuotes(text));
}

function firstCode(text: string): number {
  return earliest(earliest(text.indexOf("%"), text.indexOf("&")), text.indexOf("\\"));
}

/** Returns the offset of two quotes inside a word. Elsewhere they are an empty string, which is common in JSON. */
function firstEmptyQuotes(text: string): number {
  return earliest(firstInWord(text, '""'), firstInWord(text, "''"));
}

function firstInWord(text: string, quotes: string): number {
  let at = text.indexOf(quotes);
  while (at !== -1 && !(isA(text, at - 1, ALPHANUMERIC) && isA(text, at + 2, ALPHANUMERIC))) {
    at = text.indexOf(quotes, at + 1);
  }
  return at;
}

function earliest(one: number, other: number): number {
  if (one === -1) return other;
  return other === -1 ? one : Math.min(one, other);
}
