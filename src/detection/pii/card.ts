import { BLANK, DASH, HEX, isA, isOneOf, LINE_END, runEnd, runStart, wordSet } from "../views/characters.ts";
import { CERTAIN, type DigitGroups, type NumberSearch, type PiiFinding } from "./digit-groups.ts";

const DIGITS_MIN = 13;
const DIGITS_MAX = 19;

/** First digits of an issuer's numbers, as a range of numbers of equal length, and the possible lengths of its card numbers. */
type Issuer = readonly [from: number, to: number, lengths: readonly number[]];

const ISSUERS: readonly Issuer[] = [
  [4, 4, [13, 16, 19]],
  [51, 55, [16]],
  [2221, 2720, [16]],
  [34, 34, [15]],
  [37, 37, [15]],
  [6011, 6011, [16, 17, 18, 19]],
  [644, 659, [16, 17, 18, 19]],
  [300, 305, [14, 16]],
  [36, 36, [14, 16]],
  [38, 39, [14, 16]],
  [3528, 3589, [16, 17, 18, 19]],
  [2131, 2131, [15]],
  [1800, 1800, [15]],
  [62, 62, [16, 17, 18, 19]],
  [81, 82, [16]],
  [2200, 2204, [16]],
  [50, 50, [16, 18, 19]],
  [56, 58, [16, 18, 19]],
  [60, 60, [16]],
  [63, 63, [16, 18, 19]],
  [67, 67, [16, 18, 19]],
];

const GROUPINGS = wordSet(
  "4,4,4,4 4,6,5 4,6,4 4,4,4,4,3 4,4,4,1 4,4,5 6,13 8,8 6,10 4,8,4 4,4,8 8,4,4 4,12 4,5,6 4,4,4,3 6,6,4 6,4,6 12,4",
  "4,4,4,4,2 4,4,4,4,1",
);

/** Steps for a range with the length of a card number, and for a group that cannot start one. */
const STEPS_PER_RANGE = 60;
const STEPS_PER_GROUP = 6;

/** Returns the card numbers that consist of whole groups. */
export function findCards(search: NumberSearch): readonly PiiFinding[] {
  const { groups, work } = search;
  if (groups.digits < DIGITS_MIN) return NONE;
  work.spend(groups.count * STEPS_PER_GROUP);
  let cards: Window[] | undefined;
  let first = 0;
  while (first < groups.count) {
    const last = mayBegin(groups, first) ? cardEnd(search, first) : -1;
    if (last === -1) {
      first += 1;
      continue;
    }
    cards ??= [];
    cards.push({ first, last });
    first = last + 1;
  }
  return cards === undefined ? NONE : cards.filter((card) => !isInTable(search, card, cards)).map(found);

  function found({ first: from, last: to }: Window): PiiFinding {
    return { rule: "CARD", start: groups.startOf(from), end: groups.endOf(to), confidence: CERTAIN };
  }
}

const NONE: readonly PiiFinding[] = [];

/**
 * Returns whether the number belongs to a table. One in 25 rows of four-digit numbers passes for a card number. In a table,
 * similar numbers are next to it, or most lines with the same number of groups contain no card number at that position. An empty
 * line ends a table.
 */
function isInTable({ groups, work }: NumberSearch, { first, last }: Window, cards: readonly Window[]): boolean {
  if (first === last) return false;
  work.spend(groups.count * STEPS_PER_LINE_GROUP);
  // A number at the group limit, or after groups that were read before, is read again together with its other groups.
  if ((first === 0 && !groups.beginsLine(0)) || (groups.isCut && last === groups.count - 1)) return true;
  const isOther = (group: number) => !cards.some((card) => group >= card.first && group <= card.last);
  const line = lineAround(groups, first);
  if (!hasYearAtMost(groups, { first, last }) && hasAlikeNeighbour(groups, { first, last }) && hasAny(line, isOther))
    return true;
  let alike = 0;
  let others = 0;
  const table = tableAround(groups, line);
  for (let at = table.first; at <= table.last; at = lineAround(groups, at).last + 1) {
    if (at === line.first || lineAround(groups, at).last - at !== line.last - line.first) continue;
    alike += 1;
    if (isOther(at + first - line.first)) others += 1;
  }
  return others * 2 > alike;
}

const STEPS_PER_LINE_GROUP = 20;

/** Returns the groups of the lines around a line, up to an empty line. */
function tableAround(groups: DigitGroups, line: Window): Window {
  let { first, last } = line;
  while (first > 0 && !followsBlankLine(groups, first)) first -= 1;
  while (last + 1 < groups.count && !followsBlankLine(groups, last + 1)) last += 1;
  return { first, last };
}

function followsBlankLine(groups: DigitGroups, group: number): boolean {
  return groups.beginsLine(group) && groups.separatorBefore(group).split("\n").length > 2;
}

