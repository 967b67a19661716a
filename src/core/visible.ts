/** Controls, formats (bidi, zero width, tags), separators, private use, lone surrogates, and what is invisible besides. */
const INVISIBLE =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\p{Cn}\p{Default_Ignorable_Code_Point}\u2800\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]/gu;

/** A spelled-out escape must not be taken for a real one. */
const SPELLED_OUT = /\\u\{/g;

/**
 * Text in which a person sees every character: whatever moves a cursor, turns the writing direction or shows nothing stands as
 * `\u{…}`.
 */
export function visible(text: string): string {
  return text.replace(SPELLED_OUT, "\\\\u{").replace(INVISIBLE, escapeCodePoint);
}

/** A character by its number, as people and tools write it. */
export function escapeCodePoint(character: string): string {
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}
