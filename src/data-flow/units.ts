/**
 * Finds units in the words of a text: what means something only as a whole, whatever words it is made of. Mail addresses, host names,
 * UUIDs, IBANs, and codes and telephone numbers that are written in groups.
 */

/** Words of a text, and the bytes that they were cut from: ASCII in lower or upper case, and UTF-8. */
export interface Words {
  readonly bytes: Uint8Array;
  /** Positions of each word's first byte, and of the byte after it. */
  readonly start: Int32Array;
  readonly end: Int32Array;
  /** Kinds of the characters of each word. */
  readonly kind: Uint16Array;
  /** Estimated information of each word, in bits. */
  readonly bits: Float32Array;
}

/** A range of words, both included. */
export interface WordSpan {
  readonly from: number;
  readonly to: number;
}

/** Kinds of characters in words. */
export const [LETTER, DIGIT, HIGH] = [0x100, 0x200, 0x400];
export const MIXED = LETTER | DIGIT;

const [DOT, AT, HYPHEN, UNDERSCORE, PLUS, COLON, COMMA] = [0x2e, 0x40, 0x2d, 0x5f, 0x2b, 0x3a, 0x2c];
/** Most labels of a host name: a sentence may go on after its period without a space. */
export const HOST_LABELS_MAX = 8;

/** Returns the character between a word and the next one, when it is the only one; otherwise 0. */
function joint({ bytes, start, end }: Words, word: number): number {
  return (end[word] as number) + 1 === start[word + 1] ? (bytes[end[word] as number] as number) : 0;
}

/** Returns the last word of a mail address before its tag (`name+tag@host`, which comes to the same person); `host`: of the host. */
export function lastBeforeTag(words: Words, from: number, host: number): number | undefined {
  for (let word = from; word < host - 1; word += 1) if (joint(words, word) === PLUS) return word;
  return undefined;
}

interface FoundAddresses {
  /** `host`: where the host name of a mail address begins. It ends with `last` or before. */
  address(from: number, host: number, last: number): void;
  /** A host name, which is not that of a mail address. */
  host(from: number, last: number): void;
}

/** Finds mail addresses and host names. */
export function addressesIn(words: Words, { from, to }: WordSpan, found: FoundAddresses): void {
  let first = from;
  for (let word = from; word <= to; word += 1) {
    const next = word === to ? 0 : joint(words, word);
    if (next === DOT || next === HYPHEN || next === UNDERSCORE || next === PLUS) continue;
    if (next === AT) {
      const last = lastOfHost(words, word + 1, to);
      found.address(first, word + 1, last);
      word = last;
    } else {
      for (let label = first; label < word; label += 1) {
        const last = lastOfHost(words, label, word);
        if (last > label) found.host(label, last);
        label = last;
      }
    }
    first = word + 1;
  }
}

/** Returns the last word that periods and hyphens join to a word. */
function lastOfHost(words: Words, from: number, to: number): number {
  let last = from;
  while (last < to && (joint(words, last) === DOT || joint(words, last) === HYPHEN)) last += 1;
  return last;
}

/**
 * Finds the words at which a host name of at least two labels may end, because a sentence may go on without a space: the last label is
 * a name, or four are an address. Returns their number.
 */
export function hostEnds(words: Words, from: number, last: number, into: Uint16Array): number {
  let count = 0;
  let labels = 1;
  let label = from;
  for (let word = from; word <= last && labels <= HOST_LABELS_MAX; word += 1) {
    if (word < last && joint(words, word) !== DOT) continue;
    if (labels > 1 && (labels === IPV4_LABELS || isName(words, label))) into[count++] = word;
    labels += 1;
    label = word + 1;
  }
  return count;
}

/** Returns where a host name begins without its first label; -1: only one label would be left. */
export function nextLabel(words: Words, from: number, to: number): number {
  let label = -1;
  for (let word = from; word < to; word += 1) {
    if (joint(words, word) !== DOT) continue;
    if (label !== -1) return label;
    label = word + 1;
  }
  return -1;
}

const IPV4_LABELS = 4;

function isName({ kind, start, end }: Words, word: number): boolean {
  return ((kind[word] as number) & DIGIT) === 0 && (end[word] as number) - (start[word] as number) > 1;
}

/** Groups that are joined: their number, the length of each, and of letters alone. */
export const GROUPS_MAX = 8;
export const GROUP_BYTES_MAX = 8;
const LETTERS_MAX = 4;
/** Most bytes between two groups when there is nothing but white space. */
const WHITE_MAX = 64;
const IN_CODES = Uint8Array.from({ length: 256 }, (_, code) =>
  " -./()\t\r\n".includes(String.fromCharCode(code)) ? 1 : 0,
);
const WHITE = Uint8Array.from({ length: 256 }, (_, code) => (" \t\r\n".includes(String.fromCharCode(code)) ? 1 : 0));

