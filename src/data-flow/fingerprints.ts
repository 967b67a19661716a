import { FREQUENT_WORDS, PUBLIC_MAIL } from "./frequent-words.ts";
import { BOUNDARY, folded, PIECE_CHARACTERS, piecesOf, variantsOf } from "./texts.ts";
import {
  ACCOUNT_PARTS_MAX,
  accountParts,
  addressesIn,
  areDate,
  DIGIT,
  dateFacts,
  GROUP_BYTES_MAX,
  GROUPS_MAX,
  HIGH,
  HOST_LABELS_MAX,
  hostEnds,
  IBAN_BYTES_MAX,
  ibansAt,
  isDate,
  isFraction,
  isNationalZero,
  LETTER,
  lastBeforeTag,
  lastOfCode,
  nextLabel,
  UUID_FIRST_BYTES,
  type WordSpan,
  type Words,
} from "./units.ts";

/**
 * Cuts texts into words and fingerprints them, and each two words in a row, numbers, short values as a whole, and units (`units.ts`):
 * addresses, host names, codes and telephone numbers. Case, accents, spacing, punctuation, quotes, the grouping of numbers and codes,
 * and one level of encoding change no fingerprint.
 *
 * A fingerprint is a hash of 64 bits with a key of the deployment. The hash is not a cryptographic one, which would take ten times
 * as long. Whoever writes texts that agents read sees no fingerprint, so the key only has to keep him from preparing two texts that
 * share one; whoever reads the database may find the key as well, and can test guesses either way.
 */

const BYTES_MAX = PIECE_CHARACTERS * 6;
const WORDS_MAX = BYTES_MAX / 2 + 1;

/** Longest text that has a fingerprint as a whole, in bytes. */
const WHOLE_BYTES_MAX = 64;
/** Codes are often written in groups. The length of those that are joined. */
const JOINED_BYTES_MIN = 9;
const JOINED_BYTES_MAX = 40;
/** Last digits of telephone numbers that are compared. */
const PHONE_DIGITS = 9;
const PHONE_DIGITS_MAX = 15;
/** A power of two. */
const LAST_DIGITS = 16;
const ROUND_ZEROS = 5;
/** Digits of a group in a number. */
const GROUP_DIGITS = 3;
const ZERO = 0x30;
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
const FURTHER_LETTER_BITS = 1.5;
/** By the number of letters; the first is that of a frequent word. */
const LETTERS_BITS = Float32Array.from({ length: 64 }, (_, count) =>
  count < 5 ? ([FREQUENT_BITS, 1, 3, 7, 10][count] as number) : 10 + (count - 4) * FURTHER_LETTER_BITS,
);

/** A word with fewer bits has no fingerprint of its own, and neither have two such words in a row. */
export const TELLING_BITS = 6.5;

/** A single word of this information counts although its neighbors are not found with it. */
const LONE_WORD_BITS = 20;

/** Words in a row by which a text is recognized: how many, how many of them tell something, and what all without digits tell. */
const RUN_WORDS_MIN = 4;
const RUN_WORDS_MAX = 16;
const RUN_TELLING_MIN = 2;
const RUN_BITS = 28;

const [SEPARATES, ENDS] = [0, 1];
const [DOT, AT, APOSTROPHE] = [0x2e, 0x40, 0x27];
const KINDS = LETTER | DIGIT | HIGH;
const FIRST_HIGH_BYTE = 0x80;

const BOUNDARY_BYTE = BOUNDARY.charCodeAt(0);

/** What each byte of UTF-8 adds to a word: letters in lower case, digits and all of what is not ASCII, each with its kind. */
const FOLDED = Uint16Array.from({ length: 256 }, (_, code) => {
  if (code >= FIRST_HIGH_BYTE) return code | HIGH;
  if (code >= 0x30 && code <= 0x39) return code | DIGIT;
  if (code === BOUNDARY_BYTE) return ENDS;
  const folded = code | 0x20;
  return folded >= 0x61 && folded <= 0x7a ? folded | LETTER : SEPARATES;
});

