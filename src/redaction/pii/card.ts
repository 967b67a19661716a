import { type DigitGroups, digitsOf, separatorsOf } from "./digit-groups.ts";
import { CERTAIN, type PiiFinding } from "./finding.ts";

const DIGITS_MIN = 13;
const DIGITS_MAX = 19;

/** Issuers' first digits, as a range of numbers of equal length, and how long their numbers are. */
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

/** Sizes of groups in which cards are written. */
const GROUPINGS: ReadonlySet<string> = new Set([
  ...[
    "4,4,4,4",
    "4,6,5",
    "4,6,4",
    "4,4,4,4,3",
    "4,4,4,1",
    "4,4,5",
    "6,13",
    "8,8",
    "6,10",
    "4,8,4",
    "4,4,8",
    "8,4,4",
    "4,12",
  ],
  ...["4,5,6", "4,4,4,3", "6,6,4", "6,4,6", "12,4", "4,4,4,4,2", "4,4,4,4,1"],
]);

/** Cards among the groups, whole groups only. */
export function findCards(text: string, groups: DigitGroups): readonly PiiFinding[] {
  if (groups.digits < DIGITS_MIN) return [];
  const found: PiiFinding[] = [];
  let first = 0;
  while (first < groups.starts.length) {
    const last = cardEnd(text, groups, first);
    if (last === -1) {
      first += 1;
      continue;
    }
    found.push({ rule: "CARD", start: groups.starts[first] ?? 0, end: groups.ends[last] ?? 0, confidence: CERTAIN });
    first = last + 1;
  }
  return found;
}

/** The last group of the card that begins with this group; -1 when none does. */
function cardEnd(text: string, groups: DigitGroups, first: number): number {
  const lengths = lengthsFor(leadingDigits(text, groups, first));
  if (lengths === 0) return -1;
  let digits = 0;
  let found = -1;
  for (let last = first; last < groups.starts.length && digits < DIGITS_MAX; last += 1) {
    digits += sizeOf(groups, last);
    if (digits > DIGITS_MAX || (lengths & (1 << digits)) === 0) continue;
    if (!isGrouped(text, groups, { first, last }) || isFraction(text, groups, { first, last })) continue;
    if (isCard(digitsOf(text, groups, first, last))) found = last;
  }
  return found;
}

/** Groups, from the first to the last. */
interface Window {
  readonly first: number;
  readonly last: number;
}

function sizeOf(groups: DigitGroups, group: number): number {
  return (groups.ends[group] ?? 0) - (groups.starts[group] ?? 0);
}

const PREFIX_DIGITS = 4;

/** The first four digits from this group on, as a number; -1 when there are fewer. */
function leadingDigits(text: string, groups: DigitGroups, first: number): number {
  let value = 0;
  let count = 0;
  for (let group = first; group < groups.starts.length; group += 1) {
    const end = groups.ends[group] ?? 0;
    for (let at = groups.starts[group] ?? 0; at < end; at += 1) {
      value = value * 10 + text.charCodeAt(at) - 0x30;
      count += 1;
      if (count === PREFIX_DIGITS) return value;
    }
  }
  return -1;
}

/** By the first four digits: the lengths that occur, as bits. */
const LENGTHS = Uint32Array.from({ length: 10 ** PREFIX_DIGITS }, (_, four) => lengthBits(four));

function lengthBits(four: number): number {
  let bits = 0;
  for (const [from, to, lengths] of ISSUERS) {
    const prefix = Math.floor(four / 10 ** (PREFIX_DIGITS - String(from).length));
    if (prefix >= from && prefix <= to) for (const length of lengths) bits |= 1 << length;
  }
  return bits;
}

function lengthsFor(four: number): number {
  return four === -1 ? 0 : (LENGTHS[four] ?? 0);
}

const GROUPS_PRINTED_MAX = 5;

/** In one piece, in groups that issuers print, or, when nothing else stands around, in groups of one size. */
function isGrouped(text: string, groups: DigitGroups, { first, last }: Window): boolean {
  const count = last - first + 1;
  if (count === 1) return true;
  const isWhole = first === 0 && last === groups.starts.length - 1;
  if (!isWhole && (count > GROUPS_PRINTED_MAX || groups.lineEnds > 0)) return false;
  const sizes = Array.from({ length: count }, (_, index) => sizeOf(groups, first + index));
  if (count === 2 && separatorsOf(text, groups).includes(".")) return false;
  if (GROUPINGS.has(sizes.join(","))) return true;
  if (!isWhole || groups.lineEnds > LINE_ENDS_MAX) return false;
  if (count === 2) return false;
  if (groups.lineEnds > 0) return isEven(sizes) || isPrintedAcrossLines(text, groups, sizes);
  return isEven(sizes) && hasOneSeparator(separatorsOf(text, groups), count - 1);
}

const LINE_ENDS_MAX = 2;

/** `4111 11`, line end, `11 1111 1111`: the line end is taken out. */
function isPrintedAcrossLines(text: string, groups: DigitGroups, sizes: readonly number[]): boolean {
  const joined: number[] = [];
  for (const [group, size] of sizes.entries()) {
    const gap = group === 0 ? "" : text.slice(groups.ends[group - 1], groups.starts[group]);
    if (gap.includes("\n")) joined.push((joined.pop() ?? 0) + size);
    else joined.push(size);
  }
  return joined.length > 2 && GROUPINGS.has(joined.join(","));
}

/** `0.4111111111111111`. */
function isFraction(text: string, groups: DigitGroups, { first, last }: Window): boolean {
  const start = groups.starts[first] ?? 0;
  return first === last && first > 0 && text[start - 1] === "." && start - 1 === groups.ends[first - 1];
}

function isEven(sizes: readonly number[]): boolean {
  const [first = 0] = sizes;
  return sizes.every((size, index) => size === first || (index === sizes.length - 1 && size < first));
}

function hasOneSeparator(separators: string, count: number): boolean {
  const one = separators.slice(0, separators.length / count);
  return separators === one.repeat(count);
}

/** An issuer's number: its first digits and length were looked at; its check digit. */
function isCard(digits: string): boolean {
  return passesLuhn(digits) && !isMonotonous(digits);
}

export function passesLuhn(digits: string): boolean {
  let sum = 0;
  for (let at = 0; at < digits.length; at += 1) {
    const digit = digits.charCodeAt(digits.length - 1 - at) - 0x30;
    const doubled = at % 2 === 1 ? digit * 2 : digit;
    sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return sum % 10 === 0;
}

/** One digit alone, over and over. */
function isMonotonous(digits: string): boolean {
  for (let at = 1; at < digits.length; at += 1) if (digits[at] !== digits[0]) return false;
  return true;
}
