import { type CountryCode, parsePhoneNumberFromString } from "libphonenumber-js/max";
import { isA, LINE_END } from "../views/characters.ts";
import { type DigitGroups, separatorsOf } from "./digit-groups.ts";
import { CERTAIN, LIKELY, type PiiFinding, POSSIBLE } from "./finding.ts";

/** Numbers the library is asked about in one text; further ones count by their shape alone. It takes 30 µs for one. */
export const PHONE_CHECKS_MAX = 1_000;

const DIGITS_MIN = 7;
const DIGITS_MAX = 15;

/** Where numbers without a country are looked up: beside a word that announces one, or, when strict, on their own. */
const REGIONS: readonly CountryCode[] = [
  "US",
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

/** What is left to ask; shared by all detectors of one text. */
export interface PhoneBudget {
  checks: number;
}

/** Of the groups that begin at `start`, the first of which may follow a `+` or a bracket. */
export function findPhone(text: string, groups: DigitGroups, budget: PhoneBudget): PiiFinding | undefined {
  if (groups.digits < DIGITS_MIN || groups.lineEnds > 0) return undefined;
  const from = groups.starts[0] ?? 0;
  const end = groups.ends.at(-1) ?? 0;
  const hasBracket = text[from - 1] === "(";
  const start = hasBracket ? from - 1 : from;
  const plus = text[start - 1] === "+" ? start - 1 : start;
  const northAmerican = isNorthAmerican(text, groups, { hasBracket, hasPlus: plus < start });
  if (plus < start && !northAmerican) return international(text, { start: plus, end, digits: groups.digits }, budget);
  return northAmerican
    ? { rule: "PHONE", start: plus, end, confidence: LIKELY }
    : national(text, { start, end }, { groups, budget });
}

interface Candidate {
  readonly start: number;
  readonly end: number;
  readonly digits: number;
}

/** With a `+`: valid, or at least as long as its country's numbers are. In a diff, a `+` may stand for an added line. */
function international(text: string, { start, end, digits }: Candidate, budget: PhoneBudget): PiiFinding | undefined {
  if (digits > DIGITS_MAX || text[start + 1] === "0") return undefined;
  const found = { rule: "PHONE", start, end, confidence: CERTAIN };
  if (budget.checks <= 0) return digits > 8 ? found : undefined;
  budget.checks -= 1;
  const number = parsePhoneNumberFromString(text.slice(start, end));
  if (number?.isValid() === true) return found;
  const mayBeAdded = start === 0 || isA(text, start - 1, LINE_END);
  return number?.isPossible() === true && digits > 9 && !mayBeAdded ? { ...found, confidence: LIKELY } : undefined;
}

interface Marks {
  readonly hasBracket: boolean;
  readonly hasPlus: boolean;
}

/** `(415) 555-2671`, `415-555-2671`, `+1 415 555 2671`; with blanks alone only behind a `+`. 555 is everybody's example. */
function isNorthAmerican(text: string, groups: DigitGroups, { hasBracket, hasPlus }: Marks): boolean {
  const { starts, ends, digits } = groups;
  const sizes = starts.map((start, index) => (ends[index] ?? 0) - start);
  const hasCountry = sizes[0] === 1 && text[starts[0] ?? 0] === "1";
  if ((hasCountry ? sizes.slice(1) : sizes).join(",") !== "3,3,4" || digits > 11) return false;
  if (hasPlus) return hasCountry;
  const area = starts.at(-3) ?? 0;
  const exchange = starts.at(-2) ?? 0;
  const isIssued = (text[area] ?? "") >= "2" && (text[exchange] ?? "") >= "2";
  if (!isIssued && !text.startsWith("555", area)) return false;
  return hasBracket || PHONE_SEPARATORS.has(separatorsOf(text, groups));
}

function national(
  text: string,
  at: { readonly start: number; readonly end: number },
  { groups, budget }: { groups: DigitGroups; budget: PhoneBudget },
): PiiFinding | undefined {
  if (text[at.start] !== "0" || groups.starts.length < 2 || groups.digits > 12 || groups.digits < 9) return undefined;
  if (groups.starts.some((start, index) => (groups.ends[index] ?? 0) - start < 2)) return undefined;
  return isPhoneIn(text.slice(at.start, at.end), budget) ? { rule: "PHONE", ...at, confidence: POSSIBLE } : undefined;
}

/** Beside a word that announces one: whatever could be a number in one of the regions. */
export function isPhoneIn(candidate: string, budget: PhoneBudget): boolean {
  for (const region of REGIONS) {
    if (budget.checks <= 0) return true;
    budget.checks -= 1;
    if (parsePhoneNumberFromString(candidate, region)?.isValid() === true) return true;
  }
  return false;
}
