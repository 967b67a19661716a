import type { z } from "zod";
import { isList, isTable } from "../json.ts";
import type { Json } from "../types.ts";
import { defOf, lazySchema, type Schema } from "./walk.ts";

type Table = Readonly<Record<string, Json>>;

/** Returns a value without the nulls that mean "absent"; the value itself when it has none. */
export type NullReader = (value: Json) => Json;

/** Readers of schemas that are more than their Zod schema shows: those of JSON Schemas. */
const otherReaders = new WeakMap<Schema, NullReader>();

export function readNullsWith(schema: Schema, reader: NullReader): void {
  otherReaders.set(schema, reader);
}

const STEPS_MAX = 200_000;

/** Limits the time of one reading, in visited values: a form of a union may be tried on the same value again and again. */
export class NullReading {
  #steps = STEPS_MAX;

  /** @throws {RangeError} when the reading takes too long */
  visit(): void {
    this.#steps -= 1;
    if (this.#steps < 0) throw new RangeError("the arguments take too many steps");
  }

  visitAll(value: Json): void {
    this.visit();
    if (typeof value !== "object" || value === null) return;
    for (const inner of isList(value) ? value : Object.values(value)) this.visitAll(inner);
  }
}

/**
 * Returns the arguments without the members that are null, optional, and declared with a schema that does not accept null: LLM
 * APIs in strict mode send null for every optional argument without a value. Everything else stays: the null of a required
 * member, of a record's value, and of whatever the schema does not describe.
 *
 * @returns the arguments themselves when there is no such null, and when there is too much to read
 */
export function withoutAbsentNulls(schema: Schema, args: Json): Json {
  if (!hasNull(args)) return args;
  try {
    return otherReaders.get(schema)?.(args) ?? read(schema, args, new NullReading());
  } catch (error) {
    if (error instanceof RangeError) return args;
    throw error;
  }
}

function hasNull(value: Json): boolean {
  if (value === null) return true;
  if (typeof value !== "object") return false;
  return (isList(value) ? value : Object.values(value)).some(hasNull);
}

function read(schema: Schema, value: Json, reading: NullReading): Json {
  if (typeof value !== "object" || value === null) return value;
  reading.visit();
  const def = defOf(schema);
  switch (def.type) {
    case "optional":
    case "nullable":
    case "nonoptional":
    case "default":
    case "prefault":
    case "readonly":
      return read(def.innerType, value, reading);
    case "lazy":
      return read(lazySchema(schema), value, reading);
    case "pipe":
      return read(def.in, value, reading);
    case "intersection":
      return read(def.right, read(def.left, value, reading), reading);
    case "union":
      return readForm(def.options, value, reading);
    case "object":
      return readObject(def, value, reading);
    case "record":
      return withMembers(value, (_, inner) => read(def.valueType, inner, reading));
    case "array":
      return withElements(value, (inner) => read(def.element, inner, reading));
    case "tuple":
      return withElements(value, (inner, at) => {
        const element = def.items[at] ?? def.rest;
        return element === null ? inner : read(element, inner, reading);
      });
    default:
      return value;
  }
}

/** Reads a value as the first form of a union that takes it. */
function readForm(options: readonly Schema[], value: Json, reading: NullReading): Json {
  for (const option of options) {
    const form = read(option, value, reading);
    reading.visitAll(form);
    if (takes(option, form)) return form;
  }
  return value;
}

function readObject({ shape, catchall }: z.core.$ZodObjectDef, value: Json, reading: NullReading): Json {
  return withMembers(value, (name, inner) => {
    const member = Object.hasOwn(shape, name) ? shape[name] : undefined;
    if (member === undefined) return catchall === undefined ? inner : read(catchall, inner, reading);
    if (inner === null) return member._zod.optin === undefined || takes(member, null) ? inner : undefined;
    return read(member, inner, reading);
  });
}

/** Returns whether a schema accepts a value. One that throws does not. */
function takes(schema: Schema, value: Json): boolean {
  try {
    const result = schema._zod.run({ value, issues: [] }, { async: false });
    return !(result instanceof Promise) && result.issues.length === 0;
  } catch {
    return false;
  }
}

/** Returns an object with its members changed, and without those of which `change` returns undefined. */
export function withMembers(value: Json, change: (name: string, inner: Json) => Json | undefined): Json {
  if (!isTable(value)) return value;
  let changed: Record<string, Json> | undefined;
  for (const [name, inner] of Object.entries(value as Table)) {
    const read = change(name, inner);
    if (read === inner) continue;
    changed ??= { ...(value as Table) };
    if (read === undefined) delete changed[name];
    else changed[name] = read;
  }
  return changed ?? value;
}

export function withElements(value: Json, change: (inner: Json, at: number) => Json): Json {
  if (!isList(value)) return value;
  const list = value.map(change);
  return list.some((inner, at) => inner !== value[at]) ? list : value;
}
