import { errorText } from "../error-text.ts";
import type { Fault } from "../errors.ts";
import { isTable } from "../json.ts";
import { isText } from "../manifest/checks.ts";
import { hint } from "../nearest.ts";
import type { Json } from "../types.ts";
import { FORMATS, patternTest } from "./text.ts";

/** A JSON Schema as `readJsonSchema` returns it: without references, and with valid keywords only. */
export type JsonSchema = boolean | SchemaTable;

export interface SchemaTable {
  readonly title?: string;
  readonly description?: string;
  readonly default?: Json;
  readonly type?: TypeName | readonly TypeName[];
  readonly enum?: readonly Json[];
  readonly const?: Json;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly format?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly multipleOf?: number;
  readonly prefixItems?: readonly JsonSchema[];
  readonly items?: JsonSchema;
  readonly contains?: JsonSchema;
  readonly minContains?: number;
  readonly maxContains?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly uniqueItems?: boolean;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly patternProperties?: Readonly<Record<string, JsonSchema>>;
  readonly additionalProperties?: JsonSchema;
  readonly propertyNames?: JsonSchema;
  readonly required?: readonly string[];
  readonly dependentRequired?: Readonly<Record<string, readonly string[]>>;
  readonly dependentSchemas?: Readonly<Record<string, JsonSchema>>;
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly allOf?: readonly JsonSchema[];
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly not?: JsonSchema;
  readonly if?: JsonSchema;
  readonly then?: JsonSchema;
  readonly else?: JsonSchema;
}

export type TypeName = "null" | "boolean" | "integer" | "number" | "string" | "array" | "object";
/** A type of JSON values; integers are numbers. */
export type JsonType = Exclude<TypeName, "integer">;

const TYPE_NAMES: readonly string[] = ["null", "boolean", "integer", "number", "string", "array", "object"];
export const JSON_TYPES: readonly JsonType[] = ["null", "boolean", "number", "string", "array", "object"];

const DEPTH_MAX = 32;
/** Largest number of schemas in one schema, with its references written out. */
const PARTS_MAX = 5_000;
const NAME_CHARACTERS_MAX = 256;
const TEXT_CHARACTERS_MAX = 4_096;
const FAULTS_MAX = 50;
const NUMBER_MAX = Number.MAX_SAFE_INTEGER;

/** The form of a keyword's value. A text: why the keyword is not supported, and what to write instead. */
type Form = (typeof FORMS)[number] | readonly [advice: string];
const FORMS = [
  ...([
    "schema",
    "schemas",
    "members",
    "patterns",
    "lists",
    "names",
    "types",
    "values",
    "any",
    "note",
    "text",
  ] as const),
  ...(["pattern", "format", "count", "number", "positive", "boolean", "dropped"] as const),
] as const;

const DEPENDENCIES = "write dependentRequired or dependentSchemas";
const ITEMS = "write prefixItems for the first elements, and items for the others";
const UNEVALUATED = "is not supported: write additionalProperties or items next to the properties that it is about";

const KEYWORDS: Readonly<Record<string, Form>> = {
  title: "text",
  description: "text",
  default: "any",
  examples: "note",
  deprecated: "boolean",
  readOnly: "boolean",
  writeOnly: "boolean",
  contentEncoding: "text",
  contentMediaType: "text",
  $schema: "dropped",
  $id: "dropped",
  $comment: "dropped",
  $defs: "dropped",
  type: "types",
  enum: "values",
  const: "any",
  minLength: "count",
  maxLength: "count",
  pattern: "pattern",
  format: "format",
  minimum: "number",
  maximum: "number",
  exclusiveMinimum: "number",
  exclusiveMaximum: "number",
  multipleOf: "positive",
  prefixItems: "schemas",
  items: "schema",
  contains: "schema",
  minContains: "count",
  maxContains: "count",
  minItems: "count",
  maxItems: "count",
  uniqueItems: "boolean",
  properties: "members",
  patternProperties: "patterns",
  additionalProperties: "schema",
  propertyNames: "schema",
  required: "names",
  dependentRequired: "lists",
  dependentSchemas: "members",
  minProperties: "count",
  maxProperties: "count",
  allOf: "schemas",
  anyOf: "schemas",
  oneOf: "schemas",
  not: "schema",
  if: "schema",
  then: "schema",
  else: "schema",
  definitions: ["write $defs"],
  dependencies: [DEPENDENCIES],
  additionalItems: [ITEMS],
  nullable: ['write type: ["…", "null"]'],
  unevaluatedProperties: [UNEVALUATED],
  unevaluatedItems: [UNEVALUATED],
  example: ["write examples"],
  $anchor: ["write #/$defs/<name> as the reference"],
  $dynamicRef: ["write $ref"],
  $dynamicAnchor: ["write $defs"],
  $vocabulary: ["is not supported"],
};

