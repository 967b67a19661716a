import { FREQUENT_WORDS } from "./frequent-words.ts";

/**
 * Cuts texts into words and fingerprints them, and phrases of two and three words, codes that are written in groups, numbers, and
 * short values as a whole. Case, accents, spacing, punctuation, quotes, the grouping of numbers and codes, and one level of percent
 * or entity encoding change no fingerprint.
 *
 * A fingerprint is a hash of 64 bits with a key of the deployment. The hash is not a cryptographic one, which would take ten times
 * as long. Whoever writes texts that agents read sees no fingerprint, so the key only has to keep him from preparing two texts that
 * share one; whoever reads the database may find the key as well, and can test guesses either way.
 */

/** Longest piece of a text that is read at once, in UTF-16 units. */
const PIECE_CHARACTERS = 16_384;
/** Pieces overlap, so that no value of usual length is cut. */
const OVERLAP_CHARACTERS = 128;
const WORDS_MAX = PIECE_CHARACTERS / 2 + 1;
/** Most fingerprints of one piece: three for each word, and those of codes, numbers and the whole value. */
const PRINTS_MAX = WORDS_MAX * 3 + 6_144;

/** Longest value that has a fingerprint as a whole (UTF-16 units). */
const WHOLE_CHARACTERS_MAX = 128;
/** Codes are often written in groups. Groups that are joined: their number, the length of each, and of all together. */
const GROUPS_MAX = 8;
const GROUP_CHARACTERS_MAX = 8;
const JOINED_CHARACTERS_MIN = 9;
const JOINED_CHARACTERS_MAX = 40;
/** Most fingerprints of codes in groups in one piece. */
const JOINS_MAX = 4_096;

/** Estimated information of words, in bits. A phrase has the sum of its words. */
const FREQUENT_BITS = 2;
const DIGIT_BITS = 3.3;
const YEAR_BITS = 4;
const MIXED_BITS = 4;
const IDEOGRAPH_BITS = 6;
const LETTERS_BITS = [0, 1, 3, 7, 10] as const;
const FURTHER_LETTER_BITS = 1.5;

/** A word with fewer bits has no fingerprint of its own, and neither has a phrase of such words. */
const TELLING_BITS = 6.5;

const [LETTER, DIGIT] = [1, 2];

/** Classes of the ASCII characters; 0 separates words. */
const CLASSES = Uint8Array.from({ length: 128 }, (_, code) => {
  if (code >= 0x30 && code <= 0x39) return DIGIT;
  const folded = code | 0x20;
  return folded >= 0x61 && folded <= 0x7a ? LETTER : 0;
});

const NON_ASCII = /[^\0-\x7f]/;
const ACCENTS_AND_INVISIBLE = /[\p{M}\p{Cf}\p{Default_Ignorable_Code_Point}]+/gu;
const SEPARATOR = /[^\p{L}\p{N}]/u;
const IDEOGRAPH = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]/u;
const ENCODED =
  /(?:%[0-9a-fA-F]{2})+|&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(amp|lt|gt|quot|apos|nbsp|commat|period|sol|colon));/g;
const ENTITIES: Readonly<Record<string, string>> = {
  ...{ amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: " ", commat: "@", period: ".", sol: "/", colon: ":" },
};
/** Characters between the groups of one code, and of one number. */
const GROUPING = " -./";
const NUMBER_GROUPING = ",.' ";
const CODE_POINT_LAST = 0x10_ffff;

/** Fingerprints of texts, until the next text is read. The words that each covers are `from` to `to`. */
export class Fingerprints {
  count = 0;
  readonly low = new Int32Array(PRINTS_MAX);
  readonly high = new Int32Array(PRINTS_MAX);
  readonly from = new Int32Array(PRINTS_MAX);
  readonly to = new Int32Array(PRINTS_MAX);
  words = 0;
  /** Estimated information of each word, in bits. */
  readonly bits = new Float32Array(WORDS_MAX);
  readonly #wordLow = new Int32Array(WORDS_MAX);
  readonly #wordHigh = new Int32Array(WORDS_MAX);
  readonly #start = new Int32Array(WORDS_MAX);
  readonly #end = new Int32Array(WORDS_MAX);
  readonly #kind = new Uint8Array(WORDS_MAX);
  readonly #seeds: readonly [number, number];
  readonly #factors: readonly [number, number, number, number];
  readonly #frequent = new Int32Array(4_096);
  /** Halves of the last hash. */
  #low = 0;
  #high = 0;

