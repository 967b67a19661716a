import type { FingerprintTable } from "./fingerprint-table.ts";
import { WRITTEN } from "./keyed-hash.ts";
import { DIGIT, GROUPS_MAX, type WordSpan } from "./units.ts";

const [DOT, APOSTROPHE, ZERO] = [0x2e, 0x27, 0x30];
/** Digits of a group in a number. */
const GROUP_DIGITS = 3;
/** Characters between the groups of one number, and before its decimals. */
const IN_NUMBERS = Uint8Array.from({ length: 256 }, (_, code) => (",.'".includes(String.fromCharCode(code)) ? 1 : 0));

/** Adds the fingerprints of numbers that are written with groups or decimals to those of the words. */
export class NumberFingerprints {
  readonly #table: FingerprintTable;

  constructor(table: FingerprintTable) {
    this.#table = table;
  }

  /** Adds the values that a number with groups or decimals may mean, without zeros at its ends: `1.500` is 1500 or 1.5. */
  add(word: number, { from, to }: WordSpan, text: number): void {
    const table = this.#table;
    const { hash } = table;
    // The first group represents the whole number.
    if (word > from && table.kind[word - 1] === DIGIT && this.#goesOn(word)) return;
    let last = word;
    while (last < to && last - word < GROUPS_MAX && this.#goesOn(last + 1)) last += 1;
    if (last === word) return;
    const { start, end, bytes } = table;
    const span = { from: word, to: last };
    const [first, separator] = [start[word] as number, bytes[end[word] as number] as number];
    const [decimals, after] = [start[last] as number, end[last] as number];
    const isPair = last === word + 1;
    if (isPair && separator === DOT && after - decimals !== GROUP_DIGITS && bytes[after - 1] !== ZERO) {
      hash.written(table.bytes, first, after);
      table.add(span, text);
      return;
    }
    let whole = word;
    if (table.size(word) <= GROUP_DIGITS) while (whole < last && this.#isGroupOf(whole + 1, separator)) whole += 1;
    const before = bytes[end[last - 1] as number];
    if (whole === last) this.#plainNumber(first, after, after, after);
    else if (whole > word && whole + 1 === last && before !== separator && before !== APOSTROPHE)
      this.#plainNumber(first, end[whole] as number, decimals, after);
    else whole = word;
    if (whole > word) table.add(span, text);
    if (!isPair || separator === APOSTROPHE) return;
    this.#plainNumber(first, end[word] as number, decimals, after);
    table.add(span, text);
  }

  #isGroupOf(word: number, separator: number): boolean {
    const table = this.#table;
    return table.bytes[table.end[word - 1] as number] === separator && table.size(word) === GROUP_DIGITS;
  }

  /** Returns whether a word is the next group of the number before it. */
  #goesOn(word: number): boolean {
    const table = this.#table;
    const gap = table.end[word - 1] as number;
    return table.kind[word] === DIGIT && table.start[word] === gap + 1 && IN_NUMBERS[table.bytes[gap] as number] === 1;
  }

  /** Hashes the digits of a whole number and of its decimals, without what is between them and without zeros at the ends. */
  #plainNumber(from: number, to: number, decimals: number, end: number): void {
    const table = this.#table;
    const { hash } = table;
    const { bytes } = table;
    const { factor } = hash;
    let low = hash.seedLow;
    let high = hash.seedHigh;
    let at = from;
    while (at < to - 1 && (bytes[at] === ZERO || IN_NUMBERS[bytes[at] as number] === 1)) at += 1;
    let after = end;
    while (after > decimals && bytes[after - 1] === ZERO) after -= 1;
    if (after === decimals) after = to;
    for (; at < after; at += 1) {
      if (at === to) {
        at = decimals;
        low = Math.imul(low ^ DOT, factor);
        high = (((high << 7) | (high >>> 25)) + low) | 0;
      }
      const code = WRITTEN[bytes[at] as number] as number;
      if (code < DIGIT) continue;
      low = Math.imul(low ^ code, factor);
      high = (((high << 7) | (high >>> 25)) + low) | 0;
    }
    hash.finish(low, high);
  }
}