const AT_TOP: ReadonlySet<string> = new Set(["$schema", "$id", "$defs"]);

/** Keywords that restrict nothing. */
const NOTES: ReadonlySet<string> = new Set(
  "title description default examples deprecated readOnly writeOnly contentEncoding contentMediaType".split(" "),
);

/** Returns whether a schema has no keyword that restricts a value. */
export function isUnrestricted(schema: JsonSchema): boolean {
  return schema === true || (schema !== false && Object.keys(schema).every((keyword) => NOTES.has(keyword)));
}

/** Returns the schemas that may describe the same value as this one, which is the first. */
export function schemasInPlace(schema: JsonSchema): readonly SchemaTable[] {
  if (typeof schema === "boolean") return [];
  const { allOf = [], anyOf = [], oneOf = [], dependentSchemas = {} } = schema;
  const conditions = [schema.if, schema.then, schema.else].filter((part) => part !== undefined);
  const inner = [...allOf, ...anyOf, ...oneOf, ...conditions, ...Object.values(dependentSchemas)];
  return [schema, ...inner.flatMap(schemasInPlace)];
}

export function typeOf(value: unknown): JsonType | undefined {
  const type = typeof value;
  if (type === "string" || type === "number" || type === "boolean") return type;
  if (value === null) return "null";
  if (type !== "object") return undefined;
  return Array.isArray(value) ? "array" : "object";
}

/** Returns the types that a schema may accept. */
export function typesOf(schema: JsonSchema): ReadonlySet<JsonType> {
  if (typeof schema === "boolean") return new Set(schema ? JSON_TYPES : []);
  const { type, allOf = [], anyOf, oneOf } = schema;
  const values = schema.const === undefined ? schema.enum : [schema.const];
  const declared =
    type === undefined ? JSON_TYPES : [type].flat().map((name) => (name === "integer" ? "number" : name));
  const all = [
    new Set(values?.map(typeOf) ?? JSON_TYPES),
    ...allOf.map(typesOf),
    ...[anyOf, oneOf].flatMap(
      (choices) => (choices && [new Set(choices.flatMap((choice) => [...typesOf(choice)]))]) || [],
    ),
  ];
  return new Set(declared.filter((name) => all.every((types) => types.has(name))));
}

/** The side of a tool that a schema describes. */
export type SchemaSide = "input" | "output";

export interface ReadSchema {
  readonly schema: JsonSchema;
  /** Empty: the schema is valid. */
  readonly faults: readonly Fault[];
}

/**
 * Reads a JSON Schema (draft 2020-12) that somebody else may have written: references are written out, unknown keywords are
 * errors, and everything has a limit. An input that does not say whether it takes further members takes none.
 */
export function readJsonSchema(side: SchemaSide, declared: unknown): ReadSchema {
  const reader = new SchemaReader(side, declared);
  const read = reader.read(declared, { path: side, depth: 0, open: [] });
  const isSound = reader.faults.length === 0;
  const schema = isSound && side === "input" ? reader.closed(read, { path: side, isTop: true }) : read;
  return { schema, faults: reader.faults };
}

interface Position {
  readonly path: string;
  readonly depth: number;
  /** References that are being written out: finding one of them again means recursion. */
  readonly open: readonly string[];
}

