import type { Work } from "../bounds.ts";
import { ALPHANUMERIC, isA } from "./characters.ts";
import { CodeReader, NOTHING } from "./escapes.ts";
import { isPlain, plainForm, plainUnit } from "./plain-characters.ts";
import { compose, type DecodedText, ViewWriter } from "./view.ts";

/** How often a text is decoded: `%2540` takes two. */
const DEPTH_MAX = 3;

/** Of a character that is passed, of one that stands for another. */
const STEPS_PER_CHAR = 3;
const STEPS_PER_CODE = 30;

/** Anything that a reader or a program would take for something else than it is. Trivially linear. */
const NOT_PLAIN = /[^\t\n\r\x20-\x7e]/;

/**
 * The text with compatibility forms, digits of other scripts, invisible characters, percent and HTML encoding, the escapes of
 * programs and the quotation of shells undone, again when it takes that. Undefined when that changes nothing.
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
    // What has no more codes in it is plain by now.
    if (firstCode(current) === -1) return view;
  }
  return view;
}

class Decoding {
  readonly #text: string;
  readonly #work: Work;
  readonly #codes: CodeReader;
  readonly #writer: ViewWriter;
  /** What comes before is written. */
  #done = 0;

  constructor(text: string, work: Work) {
    this.#text = text;
    this.#work = work;
    this.#codes = new CodeReader(text);
    this.#writer = new ViewWriter(text);
    work.spend(text.length * STEPS_PER_CHAR);
  }

  /** Undefined when nothing changes from `first` on. */
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

  /** Where what was decoded ends; negative when the character stays as it is. */
  #coded(at: number, code: number): number {
    return this.#codes.read(at, code) ? this.#replace(at, this.#codes.end, this.#codes.point) : -(at + 1);
  }

  /** A control, or a character that is not ASCII. */
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

/** Blanks; and the escape character, with which a sequence may begin that the next pass takes out. */
function isKept(code: number): boolean {
  return code === 0x0a || code === 0x09 || code === 0x0d || code === 0x1b;
}

const PLAIN = 1;

/** By ASCII code: what stands for itself wherever it stands. */
const STANDING = Uint8Array.from({ length: 0x7f }, (_, code) =>
  (code >= 0x20 || code === 0x09 || code === 0x0a || code === 0x0d) && !`%&\\"'`.includes(String.fromCharCode(code))
    ? PLAIN
    : 0,
);

/** Whether nothing in it could stand for anything else: most texts are so, and one look at each character tells. */
function isVerbatim(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) if (STANDING[text.charCodeAt(at)] !== PLAIN) return false;
  return true;
}

/** Where anything coded or foreign could stand first; -1 when nowhere. */
function firstCoded(text: string): number {
  return earliest(earliest(firstCode(text), text.search(NOT_PLAIN)), firstEmptyQuotes(text));
}

function firstCode(text: string): number {
  return earliest(earliest(text.indexOf("%"), text.indexOf("&")), text.indexOf("\\"));
}

/** Two quotation marks inside a word; elsewhere they are an empty text, which is in every other JSON. */
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
