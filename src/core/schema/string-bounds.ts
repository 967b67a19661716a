import { z } from "zod";
import { leadingDashFault } from "../manifest/leading-dash.ts";
import { type PatternNode, parsePattern } from "../pattern/parse.ts";
import { characterTest } from "../pattern/program.ts";

export type Check = z.core.$ZodCheck;

/** Maximum bytes of one command argument: Linux accepts 131,072 including the terminating NUL. */
export const ARGUMENT_BYTES_MAX = 131_071;
/** Maximum bytes of one code point, the unit in which string lengths are limited. */
const UTF8_BYTES_MAX = 4;

/** Marks the check that `freeText` adds; copies of the schema keep the mark. */
export const FREE_TEXT = Symbol.for("safe-tool-call.free-text");

export const REMEDY =
  "write an enum, a bounded format such as z.uuid(), z.string().max(n).regex(/^[A-Za-z0-9]…$/) whose first element cannot be -, or freeText(n)";

export const REWRITTEN =
  "must not be rewritten after it was checked: put .trim() and the like first, and write .refine() instead of .check() or .superRefine()";

/** The properties of a check's definition that are read here. */
interface CheckDef {
  readonly check: string;
  readonly format?: string;
  readonly pattern?: RegExp;
  readonly maximum?: number;
  readonly length?: number;
  readonly fn?: unknown;
  readonly when?: unknown;
  readonly [FREE_TEXT]?: boolean;
}

/** Options that distinguish patterns of the same format. */
interface FormatOptions {
  readonly version?: string;
  readonly precision?: number | null;
  readonly offset?: boolean;
  readonly local?: boolean;
}

const { regexes } = z;

/** Formats that are short and cannot begin with `-`, with Zod's pattern for each. */
const BOUNDED_FORMATS: ReadonlyMap<string, (options: FormatOptions) => RegExp> = new Map([
  ["uuid", ({ version }: FormatOptions) => regexes.uuid(version === undefined ? undefined : Number(version.slice(1)))],
  ["guid", () => regexes.guid],
  ["date", () => regexes.date],
  ["datetime", (options: FormatOptions) => regexes.datetime(options)],
  ["time", (options: FormatOptions) => regexes.time(options)],
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

function defOf(check: Check): CheckDef {
  return check._zod.def as unknown as CheckDef;
}

export function isFreeText(check: Check): boolean {
  return defOf(check)[FREE_TEXT] === true;
}

/**
 * Returns whether a check can only reject. `.check(fn)` and `.superRefine(fn)` may replace the value; the URL format trims it.
 */
export function keepsValue(check: Check): boolean {
  const def = defOf(check);
  if (def.check === "custom") return def.fn !== undefined;
  return def.check !== "overwrite" && def.format !== "url";
}

/** Returns the maximum number of elements or characters; `undefined` when there is no limit. */
export function maximumOf(checks: readonly Check[]): number | undefined {
  const maxima = checks.map(defOf).map((def) => {
    if (def.check === "max_length") return def.maximum ?? Number.POSITIVE_INFINITY;
    return def.check === "length_equals" ? (def.length ?? Number.POSITIVE_INFINITY) : Number.POSITIVE_INFINITY;
  });
  const least = Math.min(...maxima);
  return Number.isSafeInteger(least) ? least : undefined;
}

/** Returns why these checks do not bound a string; `undefined` when they do. */
export function stringFault(checks: readonly Check[]): string | undefined {
  if (checks.some(isBoundedFormat)) return undefined;
  if (!checks.some(isFreeText)) {
    const problem = patternFault(checks);
    if (problem !== undefined) return problem;
  }
  const maximum = maximumOf(checks);
  return maximum === undefined ? "must have a maximum length: write .max(n)" : lengthFault(maximum, checks);
}

function lengthFault(maximum: number, checks: readonly Check[]): string | undefined {
  if (maximum * UTF8_BYTES_MAX <= ARGUMENT_BYTES_MAX) return undefined;
  if (maximum <= ARGUMENT_BYTES_MAX && checks.some(isAscii)) return undefined;
  const most = Math.floor(ARGUMENT_BYTES_MAX / UTF8_BYTES_MAX);
  return `may be longer than one argument of a command can, ${ARGUMENT_BYTES_MAX} bytes: write .max(${most}) at most, or .max(${ARGUMENT_BYTES_MAX}) where the pattern takes ASCII alone`;
}

function isAscii(check: Check): boolean {
  const pattern = soundPattern(check);
  return pattern !== undefined && leadingDashFault(pattern) === undefined && matchesOnlyAscii(pattern);
}

function soundPattern(check: Check): RegExp | undefined {
  const { check: kind, format, pattern, when } = defOf(check);
  return kind === "string_format" && format === "regex" && when === undefined ? pattern : undefined;
}

/** Returns why `-` may come first; `undefined` when one pattern prevents that. */
function patternFault(checks: readonly Check[]): string | undefined {
  const faults: string[] = [];
  for (const pattern of checks.map(soundPattern)) {
    if (pattern === undefined) continue;
    const fault = leadingDashFault(pattern);
    if (fault === undefined) return undefined;
    faults.push(`has the pattern ${pattern}, which ${fault}`);
  }
  return faults[0] ?? `is not bounded: ${REMEDY}`;
}

function isBoundedFormat(check: Check): boolean {
  const { check: kind, format = "", pattern, ...options } = defOf(check);
  const known = kind === "string_format" ? BOUNDED_FORMATS.get(format) : undefined;
  // A format of the same name may have been given a different pattern.
  return known !== undefined && known(options as FormatOptions).source === pattern?.source;
}

const ASCII = 0x80;
const UNIT_LAST = 0xffff;
const CODE_POINT_LAST = 0x10ffff;

/** Returns whether a pattern matches ASCII characters only. Tests every character that exists: use it for rare cases only. */
function matchesOnlyAscii(pattern: RegExp): boolean {
  const last = /[uv]/.test(pattern.flags) ? CODE_POINT_LAST : UNIT_LAST;
  const kinds = new Map(charactersOf(parsePattern(pattern)).map((node) => [`${node.flags} ${node.source}`, node]));
  return [...kinds.values()].every(({ source, flags }) => {
    const test = characterTest(source, flags);
    for (let code = ASCII; code <= last; code += 1) if (test(code)) return false;
    return true;
  });
}

type Character = Extract<PatternNode, { readonly kind: "character" }>;

function charactersOf(node: PatternNode): readonly Character[] {
  if (node.kind === "character") return [node];
  if (node.kind === "sequence") return node.parts.flatMap(charactersOf);
  if (node.kind === "choice") return node.options.flatMap(charactersOf);
  // A lookahead accepts nothing that the rest of the pattern rejects.
  return node.kind === "repeat" || node.kind === "group" ? charactersOf(node.body) : [];
}