class SchemaReader {
  readonly faults: Fault[] = [];
  readonly #side: SchemaSide;
  readonly #definitions: Readonly<Record<string, unknown>>;
  readonly #top: unknown;
  #parts = 0;

  constructor(side: SchemaSide, top: unknown) {
    const definitions = isTable(top) ? top["$defs"] : undefined;
    this.#side = side;
    this.#top = top;
    this.#definitions = isTable(definitions) ? definitions : {};
  }

  #fault(field: string, message: string): void {
    const isKnown = this.faults.some((fault) => fault.field === field && fault.message === message);
    if (!isKnown && this.faults.length < FAULTS_MAX) this.faults.push({ field, message });
  }

  read(declared: unknown, at: Position): JsonSchema {
    if (typeof declared === "boolean") return declared;
    this.#parts += 1;
    if (this.#parts > PARTS_MAX) {
      this.#fault(this.#side, `has more than ${PARTS_MAX} parts, with its references written out`);
      return true;
    }
    if (!isTable(declared)) this.#fault(at.path, "must be a schema: a table, true or false");
    else if (at.depth > DEPTH_MAX) this.#fault(at.path, `is nested more than ${DEPTH_MAX} levels deep`);
    else return this.#table(declared, at);
    return true;
  }

  #table(declared: Readonly<Record<string, unknown>>, at: Position): JsonSchema {
    const { $ref: reference, ...others } = declared;
    const schema: Record<string, unknown> = {};
    for (const [keyword, value] of Object.entries(others)) {
      if (this.faults.length >= FAULTS_MAX) break;
      if (/^x-/i.test(keyword)) continue;
      const form = Object.hasOwn(KEYWORDS, keyword) ? KEYWORDS[keyword] : undefined;
      const path = memberPath(at.path, keyword);
      if (form === undefined)
        this.#fault(path, `is not a keyword of JSON Schema${hint(keyword, Object.keys(KEYWORDS))}`);
      else if (typeof form === "object") this.#fault(path, form[0]);
      else if (form !== "dropped") schema[keyword] = this.#value(value, form, { ...at, path });
      else if (AT_TOP.has(keyword) && declared !== this.#top) this.#fault(path, "must be at the top of the schema");
    }
    if (this.#side === "output") allowDigits(schema);
    if (!("$ref" in declared)) return schema;
    const target = this.#referenced(reference, { ...at, path: `${at.path}.$ref` });
    if (!Object.keys(schema).every((keyword) => NOTES.has(keyword)))
      return { ...schema, allOf: [target, ...listOf(schema["allOf"])] };
    return typeof target === "boolean" ? target : { ...target, ...schema };
  }

  #referenced(reference: unknown, at: Position): JsonSchema {
    const name = isText(reference) ? /^#\/\$defs\/([^/]+)$/.exec(reference)?.[1] : undefined;
    if (name === undefined) {
      this.#fault(at.path, "must be #/$defs/<name>, in the same schema: nothing else is ever read");
      return true;
    }
    const key = unescaped(name);
    if (!Object.hasOwn(this.#definitions, key)) {
      this.#fault(at.path, `names nothing in $defs${hint(key, Object.keys(this.#definitions))}`);
      return true;
    }
    if (at.open.includes(key)) {
      this.#fault(at.path, "must not be recursive: write out its levels, or {} for any JSON");
      return true;
    }
    const path = memberPath(`${this.#side}.$defs`, key);
    return this.read(this.#definitions[key], { path, depth: at.depth + 1, open: [...at.open, key] });
  }

  /** Returns the value of a keyword as `SchemaTable` declares it. */
  #value(value: unknown, form: Exclude<Form, readonly [string]>, at: Position): unknown {
    const below = (key: string): Position => ({ ...at, path: memberPath(at.path, key), depth: at.depth + 1 });
    switch (form) {
      case "schema":
        return this.read(value, { ...at, depth: at.depth + 1 });
      case "schemas": {
        if (!Array.isArray(value) || value.length === 0) return this.#fault(at.path, "must be a list of schemas");
        return value.map((part, index) => this.read(part, { ...below(""), path: `${at.path}[${index}]` }));
      }
      case "members":
      case "patterns":
      case "lists": {
        if (!isTable(value)) return this.#fault(at.path, "must be a table of names");
        const members = Object.entries(value).map(([key, part]) => [
          key,
          this.#member(key, part, { ...below(key), form }),
        ]);
        return Object.fromEntries(members);
      }
      default:
        if (!isValid[form](value))
          this.#fault(at.path, `must be ${EXPECTED[form]}${form === "types" ? hint(String(value), TYPE_NAMES) : ""}`);
        else if (form === "pattern") this.#pattern(value as string, at.path);
        else if (form === "format" && !FORMATS.includes(value as string)) {
          this.#fault(at.path, `is not a known format${hint(value as string, FORMATS)}`);
        }
        return value;
    }
  }

  #member(key: string, part: unknown, at: Position & { readonly form: "members" | "patterns" | "lists" }): unknown {
    if (at.form === "patterns") this.#pattern(key, at.path);
    else if (!isMemberName(key)) this.#fault(at.path, NAME);
    if (at.form !== "lists") return this.read(part, at);
    if (!isValid.names(part)) this.#fault(at.path, `must be ${EXPECTED.names}`);
    return part;
  }

  #pattern(source: string, path: string): void {
    const problem = patternProblem(source);
    if (problem !== undefined) this.#fault(path, problem);
  }

  /**
   * Returns the schema in which every object that does not say whether it takes further members takes none. The members that a
   * part of it names, such as one form of an `anyOf`, are members of the whole.
   */
  closed(schema: JsonSchema, at: { readonly path: string; readonly isTop: boolean }): JsonSchema {
    if (typeof schema === "boolean") return schema;
    const inner = this.#closedWithin(schema, at.path);
    const parts = schemasInPlace(inner);
    const [, ...others] = parts;
    const isOpen = others.some(
      (part) => part.additionalProperties !== undefined || part.patternProperties !== undefined,
    );
    const names = new Set(parts.flatMap(({ properties = {} }) => Object.keys(properties)));
    if (inner.additionalProperties !== undefined || !typesOf(inner).has("object")) return inner;
    if (isOpen || isUnrestricted(inner)) return inner;
    if (names.size === 0 && inner.patternProperties === undefined && !at.isTop) {
      const isObject = parts.some(({ type }) => [type].flat().includes("object"));
      if (isObject) this.#fault(at.path, "has no properties: name them, or write additionalProperties: true for any");
      return inner;
    }
    for (const name of inner.required ?? []) {
      if (!names.has(name))
        this.#fault(`${at.path}.required`, `names ${name}, which is not in properties${hint(name, names)}`);
    }
    const further = [...names].filter((name) => !Object.hasOwn(inner.properties ?? {}, name));
    const properties = { ...inner.properties, ...Object.fromEntries(further.map((name) => [name, {}])) };
    return { ...inner, properties, additionalProperties: false };
  }

  /** Returns the schema with the schemas of its members and elements closed. */
  #closedWithin(schema: SchemaTable, path: string): SchemaTable {
    const member = (part: JsonSchema, step: string) => this.closed(part, { path: step, isTop: false });
    const inPlace = (part: JsonSchema, step: string) =>
      typeof part === "boolean" ? part : this.#closedWithin(part, step);
    return Object.fromEntries(
      Object.entries(schema).map(([keyword, value]) => {
        const below = memberPath(path, keyword);
        const change = MEMBER_KEYWORDS.has(keyword) ? member : inPlace;
        if (CONDITIONS.has(keyword)) return [keyword, value];
        if (KEYWORDS[keyword] === "schema") return [keyword, change(value as JsonSchema, below)];
        if (KEYWORDS[keyword] === "schemas") {
          return [keyword, (value as readonly JsonSchema[]).map((part, index) => change(part, `${below}[${index}]`))];
        }
        if (KEYWORDS[keyword] !== "members" && KEYWORDS[keyword] !== "patterns") return [keyword, value];
        const entries = Object.entries(value as Readonly<Record<string, JsonSchema>>);
        return [keyword, Object.fromEntries(entries.map(([key, part]) => [key, change(part, memberPath(below, key))]))];
      }),
    );
  }
}

