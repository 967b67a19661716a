import { isList, isTable } from "../json.ts";
import { visible } from "../terminal-text.ts";
import type { Json } from "../types.ts";
import { isKeyword, isMemberName, keywordProblem, memberPath, type SchemaSide } from "./schema.ts";
import { zodFromJson } from "./zod.ts";

/** A schema for a draft, with notes for the author on what it leaves out of the declared one. Notes repeat only plain names of it. */
export interface Widened {
  readonly schema: Json;
  readonly notes: readonly string[];
}

type Table = Readonly<Record<string, Json>>;

const DEPTHS = [16, 10, 8, 6, 5, 4, 3, 2, 1] as const;
/** Schemas in one draft, with references written out. */
const PARTS_MAX = 2_000;
const VALUES_MAX = 1_000;
const DESCRIPTION_CHARACTERS_MAX = 512;
const HOPS_MAX = 64;

/**
 * Returns a schema that manifests accept and that accepts what the declared one accepts, of any draft of JSON Schema: references
 * are written out, older keywords are written as today's, and what cannot be stated is left out, with a note.
 */
export function widened(side: SchemaSide, declared: Json): Widened {
  for (const depthMax of DEPTHS) {
    const losses = new Losses();
    const writer = new Writer({ top: declared, losses, side, depthMax });
    const schema = writer.whole(declared);
    if (writer.parts > PARTS_MAX) continue;
    const [fault] = zodFromJson(side, schema).faults;
    if (fault === undefined) return { schema, notes: losses.notes() };
    return {
      schema: named(side, declared),
      notes: [`${side}: only its names are kept, because a manifest cannot state it`],
    };
  }
  return {
    schema: named(side, declared),
    notes: [`${side}: only its names are kept, because it has more than ${PARTS_MAX} parts`],
  };
}

const NAMES_MAX = 4_000;

/** Returns a schema with nothing but the names of the members; for an answer, any object. */
function named(side: SchemaSide, declared: Json): Json {
  const { properties, required } = isTable(declared) ? (declared as Table) : {};
  if (side === "output") return { type: "object", additionalProperties: true };
  const wanted = isList(required) ? required.filter((name) => typeof name === "string") : [];
  const all = [...new Set([...wanted, ...Object.keys(isTable(properties) ? properties : {})])].filter(isStatableName);
  const names = all.slice(0, NAMES_MAX);
  return {
    type: "object",
    properties: Object.fromEntries(names.map((name) => [name, {}])),
    ...(wanted.length > 0 && { required: [...new Set(wanted)].filter((name) => names.includes(name)) }),
  };
}

const NOTES_MAX = 20;
const PLACES_SHOWN_MAX = 3;
const PLAIN = /^[A-Za-z_$][\w$-]{0,63}$/;

/** Collects what a draft leaves out, by cause: one note for each, with the first positions. */
export class Losses {
  readonly #places = new Map<string, Set<string>>();
  count = 0;

  add(cause: string, place: string): void {
    this.count += 1;
    const places = this.#places.get(cause) ?? new Set();
    this.#places.set(cause, places.add(place));
  }

  notes(): readonly string[] {
    const all = [...this.#places].map(([cause, places]) => {
      const shown = [...places].slice(0, PLACES_SHOWN_MAX);
      const more = places.size > shown.length ? ` and ${places.size - shown.length} more` : "";
      return `${shown.join(", ")}${more}: ${cause}`;
    });
    const more = all.length - NOTES_MAX;
    return more > 0 ? [...all.slice(0, NOTES_MAX - 1), `${more + 1} more causes like these`] : all;
  }
}

/** Returns a word of a system for a note: a plain one as it is. */
export function plainWord(word: unknown): string {
  return typeof word === "string" && PLAIN.test(word) ? word : "(with another name)";
}

/** Returns whether a manifest in YAML can hold a value as it is. */
export function isStatable(value: unknown): boolean {
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value === "number")
    return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(value).every(([key, inner]) => isStatableKey(key) && isStatable(inner));
}

