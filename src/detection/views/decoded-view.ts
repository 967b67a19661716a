import type { Work } from "../bounds.ts";
import { ALPHANUMERIC, isA } from "./characters.ts";
import { CodeReader, NOTHING } from "./escapes.ts";
import { isPlain, plainForm, plainUnit } from "./plain-characters.ts";
import { compose, type DecodedText, ViewWriter } from "./view.ts";

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

  /** Returns undefined when nothing changes from `first` on. */
  from(first: number): DecodedText | undefined {
    const text = this.#text;
    let isSame = true;
    let at = first;
    while (at < text.length) {
      const code = text.charCodeAt(at);
      const end = code > 0x7e || code < 0x20 ? this.#foreign(at, code) : this.#coded(at, code);
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
  #foreign(at: number, code: number): number {
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
const STANDING = Uint8Array.from({ length: 0x7f }, (_, code) =>
  (code >= 0x20 || code === 0x09 || code === 0x0a || code === 0x0d) && !`%&\\"'`.includes(String.fromCharCode(code))
    ? PLAIN
    : 0,
);

/** Returns whether nothing in the text needs decoding. This is true for most texts and needs only one look at each character. */
function isVerbatim(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) if (STANDING[text.charCodeAt(at)] !== PLAIN) return false;
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
