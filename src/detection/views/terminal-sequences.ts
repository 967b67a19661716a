import { isA, LINE_END } from "./characters.ts";

const ESCAPE = 0x1b;
/** Stands for an escape character and a bracket. */
const CONTROL = 0x9b;
const BELL = 0x07;

/** UTF-16 units. */
const SEQUENCE_CHARS_MAX = 64;
const STRING_CHARS_MAX = 256;

/** Taking one out may join another one; deeper nesting is nobody's but an attacker's. */
const PASSES_MAX = 8;

/** Where the sequence ends that begins at `at`, or the character alone with which it would. */
export function sequenceEnd(text: string, at: number): number {
  if (text.charCodeAt(at) === CONTROL) return controlEnd(text, at + 1) ?? at + 1;
  const kind = text[at + 1] ?? "";
  if (kind === "[") return controlEnd(text, at + 2) ?? at + 1;
  if (kind === "]" || kind === "P" || kind === "_" || kind === "^") return stringEnd(text, at + 2) ?? at + 1;
  return at + 1;
}

/**
 * Where the control sequence begins in which `at` stands, or which a bracket at `at` would make; `at` when there is none. What is
 * put there must not be taken for a part of it.
 */
export function sequenceStart(text: string, at: number): number {
  let start = at;
  for (let pass = 0; pass < PASSES_MAX; pass += 1) {
    const before = openedBefore(text, start);
    if (before === start) break;
    start = before;
  }
  return start;
}

function openedBefore(text: string, at: number): number {
  let from = at;
  while (from > at - SEQUENCE_CHARS_MAX && text.charCodeAt(from - 1) >= 0x20 && text.charCodeAt(from - 1) < 0x40)
    from -= 1;
  const before = text.charCodeAt(from - 1);
  if (before === CONTROL || (before === ESCAPE && from === at)) return from - 1;
  return text[from - 1] === "[" && text.charCodeAt(from - 2) === ESCAPE ? from - 2 : at;
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

/**
 * Without what colours a terminal or moves its cursor. Sequences that are written out (`\u001b[31m`) are text, such as a
 * script's source: they stay. The very same string when there is none; idempotent.
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

/** `onlyMark`: takes the escape character alone, so that nothing can be joined. */
function withoutOnce(text: string, onlyMark: boolean): string {
  const parts: string[] = [];
  let from = 0;
  for (let at = nextMark(text, 0); at !== -1; at = nextMark(text, from)) {
    parts.push(text.slice(from, at));
    from = onlyMark ? at + 1 : sequenceEnd(text, at);
  }
  return from === 0 ? text : parts.join("") + text.slice(from);
}

function nextMark(text: string, from: number): number {
  for (let at = from; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === ESCAPE || code === CONTROL) return at;
  }
  return -1;
}
