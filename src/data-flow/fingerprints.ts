import { FREQUENT_WORDS } from "./frequent-words.ts";

/**
 * Cuts texts into words and fingerprints them, and each two words in a row, codes that are written in groups, numbers, and short
 * values as a whole. Case, accents, spacing, punctuation, quotes, the grouping of numbers and codes, and one level of percent
 * or entity encoding change no fingerprint.
 *
 * A fingerprint is a hash of 64 bits with a key of the deployment. The hash is not a cryptographic one, which would take ten times
 * as long. Whoever writes texts that agents read sees no fingerprint, so the key only has to keep him from preparing two texts that
 * share one; whoever reads the database may find the key as well, and can test guesses either way.
 */

/** Longest text that is read at once, in UTF-16 units: longer ones are read in pieces. */
export const PIECE_CHARACTERS = 8_192;
/** Pieces of one text overlap, so that no value of usual length is cut. */
const OVERLAP_CHARACTERS = 128;
/** Between texts that are read together: no phrase goes across it. */
const BOUNDARY = "\x01";
const BYTES_MAX = PIECE_CHARACTERS * 6;
const WORDS_MAX = BYTES_MAX / 2 + 1;

/** Longest text that has a fingerprint as a whole, in bytes. */
const WHOLE_BYTES_MAX = 64;
/** Codes are often written in groups. Groups that are joined: their number, the length of each, and of all together. */
const GROUPS_MAX = 8;
const GROUP_BYTES_MAX = 8;
const JOINED_BYTES_MIN = 9;
const JOINED_BYTES_MAX = 40;
/** Most fingerprints of codes and numbers in one piece. */
const JOINS_MAX = 8_192;
const PRINTS_MAX = WORDS_MAX * 2 + JOINS_MAX + PIECE_CHARACTERS;

/** Estimated information of words, in bits. Several words tell the sum. */
const FREQUENT_BITS = 2;
const DIGIT_BITS = 3.3;
const DIGITS_BASE_BITS = -4;
const YEAR_BITS = 4;
const MIXED_BITS = 4;
const IDEOGRAPH_BITS = 6;
const LETTERS_BITS = Float32Array.of(0, 1, 3, 7, 10);
const FURTHER_LETTER_BITS = 1.5;

/** A word with fewer bits has no fingerprint of its own, and neither have two such words in a row. */
export const TELLING_BITS = 6.5;

const [SEPARATES, ENDS] = [0, 1];
/** Kinds of characters in words. */
const [LETTER, DIGIT, HIGH] = [0x100, 0x200, 0x400];
const KINDS = LETTER | DIGIT | HIGH;
const FIRST_HIGH_BYTE = 0x80;

/** What each byte of UTF-8 adds to a word: letters in lower case, digits and all of what is not ASCII, each with its kind. */
const FOLDED = Uint16Array.from({ length: 256 }, (_, code) => {
  if (code >= FIRST_HIGH_BYTE) return code | HIGH;
  if (code >= 0x30 && code <= 0x39) return code | DIGIT;
  if (code === BOUNDARY.charCodeAt(0)) return ENDS;
  const folded = code | 0x20;
  return folded >= 0x61 && folded <= 0x7a ? folded | LETTER : SEPARATES;
});

const NON_ASCII = /[^\0-\x7f]/;
const ACCENTS_AND_INVISIBLE = /[\p{M}\p{Cf}\p{Default_Ignorable_Code_Point}]+/gu;
const OTHER_SEPARATORS = /[^\p{L}\p{N}\0-\x7f]+/gu;
/** Scripts without spaces: every character is a word. */
const UNSPACED = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]/gu;
const ENCODED = /(?:%[0-9a-fA-F]{2})+|&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-z]{2,6}));/g;
const ENTITIES: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: " ",
  commat: "@",
  period: ".",
  sol: "/",
  colon: ":",
};
const CODE_POINT_LAST = 0x10_ffff;
/** Uses of characters: between the groups of one code, and of one number. */
const [IN_CODES, IN_NUMBERS] = [1, 2];
const GROUPING = Uint8Array.from(
  { length: 256 },
  (_, code) =>
    (" -./()".includes(String.fromCharCode(code)) ? IN_CODES : 0) |
    (",.'".includes(String.fromCharCode(code)) ? IN_NUMBERS : 0),
);

const FREQUENT_SLOTS = 4_096;

