import {
  BLANK,
  DASH,
  DIGIT,
  isA,
  isOneOf,
  LINE_END,
  PLUS_SLASH,
  QUOTE,
  runEnd,
  runStart,
} from "../views/characters.ts";

/** UTF-16 units. */
const NAME_CHARS_MAX = 96;
const GAP_CHARS_MAX = 64;
const BLOCK_CHARS_MAX = 4_096;

interface Lines {
  readonly start: number;
  readonly end: number;
}

/** YAML's `name: |`: the lines below that stand farther in than the name. */
export function blockLines(text: string, from: number, at: number): Lines | undefined {
  if (!isOneOf(text, at, "|>")) return undefined;
  const mark = runEnd(text, at + 1, DIGIT | DASH | PLUS_SLASH, at + 3);
  const lineEnd = runEnd(text, mark, BLANK, mark + GAP_CHARS_MAX);
  const indent = from - runStart(text, from, BLANK | DASH | QUOTE, from - NAME_CHARS_MAX);
  const first = nextLine(text, lineEnd);
  if (first === -1 || indentOf(text, first) <= indent) return undefined;
  const start = first + indentOf(text, first);
  let end = start;
  for (let line = first; line !== -1 && line < start + BLOCK_CHARS_MAX && indentOf(text, line) > indent; ) {
    end = lineEndAfter(text, line);
    line = nextLine(text, end);
  }
  return { start, end };
}

/** Where the line behind the line end at `at` begins; -1 when there is none. */
function nextLine(text: string, at: number): number {
  if (!isA(text, at, LINE_END)) return -1;
  const next = text.startsWith("\r\n", at) ? at + 2 : at + 1;
  return next < text.length ? next : -1;
}

function indentOf(text: string, line: number): number {
  return runEnd(text, line, BLANK, line + GAP_CHARS_MAX) - line;
}

function lineEndAfter(text: string, from: number): number {
  const limit = Math.min(text.length, from + BLOCK_CHARS_MAX);
  let at = from;
  while (at < limit && !isA(text, at, LINE_END)) at += 1;
  return at;
}
