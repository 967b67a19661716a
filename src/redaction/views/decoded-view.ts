import { DIGIT, HEX, isA, LETTER, runEnd } from "./characters.ts";
import { isPlain, plainForm, plainUnit } from "./plain-characters.ts";
import { compose, type View, ViewWriter } from "./view.ts";

/** How often a text is decoded: `%2540` takes two. */
const DEPTH_MAX = 2;

const PERCENT = 0x25;
const AMPERSAND = 0x26;
const BACKSLASH = 0x5c;
const ESCAPE = 0x1b;

/** Anything that a reader or a program would take for something else than it is. Trivially linear. */
const NOT_PLAIN = /[^\t\n\r\x20-\x7e]/;

const ENTITY_CHARS_MAX = 10;
const SEQUENCE_CHARS_MAX = 64;
const UTF8_BYTES_MAX = 4;

const ENTITIES: ReadonlyMap<string, string> = new Map([
  ...[
    ["amp", "&"],
    ["lt", "<"],
    ["gt", ">"],
    ["quot", '"'],
    ["apos", "'"],
    ["nbsp", " "],
    ["commat", "@"],
  ],
  ...[
    ["period", "."],
    ["colon", ":"],
    ["sol", "/"],
    ["lowbar", "_"],
    ["equals", "="],
    ["plus", "+"],
    ["num", "#"],
  ],
  ...[
    ["dash", "-"],
    ["hyphen", "-"],
    ["shy", ""],
    ["Tab", "\t"],
    ["NewLine", "\n"],
    ["percnt", "%"],
    ["dollar", "$"],
    ["excl", "!"],
  ],
] as [string, string][]);

const ESCAPES: Readonly<Record<string, string>> = {
  n: "\n",
  r: "\r",
  t: "\t",
  "/": "/",
  '"': '"',
  "'": "'",
  "\\": "\\",
};

/**
 * The text with compatibility forms, digits of other scripts, invisible characters, percent and HTML encoding and the escapes
 * of programs undone, twice when it takes two. Undefined when that changes nothing.
 */
export function decodedView(text: string): View | undefined {
  let view: View | undefined;
  for (let depth = 0; depth < DEPTH_MAX; depth += 1) {
    const current = view?.text ?? text;
    const first = firstCoded(current);
    if (first === -1) return view;
    const next = decodeOnce(current, first);
    if (next === undefined) return view;
    view = view === undefined ? next : compose(view, next);
    // What has no more codes in it is plain by now.
    if (firstCode(current) === -1) return view;
  }
  return view;
}

interface Decoded {
  readonly text: string;
  readonly end: number;
}

/** From `first` on. Undefined when nothing changes. */
function decodeOnce(text: string, first: number): View | undefined {
  const writer = new ViewWriter(text.length + 16);
  let isSame = true;
  for (let at = 0; at < first; at += 1) writer.push(text.charCodeAt(at), at, at + 1);
  let at = first;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    const width = code > 0x7f ? foreignWidth(text, at, { code, writer }) : 0;
    if (width !== 0) {
      if (width < 0) isSame = false;
      at += Math.abs(width);
      continue;
    }
    const decoded = decodeAt(text, at, code);
    if (decoded === undefined) {
      writer.push(code, at, at + 1);
      at += 1;
      continue;
    }
    isSame = false;
    writer.pushText(decoded.text, at, decoded.end);
    at = decoded.end;
  }
  return isSame ? undefined : writer.finish();
}

interface Foreign {
  readonly code: number;
  readonly writer: ViewWriter;
}

/** Writes what is not ASCII and stays one unit, nothing, or itself: how many units that were, negative when they changed, else 0. */
function foreignWidth(text: string, at: number, { code, writer }: Foreign): number {
  const unit = plainUnit(code);
  if (unit !== -1) {
    if (unit !== 0) writer.push(unit, at, at + 1);
    return unit === code ? 1 : -1;
  }
  if (code < 0xd800 || code > 0xdbff) return 0;
  const point = text.codePointAt(at) ?? 0;
  if (point <= 0xffff || !isPlain(point)) return 0;
  writer.push(code, at, at + 2);
  writer.push(text.charCodeAt(at + 1), at, at + 2);
  return 2;
}

