import { type FingerprintTable, RUN } from "./fingerprint-table.ts";
import { BOUNDARY_BYTE, factorOf } from "./keyed-hash.ts";
import { DIGIT, type WordSpan } from "./units.ts";
import { TELLING_BITS } from "./word-bits.ts";

/** Limits for a run of words that identifies a text: words, informative words, and bits of the words without digits. */
const RUN_WORDS_MIN = 4;
const RUN_WORDS_MAX = 16;
const RUN_TELLING_MIN = 2;
const RUN_BITS = 28;
const RUN_FACTOR = factorOf(RUN as number);

/** Fingerprints words in a row, by which texts are recognized. */
export class WordRuns {
  /** Powers of the two factors of the hash. */
  readonly #powersLow = new Int32Array(RUN_WORDS_MAX + 1).fill(1);
  readonly #powersHigh = new Int32Array(RUN_WORDS_MAX + 1).fill(1);
  readonly #table: FingerprintTable;

  constructor(table: FingerprintTable) {
    this.#table = table;
    for (let power = 1; power <= RUN_WORDS_MAX; power += 1) {
      this.#powersLow[power] = Math.imul(this.#powersLow[power - 1] as number, table.hash.one);
      this.#powersHigh[power] = Math.imul(this.#powersHigh[power - 1] as number, table.hash.two);
    }
  }

  /** Makes a fingerprint of the shortest words in a row, from each word, by which the texts that were read last are recognized. */
  find(take: (low: number, high: number, from: number, to: number) => void): void {
    const table = this.#table;
    const { words, start, end, bytes } = table;
    let from = 0;
    for (let word = 0; word < words; word += 1) {
      if (word + 1 < words && !hasBoundary(bytes, end[word] as number, start[word + 1] as number)) continue;
      this.#runsIn({ from, to: word }, take);
      from = word + 1;
    }
  }

  /** The end of a run never goes back, so each word is looked at twice. The hash is a polynomial, whose first words can be taken off. */
  #runsIn(text: WordSpan, take: (low: number, high: number, from: number, to: number) => void): void {
    const table = this.#table;
    const { hash } = table;
    const { bits, kind } = table;
    const { wordLow, wordHigh } = table;
    const [powersLow, powersHigh] = [this.#powersLow, this.#powersHigh];
    const { one, two } = hash;
    let low = 0;
    let high = 0;
    let told = 0;
    let telling = 0;
    let next = text.from;
    for (let from = text.from; from <= text.to; from += 1) {
      while (next - from < RUN_WORDS_MIN || telling < RUN_TELLING_MIN || told < RUN_BITS) {
        if (next > text.to) return;
        if (next - from >= RUN_WORDS_MAX) break;
        low = (Math.imul(low, one) + (wordLow[next] as number)) | 0;
        high = (Math.imul(high, two) + (wordHigh[next] as number)) | 0;
        if (((kind[next] as number) & DIGIT) === 0) {
          told += bits[next] as number;
          if ((bits[next] as number) >= TELLING_BITS) telling += 1;
        }
        next += 1;
      }
      if (next - from >= RUN_WORDS_MIN && telling >= RUN_TELLING_MIN && told >= RUN_BITS) {
        const first = Math.imul(low, RUN_FACTOR) ^ high;
        take(first, (Math.imul(high, one) + Math.imul(first, two)) | 0, from, next - 1);
      }
      const length = next - from - 1;
      low = (low - Math.imul(wordLow[from] as number, powersLow[length] as number)) | 0;
      high = (high - Math.imul(wordHigh[from] as number, powersHigh[length] as number)) | 0;
      if (((kind[from] as number) & DIGIT) === 0) {
        told -= bits[from] as number;
        if ((bits[from] as number) >= TELLING_BITS) telling -= 1;
      }
    }
  }
}

function hasBoundary(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at += 1) if (bytes[at] === BOUNDARY_BYTE) return true;
  return false;
}
