import { isA, LINE_END } from "./characters.ts";

/** Invisible characters, and characters that can carry invisible ones. A single character class, so linear. */
const SUSPECT = /[\p{Cf}\p{Default_Ignorable_Code_Point}\0-\x08\v\f\x0e-\x1f\x7f-\x9f]/u;

const PICTOGRAPH = /[\p{Extended_Pictographic}\p{Emoji_Modifier}]/u;

/** Scripts whose letters change shape next to a joiner. */
const JOINING =
  /[\p{Script=Arabic}\p{Script=Syriac}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Gujarati}\p{Script=Gurmukhi}\p{Script=Oriya}\p{Script=Sinhala}\p{Script=Mongolian}\p{Script=Khmer}]/u;

const ZERO_WIDTH_NON_JOINER = 0x200c;
const ZERO_WIDTH_JOINER = 0x200d;
const EMOJI_SELECTOR = 0xfe0f;
const TEXT_SELECTOR = 0xfe0e;
const KEYCAP = 0x20e3;
const HASH = 0x23;
const ASTERISK = 0x2a;
const ZERO = 0x30;

/** First character of a terminal sequence. */
const MARK = /[\x1b\x9b]/;

/**
 * Removes characters that are invisible to a reader but not to a program or a model: zero-width characters, tags, variation
 * selectors, controls of writing direction and of terminals, soft hyphens, byte order marks. Keeps those that emoji and joining
 * scripts need. Returns the same string when there is nothing to remove; idempotent.
 */
export function cleanText(text: string): string {
  if (isPrintable(text)) return text;
  const seen = MARK.test(text) ? withoutSequences(text) : text;
  if (!SUSPECT.test(seen)) return seen;
  // Replaces lone surrogates first: removing the characters between two halves could join them into a character.
  const clean = withoutInvisible(seen.toWellFormed());
  // Removing an invisible character may have completed a sequence.
  return MARK.test(clean) ? withoutSequences(clean) : clean;
}

/** Returns whether the text contains only visible ASCII characters and whitespace, as most texts do. */
function isPrintable(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code > 0x7e || (code < 0x20 && code !== 0x0a && code !== 0x09 && code !== 0x0d)) return false;
  }
  return true;
}

function withoutInvisible(text: string): string {
  const parts: string[] = [];
  let kept = NOTHING_KEPT;
  let from = 0;
  let stretch = 0;
  for (let at = 0; at < text.length; at += 1) {
    const width = suspectWidth(text, at);
    if (width === 0) continue;
    if (at > stretch) kept = { last: pointBefore(text, at), second: NO_POINT };
    stretch = at + width;
    if (width === 1 && isNeeded(text.charCodeAt(at), kept, text.codePointAt(stretch) ?? NO_POINT)) {
      kept = { last: text.charCodeAt(at), second: kept.last };
    } else {
      parts.push(text.slice(from, at));
      from = stretch;
    }
    at = stretch - 1;
  }
  parts.push(text.slice(from));
  return parts.join("");
}

const BMP_POINTS = 0x10000;
const UNKNOWN = 0;
const SEEN = 1;
const HIDDEN = 2;

/** Cache by UTF-16 unit, filled on demand; entries never change. */
const SUSPECTED = new Uint8Array(BMP_POINTS);

/** Returns the length of the invisible character at this offset in UTF-16 units; 0 when the character is visible. */
function suspectWidth(text: string, at: number): number {
  const code = text.charCodeAt(at);
  if (code < 0x7f && (code > 0x1f || code === 0x0a || code === 0x09 || code === 0x0d)) return 0;
  if (code >= 0xd800 && code <= 0xdbff) return HIGH_HALVES.has(code) && SUSPECT.test(text.slice(at, at + 2)) ? 2 : 0;
  if (SUSPECTED[code] === UNKNOWN) SUSPECTED[code] = SUSPECT.test(String.fromCharCode(code)) ? HIDDEN : SEEN;
  return SUSPECTED[code] === HIDDEN ? 1 : 0;
}

/** High surrogates of the invisible characters beyond the basic plane; the last four are those of the tags. */
const HIGH_HALVES: ReadonlySet<number> = new Set([0xd804, 0xd80d, 0xd82f, 0xd834, 0xdb40, 0xdb41, 0xdb42, 0xdb43]);

const NO_POINT = -1;

/** The last kept code point, and the one before it when the last one was a suspect character. */
interface Kept {
  readonly last: number;
  readonly second: number;
}

const NOTHING_KEPT: Kept = { last: NO_POINT, second: NO_POINT };

function pointBefore(text: string, at: number): number {
  const point = at > 1 ? (text.codePointAt(at - 2) ?? NO_POINT) : NO_POINT;
  return point >= BMP_POINTS ? point : text.charCodeAt(at - 1);
}

/** Returns whether an invisible character must stay because it affects its neighbours. */
function isNeeded(code: number, { last, second }: Kept, next: number): boolean {
  switch (code) {
    case ZERO_WIDTH_JOINER: {
      const before = last === EMOJI_SELECTOR ? second : last;
      return (isPictograph(before) && isPictograph(next)) || (isJoining(last) && isJoining(next));
    }
    case ZERO_WIDTH_NON_JOINER:
      return isJoining(last) && isJoining(next);
    case EMOJI_SELECTOR:
      return isPictograph(last) || (next === KEYCAP && isKeycapSign(last));
    case TEXT_SELECTOR:
      return isPictograph(last);
    default:
      return false;
  }
}