function isStatableKey(key: string): boolean {
  return key !== "__proto__" && key !== "<<" && key.isWellFormed();
}

/** Returns whether a manifest can describe a member of this name. */
export function isStatableName(name: string): boolean {
  return isMemberName(name) && isStatableKey(name);
}

/** Keywords that restrict nothing. */
const SILENT: ReadonlySet<string> = new Set(
  [
    "$schema $id id $comment $anchor $vocabulary $defs definitions title default examples example deprecated readOnly writeOnly",
    "contentEncoding contentMediaType contentSchema xml externalDocs discriminator",
  ]
    .join(" ")
    .split(" "),
);
/** Keywords that have a method of `Writer`, or are part of one that has. */
const WRITTEN: ReadonlySet<string> = new Set(
  [
    "$ref type nullable enum const description items prefixItems additionalItems properties patternProperties required",
    "additionalProperties propertyNames dependencies dependentRequired dependentSchemas allOf anyOf oneOf not if then else",
    "contains minContains maxContains minimum maximum exclusiveMinimum exclusiveMaximum",
  ]
    .join(" ")
    .split(" "),
);
const COMBINATIONS = ["allOf", "anyOf", "oneOf"] as const;

interface Writing {
  readonly top: Json;
  readonly losses: Losses;
  readonly side: SchemaSide;
  readonly depthMax: number;
}

interface Position {
  /** With plain names only. */
  readonly path: string;
  readonly depth: number;
  /** The schemas that are being written out: finding one of them again means recursion. */
  readonly open: readonly unknown[];
}

class Writer {
  readonly #writing: Writing;
  parts = 0;

  constructor(writing: Writing) {
    this.#writing = writing;
  }

  whole(declared: Json): Json {
    const { side } = this.#writing;
    const written = this.#write(declared, { path: side, depth: 0, open: [] });
    return side === "input" ? this.#asObject(written) : written;
  }

