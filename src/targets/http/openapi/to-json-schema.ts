import { isTable } from "../../../core/json.ts";
import { checkerOf } from "../../../core/json-schema/check.ts";
import { isVisible, keywordProblem, readJsonSchema } from "../../../core/json-schema/schema.ts";
import { FORMATS } from "../../../core/json-schema/text.ts";
import { isStatable, isStatableName } from "../../../core/json-schema/widening/widen.ts";
import type { Json } from "../../../core/types.ts";
import type { ApiDocument, Part } from "./document.ts";

/** A JSON Schema in the making, as manifests accept it. */
export type Written = boolean | WrittenTable;
export type WrittenTable = { readonly [keyword: string]: Json };

type Side = "input" | "output";
type Table = Readonly<Record<string, unknown>>;

const DEPTHS = [10, 8, 6, 5, 4, 3, 2, 1] as const;
const PARTS_MAX: Readonly<Record<Side, number>> = { input: 600, output: 600 };
const NAMES_MAX = 300;
const VALUES_MAX = 300;
const VALUE_CHARACTERS_MAX = 256;
const TEXT_CHARACTERS_MAX = 300;

const TYPES: readonly unknown[] = ["null", "boolean", "integer", "number", "string", "array", "object"];
const COUNTS = ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"] as const;
const NUMBERS = ["minimum", "maximum"] as const;
const COMBINATIONS = ["allOf", "anyOf", "oneOf"] as const;
/** Formats that answers often do not keep. */
const LOOSE_FORMATS: ReadonlySet<string> = new Set(["uri", "uri-reference", "hostname", "email", "duration", "time"]);

/**
 * Returns a schema of the document as a JSON Schema that manifests accept, with its references written out. Recursion, and what is
 * nested too deeply for the size that a reader can judge, becomes any JSON. Constraints that a manifest cannot state are left to the
 * service: the result accepts everything that the document allows and that can be sent. Of answers, only the form is kept.
 *
 * @throws {Error} for a reference that cannot be followed
 */
export function toJsonSchema(document: ApiDocument, part: Part, side: Side, leftOut?: LeftOut): Written {
  for (const depthMax of DEPTHS) {
    const writer = new Writer(document, side, depthMax);
    const written = writer.whole(part, { depth: 0, open: [] });
    if (writer.parts > PARTS_MAX[side]) continue;
    for (const format of writer.formats) leftOut?.formats.add(format);
    for (const value of writer.defaults) leftOut?.defaults.add(value);
    return written;
  }
  return {};
}

/** Parts of the document that the schemas of arguments leave out. */
export interface LeftOut {
  /** Formats that nothing checks. */
  readonly formats: Set<string>;
  /** Schemas whose own default does not fit them. */
  readonly defaults: Set<unknown>;
}

/** Returns whether a schema without references accepts a value. */
export function fits(schema: Written, value: unknown): boolean {
  const { schema: read, faults } = readJsonSchema("output", schema);
  return faults.length === 0 && checkerOf(read)(value).length === 0;
}

interface Position {
  readonly depth: number;
  /** The schemas that are being written out: finding one of them again means recursion. */
  readonly open: readonly unknown[];
}

class Writer {
  readonly #document: ApiDocument;
  readonly #side: Side;
  readonly #depthMax: number;
  parts = 0;
  readonly formats = new Set<string>();
  readonly defaults = new Set<unknown>();

  constructor(document: ApiDocument, side: Side, depthMax: number) {
    this.#document = document;
    this.#side = side;
    this.#depthMax = depthMax;
  }

  /** Writes the schema of a whole value, which other schemas do not describe as well. */
  whole(part: Part, at: Position): Written {
    const written = this.write(part, at);
    if (!isTable(written) || written["required"] === undefined) return written;
    const names = namesOf(written);
    const { required, ...others } = written;
    const known = (required as readonly string[]).filter((name) => names.has(name));
    return known.length === 0 ? others : { ...others, required: known };
  }

