import { DIGIT, HIGH, LETTER } from "./units.ts";

/** Estimated information of words, in bits. Several words carry the sum. */
export const FREQUENT_BITS = 2;
export const DIGIT_BITS = 3.3;
export const DIGITS_BASE_BITS = -4;
const MIXED_BITS = 4;
const IDEOGRAPH_BITS = 6;
const FURTHER_LETTER_BITS = 1.5;
/** Bits of a word by its number of letters; the first entry is for frequent words. */
export const LETTERS_BITS = Float32Array.from({ length: 64 }, (_, count) =>
  count < 5 ? ([FREQUENT_BITS, 1, 3, 7, 10][count] as number) : 10 + (count - 4) * FURTHER_LETTER_BITS,
);

/** A word with fewer bits has no fingerprint of its own, and neither have two such words in a row. */
export const TELLING_BITS = 6.5;

export const LETTERS_TELL = Uint8Array.from(LETTERS_BITS, (bits) => (bits >= TELLING_BITS ? 1 : 0));

const FREQUENT_SLOTS = 4_096;
/** Each frequent word is in one of two slots. */
export const SECOND_SLOT_SHIFT = 16;

/** Returns the estimated information of a word that is not frequent, in bits. */
export function bitsOf(kind: number, bytes: Uint8Array, start: number, size: number): number {
  if (kind === LETTER) return lettersBits(size);
  if ((kind & HIGH) !== 0) return highBits(bytes, start, size);
  return kind === DIGIT ? size * DIGIT_BITS + DIGITS_BASE_BITS : (size - 1) * MIXED_BITS;
}

const LETTER_BYTES = 2;
const IDEOGRAPH_BYTES = 3;
const IDEOGRAPH_FIRST = 0xe0;

/** Returns the estimated bits of a word with non-ASCII characters. Ideographs take three or more bytes, most other letters two. */
function highBits(bytes: Uint8Array, start: number, size: number): number {
  if ((bytes[start] as number) >= IDEOGRAPH_FIRST) return (size / IDEOGRAPH_BYTES) * IDEOGRAPH_BITS;
  return lettersBits(Math.ceil(size / LETTER_BYTES));
}

function lettersBits(count: number): number {
  return LETTERS_BITS[count] ?? 10 + (count - 4) * FURTHER_LETTER_BITS;
}

/** Returns a table in which each of the numbers is in one of two slots (cuckoo hashing). */
export function inTwoSlots(numbers: readonly number[], size = FREQUENT_SLOTS): Int32Array {
  const table = new Int32Array(size);
  const slotsOf = (one: number) => [one & (size - 1), (one >>> SECOND_SLOT_SHIFT) & (size - 1)] as const;
  for (const number of new Set(numbers)) {
    let [one, moves] = [number, 0];
    for (; one !== 0 && moves < size; moves += 1) {
      const [first, second] = slotsOf(one);
      const slot = table[first] === 0 || (table[second] !== 0 && moves % 2 === 0) ? first : second;
      [one, table[slot]] = [table[slot] as number, one];
    }
    if (one !== 0) return inTwoSlots(numbers, size * 2);
  }
  return table;
}
