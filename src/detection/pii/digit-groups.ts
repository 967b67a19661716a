import type { Work } from "../bounds.ts";
import type { Finding } from "../finding.ts";
import { BLANK, classesIn, classOf, DASH, DIGIT, DOT, isA, LINE_END, runEnd, UNDERSCORE } from "../views/characters.ts";

/**
 * A finding with a confidence from 0 to 1: `CERTAIN` for a checksum or a unique shape, `POSSIBLE` for a shape that other values
 * share.
 */
export interface PiiFinding extends Finding {
  readonly confidence: number;
  /** The nearby word that identifies the finding. */
  readonly context?: string | undefined;
}

export const CERTAIN = 0.95;
export const LIKELY = 0.7;
export const POSSIBLE = 0.3;

export interface NumberSearch {
  readonly text: string;
  readonly groups: DigitGroups;
  readonly work: Work;
}

const TAB = 0x09;
const SLASH = 0x2f;
const OPENING = 0x28;
const CLOSING = 0x29;
const GROUPS_MAX = 40;
const SEPARATOR_CHARS_MAX = 3;

/** Maximum length of the indentation after a line end. UTF-16 units. */
const INDENTATION_MAX = 16;

const PLAIN = BLANK | DASH | DOT | UNDERSCORE;

/**
 * Groups of digits with separators between them: `4111 1111 1111 1111`, `(415) 555-2671`. One object is reused for all groups of
 * a text.
 */
export class DigitGroups {
  readonly #text: string;
  readonly #starts = new Int32Array(GROUPS_MAX);
  readonly #ends = new Int32Array(GROUPS_MAX);
  /** Flag for each group: 1 when a line ends before it. */
  readonly #lines = new Uint8Array(GROUPS_MAX);
  count = 0;
  digits = 0;
  /** True when a tab follows one of the groups: they may be columns of a table. */
  hasTabs = false;

  constructor(text: string) {
    this.#text = text;
  }

  /** Reads the groups that start with the digit at `from`. `beginsLine` is true when no group of the same line comes before. */
  read(from: number, beginsLine = true): void {
    const text = this.#text;
    this.count = 0;
    this.digits = 0;
    this.hasTabs = false;
    let at = from;
    this.#lines[0] = beginsLine ? 1 : 0;
    while (this.count < GROUPS_MAX) {
      const end = runEnd(text, at, DIGIT);
      this.#starts[this.count] = at;
      this.#ends[this.count] = end;
      this.count += 1;
      this.digits += end - at;
      if (text.charCodeAt(end) === TAB) this.hasTabs = true;
      const next = separatorEnd(text, end);
      if (next === end || !isA(text, next, DIGIT)) return;
      if (this.count < GROUPS_MAX) this.#lines[this.count] = (classesIn(text, end, next) & LINE_END) === 0 ? 0 : 1;
      at = next;
    }
  }

  cut(group: number): void {
    while (this.count > group) {
      this.count -= 1;
      this.digits -= this.sizeOf(this.count);
    }
  }

  /** True when the limit was reached before the groups ended. */
  get isCut(): boolean {
    return this.count === GROUPS_MAX;
  }

  /** Returns the number of separators with a line end from group `first` to group `last`. */
  lineEnds(first = 0, last = this.count - 1): number {
    let found = 0;
    for (let group = first + 1; group <= last; group += 1) if (this.beginsLine(group)) found += 1;
    return found;
  }

  /** Returns whether a line ends before this group, or nothing comes before it. */
  beginsLine(group: number): boolean {
    return this.#lines[group] === 1;
  }

  /** Returns whether a tab or more than one space is before this group, as between the columns of a table. */
  beginsColumn(group: number): boolean {
    const gap = this.separatorBefore(group);
    return gap.includes("\t") || gap.includes("  ");
  }

  opensAt(group: number): boolean {
    return this.separatorBefore(group).includes("(");
  }

  isSpacedAt(group: number): boolean {
    return /[ \t]/.test(this.separatorBefore(group));
  }

  part(first: number, last: number): DigitGroups {
    const part = new DigitGroups(this.#text);
    for (let group = first; group <= last; group += 1) {
      part.#starts[part.count] = this.startOf(group);
      part.#ends[part.count] = this.endOf(group);
      part.#lines[part.count] = group === first || this.beginsLine(group) ? 1 : 0;
      part.count += 1;
      part.digits += this.sizeOf(group);
    }
    return part;
  }

  get start(): number {
    return this.startOf(0);
  }

  get end(): number {
    return this.endOf(this.count - 1);
  }

  startOf(group: number): number {
    return this.#starts[group] ?? 0;
  }

  endOf(group: number): number {
    return this.#ends[group] ?? 0;
  }

  sizeOf(group: number): number {
    return this.endOf(group) - this.startOf(group);
  }

  separatorBefore(group: number): string {
    return this.#text.slice(this.endOf(group - 1), this.startOf(group));
  }

  separators(first = 0, last = this.count - 1): string {
    let joined = "";
    for (let group = first + 1; group <= last; group += 1) joined += this.separatorBefore(group);
    return joined;
  }

  digitsOf(first: number, last: number): string {
    let joined = "";
    for (let group = first; group <= last; group += 1)
      joined += this.#text.slice(this.startOf(group), this.endOf(group));
    return joined;
  }
}

/**
 * Returns whether more digits may follow those that end at `end`: a separator must follow, and after it a digit or another
 * separator.
 */
export function mayContinue(text: string, end: number): boolean {
  return isSeparator(text.charCodeAt(end)) && (isA(text, end + 1, DIGIT) || isSeparator(text.charCodeAt(end + 1)));
}

function isSeparator(code: number): boolean {
  return (classOf(code) & (PLAIN | LINE_END)) !== 0 || code === SLASH || code === OPENING || code === CLOSING;
}

function separatorEnd(text: string, from: number): number {
  let at = from;
  let limit = from + SEPARATOR_CHARS_MAX;
  while (at < limit) {
    const code = text.charCodeAt(at);
    if ((classOf(code) & LINE_END) !== 0) limit = at + INDENTATION_MAX;
    else if (!isSeparator(code)) return at;
    at += 1;
  }
  return at;
}
