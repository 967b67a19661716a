import { splitAtLookAlikes, withVisibleEscapes } from "../../core/printable.ts";

/** A piece of text from outside, as it is shown. */
export interface Piece {
  /**
   * `escape`: a character that would show nothing or mislead, as `\u{…}`. `end`: a line end. `gap`: a long run of spaces.
   * `alike`: a letter of another script that looks like a letter of the word's script.
   */
  readonly kind: "text" | "escape" | "end" | "gap" | "alike";
  readonly text: string;
}

/** Matches line ends, other escapes, runs of spaces that could push text out of sight, and the arrow that represents a line end. */
const SPECIAL = /\\u\{a\}|\\u\{[0-9a-f]{1,6}\}| {25,}|↵/g;

/**
 * Returns a text from outside as lines of pieces. Each line end, control, format character (bidi, zero width, tags) and other
 * invisible character is a piece of its own. The service has escaped some texts before; they are shown the same.
 */
export function linesOf(text: string): readonly (readonly Piece[])[] {
  const shown = withVisibleEscapes(text);
  const lines: Piece[][] = [];
  let line: Piece[] = [];
  let at = 0;
  for (const found of shown.matchAll(SPECIAL)) {
    const [special] = found;
    line.push(...textPieces(shown.slice(at, found.index)));
    at = found.index + special.length;
    if (special === "↵") line.push({ kind: "escape", text: "\\u{21b5}" });
    else if (special.startsWith(" ")) line.push({ kind: "gap", text: `⟦${special.length} spaces⟧` });
    else if (special === "\\u{a}") {
      // After a backslash it may be an escape of an escape: then nobody knows, and the characters themselves are shown.
      line.push({ kind: "end", text: shown[found.index - 1] === "\\" ? special : "↵" });
      lines.push(line);
      line = [];
    } else line.push({ kind: shown[found.index - 1] === "\\" ? "text" : "escape", text: special });
  }
  line.push(...textPieces(shown.slice(at)));
  if (line.length > 0 || lines.length === 0) lines.push(line);
  return lines;
}

function textPieces(text: string): readonly Piece[] {
  return splitAtLookAlikes(text).flatMap((part, at): Piece[] =>
    part === "" ? [] : [{ kind: at % 2 === 0 ? "text" : "alike", text: part }],
  );
}
