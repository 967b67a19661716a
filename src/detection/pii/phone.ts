import type { Work } from "../bounds.ts";
import { beginsLine, isOneOf, words } from "../views/characters.ts";
import { CERTAIN, type DigitGroups, LIKELY, type NumberSearch, type PiiFinding, POSSIBLE } from "./digit-groups.ts";

/** Steps for checking the plan of one country. */
const STEPS_PER_PLAN = 200;
/** Some calling codes are shared by twenty countries. */
const STEPS_PER_INTERNATIONAL = 600;

const DIGITS_MIN = 7;
const DIGITS_MAX = 15;

/**
 * Regions in which numbers without a calling code are looked up: next to a word that announces one or, at level `strict`, on
 * their own.
 */
const REGIONS = words("US CA GB DE FR ES IT NL IN BR AU ZA CH SE PL");

/** Divided by commas. */
const PHONE_SEPARATORS: ReadonlySet<string> = new Set(
  "--,..,---,..., --,-(, -,) -,)-, () -, ()-,() -,() , () ".split(","),
);

/** Finds a telephone number that consists of the groups. A `+` or a bracket may come before the first group. */
export function findPhone({ text, groups, work }: NumberSearch): PiiFinding | undefined {
  if (groups.digits < DIGITS_MIN || groups.lineEnds() > 0) return undefined;
  const { start: from, end } = groups;
  const hasBracket = isOneOf(text, from - 1, "(");
  const start = hasBracket ? from - 1 : from;
  // A `+` at the start of a line and before a bracket belongs to a diff.
  const isSign = isOneOf(text, start - 1, "+") && !(hasBracket && beginsLine(text, start - 1));
  const plus = isSign ? start - 1 : start;
  const northAmerican = isNorthAmerican(text, groups, { hasBracket, hasPlus: plus < start });
  if (northAmerican) return { rule: "PHONE", start: plus, end, confidence: LIKELY };
  return plus < start ? international({ text, groups, work }, plus) : national({ text, groups, work }, start);
}

/** Finds a number with a `+` that is assigned in its country. In a diff, a `+` may mark an added line. */
function international({ text, groups, work }: NumberSearch, start: number): PiiFinding | undefined {
  if (groups.digits > DIGITS_MAX || isOneOf(text, groups.start, "0")) return undefined;
  const digits = groups.digitsOf(0, groups.count - 1);
  work.spend(STEPS_PER_INTERNATIONAL);
  const found = { rule: "PHONE", start, end: groups.end, confidence: CERTAIN };
  const validity = internationalValidity(digits);
  if (validity === "valid") return found;
  // Numbers with a possible length outside the assigned ranges: examples, or numbers of new ranges.
  const mayBeAdded = beginsLine(text, start);
  return groups.digits > 9 && !mayBeAdded && validity === "possible" ? { ...found, confidence: LIKELY } : undefined;
}

/**
 * Matches `(415) 555-2671`, `415-555-2671`, `+1 415 555 2671`; only spaces as separators require a `+`. Area code 555 is common
 * in examples.
 */
