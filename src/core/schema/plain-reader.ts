import type { z } from "zod";
import { isList } from "../json.ts";
import type { Json } from "../types.ts";
import { defOf, type Schema } from "./walk.ts";

/** Returned when Zod must parse the value: it may refuse the value, and then reports the reason. */
export const unread = Symbol("unread");

export type PlainRead = (value: Json) => Json | typeof unread;

/** The creation of a reader and of the readers inside it. */
interface Building {
  /** By schema, because a schema may occur in many positions. Undefined while a reader is being created. */
  readonly readers: Map<Schema, PlainRead | undefined>;
  readonly isChecked: boolean;
}

interface Field {
  readonly key: string;
  readonly read: PlainRead;
  readonly isOptional: boolean;
}

const CONTEXT = Object.freeze({ async: false });

/** Types whose checks a reader knows. */
const CHECKABLE: ReadonlySet<string> = new Set(["string", "number", "array"]);

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
 * Returns a reader for schemas that only inspect plain JSON: objects, records, lists, unions, scalars, enums and unknown values.
 * It returns the same result as Zod, without the two lists and the record that Zod creates for every value. Returns `undefined`
 * for all other schemas. `isChecked`: something else decides about the values, so the checks of strings, numbers and lists are
 * left out.
 */
export function plainReader(schema: Schema, { isChecked = false } = {}): PlainRead | undefined {
  return readerOf(schema, { readers: new Map(), isChecked });
}

function readerOf(schema: Schema, building: Building): PlainRead | undefined {
  const { readers } = building;
  if (readers.has(schema)) return readers.get(schema);
  // A schema that contains itself has no plain reader, and neither has a schema that contains it.
  readers.set(schema, undefined);
  const read = makeReader(schema, building);
  readers.set(schema, read);
  return read;
}

function makeReader(schema: Schema, building: Building): PlainRead | undefined {
  const def = defOf(schema);
  if ("coerce" in def && def.coerce === true) return undefined;
  const isBare = schema._zod.run === schema._zod.parse;
  if (!isBare && !(CHECKABLE.has(def.type) && onlyInspects(schema))) return undefined;
  const readsChecks = !isBare && !building.isChecked;
  switch (def.type) {
    case "string":
      return readsChecks ? checkedReader(schema) : (value) => (typeof value === "string" ? value : unread);
    case "number":
      return readsChecks ? checkedReader(schema) : (value) => (Number.isFinite(value) ? value : unread);
    case "boolean":
      return (value) => (typeof value === "boolean" ? value : unread);
    case "null":
      return (value) => (value === null ? value : unread);
    case "unknown":
    case "any":
      return (value) => (value === undefined ? unread : value);
    case "enum":
    case "literal":
      return choiceReader(schema);
    case "nullable":
      return nullableReader(readerOf(def.innerType, building));
    case "union":
      return "discriminator" in def || def.inclusive === false ? undefined : unionReader(def.options, building);
    case "array":
      return listReader(readerOf(def.element, building), lengthsOf(readsChecks ? (def.checks ?? []) : []));
    case "record":
      return def.mode !== "loose" && isAnyString(def.keyType) ? recordReader(def.valueType, building) : undefined;
    case "object":
      return objectReader(def, building);
    default:
      return undefined;
  }
}

/** Returns whether a schema has checks, and all of them are known. A schema without any may have another `run`. */
function onlyInspects(schema: Schema): boolean {
  const { checks = [] } = defOf(schema);
  const all = [defOf(schema), ...checks.map((check) => check._zod.def)].filter((def) => "check" in def || "fn" in def);
  return all.length > 0 && all.every((def) => "check" in def && !("fn" in def) && INSPECTING_CHECKS.has(def.check));
}

function isAnyString(schema: Schema): boolean {
  const def = defOf(schema);
  return def.type === "string" && !def.coerce && schema._zod.run === schema._zod.parse;
}

function choiceReader(schema: Schema): PlainRead | undefined {
  const { values } = schema._zod;
  return values && ((value) => (values.has(value as string) ? value : unread));
}

function checkedReader(schema: Schema): PlainRead {
  const { run } = schema._zod;
  return (value) => {
    const read = run({ value, issues: [] }, CONTEXT);
    return read instanceof Promise || read.issues.length > 0 ? unread : (read.value as Json);
  };
}

function nullableReader(read: PlainRead | undefined): PlainRead | undefined {
  return read && ((value) => (value === null ? null : read(value)));
}

/** Reads a value as the first option that takes it. */
function unionReader(options: readonly Schema[], building: Building): PlainRead | undefined {
  const readers: PlainRead[] = [];
  for (const option of options) {
    const reader = readerOf(option, building);
    if (reader === undefined) return undefined;
    readers.push(reader);
  }
  return (value) => {
    for (const reader of readers) {
      const read = reader(value);
      if (read !== unread) return read;
    }
    return unread;
  };
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

function objectReader({ shape, catchall }: z.core.$ZodObjectDef, building: Building): PlainRead | undefined {
  const fields = fieldsOf(shape, building);
  if (fields === undefined) return undefined;
  if (catchall === undefined) return tableReader(fields, undefined);
  const other = defOf(catchall).type === "never" ? refused : readerOf(catchall, building);
  return other && tableReader(fields, other);
}

function recordReader(valueType: Schema, building: Building): PlainRead | undefined {
  const read = readerOf(valueType, building);
  return read && tableReader([], read);
}

/** Returns the readers of all fields; `undefined` when one has no plain reader or a name that objects inherit. */
function fieldsOf(shape: Readonly<Record<string, Schema>>, building: Building): readonly Field[] | undefined {
  const fields: Field[] = [];
  if (Object.getOwnPropertySymbols(shape).length > 0) return undefined;
  for (const [key, declared] of Object.entries(shape)) {
    const def = defOf(declared);
    const isOptional = def.type === "optional" && declared._zod.run === declared._zod.parse;
    const read = readerOf(isOptional ? def.innerType : declared, building);
    if (read === undefined || key in Object.prototype) return undefined;
    fields.push({ key, read, isOptional });
  }
  return fields;
}

/** Reads an object. `other` reads its other fields, whatever their names; undefined: they are left out. */
function tableReader(fields: readonly Field[], other: PlainRead | undefined): PlainRead {
  const names = new Set(fields.map(({ key }) => key));
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
    if (other === undefined) return read;
    const keys = Object.keys(value);
    if (keys.length === present) return read;
    if (other === refused || Object.getPrototypeOf(value) !== Object.prototype) return unread;
    for (const key of keys) {
      // Zod leaves out `__proto__`, too.
      if (names.has(key) || key === "__proto__") continue;
      const inner = other(value[key] as Json);
      if (inner === unread) return unread;
      read[key] = inner;
    }
    return read;
  };
}

/** Reads the other fields of an object that must not have any. */
const refused: PlainRead = () => unread;