  #lose(cause: string, { path }: Position): void {
    this.#writing.losses.add(cause, path);
  }

  #write(declared: Json, at: Position): Json {
    this.parts += 1;
    if (typeof declared === "boolean" || this.parts > PARTS_MAX) return declared === false ? false : {};
    if (!isTable(declared)) return this.#any("is not a schema, and is left out", at);
    if (at.open.includes(declared)) return this.#any("is recursive: what is below is any JSON", at);
    if (at.depth > this.#writing.depthMax) return this.#any("is nested too deeply: what is below is any JSON", at);
    const table = declared as Table;
    const inner: Position = { ...at, open: [...at.open, declared] };
    const written = this.#table(table, inner);
    if (!("$ref" in table)) return written;
    const target = this.#referenced(table["$ref"], inner);
    if (target === undefined) return written;
    if (Object.keys(written).every((key) => key === "description") && isTable(target)) return { ...target, ...written };
    return { ...written, allOf: [target, ...((written["allOf"] as readonly Json[] | undefined) ?? [])] };
  }

  #any(cause: string, at: Position): Json {
    this.#lose(cause, at);
    return {};
  }

  /** Returns the schema that a reference names; undefined when it names none. */
  #referenced(reference: Json | undefined, at: Position): Json | undefined {
    let found = typeof reference === "string" ? pointed(this.#writing.top, reference) : undefined;
    for (let hops = 0; hops < HOPS_MAX && isTable(found) && isBareReference(found as Table); hops += 1) {
      found = pointed(this.#writing.top, String((found as Table)["$ref"]));
    }
    if (found !== undefined) return this.#write(found, at);
    this.#lose("has a reference that names no part of the schema, and is any JSON", at);
    return undefined;
  }

  #table(table: Table, at: Position): Table {
    const schema: Record<string, Json> = {
      ...this.#types(table, at),
      ...this.#values(table, at),
      ...this.#bounds(table, at),
      ...this.#constraints(table, at),
      ...this.#elements(table, at),
      ...this.#members(table, at),
      ...this.#dependencies(table, at),
      ...this.#combinations(table, at),
      ...this.#conditions(table, at),
    };
    const { description } = table;
    if (typeof description === "string" && description.trim() !== "") schema["description"] = noteOf(description);
    for (const key of Object.keys(table)) {
      if (WRITTEN.has(key) || SILENT.has(key) || /^x-/i.test(key) || isKeyword(key)) continue;
      this.#lose(`the keyword ${plainWord(key)} is left out`, at);
    }
    return this.#writing.side === "input" ? described(schema) : schema;
  }

  #types({ type, nullable }: Table, at: Position): Table {
    if (type === undefined) return {};
    const names = [...new Set([type].flat() as readonly Json[])];
    const known = names.filter((name) => keywordProblem("type", name) === undefined);
    if (known.length < names.length || known.length === 0) {
      this.#lose("has a type that JSON Schema does not have, and takes any", at);
      return {};
    }
    const all = nullable === true && !known.includes("null") ? [...known, "null"] : known;
    const [only, another] = all;
    return { type: another === undefined ? (only ?? "object") : all };
  }

  #values(table: Table, at: Position): Table {
    const schema: Record<string, Json> = {};
    const { enum: values, const: value } = table;
    if (value !== undefined) {
      if (isStatable(value)) schema["const"] = value;
      else this.#lose("its value cannot be written in YAML, and is left out", at);
    }
    if (values === undefined) return schema;
    const list = isList(values) ? values : [];
    if (list.length > VALUES_MAX) this.#lose(`its enum of more than ${VALUES_MAX} values is left out`, at);
    else if (list.length > 0 && isStatable(list))
      schema["enum"] = table["nullable"] === true && !list.includes(null) ? [...list, null] : list;
    else this.#lose("its enum cannot be written in YAML, and is left out", at);
    return schema;
  }

  /** In draft 4, `exclusiveMinimum: true` makes `minimum` exclusive. */
  #bounds(table: Table, at: Position): Table {
    const schema: Record<string, Json> = {};
    for (const [name, exclusive] of [
      ["minimum", "exclusiveMinimum"],
      ["maximum", "exclusiveMaximum"],
    ] as const) {
      const isExclusive = table[exclusive] === true;
      if (table[name] !== undefined) this.#state(isExclusive ? exclusive : name, table[name], { schema, at });
      if (typeof table[exclusive] !== "boolean" && table[exclusive] !== undefined)
        this.#state(exclusive, table[exclusive], { schema, at });
    }
    return schema;
  }

  /** Copies the keywords that say something about one value. */
  #constraints(table: Table, at: Position): Table {
    const schema: Record<string, Json> = {};
    for (const [key, value] of Object.entries(table)) {
      if (isKeyword(key) && !WRITTEN.has(key) && !SILENT.has(key)) this.#state(key, value, { schema, at });
    }
    return schema;
  }

  #state(key: string, value: Json, to: { readonly schema: Record<string, Json>; readonly at: Position }): void {
    if (keywordProblem(key, value) === undefined && isStatable(value)) {
      to.schema[key] = value;
      return;
    }
    const what = key === "format" ? `the format ${plainWord(value)}` : key;
    this.#lose(`${what} cannot be checked, and is left out`, to.at);
  }

  #elements({ items, prefixItems, additionalItems }: Table, at: Position): Table {
    const first = isList(items) ? items : prefixItems;
    const others = isList(items) ? additionalItems : items;
    const schema: Record<string, Json> = {};
    if (isList(first) && first.length > 0) schema["prefixItems"] = first.map((part) => this.#below(part, "[]", at));
    if (others !== undefined) schema["items"] = this.#below(others, "[]", at);
    return schema;
  }

  #below(declared: Json, step: string, { path, depth, open }: Position): Json {
    const below = PLAIN.test(step) ? memberPath(path, step) : `${path}${step === "[]" ? "[]" : ""}`;
    return this.#write(declared, { path: below, depth: depth + 1, open });
  }

  #members(table: Table, at: Position): Table {
    const { properties, patternProperties, additionalProperties, propertyNames, required } = table;
    const schema: Record<string, Json> = {};
    if (isTable(properties)) {
      const members = Object.entries(properties as Table).filter(([name]) => this.#isNameable(name, at));
      schema["properties"] = Object.fromEntries(members.map(([name, part]) => [name, this.#below(part, name, at)]));
    }
    const wanted = isList(required) ? [...new Set(required)].filter((name) => typeof name === "string") : [];
    const names = wanted.filter((name) => this.#isNameable(name, at));
    if (names.length > 0) schema["required"] = names;
    if (additionalProperties !== undefined) schema["additionalProperties"] = this.#below(additionalProperties, "*", at);
    if (propertyNames !== undefined) schema["propertyNames"] = this.#below(propertyNames, "*", at);
    if (isTable(patternProperties)) {
      const all = Object.entries(patternProperties as Table);
      const usable = all.filter(
        ([pattern]) => isStatableKey(pattern) && keywordProblem("pattern", pattern) === undefined,
      );
      const parts = usable.map(([pattern, part]) => [pattern, this.#below(part, "*", at)] as const);
      if (parts.length > 0) schema["patternProperties"] = Object.fromEntries(parts);
      if (usable.length < all.length) {
        this.#lose("a pattern of names cannot be checked: other names are accepted", at);
        schema["additionalProperties"] = true;
      }
    }
    return schema;
  }

  #isNameable(name: string, at: Position): boolean {
    if (isStatableName(name)) return true;
    this.#lose("a member whose name a manifest cannot have is left out", at);
    return false;
  }

  #dependencies({ dependencies, dependentRequired, dependentSchemas }: Table, at: Position): Table {
    const older = Object.entries(isTable(dependencies) ? (dependencies as Table) : {});
    const lists = {
      ...Object.fromEntries(older.filter(([, value]) => isList(value))),
      ...(isTable(dependentRequired) && (dependentRequired as Table)),
    };
    const schemas = {
      ...Object.fromEntries(older.filter(([, value]) => !isList(value))),
      ...(isTable(dependentSchemas) && (dependentSchemas as Table)),
    };
    const schema: Record<string, Json> = {};
    const written = Object.entries(schemas).filter(([name]) => this.#isNameable(name, at));
    if (written.length > 0)
      schema["dependentSchemas"] = Object.fromEntries(written.map(([name, part]) => [name, this.#write(part, at)]));
    const named = Object.entries(lists).filter(([name]) => this.#isNameable(name, at));
    if (named.length > 0) this.#state("dependentRequired", Object.fromEntries(named), { schema, at });
    return schema;
  }

  #combinations(table: Table, at: Position): Table {
    const schema: Record<string, Json> = {};
    for (const keyword of COMBINATIONS) {
      const declared = table[keyword];
      if (!isList(declared) || declared.length === 0) continue;
      const before = this.#writing.losses.count;
      const parts = declared.map((part) => this.#write(part, { ...at, depth: at.depth + 1 }));
      // A part that accepts more may accept what another one does.
      const target = keyword === "oneOf" && this.#writing.losses.count > before ? "anyOf" : keyword;
      if (target === "anyOf" && schema["anyOf"] !== undefined)
        schema["allOf"] = [...((schema["allOf"] as readonly Json[] | undefined) ?? []), { anyOf: parts }];
      else schema[target] = parts;
    }
    return schema;
  }

  /** Writes keywords that would accept less if a part of them were left out: each is kept whole or not at all. */
  #conditions(table: Table, at: Position): Table {
    const exact = (declared: Json): Json | undefined => {
      const before = this.#writing.losses.count;
      const written = this.#write(declared, at);
      if (this.#writing.losses.count === before) return written;
      this.#lose("a condition cannot be stated, and is left out", at);
      return undefined;
    };
    const schema: Record<string, Json> = {};
    const { not, if: condition, then: met, else: otherwise, contains, minContains, maxContains } = table;
    const negated = not === undefined ? undefined : exact(not);
    if (negated !== undefined) schema["not"] = negated;
    const asked = condition === undefined ? undefined : exact(condition);
    if (asked !== undefined) {
      schema["if"] = asked;
      if (met !== undefined) schema["then"] = this.#write(met, at);
      if (otherwise !== undefined) schema["else"] = this.#write(otherwise, at);
    }
    const contained = contains === undefined ? undefined : exact(contains);
    if (contained !== undefined) {
      schema["contains"] = contained;
      for (const [key, value] of Object.entries({ minContains, maxContains }))
        if (value !== undefined) this.#state(key, value, { schema, at });
    }
    return schema;
  }

  /** Returns the schema of arguments: an object, without a choice at its top, which LLM APIs refuse. */
  #asObject(written: Json): Json {
    const at: Position = { path: this.#writing.side, depth: 0, open: [] };
    if (!isTable(written)) return { type: "object", properties: {} };
    const { allOf, anyOf, oneOf, type, ...own } = written as Table;
    if (type !== undefined && type !== "object" && ![type].flat().includes("object"))
      this.#lose("is not an object, as arguments are", at);
    const parts = [allOf, anyOf, oneOf].filter((part) => part !== undefined);
    if (parts.length === 0) return this.#withNames({ type: "object", ...own }, at);
    if (anyOf !== undefined || oneOf !== undefined)
      this.#lose("its choices are written as one object: the system checks which arguments go together", at);
    return this.#withNames(described(merged({ type: "object", ...own }, [allOf, anyOf, oneOf])), at);
  }

  /** Returns a schema that names its arguments. A manifest that names none takes none. */
  #withNames(schema: Table, at: Position): Table {
    if (Object.keys((schema["properties"] as Table | undefined) ?? {}).length > 0) return schema;
    const { additionalProperties: _, patternProperties, ...others } = schema;
    const names = new Set(inPlace(others).flatMap(({ properties = {} }) => Object.keys(properties as Table)));
    if (names.size > 0) return schema;
    const { top } = this.#writing;
    const isOpen = (isTable(top) ? (top as Table)["additionalProperties"] : undefined) ?? patternProperties ?? false;
    if (isOpen !== false) this.#lose("names no arguments, so that the tool takes none: write them", at);
    return { ...others, properties: {} };
  }
}

function isBareReference(table: Table): boolean {
  return typeof table["$ref"] === "string" && Object.keys(table).length === 1;
}

function noteOf(text: string): string {
  const line = text
    .slice(0, 4 * DESCRIPTION_CHARACTERS_MAX)
    .trim()
    .replace(/\s+/g, " ");
  const isLong = line.length > DESCRIPTION_CHARACTERS_MAX;
  return visible(isLong ? `${line.slice(0, DESCRIPTION_CHARACTERS_MAX).toWellFormed()}…` : line.toWellFormed());
}

/** Returns the part of a schema at a JSON pointer in a URI fragment. */
function pointed(top: Json, reference: string): Json | undefined {
  if (reference === "#") return top;
  if (!reference.startsWith("#/")) return undefined;
  let found: Json | undefined = top;
  for (const step of reference.slice(2).split("/")) {
    const key = decoded(step).replaceAll("~1", "/").replaceAll("~0", "~");
    const isKnown: boolean = typeof found === "object" && found !== null && Object.hasOwn(found, key);
    found = isKnown ? (found as Table)[key] : undefined;
  }
  return found;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // Not encoded: the name itself has a %.
    return text;
  }
}

/** Returns the schemas that may describe the same value as this one, which is the first. */
function inPlace(schema: Json): readonly Table[] {
  if (!isTable(schema)) return [];
  const table = schema as Table;
  const { allOf = [], anyOf = [], oneOf = [], dependentSchemas = {} } = table;
  const conditions = [table["if"], table["then"], table["else"]].filter((part) => part !== undefined);
  const parts = [allOf, anyOf, oneOf, conditions, Object.values(dependentSchemas as Table)].flat() as readonly Json[];
  return [table, ...parts.flatMap(inPlace)];
}

/**
 * Returns a schema of an argument that says which members it takes, as the loader wants it: a member that is only required may have
 * any value, and an object that names no members takes all.
 */
function described(schema: Table): Table {
  const parts = inPlace(schema);
  const isOpen = parts.some(
    ({ additionalProperties, patternProperties }) =>
      additionalProperties !== undefined || patternProperties !== undefined,
  );
  if (isOpen) return schema;
  const names = new Set(parts.flatMap(({ properties = {} }) => Object.keys(properties as Table)));
  const wanted = parts.flatMap(({ required = [], dependentRequired = {} }) => [
    ...(required as readonly string[]),
    ...Object.entries(dependentRequired as Table).flatMap(([name, more]) => [name, ...(more as readonly string[])]),
  ]);
  const missing = [...new Set(wanted)].filter((name) => !names.has(name));
  if (missing.length > 0) {
    const further = Object.fromEntries(missing.map((name) => [name, {}]));
    return { ...schema, properties: { ...(schema["properties"] as Table | undefined), ...further } };
  }
  const isObject = parts.some(({ type }) => [type].flat().includes("object"));
  return isObject && names.size === 0 ? { ...schema, additionalProperties: true } : schema;
}

/** Returns a schema with the members of its `allOf`, `anyOf` and `oneOf`. Of choices, only what all of them require is required. */
function merged(own: Table, [allOf, anyOf, oneOf]: readonly (Json | undefined)[]): Table {
  const all = tablesOf(allOf).map(flat);
  const choices = [anyOf, oneOf].map(tablesOf).filter((parts) => parts.length > 0);
  const alternatives = choices.map((parts) => parts.map(flat));
  const always = membersOf([own, ...all]);
  // A member that is always described keeps that schema; the system checks the schemas of the choices.
  const sometimes = [...membersOf(alternatives.flat())].filter(([name]) => !always.has(name));
  const properties: readonly (readonly [string, Json])[] = [
    ...[...always].map(([name, schemas]) => [name, together("allOf", schemas)] as const),
    ...sometimes.map(([name, schemas]) => [name, together("anyOf", schemas)] as const),
  ];
  const required = new Set([own, ...all].flatMap(requiredOf));
  for (const parts of alternatives) {
    const [first = {}, ...others] = parts;
    for (const name of requiredOf(first))
      if (others.every((other) => requiredOf(other).includes(name))) required.add(name);
  }
  const tables = [own, ...all, ...alternatives.flat()];
  const isOpen = tables.some(
    ({ additionalProperties: more, patternProperties }) => (more ?? false) !== false || patternProperties !== undefined,
  );
  const { additionalProperties: _, patternProperties: __, ...others } = own;
  return {
    ...others,
    properties: Object.fromEntries(properties),
    ...(required.size > 0 && { required: [...required] }),
    ...(isOpen && { additionalProperties: true }),
  };
}

/** Returns the different schemas of each member. */
function membersOf(tables: readonly Table[]): ReadonlyMap<string, readonly Json[]> {
  const members = new Map<string, readonly Json[]>();
  for (const { properties = {} } of tables) {
    for (const [name, part] of Object.entries(properties as Table)) {
      const known = members.get(name) ?? [];
      const isKnown = known.some((other) => JSON.stringify(other) === JSON.stringify(part));
      members.set(name, isKnown ? known : [...known, part]);
    }
  }
  return members;
}

function together(keyword: "allOf" | "anyOf", schemas: readonly Json[]): Json {
  const [only = {}, another] = schemas;
  return another === undefined ? only : { [keyword]: schemas };
}

function flat(table: Table): Table {
  const { allOf, anyOf, oneOf, ...own } = table;
  return (allOf ?? anyOf ?? oneOf) ? merged(own, [allOf, anyOf, oneOf]) : table;
}

function tablesOf(parts: Json | undefined): readonly Table[] {
  return isList(parts) ? parts.map((part) => (isTable(part) ? (part as Table) : {})) : [];
}

function requiredOf({ required }: Table): readonly string[] {
  return isList(required) ? (required as readonly string[]) : [];
}
