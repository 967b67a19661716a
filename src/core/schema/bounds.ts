import { z } from "zod";
import type { Fault } from "../errors.ts";
import { joinPath } from "../policy/field-path.ts";
import {
  type Check,
  FREE_TEXT,
  isFreeText,
  keepsValue,
  maximumOf,
  REMEDY,
  REWRITTEN,
  stringFault,
} from "./string-bounds.ts";
import type { Schema } from "./walk.ts";
import { defOf, lazySchema } from "./walk.ts";

const VISITS_MAX = 10_000;

/**
 * Returns a string schema that accepts any text except NUL and lone surrogates, for values that cannot have a pattern: a search
 * phrase, a commit message. An argv may carry it only after `--` or as the value of `--name=`. `max` counts code points.
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
 * Returns the positions where a command tool's input accepts a string that is unbounded or may begin with `-`. Fields are paths
 * as in output policies, `""` for the whole input; every message says what to write.
 * @throws RangeError for a schema that never ends.
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
  readonly open: Set<Schema>;
  visits: number;
}

function findingsOf(input: z.ZodType): Findings {
  return visit({ open: new Set(), visits: 0 }, input, "");
}

const HARMLESS: ReadonlySet<string> = new Set(
  ["enum", "literal", "boolean", "number", "int", "null", "undefined", "void", "never"], //
);

function visit(walk: Walk, schema: Schema, path: string): Findings {
  walk.visits += 1;
  if (walk.visits > VISITS_MAX) throw new RangeError(`the schema has more than ${VISITS_MAX} parts`);
  const def = defOf(schema);
  if (def.type === "string") return visitString(schema, path);
  const rewritten = def.checks?.every(keepsValue) === false ? fault(path, REWRITTEN) : [];
  if (HARMLESS.has(def.type) || walk.open.has(schema)) return rewritten;
  walk.open.add(schema);
  const parts = visitParts(walk, schema, path);
  walk.open.delete(schema);
  return [...rewritten, ...parts];
}

function visitParts(walk: Walk, schema: Schema, path: string): Findings {
  const def = defOf(schema);
  switch (def.type) {
    case "optional":
    case "nullable":
    case "nonoptional":
    case "default":
    case "prefault":
    case "catch":
    case "readonly":
      return visit(walk, def.innerType, path);
    case "lazy":
      return visit(walk, lazySchema(schema), path);
    case "union":
      return def.options.flatMap((option) => visit(walk, option, path));
    case "intersection":
      return [...visit(walk, def.left, path), ...visit(walk, def.right, path)];
    case "object":
      return visitObject(walk, def, path);
    case "record":
      return visitRecord(walk, def, path);
    case "array":
      return [...arrayFault(def, path), ...visit(walk, def.element, joinPath(path, "[]"))];
    case "tuple":
      return visitTuple(walk, def, path);
    case "pipe":
      return visitPipe(walk, def, path);
    default:
      return fault(path, `must not be ${def.type}, whose values nothing bounds: ${REMEDY}`);
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

function arrayFault(def: z.core.$ZodArrayDef, path: string): Findings {
  if (maximumOf(def.checks ?? []) !== undefined) return [];
  return fault(path, "must have a maximum number of elements: write .max(n)");
}

function visitTuple(walk: Walk, def: z.core.$ZodTupleDef, path: string): Findings {
  const rest = def.rest === null ? [] : fault(path, "must not have a rest: write z.array(…).max(n)");
  return [...rest, ...def.items.flatMap((item) => visit(walk, item, joinPath(path, "[]")))];
}

function visitPipe(walk: Walk, def: z.core.$ZodPipeDef, path: string): Findings {
  const transforms = [def.in, def.out].some((side) => defOf(side).type === "transform") || "reverseTransform" in def;
  if (!transforms) return visit(walk, def.out, path);
  return fault(path, `must not be transformed or preprocessed, for nothing bounds the outcome: ${REMEDY}`);
}

function visitString(schema: Schema, path: string): Findings {
  const def = defOf(schema) as z.core.$ZodStringDef;
  if (def.coerce) return fault(path, "must not be coerced: write z.string()");
  // A format schema such as z.uuid() is its own first check.
  const own = schema._zod.traits.has("$ZodCheck") ? [schema as unknown as Check] : [];
  const checks = [...own, ...(def.checks ?? [])];
  const settled = checks.slice(checks.findLastIndex((check) => !keepsValue(check)) + 1);
  const problem = stringFault(settled);
  if (problem === undefined) return settled.some(isFreeText) ? [{ freeText: path }] : [];
  return fault(path, stringFault(checks) === undefined ? REWRITTEN : problem);
}

function fault(field: string, message: string): Findings {
  return [{ field, message }];
}
