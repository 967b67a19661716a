import { lineWithin } from "../../core/partial-answer.ts";

/**
 * The text, or its beginning and how much of it was left out: at most `charactersMax` UTF-16 units, up to 256 fewer where a word
 * would be cut in two.
 */
export function truncateText(text: string, charactersMax: number): string {
  if (text.length <= charactersMax) return text;
  const kept = lineWithin(text, charactersMax);
  return `${kept}… [${text.length - kept.length} more characters]`;
}

export interface LineBudget {
  readonly linesMax: number;
  /** Of one line; what is over it is cut off, and the line says so. */
  readonly lineCharactersMax: number;
  /** Of all lines together. */
  readonly charactersMax: number;
  /** Which end stays when not all of them fit. */
  readonly keep: "first" | "last";
}

export interface FittedLines {
  /** In the order in which they came. */
  readonly lines: readonly string[];
  readonly droppedLines: number;
}

/** As many lines as fit. How many were dropped is counted, so that nobody takes a part for the whole. */
export function fitLines(
  lines: readonly string[],
  { linesMax, lineCharactersMax, charactersMax, keep }: LineBudget,
): FittedLines {
  const wanted = keep === "first" ? lines : lines.toReversed();
  const kept: string[] = [];
  let characters = 0;
  for (const line of wanted.slice(0, linesMax)) {
    const cut = truncateText(line, lineCharactersMax);
    characters += cut.length;
    if (characters > charactersMax) break;
    kept.push(cut);
  }
  return { lines: keep === "first" ? kept : kept.reverse(), droppedLines: lines.length - kept.length };
}
