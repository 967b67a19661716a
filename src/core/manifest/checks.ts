import type { z } from "zod";
import type { Fault } from "../errors.ts";
import { isTable } from "../json.ts";
import { hint } from "../nearest.ts";

/** A manifest before validation: TypeScript does not check hand-written JavaScript. */
export type Unread = Readonly<Record<string, unknown>>;

export function unless(sound: boolean, field: string, message: string): readonly Fault[] {
  return sound ? [] : [{ field, message }];
}

export function unknownKeys(field: string, value: Unread, known: readonly string[]): readonly Fault[] {
  return Object.keys(value)
    .filter((key) => !known.includes(key))
    .map((key) => ({ field: `${field}.${key}`, message: `is unknown${hint(key, known)}` }));
}

export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function isText(value: unknown): value is string {
  return typeof value === "string";
}

export function oneOf(names: readonly string[], value: unknown): boolean {
  return isText(value) && names.includes(value);
}

export function wholeNumber(value: unknown, max: number): boolean {
  return typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= max;
}

/** Returns whether a value is a Zod schema. Checks the shape, not `instanceof`: a manifest may carry its own copy of zod. */
export function isSchema(value: unknown): value is z.ZodType {
  return isTable(value) && isTable(value["_zod"]) && typeof (value as unknown as z.ZodType).safeParse === "function";
}

/**
 * Returns whether a value is a function that is not `async`. An async function would return a promise instead of the plain
 * value, and a rejection would end the process because nothing awaits it.
 */
export function isSynchronous(value: unknown): boolean {
  return typeof value === "function" && !/^Async/.test(value.constructor.name);
}