/** Returns whether a group of the same size is next to the number, after the separator that is between its own groups. */
function hasAlikeNeighbour(groups: DigitGroups, { first, last }: Window): boolean {
  const gap = groups.separatorBefore(last);
  const isBefore =
    first > 0 && groups.sizeOf(first - 1) === groups.sizeOf(first) && groups.separatorBefore(first) === gap;
  const next = last + 1;
  return (
    isBefore ||
    (next < groups.count && groups.sizeOf(next) === groups.sizeOf(last) && groups.separatorBefore(next) === gap)
  );
}

/** Returns whether all groups are on one line with at most one other four-digit number, which may be the expiry date. */
function hasYearAtMost(groups: DigitGroups, { first, last }: Window): boolean {
  let others = 0;
  for (let group = 0; group < groups.count; group += 1) {
    if (group > 0 && groups.beginsLine(group)) return false;
    if ((group < first || group > last) && groups.sizeOf(group) === PREFIX_DIGITS) others += 1;
  }
  return others < 2;
}

function hasAny({ first, last }: Window, isIt: (group: number) => boolean): boolean {
  for (let group = first; group <= last; group += 1) if (isIt(group)) return true;
  return false;
}

function lineAround(groups: DigitGroups, group: number): Window {
  let first = group;
  while (first > 0 && !groups.beginsLine(first)) first -= 1;
  let last = group;
  while (last + 1 < groups.count && !groups.beginsLine(last + 1)) last += 1;
  return { first, last };
}

/**
 * Returns whether a card number may start here. Issuers print four or more digits first; smaller groups must fill a whole line,
 * so they must start one.
 */
function mayBegin(groups: DigitGroups, first: number): boolean {
  return groups.sizeOf(first) >= PREFIX_DIGITS || groups.beginsLine(first);
}

/** Returns the last group of the card number that starts with this group; -1 when there is none. */
function cardEnd({ text, groups, work }: NumberSearch, first: number): number {
  const lengths = lengthsFor(leadingDigits(text, groups, first));
  if (lengths === 0) return -1;
  let digits = 0;
  let found = -1;
  for (let last = first; last < groups.count && digits < DIGITS_MAX; last += 1) {
    digits += groups.sizeOf(last);
    if (digits > DIGITS_MAX || (lengths & (1 << digits)) === 0 || !mayBePrinted(groups, { first, last })) continue;
    work.spend(STEPS_PER_RANGE);
    if (!isCard(text, groups, { first, last }) || isFraction(text, groups, { first, last })) continue;
    work.spend(STEPS_PER_RANGE * 10);
    if (isGrouped(text, groups, { first, last }) && !isInUuid(text, groups, { first, last })) found = last;
  }
  return found;
}

/** A range of groups; both ends are inclusive. */
interface Window {
  readonly first: number;
  readonly last: number;
}

const PREFIX_DIGITS = 4;

/** Returns the first four digits from this group on as a number; -1 when there are fewer. */
function leadingDigits(text: string, groups: DigitGroups, first: number): number {
  let value = 0;
  let count = 0;
  for (let group = first; group < groups.count; group += 1) {
    const end = groups.endOf(group);
    for (let at = groups.startOf(group); at < end; at += 1) {
      value = value * 10 + text.charCodeAt(at) - 0x30;
      count += 1;
      if (count === PREFIX_DIGITS) return value;
    }
  }
  return -1;
}

/** Possible lengths by the first four digits, as bits. Computed on the first number. */
let lengthsByPrefix: Uint32Array | undefined;

function lengthsFor(four: number): number {
  lengthsByPrefix ??= Uint32Array.from({ length: 10 ** PREFIX_DIGITS }, (_, prefix) => lengthBits(prefix));
  return four === -1 ? 0 : (lengthsByPrefix[four] ?? 0);
}

function lengthBits(four: number): number {
  let bits = 0;
  for (const [from, to, lengths] of ISSUERS) {
    const prefix = Math.floor(four / 10 ** (PREFIX_DIGITS - String(from).length));
    if (prefix >= from && prefix <= to) for (const length of lengths) bits |= 1 << length;
  }
  return bits;
}

const GROUPS_PRINTED_MAX = 5;

/** Returns whether the groups may be a card number. More groups than issuers print must fill a whole line. */
function mayBePrinted(groups: DigitGroups, { first, last }: Window): boolean {
  return last - first < GROUPS_PRINTED_MAX || isWholeLine(groups, { first, last });
}

function isWholeLine(groups: DigitGroups, { first, last }: Window): boolean {
  const endsLine = last === groups.count - 1 ? !groups.isCut : groups.beginsLine(last + 1);
  return endsLine && groups.beginsLine(first);
}

