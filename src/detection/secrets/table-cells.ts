import { BLANK, isA, isOneOf, isWrittenEnd, LINE_END, QUOTE, runEnd, runStart } from "../views/characters.ts";
import { behindLineEnd, type Stretch } from "./stretches.ts";

/** What divides a line into cells: a character, or two blanks and more. */
export type Divider = "|" | "\t" | "," | ";" | "  ";

/** Of a line. UTF-16 units. */
export const LINE_CHARS_MAX = 4_096;
export const CELLS_MAX = 64;

/** Where the line at `from` ends, also when the line end is written out (`\n`); `limit` when it is too long. */
export function rowEnd(text: string, from: number, limit: number = from + LINE_CHARS_MAX): number {
  const end = Math.min(text.length, limit);
  let at = from;
  while (at < end && !isA(text, at, LINE_END) && !isWrittenEnd(text, at)) at += 1;
  return at;
}

/** Behind the line end at `at`; `at` itself when none stands there. */
export function nextRow(text: string, at: number): number {
  const next = behindLineEnd(text, at);
  if (next > at) return next;
  if (text.startsWith("\\r\\n", at)) return at + 4;
  return isWrittenEnd(text, at) ? at + 2 : at;
}

/** The cells of a line, without blanks and quotation marks around them; empty when there are too many. */
export function cellsOf(text: string, line: Stretch, divider: Divider): readonly Stretch[] {
  const cells: Stretch[] = [];
  let from = line.start;
  while (from <= line.end) {
    const end = cellEnd(text, { start: from, end: line.end }, divider);
    cells.push(bared(text, { start: from, end }));
    if (cells.length > CELLS_MAX) return [];
    if (end >= line.end) break;
    from = divider === "  " ? runEnd(text, end, BLANK, line.end) : end + 1;
    if (divider === "  " && from >= line.end) break;
  }
  return divider === "|" ? withoutEdges(cells) : cells;
}

function cellEnd(text: string, { start, end }: Stretch, divider: Divider): number {
  const from = divider === "  " || divider === "|" ? start : behindQuoted(text, { start, end });
  const at = text.slice(from, end).indexOf(divider);
  return at === -1 ? end : from + at;
}

/** In quotation marks the divider counts for nothing. */
function behindQuoted(text: string, { start, end }: Stretch): number {
  const mark = isOneOf(text, start, "\\") ? '\\"' : '"';
  if (!text.startsWith(mark, start)) return start;
  const line = text.slice(start, end);
  for (let close = mark.length; ; ) {
    const next = line.indexOf(mark, close);
    if (next === -1) return start;
    if (!line.startsWith(mark, next + mark.length)) return start + next + mark.length;
    close = next + mark.length * 2;
  }
}

/** Two marks of quotation and what is escaped before them: no cell has more. */
const MARKS_MAX = 3;

function bared(text: string, { start, end }: Stretch): Stretch {
  const first = runEnd(text, start, BLANK, end);
  const last = runStart(text, end, BLANK, first);
  let from = first;
  while (from < last && from < first + MARKS_MAX && (isA(text, from, QUOTE) || isOneOf(text, from, "\\"))) from += 1;
  if (from === first) return { start: first, end: last };
  let to = last;
  while (to > from && to > last - MARKS_MAX && (isA(text, to - 1, QUOTE) || isOneOf(text, to - 1, "\\"))) to -= 1;
  return { start: from, end: to };
}

/** `| a | b |` has no cells before its first and behind its last mark. */
function withoutEdges(cells: readonly Stretch[]): readonly Stretch[] {
  const isEmpty = (cell: Stretch | undefined) => cell !== undefined && cell.start >= cell.end;
  return cells.slice(Number(isEmpty(cells[0])), isEmpty(cells.at(-1)) ? -1 : undefined);
}
