import { isList, isTable } from "../../core/json.ts";
import type { ToolDraft } from "../../core/target-kind.ts";
import { visible } from "../../core/terminal-text.ts";
import type { Json } from "../../core/types.ts";
import { bounded, type Definition, NAMED } from "./definitions.ts";

/** Drafts of manifests from the definitions of an untrusted server. */

const DESCRIPTION_CHARACTERS_MAX = 1_024;
const DESCRIPTION_IN_SCHEMA_CHARACTERS_MAX = 512;
/** Notes on one draft. Each is a line for the author. */
const NOTES_MAX = 20;
/** Larger definitions are not repeated in the manifest. */
const DEFINITION_BYTES_MAX = 65_536;

/** Keywords of JSON Schema that a draft keeps. The others restrict nothing, or the loader does not know them. */
const KEPT: ReadonlySet<string> = new Set([
  ...["type", "enum", "const", "minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum"],
  ...["exclusiveMaximum", "multipleOf", "prefixItems", "items", "contains", "minContains", "maxContains", "minItems"],
  ...[
    "maxItems",
    "uniqueItems",
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "required",
  ],
  ...["dependentRequired", "dependentSchemas", "minProperties", "maxProperties", "allOf", "anyOf", "oneOf", "not"],
  ...["if", "then", "else", "description", "$ref", "$defs"],
]);
/** Keywords whose values are data. */
const DATA: ReadonlySet<string> = new Set([
  "enum",
  "const",
  "required",
  "dependentRequired",
  "type",
  "pattern",
  "format",
]);
/** Keywords that may be left out without a note. */
const SILENT: ReadonlySet<string> = new Set(["$schema", "$id", "$comment", "title", "default", "examples", "example"]);

/** The output of a tool without structured content. */
const TEXT: Json = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
const NO_INPUT: Json = { type: "object", properties: {} };

export function draftOf({ name, pinned, sha256 }: Definition): ToolDraft {
  const { description, inputSchema, outputSchema, annotations } = pinned;
  const notes: string[] = [];
  const hinted = isTable(annotations) ? annotations : {};
  const isVisible = visible(JSON.stringify(pinned)) === JSON.stringify(pinned);
  const isSmall = JSON.stringify(pinned).length <= DEFINITION_BYTES_MAX;
  if (!isVisible) notes.push("its definition has invisible characters: read the description before you use it");
  const definition: { readonly [key: string]: Json } = isVisible && isSmall ? { definition: pinned as Json } : {};
  return {
    name,
    description: shortText(description, DESCRIPTION_CHARACTERS_MAX) || `Calls ${bounded(name)}`,
    // What a server says about its tools can only raise the classification.
    classification: hinted["destructiveHint"] === true ? "destructive" : "write",
    saysReadOnly: hinted["readOnlyHint"] === true,
    hints:
      hinted["readOnlyHint"] === true
        ? ["The server says that this tool only reads. If you trust it in this: classification: read"]
        : [],
    target: { mcp: { tool: name, definitionSha256: sha256, ...definition } },
    input: isTable(inputSchema) ? explicit(cleaned(inputSchema as Json, { path: "input", notes })) : NO_INPUT,
    output: isTable(outputSchema) ? cleaned(outputSchema as Json, { path: "output", notes }) : TEXT,
    notes,
  };
}

function shortText(text: Json | undefined, charactersMax: number): string {
  if (typeof text !== "string") return "";
  const line = text.trim().replace(/\s+/g, " ");
  return bounded(line, charactersMax);
}

/** Says of the arguments that are objects of any form that they are: the loader refuses those that name nothing and do not say so. */
function explicit(input: Json): Json {
  const within = (schema: Json): Json => {
    if (isList(schema)) return schema.map(within);
    if (!isTable(schema)) return schema;
    const members = Object.entries(schema as Readonly<Record<string, Json>>).map(([key, value]): [string, Json] => {
      if (DATA.has(key) || key === "description") return [key, value];
      if (!NAMED.has(key) || !isTable(value)) return [key, within(value)];
      return [key, Object.fromEntries(Object.entries(value).map(([name, each]) => [name, within(each as Json)]))];
    });
    const isAnyObject = [schema["type"]].flat().includes("object") && !OBJECT_KEYWORDS.some((key) => key in schema);
    return Object.fromEntries(isAnyObject ? [...members, ["additionalProperties", true] as const] : members);
  };
  const { additionalProperties, ...rest } = within(input) as Readonly<Record<string, Json>>;
  const isDeclared = isTable(input) && "additionalProperties" in input;
  return isDeclared && additionalProperties !== undefined ? { ...rest, additionalProperties } : rest;
}

/** Keywords that say which members an object has. */
const OBJECT_KEYWORDS = ["properties", "patternProperties", "additionalProperties", "allOf", "anyOf", "oneOf", "$ref"];

interface Cleaning {
  readonly path: string;
  readonly notes: string[];
}

/** Returns a schema as the loader accepts it: known keywords, and references to `$defs`. */
function cleaned(schema: Json, at: Cleaning): Json {
  if (isList(schema)) return schema.map((each) => cleaned(each, at));
  if (!isTable(schema)) return schema;
  const members = Object.entries(schema as Readonly<Record<string, Json>>).flatMap(
    ([written, value]): [string, Json][] => {
      const key = written === "definitions" ? "$defs" : written;
      if (!KEPT.has(key)) {
        const isKnown = SILENT.has(key) || key.startsWith("x-");
        const note = `${at.path}: the keyword ${bounded(key, 32)} is left out`;
        if (!isKnown && at.notes.length < NOTES_MAX && !at.notes.includes(note)) at.notes.push(note);
        return [];
      }
      if (key === "description") return [[key, shortText(value, DESCRIPTION_IN_SCHEMA_CHARACTERS_MAX)]];
      if (key === "$ref")
        return [[key, typeof value === "string" ? value.replace(/^#\/definitions\//, "#/$defs/") : value]];
      if (DATA.has(key)) return [[key, value]];
      if (!NAMED.has(key) || !isTable(value)) return [[key, cleaned(value, at)]];
      const named = Object.entries(value as Readonly<Record<string, Json>>).map(([name, each]) => [
        name,
        cleaned(each, at),
      ]);
      return [[key, Object.fromEntries(named)]];
    },
  );
  return Object.fromEntries(members);
}
