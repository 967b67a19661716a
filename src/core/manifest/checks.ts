import type { z } from "zod";
import type { Fault } from "../errors.ts";
import { isTable } from "../json.ts";
import { hint } from "../nearest.ts";

/** A manifest before anything about it is believed: TypeScript's word does not reach hand-written JavaScript. */
export type Unread = Readonly<Record<string, unknown>>;

export function unless(sound: boolean, field: string, message: string): readonly Fault[] {
  return sound ? [] : [{ field, message }];
}

export function unknownKeys(field: string, value: Unread, known: readonly string[]): readonly Fault[] {
  return Object.keys(value)
    .filter((key) => !known.includes(key))
    .map((key) => ({ field: `${field}.${key}`, message: `is not known here${hint(key, known)}` }));
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

/** By shape, not by `instanceof`: a manifest may carry its own copy of zod. */
export function isSchema(value: unknown): value is z.ZodType {
  return isTable(value) && isTable(value["_zod"]) && typeof (value as unknown as z.ZodType).safeParse === "function";
}

/**
 * A function whose answer is taken at once. One that is `async` would answer with a promise: never the plain value that is
 * asked for, and the end of the process when it is rejected, since nobody waits for it.
 */
export function isSynchronous(value: unknown): boolean {
  return typeof value === "function" && !/^Async/.test(value.constructor.name);
}
