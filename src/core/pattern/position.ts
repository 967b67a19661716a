import type { Edge } from "./parse.ts";

/**
 * Returns the code of the character that begins at a position: a code point if the pattern is Unicode-aware, else a UTF-16
 * unit.
 */
export function characterAfter(text: string, position: number, isUnicode: boolean): number | undefined {
  return isUnicode ? text.codePointAt(position) : unit(text, position);
}

/** Returns the code of the character that ends at a position. */
export function characterBefore(text: string, position: number, isUnicode: boolean): number | undefined {
  const last = unit(text, position - 1);
  if (!isUnicode || last === undefined || last < 0xdc00 || last > 0xdfff) return last;
  const pair = text.codePointAt(position - 2);
  return pair !== undefined && pair > 0xffff ? pair : last;
}

/** Returns the UTF-16 units of a character. */
export function lengthOf(code: number): number {
  return code > 0xffff ? 2 : 1;
}

export function isEdge({ kind, everyLine }: Edge, text: string, position: number): boolean {
  if (position === (kind === "start" ? 0 : text.length)) return true;
  return everyLine && /[\n\r\u2028\u2029]/.test(text[kind === "start" ? position - 1 : position] ?? "");
}

/** Returns whether exactly one side of a position is a word character. */
export function isBoundary(text: string, position: number, isWord: (code: number) => boolean): boolean {
  const [left, right] = [unit(text, position - 1), unit(text, position)];
  return (left !== undefined && isWord(left)) !== (right !== undefined && isWord(right));
}

function unit(text: string, position: number): number | undefined {
  return position >= 0 && position < text.length ? text.charCodeAt(position) : undefined;
}