/** Fingerprints of the texts that were read last. The words that each covers are `from` to `to`. */
export class Fingerprints {
  count = 0;
  readonly low = new Int32Array(PRINTS_MAX);
  readonly high = new Int32Array(PRINTS_MAX);
  readonly from = new Uint16Array(PRINTS_MAX);
  readonly to = new Uint16Array(PRINTS_MAX);
  /** Number of the text that holds it, of those that were read together. */
  readonly text = new Uint16Array(PRINTS_MAX);
  words = 0;
  /** Estimated information of each word, in bits. */
  readonly bits = new Float32Array(WORDS_MAX);
  readonly #wordLow = new Int32Array(WORDS_MAX);
  readonly #wordHigh = new Int32Array(WORDS_MAX);
  readonly #start = new Int32Array(WORDS_MAX);
  readonly #end = new Int32Array(WORDS_MAX);
  readonly #kind = new Uint16Array(WORDS_MAX);
  readonly #bytes = new Uint8Array(BYTES_MAX);
  readonly #encoder = new TextEncoder();
  readonly #frequent = new Int32Array(FREQUENT_SLOTS);
  readonly #seedLow: number;
  readonly #seedHigh: number;
  /** Odd, so that no bit is lost. */
  readonly #factor: number;
  readonly #one: number;
  readonly #two: number;
  /** Halves of the hash that was made last. */
  #low = 0;
  #high = 0;

