/** UTF-8 bytes read beyond a text's limit, so that a secret that begins before the limit is seen whole. */
export const CUT_MARGIN_BYTES = 16_384;

/** A text that was cut off while it was read. */
export interface CutText {
  /** Name of the result's field. */
  readonly field: string;
  /** UTF-8 bytes from its start that may be released. After them, it may end in half a secret, which no rule finds. */
  readonly bytesMax: number;
}

/** A handler's result when the target returned more than the limit: the rest was read and discarded. */
export class PartialAnswer {
  /** The start of the result, in the shape of a complete result. Undefined when no part of it can be shown. */
  readonly kept: unknown;
  readonly cutText: CutText | undefined;
  /** Identifies an instance without reading the prototype of an untrusted value, which may run code. */
  readonly #isPartial = true;

  constructor(kept: unknown, cutText?: CutText) {
    this.kept = kept;
    this.cutText = cutText;
  }

  static is(value: unknown): value is PartialAnswer {
    return typeof value === "object" && value !== null && #isPartial in value;
  }
}

/** Returns the beginning of a text, at most `bytesMax` UTF-8 bytes; no character is split. */
export function textWithin(text: string, bytesMax: number): string {
  if (text.length * 3 <= bytesMax) return text;
  const bytes = Buffer.from(text);
  if (bytes.length <= bytesMax) return text;
  let end = Math.max(0, bytesMax);
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.toString("utf8", 0, end);
}

/** Returns the beginning of a text whose JSON, with quotes and escapes, is at most `bytesMax` UTF-8 bytes; no character is split. */
export function textWithinJson(text: string, bytesMax: number): string {
  if (text.length * JSON_BYTES_PER_UNIT_MAX + QUOTES_BYTES <= bytesMax) return text;
  let left = bytesMax - QUOTES_BYTES;
  let end = 0;
  for (const character of text) {
    left -= jsonBytes(character);
    if (left < 0) break;
    end += character.length;
  }
  return text.slice(0, end);
}

const QUOTES_BYTES = 2;
/** `\\u0000`, for one UTF-16 unit. */
const JSON_BYTES_PER_UNIT_MAX = 6;

/** Returns the bytes of one character in JSON. */
function jsonBytes(character: string): number {
  const code = character.codePointAt(0) ?? 0;
  if (code > 0xffff) return 4;
  const isPlain = code >= 0x20 && code !== 0x22 && code !== 0x5c && (code < 0xd800 || code > 0xdfff);
  if (!isPlain) return JSON.stringify(character).length - QUOTES_BYTES;
  if (code < 0x80) return 1;
  return code < 0x800 ? 2 : 3;
}

/** Longest word that is dropped from a line when the cut splits it (UTF-16 units). */
const WORD_CHARS_MAX = 256;

/**
 * Returns the start of a line that is cut before redaction. Leaves out the word at the cut: redaction would not
 * recognize half a secret. A word longer than `WORD_CHARS_MAX` is cut.
 */
export function lineWithin(line: string, charactersMax: number): string {
  if (line.length <= charactersMax) return line;
  const first = Math.max(0, charactersMax - WORD_CHARS_MAX);
  let end = charactersMax;
  if (isInWord(line, end)) while (end > first && isInWord(line, end - 1)) end -= 1;
  return line.slice(0, end > first ? end : charactersMax).replace(/[\ud800-\udbff]$/, "");
}

function isInWord(line: string, at: number): boolean {
  return /[^\s"'`=:,;&?|()[\]{}<>]/.test(line.charAt(at));
}
