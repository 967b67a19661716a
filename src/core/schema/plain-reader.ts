import type { z } from "zod";
import { isList } from "../json.ts";
import type { Json } from "../types.ts";
import { defOf, type Schema } from "./walk.ts";

/** Returned when Zod must parse the value: it may refuse the value, and then reports the reason. */
export const unread = Symbol("unread");

export type PlainRead = (value: Json) => Json | typeof unread;

/** Readers by schema, because a schema may occur in many positions. Undefined while a reader is being created. */
type Readers = Map<Schema, PlainRead | undefined>;

interface Field {
  readonly key: string;
  readonly read: PlainRead;
  readonly isOptional: boolean;
}

const CONTEXT = Object.freeze({ async: false });

/** Checks that only inspect the value. All others run code of the manifest, or change the value. */
const INSPECTING_CHECKS: ReadonlySet<string> = new Set([
  "string_format",
  "number_format",
  "min_length",
  "max_length",
  "length_equals",
  "less_than",
  "greater_than",
  "multiple_of",
]);

/**
 * Returns a reader for schemas that only inspect plain JSON: objects, lists, scalars and enums. It returns the same
 * result as Zod, without the two lists and the record that Zod creates for every value. Returns `undefined` for all
 * other schemas.
 */
export function plainReader(schema: Schema): PlainRead | undefined {
  return readerOf(schema, new Map());
}

function readerOf(schema: Schema, readers: Readers): PlainRead | undefined {
  if (readers.has(schema)) return readers.get(schema);
  // A schema that contains itself has no plain reader, and neither has a schema that contains it.
  readers.set(schema, undefined);
  const read = makeReader(schema, readers);
  readers.set(schema, read);
  return read;
}

function makeReader(schema: Schema, readers: Readers): PlainRead | undefined {
  const def = defOf(schema);
  if ("coerce" in def && def.coerce === true) return undefined;
  const isChecked = schema._zod.run !== schema._zod.parse;
  if (isChecked && def.type !== "array") {
    return def.type === "string" || def.type === "number" ? checkedReader(schema) : undefined;
  }
  switch (def.type) {
    case "string":
      return (value) => (typeof value === "string" ? value : unread);
    case "number":
      return (value) => (Number.isFinite(value) ? value : unread);
    case "boolean":
      return (value) => (typeof value === "boolean" ? value : unread);
    case "enum":
    case "literal":
      return choiceReader(schema);
    case "nullable":
      return nullableReader(readerOf(def.innerType, readers));
    case "array":
      return listReader(readerOf(def.element, readers), lengthsOf(def.checks ?? []));
    case "object":
      return def.catchall === undefined || defOf(def.catchall).type === "never"
        ? objectReader(fieldsOf(def.shape, readers), def.catchall !== undefined)
        : undefined;
    default:
      return undefined;
  }
}

function choiceReader(schema: Schema): PlainRead | undefined {
  const { values } = schema._zod;
  return values && ((value) => (values.has(value as string) ? value : unread));
}

function checkedReader(schema: Schema): PlainRead | undefined {
  const { checks = [] } = defOf(schema);
  const all = [defOf(schema), ...checks.map((check) => check._zod.def)];
  if (all.some((def) => "fn" in def || ("check" in def && !INSPECTING_CHECKS.has(String(def.check))))) return undefined;
  // As it is now: a schema made from a JSON Schema replaces its `run` by one that uses this reader.
  const { run } = schema._zod;
  return (value) => {
    const read = run({ value, issues: [] }, CONTEXT);
    return read instanceof Promise || read.issues.length > 0 ? unread : (read.value as Json);
  };
}

function nullableReader(read: PlainRead | undefined): PlainRead | undefined {
  return read && ((value) => (value === null ? null : read(value)));
}

interface Lengths {
  readonly min: number;
  readonly max: number;
}

/** Returns the length limits of a list; `undefined` when it has any other check. */
function lengthsOf(checks: readonly z.core.$ZodCheck<never>[]): Lengths | undefined {
  let min = 0;
  let max = Number.POSITIVE_INFINITY;
  for (const check of checks) {
    const def = check._zod.def as z.core.$ZodChecks["_zod"]["def"];
    if (def.check === "max_length") max = Math.min(max, def.maximum);
    else if (def.check === "min_length") min = Math.max(min, def.minimum);
    else return undefined;
  }
  return { min, max };
}

function listReader(read: PlainRead | undefined, lengths: Lengths | undefined): PlainRead | undefined {
  if (read === undefined || lengths === undefined) return undefined;
  const { min, max } = lengths;
  return (value) => {
    if (typeof value !== "object" || value === null || !isList(value)) return unread;
    if (value.length < min || value.length > max) return unread;
    const list: Json[] = [];
    for (let index = 0; index < value.length; index += 1) {
      const item = read(value[index] as Json);
      if (item === unread) return unread;
      list.push(item);
    }
    return list;
  };
}

/** Returns the readers of all fields; `undefined` when one has no plain reader or a name that objects inherit. */
function fieldsOf(shape: Readonly<Record<string, Schema>>, readers: Readers): readonly Field[] | undefined {
  const fields: Field[] = [];
  if (Object.getOwnPropertySymbols(shape).length > 0) return undefined;
  for (const [key, declared] of Object.entries(shape)) {
    const def = defOf(declared);
    const isOptional = def.type === "optional" && declared._zod.run === declared._zod.parse;
    const read = readerOf(isOptional ? def.innerType : declared, readers);
    if (read === undefined || key in Object.prototype) return undefined;
    fields.push({ key, read, isOptional });
  }
  return fields;
}

function objectReader(fields: readonly Field[] | undefined, isStrict: boolean): PlainRead | undefined {
  if (fields === undefined) return undefined;
  return (value) => {
    if (typeof value !== "object" || value === null || isList(value)) return unread;
    const read: Record<string, Json> = {};
    let present = 0;
    for (let index = 0; index < fields.length; index += 1) {
      const field = fields[index] as Field;
      const given = value[field.key];
      if (given === undefined) {
        if (field.isOptional) continue;
        return unread;
      }
      const inner = field.read(given);
      if (inner === unread) return unread;
      read[field.key] = inner;
      present += 1;
    }
    return isStrict && Object.keys(value).length !== present ? unread : read;
  };
}