/** Returns whether the digits are inside a UUID. One in a thousand UUIDs contains the digits of a card number. */
function isInUuid(text: string, groups: DigitGroups, { first, last }: Window): boolean {
  const start = runStart(text, groups.startOf(first), HEX | DASH, groups.startOf(first) - UUID_CHARS);
  const end = runEnd(text, groups.endOf(last), HEX | DASH, start + UUID_CHARS + 1);
  return end - start === UUID_CHARS && UUID_DASHES.every((at) => isOneOf(text, start + at, "-"));
}

const UUID_CHARS = 36;
const UUID_DASHES = [8, 13, 18, 23];

/**
 * Returns whether the digits are in one piece, in groups that issuers print, or, when they fill a whole line, in groups of one
 * size.
 */
function isGrouped(text: string, groups: DigitGroups, { first, last }: Window): boolean {
  const count = last - first + 1;
  if (count === 1) return true;
  const isWhole = isWholeLine(groups, { first, last });
  const lineEnds = groups.lineEnds(first, last);
  if (lineEnds > 1 || (lineEnds === 1 && !isWrapped(text, groups, { first, last }))) return false;
  if (!isWhole && (count > GROUPS_PRINTED_MAX || lineEnds > 0)) return false;
  const sizes = Array.from({ length: count }, (_, index) => groups.sizeOf(first + index));
  const separators = groups.separators(first, last);
  if (count === 2 && separators.includes(".")) return false;
  if (GROUPINGS.has(sizes.join(","))) return true;
  if (!isWhole || count === 2) return false;
  if (lineEnds > 0) return haveEqualSizes(sizes) || isPrintedAcrossLines(groups, sizes, first);
  return haveEqualSizes(sizes) && hasOneSeparator(separators, count - 1);
}

/**
 * Returns whether a number that spans two lines is part of a sentence: other text is before it on its first line, and no line
 * end follows it directly.
 */
function isWrapped(text: string, groups: DigitGroups, { first, last }: Window): boolean {
  const before = runStart(text, groups.startOf(first), BLANK) - 1;
  const after = runEnd(text, groups.endOf(last), BLANK);
  return before >= 0 && !isA(text, before, LINE_END) && !isA(text, after, LINE_END);
}

/** Returns whether the groups form a printed grouping after the line end is removed: `4111 11`, line end, `11 1111 1111`. */
function isPrintedAcrossLines(groups: DigitGroups, sizes: readonly number[], first: number): boolean {
  const joined: number[] = [];
  for (const [group, size] of sizes.entries()) {
    const gap = group === 0 ? "" : groups.separatorBefore(first + group);
    if (gap.includes("\n")) joined.push((joined.pop() ?? 0) + size);
    else joined.push(size);
  }
  return joined.length > 2 && GROUPINGS.has(joined.join(","));
}

/** Returns whether the digits are a decimal fraction: `0.4111111111111111`. */
function isFraction(text: string, groups: DigitGroups, { first, last }: Window): boolean {
  const start = groups.startOf(first);
  return first === last && first > 0 && isOneOf(text, start - 1, ".") && start - 1 === groups.endOf(first - 1);
}

function haveEqualSizes(sizes: readonly number[]): boolean {
  const [first = 0] = sizes;
  return sizes.every((size, index) => size === first || (index === sizes.length - 1 && size < first));
}

function hasOneSeparator(separators: string, count: number): boolean {
  const one = separators.slice(0, separators.length / count);
  return separators === one.repeat(count);
}

/**
 * Returns whether the check digit is valid and the digits are not all the same. The caller has checked the first digits and the
 * length.
 */
function isCard(text: string, groups: DigitGroups, { first, last }: Window): boolean {
  const leading = text.charCodeAt(groups.startOf(first));
  let sum = 0;
  let position = 0;
  let isVaried = false;
  for (let group = last; group >= first; group -= 1) {
    const start = groups.startOf(group);
    for (let at = groups.endOf(group) - 1; at >= start; at -= 1) {
      const code = text.charCodeAt(at);
      if (code !== leading) isVaried = true;
      sum += luhnTerm(code - ZERO, position);
      position += 1;
    }
  }
  return isVaried && sum % 10 === 0;
}

const ZERO = 0x30;

/** Returns what a digit adds to the Luhn sum; `position` counts from the right. */
function luhnTerm(digit: number, position: number): number {
  if (position % 2 === 0) return digit;
  return digit > 4 ? digit * 2 - 9 : digit * 2;
}

export function passesLuhn(digits: string): boolean {
  let sum = 0;
  for (let position = 0; position < digits.length; position += 1) {
    sum += luhnTerm(digits.charCodeAt(digits.length - 1 - position) - ZERO, position);
  }
  return sum % 10 === 0;
}
