import { BLANK, endBefore, isOneOf, LINE_END, QUOTE, runEnd, STOP } from "../../views/characters.ts";
import type { ValueStyle } from "../values.ts";

/** UTF-16 units. */
const GAP_CHARS_MAX = 16;
const VALUE_CHARS_MAX = 128;

/** A value that stands beside its name without `=` or `:` between them. */
export interface Stated {
  readonly start: number;
  /** Of a quoted value undefined: its quotation mark ends it. */
  readonly end?: number;
  readonly style: ValueStyle;
}

export interface Name {
  readonly from: number;
  readonly to: number;
  /** Behind its quotation mark, when it has one. */
  readonly at: number;
}

/** A word of the text, without the mark that ends its sentence. */
export function bare(text: string, start: number, style: ValueStyle): Stated | undefined {
  const end = endBefore(text, start, BLANK | LINE_END | QUOTE | STOP, start + VALUE_CHARS_MAX);
  const isEnd = style === "told" && isOneOf(text, end - 1, ".!?)");
  const last = isEnd ? end - 1 : end;
  return last > start ? { start, end: last, style } : undefined;
}

export function blanksEnd(text: string, at: number): number {
  return runEnd(text, at, BLANK, at + GAP_CHARS_MAX);
}
