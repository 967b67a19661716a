const ESC = 0x1b;
const BEL = 0x07;
const TAB = 0x09;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const CANCEL = 0x18;
const SUBSTITUTE = 0x1a;
const STRING_TERMINATOR = 0x9c;

/** The visible replacement of each bidirectional control, by its code. */
const BIDI_CONTROLS: ReadonlyMap<number, string> = new Map(
  [0x61c, 0x200e, 0x200f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069].map((code) => [
    code,
    `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]`,
  ]),
);

/**
 * Removes or reveals everything that could mislead a terminal, a reader or a model. Removes terminal control sequences
 * (CSI, OSC, DCS, SOS, PM, APC, in 7 and 8 bits), C0 except tab and line end, DEL, C1, and tag characters and repeated
 * variation selectors, which can encode invisible text. Bidirectional controls become visible as `[U+202E]`. Takes
 * linear time; applying it twice changes nothing. An unterminated sequence removes at most the rest of its line.
 */
export function plainText(hostile: string): string {
  const text = hostile.toWellFormed();
  const parts: string[] = [];
  let from = 0;
  let at = 0;
  let followsSelector = false;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    const found = isOrdinary(code) ? undefined : special(text, at, { code, followsSelector });
    if (found === undefined) {
      const point = text.codePointAt(at) ?? 0;
      followsSelector = isVariationSelector(point);
      at += point > 0xffff ? 2 : 1;
      continue;
    }
    if (at > from) parts.push(text.slice(from, at));
    if (found.shown !== "") {
      parts.push(found.shown);
      followsSelector = false;
    }
    at = found.end;
    from = at;
  }
  if (from === 0) return text;
  parts.push(text.slice(from));
  return parts.join("");
}

interface Special {
  /** Index after the sequence. */
  readonly end: number;
  readonly shown: string;
}

/** Returns whether the code unit belongs to a character that is always kept, as in nearly all text. */
function isOrdinary(code: number): boolean {
  if (code < 0x300) return (code >= 0x20 && code < 0x7f) || code === LINE_FEED || code === TAB || code > 0x9f;
  return code < 0x61c || (code > 0x2069 && code < 0xd800) || (code > 0xdfff && code < 0xfe00);
}

/** `followsSelector`: the last character that was kept is a variation selector. */
function special(
  text: string,
  at: number,
  { code, followsSelector }: { readonly code: number; readonly followsSelector: boolean },
): Special | undefined {
  if (code === ESC) return { end: escapeEnd(text, at), shown: "" };
  if (code === CARRIAGE_RETURN && text.charCodeAt(at + 1) === LINE_FEED) return undefined;
  if (code >= 0x80 && code <= 0x9f) return { end: sequenceEnd(text, at + 1, code - 0x40), shown: "" };
  if (code < 0x20 || code === 0x7f) return { end: at + 1, shown: "" };
  const bidi = BIDI_CONTROLS.get(code);
  if (bidi !== undefined) return { end: at + 1, shown: bidi };
  return invisible(text.codePointAt(at) ?? 0, at, followsSelector);
}

function escapeEnd(text: string, at: number): number {
  const next = text.charCodeAt(at + 1);
  if (next >= 0x40 && next <= 0x5f) return sequenceEnd(text, at + 2, next);
  if (next >= 0x30 && next <= 0x7e) return at + 2;
  if (!(next >= 0x20 && next <= 0x2f)) return at + 1;
  const final = skip(text, at + 1, 0x20, 0x2f);
  const code = text.charCodeAt(final);
  return code >= 0x30 && code <= 0x7e ? final + 1 : final;
}

/** Returns the end of a control sequence. `introducer` is the character that follows ESC in the 7-bit form. */
function sequenceEnd(text: string, at: number, introducer: number): number {
  switch (String.fromCharCode(introducer)) {
    case "[": {
      const final = skip(text, skip(text, at, 0x30, 0x3f), 0x20, 0x2f);
      const code = text.charCodeAt(final);
      return code >= 0x40 && code <= 0x7e ? final + 1 : final;
    }
    case "]":
    case "P":
    case "X":
    case "^":
    case "_":
      return stringEnd(text, at);
    default:
      return at;
  }
}

function stringEnd(text: string, at: number): number {
  for (let end = at; end < text.length; end += 1) {
    const code = text.charCodeAt(end);
    if (code === LINE_FEED) return end;
    if (code === BEL || code === STRING_TERMINATOR || code === CANCEL || code === SUBSTITUTE) return end + 1;
    if (code === ESC) return text[end + 1] === "\\" ? end + 2 : end;
  }
  return text.length;
}

function skip(text: string, at: number, from: number, to: number): number {
  let end = at;
  while (text.charCodeAt(end) >= from && text.charCodeAt(end) <= to) end += 1;
  return end;
}

/** Removes tag characters, and variation selectors after the first in a row, which no writing system uses. */
function invisible(point: number, at: number, followsSelector: boolean): Special | undefined {
  const isHidden = isTag(point) || (followsSelector && isVariationSelector(point));
  return isHidden ? { end: at + (point > 0xffff ? 2 : 1), shown: "" } : undefined;
}

function isTag(point: number): boolean {
  return point >= 0xe0000 && point <= 0xe007f;
}

function isVariationSelector(point: number): boolean {
  return (point >= 0xfe00 && point <= 0xfe0f) || (point >= 0xe0100 && point <= 0xe01ef);
}

/** Controls, formats (bidi, zero width, tags), separators, private use, lone surrogates, and other invisible characters. */
const INVISIBLE =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\p{Cn}\p{Default_Ignorable_Code_Point}\u2800\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]/gu;

/** An escape notation in the text itself, which must not be confused with a real escape. */
const ESCAPE_NOTATION = /\\u\{/g;

/** Replaces characters that move the cursor, change the writing direction or show nothing with `\u{…}`. */
export function visible(text: string): string {
  return text.replace(ESCAPE_NOTATION, "\\\\u{").replace(INVISIBLE, escapeCodePoint);
}

/** Returns a character's code point in the `\u{…}` notation that people and tools use. */
export function escapeCodePoint(character: string): string {
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}
