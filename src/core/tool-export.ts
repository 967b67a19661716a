import { isList, isTable } from "./json.ts";
import { raisingWord, replacingWord } from "./manifest/change-words.ts";
import { inputJsonSchema } from "./tool-formats.ts";
import type { Json, Tool } from "./types.ts";

type JsonObject = { readonly [key: string]: Json };

/** The forms in which callers and LLM APIs read a tool. */
export const TOOL_FORMATS = ["json", "openai", "openai-responses", "anthropic", "google", "mcp"] as const;

export type ToolFormat = (typeof TOOL_FORMATS)[number];

/** A tool as `GET /tools` returns it: callers who may see a tool also see its classification and its full input schema. */
export interface JsonTool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly version: string;
  readonly classification: Tool["classification"];
  readonly category: Tool["category"];
  readonly inputSchema: JsonObject;
}

interface ExportOptions {
  readonly format: ToolFormat;
  /** Where the API has a strict mode, and the tool's schema can be said in it. */
  readonly strict?: boolean;
}

/** Returns a tool as an entry of `tools` in a request to an LLM's API. */
export function exportTool(tool: Tool, { format, strict = false }: ExportOptions): object {
  const { name, title, description, input } = tool;
  const whole = inputJsonSchema(input, "draft-2020-12");
  switch (format) {
    case "json":
      return toJson(tool);
    case "openai": {
      const parameters = strict ? strictSchema(whole, OPENAI_STRICT) : undefined;
      const strictMode = parameters !== undefined && { strict: true };
      const said = { name, description, ...strictMode, parameters: parameters ?? schemaIn(whole, PLAIN) };
      return { type: "function", function: said };
    }
    case "openai-responses": {
      const parameters = strict ? strictSchema(whole, OPENAI_STRICT) : undefined;
      // Without the member, this API makes the schema strict in its own way.
      const strictMode = { strict: parameters !== undefined };
      return { type: "function", name, description, ...strictMode, parameters: parameters ?? schemaIn(whole, PLAIN) };
    }
    case "anthropic": {
      const schema = strict ? strictSchema(whole, ANTHROPIC_STRICT) : undefined;
      const strictMode = schema !== undefined && { strict: true };
      return { name, description, ...strictMode, input_schema: schema ?? schemaIn(whole, PLAIN) };
    }
    case "google":
      return { name, description, parametersJsonSchema: schemaIn(whole, GOOGLE) };
    case "mcp":
      return { name, title, description, inputSchema: whole, annotations: annotationsOf(tool) };
  }
}

export function toJson(tool: Tool): JsonTool {
  const { name, title, description, version, classification, category } = tool;
  return { name, title, description, version, classification, category, inputSchema: inputJsonSchema(tool.input) };
}

/** Returns what MCP calls the annotations of a tool. A changing tool that is not destructive in MCP only adds. */
export function annotationsOf(tool: Tool) {
  const { title, classification, idempotent, additive, category } = tool;
  const isRead = classification === "read" && raisingWord(tool) === undefined;
  return {
    title,
    readOnlyHint: isRead,
    destructiveHint: !isRead && !(additive && replacingWord(tool) === undefined),
    idempotentHint: isRead || idempotent,
    openWorldHint: category === "network" || category === "command",
  };
}

/** What an API takes of JSON Schema. */
interface Dialect {
  /** Keywords that are passed on as they are. */
  readonly keywords: ReadonlySet<string>;
  readonly formats: ReadonlySet<string>;
  readonly hasTuples?: true;
  readonly hasConst?: false;
  /** Largest `minItems`. */
  readonly minItemsMax?: number;
  /** Objects have no other members than those that are named, and every schema has a type. */
  readonly isClosed?: true;
  /** Every member is required; optional ones may be null, which the service takes as absent. */
  readonly isComplete?: true;
}

const set = (words: string): ReadonlySet<string> => new Set(words.split(" "));

const FORMATS = "date-time date time duration email hostname ipv4 ipv6 uuid";
const RANGES = "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf";

/** Function calling without a strict mode: any schema without references, choices at the top, and negations. */
const PLAIN: Dialect = {
  keywords: set(
    `type enum const ${RANGES} minLength maxLength minItems maxItems uniqueItems minProperties maxProperties default`,
  ),
  formats: set(FORMATS),
};

/** Structured outputs of OpenAI. */
const OPENAI_STRICT: Dialect = {
  keywords: set(`type enum const ${RANGES} minItems maxItems`),
  formats: set(FORMATS),
  isClosed: true,
  isComplete: true,
};

