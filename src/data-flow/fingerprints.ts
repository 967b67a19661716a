import { AddressFingerprints } from "./address-fingerprints.ts";
import { CodeFingerprints, JOINED_BYTES_MIN } from "./code-fingerprints.ts";
import { CONTAINED, FingerprintTable, WORDS, WORDS_OF_ADDRESS } from "./fingerprint-table.ts";
import { FREQUENT_WORDS } from "./frequent-words.ts";
import { ENDS, FOLDED, KeyedHash } from "./keyed-hash.ts";
import { BOUNDARY, folded, piecesOf, variantsOf } from "./texts.ts";
import { DIGIT, HIGH, LETTER, UUID_FIRST_BYTES } from "./units.ts";
import { type ValueWords, valueWords } from "./value-words.ts";
import { bitsOf, inTwoSlots, LETTERS_BITS, LETTERS_TELL, SECOND_SLOT_SHIFT, TELLING_BITS } from "./word-bits.ts";
import { WordRuns } from "./word-runs.ts";

/** Longest text that has a fingerprint as a whole, in bytes. */
const WHOLE_BYTES_MAX = 64;
const [DOT, AT] = [0x2e, 0x40];
const KINDS = LETTER | DIGIT | HIGH;

/**
 * Cuts texts into words and fingerprints them, and each two words in a row, numbers, short values as a whole, and units (`units.ts`):
 * addresses, host names, codes and telephone numbers. Case, accents, spacing, punctuation, quotes, the grouping of numbers and codes,
 * and one level of encoding change no fingerprint.
 *
 * A fingerprint is a hash of 64 bits with a key of the deployment. The hash is not a cryptographic one, which would take ten times
 * as long. Whoever writes texts that agents read sees no fingerprint, so the key only has to keep him from preparing two texts that
 * share one; whoever reads the database may find the key as well, and can test guesses either way.
 */
export class Fingerprints extends FingerprintTable {
  readonly #addresses: AddressFingerprints;
  readonly #codes: CodeFingerprints;
  readonly #runs: WordRuns;
  readonly #encoder = new TextEncoder();
  /** Lower halves of the frequent words. */
  readonly #frequent: Int32Array;