/** Returns whether only what groups a code is between a word and the next one. */
export function isGrouped({ bytes, start, end }: Words, word: number): boolean {
  const from = end[word] as number;
  const to = start[word + 1] as number;
  if (to - from === 1) return IN_CODES[bytes[from] as number] === 1;
  if (to - from > WHITE_MAX) return false;
  let others = 0;
  for (let at = from; at < to; at += 1) {
    if (IN_CODES[bytes[at] as number] === 0) return false;
    if (WHITE[bytes[at] as number] === 0) others += 1;
  }
  return others <= 2 && (others < 2 || to - from <= 3);
}

function size({ start, end }: Words, word: number): number {
  return (end[word] as number) - (start[word] as number);
}

function hasDigits({ kind }: Words, word: number): boolean {
  return ((kind[word] as number) & DIGIT) !== 0;
}

/** Words that tell less are frequent, or short. */
const RARE_BITS = 3;

/**
 * Returns the last word of the code that begins with a word: of a UUID, or of the longest run of groups; -1 when none begins there. A
 * group has digits; a few letters between two such groups belong to them (`GB29 NWBK 6016`), unless they are a frequent word.
 */
export function lastOfCode(words: Words, word: number, to: number): number {
  if (isUuid(words, word, to)) return word + UUID_GROUPS - 1;
  if (!isGroup(words, word)) return -1;
  let last = word;
  for (let next = last + 1; next <= to && isGrouped(words, next - 1); next += 1) {
    if (isUuid(words, next, to)) break;
    if (isGroup(words, next)) last = next;
    else if (!isLettersOfCode(words, next)) break;
  }
  return last;
}

function isGroup(words: Words, word: number): boolean {
  return hasDigits(words, word) && size(words, word) <= GROUP_BYTES_MAX;
}

function isLettersOfCode(words: Words, word: number): boolean {
  const isShort = size(words, word) <= LETTERS_MAX && words.kind[word] === LETTER;
  return isShort && (words.bits[word] as number) >= RARE_BITS && hasDigits(words, word - 1);
}

const UUID_GROUPS = 5;
export const UUID_FIRST_BYTES = 8;
const UUID_BYTES = 36;
/** What each byte of a UUID has to be: a digit of hexadecimal, or a hyphen. */
const [HEXADECIMAL, BETWEEN] = [1, 2];
const UUID_FORM = Uint8Array.from("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", (one) =>
  one === "-" ? BETWEEN : HEXADECIMAL,
);
const IN_UUID = Uint8Array.from({ length: 256 }, (_, code) => {
  if (code === HYPHEN) return BETWEEN;
  return /[0-9a-f]/i.test(String.fromCharCode(code)) ? HEXADECIMAL : 0;
});

function isUuid({ bytes, start, end }: Words, word: number, to: number): boolean {
  const from = start[word] as number;
  if (end[word] !== from + UUID_FIRST_BYTES || word + UUID_GROUPS > to + 1) return false;
  if (end[word + UUID_GROUPS - 1] !== from + UUID_BYTES) return false;
  for (let at = 0; at < UUID_BYTES; at += 1) if (IN_UUID[bytes[from + at] as number] !== UUID_FORM[at]) return false;
  return true;
}

/** Digits of nanoseconds, and the zone. */
const FRACTION_BYTES_MAX = 10;
/** Two digits that begin with more are neither a day nor a month, an hour, a minute or a second. */
const SIX = 0x36;
const [ZERO, NINE] = [0x30, 0x39];

/** What a group is in a date. Several groups are one where these come to `YEAR`. */
const [OTHER_PART, YEAR, NO_PART, FRACTION] = [0, 1, 2, 4];
const PARTS = YEAR | NO_PART;

/** Returns what a word may be in a date: letters between its groups are nothing of it. */
export function dateFacts(words: Words, word: number): number {
  const part = hasDigits(words, word) ? partOfDate(words, word) : OTHER_PART;
  return isFraction(words, word) ? part | FRACTION : part;
}

/** Returns whether words are a date, with or without a time, or seconds with a fraction. `all`: the facts of all of them together. */
export function areDate(all: number, last: number, words: number): boolean {
  if ((last & FRACTION) !== 0) return words === 2;
  return (all & PARTS) === YEAR && words > 1;
}

/** As `areDate`. */
export function isDate(words: Words, { from, to }: WordSpan): boolean {
  let all = 0;
  for (let word = from; word <= to && (all & NO_PART) === 0; word += 1) all |= dateFacts(words, word);
  return areDate(all, dateFacts(words, to), to - from + 1);
}

