import type { z } from "zod";
import type { Fault } from "../errors.ts";
import { isTable } from "../json.ts";
import { hint } from "../nearest.ts";
import { defOf, innerSchemas } from "../schema/walk.ts";

/** A manifest, or a table in it, before validation: TypeScript does not check hand-written JavaScript. */
export type Unchecked = Readonly<Record<string, unknown>>;

export function unless(sound: boolean, field: string, message: string): readonly Fault[] {
  return sound ? [] : [{ field, message }];
}

export function unknownKeys(field: string, value: Unchecked, known: readonly string[]): readonly Fault[] {
  return Object.keys(value)
    .filter((key) => !known.includes(key))
    .map((key) => ({ field: `${field}.${key}`, message: `is unknown${hint(key, known)}` }));
}

export function isText(value: unknown): value is string {
  return typeof value === "string";
}

type Test = (value: unknown) => boolean;
/** A key of a table in the manifest, the test of its value, and the message for a value that fails it. */
export type KeyCheck = readonly [key: string, isValid: Test, message: string];

/** Returns the errors in the values of a table. Keys that no check names are not errors. */
export function keyFaults(field: string, table: Unchecked, checks: readonly KeyCheck[]): readonly Fault[] {
  return checks.flatMap(([key, isValid, message]) =>
    unless(isValid(table[key]), field === "" ? key : `${field}.${key}`, message),
  );
}

export function optional(isValid: Test): Test {
  return (value) => value === undefined || isValid(value);
}

export function listOf(isValid: Test): Test {
  return (value) => Array.isArray(value) && value.every(isValid);
}

export function oneOf(names: readonly string[]): Test {
  return (value) => isText(value) && names.includes(value);
}

export function wholeNumber(max: number): Test {
  return (value) => typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= max;
}

export function isBoolean(value: unknown): value is boolean {
  return typeof value === "boolean";
}

export function isFunction(value: unknown): boolean {
  return typeof value === "function";
}

/** Returns whether a value is a Zod schema. Not `instanceof`: a manifest may have its own copy of zod. */
export function isSchema(value: unknown): value is z.ZodType {
  return isTable(value) && isTable(value["_zod"]) && typeof (value as unknown as z.ZodType).safeParse === "function";
}

/** Returns whether a value is a function but not `async`: nothing would handle a rejection of its promise. */
export function isSynchronous(value: unknown): boolean {
  return typeof value === "function" && !/^Async/.test(value.constructor.name);
}

/** Returns the errors in a part of a manifest that a schema describes. */
export function schemaFaults(field: string, schema: z.ZodObject, part: unknown): readonly Fault[] {
  return (schema.safeParse(part).error?.issues ?? []).flatMap((issue) => {
    const path = [field, ...issue.path.map(String)].join(".");
    if (issue.code !== "unrecognized_keys") return [{ field: path, message: issue.message }];
    const known = Object.keys(issue.path.reduce(shapeBelow, schema.shape));
    return issue.keys.map((key) => ({ field: `${path}.${key}`, message: `is unknown${hint(key, known)}` }));
  });
}

function shapeBelow(shape: z.core.$ZodShape, key: PropertyKey): z.core.$ZodShape {
  const schema = shape[String(key)];
  const [inner = schema] = (schema && innerSchemas(schema, "out")) ?? [];
  const def = inner && defOf(inner);
  return def?.type === "object" ? def.shape : {};
}
