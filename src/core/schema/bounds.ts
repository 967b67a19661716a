import { z } from "zod";
import type { Fault } from "../errors.ts";
import { joinPath } from "../output-policy/field-path.ts";
import { childrenOf, type PatternNode, parsePattern, UnfitPattern } from "../pattern/parse.ts";
import { characterTest } from "../pattern/program.ts";
import { boundedFormatsOf, type CheckDef, checksOf, maximumOf, writtenPattern } from "./text-checks.ts";
import { defOf, innerSchemas, type Schema } from "./walk.ts";

/** Maximum bytes of one command argument: Linux accepts 131,072 including the terminating NUL. */
export const ARGUMENT_BYTES_MAX = 131_071;
/** Maximum bytes of one code point, the unit in which string lengths are limited. */
const UTF8_BYTES_MAX = 4;

/** Marks the check that `freeText` adds. Copies of the schema keep the mark. */
const FREE_TEXT = Symbol.for("safe-tool-call.free-text");

const REMEDY =
  "write an enum, a bounded format such as z.uuid(), z.string().max(n).regex(/^[A-Za-z0-9]…$/) whose first element cannot be -, or freeText(n)";

const REWRITTEN =
  "must not be rewritten after it was checked: put .trim() and the like first, and write .refine() instead of .check() or .superRefine()";

interface MarkedCheck extends CheckDef {
  readonly [FREE_TEXT]?: boolean;
}

function isFreeText(check: MarkedCheck): boolean {
  return check[FREE_TEXT] === true;
}

/** Returns whether a check only rejects. `.check(fn)`, `.superRefine(fn)` and the URL format may change the value. */
function keepsValue({ check, fn, format }: CheckDef): boolean {
  if (check === "custom") return fn !== undefined;
  return check !== "overwrite" && format !== "url";
}

/** Returns why these checks do not limit a string; `undefined` when they do. */
function stringFault(checks: readonly CheckDef[]): string | undefined {
  if (boundedFormatsOf(checks).length > 0) return undefined;
  if (!checks.some(isFreeText)) {
    const problem = patternFault(checks);
    if (problem !== undefined) return problem;
  }
  const maximum = maximumOf(checks);
  return maximum === undefined ? "must have a maximum length: write .max(n)" : lengthFault(maximum, checks);
}

function lengthFault(maximum: number, checks: readonly CheckDef[]): string | undefined {
  if (maximum * UTF8_BYTES_MAX <= ARGUMENT_BYTES_MAX) return undefined;
  if (maximum <= ARGUMENT_BYTES_MAX && checks.some(isAscii)) return undefined;
  const most = Math.floor(ARGUMENT_BYTES_MAX / UTF8_BYTES_MAX);
  return `may be longer than one argument of a command can, ${ARGUMENT_BYTES_MAX} bytes: write .max(${most}) at most, or .max(${ARGUMENT_BYTES_MAX}) if the pattern accepts only ASCII`;
}

function isAscii(check: CheckDef): boolean {
  const pattern = writtenPattern(check);
  return pattern !== undefined && leadingDashFault(pattern) === undefined && matchesOnlyAscii(pattern);
}

/** Returns why the string may begin with `-`; `undefined` when a pattern prevents that. */
function patternFault(checks: readonly CheckDef[]): string | undefined {
  const faults: string[] = [];
  for (const pattern of checks.map(writtenPattern)) {
    if (pattern === undefined) continue;
    const fault = leadingDashFault(pattern);
    if (fault === undefined) return undefined;
    faults.push(`has the pattern ${pattern}, which ${fault}`);
  }
  return faults[0] ?? `is not bounded: ${REMEDY}`;
}

const NOT_PLAIN = "must begin with ^ and then one character or class, not a group, a lookahead or `.`";
const DASH = 0x2d;

/**
 * Returns why a pattern does not keep `-` from the front of a string, or does not match the whole string; `undefined` when it
 * does both. Accepts only patterns that begin with `^` and then a character, an escape or a class that cannot be `-` and must
 * occur.
 */
export function leadingDashFault(pattern: RegExp): string | undefined {
  const { source, flags } = pattern;
  if (/[gy]/.test(flags)) return "must not have the flag g or y: its result would depend on earlier ones";
  if (flags.includes("m")) return "must not have the flag m: ^ and $ would match at every line";
  if (!source.startsWith("^")) return "must begin with ^";
  const tree = treeOf(pattern);
  if (tree === undefined) return NOT_PLAIN;
  if (tree.kind === "choice") return "must not have a | outside of a group: ^ would bind only the first choice";
  const parts = tree.kind === "sequence" ? tree.parts : [tree];
  if (parts.at(-1)?.kind !== "end") return "must end with $";
  const [, second] = parts;
  const element = second?.kind === "repeat" ? second.body : second;
  // Digits after a backslash look like a back reference.
  if (element?.kind !== "character" || /^\^(?:[(.]|\\\d)/.test(source)) return NOT_PLAIN;
  if (second?.kind === "repeat" && second.min === 0) return "must not let its first element be absent (?, * or {0,})";
  return characterTest(element.source, element.flags)(DASH) ? "must not let the text begin with -" : undefined;
}

function treeOf(pattern: RegExp): PatternNode | undefined {
  try {
    return parsePattern(pattern);
  } catch (error) {
    if (error instanceof UnfitPattern) return undefined;
    throw error;
  }
}

const ASCII = 0x80;
const UNIT_LAST = 0xffff;
const CODE_POINT_LAST = 0x10ffff;

/** Returns whether a pattern matches only ASCII characters. Slow: tests every character that exists. */
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
  // A lookaround adds no characters to the match.
  return node.kind === "look" ? [] : childrenOf(node).flatMap(charactersOf);
}

