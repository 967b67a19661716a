import { isA, LINE_END } from "./characters.ts";

const ESCAPE = 0x1b;
/** C1 control character that is equivalent to an escape character and a bracket. */
const CONTROL = 0x9b;
const BELL = 0x07;

/** Maximum lengths in UTF-16 units. */
const SEQUENCE_CHARS_MAX = 64;
const STRING_CHARS_MAX = 256;

/** Removing a sequence may create another one. Only an attacker nests sequences deeper. */
const PASSES_MAX = 8;

/** Returns the end of the sequence that starts at `at`; the end of its first character when the sequence is incomplete. */
export function sequenceEnd(text: string, at: number): number {
  if (text.charCodeAt(at) === CONTROL) return controlEnd(text, at + 1) ?? at + 1;
  const kind = text[at + 1] ?? "";
  if (kind === "[") return controlEnd(text, at + 2) ?? at + 1;
  if (kind === "]" || kind === "P" || kind === "_" || kind === "^") return stringEnd(text, at + 2) ?? at + 1;
  return at + 1;
}

/**
 * Returns the start of the control sequence that contains `at`, or that a bracket at `at` would complete; `at` when there is
 * none. A replacement is inserted there, so that it is not taken for a part of the sequence.
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

/** Returns the offset after the final letter of a control sequence whose parameters start at `from`. */
function controlEnd(text: string, from: number): number | undefined {
  let end = from;
  while (end < from + SEQUENCE_CHARS_MAX && text.charCodeAt(end) >= 0x20 && text.charCodeAt(end) < 0x40) end += 1;
  const final = text.charCodeAt(end);
  return final >= 0x40 && final <= 0x7e ? end + 1 : undefined;
}

/** Returns the end of a title or a link. Its text is invisible up to a bell or `ESC \`. */
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
 * Removes terminal sequences, which set colours or move the cursor. Escaped sequences (`\u001b[31m`), as in the source of a
 * script, are text and stay. Returns the same string when there is none; idempotent.
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

/** @param onlyMark - removes only the escape character, so that no new sequence can form */
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