function partOfDate({ bytes, start, end, kind }: Words, word: number): number {
  const at = start[word] as number;
  const length = (end[word] as number) - at;
  if (kind[word] === DIGIT) {
    if (length <= 2) return length === 2 && (bytes[at] as number) > SIX ? NO_PART : OTHER_PART;
    if (length !== 4) return NO_PART;
    const century = ((bytes[at] as number) - ZERO) * 10 + (bytes[at + 1] as number) - ZERO;
    return century === 19 || century === 20 ? YEAR : NO_PART;
  }
  return isTimeInDate(bytes, at, at + length) ? OTHER_PART : NO_PART;
}

const PART_OF_DATE_BYTES_MAX = 6;
const [LETTER_H, LETTER_T, LETTER_W, LETTER_Z] = [0x68, 0x74, 0x77, 0x7a];
const AFTER_NUMBERS = new Set(
  ["st", "nd", "rd", "th", "am", "pm"].map((two) => (two.charCodeAt(0) << 8) | two.charCodeAt(1)),
);

/** Returns whether a word is `11th`, `9am`, `7h`, `00z`, `11t10z` or `w50`. */
function isTimeInDate(bytes: Uint8Array, from: number, to: number): boolean {
  const lower = (at: number): number => (bytes[at] as number) | 0x20;
  if (to - from > PART_OF_DATE_BYTES_MAX) return false;
  if (lower(from) === LETTER_W) return to === from + 3 && digitsFrom(bytes, from + 1, to) === 2;
  const digits = digitsFrom(bytes, from, to);
  const rest = from + digits;
  if (digits === 0) return false;
  if (to === rest + 1) return lower(rest) === LETTER_Z || lower(rest) === LETTER_H;
  if (to === rest + 2 && AFTER_NUMBERS.has((lower(rest) << 8) | lower(rest + 1))) return true;
  if (lower(rest) !== LETTER_T) return false;
  const minutes = digitsFrom(bytes, rest + 1, to);
  const last = rest + 1 + minutes;
  return minutes > 0 && (last === to || (last + 1 === to && lower(last) === LETTER_Z));
}

/** Returns the number of digits: 0, 1 or 2. */
function digitsFrom(bytes: Uint8Array, from: number, to: number): number {
  let at = from;
  while (at < to && at < from + 2 && (bytes[at] as number) >= ZERO && (bytes[at] as number) <= NINE) at += 1;
  return at - from;
}

/** Returns whether a word is the fraction of a second in a time: `10:30:00.123`. */
export function isFraction(words: Words, word: number): boolean {
  if (word < 3 || size(words, word) > FRACTION_BYTES_MAX) return false;
  const between = joint(words, word - 1);
  if (between !== DOT && between !== COMMA) return false;
  const isTime = joint(words, word - 2) === COLON && joint(words, word - 3) === COLON;
  return isTime && size(words, word - 1) === 2 && size(words, word - 2) === 2;
}

/** Returns whether a group is a national 0 in parentheses, which is not part of a number that is called from abroad. */
export function isNationalZero({ bytes, start, end }: Words, word: number): boolean {
  const at = start[word] as number;
  return end[word] === at + 1 && bytes[at] === 0x30 && bytes[at - 1] === 0x28 && bytes[at + 1] === 0x29;
}

/** Lengths of IBANs by country: the IBAN registry of SWIFT, release 99. */
const IBAN_LENGTHS = new Uint8Array(2 ** 10);
for (const one of `ad:24 ae:23 al:28 at:20 az:28 ba:20 be:16 bg:22 bh:22 bi:27 br:29 by:28 ch:21 cr:22 cy:28 cz:24 de:22 dj:27 dk:18 do:28 ee:20
eg:29 es:24 fi:18 fk:18 fo:18 fr:27 gb:22 ge:22 gi:23 gl:18 gr:27 gt:28 hn:28 hr:21 hu:28 ie:22 il:23 iq:23 is:26 it:27 jo:30
kw:30 kz:20 lb:28 lc:32 li:21 lt:20 lu:20 lv:21 ly:25 mc:27 md:24 me:22 mk:19 mn:20 mr:27 mt:31 mu:30 ni:28 nl:18 no:15 om:23
pk:24 pl:28 ps:29 pt:25 qa:29 ro:24 rs:22 ru:33 sa:24 sc:31 sd:18 se:24 si:19 sk:24 sm:27 so:23 st:25 sv:28 tl:23 tn:24 tr:26
ua:29 va:22 vg:24 xk:20 ye:30`.split(/\s+/))
  IBAN_LENGTHS[countryOf(one.charCodeAt(0), one.charCodeAt(1))] = Number(one.slice(3));

/** Returns the number of two letters in either case. */
function countryOf(first: number, second: number): number {
  return ((first & 0x1f) << 5) | (second & 0x1f);
}

