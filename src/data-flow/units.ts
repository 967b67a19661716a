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

const [DOT, AT, HYPHEN, UNDERSCORE, PLUS, COLON, COMMA] = [0x2e, 0x40, 0x2d, 0x5f, 0x2b, 0x3a, 0x2c];
/** Most labels of a host name: a sentence may go on after its period without a space. */
const HOST_LABELS_MAX = 8;

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
  /** `host`: where the host name of a mail address begins. */
  address(span: WordSpan, host: number): void;
  /** A host name, which begins at a label of one: `isInAddress` when it is that of a mail address. */
  host(span: WordSpan, isInAddress: boolean): void;
}

/**
 * Finds mail addresses and host names. Each is found with every end that it may have, because a sentence may go on without a space;
 * with `suffixes`, each host name is found without its first labels too.
 */
export function addressesIn(words: Words, { from, to }: WordSpan, suffixes: boolean, found: FoundAddresses): void {
  let first = from;
  for (let word = from; word <= to; word += 1) {
    const next = word === to ? 0 : joint(words, word);
    if (next === DOT || next === HYPHEN || next === UNDERSCORE || next === PLUS) continue;
    if (next === AT) {
      const host = { from: word + 1, to: lastOfHost(words, word + 1, to) };
      const start = first;
      eachHostEnd(words, host, (end) => {
        found.address({ from: start, to: end }, host.from);
        hosts(words, { from: host.from, to: end }, suffixes, (span) => found.host(span, true));
      });
      word = host.to;
      first = word + 1;
      continue;
    }
    for (let label = first; label <= word; label += 1) {
      const host = { from: label, to: lastOfHost(words, label, word) };
      if (host.to > label) {
        eachHostEnd(words, host, (end) =>
          hosts(words, { from: host.from, to: end }, suffixes, (span) => found.host(span, false)),
        );
      }
      label = host.to;
    }
    first = word + 1;
  }
}

function hosts(words: Words, { from, to }: WordSpan, suffixes: boolean, take: (span: WordSpan) => void): void {
  take({ from, to });
  if (!suffixes) return;
  let label = from;
  for (let word = from; word < to; word += 1) {
    if (joint(words, word) !== DOT) continue;
    if (label !== from) take({ from: label, to });
    label = word + 1;
  }
}

/** Returns the last word that periods and hyphens join to a word. */
function lastOfHost(words: Words, from: number, to: number): number {
  let last = from;
  while (last < to && (joint(words, last) === DOT || joint(words, last) === HYPHEN)) last += 1;
  return last;
}

