import type { KeyedHash } from "./keyed-hash.ts";
import { PIECE_CHARACTERS } from "./texts.ts";
import type { WordSpan, Words } from "./units.ts";

const BYTES_MAX = PIECE_CHARACTERS * 6;
export const WORDS_MAX = BYTES_MAX / 2 + 1;
/** Most fingerprints of codes and numbers in one piece. */
export const JOINS_MAX = 8_192;
const PRINTS_MAX = WORDS_MAX * 2 + JOINS_MAX + PIECE_CHARACTERS;

/** Sorts of fingerprints: they differ even for the same characters. A code has the fingerprint of the word without groups. */
export const [WORDS, CODE, ADDRESS, HOST, HOST_OF_ADDRESS, PHONE, WORDS_OF_ADDRESS, RUN, CONTAINED] = [
  0, 1, 2, 3, 4, 5, 6, 7, 8,
];

/** Fingerprints of the texts that were read last, and the words of these texts. The words that each covers are `from` to `to`. */
export class FingerprintTable implements Words {
  count = 0;
  readonly low = new Int32Array(PRINTS_MAX);
  readonly high = new Int32Array(PRINTS_MAX);
  readonly from = new Uint16Array(PRINTS_MAX);
  readonly to = new Uint16Array(PRINTS_MAX);
  /** Number of the text that contains the fingerprint, among the texts that were read together. */
  readonly text = new Uint16Array(PRINTS_MAX);
  /** Sort of each fingerprint. */
  readonly sort = new Uint8Array(PRINTS_MAX);
  words = 0;
  readonly bits = new Float32Array(WORDS_MAX);
  readonly start = new Int32Array(WORDS_MAX);
  readonly end = new Int32Array(WORDS_MAX);
  readonly kind = new Uint16Array(WORDS_MAX);
  readonly bytes = new Uint8Array(BYTES_MAX);
  /** Halves of each word's hash. */
  readonly wordLow = new Int32Array(WORDS_MAX);
  readonly wordHigh = new Int32Array(WORDS_MAX);
  /** Whether the text is a value that is looked up, and not one to be found. */
  isValue = false;
  readonly hash: KeyedHash;

  constructor(hash: KeyedHash) {
    this.hash = hash;
  }

  /** Adds the hash that was made last. */
  add({ from, to }: WordSpan, text: number, sort = WORDS): void {
    const at = this.count;
    if (at >= PRINTS_MAX) return;
    this.low[at] = this.hash.low;
    this.high[at] = this.hash.high;
    this.from[at] = from;
    this.to[at] = to;
    this.text[at] = text;
    this.sort[at] = sort;
    this.count = at + 1;
  }

  /** Adds the hash that was made last, as one of another sort. */
  addSorted(from: number, to: number, text: number, sort: number): void {
    this.hash.sorted(this.hash.low, this.hash.high, sort);
    this.add({ from, to }, text, sort);
  }

  size(word: number): number {
    return (this.end[word] as number) - (this.start[word] as number);
  }

  /** Returns digits and what is between them, as they are written. */
  written(from: number, to: number): string {
    return String.fromCharCode(...this.bytes.subarray(this.start[from], this.end[to]));
  }

  /** Returns words as they are written, with what is between them. */
  textOf({ from, to }: WordSpan): string {
    return Buffer.from(
      this.bytes.buffer,
      this.start[from],
      (this.end[to] as number) - (this.start[from] as number),
    ).toString();
  }
}
