import type { Json } from "../../core/types.ts";
import { parseJson } from "./parser.ts";

export interface JsonLines {
  readonly values: readonly Json[];
  /** How many lines hold something that is no JSON. */
  readonly unreadableLines: number;
}

/** JSON values, one a line. A line that cannot be read is counted and does not spoil the others; empty lines are nothing. */
export function parseJsonLines(text: string): JsonLines {
  const values: Json[] = [];
  let unreadableLines = 0;
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    try {
      values.push(parseJson(line));
    } catch {
      unreadableLines += 1;
    }
  }
  return { values, unreadableLines };
}
