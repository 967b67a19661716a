import { escapeCodePoint } from "./terminal-text.ts";

/** Characters that are printed as they are. All others are escaped, including characters of newer Unicode versions. */
const SHOWN = /^[\p{L}\p{N}\p{P}\p{S} ]$/u;
/**
 * Characters that are always escaped: fillers, joiners, variation selectors, tags, blank symbols, and the brackets of
 * `countSpaces`.
 */
const INVISIBLE = /^[\p{Default_Ignorable_Code_Point}\u2800\u{1d159}\u27e6\u27e7]$/u;
const MARK = /^\p{M}$/u;
/** Combining marks drawn over or around the character before them. */
const OVERLAY = /^(?:\p{Me}|[\u0334-\u0338]|[\u20d0-\u20ff])$/u;
const MARKED = /^[\p{L}\p{N}]$/u;
const PLAIN_ASCII = /^[\x20-\x7e]*$/;
const LONG_SPACES = / {4,}/g;
const COLUMN_GAP = / {2,}/g;
const NOT_ASCII = /[^\x20-\x7e]/gu;

/** Maximum number of combining marks after a letter; no writing system in use needs more. */
const MARKS_MAX = 4;

/**
 * Returns untrusted text for a terminal, on one line, so that every character is visible and none moves the cursor. Controls,
 * line ends, format characters (bidi, zero width, tags), other whitespace, lone surrogates, private and unassigned characters
 * become `\u{…}`; more than three spaces become their count. A backslash stays single: the service doubles those that spell an
 * escape.
 */
export function printable(text: string): string {
  return withVisibleEscapes(text).replace(LONG_SPACES, countSpaces);
}

/** Returns the same for a name: words that can be misread follow in ASCII, in brackets that no untrusted text can contain. */
export function printableName(text: string): string {
  return printable(text) + inAscii(text);
}

/** Returns a name for a table column: without gaps that look like the start of the next column. */
export function printableCell(text: string): string {
  return withVisibleEscapes(text).replace(COLUMN_GAP, countSpaces) + inAscii(text);
}

/** Returns a note with the words that can be misread, in ASCII; empty when there are none. */
export function inAscii(text: string): string {
  const ascii = misreadableInAscii(text);
  return ascii === undefined ? "" : ` ⟦in ASCII: ${ascii}⟧`;
}

/** Returns the words that a reader could misread, in ASCII; undefined when there are none. */
export function misreadableInAscii(text: string): string | undefined {
  if (!isMisreadable(text)) return undefined;
  return text.split(/\s+/).filter(isMisreadable).map(printableAscii).join(" ");
}

/** Returns the same in ASCII only, so that look-alike letters and right-to-left letters become visible. */
export function printableAscii(text: string): string {
  return text.replace(NOT_ASCII, escapeCodePoint).replace(LONG_SPACES, (spaces) => `\\u{20}*${spaces.length}`);
}

const RIGHT_TO_LEFT =
  /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\u0800-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const WORD_ENDS = /[^\p{L}\p{M}]/u;
const LATIN = /\p{Script=Latin}/u;
/** Scripts with letters that look like Latin letters. */
const LOOK_ALIKE =
  /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}\p{Script=Coptic}\p{Script=Lisu}]/u;
/**
 * Matches a word in which every letter looks like a Latin letter. Single letters do not count: many are words of their own languages.
 * The letters are Cyrillic, Greek and Armenian ones that look Latin in usual fonts (Unicode TR39), and three whole scripts.
 */
const LATIN_TWINS =
  /^[аеорсухѕіјһԁԛԝӏѵАВЕЅІЈКМНОРСТУХԌԜοννρυΑΒΕΖΗΙΚΜΝΟΡΤΥΧօսհոցզՍՕ\p{Script=Cherokee}\p{Script=Coptic}\p{Script=Lisu}]{2,}$/u;
/**
 * Characters that look like ASCII letters and digits: other forms of them, such as full-width and mathematical ones, small capitals
 * and phonetic letters. The ordinal indicators of Romance languages (ª, º) are not included.
 */
const ASCII_FORMS =
  /[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\u{1d400}-\u{1d7ff}\u{1fbf0}-\u{1fbf9}\u2100-\u214f\u2160-\u2188\u0250-\u02b8\u1d00-\u1dbf\u2c60-\u2c7f\ua720-\ua7ff\uab30-\uab6f]/u;