  /** `secret`: 32 bytes. */
  constructor(secret: Uint8Array) {
    super(new KeyedHash(secret));
    this.#addresses = new AddressFingerprints(this);
    this.#codes = new CodeFingerprints(this);
    this.#runs = new WordRuns(this);
    this.#frequent = inTwoSlots(
      FREQUENT_WORDS.map((frequent) => {
        const { written } = this.#encoder.encodeInto(frequent, this.bytes);
        this.hash.letters(this.bytes, 0, written);
        return this.hash.low;
      }),
    );
  }

  /**
   * Reads a value of any length, and as it is when decoded, to look it up: codes are not cut into parts, and host names are found
   * without their first labels too. `piece` is called while the fingerprints of each piece are there.
   */
  readValue(text: string, piece: () => void): void {
    this.isValue = true;
    for (const variant of variantsOf(text)) {
      for (const part of piecesOf(variant)) {
        this.read([part]);
        piece();
      }
    }
    this.isValue = false;
  }

  /** Reads texts that have at most `PIECE_CHARACTERS` together. */
  read(texts: readonly string[]): void {
    const joined = texts.length === 1 ? (texts[0] ?? "") : texts.join(BOUNDARY);
    let { written } = this.#encoder.encodeInto(joined, this.bytes);
    // ASCII takes one byte for each character, and nothing else does.
    if (written !== joined.length) written = this.#encoder.encodeInto(folded(joined), this.bytes).written;
    this.#scan(written);
  }

  /**
   * Fingerprints words, and each two in a row. What differs from word to word is computed rather than branched on: a wrong guess of
   * the processor takes as long as four letters.
   */
  #scan(length: number): void {
    const { low: lows, high: highs, from, to, text: texts, sort: sorts, bits, bytes } = this;
    const [wordLow, wordHigh, starts, ends, kinds] = [this.wordLow, this.wordHigh, this.start, this.end, this.kind];
    const [frequent, codeWords] = [this.#frequent, this.#codes.codeWords];
    const slots = frequent.length - 1;
    const { seedLow, seedHigh, factor, one, two } = this.hash;
    let count = 0;
    let words = 0;
    let text = 0;
    let firstWord = 0;
    let textStart = 0;
    let low = seedLow;
    let high = seedHigh;
    let kind = 0;
    let wasTelling = 0;
    let digits = 0;
    let codes = 0;
    let hasAddresses = false;
    let firstPrint = 0;
    bytes[length] = ENDS;
    // Zeros stay where nothing else is written: most fingerprints are of words, and most texts are read alone.
    sorts.fill(WORDS, 0, this.count);
    texts.fill(0, 0, this.count);
    for (let at = 0; at <= length; at += 1) {
      let code = FOLDED[bytes[at] as number] as number;
      if (code > ENDS) {
        const start = at;
        low = seedLow;
        high = seedHigh;
        kind = 0;
        do {
          low = Math.imul(low ^ code, factor);
          high = (((high << 7) | (high >>> 25)) + low) | 0;
          kind |= code;
          at += 1;
          code = FOLDED[bytes[at] as number] as number;
        } while (code > ENDS);
        kind &= KINDS;
        low = Math.imul(low ^ (high >>> 16), one);
        low ^= low >>> 15;
        high = Math.imul(high ^ low, two);
        high ^= high >>> 14;
        const size = at - start;
        let tells: number;
        let isTelling: number;
        if (kind === LETTER && size < LETTERS_BITS.length) {
          const first = (frequent[low & slots] as number) ^ low;
          const second = (frequent[(low >>> SECOND_SLOT_SHIFT) & slots] as number) ^ low;
          // All bits where neither slot has the word, otherwise none.
          const rare = ((first | (0 - first)) & (second | (0 - second))) >> 31;
          tells = LETTERS_BITS[size & rare] as number;
          isTelling = LETTERS_TELL[size & rare] as number;
        } else {
          tells = bitsOf(kind, bytes, start, size);
          isTelling = tells >= TELLING_BITS ? 1 : 0;
          if ((kind & DIGIT) !== 0) digits += size >= JOINED_BYTES_MIN ? 2 : 1;
        }
        codeWords[codes] = words;
        codes += (kind & DIGIT) !== 0 || size === UUID_FIRST_BYTES ? 1 : 0;
        wordLow[words] = low;
        wordHigh[words] = high;
        starts[words] = start;
        ends[words] = at;
        kinds[words] = kind;
        bits[words] = tells;
        // Kept only when it is counted.
        lows[count] = low;
        highs[count] = high;
        from[count] = words;
        to[count] = words;
        count += isTelling;
        if (words > firstWord) {
          const between = bytes[start - 1] as number;
          if ((between === DOT || between === AT) && ends[words - 1] === start - 1) hasAddresses = true;
          lows[count] = (Math.imul(wordLow[words - 1] as number, one) + low) | 0;
          highs[count] = (Math.imul(wordHigh[words - 1] as number, two) + high) | 0;
          from[count] = words - 1;
          to[count] = words;
          count += isTelling | wasTelling;
        }
        words += 1;
        wasTelling = isTelling;
      }
      if (code === ENDS) {
        this.count = count;
        if (text > 0) texts.fill(text, firstPrint, count);
        if (words > firstWord + 1 && at - textStart <= WHOLE_BYTES_MAX) {
          this.hash.between(this.bytes, textStart, at);
          this.add({ from: firstWord, to: words - 1 }, text);
        }
        if (words > firstWord) {
          const span = { from: firstWord, to: words - 1 };
          if (hasAddresses) this.#addresses.add(span, text, firstPrint);
          else if (this.isValue) this.#addresses.isAddressHost.fill(0, span.from, span.to + 1);
          if (digits > 1) this.#codes.add(span, text, codes);
        }
        count = this.count;
        firstPrint = count;
        text += 1;
        firstWord = words;
        textStart = at + 1;
        digits = 0;
        codes = 0;
        hasAddresses = false;
        wasTelling = 0;
      }
    }
    this.words = words;
  }

  /** Makes the fingerprint of the text that was read last, for values that are exactly this; none when it has no words. */
  exact(take: (low: number, high: number) => void): void {
    if (this.words > 0) this.#exact(0, this.words - 1, take);
  }

  /** Makes the fingerprints of each word and each two in a row of the text that was read last, for values that it contains. */
  contained(take: (low: number, high: number, from: number, to: number) => void): void {
    for (let to = 0; to < this.words; to += 1) {
      for (let from = Math.max(0, to - 1); from <= to; from += 1)
        this.#exact(from, to, (low, high) => {
          this.hash.sorted(low, high, CONTAINED);
          take(this.hash.low, this.hash.high, from, to);
        });
    }
  }

  /** Makes fingerprints as `exact` of up to this many words in a row of the text that was read last. */
  exactRuns(wordsMax: number, take: (low: number, high: number) => void): void {
    for (let from = 0; from < this.words; from += 1) {
      for (let to = from; to < this.words && to - from < wordsMax; to += 1) this.#exact(from, to, take);
    }
  }

  /** Makes a fingerprint of the shortest words in a row, from each word, by which the texts that were read last are recognized. */
  runs(take: (low: number, high: number, from: number, to: number) => void): void {
    this.#runs.find(take);
  }

  #exact(from: number, to: number, take: (low: number, high: number) => void): void {
    this.hash.between(this.bytes, this.start[from] as number, this.end[to] as number);
    // Another factor: no word and no phrase has such a fingerprint.
    take(
      Math.imul(this.hash.low, this.hash.two) ^ this.hash.high,
      (Math.imul(this.hash.high, this.hash.one) + this.hash.seedLow) | 0,
    );
  }

  /** Makes the fingerprint that a word or a pair has in the host name of a mail address. */
  inAddress(low: number, high: number, take: (low: number, high: number) => void): void {
    this.hash.sorted(low, high, WORDS_OF_ADDRESS);
    take(this.hash.low, this.hash.high);
  }

  /** Returns what the first words of a value tell. Round numbers, years and dates tell less than their digits. */
  valueWords(words: number): ValueWords {
    return valueWords(this, this.#addresses.isAddressHost, words);
  }
}
