import { type FingerprintTable, HOST } from "./fingerprint-table.ts";
import { DIGIT, isDate, isFraction, lastOfCode, MIXED, type WordSpan } from "./units.ts";
import { DIGIT_BITS, DIGITS_BASE_BITS, FREQUENT_BITS } from "./word-bits.ts";

const YEAR_BITS = 4;
/** A single word of this information counts although its neighbors are not found with it. */
const LONE_WORD_BITS = 20;

/** Parts of dates and times with letters: `11th`, `00Z`, `20241231T103000Z`, `W50`, `Q4`, `FY2026`. */
const TIME_WORD =
  /^(?:\d{1,2}(?:st|nd|rd|th|am|pm|z|h|t\d{1,2}z?)|(?:19|20)\d{6}t\d{4}(?:\d\d)?z?|w\d\d|q[1-4]|fy(?:\d\d)?\d\d)$/i;
/** A year, or a date as `20241231`. */
const YEAR_OR_DATE = /^(?:19|20)\d\d(?:(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))?$/;

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

/** Returns facts about the first words of a value. Round numbers, years and dates carry less information than their digits. */
export function valueWords(table: FingerprintTable, isAddressHosts: Uint8Array, words: number): ValueWords {
  const bits = table.bits.slice(0, words);
  const isHost = new Uint8Array(words);
  const isAddressHost = isAddressHosts.slice(0, words);
  const tellsAlone = new Uint8Array(words);
  for (let at = 0; at < table.count; at += 1) {
    if (table.sort[at] === HOST) isHost.fill(1, table.from[at], (table.to[at] as number) + 1);
  }
  const codes: WordSpan[] = [];
  for (let from = 0; from < words; from += 1) {
    const to = lastOfCode(table, from, words - 1);
    if (to <= from) continue;
    if (isDate(table, { from, to })) bits.fill(FREQUENT_BITS, from, to + 1);
    else codes.push({ from, to });
    from = to;
  }
  for (let word = 0; word < words; word += 1) {
    const kind = table.kind[word] as number;
    if (kind === DIGIT) {
      const digits = table.written(word, word);
      if (YEAR_OR_DATE.test(digits)) bits[word] = Math.min(bits[word] as number, YEAR_BITS);
      else if ((bits[word] as number) > FREQUENT_BITS)
        bits[word] = digits.replace(/^0+|0+$/g, "").length * DIGIT_BITS + DIGITS_BASE_BITS;
    } else if (kind === MIXED && TIME_WORD.test(table.written(word, word))) bits[word] = FREQUENT_BITS;
    if ((kind & DIGIT) !== 0 && isFraction(table, word)) bits[word] = FREQUENT_BITS;
    // One word of letters proves nothing, except where it is a label of a host name.
    const isName = (kind & DIGIT) === 0 && isHost[word] === 0;
    tellsAlone[word] = !isName && (bits[word] as number) >= LONE_WORD_BITS ? 1 : 0;
  }
  return { bits, isHost, isAddressHost, tellsAlone, codes };
}