/** Punctuation that looks like the separators of addresses and paths, between ASCII letters or digits. */
const ADDRESS_FORMS = /[0-9a-z][＠﹫．․﹒／∕⁄⧸－﹣‐‑＿][0-9a-z]/iu;

/**
 * Returns whether a reader could misread the text: a word mixes two scripts or looks like a word of another script, a character looks
 * like an ASCII character, or letters reverse the reading direction.
 */
export function isMisreadable(text: string): boolean {
  if (PLAIN_ASCII.test(text)) return false;
  if (RIGHT_TO_LEFT.test(text) || ASCII_FORMS.test(text) || ADDRESS_FORMS.test(text)) return true;
  return text.split(WORD_ENDS).some((word) => LOOK_ALIKE.test(word) && (LATIN.test(word) || LATIN_TWINS.test(word)));
}

/**
 * Returns a name for a sentence: in quotes where its characters could be read as a part of the sentence. A name from outside can be
 * a sentence of its own.
 */
export function nameInSentence(name: string): string {
  return /[\s"“”,;()]/.test(name) ? `"${name.replaceAll('"', '\\"')}"` : name;
}

const LETTERS = /[\p{L}\p{M}]+/gu;

/**
 * Splits a text at the letters that make a word misreadable: in a word of two scripts, the letters of the script with fewer letters;
 * in a word that looks Latin, all letters; and other forms of ASCII letters. The pieces alternate, and every second one is such a letter.
 */
export function splitAtLookAlikes(text: string): readonly string[] {
  if (PLAIN_ASCII.test(text)) return [text];
  const parts: string[] = [];
  let at = 0;
  for (const { 0: word, index } of text.matchAll(LETTERS)) {
    const letters = [...word];
    const latin = letters.filter((letter) => LATIN.test(letter)).length;
    const alike = letters.filter((letter) => LOOK_ALIKE.test(letter)).length;
    const isTwin = latin === 0 && LATIN_TWINS.test(word);
    const isMixed = latin > 0 && alike > 0;
    const fewer = alike <= latin ? LOOK_ALIKE : LATIN;
    let start = index;
    for (const letter of letters) {
      const end = start + letter.length;
      if (isTwin || ASCII_FORMS.test(letter) || (isMixed && fewer.test(letter))) {
        parts.push(text.slice(at, start), letter);
        at = end;
      }
      start = end;
    }
  }
  return [...parts, text.slice(at)];
}

export function isAscii(text: string): boolean {
  return PLAIN_ASCII.test(text);
}

/** Returns the same with spaces as they are, for a display in which every space has a width and lines wrap. */
export function withVisibleEscapes(text: string): string {
  return PLAIN_ASCII.test(text) ? text : escapeHidden(text);
}

function countSpaces(spaces: string): string {
  return `⟦${spaces.length} spaces⟧`;
}

function escapeHidden(text: string): string {
  let shown = "";
  let marks = MARKS_MAX;
  for (const character of text) {
    const isMark = MARK.test(character) && !INVISIBLE.test(character);
    marks = isMark ? marks + 1 : MARKS_MAX;
    if (MARKED.test(character)) marks = 0;
    const isSeen = isMark ? marks <= MARKS_MAX && !OVERLAY.test(character) : SHOWN.test(character);
    shown += isSeen && !INVISIBLE.test(character) ? character : escapeCodePoint(character);
  }
  return shown;
}

const COLUMNS_MIN = 20;
/** Prefix of every continuation line of a field, so that no text can pose as a field. */
const GUTTER = "    | ";
const LINE_END = "\\u{a}";

/**
 * Breaks a line at the terminal's width and after the line ends in a text. Every line except the first starts with the gutter.
 */
export function wrap(line: string, columns: number): readonly string[] {
  if (columns === Number.POSITIVE_INFINITY) return [line];
  const columnsMax = Math.max(columns, COLUMNS_MIN) - 1;
  const lines: string[] = [];
  let current = "";
  let width = 0;
  for (const character of line) {
    // Terminals disagree about character widths; the larger width is safe.
    const own = isAscii(character) ? 1 : 2;
    if (width + own > columnsMax || endsLine(current, character)) {
      lines.push(current);
      current = GUTTER;
      width = GUTTER.length;
    }
    current += character;
    width += own;
  }
  return [...lines, current];
}

function endsLine(current: string, next: string): boolean {
  return next !== '"' && current.endsWith(LINE_END);
}