/** Keywords by which an integer is not one of 64 bits, or may not be a text. */
const NO_DIGITS = "const enum multipleOf maximum exclusiveMaximum pattern minLength maxLength".split(" ");

/** Lets an integer of 64 bits in an answer be a text, where JavaScript would round the number. */
function allowDigits(schema: Record<string, unknown>): void {
  const { type, format, minimum, exclusiveMinimum } = schema;
  const types = [type].flat();
  const isWide = format === "int64" && types.includes("integer") && !types.includes("string");
  if (!isWide || NO_DIGITS.some((keyword) => keyword in schema)) return;
  const sign = minimum === undefined && exclusiveMinimum === undefined ? "-?" : "";
  Object.assign(schema, { type: [...types, "string"], pattern: `^${sign}\\d{16,20}$` });
}

/** Keywords whose schemas describe a member or an element, not the value itself. */
const MEMBER_KEYWORDS: ReadonlySet<string> = new Set(
  "properties patternProperties additionalProperties prefixItems items".split(" "),
);

/** Keywords whose schemas ask about a value: another answer would change the meaning of the whole. */
const CONDITIONS: ReadonlySet<string> = new Set("not if contains propertyNames".split(" "));

function listOf(value: unknown): readonly JsonSchema[] {
  return Array.isArray(value) ? value : [];
}

