/** UTF-8 bytes that are kept of a text beyond its bound: a secret that begins before the bound is then seen whole. */
export const CUT_MARGIN_BYTES = 16_384;

/** A handler's answer when the target said more than is taken: the rest was read and thrown away. */
export class PartialAnswer {
  /** The beginning, in the shape of a whole answer. Undefined when nothing of it can be shown. */
  readonly kept: unknown;
  /**
   * The top-level field whose text was cut off while it was read. Its last `CUT_MARGIN_BYTES` may hold the first half of a secret,
   * which nothing recognizes: they never leave.
   */
  readonly cutField: string | undefined;

  /** Makes it known without a look at the prototype: that of a target's value may be a trap. */
  readonly #isPartial = true;

  constructor(kept: unknown, cutField?: string) {
    this.kept = kept;
    this.cutField = cutField;
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