const VISITS_MAX = 10_000;

/**
 * Returns a string schema for values that cannot have a pattern, such as a search phrase: any text except NUL and lone
 * surrogates. An argv may contain it only after `--` or as the value of a declared option. `max` counts code points.
 */
export function freeText(max: number): z.ZodString {
  if (!Number.isSafeInteger(max) || max < 1) throw new RangeError("freeText needs a maximum of at least 1 character");
  const text = z.refine<string>((value) => value.isWellFormed() && !value.includes("\0"), {
    error: "must not contain NUL or lone surrogates",
  });
  Object.assign(text._zod.def, { [FREE_TEXT]: true });
  return z.string().max(max).check(text);
}

/**
 * Returns an error for each position where a command tool's input accepts a string that has no limit or may begin with
 * `-`. Fields are paths as in output policies, `""` for the whole input.
 *
 * @throws {RangeError} for a schema that never ends
 */
export function unboundedStrings(input: z.ZodType): readonly Fault[] {
  return findingsOf(input).filter((finding) => "message" in finding);
}

/** Returns the paths at which the input holds declared free text: keys, `[]` for array elements, `*` for values of a record. */
export function freeTextFields(input: z.ZodType): readonly string[] {
  const fields = findingsOf(input).flatMap((finding) => ("freeText" in finding ? [finding.freeText] : []));
  return [...new Set(fields)];
}

type Findings = readonly (Fault | { readonly freeText: string })[];

interface Walk {
  /** The schemas from the top down to the one being visited. */
  readonly ancestors: Set<Schema>;
  visits: number;
}

function findingsOf(input: z.ZodType): Findings {
  return visit({ ancestors: new Set(), visits: 0 }, input, "");
}

const HARMLESS: ReadonlySet<string> = new Set(
  ["enum", "literal", "boolean", "number", "int", "null", "undefined", "void", "never"], //
);

function visit(walk: Walk, schema: Schema, path: string): Findings {
  walk.visits += 1;
  if (walk.visits > VISITS_MAX) throw new RangeError(`the schema has more than ${VISITS_MAX} parts`);
  const def = defOf(schema);
  if (def.type === "string") return visitString(schema, path);
  const rewritten = !checksOf(schema).every(keepsValue) ? fault(path, REWRITTEN) : [];
  if (HARMLESS.has(def.type) || walk.ancestors.has(schema)) return rewritten;
  walk.ancestors.add(schema);
  const parts = visitParts(walk, schema, path);
  walk.ancestors.delete(schema);
  return [...rewritten, ...parts];
}

function visitParts(walk: Walk, schema: Schema, path: string): Findings {
  const def = defOf(schema);
  switch (def.type) {
    case "object":
      return visitObject(walk, def, path);
    case "record":
      return visitRecord(walk, def, path);
    case "array":
      return [...arrayFault(schema, path), ...visit(walk, def.element, joinPath(path, "[]"))];
    case "tuple":
      return visitTuple(walk, def, path);
    case "pipe":
      return visitPipe(walk, def, path);
    default: {
      const inner = def.type === "promise" ? undefined : innerSchemas(schema, "out");
      if (inner !== undefined) return inner.flatMap((part) => visit(walk, part, path));
      return fault(path, `must not be ${def.type}, whose values have no limit: ${REMEDY}`);
    }
  }
}

function visitObject(walk: Walk, def: z.core.$ZodObjectDef, path: string): Findings {
  const isOpen = def.catchall !== undefined && defOf(def.catchall).type !== "never";
  const loose = isOpen ? fault(path, "must not take keys that it does not name: write z.object or z.strictObject") : [];
  return [...loose, ...Object.entries(def.shape).flatMap(([key, value]) => visit(walk, value, joinPath(path, key)))];
}

function visitRecord(walk: Walk, def: z.core.$ZodRecordDef, path: string): Findings {
  const below = joinPath(path, "*");
  const loose = def.mode === "loose" ? fault(path, "must not be a loose record: write z.record") : [];
  return [...loose, ...visit(walk, def.keyType, below), ...visit(walk, def.valueType, below)];
}

function arrayFault(schema: Schema, path: string): Findings {
  if (maximumOf(checksOf(schema)) !== undefined) return [];
  return fault(path, "must have a maximum number of elements: write .max(n)");
}

function visitTuple(walk: Walk, def: z.core.$ZodTupleDef, path: string): Findings {
  const rest = def.rest === null ? [] : fault(path, "must not have a rest: write z.array(…).max(n)");
  return [...rest, ...def.items.flatMap((item) => visit(walk, item, joinPath(path, "[]")))];
}

function visitPipe(walk: Walk, def: z.core.$ZodPipeDef, path: string): Findings {
  const transforms = [def.in, def.out].some((side) => defOf(side).type === "transform") || "reverseTransform" in def;
  if (!transforms) return visit(walk, def.out, path);
  return fault(path, `must not be transformed or preprocessed, because the result has no limit: ${REMEDY}`);
}

function visitString(schema: Schema, path: string): Findings {
  const def = defOf(schema) as z.core.$ZodStringDef;
  if (def.coerce) return fault(path, "must not be coerced: write z.string()");
  const checks = checksOf(schema);
  const settled = checks.slice(checks.findLastIndex((check) => !keepsValue(check)) + 1);
  const problem = stringFault(settled);
  if (problem === undefined) return settled.some(isFreeText) ? [{ freeText: path }] : [];
  return fault(path, stringFault(checks) === undefined ? REWRITTEN : problem);
}

function fault(field: string, message: string): Findings {
  return [{ field, message }];
}