/** Strict tool use of Anthropic, which limits optional members and unions over all tools of a request. */
const ANTHROPIC_STRICT: Dialect = {
  keywords: set("type enum const default minItems"),
  formats: set(`${FORMATS} uri`),
  minItemsMax: 1,
  isClosed: true,
};

/** Members of `parametersJsonSchema` that Gemini reads. */
const GOOGLE: Dialect = {
  keywords: set("type enum title minItems maxItems minimum maximum"),
  formats: set(FORMATS),
  hasTuples: true,
  hasConst: false,
};

/** Thrown for a schema that a strict mode cannot express. */
class Inexpressible extends Error {}

const STRICT_DEPTH_MAX = 10;
const STRICT_MEMBERS_MAX = 5_000;

/** Returns the schema for a strict mode; undefined when the mode cannot express it. */
function strictSchema(schema: JsonObject, dialect: Dialect): JsonObject | undefined {
  try {
    return new Writer(dialect).write(schema, 0);
  } catch (error) {
    if (error instanceof Inexpressible) return undefined;
    throw error;
  }
}

function schemaIn(schema: JsonObject, dialect: Dialect): JsonObject {
  return new Writer(dialect).write(schema, 0);
}

/** Keywords that restrict nothing, or are written by a rule of their own. */
const SILENT = set(
  "description title examples deprecated readOnly writeOnly contentEncoding contentMediaType $comment allOf required properties additionalProperties",
);
const SCHEMA_DEPTH_MAX = 64;
const JSON_CHARACTERS_MAX = 300;
/** Longer patterns are left to the format that they spell out, if there is one. */
const PATTERN_BESIDE_FORMAT_MAX = 100;
const PATTERN_CHARACTERS_MAX = 1_000;
const SHOWN = "which GET /tools/<name> shows";

/** Writes the schema that an API reads, with what the API cannot read in the words of descriptions. */
class Writer {
  readonly #dialect: Dialect;
  #members = 0;

  constructor(dialect: Dialect) {
    this.#dialect = dialect;
  }

  write(declared: JsonObject, depth: number): JsonObject {
    const { isClosed } = this.#dialect;
    if (depth > (isClosed ? STRICT_DEPTH_MAX : SCHEMA_DEPTH_MAX)) return this.#unsaid({});
    const words: string[] = [];
    const schema = merged(declared, words);
    const said: Record<string, Json> = {};
    for (const [keyword, value] of Object.entries(schema))
      this.#keyword(keyword, value, { schema, said, words, depth });
    if (allowsObject(said["type"])) this.#object(schema, said, depth);
    if (isClosed && ["type", "enum", "const", "anyOf"].every((keyword) => said[keyword] === undefined))
      return this.#unsaid(declared);
    const own = typeof schema["description"] === "string" ? schema["description"] : "";
    const texts = [words.length === 0 || own === "" ? own : stopped(own), ...new Set(words)].filter(
      (text) => text !== "",
    );
    return texts.length === 0 ? said : { ...said, description: texts.join(" ") };
  }

  /** Returns the schema for any value. Strict modes have none. */
  #unsaid(declared: JsonObject): JsonObject {
    if (this.#dialect.isClosed) throw new Inexpressible();
    return typeof declared["description"] === "string" ? { description: declared["description"] } : {};
  }