  /** `key`: 32 secret bytes. */
  constructor(key: Uint8Array) {
    const view = new DataView(key.buffer, key.byteOffset, key.byteLength);
    const word = (at: number): number => view.getInt32(at * 4);
    this.#seeds = [word(0), word(1)];
    this.#factors = [word(2) | 1, word(3) | 1, word(4) | 1, word(5) | 1];
    for (const frequent of FREQUENT_WORDS) {
      this.#hash(frequent, 0, frequent.length);
      let slot = this.#low & 4_095;
      while (this.#frequent[slot] !== 0) slot = (slot + 1) & 4_095;
      this.#frequent[slot] = this.#low;
    }
  }

  /** Reads a text piece by piece. `piece` is called after each one, while its fingerprints are in the arrays. */
  read(text: string, piece: () => void): void {
    for (const variant of variantsOf(text)) {
      let at = 0;
      do {
        this.readPiece(variant.slice(at, at + PIECE_CHARACTERS));
        piece();
        at += PIECE_CHARACTERS - OVERLAP_CHARACTERS;
      } while (at + OVERLAP_CHARACTERS < variant.length);
    }
  }

  /** Reads at most `PIECE_CHARACTERS` of one of the variants of a text. */
  readPiece(piece: string): void {
    const text = NON_ASCII.test(piece) ? folded(piece) : piece;
    this.count = 0;
    this.#cut(text);
    this.#phrases();
    if (this.#hasCodes) this.#codes(text);
    if (this.words > 1 && text.length <= WHOLE_CHARACTERS_MAX) {
      this.#hashWords(text, 0, this.words - 1);
      this.#add(this.#low, this.#high, 0, this.words - 1);
    }
  }

  #hasCodes = false;

  #cut(text: string): void {
    const [seedLow, seedHigh] = this.#seeds;
    const [factorLow, factorHigh] = this.#factors;
    const { length } = text;
    let words = 0;
    let start = -1;
    let low = 0;
    let high = 0;
    let kinds = 0;
    let hasCodes = false;
    for (let at = 0; at <= length; at += 1) {
      let code = at < length ? text.charCodeAt(at) : 0;
      const kind = code < 128 ? (CLASSES[code] as number) : kindOf(text, at);
      if (kind === 0 || kind === IDEOGRAPHIC) {
        if (start !== -1) {
          if ((kinds & DIGIT) !== 0) hasCodes = true;
          this.#end[words] = at;
          this.#start[words] = start;
          this.#kind[words] = kinds;
          this.#finish(words, low, high);
          words += 1;
          start = -1;
        }
        if (kind === 0) continue;
      }
      if (code < 128) code |= 0x20;
      if (start === -1) {
        start = at;
        low = seedLow;
        high = seedHigh;
        kinds = 0;
      }
      low = Math.imul(low ^ code, factorLow);
      high = Math.imul(high + code, factorHigh);
      high ^= high >>> 15;
      kinds |= kind;
    }
    this.words = words;
    this.#hasCodes = hasCodes;
  }

  /** Completes the hash of a word, and estimates what it tells. */
  #finish(word: number, low: number, high: number): void {
    this.#mix(low, high);
    this.#wordLow[word] = this.#low;
    this.#wordHigh[word] = this.#high;
    const kinds = this.#kind[word] as number;
    const length = (this.#end[word] as number) - (this.#start[word] as number);
    let bits = 0;
    if (kinds === LETTER) {
      bits =
        length < LETTERS_BITS.length
          ? (LETTERS_BITS[length] as number)
          : LETTERS_BITS[4] + (length - 4) * FURTHER_LETTER_BITS;
      if (length > 2 && length < 13 && this.#isFrequent(this.#low)) bits = FREQUENT_BITS;
    } else if (kinds === DIGIT) bits = length * DIGIT_BITS - 4;
    else bits = (kinds & IDEOGRAPHIC) !== 0 ? IDEOGRAPH_BITS : (length - 1) * MIXED_BITS;
    this.bits[word] = bits;
  }

  #isFrequent(low: number): boolean {
    for (let slot = low & 4_095; ; slot = (slot + 1) & 4_095) {
      const known = this.#frequent[slot];
      if (known === low) return true;
      if (known === 0) return false;
    }
  }

  /** Adds the fingerprints of words, and of two and three words in a row. */
  #phrases(): void {
    const { words, bits } = this;
    const [, , one, two] = this.#factors;
    let lowBefore = 0;
    let highBefore = 0;
    let lowFirst = 0;
    let highFirst = 0;
    for (let word = 0; word < words; word += 1) {
      const low = this.#wordLow[word] as number;
      const high = this.#wordHigh[word] as number;
      const tells = (bits[word] as number) >= TELLING_BITS;
      if (tells) this.#add(low, high, word, word);
      const pairTells = tells || (word > 0 && (bits[word - 1] as number) >= TELLING_BITS);
      const pairLow = Math.imul(lowBefore, one) + low;
      const pairHigh = Math.imul(highBefore, two) + high;
      if (word > 0 && pairTells) {
        this.#mix(pairLow, pairHigh);
        this.#add(this.#low, this.#high, word - 1, word);
      }
      if (word > 1 && (pairTells || (bits[word - 2] as number) >= TELLING_BITS)) {
        this.#mix(Math.imul(lowFirst, two) + pairLow, Math.imul(highFirst, one) + pairHigh);
        this.#add(this.#low, this.#high, word - 2, word);
      }
      lowFirst = lowBefore;
      highFirst = highBefore;
      lowBefore = low;
      highBefore = high;
    }
  }

