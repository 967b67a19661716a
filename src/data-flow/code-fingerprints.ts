import { CODE, type FingerprintTable, JOINS_MAX, PHONE, WORDS_MAX } from "./fingerprint-table.ts";
import { FOLDED } from "./keyed-hash.ts";
import { NumberFingerprints } from "./number-fingerprints.ts";
import {
  ACCOUNT_PARTS_MAX,
  accountParts,
  areDate,
  DIGIT,
  dateFacts,
  GROUP_BYTES_MAX,
  GROUPS_MAX,
  IBAN_BYTES_MAX,
  ibansAt,
  isDate,
  isNationalZero,
  lastOfCode,
  MIXED,
  type WordSpan,
} from "./units.ts";

/** Length of a code whose groups are joined: codes are often written in groups. */
export const JOINED_BYTES_MIN = 9;
const JOINED_BYTES_MAX = 40;
/** Number of last digits of a telephone number that are compared. */
const PHONE_DIGITS = 9;
const PHONE_DIGITS_MAX = 15;
/** Size of the ring buffer for last digits: a power of two. */
const LAST_DIGITS = 16;
const ROUND_ZEROS = 5;
const ZERO = 0x30;

/** Adds the fingerprints of codes, account numbers and telephone numbers to those of the words. */
export class CodeFingerprints {
  /** The words of the present text in which a code may begin. */
  readonly codeWords = new Uint16Array(WORDS_MAX);
  /** Parts of a date that each word of the current code may be. */
  readonly #dateFacts = new Uint8Array(WORDS_MAX);
  readonly #iban = new Uint8Array(IBAN_BYTES_MAX);
  readonly #parts = new Uint8Array(ACCOUNT_PARTS_MAX * 2);
  /** Ring buffer of a telephone number's last digits. */
  readonly #digits = new Uint8Array(LAST_DIGITS);
  readonly #table: FingerprintTable;
  readonly #numbers: NumberFingerprints;

  constructor(table: FingerprintTable) {
    this.#table = table;
    this.#numbers = new NumberFingerprints(table);
  }

  /** Adds codes that are written in groups, and numbers, as they are written without groups, and telephone numbers. */
  add(span: WordSpan, text: number, codes: number): void {
    const table = this.#table;
    const most = table.count + JOINS_MAX;
    const codeWords = this.codeWords;
    for (let at = 0; at < codes && table.count < most; at += 1) {
      const word = codeWords[at] as number;
      const kind = table.kind[word] as number;
      if (kind === DIGIT) {
        this.#numbers.add(word, span, text);
        if (table.size(word) > GROUP_BYTES_MAX) this.#phonesIn({ from: word, to: word }, text);
      } else if (kind === MIXED) this.#ibans(word, span, text);
    }
    let next = span.from;
    for (let at = 0; at < codes && table.count < most; at += 1) {
      const from = codeWords[at] as number;
      const to = from < next ? -1 : lastOfCode(table, from, span.to);
      if (to === -1) continue;
      this.#run({ from, to }, text);
      next = to + 1;
    }
  }

  #ibans(word: number, { to: last }: WordSpan, text: number): void {
    const table = this.#table;
    const { hash } = table;
    const iban = this.#iban;
    ibansAt(table, word, last, iban, (length, to) => {
      const span = { from: word, to };
      hash.letters(iban, 0, length);
      table.add(span, text, CODE);
      if (table.isValue) return;
      const parts = accountParts(iban, length, this.#parts);
      for (let at = 0; at < parts; at += 2) {
        hash.letters(iban, this.#parts[at] as number, this.#parts[at + 1] as number);
        table.add(span, text, CODE);
      }
    });
  }

  /** Adds a code in groups. For a text, also adds each part of the code: other groups may precede or follow the code. */
  #run(run: WordSpan, text: number): void {
    const table = this.#table;
    if (run.from === run.to) return;
    const { kind } = table;
    for (let word = run.from; word <= run.to; word += 1) this.#dateFacts[word] = dateFacts(table, word);
    if (table.isValue && run.to - run.from < GROUPS_MAX) this.#joined(run, text);
    else
      for (let first = run.from; first < run.to; first += 1)
        if (((kind[first] as number) & DIGIT) !== 0) this.#codesFrom(first, run.to, text);
    this.#phones(run, text);
  }

  /** Adds the codes that begin with a group: each is hashed from where the shorter one ends. */
  #codesFrom(first: number, end: number, text: number): void {
    const table = this.#table;
    const { hash } = table;
    const { bytes, kind, start, end: ends } = table;
    const facts = this.#dateFacts;
    const { factor } = hash;
    let low = hash.seedLow;
    let high = hash.seedHigh;
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
      hash.finish(low, high);
      table.add({ from: first, to: last }, text, CODE);
    }
  }

  #joined(span: WordSpan, text: number): void {
    const table = this.#table;
    const { hash } = table;
    if (isDate(table, span)) return;
    hash.between(table.bytes, table.start[span.from] as number, table.end[span.to] as number);
    table.add(span, text, CODE);
  }

  /** Adds the telephone numbers among the groups of digits. */
  #phones(run: WordSpan, text: number): void {
    const table = this.#table;
    let from = run.from;
    for (let word = run.from; word <= run.to + 1; word += 1) {
      if (word <= run.to && table.kind[word] === DIGIT) continue;
      if (word > from) this.#phonesIn({ from, to: word - 1 }, text);
      from = word + 1;
    }
  }

  /**
   * Adds the last digits of each group that ends a telephone number: numbers are written with and without the codes of countries and
   * areas. For a value, adds only the whole number.
   */
  #phonesIn({ from, to }: WordSpan, text: number): void {
    const table = this.#table;
    const { bytes } = table;
    const [digits, facts] = [this.#digits, this.#dateFacts];
    let count = 0;
    let all = 0;
    for (let word = from; word <= to; word += 1) {
      all |= facts[word] as number;
      if (word > from && isNationalZero(table, word)) continue;
      const end = table.end[word] as number;
      for (let at = table.start[word] as number; at < end; at += 1) {
        digits[count & (LAST_DIGITS - 1)] = bytes[at] as number;
        count += 1;
      }
      const isEnd = table.isValue ? word === to && count <= PHONE_DIGITS_MAX : true;
      if (!isEnd || count < PHONE_DIGITS) continue;
      if (word > from && areDate(all, facts[word] as number, word - from + 1)) continue;
      if (this.#hashDigits(count)) table.add({ from, to: word }, text, PHONE);
    }
  }

  /** Hashes the last digits, unless they are round. */
  #hashDigits(count: number): boolean {
    const { hash } = this.#table;
    const digits = this.#digits;
    const { factor } = hash;
    let low = hash.seedLow;
    let high = hash.seedHigh;
    let zeros = 0;
    for (let at = count - PHONE_DIGITS; at < count; at += 1) {
      const digit = digits[at & (LAST_DIGITS - 1)] as number;
      zeros = digit === ZERO ? zeros + 1 : 0;
      low = Math.imul(low ^ (digit | DIGIT), factor);
      high = (((high << 7) | (high >>> 25)) + low) | 0;
    }
    hash.finish(low, high);
    hash.sorted(hash.low, hash.high, PHONE);
    return zeros < ROUND_ZEROS;
  }
}
