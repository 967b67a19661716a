import { DASH, DIGIT, DOT, isA, isOneOf, LOWER, runStart, UNDERSCORE, UPPER } from "../views/characters.ts";

/** A word of a name in snake, kebab, camel or dotted case. */
export interface NameWord {
  /** In lower case, without the digits at its end. */
  readonly word: string;
  readonly start: number;
}

/** The last word that ends at `to` or before; undefined when none does. */
export function wordBefore(name: string, to: number): NameWord | undefined {
  let end = to;
  while (end > 0) {
    while (end > 0 && separates(name, end - 1)) end -= 1;
    let start = end;
    while (start > 0 && (start === end || !beginsWord(name, start)) && !separates(name, start - 1)) start -= 1;
    const word = withoutDigits(name.slice(start, end).toLowerCase());
    if (word !== "") return { word, start };
    end = start;
  }
  return undefined;
}

function separates(name: string, at: number): boolean {
  return isA(name, at, UNDERSCORE | DOT | DASH) || isOneOf(name, at, "[]/ ");
}

const ASCII_MAX = 0x7f;

/** `camelCase`, `HTTPServer`, `API1`: whether a word begins at a character that stands behind no separator. */
function beginsWord(name: string, at: number): boolean {
  if (name.charCodeAt(at) > ASCII_MAX || name.charCodeAt(at - 1) > ASCII_MAX) return false;
  const isBehindCapital = isA(name, at - 1, UPPER);
  if (isA(name, at, UPPER)) return !isBehindCapital || isA(name, at + 1, LOWER);
  return isBehindCapital && !isA(name, at, LOWER);
}

function withoutDigits(word: string): string {
  const end = runStart(word, word.length, DIGIT);
  return end === word.length || word.endsWith("64") || word === "i18n" ? word : word.slice(0, end);
}

/** What stands behind the last separator, in lower case, without the digits at its end. */
export function lastPart(name: string): string {
  let start = name.length;
  while (start > 0 && !separates(name, start - 1)) start -= 1;
  return withoutDigits(name.slice(start).toLowerCase());
}
