import type { Work } from "../bounds.ts";
import { isA, isOneOf, LINE_END } from "../views/characters.ts";
import type { DigitGroups } from "./digit-groups.ts";
import { CERTAIN, LIKELY, type PiiFinding, POSSIBLE } from "./finding.ts";
import { internationalValidity, isNationalNumber } from "./numbering-plan.ts";

/** Of asking one country's plan. */
const STEPS_PER_PLAN = 200;
/** Some calling codes have twenty countries. */
const STEPS_PER_INTERNATIONAL = 600;

const DIGITS_MIN = 7;
const DIGITS_MAX = 15;

/** Where numbers without a country are looked up: beside a word that announces one, or, when strict, on their own. */
const REGIONS: readonly string[] = [
  "US",
  "CA",
  "GB",
  "DE",
  "FR",
  "ES",
  "IT",
  "NL",
  "IN",
  "BR",
  "AU",
  "ZA",
  "CH",
  "SE",
  "PL",
];

const PHONE_SEPARATORS: ReadonlySet<string> = new Set([
  "--",
  "..",
  "---",
  "...",
  " --",
  "-(",
  " -",
  ") -",
  ")-",
  " () -",
  " ()-",
  "() -",
  "() ",
  " () ",
]);

/** What the telephone numbers of a text are looked for with. */
export interface PhoneSearch {
  readonly text: string;
  readonly groups: DigitGroups;
  readonly work: Work;
}

/** Of the groups that were read, the first of which may follow a `+` or a bracket. */
export function findPhone({ text, groups, work }: PhoneSearch): PiiFinding | undefined {
  if (groups.digits < DIGITS_MIN || groups.lineEnds() > 0) return undefined;
  const { start: from, end } = groups;
  const hasBracket = isOneOf(text, from - 1, "(");
  const start = hasBracket ? from - 1 : from;
  // Before a bracket, a `+` at a line's beginning is a diff's.
  const isSign = isOneOf(text, start - 1, "+") && !(hasBracket && beginsLine(text, start - 1));
  const plus = isSign ? start - 1 : start;
  const northAmerican = isNorthAmerican(text, groups, { hasBracket, hasPlus: plus < start });
  if (northAmerican) return { rule: "PHONE", start: plus, end, confidence: LIKELY };
  return plus < start ? international({ text, groups, work }, plus) : national({ text, groups, work }, start);
}

/** With a `+`: given to somebody. In a diff, a `+` may stand for an added line. */
function international({ text, groups, work }: PhoneSearch, start: number): PiiFinding | undefined {
  if (groups.digits > DIGITS_MAX || isOneOf(text, groups.start, "0")) return undefined;
  const digits = groups.digitsOf(0, groups.count - 1);
  work.spend(STEPS_PER_INTERNATIONAL);
  const found = { rule: "PHONE", start, end: groups.end, confidence: CERTAIN };
  const validity = internationalValidity(digits);
  if (validity === "valid") return found;
  // Long enough for a number, but of no range that its country has given out: examples, and ranges that are new.
  const mayBeAdded = beginsLine(text, start);
  return groups.digits > 9 && !mayBeAdded && validity === "possible" ? { ...found, confidence: LIKELY } : undefined;
}

function beginsLine(text: string, at: number): boolean {
  return at === 0 || isA(text, at - 1, LINE_END);
}

interface Marks {
  readonly hasBracket: boolean;
  readonly hasPlus: boolean;
}

/** `(415) 555-2671`, `415-555-2671`, `+1 415 555 2671`; with blanks alone only behind a `+`. 555 is everybody's example. */
function isNorthAmerican(text: string, groups: DigitGroups, { hasBracket, hasPlus }: Marks): boolean {
  const { count, digits } = groups;
  if (digits < 10 || digits > 11 || count < 3 || count > 4) return false;
  const area = count - 3;
  if (groups.sizeOf(area) !== 3 || groups.sizeOf(area + 1) !== 3 || groups.sizeOf(area + 2) !== 4) return false;
  const hasCountry = area === 1 && isOneOf(text, groups.start, "1");
  if (area === 1 && !hasCountry) return false;
  if (hasPlus) return hasCountry;
  const isIssued = (text[groups.startOf(area)] ?? "") >= "2" && (text[groups.startOf(area + 1)] ?? "") >= "2";
  if (!isIssued && !text.startsWith("555", groups.startOf(area))) return false;
  return hasBracket || PHONE_SEPARATORS.has(groups.separators());
}

/** Inside a country, with the zero that is dialled there. */
function national({ text, groups, work }: PhoneSearch, start: number): PiiFinding | undefined {
  if (!isOneOf(text, groups.start, "0") || start < groups.start || groups.count < 2) return undefined;
  if (groups.digits > 12 || groups.digits < 9) return undefined;
  for (let group = 0; group < groups.count; group += 1) if (groups.sizeOf(group) < 2) return undefined;
  const digits = groups.digitsOf(0, groups.count - 1);
  return isPhoneSomewhere(digits, work) ? { rule: "PHONE", start, end: groups.end, confidence: POSSIBLE } : undefined;
}

/** With a country's calling code. */
export function isPhoneAbroad(digits: string, work: Work): boolean {
  work.spend(STEPS_PER_INTERNATIONAL);
  return internationalValidity(digits) === "valid";
}

/** Beside a word that announces one: whatever could be a number in one of the regions. */
export function isPhoneSomewhere(digits: string, work: Work): boolean {
  if (digits.startsWith("00")) return isPhoneAbroad(digits.slice(2), work);
  if (digits.length > 10 && isPhoneAbroad(digits, work)) return true;
  for (const region of REGIONS) {
    work.spend(STEPS_PER_PLAN);
    if (isNationalNumber(digits, region)) return true;
  }
  return false;
}