/** What each byte adds to what is hashed together with what is between the words. */
const WRITTEN = FOLDED.map((code, byte) => code || byte);

/** Characters between the groups of one number, and before its decimals. */
const IN_NUMBERS = Uint8Array.from({ length: 256 }, (_, code) => (",.'".includes(String.fromCharCode(code)) ? 1 : 0));

/** What a fingerprint is of. Those of different sorts differ, also for the same characters; a code is like the word without its groups. */
export const [WORDS, CODE, ADDRESS, HOST, HOST_OF_ADDRESS, PHONE, WORDS_OF_ADDRESS, RUN, CONTAINED] = [
  0, 1, 2, 3, 4, 5, 6, 7, 8,
];
const ODD_FACTOR = 0x9e37_79b1;
const RUN_FACTOR = Math.imul(RUN as number, ODD_FACTOR) | 1;

/** Facts about the words of a value. */
export interface ValueWords {
  /** Estimated information of each word, in bits. */
  readonly bits: Float32Array;
  /** Whether a word says something without the words next to it. */
  readonly tellsAlone: Uint8Array;
  /** Words of host names. */
  readonly isHost: Uint8Array;
  /** Words of the host names of mail addresses. */
  readonly isAddressHost: Uint8Array;
  /** Codes that are written in groups: a part of one says nothing. */
  readonly codes: readonly WordSpan[];
}

/** An address: its first word, that of its host name, and the number of words at which it may end. */
interface Address {
  readonly first: number;
  readonly host: number;
  readonly ends: number;
}

const LETTERS_TELL = Uint8Array.from(LETTERS_BITS, (bits) => (bits >= TELLING_BITS ? 1 : 0));
const FREQUENT_SLOTS = 4_096;
/** Each frequent word is in one of two slots. */
const SECOND_SLOT_SHIFT = 16;