  write(part: Part, at: Position): Written {
    this.parts += 1;
    if (typeof part.value === "boolean") return part.value;
    if (!isTable(part.value) || this.parts > PARTS_MAX[this.#side]) return {};
    const { $ref: reference, ...others } = part.value;
    if (typeof reference !== "string") return this.#table(part.value, part.file, at);
    const found = this.#document.follow(part);
    const written = this.#table(isTable(found.value) ? found.value : {}, found.file, at);
    // In version 3.0 nothing else counts next to a reference.
    if (!this.#document.is31 || Object.keys(others).length === 0 || written === true) return written;
    const own = this.#table(others, part.file, at);
    return simplified({ allOf: [written as Json, own as Json] });
  }

  #table(declared: Table, file: string, { depth, open }: Position): Written {
    if (depth > this.#depthMax || open.includes(declared)) return {};
    const at: Position = { depth: depth + 1, open: [...open, declared] };
    const schema: Record<string, Json> = {
      ...this.#type(declared),
      ...this.#note(declared),
      ...this.#scalars(declared),
      ...this.#members(declared, file, at),
    };
    if (declared["items"] !== undefined && !Array.isArray(declared["items"])) {
      schema["items"] = this.whole({ value: declared["items"], file }, at) as Json;
    }
    if (Array.isArray(declared["prefixItems"]) && declared["prefixItems"].length > 0) {
      schema["prefixItems"] = declared["prefixItems"].map((value) => this.whole({ value, file }, at) as Json);
    }
    for (const keyword of COMBINATIONS) {
      const list = declared[keyword];
      if (!Array.isArray(list)) continue;
      // Parts that only say which members go together are left to the service.
      const members = list.filter(
        (value) => keyword === "allOf" || !isTable(value) || Object.keys(value).some((key) => !ONLY_NAMES.has(key)),
      );
      // The parts describe the same value: they are not a level of their own.
      const parts = members.map((value) => this.write({ value, file }, { depth, open: at.open }) as Json);
      const target = keyword === "allOf" ? "allOf" : "anyOf";
      if (parts.length > 0) schema[target] = [...((schema[target] as readonly Json[] | undefined) ?? []), ...parts];
    }
    const simple = simplified(schema);
    const isNullable = declared["nullable"] === true && !(isTable(simple) && "type" in simple);
    return isNullable && !isAny(simple) ? { anyOf: [simple as Json, { type: "null" }] } : simple;
  }

  #type({ type, nullable, properties, items, additionalProperties }: Table): WrittenTable {
    const isObject = isTable(properties) || isTable(additionalProperties);
    const implied = [...(isObject ? ["object"] : []), ...(!isObject && items !== undefined ? ["array"] : [])];
    const names = [...new Set([type ?? implied].flat())].filter((name) => TYPES.includes(name)) as string[];
    if (names.length === 0) return {};
    const all = nullable === true && !names.includes("null") ? [...names, "null"] : names;
    const [only, another] = all;
    return { type: another === undefined ? (only ?? "object") : all };
  }

  /** Agents read descriptions of arguments only. */
  #note(declared: Table): WrittenTable {
    const { description, default: fallback } = declared;
    if (this.#side === "output") return {};
    const isFitting = fallback === undefined || fits({ ...this.#type(declared), ...this.#scalars(declared) }, fallback);
    if (!isFitting) this.defaults.add(declared);
    if (typeof description !== "string") return {};
    const isShort =
      isFitting && ["string", "number", "boolean"].includes(typeof fallback) && String(fallback).length <= 60;
    return descriptionOf(`${description}${isShort ? ` Default: ${String(fallback)}` : ""}`);
  }

  #scalars(declared: Table): WrittenTable {
    const schema: Record<string, Json> = {};
    const { format, pattern, nullable } = declared;
    const isKept = typeof format === "string" && FORMATS.includes(format);
    if (isKept && !(this.#side === "output" && LOOSE_FORMATS.has(format))) schema["format"] = format;
    if (typeof format === "string" && !isKept && this.#side === "input") this.formats.add(format);
    if (isScalar(declared["const"])) schema["const"] = declared["const"];
    if (Array.isArray(declared["enum"])) {
      const values = [...new Set(declared["enum"])].filter(isScalar);
      const all = nullable === true && !values.includes(null) ? [...values, null] : values;
      const isWhole = values.length === new Set(declared["enum"]).size;
      if (isWhole && values.length > 0 && values.length <= VALUES_MAX) schema["enum"] = all;
    }
    if (this.#side === "output") return schema;
    if (typeof pattern === "string" && isVisible(pattern) && keywordProblem("pattern", pattern) === undefined)
      schema["pattern"] = pattern;
    for (const key of COUNTS) {
      const value = declared[key];
      if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) schema[key] = value;
    }
    for (const key of NUMBERS) {
      const value = declared[key];
      const exclusive = `exclusive${key.charAt(0).toUpperCase()}${key.slice(1)}`;
      const bound = declared[exclusive];
      if (isExact(bound)) schema[exclusive] = bound;
      if (isExact(value)) schema[bound === true ? exclusive : key] = value;
    }
    if (declared["uniqueItems"] === true) schema["uniqueItems"] = true;
    return schema;
  }

  #members(declared: Table, file: string, at: Position): WrittenTable {
    const { properties, additionalProperties: more, required } = declared;
    const hidden = this.#side === "input" ? "readOnly" : "writeOnly";
    const members = isTable(properties) ? Object.entries(properties) : [];
    const kept = members
      .filter(([name, value]) => isStatableName(name) && !(isTable(value) && value[hidden] === true))
      .slice(0, NAMES_MAX);
    const schema: Record<string, Json> = {};
    if (kept.length > 0 || isTable(properties)) {
      schema["properties"] = Object.fromEntries(
        kept.map(([name, value]) => [name, this.whole({ value, file }, at) as Json]),
      );
    }
    const names = new Set(kept.map(([name]) => name));
    const wanted = Array.isArray(required) ? [...new Set(required)].filter((name) => isStatableName(String(name))) : [];
    if (wanted.length > 0) schema["required"] = wanted;
    if (isTable(more)) {
      const other = this.whole({ value: more, file }, at);
      if (names.size === 0 || !isAny(other)) schema["additionalProperties"] = isAny(other) ? true : (other as Json);
    }
    const isObject = declared["type"] === "object" || isTable(properties);
    if (isObject && names.size === 0 && schema["additionalProperties"] === undefined) {
      const isCombined = COMBINATIONS.some((keyword) => Array.isArray(declared[keyword]));
      if (!isCombined) schema["additionalProperties"] = more !== false;
      if (!isCombined && Object.keys(schema["properties"] ?? {}).length === 0) delete schema["properties"];
    }
    return schema;
  }
}

const ONLY_NAMES: ReadonlySet<string> = new Set(["required", "title", "description"]);

/** Returns whether a schema accepts anything. */
export function isAny(schema: Written): boolean {
  return schema === true || (isTable(schema) && Object.keys(schema).every((key) => key === "description"));
}

/** Keywords of an object that can be merged with another's. */
const MERGEABLE: ReadonlySet<string> = new Set(["type", "properties", "required", "description"]);

/** Returns a schema with its `allOf` of plain objects written as one, and choices of one schema as that schema. */
function simplified(schema: Record<string, Json>): Written {
  const { allOf, anyOf, ...others } = schema;
  const all = listOf(allOf).filter((part) => !isAny(part));
  const some = listOf(anyOf);
  const choices = some.some(isAny) ? [] : distinct(some);
  const isPlain = (part: Written): part is WrittenTable =>
    isTable(part) &&
    (part["type"] === undefined || part["type"] === "object") &&
    Object.keys(part).every((key) => MERGEABLE.has(key));
  const [only, another] = all;
  const rest: Record<string, Json> = { ...others };
  if (choices.length > 1) rest["anyOf"] = choices as readonly Json[];
  if (choices.length === 1) all.push(...choices);
  if (all.length === 0) return rest;
  const isBare = Object.keys(rest).every((key) => key === "description");
  if (isBare && isTable(only) && another === undefined && all.length === 1) return { ...only, ...rest };
  const { anyOf: keptChoices, ...own } = rest;
  if (isPlain(own) && all.every(isPlain)) {
    const merged = [own, ...(all as readonly WrittenTable[])];
    const properties: Record<string, Json> = {};
    for (const part of merged) Object.assign(properties, part["properties"]);
    const required = [...new Set(merged.flatMap((part) => (part["required"] as readonly string[] | undefined) ?? []))];
    return {
      type: "object",
      ...(own["description"] !== undefined && { description: own["description"] }),
      properties,
      ...(required.length > 0 && { required }),
      ...(keptChoices !== undefined && { anyOf: keptChoices }),
    };
  }
  return { ...rest, allOf: all as readonly Json[] };
}

/** Returns the members that a schema or its parts name. */
function namesOf(schema: Written): ReadonlySet<string> {
  if (!isTable(schema)) return new Set();
  const { properties, allOf, anyOf } = schema as WrittenTable;
  const parts = [...listOf(allOf), ...listOf(anyOf)].flatMap((part) => [...namesOf(part)]);
  return new Set([...(isTable(properties) ? Object.keys(properties) : []), ...parts]);
}

function distinct(schemas: readonly Written[]): readonly Written[] {
  return [...new Map(schemas.map((schema) => [JSON.stringify(schema), schema])).values()];
}

function listOf(value: Json | undefined): Written[] {
  return Array.isArray(value) ? [...(value as readonly Written[])] : [];
}

function isExact(value: unknown): value is number {
  return typeof value === "number" && isStatable(value);
}

function isScalar(value: unknown): value is string | number | boolean | null {
  if (typeof value === "object" && value !== null) return false;
  return value !== undefined && isStatable(value) && String(value).length <= VALUE_CHARACTERS_MAX;
}

/** Returns a description for an argument: bounded, on one line, and without the characters that hide or reorder others. */
export function descriptionOf(text: string): WrittenTable {
  const line = text
    .slice(0, 4 * TEXT_CHARACTERS_MAX)
    .replace(/\s+/g, " ")
    .trim();
  const isLong = line.length > TEXT_CHARACTERS_MAX;
  const cut = isLong ? `${line.slice(0, TEXT_CHARACTERS_MAX - 1).toWellFormed()}…` : line;
  return cut === "" ? {} : { description: visible(cut) };
}

function visible(text: string): string {
  return text.replace(/[^\P{C}\n]|[\p{Zl}\p{Zp}]/gu, (character) => {
    const units = [...Array(character.length).keys()].map((at) => character.charCodeAt(at));
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
  });
}
