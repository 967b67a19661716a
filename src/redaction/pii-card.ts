import { type DigitGroups, digitsOf } from "./digit-groups.ts";
import { CERTAIN, type PiiFinding } from "./pii-finding.ts";

const DIGITS_MIN = 12;
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
  [50, 50, [12, 13, 14, 15, 16, 18, 19]],
  [56, 58, [12, 13, 14, 15, 16, 18, 19]],
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
  const sizes: number[] = [];
  let digits = 0;
  let found = -1;
  for (let last = first; last < groups.starts.length && digits < DIGITS_MAX; last += 1) {
    const size = (groups.ends[last] ?? 0) - (groups.starts[last] ?? 0);
    sizes.push(size);
    digits += size;
    if (digits < DIGITS_MIN || digits > DIGITS_MAX) continue;
    const isWhole = first === 0 && last === groups.starts.length - 1;
    if (
      isGrouped(sizes, groups, isWhole) &&
      !isFraction(text, groups, { first, last }) &&
      isCard(digitsOf(text, groups, first, last))
    )
      found = last;
  }
  return found;
}

/** In one piece, in groups that issuers print, or, when nothing else stands around, in groups of one size. */
function isGrouped(sizes: readonly number[], groups: DigitGroups, isWhole: boolean): boolean {
  if (sizes.length === 1) return true;
  if (groups.lineEnds > 0)
    return isWhole && groups.lineEnds < 3 && (sizes.length < 4 || GROUPINGS.has(sizes.join(",")) || isEven(sizes));
  if (GROUPINGS.has(sizes.join(","))) return true;
  return isWhole && isEven(sizes) && hasOneSeparator(groups.separators, sizes.length - 1);
}

/** `0.4111111111111111`. */
function isFraction(text: string, groups: DigitGroups, { first, last }: { first: number; last: number }): boolean {
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

/** An issuer's number: its first digits, its length, its check digit. */
export function isCard(digits: string): boolean {
  return hasIssuer(digits) && passesLuhn(digits) && !isMonotonous(digits);
}

function hasIssuer(digits: string): boolean {
  const four = Number(digits.slice(0, 4));
  return ISSUERS.some(([from, to, lengths]) => {
    const scale = 10 ** (4 - String(from).length);
    const prefix = Math.floor(four / scale);
    return prefix >= from && prefix <= to && lengths.includes(digits.length);
  });
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
  return new Set(digits).size < 2;
}
