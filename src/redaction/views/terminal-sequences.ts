import { isA, LINE_END } from "./characters.ts";

const ESCAPE = 0x1b;
const CONTROL = 0x9b;
const BACKSLASH = 0x5c;
const BELL = 0x07;

/** UTF-16 units. */
const SEQUENCE_CHARS_MAX = 64;
const STRING_CHARS_MAX = 256;

/** Where a terminal's control sequence ends, or the escape character alone. */
export function sequenceEnd(text: string, at: number): number {
  const kind = text[at + 1] ?? "";
  if (kind === "[") return controlEnd(text, at + 2) ?? at + 1;
  if (kind === "]" || kind === "P" || kind === "_" || kind === "^") return stringEnd(text, at + 2) ?? at + 1;
  return at + 1;
}

/** Behind the letter that ends the parameters which begin at `from`. */
function controlEnd(text: string, from: number): number | undefined {
  let end = from;
  while (end < from + SEQUENCE_CHARS_MAX && text.charCodeAt(end) >= 0x20 && text.charCodeAt(end) < 0x40) end += 1;
  const final = text.charCodeAt(end);
  return final >= 0x40 && final <= 0x7e ? end + 1 : undefined;
}

/** A title or a link: what it says stays hidden behind a bell or `ESC \`. */
function stringEnd(text: string, from: number): number | undefined {
  for (let end = from; end < from + STRING_CHARS_MAX && end < text.length; end += 1) {
    const code = text.charCodeAt(end);
    if (code === BELL) return end + 1;
    if (code === ESCAPE) return text[end + 1] === "\\" ? end + 2 : undefined;
    if (isA(text, end, LINE_END)) return undefined;
  }
  return undefined;
}

/** Taking one out may join another one; deeper nesting is nobody's but an attacker's. */
const PASSES_MAX = 8;

/**
 * Without what colours a terminal or moves its cursor, sent or written out (`\u001b[31m`). The very same string when there is
 * none; idempotent.
 */
export function withoutSequences(text: string): string {
  let before = text;
  for (let pass = 0; pass < PASSES_MAX; pass += 1) {
    const after = withoutOnce(before, false);
    if (after === before) return before;
    before = after;
  }
  return withoutOnce(before, true);
}

/** `onlyMark`: takes the backslash alone, so that nothing can be joined. */
function withoutOnce(text: string, onlyMark: boolean): string {
  const parts: string[] = [];
  let from = 0;
  for (let at = nextMark(text, 0); at !== -1; at = nextMark(text, Math.max(from, at + 1))) {
    const end = onlyMark && text[at] === "\\" ? markedEnd(text, at) : stretchEnd(text, at);
    if (end === at) continue;
    parts.push(text.slice(from, at));
    from = end;
  }
  return from === 0 ? text : parts.join("") + text.slice(from);
}

/** Behind the backslash, when an escape is written out there. */
function markedEnd(text: string, at: number): number {
  return stretchEnd(text, at) === at ? at : at + 1;
}

function nextMark(text: string, from: number): number {
  for (let at = from; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === ESCAPE || code === CONTROL || code === BACKSLASH) return at;
  }
  return -1;
}

/** Where what stands at `at` ends; `at` itself when that is no sequence. */
function stretchEnd(text: string, at: number): number {
  const code = text.charCodeAt(at);
  if (code === ESCAPE) return sequenceEnd(text, at);
  if (code === CONTROL) return controlEnd(text, at + 1) ?? at + 1;
  const bracket = at + writtenOutChars(text, at);
  return bracket === at || text[bracket] !== "[" ? at : (controlEnd(text, bracket + 1) ?? at);
}

/** How many characters spell the escape character here, backslash and all: `\u001b`, `\u{1b}`, `\x1b`, `\033`, `\e`. */
function writtenOutChars(text: string, at: number): number {
  switch (text[at + 1]) {
    case "e":
    case "E":
      return 2;
    case "0":
      return text.startsWith("33", at + 2) ? 4 : 0;
    case "x":
      return isOneB(text, at + 2) ? 4 : 0;
    case "u":
      if (text.startsWith("00", at + 2)) return isOneB(text, at + 4) ? 6 : 0;
      return text[at + 2] === "{" && isOneB(text, at + 3) && text[at + 5] === "}" ? 6 : 0;
    default:
      return 0;
  }
}

function isOneB(text: string, at: number): boolean {
  return text[at] === "1" && (text[at + 1] === "b" || text[at + 1] === "B");
}