function isKeycapSign(point: number): boolean {
  return point === HASH || point === ASTERISK || (point >= ZERO && point <= ZERO + 9);
}

const PICTOGRAPHIC = 1;
const JOINS = 2;

/** Cache by code point, filled on demand; entries never change. */
const kinds = new Map<number, number>();
const KINDS_MAX = 4_096;

function isPictograph(point: number): boolean {
  return (kindOf(point) & PICTOGRAPHIC) !== 0;
}

function isJoining(point: number): boolean {
  return (kindOf(point) & JOINS) !== 0;
}

function kindOf(point: number): number {
  const known = kinds.get(point);
  if (known !== undefined) return known;
  const character = point === NO_POINT ? "" : String.fromCodePoint(point);
  const kind = (PICTOGRAPH.test(character) ? PICTOGRAPHIC : 0) | (JOINING.test(character) ? JOINS : 0);
  if (kinds.size < KINDS_MAX) kinds.set(point, kind);
  return kind;
}

const ESCAPE = 0x1b;
/** C1 control character that is equivalent to an escape character and a bracket. */
const CONTROL = 0x9b;
const BELL = 0x07;

/** Maximum lengths in UTF-16 units. */
const SEQUENCE_CHARS_MAX = 64;
const STRING_CHARS_MAX = 256;

/** Removing a sequence may create another one. Only an attacker nests sequences deeper. */
const PASSES_MAX = 8;

/** Returns the end of the sequence that starts at `at`; the end of its first character when the sequence is incomplete. */
export function sequenceEnd(text: string, at: number): number {
  if (text.charCodeAt(at) === CONTROL) return controlEnd(text, at + 1) ?? at + 1;
  const kind = text[at + 1] ?? "";
  if (kind === "[") return controlEnd(text, at + 2) ?? at + 1;
  if (kind === "]" || kind === "P" || kind === "_" || kind === "^") return stringEnd(text, at + 2) ?? at + 1;
  return at + 1;
}

/**
 * Returns the start of the control sequence that contains `at`, or that a bracket at `at` would complete; `at` when there is
 * none. A replacement is inserted there, so that it is not taken for a part of the sequence.
 */
export function sequenceStart(text: string, at: number): number {
  let start = at;
  for (let pass = 0; pass < PASSES_MAX; pass += 1) {
    const before = openedBefore(text, start);
    if (before === start) break;
    start = before;
  }
  return start;
}

function openedBefore(text: string, at: number): number {
  let from = at;
  while (from > at - SEQUENCE_CHARS_MAX && text.charCodeAt(from - 1) >= 0x20 && text.charCodeAt(from - 1) < 0x40)
    from -= 1;
  const before = text.charCodeAt(from - 1);
  if (before === CONTROL || (before === ESCAPE && from === at)) return from - 1;
  return text[from - 1] === "[" && text.charCodeAt(from - 2) === ESCAPE ? from - 2 : at;
}

/** Returns the offset after the final letter of a control sequence whose parameters start at `from`. */
function controlEnd(text: string, from: number): number | undefined {
  let end = from;
  while (end < from + SEQUENCE_CHARS_MAX && text.charCodeAt(end) >= 0x20 && text.charCodeAt(end) < 0x40) end += 1;
  const final = text.charCodeAt(end);
  return final >= 0x40 && final <= 0x7e ? end + 1 : undefined;
}

/** Returns the end of a title or a link. Its text is invisible up to a bell or `ESC \`. */
function stringEnd(text: string, from: number): number | undefined {
  for (let end = from; end < from + STRING_CHARS_MAX && end < text.length; end += 1) {
    const code = text.charCodeAt(end);
    if (code === BELL) return end + 1;
    if (code === ESCAPE) return text[end + 1] === "\\" ? end + 2 : undefined;
    if (isA(text, end, LINE_END)) return undefined;
  }
  return undefined;
}

/**
 * Removes terminal sequences, which set colours or move the cursor. Escaped sequences (`\u001b[31m`), as in the source of a
 * script, are text and stay. Returns the same string when there is none; idempotent.
 */
export function withoutSequences(text: string): string {
  let before = text;
  for (let pass = 0; pass < PASSES_MAX; pass += 1) {
    const after = withoutOnce(before, false);
    if (after === before) return before;
    before = after;
  }
  return withoutOnce(before, true);
}

/** @param onlyMark - removes only the escape character, so that no new sequence can form */
function withoutOnce(text: string, onlyMark: boolean): string {
  const parts: string[] = [];
  let from = 0;
  for (let at = nextMark(text, 0); at !== -1; at = nextMark(text, from)) {
    parts.push(text.slice(from, at));
    from = onlyMark ? at + 1 : sequenceEnd(text, at);
  }
  return from === 0 ? text : parts.join("") + text.slice(from);
}

function nextMark(text: string, from: number): number {
  for (let at = from; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === ESCAPE || code === CONTROL) return at;
  }
  return -1;
}
