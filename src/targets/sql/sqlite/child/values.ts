import type { BoundValue, SentLimits } from "../protocol.ts";

/** Most bytes of a character, in UTF-8 and UTF-16. */
const CHARACTER_BYTES_MAX = 4;

export class InvalidText extends Error {}

/** Values of parameters by their number. */
export type Values = Readonly<Record<string, string | bigint | number | null>>;

export function valuesOf(values: readonly BoundValue[]): Values {
  return Object.fromEntries(
    values.map((value, index) => {
      if (value === null || typeof value === "string") return [index + 1, value];
      return [index + 1, "integer" in value ? BigInt(value.integer) : value.real];
    }),
  );
}

export function nulls(count: number): Values {
  return valuesOf(Array.from({ length: count }, () => null));
}

/** Returns the bytes that a text of the longest length may have. */
export function textBytesMax({ cellChars }: SentLimits): number {
  return CHARACTER_BYTES_MAX * cellChars;
}

/** Reads columns as text. */
export class CellReader {
  readonly #decoder: TextDecoder;

  /** `encoding`: that of the database's texts. */
  constructor(encoding: Bun.Encoding) {
    this.#decoder = new TextDecoder(encoding, { fatal: true, ignoreBOM: true });
  }

  /**
   * Returns the text of a column of `wrapped`. Texts come as their bytes: the driver would replace what is not Unicode, and SQLite's
   * functions for texts end at NUL.
   * @throws {InvalidText}
   */
  textOf(type: unknown, value: unknown, limits: SentLimits): string | null {
    // The driver returns empty bytes as NULL.
    if (value === null && type !== "null") return type === "text" ? "" : "\\x";
    if (type !== "text" || !(value instanceof Uint8Array)) return plainText(value);
    // The value was cut at a byte, so the last character may be incomplete: do not decode it.
    if (value.byteLength > textBytesMax(limits)) return cut(value.toHex(), limits);
    try {
      return cut(this.#decoder.decode(value), limits);
    } catch {
      throw new InvalidText("a text is not Unicode");
    }
  }
}

/** Returns the text of a value as the driver returns it. */
export function plainText(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  if (typeof value === "number") return realText(value);
  return value instanceof Uint8Array ? `\\x${value.toHex()}` : String(value);
}

/** Returns a number in SQLite's notation, but with every digit. */
function realText(value: number): string {
  return Number.isInteger(value) && Math.abs(value) < 1e15 ? value.toFixed(1) : String(value);
}

/** One character more than fits is enough to see that a text does not fit. */
export function cut(text: string | null, { cellChars }: SentLimits): string | null {
  return text === null ? null : text.slice(0, cellChars + 1);
}