export const IBAN_BYTES_MAX = 34;
const IBAN_START_BYTES = 4;
const IBAN_INSIDE_MIN = 15;
/** Values of letters and digits (ISO 13616): two digits are a factor of 100. */
const [LETTER_FACTOR, DIGIT_FACTOR] = [100, 10];
const CHECKED = 97;
const IBAN_REST_MAX = 1e7;

const isDigit = (byte: number | undefined): boolean => byte !== undefined && byte >= ZERO && byte <= NINE;
const isLetter = (byte: number | undefined): boolean =>
  byte !== undefined && (byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x7a;

/**
 * Finds the IBANs that begin in a word, also when something else is written right before or after one. `into` holds each in lower case
 * and without its groups, `to` is its last word.
 */
export function ibansAt(
  words: Words,
  word: number,
  last: number,
  into: Uint8Array,
  take: (length: number, to: number) => void,
): void {
  const { bytes, start, end, kind } = words;
  const from = start[word] as number;
  const until = (end[word] as number) - IBAN_START_BYTES;
  // Two letters and two digits begin a word, or are inside of a long one.
  const isShort = until - from < IBAN_INSIDE_MIN - IBAN_START_BYTES;
  if (kind[word] !== MIXED || (isShort && !isDigit(bytes[from + 2]))) return;
  for (let at = from; at <= until; at += 1) {
    if (!isDigit(bytes[at + 2]) || !isDigit(bytes[at + 3]) || !isLetter(bytes[at]) || !isLetter(bytes[at + 1]))
      continue;
    const length = IBAN_LENGTHS[countryOf(bytes[at] as number, bytes[at + 1] as number)] as number;
    const to = length === 0 ? -1 : readIban(words, { from: word, to: last }, at, into.subarray(0, length));
    if (to !== -1) take(length, to);
    at += IBAN_START_BYTES - 1;
  }
}

/** Reads an IBAN from a byte of a word on. Returns its last word; -1 when these groups are none. */
function readIban(words: Words, { from, to }: WordSpan, first: number, into: Uint8Array): number {
  const { bytes, start, end } = words;
  let count = 0;
  let word = from;
  for (let at = first; ; ) {
    const after = end[word] as number;
    while (at < after && count < into.length) into[count++] = LOWER[bytes[at++] as number] as number;
    if (count === into.length) return isIban(into) ? word : -1;
    if (word === to || !isGrouped(words, word)) return -1;
    word += 1;
    at = start[word] as number;
  }
}

const LOWER = Uint8Array.from({ length: 256 }, (_, code) => (code >= 0x41 && code <= 0x5a ? code | 0x20 : code));

/** Checks the check digits (ISO 13616). */
function isIban(iban: Uint8Array): boolean {
  let rest = 0;
  for (let at = 0; at < iban.length; at += 1) {
    const byte = iban[(at + IBAN_START_BYTES) % iban.length] as number;
    if (isDigit(byte)) rest = rest * DIGIT_FACTOR + byte - ZERO;
    else if (isLetter(byte)) rest = rest * LETTER_FACTOR + byte - 0x61 + 10;
    else return false;
    if (rest > IBAN_REST_MAX) rest %= CHECKED;
  }
  return rest % CHECKED === 1;
}

/** Lengths of account numbers at the end of an IBAN, and of bank codes before them. */
const ACCOUNT_DIGITS = [6, 7, 8, 9, 10, 11, 12];
const BANK_DIGITS = [5, 6, 8];

const PART_BYTES_MIN = 5;
export const ACCOUNT_PARTS_MAX = 2 * (ACCOUNT_DIGITS.length + BANK_DIGITS.length + 1);

/**
 * Finds the account numbers and bank codes that may be parts of an IBAN, with and without zeros before them. `into` holds where each
 * begins and ends; returns how many positions these are.
 */
export function accountParts(iban: Uint8Array, last: number, into: Uint8Array): number {
  let first = last;
  while (first > IBAN_START_BYTES && (iban[first - 1] as number) <= NINE) first -= 1;
  let count = 0;
  const add = (from: number, to: number): void => {
    into[count++] = from;
    into[count++] = to;
  };
  const both = (from: number, to: number): void => {
    let plain = from;
    while (iban[plain] === ZERO && plain < to) plain += 1;
    if (to - from >= PART_BYTES_MIN) add(from, to);
    if (plain > from && to - plain >= PART_BYTES_MIN) add(plain, to);
  };
  for (const length of ACCOUNT_DIGITS) if (first <= last - length) both(last - length, last);
  for (const length of BANK_DIGITS) if (first + length <= last) both(first, first + length);
  if (first > last - (ACCOUNT_DIGITS[0] as number)) both(first, last);
  return count;
}