  #keyword(
    keyword: string,
    value: Json,
    { schema, said, words, depth }: { schema: JsonObject; said: Record<string, Json>; words: string[]; depth: number },
  ): void {
    const { keywords, formats, hasConst, minItemsMax = Number.POSITIVE_INFINITY } = this.#dialect;
    const inner = (part: Json | undefined): JsonObject =>
      isTable(part) ? this.write(part as JsonObject, depth + 1) : this.#any(part);
    if (keyword === "const" && hasConst === false) said["enum"] = [value];
    else if (keyword === "minItems" && Number(value) > minItemsMax) {
      said["minItems"] = minItemsMax;
      words.push(wordOf(keyword, value) ?? "");
    } else if (keyword === "default" && this.#dialect.isComplete) words.push(`Default: ${short(value)}.`);
    else if (keywords.has(keyword)) said[keyword] = value;
    else if (keyword === "format") {
      if (formats.has(String(value))) said["format"] = value;
      else if (typeof schema["pattern"] !== "string" || !this.#saysPattern(schema["pattern"]))
        words.push(`Format: ${String(value)}.`);
    } else if (keyword === "pattern") this.#pattern(String(value), { schema, said, words });
    else if (keyword === "items") {
      if (schema["prefixItems"] === undefined) said["items"] = inner(value);
      else if (this.#dialect.hasTuples && isTable(value)) said["items"] = inner(value);
    } else if (keyword === "prefixItems" && isList(value))
      this.#tuple(value as readonly Json[], { schema, said, words, inner });
    else if ((keyword === "anyOf" || keyword === "oneOf") && isList(value)) {
      said["anyOf"] = value.map((part) => inner(part as Json));
      if (keyword === "oneOf" && !isTagged(value as readonly Json[]))
        words.push("Must match exactly one of the forms.");
    } else if (!SILENT.has(keyword) && !(keyword === "propertyNames" && namesOf(schema).length > 0))
      words.push(wordOf(keyword, value) ?? `JSON Schema: ${short({ [keyword]: value })}.`);
  }

  #any(part: Json | undefined): JsonObject {
    if (part === false) return this.#dialect.isClosed ? this.#unsaid({}) : { not: {} };
    return this.#unsaid({});
  }

  /** Returns whether the API reads the pattern itself: strict modes know no lookarounds, and others have their own dialects. */
  #saysPattern(pattern: string): boolean {
    const isPortable = pattern.length <= PATTERN_CHARACTERS_MAX && !/\(\?[=!<]|\\[bBkpP1-9]/.test(pattern);
    return isPortable && this.#dialect !== GOOGLE;
  }

  #pattern(
    pattern: string,
    { schema, said, words }: { schema: JsonObject; said: Record<string, Json>; words: string[] },
  ): void {
    // Zod spells its formats out as patterns.
    const isFormat = schema["format"] !== undefined && pattern.length > PATTERN_BESIDE_FORMAT_MAX;
    if (isFormat && this.#dialect.formats.has(String(schema["format"]))) return;
    if (this.#saysPattern(pattern)) said["pattern"] = pattern;
    else if (!isFormat) words.push(patternWord(pattern));
  }

  #tuple(
    parts: readonly Json[],
    {
      schema,
      said,
      words,
      inner,
    }: { schema: JsonObject; said: Record<string, Json>; words: string[]; inner: (part: Json) => JsonObject },
  ): void {
    const { items: rest = true } = schema;
    if (this.#dialect.hasTuples) {
      said["prefixItems"] = parts.map(inner);
      return;
    }
    const all = [...parts, ...(isTable(rest) ? [rest as Json] : [])].map(inner);
    if (all.length === 0) {
      said["items"] = this.#any(true);
      return;
    }
    said["items"] = rest === true ? this.#any(true) : { anyOf: all };
    if (rest === false && schema["maxItems"] === undefined) words.push(`At most ${parts.length} elements.`);
    words.push(
      `Elements in this order: ${parts.map(short).join(", ")}${isTable(rest) ? `, then ${short(rest as Json)}` : ""}.`,
    );
  }

  #object(schema: JsonObject, said: Record<string, Json>, depth: number): void {
    const { isClosed, isComplete } = this.#dialect;
    const { properties, additionalProperties: open, required } = schema;
    const needed = isList(required) ? required.map(String) : [];
    const listed = namesOf(schema);
    const declared = isTable(properties)
      ? (properties as JsonObject)
      : Object.fromEntries(listed.map((name) => [String(name), open as Json]));
    const isOpen = isTable(open) || open === true || schema["patternProperties"] !== undefined;
    const hasOthers = isOpen && listed.length === 0;
    if (isClosed && hasOthers) throw new Inexpressible();
    const members = Object.entries(declared).map(([name, part]) => {
      this.#members += 1;
      if (isClosed && this.#members > STRICT_MEMBERS_MAX) throw new Inexpressible();
      const written = isTable(part) ? this.write(part as JsonObject, depth + 1) : this.#any(part);
      return [name, isComplete && !needed.includes(name) ? orNull(written) : written] as const;
    });
    said["properties"] = Object.fromEntries(members);
    const all = isComplete ? members.map(([name]) => name) : needed;
    if (all.length > 0 || isComplete) said["required"] = all;
    const other = isTable(open) ? this.write(open as JsonObject, depth + 1) : true;
    said["additionalProperties"] = hasOthers ? other : false;
  }
}

/** Returns the names of a record that lists them: its members are then written out. */
function namesOf({ propertyNames: names, additionalProperties: open }: JsonObject): readonly unknown[] {
  return isTable(names) && isTable(open) && isList(names["enum"]) ? names["enum"] : [];
}

const OPTIONAL = "Optional: null if absent.";

/** Returns the schema of an optional member of which a strict mode demands a value. */
function orNull(schema: JsonObject): JsonObject {
  const { type, anyOf, description, ...others } = schema;
  const words = { description: typeof description === "string" ? `${stopped(description)} ${OPTIONAL}` : OPTIONAL };
  if (isList(anyOf)) return { ...schema, ...words, anyOf: isNullable(anyOf) ? anyOf : [...anyOf, { type: "null" }] };
  const types = type === undefined ? [] : [type].flat();
  if (types.includes("null")) return { ...schema, ...words };
  if ("const" in others || types.length === 0) {
    const { description: _, ...value } = schema;
    return { ...words, anyOf: [value, { type: "null" }] };
  }
  const { enum: values } = others;
  return { ...schema, ...words, type: [...types, "null"] as Json, ...(isList(values) && { enum: [...values, null] }) };
}

function isNullable(forms: readonly unknown[]): boolean {
  return forms.some((form) => isTable(form) && form["type"] === "null");
}

function allowsObject(type: Json | undefined): boolean {
  return type === "object" || (isList(type) && type.includes("object"));
}

/** Returns whether a fixed member tells the forms apart, so that a value never matches two. */
function isTagged(forms: readonly Json[]): boolean {
  const [first] = forms;
  const names = isTable(first) && isTable(first["properties"]) ? Object.keys(first["properties"]) : [];
  return names.some((name) => {
    const values = forms.map((form) => {
      const members = isTable(form) && isTable(form["properties"]) ? form["properties"] : {};
      const part = members[name];
      const isRequired = isTable(form) && isList(form["required"]) && form["required"].includes(name);
      return isRequired && isTable(part) ? part["const"] : undefined;
    });
    return !values.includes(undefined) && new Set(values).size === values.length;
  });
}

/** Merges the parts of an `allOf`, which APIs refuse. Of two values of a keyword the first one stays; the other is said in words. */
function merged(schema: JsonObject, words: string[]): JsonObject {
  const { allOf, ...own } = schema;
  if (!isList(allOf)) return schema;
  const whole: Record<string, Json> = own;
  for (const part of allOf.flatMap((each) => (isTable(each) ? [merged(each as JsonObject, words)] : []))) {
    for (const [keyword, value] of Object.entries(part)) {
      const mine = whole[keyword];
      if (keyword === "properties" && isTable(mine) && isTable(value))
        whole[keyword] = { ...(value as JsonObject), ...(mine as JsonObject) };
      else if (keyword === "required" && isList(mine) && isList(value))
        whole[keyword] = [...new Set([...mine, ...value])] as Json;
      else if (mine === undefined) whole[keyword] = value;
      else if (JSON.stringify(mine) !== JSON.stringify(value) && !SILENT.has(keyword))
        words.push(wordOf(keyword, value) ?? `JSON Schema: ${short({ [keyword]: value })}.`);
    }
  }
  return whole;
}

/** Returns a JSON Schema, or a value, in few characters. */
function short(value: Json): string {
  const text = JSON.stringify(value);
  return text.length <= JSON_CHARACTERS_MAX ? text : `a rule of ${text.length} characters, ${SHOWN}`;
}

function patternWord(pattern: string): string {
  return pattern.length <= JSON_CHARACTERS_MAX
    ? `Pattern: ${pattern}`
    : `Must match a pattern of ${pattern.length} characters, ${SHOWN}.`;
}

const WORDS: Readonly<Record<string, (value: Json) => string>> = {
  minLength: (value) => `At least ${value} characters.`,
  maxLength: (value) => `At most ${value} characters.`,
  minimum: (value) => `At least ${value}.`,
  maximum: (value) => `At most ${value}.`,
  exclusiveMinimum: (value) => `Greater than ${value}.`,
  exclusiveMaximum: (value) => `Less than ${value}.`,
  multipleOf: (value) => `A multiple of ${value}.`,
  minItems: (value) => `At least ${value} elements.`,
  maxItems: (value) => `At most ${value} elements.`,
  uniqueItems: () => "No element twice.",
  minProperties: (value) => `At least ${value} members.`,
  maxProperties: (value) => `At most ${value} members.`,
  default: (value) => `Default: ${short(value)}.`,
  pattern: (value) => patternWord(String(value)),
  format: (value) => `Format: ${String(value)}.`,
  propertyNames: (value) => `Names of members: ${short(value)}.`,
  const: (value) => `Exactly ${short(value)}.`,
  enum: (value) => `One of ${short(value)}.`,
};

function wordOf(keyword: string, value: Json): string | undefined {
  return WORDS[keyword]?.(value);
}

function stopped(text: string): string {
  return /[.!?:]$/.test(text.trimEnd()) ? text.trimEnd() : `${text.trimEnd()}.`;
}