/** Returns the text of a JSON pointer's step in a URI fragment. */
function unescaped(step: string): string {
  let text = step;
  try {
    text = decodeURIComponent(step);
  } catch {
    // Not encoded: the name itself has a %.
  }
  return text.replaceAll("~1", "/").replaceAll("~0", "~");
}

/** Returns a path in a manifest: names with other characters are quoted. */
export function memberPath(path: string, key: string): string {
  return /^[A-Za-z_$][\w$-]{0,63}$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`;
}

const NAME = `must be a visible name of at most ${NAME_CHARACTERS_MAX} characters that no object inherits`;

/** Returns whether a text can be the name of a member: one that can be read, and that is not `constructor` or the like. */
export function isMemberName(name: string): boolean {
  if (name === "" || name.length > NAME_CHARACTERS_MAX || name in Object.prototype || name === "prototype")
    return false;
  return !UNSEEN.test(name) && name.trim() !== "";
}

/** Characters that a name does not show: controls, invisible and format characters, lone surrogates, spaces but U+0020. */
const UNSEEN = /[^ \P{Z}]|[\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}\u2800]/u;

/**
 * Characters that hide or reorder text: controls except tab and line feed, bidirectional controls, tags, invisible letters, lone
 * surrogates; and zero-width characters or variation selectors in a row, in which texts can be hidden.
 */
const HIDDEN =
  /[^\t\n\P{Cc}]|[\u061c\u115f\u1160\u200e\u200f\u2028-\u202e\u2061-\u206f\u3164\ufeff\uffa0\u{e0000}-\u{e007f}]|\p{Cs}|(?:[\u200b-\u200d\u2060]|(?!\ufe0f)\p{Variation_Selector}){2}|\ufe0f{2}/u;

/** Returns whether a text shows everything that it says. */
export function isVisible(text: string): boolean {
  return !HIDDEN.test(text);
}

type SimpleForm = Exclude<
  Form,
  readonly [string] | "schema" | "schemas" | "members" | "patterns" | "lists" | "dropped"
>;

const isNumber = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);

const isValid: Readonly<Record<SimpleForm | "dropped", (value: unknown) => boolean>> = {
  names: (value) =>
    Array.isArray(value) && value.every(isText) && new Set(value).size === value.length && value.every(isMemberName),
  types: (value) => {
    const names: readonly unknown[] = Array.isArray(value) ? value : [value];
    return (
      names.length > 0 &&
      new Set(names).size === names.length &&
      names.every((name) => isText(name) && TYPE_NAMES.includes(name))
    );
  },
  values: (value) => Array.isArray(value) && value.length > 0,
  any: () => true,
  note: () => true,
  text: (value) => isText(value) && value.length <= TEXT_CHARACTERS_MAX && isVisible(value),
  pattern: isText,
  format: isText,
  count: (value) => isNumber(value) && Number.isInteger(value) && value >= 0 && value <= NUMBER_MAX,
  number: isNumber,
  positive: (value) => isNumber(value) && value > 0,
  boolean: (value) => typeof value === "boolean",
  dropped: () => true,
};

const EXPECTED: Readonly<Record<SimpleForm | "dropped", string>> = {
  names: `a list of different names, each ${NAME.slice("must be ".length)}`,
  types: `one of ${TYPE_NAMES.join(", ")}, or a list of them`,
  values: "a list of at least one value",
  any: "JSON",
  note: "JSON",
  text: `a text of at most ${TEXT_CHARACTERS_MAX} characters, without control and bidirectional characters`,
  pattern: "a text: a regular expression",
  format: "a text",
  count: "a whole number of 0 or more",
  number: "a number",
  positive: "a number above 0",
  boolean: "true or false",
  dropped: "JSON",
};

/** Returns whether schemas may have a keyword. */
export function isKeyword(key: string): boolean {
  return Object.hasOwn(KEYWORDS, key) && typeof KEYWORDS[key] !== "object";
}

/** Returns why a keyword cannot have a value that holds no schema; undefined when it can. */
export function keywordProblem(key: string, value: unknown): string | undefined {
  const form = Object.hasOwn(KEYWORDS, key) ? KEYWORDS[key] : undefined;
  if (form === undefined || typeof form === "object") return "is not a keyword";
  if (form === "lists") {
    const isSound =
      isTable(value) && Object.entries(value).every(([name, names]) => isMemberName(name) && isValid.names(names));
    return isSound ? undefined : "must be a table of names";
  }
  if (form === "schema" || form === "schemas" || form === "members" || form === "patterns") return "holds schemas";
  if (!isValid[form](value)) return `must be ${EXPECTED[form]}`;
  if (form === "format") return FORMATS.includes(value as string) ? undefined : "is not a known format";
  return form === "pattern" ? patternProblem(value as string) : undefined;
}

function patternProblem(source: string): string | undefined {
  try {
    patternTest(source);
    return undefined;
  } catch (error) {
    return `is not a usable pattern: ${errorText(error)}`;
  }
}

/** Returns the keywords that schemas may have as JSON Schema, for editors. `self` refers to the description of a schema. */
export function keywordsDescribed(self: Json): Readonly<Record<string, Json>> {
  const names: Json = { type: "array", items: { type: "string" }, uniqueItems: true };
  const described: Readonly<Record<Exclude<Form, readonly [string]>, Json>> = {
    schema: self,
    schemas: { type: "array", items: self, minItems: 1 },
    members: { type: "object", additionalProperties: self },
    patterns: { type: "object", additionalProperties: self },
    lists: { type: "object", additionalProperties: names },
    names,
    values: { type: "array", minItems: 1 },
    types: {
      anyOf: [{ enum: TYPE_NAMES }, { type: "array", items: { enum: TYPE_NAMES }, minItems: 1, uniqueItems: true }],
    },
    any: {},
    note: {},
    dropped: {},
    text: { type: "string", maxLength: TEXT_CHARACTERS_MAX },
    pattern: { type: "string" },
    format: { enum: FORMATS },
    count: { type: "integer", minimum: 0 },
    number: { type: "number" },
    positive: { type: "number", exclusiveMinimum: 0 },
    boolean: { type: "boolean" },
  };
  const supported = Object.entries(KEYWORDS).flatMap(([keyword, form]) =>
    typeof form === "object" ? [] : [[keyword, described[form]] as const],
  );
  return {
    ...Object.fromEntries(supported),
    $ref: { type: "string", pattern: "^#/\\$defs/" },
    $defs: { type: "object", additionalProperties: self },
  };
}
