/** UTF-8 bytes that are read of a text beyond its bound: a secret that begins before the bound is then seen whole. */
export const CUT_MARGIN_BYTES = 16_384;

/** A text that was cut off while it was read. */
export interface CutText {
  /** Name of the answer's member. */
  readonly field: string;
  /** UTF-8 bytes of its beginning that may leave. What follows may end with the first half of a secret, which nothing recognizes. */
  readonly bytesMax: number;
}

/** A handler's answer when the target said more than is taken: the rest was read and thrown away. */
export class PartialAnswer {
  /** The beginning, in the shape of a whole answer. Undefined when nothing of it can be shown. */
  readonly kept: unknown;
  readonly cutText: CutText | undefined;
  /** Makes it known without a look at the prototype: that of a target's value may be a trap. */
  readonly #isPartial = true;

  constructor(kept: unknown, cutText?: CutText) {
    this.kept = kept;
    this.cutText = cutText;
  }

  static is(value: unknown): value is PartialAnswer {
    return typeof value === "object" && value !== null && #isPartial in value;
  }
}

/** The beginning of a text, of at most so many UTF-8 bytes; no character is cut in two. */
export function textWithin(text: string, bytesMax: number): string {
  if (text.length * 3 <= bytesMax) return text;
  const bytes = Buffer.from(text);
  if (bytes.length <= bytesMax) return text;
  let end = Math.max(0, bytesMax);
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.toString("utf8", 0, end);
}

/** The longest word that a line loses to a cut. UTF-16 units. */
const WORD_CHARS_MAX = 256;

/**
 * The beginning of a line that is cut before redaction: without the word that the cut goes through, since the first half of a
 * secret is not recognized. A longer word is cut.
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