function isNorthAmerican(
  text: string,
  groups: DigitGroups,
  { hasBracket, hasPlus }: { readonly hasBracket: boolean; readonly hasPlus: boolean },
): boolean {
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

/** Finds a number inside a country, with the leading zero of its national prefix. */
function national({ text, groups, work }: NumberSearch, start: number): PiiFinding | undefined {
  if (!isOneOf(text, groups.start, "0") || start < groups.start || groups.count < 2) return undefined;
  if (groups.digits > 12 || groups.digits < 9) return undefined;
  for (let group = 0; group < groups.count; group += 1) if (groups.sizeOf(group) < 2) return undefined;
  const digits = groups.digitsOf(0, groups.count - 1);
  return isPhoneSomewhere(digits, work) ? { rule: "PHONE", start, end: groups.end, confidence: POSSIBLE } : undefined;
}

export function isPhoneAbroad(digits: string, work: Work): boolean {
  work.spend(STEPS_PER_INTERNATIONAL);
  return internationalValidity(digits) === "valid";
}

/** Returns whether the digits could be a number in one of the regions, or a number with a calling code. */
export function isPhoneSomewhere(digits: string, work: Work): boolean {
  if (digits.startsWith("00")) return isPhoneAbroad(digits.slice(2), work);
  if (digits.length > 10 && isPhoneAbroad(digits, work)) return true;
  for (const region of REGIONS) {
    work.spend(STEPS_PER_PLAN);
    if (isNationalNumber(digits, region)) return true;
  }
  return false;
}

/** Positions in a country's row of the library's table, version 4. */
const NATIONAL_PATTERN = 2;
const LENGTHS = 3;
const NATIONAL_PREFIX = 5;
const PREFIX_FOR_PARSING = 7;
const PREFIX_TRANSFORM = 8;
const TYPES = 11;

type Row = readonly unknown[];

interface Metadata {
  readonly country_calling_codes: Readonly<Record<string, readonly string[]>>;
  readonly countries: Readonly<Record<string, Row>>;
  readonly nonGeographic: Readonly<Record<string, Row>>;
}

/** Numbering plan of one country. All expressions are applied to the digits of a number only. */
interface Plan {
  readonly general: RegExp;
  readonly types: RegExp;
  readonly trunk: string;
  readonly lengths: readonly number[];
  /** Prefix that is dialled before a number inside the country, and the replacement for it. */
  readonly prefix: RegExp | undefined;
  readonly transform: string | undefined;
}

const CALLING_CODE_DIGITS_MAX = 3;

let metadata: Metadata | undefined;
const plans = new Map<string, Plan>();

/** Loads the table on the first number: it is large, and most processes never need it. */
function table(): Metadata {
  metadata ??= require("libphonenumber-js/metadata.max.json") as Metadata;
  return metadata;
}

function planOf(region: string): Plan {
  const known = plans.get(region);
  if (known !== undefined) return known;
  const plan = read(table().countries[region] ?? table().nonGeographic[region] ?? []);
  plans.set(region, plan);
  return plan;
}

function read(row: Row): Plan {
  const types = Array.isArray(row[TYPES]) ? row[TYPES].filter(Array.isArray).map(([pattern]) => String(pattern)) : [];
  const general = String(row[NATIONAL_PATTERN] ?? "(?!)");
  const prefix = row[PREFIX_FOR_PARSING] || row[NATIONAL_PREFIX];
  const transform = row[PREFIX_TRANSFORM];
  const lengths = row[LENGTHS];
  return {
    trunk: typeof row[NATIONAL_PREFIX] === "string" ? row[NATIONAL_PREFIX] : "",
    lengths: Array.isArray(lengths) ? lengths.map(Number) : [],
    general: whole(general),
    types: types.length === 0 ? whole(general) : whole(types.join("|")),
    prefix: prefix ? new RegExp(`^(?:${String(prefix)})`) : undefined,
    transform: typeof transform === "string" ? transform : undefined,
  };
}

function whole(pattern: string): RegExp {
  return new RegExp(`^(?:${pattern})$`);
}

/** Validity of a number in the international form. `possible`: only its length fits its country. */
export type NumberValidity = "valid" | "possible" | "none";

/** Returns the validity of `digits`, which start with a country's calling code. */
export function internationalValidity(digits: string): NumberValidity {
  for (let length = 1; length <= CALLING_CODE_DIGITS_MAX; length += 1) {
    const code = digits.slice(0, length);
    const regions = table().country_calling_codes[code] ?? (table().nonGeographic[code] === undefined ? [] : [code]);
    if (regions.length > 0) return validityIn(regions, digits.slice(length));
  }
  return "none";
}

function validityIn(regions: readonly string[], national: string): NumberValidity {
  if (regions.some((region) => isAssigned(national, planOf(region)))) return "valid";
  const { trunk, lengths } = planOf(regions[0] ?? "");
  // `+44 (0)20 …` also contains the prefix that is dialled inside the country.
  if (trunk !== "" && national.startsWith(trunk) && isAssigned(national.slice(trunk.length), planOf(regions[0] ?? "")))
    return "valid";
  return lengths.includes(national.length) ? "possible" : "none";
}

function isAssigned(national: string, { general, types }: Plan): boolean {
  return general.test(national) && types.test(national);
}

/** Returns whether `digits` are a number of this country, with or without its national prefix. */
export function isNationalNumber(digits: string, region: string): boolean {
  const plan = planOf(region);
  const own = withoutPrefix(digits, plan);
  // The prefix belongs to the number when the digits are valid only with it.
  return isAssigned(plan.general.test(digits) && !plan.general.test(own) ? digits : own, plan);
}

function withoutPrefix(digits: string, { prefix, transform }: Plan): string {
  const dialled = prefix?.exec(digits);
  if (prefix === undefined || dialled === null || dialled === undefined) return digits;
  const isKept = transform !== undefined && dialled.length > 1 && dialled.at(-1) !== undefined;
  return isKept ? digits.replace(prefix, transform) : digits.slice(dialled[0].length);
}