/** Fingerprints of the texts that were read last. The words that each covers are `from` to `to`. */
export class Fingerprints implements Words {
  count = 0;
  readonly low = new Int32Array(PRINTS_MAX);
  readonly high = new Int32Array(PRINTS_MAX);
  readonly from = new Uint16Array(PRINTS_MAX);
  readonly to = new Uint16Array(PRINTS_MAX);
  /** Number of the text that holds it, of those that were read together. */
  readonly text = new Uint16Array(PRINTS_MAX);
  /** What each is of. */
  readonly sort = new Uint8Array(PRINTS_MAX);
  words = 0;
  readonly bits = new Float32Array(WORDS_MAX);
  readonly start = new Int32Array(WORDS_MAX);
  readonly end = new Int32Array(WORDS_MAX);
  readonly kind = new Uint16Array(WORDS_MAX);
  readonly bytes = new Uint8Array(BYTES_MAX);
  readonly #wordLow = new Int32Array(WORDS_MAX);
  readonly #wordHigh = new Int32Array(WORDS_MAX);
  readonly #isAddressHost = new Uint8Array(WORDS_MAX);
  /** The words at which the present host name may end. */
  readonly #ends = new Uint16Array(HOST_LABELS_MAX);
  #isValue = false;
  /** The words of the present text in which a code may begin. */
  readonly #codeWords = new Uint16Array(WORDS_MAX);
  /** What each word of the present code may be in a date. */
  readonly #dateFacts = new Uint8Array(WORDS_MAX);
  readonly #iban = new Uint8Array(IBAN_BYTES_MAX);
  readonly #parts = new Uint8Array(ACCOUNT_PARTS_MAX * 2);
  /** The last digits of a telephone number, each at its number. */
  readonly #digits = new Uint8Array(LAST_DIGITS);
  readonly #encoder = new TextEncoder();
  /** Lower halves of the frequent words. */
  readonly #frequent: Int32Array;
  readonly #seedLow: number;
  readonly #seedHigh: number;
  /** Odd, so that no bit is lost. */
  readonly #factor: number;
  readonly #one: number;
  readonly #two: number;
  /** Powers of these two. */
  readonly #powersLow = new Int32Array(RUN_WORDS_MAX + 1).fill(1);
  readonly #powersHigh = new Int32Array(RUN_WORDS_MAX + 1).fill(1);
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
    for (let power = 1; power <= RUN_WORDS_MAX; power += 1) {
      this.#powersLow[power] = Math.imul(this.#powersLow[power - 1] as number, this.#one);
      this.#powersHigh[power] = Math.imul(this.#powersHigh[power - 1] as number, this.#two);
    }
    this.#frequent = inTwoSlots(
      FREQUENT_WORDS.map((frequent) => {
        const { written } = this.#encoder.encodeInto(frequent, this.bytes);
        this.#hashBytes(this.bytes, 0, written);
        return this.#low;
      }),
    );
  }

  /**
   * Reads a value of any length, and as it is when decoded, to look it up: codes are not cut into parts, and host names are found
   * without their first labels too. `piece` is called while the fingerprints of each piece are there.
   */
  readValue(text: string, piece: () => void): void {
    this.#isValue = true;
    for (const variant of variantsOf(text)) {
      for (const part of piecesOf(variant)) {
        this.read([part]);
        piece();
      }
    }
    this.#isValue = false;
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
    const [wordLow, wordHigh, starts, ends, kinds] = [this.#wordLow, this.#wordHigh, this.start, this.end, this.kind];
    const [frequent, codeWords] = [this.#frequent, this.#codeWords];
    const slots = frequent.length - 1;
    const [seedLow, seedHigh, factor, one, two] = [this.#seedLow, this.#seedHigh, this.#factor, this.#one, this.#two];
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
          tells = this.#bitsOf(kind, start, size);
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
          this.#hashBetween(textStart, at);
          this.#add({ from: firstWord, to: words - 1 }, text);
        }
        if (words > firstWord) {
          const span = { from: firstWord, to: words - 1 };
          if (hasAddresses) this.#addresses(span, text, firstPrint);
          else if (this.#isValue) this.#isAddressHost.fill(0, span.from, span.to + 1);
          if (digits > 1) this.#codes(span, text, codes);
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

  /** Returns what a word tells that is not a frequent one, in bits. */
  #bitsOf(kind: number, start: number, size: number): number {
    if (kind === LETTER) return lettersBits(size);
    if ((kind & HIGH) !== 0) return highBits(this.bytes, start, size);
    return kind === DIGIT ? size * DIGIT_BITS + DIGITS_BASE_BITS : (size - 1) * MIXED_BITS;
  }

  /**
   * Adds addresses and host names. The words in the host name of a mail address have fingerprints of another sort: they say nothing
   * of other addresses at that host.
   */
  #addresses(span: WordSpan, text: number, firstPrint: number): void {
    const isAddressHost = this.#isAddressHost.fill(0, span.from, span.to + 1);
    let hasAddress = false;
    addressesIn(this, span, {
      address: (first, host, last) => {
        const ends = hostEnds(this, host, last, this.#ends);
        hasAddress ||= ends > 0;
        if (ends > 0) isAddressHost.fill(1, host, (this.#ends[ends - 1] as number) + 1);
        this.#address({ first, host, ends }, text);
      },
      host: (first, last) => {
        const ends = hostEnds(this, first, last, this.#ends);
        this.#hosts({ first, host: first, ends }, text);
      },
    });
    if (!hasAddress || this.#isValue) return;
    const { from, to, sort, low, high, count } = this;
    for (let at = firstPrint; at < count; at += 1) {
      if (sort[at] !== WORDS || isAddressHost[from[at] as number] === 0 || isAddressHost[to[at] as number] === 0)
        continue;
      this.#sorted(low[at] as number, high[at] as number, WORDS_OF_ADDRESS);
      [low[at], high[at], sort[at]] = [this.#low, this.#high, WORDS_OF_ADDRESS];
    }
  }

  /** Adds an address with each of its ends, and its host name. */
  #address({ first, host, ends }: Address, text: number): void {
    const { start, end, bytes } = this;
    const factor = this.#factor;
    const tag = lastBeforeTag(this, first, host);
    const hostStart = start[host] as number;
    let low = this.#seedLow;
    let high = this.#seedHigh;
    let at = start[first] as number;
    for (; at < hostStart; at += 1) {
      low = Math.imul(low ^ (WRITTEN[bytes[at] as number] as number), factor);
      high = (((high << 7) | (high >>> 25)) + low) | 0;
    }
    let hostLow = this.#seedLow;
    let hostHigh = this.#seedHigh;
    for (let index = 0; index < ends; index += 1) {
      const to = this.#ends[index] as number;
      const after = end[to] as number;
      // Two hashes that do not wait for each other take the time of one.
      for (; at < after; at += 1) {
        const code = WRITTEN[bytes[at] as number] as number;
        low = Math.imul(low ^ code, factor);
        high = (((high << 7) | (high >>> 25)) + low) | 0;
        hostLow = Math.imul(hostLow ^ code, factor);
        hostHigh = (((hostHigh << 7) | (hostHigh >>> 25)) + hostLow) | 0;
      }
      this.#finish(low, high);
      this.#addSorted(first, to, text, ADDRESS);
      if (tag !== undefined) {
        this.#hashWritten(start[first] as number, after, end[tag] as number, hostStart - 1);
        this.#addSorted(first, to, text, ADDRESS);
      }
      if (this.#isValue) {
        this.#hostOfValue(host, to, text, true);
        continue;
      }
      this.#finish(hostLow, hostHigh);
      this.#addSorted(host, to, text, HOST_OF_ADDRESS);
    }
  }

  /** Adds a host name that is not that of an address, with each of its ends. */
  #hosts({ first, ends }: Address, text: number): void {
    const { start, end, bytes } = this;
    const factor = this.#factor;
    let low = this.#seedLow;
    let high = this.#seedHigh;
    let at = start[first] as number;
    for (let index = 0; index < ends; index += 1) {
      const to = this.#ends[index] as number;
      if (this.#isValue) {
        this.#hostOfValue(first, to, text, false);
        continue;
      }
      const after = end[to] as number;
      for (; at < after; at += 1) {
        low = Math.imul(low ^ (WRITTEN[bytes[at] as number] as number), factor);
        high = (((high << 7) | (high >>> 25)) + low) | 0;
      }
      this.#finish(low, high);
      this.#addSorted(first, to, text, HOST);
    }
  }

  /** Adds a host name of a value, also without its first labels. */
  #hostOfValue(first: number, to: number, text: number, isInAddress: boolean): void {
    for (let from = first; from !== -1; from = nextLabel(this, from, to)) {
      this.#hashWritten(this.start[from] as number, this.end[to] as number);
      const [low, high] = [this.#low, this.#high];
      // A host name may be that of an address; an address is not one because of another address at its host.
      if (!isInAddress) this.#addSorted(from, to, text, HOST_OF_ADDRESS);
      if (isInAddress && PUBLIC_MAIL.has(this.#written(from, to).toLowerCase())) continue;
      [this.#low, this.#high] = [low, high];
      this.#addSorted(from, to, text, HOST);
    }
  }

  /** Adds the hash that was made last, as one of another sort. */
  #addSorted(from: number, to: number, text: number, sort: number): void {
    this.#sorted(this.#low, this.#high, sort);
    this.#add({ from, to }, text, sort);
  }

  /** Adds codes that are written in groups, and numbers, as they are written without groups, and telephone numbers. */
  #codes(span: WordSpan, text: number, codes: number): void {
    const most = this.count + JOINS_MAX;
    const codeWords = this.#codeWords;
    for (let at = 0; at < codes && this.count < most; at += 1) {
      const word = codeWords[at] as number;
      const kind = this.kind[word] as number;
      if (kind === DIGIT) {
        this.#number(word, span, text);
        if (this.#size(word) > GROUP_BYTES_MAX) this.#phonesIn({ from: word, to: word }, text);
      } else if (kind === MIXED) this.#ibans(word, span, text);
    }
    let next = span.from;
    for (let at = 0; at < codes && this.count < most; at += 1) {
      const from = codeWords[at] as number;
      const to = from < next ? -1 : lastOfCode(this, from, span.to);
      if (to === -1) continue;
      this.#run({ from, to }, text);
      next = to + 1;
    }
  }

  #ibans(word: number, { to: last }: WordSpan, text: number): void {
    const iban = this.#iban;
    ibansAt(this, word, last, iban, (length, to) => {
      const span = { from: word, to };
      this.#hashBytes(iban, 0, length);
      this.#add(span, text, CODE);
      if (this.#isValue) return;
      const parts = accountParts(iban, length, this.#parts);
      for (let at = 0; at < parts; at += 2) {
        this.#hashBytes(iban, this.#parts[at] as number, this.#parts[at + 1] as number);
        this.#add(span, text, CODE);
      }
    });
  }

  /** Adds a code in groups. Of a text, each part of it is added as well: other groups may stand before and after the code. */
  #run(run: WordSpan, text: number): void {
    if (run.from === run.to) return;
    const { kind } = this;
    for (let word = run.from; word <= run.to; word += 1) this.#dateFacts[word] = dateFacts(this, word);
    if (this.#isValue && run.to - run.from < GROUPS_MAX) this.#joined(run, text);
    else
      for (let first = run.from; first < run.to; first += 1)
        if (((kind[first] as number) & DIGIT) !== 0) this.#codesFrom(first, run.to, text);
    this.#phones(run, text);
  }

  /** Adds the codes that begin with a group: each is hashed from where the shorter one ends. */
  #codesFrom(first: number, end: number, text: number): void {
    const { bytes, kind, start, end: ends } = this;
    const facts = this.#dateFacts;
    const factor = this.#factor;
    let low = this.#seedLow;
    let high = this.#seedHigh;
    let size = 0;
    let all = 0;
    const most = Math.min(end, first + GROUPS_MAX - 1);
    for (let last = first; last <= most; last += 1) {
      const to = ends[last] as number;
      let at = start[last] as number;
      size += to - at;
      if (size > JOINED_BYTES_MAX) return;
      for (; at < to; at += 1) {
        low = Math.imul(low ^ (FOLDED[bytes[at] as number] as number), factor);
        high = (((high << 7) | (high >>> 25)) + low) | 0;
      }
      all |= facts[last] as number;
      if (last === first || size < JOINED_BYTES_MIN || ((kind[last] as number) & DIGIT) === 0) continue;
      if (areDate(all, facts[last] as number, last - first + 1)) continue;
      this.#finish(low, high);
      this.#add({ from: first, to: last }, text, CODE);
    }
  }

  #size(word: number): number {
    return (this.end[word] as number) - (this.start[word] as number);
  }

  #joined(span: WordSpan, text: number): void {
    if (isDate(this, span)) return;
    this.#hashBetween(this.start[span.from] as number, this.end[span.to] as number);
    this.#add(span, text, CODE);
  }

  /** Adds the telephone numbers among the groups of digits. */
  #phones(run: WordSpan, text: number): void {
    let from = run.from;
    for (let word = run.from; word <= run.to + 1; word += 1) {
      if (word <= run.to && this.kind[word] === DIGIT) continue;
      if (word > from) this.#phonesIn({ from, to: word - 1 }, text);
      from = word + 1;
    }
  }

  /**
   * Adds the last digits of each group that ends a telephone number: numbers are written with and without the codes of countries and
   * areas. Of a value, there is only the whole number.
   */
  #phonesIn({ from, to }: WordSpan, text: number): void {
    const { bytes } = this;
    const [digits, facts] = [this.#digits, this.#dateFacts];
    let count = 0;
    let all = 0;
    for (let word = from; word <= to; word += 1) {
      all |= facts[word] as number;
      if (word > from && isNationalZero(this, word)) continue;
      const end = this.end[word] as number;
      for (let at = this.start[word] as number; at < end; at += 1) {
        digits[count & (LAST_DIGITS - 1)] = bytes[at] as number;
        count += 1;
      }
      const isEnd = this.#isValue ? word === to && count <= PHONE_DIGITS_MAX : true;
      if (!isEnd || count < PHONE_DIGITS) continue;
      if (word > from && areDate(all, facts[word] as number, word - from + 1)) continue;
      if (this.#hashDigits(count)) this.#add({ from, to: word }, text, PHONE);
    }
  }

  /** Hashes the last digits, unless they are round. */
  #hashDigits(count: number): boolean {
    const digits = this.#digits;
    const factor = this.#factor;
    let low = this.#seedLow;
    let high = this.#seedHigh;
    let zeros = 0;
    for (let at = count - PHONE_DIGITS; at < count; at += 1) {
      const digit = digits[at & (LAST_DIGITS - 1)] as number;
      zeros = digit === ZERO ? zeros + 1 : 0;
      low = Math.imul(low ^ (digit | DIGIT), factor);
      high = (((high << 7) | (high >>> 25)) + low) | 0;
    }
    this.#finish(low, high);
    this.#sorted(this.#low, this.#high, PHONE);
    return zeros < ROUND_ZEROS;
  }

  /** Adds what a number means that is written with groups or decimals, without zeros at its ends: `1.500` is 1500 or 1.5. */
  #number(word: number, { from, to }: WordSpan, text: number): void {
    // The first group speaks for the whole number.
    if (word > from && this.kind[word - 1] === DIGIT && this.#goesOn(word)) return;
    let last = word;
    while (last < to && last - word < GROUPS_MAX && this.#goesOn(last + 1)) last += 1;
    if (last === word) return;
    const { start, end, bytes } = this;
    const span = { from: word, to: last };
    const [first, separator] = [start[word] as number, bytes[end[word] as number] as number];
    const [decimals, after] = [start[last] as number, end[last] as number];
    const isPair = last === word + 1;
    if (isPair && separator === DOT && after - decimals !== GROUP_DIGITS && bytes[after - 1] !== ZERO) {
      this.#hashWritten(first, after);
      this.#add(span, text);
      return;
    }
    let whole = word;
    if (this.#size(word) <= GROUP_DIGITS) while (whole < last && this.#isGroupOf(whole + 1, separator)) whole += 1;
    const before = bytes[end[last - 1] as number];
    if (whole === last) this.#plainNumber(first, after, after, after);
    else if (whole > word && whole + 1 === last && before !== separator && before !== APOSTROPHE)
      this.#plainNumber(first, end[whole] as number, decimals, after);
    else whole = word;
    if (whole > word) this.#add(span, text);
    if (!isPair || separator === APOSTROPHE) return;
    this.#plainNumber(first, end[word] as number, decimals, after);
    this.#add(span, text);
  }

  #isGroupOf(word: number, separator: number): boolean {
    return this.bytes[this.end[word - 1] as number] === separator && this.#size(word) === GROUP_DIGITS;
  }

  /** Returns whether a word is the next group of the number before it. */
  #goesOn(word: number): boolean {
    const gap = this.end[word - 1] as number;
    return this.kind[word] === DIGIT && this.start[word] === gap + 1 && IN_NUMBERS[this.bytes[gap] as number] === 1;
  }

  /** Hashes the digits of a whole number and of its decimals, without what is between them and without zeros at the ends. */
  #plainNumber(from: number, to: number, decimals: number, end: number): void {
    const { bytes } = this;
    const factor = this.#factor;
    let low = this.#seedLow;
    let high = this.#seedHigh;
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
    this.#finish(low, high);
  }

  /** Returns digits and what is between them, as they are written. */
  #written(from: number, to: number): string {
    return String.fromCharCode(...this.bytes.subarray(this.start[from], this.end[to]));
  }

  /** Hashes the words between two positions as if nothing were between them. */
  #hashBetween(from: number, to: number): void {
    const bytes = this.bytes;
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

  /** Hashes words and what is between them, but for the bytes between two positions. */
  #hashWritten(from: number, to: number, leftOut = to, goesOn = to): void {
    const { bytes } = this;
    const factor = this.#factor;
    let low = this.#seedLow;
    let high = this.#seedHigh;
    for (let at = from; at < to; at += 1) {
      if (at === leftOut) at = goesOn;
      const byte = bytes[at] as number;
      low = Math.imul(low ^ (WRITTEN[byte] as number), factor);
      high = (((high << 7) | (high >>> 25)) + low) | 0;
    }
    this.#finish(low, high);
  }

  /** Makes a fingerprint one of another sort. */
  #sorted(low: number, high: number, sort: number): void {
    const factor = Math.imul(sort, ODD_FACTOR) | 1;
    this.#low = Math.imul(low, factor) ^ high;
    this.#high = (Math.imul(high, this.#one) + Math.imul(low, factor) + sort) | 0;
  }

  /** Hashes letters and digits of ASCII. */
  #hashBytes(bytes: Uint8Array, from: number, to: number): void {
    const factor = this.#factor;
    let low = this.#seedLow;
    let high = this.#seedHigh;
    for (let at = from; at < to; at += 1) {
      low = Math.imul(low ^ (FOLDED[bytes[at] as number] as number), factor);
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

  #add({ from, to }: WordSpan, text: number, sort = WORDS): void {
    const at = this.count;
    if (at >= PRINTS_MAX) return;
    this.low[at] = this.#low;
    this.high[at] = this.#high;
    this.from[at] = from;
    this.to[at] = to;
    this.text[at] = text;
    this.sort[at] = sort;
    this.count = at + 1;
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
          this.#sorted(low, high, CONTAINED);
          take(this.#low, this.#high, from, to);
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
    const { words, start, end, bytes } = this;
    let from = 0;
    for (let word = 0; word < words; word += 1) {
      if (word + 1 < words && !hasBoundary(bytes, end[word] as number, start[word + 1] as number)) continue;
      this.#runsIn({ from, to: word }, take);
      from = word + 1;
    }
  }

  /** The end of a run never goes back, so each word is looked at twice. The hash is a polynomial, whose first words can be taken off. */
  #runsIn(text: WordSpan, take: (low: number, high: number, from: number, to: number) => void): void {
    const { bits, kind } = this;
    const [wordLow, wordHigh, powersLow, powersHigh] = [
      this.#wordLow,
      this.#wordHigh,
      this.#powersLow,
      this.#powersHigh,
    ];
    const [one, two] = [this.#one, this.#two];
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

  /** Returns words as they are written, with what is between them. */
  textOf({ from, to }: WordSpan): string {
    return Buffer.from(
      this.bytes.buffer,
      this.start[from],
      (this.end[to] as number) - (this.start[from] as number),
    ).toString();
  }

  #exact(from: number, to: number, take: (low: number, high: number) => void): void {
    this.#hashBetween(this.start[from] as number, this.end[to] as number);
    // Another factor: no word and no phrase has such a fingerprint.
    take(Math.imul(this.#low, this.#two) ^ this.#high, (Math.imul(this.#high, this.#one) + this.#seedLow) | 0);
  }

  /** Makes the fingerprint that a word or a pair has in the host name of a mail address. */
  inAddress(low: number, high: number, take: (low: number, high: number) => void): void {
    this.#sorted(low, high, WORDS_OF_ADDRESS);
    take(this.#low, this.#high);
  }

  /** Returns what the first words of a value tell. Round numbers, years and dates tell less than their digits. */
  valueWords(words: number): ValueWords {
    const bits = this.bits.slice(0, words);
    const isHost = new Uint8Array(words);
    const isAddressHost = this.#isAddressHost.slice(0, words);
    const tellsAlone = new Uint8Array(words);
    for (let at = 0; at < this.count; at += 1) {
      if (this.sort[at] === HOST) isHost.fill(1, this.from[at], (this.to[at] as number) + 1);
    }
    const codes: WordSpan[] = [];
    for (let from = 0; from < words; from += 1) {
      const to = lastOfCode(this, from, words - 1);
      if (to <= from) continue;
      if (isDate(this, { from, to })) bits.fill(FREQUENT_BITS, from, to + 1);
      else codes.push({ from, to });
      from = to;
    }
    for (let word = 0; word < words; word += 1) {
      const kind = this.kind[word] as number;
      if (kind === DIGIT) {
        const digits = this.#written(word, word);
        if (YEAR_OR_DATE.test(digits)) bits[word] = Math.min(bits[word] as number, YEAR_BITS);
        else if ((bits[word] as number) > FREQUENT_BITS)
          bits[word] = digits.replace(/^0+|0+$/g, "").length * DIGIT_BITS + DIGITS_BASE_BITS;
      } else if (kind === MIXED && TIME_WORD.test(this.#written(word, word))) bits[word] = FREQUENT_BITS;
      if ((kind & DIGIT) !== 0 && isFraction(this, word)) bits[word] = FREQUENT_BITS;
      // One word of letters proves nothing, except where it is a label of a host name.
      const isName = (kind & DIGIT) === 0 && isHost[word] === 0;
      tellsAlone[word] = !isName && (bits[word] as number) >= LONE_WORD_BITS ? 1 : 0;
    }
    return { bits, isHost, isAddressHost, tellsAlone, codes };
  }
}

function hasBoundary(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at += 1) if (bytes[at] === BOUNDARY_BYTE) return true;
  return false;
}

const MIXED = LETTER | DIGIT;
/** Parts of dates and times with letters: `11th`, `00Z`, `20241231T103000Z`, `W50`, `Q4`, `FY2026`. */
const TIME_WORD =
  /^(?:\d{1,2}(?:st|nd|rd|th|am|pm|z|h|t\d{1,2}z?)|(?:19|20)\d{6}t\d{4}(?:\d\d)?z?|w\d\d|q[1-4]|fy(?:\d\d)?\d\d)$/i;
/** A year, or a date as `20241231`. */
const YEAR_OR_DATE = /^(?:19|20)\d\d(?:(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))?$/;

const LETTER_BYTES = 2;
const IDEOGRAPH_BYTES = 3;
const IDEOGRAPH_FIRST = 0xe0;

/** Returns what a word with characters other than ASCII tells. Ideographs take three bytes and more, other letters mostly two. */
function highBits(bytes: Uint8Array, start: number, size: number): number {
  if ((bytes[start] as number) >= IDEOGRAPH_FIRST) return (size / IDEOGRAPH_BYTES) * IDEOGRAPH_BITS;
  return lettersBits(Math.ceil(size / LETTER_BYTES));
}

function lettersBits(count: number): number {
  return LETTERS_BITS[count] ?? 10 + (count - 4) * FURTHER_LETTER_BITS;
}

/** Returns a table in which each of the numbers is in one of two slots (cuckoo hashing). */
function inTwoSlots(numbers: readonly number[], size = FREQUENT_SLOTS): Int32Array {
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
