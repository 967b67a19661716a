import type { Finding } from "../finding.ts";
import { ALPHANUMERIC, BLANK, beginsWord, classesIn, isA, LINE_END, QUOTE, runEnd } from "../views/characters.ts";
import type { TokenFormat } from "./token-formats.ts";

/** A token may be cut by this many line ends or joins of quoted strings. */
const BREAKS_MAX = 12;

/** Between two pieces: line end, indentation, quotes, `+`, a backslash. UTF-16 units. */
const BREAK_CHARS_MAX = 48;

/** Of a token cut in pieces, the prefix is followed by this many characters at least, lest a word at a line's end counts. */
const FIRST_PIECE_CHARS_MIN = 4;

/**
 * The token of this format whose prefix stands at `start`. A number says that none begins before it: a run that is too short
 * or too plain stays so for a prefix further inside it, so that it is read once.
 */
export function matchToken(text: string, start: number, format: TokenFormat): Finding | number | undefined {
  const { rule, prefix, classes, min, needs } = format;
  const body = start + prefix.length;
  if (format.loose === true ? !isInOneCase(text.slice(start, body), prefix) : !beginsAt(text, start, prefix))
    return undefined;
  if (format.exact === true) return matchExact(text, start, format);
  const enough = runEnd(text, body, classes, body + min);
  if (enough - body < min) return joinPieces(text, start, { format, firstEnd: enough }) ?? enough;
  const end = runEnd(text, enough, classes);
  return needs === undefined || hasAll(classesIn(text, body, end), needs) ? { rule, start, end } : end;
}

function beginsAt(text: string, start: number, prefix: string): boolean {
  return text.startsWith(prefix, start) && beginsWord(text, start);
}

/** Random text has a prefix's letters in both cases: `xOxP-`. */
function isInOneCase(written: string, prefix: string): boolean {
  return written === prefix || written === written.toLowerCase() || written === written.toUpperCase();
}

function matchExact(text: string, start: number, format: TokenFormat): Finding | undefined {
  const { rule, prefix, classes, min, needs } = format;
  const body = start + prefix.length;
  const end = runEnd(text, body, classes, body + min);
  if (end - body < min) return joinPieces(text, start, { format, firstEnd: end });
  if (isA(text, end, classes | ALPHANUMERIC) || !hasAll(classesIn(text, body, end), needs)) return undefined;
  return { rule, start, end };
}

function hasAll(seen: number, needs: readonly number[] = []): boolean {
  return needs.every((need) => (seen & need) !== 0);
}

interface Pieces {
  readonly format: TokenFormat;
  readonly firstEnd: number;
}

/** A token that line ends or a join of quoted strings cut. */
function joinPieces(text: string, start: number, { format, firstEnd }: Pieces): Finding | undefined {
  const body = start + format.prefix.length;
  if (firstEnd - body < FIRST_PIECE_CHARS_MIN) return undefined;
  let missing = format.min - (firstEnd - body);
  let seen = classesIn(text, body, firstEnd);
  let end = firstEnd;
  for (let breaks = 0; breaks < BREAKS_MAX; breaks += 1) {
    const piece = pieceAfter(text, end);
    const pieceEnd = runEnd(text, piece, format.classes, piece + missing + 1);
    if (piece === end || pieceEnd === piece) return undefined;
    seen |= classesIn(text, piece, pieceEnd);
    missing -= pieceEnd - piece;
    end = pieceEnd;
    if (missing > 0) continue;
    if (format.exact === true && missing < 0) return undefined;
    return hasAll(seen, format.needs)
      ? { rule: format.rule, start, end: runEnd(text, end, format.classes) }
      : undefined;
  }
  return undefined;
}

/** Where the next piece begins; `at` itself when nothing that joins pieces stands here. */
function pieceAfter(text: string, at: number): number {
  const limit = at + BREAK_CHARS_MAX;
  let end = at;
  let joins = false;
  while (end < limit) {
    const character = text[end] ?? "";
    if (isA(text, end, LINE_END | QUOTE) || character === "\\") joins = true;
    else if (!isA(text, end, BLANK) && character !== "+") break;
    end += character === "\\" && isA(text, end + 1, ALPHANUMERIC) ? 2 : 1;
  }
  return joins ? end : at;
}
