import { BLANK, classOf, DASH, DIGIT, DOT, LINE_END, UNDERSCORE } from "../views/characters.ts";

/** Groups of digits with separators between them: `4111 1111 1111 1111`, `(415) 555-2671`. */
export interface DigitGroups {
  readonly starts: readonly number[];
  readonly ends: readonly number[];
  readonly digits: number;
  /** Line ends among the separators. */
  readonly lineEnds: number;
  /** Whether the reader gave up before the groups ended. */
  readonly isCut: boolean;
}

const LINE_FEED = 0x0a;
const GROUPS_MAX = 40;
const SEPARATOR_CHARS_MAX = 3;

/** A line's indentation may follow its end. UTF-16 units. */
const INDENTATION_MAX = 16;

const PLAIN = BLANK | DASH | DOT | UNDERSCORE;

/** The groups that begin with the digit at `from`. */
export function readGroups(text: string, from: number): DigitGroups {
  const starts: number[] = [];
  const ends: number[] = [];
  let digits = 0;
  let lineEnds = 0;
  let at = from;
  while (starts.length < GROUPS_MAX) {
    const end = digitsEnd(text, at);
    starts.push(at);
    ends.push(end);
    digits += end - at;
    const next = separatorEnd(text, end);
    if (next === end || (classOf(text.charCodeAt(next)) & DIGIT) === 0) break;
    if (hasLineEnd(text, end, next)) lineEnds += 1;
    at = next;
  }
  return { starts, ends, digits, lineEnds, isCut: starts.length === GROUPS_MAX };
}

/** How many digits the groups hold that begin at `from`, up to `enough`; and, negative, where they end when there are fewer. */
export function countDigits(text: string, from: number, enough: number): number {
  let digits = 0;
  let at = from;
  for (;;) {
    const end = digitsEnd(text, at);
    digits += end - at;
    if (digits >= enough) return digits;
    const next = separatorEnd(text, end);
    if (next === end || (classOf(text.charCodeAt(next)) & DIGIT) === 0) return -end;
    at = next;
  }
}

export function digitsEnd(text: string, from: number): number {
  let at = from;
  let code = text.charCodeAt(at);
  while (code >= 0x30 && code <= 0x39) {
    at += 1;
    code = text.charCodeAt(at);
  }
  return at;
}

function separatorEnd(text: string, from: number): number {
  let at = from;
  let limit = from + SEPARATOR_CHARS_MAX;
  while (at < limit) {
    const code = text.charCodeAt(at);
    const classes = classOf(code);
    if ((classes & LINE_END) !== 0) limit = at + INDENTATION_MAX;
    else if ((classes & PLAIN) === 0 && code !== 0x2f && code !== 0x28 && code !== 0x29) return at;
    at += 1;
  }
  return at;
}

function hasLineEnd(text: string, from: number, to: number): boolean {
  for (let at = from; at < to; at += 1) if (text.charCodeAt(at) === LINE_FEED) return true;
  return false;
}

/** All separators, joined. */
export function separatorsOf(text: string, { starts, ends }: DigitGroups): string {
  let separators = "";
  for (let group = 1; group < starts.length; group += 1) separators += text.slice(ends[group - 1], starts[group]);
  return separators;
}

/** The digits alone of groups `first` to `last`. */
export function digitsOf(text: string, groups: DigitGroups, first: number, last: number): string {
  let digits = "";
  for (let group = first; group <= last; group += 1) digits += text.slice(groups.starts[group], groups.ends[group]);
  return digits;
}
