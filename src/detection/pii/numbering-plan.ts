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
  if (regions.some((region) => isGiven(national, planOf(region)))) return "valid";
  const { trunk, lengths } = planOf(regions[0] ?? "");
  // `+44 (0)20 …` also contains the prefix that is dialled inside the country.
  if (trunk !== "" && national.startsWith(trunk) && isGiven(national.slice(trunk.length), planOf(regions[0] ?? "")))
    return "valid";
  return lengths.includes(national.length) ? "possible" : "none";
}

function isGiven(national: string, { general, types }: Plan): boolean {
  return general.test(national) && types.test(national);
}

/** Returns whether `digits` are a number of this country, with or without its national prefix. */
export function isNationalNumber(digits: string, region: string): boolean {
  const plan = planOf(region);
  const own = withoutPrefix(digits, plan);
  // The prefix belongs to the number when the digits are valid only with it.
  return isGiven(plan.general.test(digits) && !plan.general.test(own) ? digits : own, plan);
}

function withoutPrefix(digits: string, { prefix, transform }: Plan): string {
  const dialled = prefix?.exec(digits);
  if (prefix === undefined || dialled === null || dialled === undefined) return digits;
  const isKept = transform !== undefined && dialled.length > 1 && dialled.at(-1) !== undefined;
  return isKept ? digits.replace(prefix, transform) : digits.slice(dialled[0].length);
}
