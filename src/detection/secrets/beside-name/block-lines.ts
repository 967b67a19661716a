import { BLANK, DASH, DIGIT, isOneOf, PLUS_SLASH, QUOTE, runEnd, runStart } from "../../views/characters.ts";
import { behindLineEnd, lineEnd, type Stretch } from "../stretches.ts";

/** UTF-16 units. */
const NAME_CHARS_MAX = 96;
const GAP_CHARS_MAX = 64;
const BLOCK_CHARS_MAX = 32_768;

/** YAML's `name: |`: the lines below that stand farther in than the name. */
export function blockLines(text: string, from: number, at: number): Stretch | undefined {
  if (!isOneOf(text, at, "|>")) return undefined;
  const mark = runEnd(text, at + 1, DIGIT | DASH | PLUS_SLASH, at + 3);
  const headEnd = runEnd(text, mark, BLANK, mark + GAP_CHARS_MAX);
  const indent = from - runStart(text, from, BLANK | DASH | QUOTE, from - NAME_CHARS_MAX);
  const first = nextLine(text, headEnd);
  if (first === -1 || indentOf(text, first) <= indent) return undefined;
  const start = first + indentOf(text, first);
  let end = start;
  for (let line = first; line !== -1 && line < start + BLOCK_CHARS_MAX && indentOf(text, line) > indent; ) {
    end = lineEnd(text, line, line + BLOCK_CHARS_MAX);
    line = nextLine(text, end);
  }
  return { start, end };
}

/** Where the line behind the line end at `at` begins; -1 when there is none. */
function nextLine(text: string, at: number): number {
  const next = behindLineEnd(text, at);
  return next > at && next < text.length ? next : -1;
}

function indentOf(text: string, line: number): number {
  return runEnd(text, line, BLANK, line + GAP_CHARS_MAX) - line;
}
