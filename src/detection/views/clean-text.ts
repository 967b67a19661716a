import { withoutSequences } from "./terminal-sequences.ts";

/** Anything that cannot be seen, or could carry what cannot be seen. A character class alone: linear. */
const SUSPECT = /[\p{Cf}\p{Default_Ignorable_Code_Point}\0-\x08\v\f\x0e-\x1f\x7f-\x9f]/u;

const PICTOGRAPH = /[\p{Extended_Pictographic}\p{Emoji_Modifier}]/u;

/** Scripts whose letters take another shape beside a joiner. */
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

/** Where a terminal's sequence may begin. */
const MARK = /[\x1b\x9b]/;

/**
 * Without characters that a reader cannot see but a program or a model can: zero-width characters, tags, variation selectors,
 * controls of writing direction and of terminals, soft hyphens, byte order marks. What emoji and joining scripts need stays. The very same
 * string when there is nothing to take out; idempotent.
 */
export function cleanText(text: string): string {
  if (isPrintable(text)) return text;
  const seen = MARK.test(text) ? withoutSequences(text) : text;
  if (!SUSPECT.test(seen)) return seen;
  // Halves of a character, which could become a whole one when what stands between them goes, are none from here on.
  const clean = withoutInvisible(seen.toWellFormed());
  // A character that cannot be seen may have stood in the midst of a sequence.
  return MARK.test(clean) ? withoutSequences(clean) : clean;
}

/** Whether all of it is ASCII that can be seen, as in most texts. */
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

/** By UTF-16 unit, filled as it is asked. A cache: the answers never change. */
const SUSPECTED = new Uint8Array(BMP_POINTS);

/** How many units the invisible character that stands here has; 0 when none does. */
function suspectWidth(text: string, at: number): number {
  const code = text.charCodeAt(at);
  if (code < 0x7f && (code > 0x1f || code === 0x0a || code === 0x09 || code === 0x0d)) return 0;
  if (code >= 0xd800 && code <= 0xdbff) return HIGH_HALVES.has(code) && SUSPECT.test(text.slice(at, at + 2)) ? 2 : 0;
  if (SUSPECTED[code] === UNKNOWN) SUSPECTED[code] = SUSPECT.test(String.fromCharCode(code)) ? HIDDEN : SEEN;
  return SUSPECTED[code] === HIDDEN ? 1 : 0;
}

/** First halves of the invisible characters beyond the basic plane; the tags are the last four. */
const HIGH_HALVES: ReadonlySet<number> = new Set([0xd804, 0xd80d, 0xd82f, 0xd834, 0xdb40, 0xdb41, 0xdb42, 0xdb43]);

const NO_POINT = -1;

/** What was kept so far, as code points: the last character, and the one before it when the last one was doubtful. */
interface Kept {
  readonly last: number;
  readonly second: number;
}

const NOTHING_KEPT: Kept = { last: NO_POINT, second: NO_POINT };

function pointBefore(text: string, at: number): number {
  const point = at > 1 ? (text.codePointAt(at - 2) ?? NO_POINT) : NO_POINT;
  return point >= BMP_POINTS ? point : text.charCodeAt(at - 1);
}

/** One at a time, where its neighbours give it something to do. */
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

/** By code point, as far as it was asked. A cache: the answers never change. */
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