  /** Adds the fingerprints of codes that are written in groups, and of numbers, as they are written without groups. */
  #codes(text: string): void {
    let joins = 0;
    let runStart = 0;
    for (let word = 0; word < this.words; word += 1) {
      const kind = this.#kind[word] as number;
      const start = this.#start[word] as number;
      const end = this.#end[word] as number;
      if (kind === DIGIT) this.#describeNumber(text, word);
      const isGroup = (kind & DIGIT) !== 0 && end - start <= GROUP_CHARACTERS_MAX;
      if (!isGroup) {
        runStart = word + 1;
        continue;
      }
      if (word > runStart && !this.#isGrouped(text, word, GROUPING)) runStart = word;
      const first = Math.max(runStart, word - GROUPS_MAX + 1);
      for (let from = word - 1; from >= first && joins < JOINS_MAX; from -= 1) {
        const length = end - (this.#start[from] as number) - (word - from);
        if (length > JOINED_CHARACTERS_MAX) break;
        if (length < JOINED_CHARACTERS_MIN) continue;
        this.#hashWords(text, from, word);
        this.#add(this.#low, this.#high, from, word);
        joins += 1;
      }
    }
  }

  /** Returns whether exactly one of these characters is between a word and the one before it. */
  #isGrouped(text: string, word: number, separators: string): boolean {
    const gap = this.#end[word - 1] as number;
    return this.#start[word] === gap + 1 && separators.includes(text.charAt(gap));
  }