  /** `secret`: 32 bytes. */
  constructor(secret: Uint8Array) {
    const view = new DataView(secret.buffer, secret.byteOffset, secret.byteLength);
    this.#seedLow = view.getInt32(0);
    this.#seedHigh = view.getInt32(4);
    this.#factor = view.getInt32(8) | 1;
    this.#one = view.getInt32(12) | 1;
    this.#two = view.getInt32(16) | 1;
    for (const frequent of FREQUENT_WORDS) {
      this.#hashText(frequent);
      let slot = this.#low & (FREQUENT_SLOTS - 1);
      while (this.#frequent[slot] !== 0) slot = (slot + 1) & (FREQUENT_SLOTS - 1);
      this.#frequent[slot] = this.#low;
    }
  }

  /** Reads a text of any length, and as it is when decoded. `piece` is called while the fingerprints of each piece are there. */
  readText(text: string, piece: () => void): void {
    for (const variant of variantsOf(text)) {
      for (const part of piecesOf(variant)) {
        this.read([part]);
        piece();
      }
    }
  }

  /** Reads texts that have at most `PIECE_CHARACTERS` together. */
  read(texts: readonly string[]): void {
    const joined = texts.length === 1 ? (texts[0] ?? "") : texts.join(BOUNDARY);
    const text = NON_ASCII.test(joined) ? folded(joined) : joined;
    const { written } = this.#encoder.encodeInto(text, this.#bytes);
    this.#scan(written);
  }

  /** Fingerprints words, and each two in a row. */
  #scan(length: number): void {
    const { low: lows, high: highs, from, to, text: texts, bits } = this;
    const bytes = this.#bytes;
    const [wordLow, wordHigh, starts, ends, kinds] = [
      this.#wordLow,
      this.#wordHigh,
      this.#start,
      this.#end,
      this.#kind,
    ];
    const frequent = this.#frequent;
    const [seedLow, seedHigh, factor, one, two] = [this.#seedLow, this.#seedHigh, this.#factor, this.#one, this.#two];
    let count = 0;
    let words = 0;
    let text = 0;
    let firstWord = 0;
    let textStart = 0;
    let low = seedLow;
    let high = seedHigh;
    let kind = 0;
    let before = 0;
    let hasCodes = false;
    bytes[length] = ENDS;
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
        if (kind === LETTER) {
          tells = size < 5 ? (LETTERS_BITS[size] as number) : 10 + (size - 4) * FURTHER_LETTER_BITS;
          if (size > 2 && size < 13) {
            for (
              let slot = low & (FREQUENT_SLOTS - 1);
              frequent[slot] !== 0;
              slot = (slot + 1) & (FREQUENT_SLOTS - 1)
            ) {
              if (frequent[slot] === low) tells = FREQUENT_BITS;
            }
          }
        } else if ((kind & HIGH) !== 0) tells = highBits(bytes, start, size);
        else if (kind === DIGIT) tells = size * DIGIT_BITS + DIGITS_BASE_BITS;
        else tells = (size - 1) * MIXED_BITS;
        if ((kind & DIGIT) !== 0 && words > firstWord && ((kinds[words - 1] as number) & DIGIT) !== 0) {
          hasCodes ||= (ends[words - 1] as number) >= start - 2;
        }
        wordLow[words] = low;
        wordHigh[words] = high;
        starts[words] = start;
        ends[words] = at;
        kinds[words] = kind;
        bits[words] = tells;
        if (tells >= TELLING_BITS) {
          lows[count] = low;
          highs[count] = high;
          from[count] = words;
          to[count] = words;
          texts[count] = text;
          count += 1;
        }
        if (words > firstWord) {
          low = (Math.imul(wordLow[words - 1] as number, one) + low) | 0;
          high = (Math.imul(wordHigh[words - 1] as number, two) + high) | 0;
          if (tells >= TELLING_BITS || before >= TELLING_BITS) {
            lows[count] = low;
            highs[count] = high;
            from[count] = words - 1;
            to[count] = words;
            texts[count] = text;
            count += 1;
          }
        }
        words += 1;
        before = tells;
      }
      if (code === ENDS) {
        this.count = count;
        if (words > firstWord + 1 && at - textStart <= WHOLE_BYTES_MAX) {
          this.#hashBetween(textStart, at);
          this.#add(firstWord, words - 1, text);
        }
        if (hasCodes) this.#codes(firstWord, words, text);
        count = this.count;
        text += 1;
        firstWord = words;
        textStart = at + 1;
        hasCodes = false;
        before = 0;
      }
    }
    this.words = words;
  }

  /** Adds codes that are written in groups, and numbers, as they are written without groups. */
  #codes(first: number, end: number, text: number): void {
    const [starts, ends, kinds] = [this.#start, this.#end, this.#kind];
    const most = this.count + JOINS_MAX;
    let runStart = first;
    for (let word = first; word < end && this.count < most; word += 1) {
      if (((kinds[word] as number) & DIGIT) === 0) {
        runStart = word + 1;
        continue;
      }
      if (kinds[word] === DIGIT) this.#number(word, { first, end, text });
      const last = ends[word] as number;
      if (last - (starts[word] as number) > GROUP_BYTES_MAX) {
        runStart = word + 1;
        continue;
      }
      if (word > runStart && !this.#isNextTo(word, IN_CODES)) runStart = word;
      for (let group = word - 1; group >= runStart && word - group < GROUPS_MAX; group -= 1) {
        const size = last - (starts[group] as number) - (word - group);
        if (size > JOINED_BYTES_MAX) break;
        if (size < JOINED_BYTES_MIN) continue;
        this.#hashBetween(starts[group] as number, last);
        this.#add(group, word, text);
      }
    }
  }

  /** Returns whether only characters of this use, at most two of them, are between a word and the one before it. */
  #isNextTo(word: number, use: number): boolean {
    const gap = this.#end[word - 1] as number;
    const next = this.#start[word] as number;
    const hasUse = (at: number): boolean => ((GROUPING[this.#bytes[at] as number] as number) & use) !== 0;
    return hasUse(gap) && (next === gap + 1 || (use === IN_CODES && next === gap + 2 && hasUse(gap + 1)));
  }

  /** Adds what a number means that is written with groups or decimals. */
  #number(
    word: number,
    { first, end, text }: { readonly first: number; readonly end: number; readonly text: number },
  ): void {
    const kinds = this.#kind;
    const goesOn = (at: number): boolean => kinds[at] === DIGIT && this.#isNextTo(at, IN_NUMBERS);
    // The first group speaks for the whole number.
    if (word > first && kinds[word - 1] === DIGIT && goesOn(word)) return;
    let last = word;
    while (last + 1 < end && last - word < GROUPS_MAX && goesOn(last + 1)) last += 1;
    if (last === word) return;
    for (const number of numbersIn(this.#written(word, last))) {
      this.#hashText(number);
      this.#add(word, last, text);
    }
  }

  /** Returns digits and what is between them, as they are written. */
  #written(from: number, to: number): string {
    return String.fromCharCode(...this.#bytes.subarray(this.#start[from], this.#end[to]));
  }

  /** Hashes the words between two positions as if nothing were between them. */
  #hashBetween(from: number, to: number): void {
    const bytes = this.#bytes;
    const factor = this.#factor;
    let low = this.#seedLow;
    let high = this.#seedHigh;
    for (let at = from; at < to; at += 1) {
      const code = FOLDED[bytes[at] as number] as number;
      if (code <= ENDS) continue;
      low = Math.imul(low ^ code, factor);
      high = (((high << 7) | (high >>> 25)) + low) | 0;
    }
    this.#finish(low, high);
  }

  /** Hashes ASCII characters as they are. */
  #hashText(text: string): void {
    const factor = this.#factor;
    let low = this.#seedLow;
    let high = this.#seedHigh;
    for (let at = 0; at < text.length; at += 1) {
      low = Math.imul(low ^ (FOLDED[text.charCodeAt(at)] || text.charCodeAt(at)), factor);
      high = (((high << 7) | (high >>> 25)) + low) | 0;
    }
    this.#finish(low, high);
  }

  #finish(low: number, high: number): void {
    let first = Math.imul(low ^ (high >>> 16), this.#one);
    first ^= first >>> 15;
    const second = Math.imul(high ^ first, this.#two);
    this.#low = first;
    this.#high = second ^ (second >>> 14);
  }

  #add(from: number, to: number, text: number): void {
    const at = this.count;
    if (at >= PRINTS_MAX) return;
    this.low[at] = this.#low;
    this.high[at] = this.#high;
    this.from[at] = from;
    this.to[at] = to;
    this.text[at] = text;
    this.count = at + 1;
  }

  /** Makes the fingerprint of the text that was read last, for values that are exactly this; none when it has no words. */
  exact(take: (low: number, high: number) => void): void {
    if (this.words > 0) this.#exact(0, this.words - 1, take);
  }

  /** Makes such fingerprints of each two words in a row of the text that was read last. */
  exactPairs(take: (low: number, high: number, from: number) => void): void {
    for (let word = 1; word < this.words; word += 1)
      this.#exact(word - 1, word, (low, high) => take(low, high, word - 1));
  }

  /** Makes such fingerprints of each word of the text that was read last. */
  exactWords(take: (low: number, high: number) => void): void {
    for (let word = 0; word < this.words; word += 1) this.#exact(word, word, take);
  }

  #exact(from: number, to: number, take: (low: number, high: number) => void): void {
    this.#hashBetween(this.#start[from] as number, this.#end[to] as number);
    // Another factor: no word and no phrase has such a fingerprint.
    take(Math.imul(this.#low, this.#two) ^ this.#high, (Math.imul(this.#high, this.#one) + this.#seedLow) | 0);
  }

  /** Returns what the first words tell, in bits. Round numbers and years tell less than their digits. */
  wordBits(words: number): Float32Array {
    const weights = this.bits.slice(0, words);
    for (let word = 0; word < words; word += 1) {
      if (this.#kind[word] !== DIGIT) continue;
      const digits = this.#written(word, word);
      if (/^(?:19|20)\d\d$/.test(digits)) weights[word] = YEAR_BITS;
      else weights[word] = digits.replace(/^0+|0+$/g, "").length * DIGIT_BITS + DIGITS_BASE_BITS;
    }
    return weights;
  }
}

const LETTER_BYTES = 2;
const IDEOGRAPH_BYTES = 3;
const IDEOGRAPH_FIRST = 0xe0;

/** Returns what a word with characters other than ASCII tells. Ideographs take three bytes and more, other letters mostly two. */
function highBits(bytes: Uint8Array, start: number, size: number): number {
  if ((bytes[start] as number) >= IDEOGRAPH_FIRST) return (size / IDEOGRAPH_BYTES) * IDEOGRAPH_BITS;
  const letters = Math.ceil(size / LETTER_BYTES);
  return letters < LETTERS_BITS.length ? (LETTERS_BITS[letters] as number) : 10 + (letters - 4) * FURTHER_LETTER_BITS;
}

/** Returns a text without accents and invisible characters, and with the plain forms of its letters and digits. */
function folded(text: string): string {
  const plain = text.normalize("NFKD").replace(ACCENTS_AND_INVISIBLE, "").toLowerCase();
  return plain.replace(OTHER_SEPARATORS, " ").replace(UNSPACED, " $& ");
}

/** Returns a text without boundaries, as it is and, when parts of it are percent or entity encoded, decoded. */
export function variantsOf(text: string): readonly string[] {
  const own = text.includes(BOUNDARY) ? text.replaceAll(BOUNDARY, " ") : text;
  if (!own.includes("%") && !own.includes("&")) return [own];
  const decoded = own.replace(ENCODED, (encoded, decimal?: string, hex?: string, name?: string) => {
    if (name !== undefined) return ENTITIES[name] ?? encoded;
    if (decimal === undefined && hex === undefined)
      return Buffer.from(encoded.replaceAll("%", ""), "hex").toString("utf8");
    const code = decimal === undefined ? Number.parseInt(hex ?? "", 16) : Number(decimal);
    return code <= CODE_POINT_LAST ? String.fromCodePoint(code) : encoded;
  });
  return decoded === own ? [own] : [own, decoded.replaceAll(BOUNDARY, " ")];
}

/** Cuts a text into pieces that overlap. */
export function piecesOf(text: string): readonly string[] {
  if (text.length <= PIECE_CHARACTERS) return [text];
  const pieces: string[] = [];
  for (let at = 0; at + OVERLAP_CHARACTERS < text.length; at += PIECE_CHARACTERS - OVERLAP_CHARACTERS)
    pieces.push(text.slice(at, at + PIECE_CHARACTERS));
  return pieces;
}

const PLAIN_DECIMAL = /^\d+\.\d*[1-9]$/;
const GROUPED_NUMBER = /^(\d{1,3}(?:([,.'])\d{3})(?:\2\d{3})*)(?:(?!\2)[.,](\d+))?$/;
const DECIMAL_NUMBER = /^(\d+)[.,](\d+)$/;

/** Returns what a number may mean, written without groups and without zeros at its ends: `1.500` is 1500 or 1.5. */
function numbersIn(written: string): readonly string[] {
  const point = written.indexOf(".");
  if (written.length - point !== 4 && PLAIN_DECIMAL.test(written)) return [written];
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
