import { ALPHANUMERIC, BLANK, isA, isOneOf, LINE_END, QUOTE, runEnd } from "../../views/characters.ts";

/** Before a quotation mark, to tell whether it opens or closes. UTF-16 units. */
const LINE_CHARS_MAX = 128;
const GAP_CHARS_MAX = 8;

const LINE_FEED = 0x0a;
const BACKSLASH = 0x5c;

const SIGNS_BEHIND_STRINGS = ")]},;.:+?&|*/%=!<>";

/**
 * Whether the quotation mark at `quote` closes a program's string that holds the name at `from`, so that what follows is no
 * value: `"TOKEN=");`, `"password: " + x`. A mark that may be either opens.
 */
export function endsString(text: string, quote: number, from: number): boolean {
  if (isOneOf(text, quote - 1, "\\") || isA(text, quote + 1, ALPHANUMERIC | QUOTE)) return false;
  if (from < quote && text[from - 1] === text[quote]) return true;
  const next = runEnd(text, quote + 1, BLANK, quote + GAP_CHARS_MAX);
  return (isA(text, next, LINE_END) || isOneOf(text, next, SIGNS_BEHIND_STRINGS)) && isOddOnLine(text, quote);
}

/** Whether the line holds an odd number of such marks before this one. False of a line that is too long to tell. */
function isOddOnLine(text: string, quote: number): boolean {
  const mark = text.charCodeAt(quote);
  const limit = Math.max(-1, quote - LINE_CHARS_MAX);
  let isOdd = false;
  for (let at = quote - 1; at > limit; at -= 1) {
    const code = text.charCodeAt(at);
    if (code === LINE_FEED) return isOdd;
    if (code === mark && text.charCodeAt(at - 1) !== BACKSLASH) isOdd = !isOdd;
  }
  return limit === -1 && isOdd;
}

/** Behind the letter that says what sort of string follows: `N'…'`, `b"…"`. */
export function behindPrefix(text: string, at: number): number {
  return isOneOf(text, at, "NEbBrRuU") && isA(text, at + 1, QUOTE) ? at + 1 : at;
}

const TAG_CHARS_MAX = 64;

/** Behind the tag that begins at `at`; -1 when none does. */
export function tagEnd(text: string, at: number): number {
  if (!isOneOf(text, at, "<")) return -1;
  let end = at + 1;
  while (end < at + TAG_CHARS_MAX && !isOneOf(text, end, "<>") && end < text.length) end += 1;
  return isOneOf(text, end, ">") ? end + 1 : -1;
}