/** Finds the words at which a host name of at least two labels may end: the last label is a name, or four are an address. */
function eachHostEnd(words: Words, { from, to }: WordSpan, take: (word: number) => void): void {
  let labels = 1;
  let label = from;
  for (let word = from; word <= to && labels <= HOST_LABELS_MAX; word += 1) {
    if (word < to && joint(words, word) !== DOT) continue;
    if (labels > 1 && (labels === IPV4_LABELS || isName(words, label))) take(word);
    labels += 1;
    label = word + 1;
  }
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

/** Returns words of ASCII in lower case, without what is between them. */
function joinedText({ bytes, start, end }: Words, { from, to }: WordSpan): string {
  let text = "";
  for (let word = from; word <= to; word += 1) {
    const last = end[word] as number;
    for (let at = start[word] as number; at < last; at += 1) text += CHARACTERS[bytes[at] as number];
  }
  return text;
}

const CHARACTERS = Array.from({ length: 256 }, (_, code) => String.fromCharCode(code).toLowerCase());

/** Words that tell less are frequent, or short. */
const RARE_BITS = 3;

/**
 * Yields the longest runs of groups. A group has digits; a few letters between two such groups belong to them (`GB29 NWBK 6016`),
 * unless they are a frequent word. A UUID is a run of its own.
 */
export function* codeRuns(words: Words, { from, to }: WordSpan): Generator<WordSpan, void> {
  let word = from;
  while (word <= to) {
    const uuid = uuidAt(words, word, to);
    if (uuid !== undefined) {
      yield uuid;
      word = uuid.to + 1;
      continue;
    }
    if (!isGroup(words, word)) {
      word += 1;
      continue;
    }
    let last = word;
    for (let next = last + 1; next <= to && isGrouped(words, next - 1); next += 1) {
      if (uuidAt(words, next, to) !== undefined) break;
      if (isGroup(words, next)) last = next;
      else if (!isLettersOfCode(words, next)) break;
    }
    yield { from: word, to: last };
    word = last + 1;
  }
}

function isGroup(words: Words, word: number): boolean {
  return hasDigits(words, word) && size(words, word) <= GROUP_BYTES_MAX;
}

function isLettersOfCode(words: Words, word: number): boolean {
  const isShort = size(words, word) <= LETTERS_MAX && words.kind[word] === LETTER;
  return isShort && (words.bits[word] as number) >= RARE_BITS && hasDigits(words, word - 1);
}

const UUID_GROUPS = [8, 4, 4, 4, 12];
const HEXADECIMAL = /^[0-9a-f]+$/;

function uuidAt(words: Words, word: number, last: number): WordSpan | undefined {
  const to = word + UUID_GROUPS.length - 1;
  if (to > last || size(words, word) !== UUID_GROUPS[0]) return undefined;
  for (const [index, length] of UUID_GROUPS.entries()) {
    if (size(words, word + index) !== length) return undefined;
    if (index > 0 && joint(words, word + index - 1) !== HYPHEN) return undefined;
  }
  return HEXADECIMAL.test(joinedText(words, { from: word, to })) ? { from: word, to } : undefined;
}

const TIME_IN_DATE = /^(?:\d{1,2}(?:st|nd|rd|th|am|pm|z|h|t\d{1,2}z?)|w\d\d)$/;
const PART_OF_DATE_BYTES_MAX = 6;
/** Digits of nanoseconds, and the zone. */
const FRACTION_BYTES_MAX = 10;
/** Two digits that begin with more are neither a day nor a month, an hour, a minute or a second. */
const SIX = 0x36;
const [ZERO, NINE, LETTER_W] = [0x30, 0x39, 0x77];
/** What a group may be in a date: a year, another part, or nothing. */
const [NO_PART, OTHER_PART, YEAR_PART] = [0, 1, 2];

function partOfDate(words: Words, word: number): number {
  const length = size(words, word);
  if (words.kind[word] === DIGIT) {
    const at = words.start[word] as number;
    if (length <= 2) return length === 2 && (words.bytes[at] as number) > SIX ? NO_PART : OTHER_PART;
    if (length !== 4) return NO_PART;
    const century = ((words.bytes[at] as number) - 0x30) * 10 + (words.bytes[at + 1] as number) - 0x30;
    return century === 19 || century === 20 ? YEAR_PART : NO_PART;
  }
  // Such a part begins with a digit, or with the W of a week. The look at one byte spares most codes the text.
  const first = words.bytes[words.start[word] as number] as number;
  if (length > PART_OF_DATE_BYTES_MAX || (first > NINE && (first | 0x20) !== LETTER_W)) return NO_PART;
  return TIME_IN_DATE.test(joinedText(words, { from: word, to: word })) ? OTHER_PART : NO_PART;
}

/** Returns whether groups are a date, with or without a time, or seconds with a fraction. */
export function isDate(words: Words, { from, to }: WordSpan): boolean {
  if (isFraction(words, to)) return to === from + 1;
  let hasYear = false;
  for (let word = from; word <= to; word += 1) {
    if (!hasDigits(words, word)) continue;
    const part = partOfDate(words, word);
    if (part === NO_PART) return false;
    hasYear ||= part === YEAR_PART;
  }
  return hasYear && to > from;
}

/** Returns whether a word is the fraction of a second in a time: `10:30:00.123`. */
export function isFraction(words: Words, word: number): boolean {
  if (word < 3 || size(words, word) > FRACTION_BYTES_MAX) return false;
  const between = joint(words, word - 1);
  if (between !== DOT && between !== COMMA) return false;
  return (
    [word - 2, word - 3].every((at) => joint(words, at) === COLON) && [1, 2].every((at) => size(words, word - at) === 2)
  );
}

/** Returns whether a group is a national 0 in parentheses, which is not part of a number that is called from abroad. */
export function isNationalZero({ bytes, start, end }: Words, word: number): boolean {
  const at = start[word] as number;
  return end[word] === at + 1 && bytes[at] === 0x30 && bytes[at - 1] === 0x28 && bytes[at + 1] === 0x29;
}

/** Lengths of IBANs by country: the IBAN registry of SWIFT, release 99. */
const IBAN_LENGTHS = new Map(
  `ad:24 ae:23 al:28 at:20 az:28 ba:20 be:16 bg:22 bh:22 bi:27 br:29 by:28 ch:21 cr:22 cy:28 cz:24 de:22 dj:27 dk:18 do:28 ee:20
eg:29 es:24 fi:18 fk:18 fo:18 fr:27 gb:22 ge:22 gi:23 gl:18 gr:27 gt:28 hn:28 hr:21 hu:28 ie:22 il:23 iq:23 is:26 it:27 jo:30
kw:30 kz:20 lb:28 lc:32 li:21 lt:20 lu:20 lv:21 ly:25 mc:27 md:24 me:22 mk:19 mn:20 mr:27 mt:31 mu:30 ni:28 nl:18 no:15 om:23
pk:24 pl:28 ps:29 pt:25 qa:29 ro:24 rs:22 ru:33 sa:24 sc:31 sd:18 se:24 si:19 sk:24 sm:27 so:23 st:25 sv:28 tl:23 tn:24 tr:26
ua:29 va:22 vg:24 xk:20 ye:30`
    .split(/\s+/)
    .map((one) => [one.slice(0, 2), Number(one.slice(3))] as const),
);
const IBAN_START = /[a-z]{2}\d{2}/g;
const IBAN_BYTES_MAX = 34;
const IBAN_WORD_MIN = 4;
const IBAN_INSIDE_MIN = 15;

/** Yields the IBANs that begin in a word, without their groups, also when something else is written right before or after one. */
export function* ibansAt(
  words: Words,
  word: number,
  last: number,
): Generator<WordSpan & { readonly iban: string }, void> {
  if (words.kind[word] !== (LETTER | DIGIT) || size(words, word) < IBAN_WORD_MIN) return;
  const { bytes, start } = words;
  // Two letters and two digits begin a word, or are inside of a long one.
  const third = bytes[(start[word] as number) + 2] as number;
  if (size(words, word) < IBAN_INSIDE_MIN && (third < 0x30 || third > 0x39)) return;
  const own = joinedText(words, { from: word, to: word });
  for (const { index, 0: start } of own.matchAll(IBAN_START)) {
    const length = IBAN_LENGTHS.get(start.slice(0, 2));
    if (length === undefined) continue;
    let text = own.slice(index);
    let to = word;
    while (text.length < length && to < last && isGrouped(words, to) && text.length < IBAN_BYTES_MAX) {
      to += 1;
      text += joinedText(words, { from: to, to });
    }
    const iban = text.slice(0, length);
    if (iban.length === length && isIban(iban)) yield { from: word, to, iban };
  }
}

/** Checks the check digits (ISO 13616). */
function isIban(text: string): boolean {
  let rest = 0;
  for (const character of text.slice(4) + text.slice(0, 4)) {
    const value = Number.parseInt(character, 36);
    if (Number.isNaN(value)) return false;
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97;
  }
  return rest === 1;
}

/** Lengths of account numbers at the end of an IBAN, and of bank codes before them. */
const ACCOUNT_DIGITS = [6, 7, 8, 9, 10, 11, 12];
const BANK_DIGITS = [5, 6, 8];

const PART_BYTES_MIN = 5;

/** Finds the account numbers and bank codes that may be parts of an IBAN, with and without zeros before them. */
export function accountParts(iban: string, take: (from: number, to: number) => void): void {
  const last = iban.length;
  let first = last;
  while (first > 4 && iban.charCodeAt(first - 1) <= NINE) first -= 1;
  const both = (from: number, to: number): void => {
    let plain = from;
    while (iban.charCodeAt(plain) === ZERO && plain < to) plain += 1;
    if (to - from >= PART_BYTES_MIN) take(from, to);
    if (plain > from && to - plain >= PART_BYTES_MIN) take(plain, to);
  };
  for (const length of ACCOUNT_DIGITS) if (first <= last - length) both(last - length, last);
  for (const length of BANK_DIGITS) if (first + length <= last) both(first, first + length);
  if (first > last - (ACCOUNT_DIGITS[0] as number)) both(first, last);
}
