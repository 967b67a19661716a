import { z } from "zod";
import { defOf, type Schema } from "./walk.ts";

/** The definition of a check, with the properties that are read here. */
export interface CheckDef {
  readonly check: string;
  readonly format?: string;
  readonly pattern?: RegExp;
  readonly maximum?: number;
  readonly length?: number;
  readonly fn?: unknown;
  readonly when?: unknown;
}

/** Options that distinguish patterns of the same format. */
interface FormatOptions {
  readonly version?: string;
  readonly precision?: number | null;
  readonly offset?: boolean;
  readonly local?: boolean;
}

const { regexes } = z;

const HOURS_AND_MINUTES = String.raw`(?:[01]\d|2[0-3]):[0-5]\d`;
const TIME = String.raw`${HOURS_AND_MINUTES}:[0-5]\d(?:\.\d{1,32})?(?:[Zz]|[+-]${HOURS_AND_MINUTES})`;
const DATE = regexes.date.source.slice(1, -1);

/** The formats `time` and `date-time` of JSON Schema. */
export const RFC3339 = { time: new RegExp(`^${TIME}$`), dateTime: new RegExp(`^${DATE}[Tt]${TIME}$`) } as const;

/** Formats that are short and cannot begin with `-`, with the pattern of each: Zod's, or JSON Schema's. */
const BOUNDED_FORMATS = new Map<string, (options: FormatOptions) => RegExp | readonly RegExp[]>([
  ["uuid", ({ version }) => regexes.uuid(version === undefined ? undefined : Number(version.slice(1)))],
  ["guid", () => regexes.guid],
  ["date", () => regexes.date],
  ["datetime", (options) => regexes.datetime(options)],
  ["date-time", () => RFC3339.dateTime],
  ["time", (options) => [regexes.time(options), RFC3339.time]],
  ["ipv4", () => regexes.ipv4],
  ["ipv6", () => regexes.ipv6],
  ["cidrv4", () => regexes.cidrv4],
  ["cidrv6", () => regexes.cidrv6],
  ["cuid", () => regexes.cuid],
  ["ulid", () => regexes.ulid],
  ["xid", () => regexes.xid],
  ["ksuid", () => regexes.ksuid],
  ["e164", () => regexes.e164],
]);

/** Returns the checks of a text or a list. A format such as `z.uuid()` is its own first check, as in `z.string().uuid()`. */
export function checksOf(schema: Schema): readonly CheckDef[] {
  const def = defOf(schema);
  const added = (def.checks ?? []).map((check) => check._zod.def as unknown as CheckDef);
  return schema._zod.traits.has("$ZodCheck") ? [def as unknown as CheckDef, ...added] : added;
}

/** Returns the maximum number of elements or characters; `undefined` when there is no limit. */
export function maximumOf(checks: readonly CheckDef[]): number | undefined {
  const maxima = checks.map(({ check, maximum, length }) => {
    if (check === "max_length") return maximum ?? Number.POSITIVE_INFINITY;
    return check === "length_equals" ? (length ?? Number.POSITIVE_INFINITY) : Number.POSITIVE_INFINITY;
  });
  const least = Math.min(...maxima);
  return Number.isSafeInteger(least) ? least : undefined;
}

/** Returns the pattern that an author wrote for every value; `undefined` for any other check. */
export function writtenPattern({ check, format, pattern, when }: CheckDef): RegExp | undefined {
  return check === "string_format" && format === "regex" && when === undefined ? pattern : undefined;
}

/** Returns the names of the formats that all values have, and that are short and cannot begin with `-`. */
export function boundedFormatsOf(checks: readonly CheckDef[]): readonly string[] {
  return checks.flatMap(({ check, format = "", pattern, when, ...options }) => {
    const known = check === "string_format" && when === undefined ? BOUNDED_FORMATS.get(format) : undefined;
    if (known === undefined || pattern === undefined) return [];
    // A format with a known name may have another pattern.
    return [known(options as FormatOptions)].flat().some(({ source }) => source === pattern.source) ? [format] : [];
  });
}
