import { escapeCodePoint } from "../core/terminal-text.ts";

/** What is left as it is. Whatever this does not know, another Unicode version's characters too, is escaped. */
const SHOWN = /^[\p{L}\p{N}\p{P}\p{S} ]$/u;
/** Shown by name only: fillers, joiners, variation selectors, tags; blanks that count as symbols; the marks of `spaces`. */
const BLANK = /^[\p{Default_Ignorable_Code_Point}\u2800\u{1d159}\u27e6\u27e7]$/u;
const MARK = /^\p{M}$/u;
/** Drawn over or around the letter before them. */
const OVERLAY = /^(?:\p{Me}|[\u0334-\u0338]|[\u20d0-\u20ff])$/u;
const MARKED = /^[\p{L}\p{N}]$/u;
const PLAIN_ASCII = /^[\x20-\x7e]*$/;
const LONG_SPACES = / {4,}/g;
const COLUMN_GAP = / {2,}/g;
const NOT_ASCII = /[^\x20-\x7e]/gu;

/** As many as any script stacks on a letter. */
const MARKS_MAX = 4;

/**
 * Somebody's text for a terminal, on one line, in which every character is seen and none moves the cursor: controls, line ends,
 * formats (bidi, zero width, tags), other blanks, lone surrogates, private and unassigned characters stand as `\u{…}`, and more
 * than three spaces as their count. A backslash stays one: the service doubles those that spell out an escape.
 */
export function printable(text: string): string {
  return visible(text).replace(LONG_SPACES, countSpaces);
}

/** The same for a column of a table: no gap in it that looks like the next column. */
export function printableCell(text: string): string {
  return visible(text).replace(COLUMN_GAP, countSpaces);
}

/** The same in ASCII alone, so that look-alike letters and letters that are written from right to left show. */
export function printableAscii(text: string): string {
  return text.replace(NOT_ASCII, escapeCodePoint).replace(LONG_SPACES, (spaces) => `\\u{20}*${spaces.length}`);
}

const RIGHT_TO_LEFT =
  /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\u0800-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const WORD_ENDS = /[^\p{L}\p{M}]/u;
const LATIN = /\p{Script=Latin}/u;
/** Scripts with letters that look like Latin ones. */
const LOOK_ALIKE =
  /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}\p{Script=Coptic}\p{Script=Lisu}]/u;

/** Whether a reader could take it for something else: one word of two scripts, or letters that turn the order around. */
export function isMisreadable(text: string): boolean {
  if (PLAIN_ASCII.test(text)) return false;
  if (RIGHT_TO_LEFT.test(text)) return true;
  return text.split(WORD_ENDS).some((word) => LATIN.test(word) && LOOK_ALIKE.test(word));
}

export function isAscii(text: string): boolean {
  return PLAIN_ASCII.test(text);
}

function visible(text: string): string {
  return PLAIN_ASCII.test(text) ? text : escapeHidden(text);
}

function countSpaces(spaces: string): string {
  return `⟦${spaces.length} spaces⟧`;
}

function escapeHidden(text: string): string {
  let shown = "";
  let marks = MARKS_MAX;
  for (const character of text) {
    const isMark = MARK.test(character) && !BLANK.test(character);
    marks = isMark ? marks + 1 : MARKS_MAX;
    if (MARKED.test(character)) marks = 0;
    const isSeen = isMark ? marks <= MARKS_MAX && !OVERLAY.test(character) : SHOWN.test(character);
    shown += isSeen && !BLANK.test(character) ? character : escapeCodePoint(character);
  }
  return shown;
}