  #describeNumber(text: string, word: number): void {
    const start = this.#start[word] as number;
    const digits = text.slice(start, this.#end[word] as number);
    if (digits.length === 4 && /^(?:19|20)/.test(digits)) this.bits[word] = YEAR_BITS;
    else if (digits.endsWith("0")) this.bits[word] = digits.replace(/0+$/, "").length * DIGIT_BITS - 4;
    const isDigits = (at: number): boolean => this.#kind[at] === DIGIT && this.#isGrouped(text, at, NUMBER_GROUPING);
    // The first group of a number describes the whole number.
    if (word > 0 && this.#kind[word - 1] === DIGIT && isDigits(word)) return;
    let last = word;
    while (last + 1 < this.words && last - word < GROUPS_MAX && isDigits(last + 1)) last += 1;
    if (last === word) return;
    for (const number of numbersIn(text.slice(start, this.#end[last] as number))) {
      this.#hash(number, 0, number.length);
      this.#add(this.#low, this.#high, word, last);
    }
  }

  /** Hashes words as if nothing were between them. */
  #hashWords(text: string, from: number, to: number): void {
    const [factorLow, factorHigh] = this.#factors;
    let [low, high] = this.#seeds;
    for (let word = from; word <= to; word += 1) {
      const end = this.#end[word] as number;
      for (let at = this.#start[word] as number; at < end; at += 1) {
        let code = text.charCodeAt(at);
        if (code < 128) code |= 0x20;
        low = Math.imul(low ^ code, factorLow);
        high = Math.imul(high + code, factorHigh);
        high ^= high >>> 15;
      }
    }
    this.#mix(low, high);
  }

  /** Hashes characters that are folded already. */
  #hash(text: string, from: number, to: number): void {
    const [factorLow, factorHigh] = this.#factors;
    let [low, high] = this.#seeds;
    for (let at = from; at < to; at += 1) {
      const code = text.charCodeAt(at);
      low = Math.imul(low ^ code, factorLow);
      high = Math.imul(high + code, factorHigh);
      high ^= high >>> 15;
    }
    this.#mix(low, high);
  }

  /** Spreads every bit of both halves over both. */
  #mix(low: number, high: number): void {
    let one = low ^ ((high << 13) | (high >>> 19));
    one = Math.imul(one ^ (one >>> 16), 0x85ebca6b);
    one = Math.imul(one ^ (one >>> 13), 0xc2b2ae35);
    one ^= one >>> 16;
    let other = high + Math.imul(low, 0x9e3779b1);
    other = Math.imul(other ^ (other >>> 15), 0x2c1b3c6d);
    other = Math.imul(other ^ (other >>> 12), 0x297a2d39);
    this.#low = one;
    this.#high = other ^ (other >>> 15);
  }

  #add(low: number, high: number, from: number, to: number): void {
    const at = this.count;
    if (at >= PRINTS_MAX) return;
    this.low[at] = low;
    this.high[at] = high;
    this.from[at] = from;
    this.to[at] = to;
    this.count = at + 1;
  }
}

const IDEOGRAPHIC = 4;

/** Returns the class of a character that is not ASCII. Only folded texts hold some. */
function kindOf(text: string, at: number): number {
  const character = text.charAt(at);
  // Half of a surrogate pair is part of a word.
  if (!character.isWellFormed()) return LETTER;
  if (SEPARATOR.test(character)) return 0;
  return IDEOGRAPH.test(character) ? IDEOGRAPHIC : LETTER;
}

/** Returns a text without accents and invisible characters, with the plain forms of its letters and digits. */
function folded(text: string): string {
  return text.normalize("NFKD").replace(ACCENTS_AND_INVISIBLE, "").toLowerCase();
}

/** Returns a text as it is, and decoded when parts of it are percent or entity encoded. */
export function variantsOf(text: string): readonly string[] {
  if (!text.includes("%") && !text.includes("&")) return [text];
  const decoded = text.replace(ENCODED, (encoded, decimal?: string, hex?: string, name?: string) => {
    if (name !== undefined) return ENTITIES[name] ?? encoded;
    if (decimal === undefined && hex === undefined) return percentDecoded(encoded);
    const code = decimal === undefined ? Number.parseInt(hex ?? "", 16) : Number(decimal);
    return code <= CODE_POINT_LAST ? String.fromCodePoint(code) : encoded;
  });
  return decoded === text ? [text] : [text, decoded];
}

function percentDecoded(encoded: string): string {
  return Buffer.from(encoded.replaceAll("%", ""), "hex").toString("utf8");
}

const GROUPED_NUMBER = /^(\d{1,3}(?:([,.' ])\d{3})(?:\2\d{3})*)(?:(?!\2)[.,](\d+))?$/;
const DECIMAL_NUMBER = /^(\d+)[.,](\d+)$/;

/** Returns what a number may mean, written without groups and without zeros at its ends: `1.500` is 1500 or 1.5. */
function numbersIn(written: string): readonly string[] {
  const grouped = GROUPED_NUMBER.exec(written);
  const decimal = DECIMAL_NUMBER.exec(written);
  return [
    ...(grouped === null ? [] : [plainNumber(grouped[1] ?? "", grouped[3])]),
    ...(decimal === null ? [] : [plainNumber(decimal[1] ?? "", decimal[2])]),
  ];
}

function plainNumber(whole: string, fraction = ""): string {
  const digits = whole.replaceAll(/\D/g, "").replace(/^0+(?=\d)/, "");
  const decimals = fraction.replace(/0+$/, "");
  return decimals === "" ? digits : `${digits}.${decimals}`;
}
