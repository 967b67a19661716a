/** Anything that cannot be seen, or could carry what cannot be seen. A character class alone: linear. */
const SUSPECT = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/u;
const SUSPECTS = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu;

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
  for (const { 0: character, index } of text.matchAll(SUSPECTS)) {
    if (index > from) {
      parts.push(text.slice(from, index));
      before = { last: lastCharacter(text.slice(Math.max(from, index - 2), index)), second: "" };
    }
    from = index + character.length;
    if (!isNeeded(character, before, String.fromCodePoint(text.codePointAt(from) ?? 0x20))) continue;
    parts.push(character);
    before = { last: character, second: before.last };
  }
  parts.push(text.slice(from));
  return parts.join("");
}

/** What was kept so far: the last character, and the one before it when the last one was doubtful. */
interface Before {
  readonly last: string;
  readonly second: string;
}

/** One at a time, where its neighbours give it something to do. */
function isNeeded(character: string, { last, second }: Before, next: string): boolean {
  switch (character.codePointAt(0)) {
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