/** Where anything coded or foreign could stand first; -1 when nowhere. */
function firstCoded(text: string): number {
  return earliest(firstCode(text), text.search(NOT_PLAIN));
}

function firstCode(text: string): number {
  return earliest(earliest(text.indexOf("%"), text.indexOf("&")), text.indexOf("\\"));
}

function earliest(one: number, other: number): number {
  if (one === -1 || other === -1) return Math.max(one, other);
  return Math.min(one, other);
}

function decodeAt(text: string, at: number, code: number): Decoded | undefined {
  if (code === PERCENT) return percent(text, at);
  if (code === AMPERSAND) return entity(text, at);
  if (code === BACKSLASH) return escaped(text, at);
  if (code < 0x7f && (code >= 0x20 || code === 0x0a || code === 0x09 || code === 0x0d)) return undefined;
  if (code === ESCAPE) return { text: "", end: sequenceEnd(text, at) };
  const point = text.codePointAt(at) ?? code;
  const width = point > 0xffff ? 2 : 1;
  const form = plainForm(point);
  return form.length === width && form === text.slice(at, at + width) ? undefined : { text: form, end: at + width };
}

/** `%40`, or the bytes of one character: `%EF%BC%A0`. */
function percent(text: string, at: number): Decoded | undefined {
  const bytes: number[] = [];
  let end = at;
  while (
    bytes.length < UTF8_BYTES_MAX &&
    text.charCodeAt(end) === PERCENT &&
    runEnd(text, end + 1, HEX, end + 3) === end + 3
  ) {
    const byte = Number.parseInt(text.slice(end + 1, end + 3), 16);
    if (bytes.length > 0 && (byte & 0xc0) !== 0x80) break;
    bytes.push(byte);
    end += 3;
    if (bytes.length === 1 && byte < 0xc0) break;
  }
  return bytes.length === 0 ? undefined : { text: Buffer.from(bytes).toString("utf8"), end };
}

/** `&#64;`, `&#x40;`, `&commat;`. */
function entity(text: string, at: number): Decoded | undefined {
  if (text[at + 1] !== "#") {
    const end = runEnd(text, at + 1, LETTER, at + ENTITY_CHARS_MAX);
    const named = text[end] === ";" ? ENTITIES.get(text.slice(at + 1, end)) : undefined;
    return named === undefined ? undefined : { text: named, end: end + 1 };
  }
  const isHex = text[at + 2] === "x" || text[at + 2] === "X";
  const from = isHex ? at + 3 : at + 2;
  const end = runEnd(text, from, isHex ? HEX : DIGIT, from + ENTITY_CHARS_MAX);
  const point = Number.parseInt(text.slice(from, end), isHex ? 16 : 10);
  if (end === from || point > 0x10ffff) return undefined;
  return { text: String.fromCodePoint(point), end: text[end] === ";" ? end + 1 : end };
}

/** `\u0040`, `\u{40}`, `\x40`, `\n`, `\"`. */
function escaped(text: string, at: number): Decoded | undefined {
  const letter = text[at + 1] ?? "";
  if (letter === "u" && text[at + 2] === "{") return coded(text, { from: at + 3, digits: 6, close: "}" });
  if (letter === "u") return coded(text, { from: at + 2, digits: 4, close: "" });
  if (letter === "x") return coded(text, { from: at + 2, digits: 2, close: "" });
  const plain = ESCAPES[letter];
  return plain === undefined ? undefined : { text: plain, end: at + 2 };
}

interface Coded {
  readonly from: number;
  readonly digits: number;
  readonly close: string;
}

function coded(text: string, { from, digits, close }: Coded): Decoded | undefined {
  const end = runEnd(text, from, HEX, from + digits);
  const point = Number.parseInt(text.slice(from, end), 16);
  if (end === from || (close === "" && end - from < digits) || !text.startsWith(close, end) || point > 0x10ffff)
    return undefined;
  return { text: String.fromCodePoint(point), end: end + close.length };
}

/** A terminal's control sequence, or the escape character alone. */
function sequenceEnd(text: string, at: number): number {
  if (text[at + 1] !== "[") return at + 1;
  let end = at + 2;
  while (end < at + SEQUENCE_CHARS_MAX && text.charCodeAt(end) >= 0x20 && text.charCodeAt(end) < 0x40) end += 1;
  return isA(text, end, LETTER) ? end + 1 : at + 1;
}
