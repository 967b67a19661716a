/** Anything that cannot be seen, or could carry what cannot be seen. A character class alone: linear. */
const SUSPECT = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/u;

const PICTOGRAPH = /[\p{Extended_Pictographic}\p{Emoji_Modifier}]/u;

/** Scripts whose letters take another shape beside a joiner. */
const JOINING =
  /[\p{Script=Arabic}\p{Script=Syriac}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Gujarati}\p{Script=Gurmukhi}\p{Script=Oriya}\p{Script=Sinhala}\p{Script=Mongolian}\p{Script=Khmer}]/u;

const ZERO_WIDTH_NON_JOINER = 0x200c;
const ZERO_WIDTH_JOINER = 0x200d;
const EMOJI_SELECTOR = 0xfe0f;
const TEXT_SELECTOR = 0xfe0e;
const KEYCAP = 0x20e3;

/**
 * Without characters that a reader cannot see but a program or a model can: zero-width characters, tags, variation selectors,
 * controls of writing direction, soft hyphens, byte order marks. What emoji and joining scripts need stays. The very same
 * string when there is nothing to take out; idempotent.
 */
export function cleanText(text: string): string {
  if (!SUSPECT.test(text)) return text;
  const parts: string[] = [];
  let before: Before = { last: "", second: "" };
  let from = 0;
  for (let at = 0; at < text.length; at += 1) {
    const width = suspectWidth(text, at);
    if (width === 0) continue;
    if (at > from) {
      parts.push(text.slice(from, at));
      before = { last: lastCharacter(text.slice(Math.max(from, at - 2), at)), second: "" };
    }
    from = at + width;
    if (width === 1 && isNeeded(text.charCodeAt(at), before, String.fromCodePoint(text.codePointAt(from) ?? 0x20))) {
      const character = text[at] ?? "";
      parts.push(character);
      before = { last: character, second: before.last };
    }
    at = from - 1;
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
  if (code < 0xad) return 0;
  if (code >= 0xd800 && code <= 0xdbff) return HIGH_HALVES.has(code) && SUSPECT.test(text.slice(at, at + 2)) ? 2 : 0;
  if (SUSPECTED[code] === UNKNOWN) SUSPECTED[code] = SUSPECT.test(String.fromCharCode(code)) ? HIDDEN : SEEN;
  return SUSPECTED[code] === HIDDEN ? 1 : 0;
}

/** First halves of the invisible characters beyond the basic plane; the tags are the last four. */
const HIGH_HALVES: ReadonlySet<number> = new Set([0xd804, 0xd80d, 0xd82f, 0xd834, 0xdb40, 0xdb41, 0xdb42, 0xdb43]);

/** What was kept so far: the last character, and the one before it when the last one was doubtful. */
interface Before {
  readonly last: string;
  readonly second: string;
}

/** One at a time, where its neighbours give it something to do. */
function isNeeded(code: number, { last, second }: Before, next: string): boolean {
  switch (code) {
    case ZERO_WIDTH_JOINER: {
      const isEmoji = PICTOGRAPH.test(last.codePointAt(0) === EMOJI_SELECTOR ? second : last);
      return (isEmoji && PICTOGRAPH.test(next)) || (JOINING.test(last) && JOINING.test(next));
    }
    case ZERO_WIDTH_NON_JOINER:
      return JOINING.test(last) && JOINING.test(next);
    case EMOJI_SELECTOR:
      return PICTOGRAPH.test(last) || (next.codePointAt(0) === KEYCAP && last !== "" && "0123456789#*".includes(last));
    case TEXT_SELECTOR:
      return PICTOGRAPH.test(last);
    default:
      return false;
  }
}

function lastCharacter(text: string): string {
  const point = text.codePointAt(0) ?? 0x20;
  return text.length === 2 && point > 0xffff ? text : text.slice(-1);
}
