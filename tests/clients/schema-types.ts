import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { IDEMPOTENCY_KEY, WAIT_SECONDS_MAX } from "../../src/core/call-fields.ts";
import { STAGE_NAMES, STAGES, type Stage } from "../../src/core/refusals.ts";
import { TOOL_FORMATS } from "../../src/core/tool-export.ts";
import { openApiDocument } from "../../src/http/openapi.ts";

/**
 * What the clients know of the service: types, generated from the named schemas of `/openapi.json`, and facts of its own code. Run as
 * a program it writes the files of all languages; a test compares them.
 */
export const CLIENTS = join(resolve(import.meta.dir, "../.."), "clients");

/** The part of JSON Schema that the document's named schemas use. */
export interface Schema {
  readonly $ref?: string;
  /** Names a schema that is part of another one: it becomes a type of its own. */
  readonly title?: string;
  readonly description?: string;
  readonly type?: "string" | "number" | "integer" | "boolean" | "object" | "array";
  readonly const?: string | boolean;
  readonly enum?: readonly string[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

/** A schema with a name of its own: a type in every language. */
export interface NamedSchema {
  readonly name: string;
  readonly schema: Schema;
}

/** A fact of the service that the clients use. */
interface Constant {
  readonly name: string;
  readonly doc: string;
  readonly value: number | RegExp | readonly Stage[];
}

const CONSTANTS: readonly Constant[] = [
  {
    name: "STAGES_BEFORE_KEY",
    doc: "Stages before the service looks for the first answer to a repeated call: a refusal there says nothing about the first one.",
    value: STAGE_NAMES.filter((stage) => STAGES[stage].run === "unread"),
  },
  { name: "WAIT_SECONDS_MAX", doc: "How long the service holds a request at most.", value: WAIT_SECONDS_MAX },
  { name: "IDEMPOTENCY_KEY", doc: "Values of the header `Idempotency-Key`.", value: IDEMPOTENCY_KEY },
];

/** The forms of `GET /tools?format=` for a model's API. */
const MODEL_FORMAT: NamedSchema = {
  name: "ModelFormat",
  schema: { enum: TOOL_FORMATS.filter((format) => format !== "json") },
};

/** Each language: its file below `clients/`, and its text for the schemas, which come in an order without forward references. */
export const LANGUAGES: readonly { readonly file: string; write(schemas: readonly NamedSchema[]): string }[] = [
  { file: "typescript/src/schema.ts", write: typescript },
  { file: "python/src/safe_tool_call/schema.py", write: python },
];

/** Returns the named schemas of an OpenAPI document, those that others refer to first. */
export function namedSchemas(document: unknown): readonly NamedSchema[] {
  const { components } = document as { readonly components: { readonly schemas: Readonly<Record<string, Schema>> } };
  const found = new Map<string, Schema>();
  const add = (name: string, schema: Schema): void => {
    if (found.has(name)) return;
    visitParts(schema);
    found.set(name, schema);
  };
  const visit = (schema: Schema): void => {
    const name = nameOf(schema);
    const declared = schema.$ref === undefined ? schema : components.schemas[name ?? ""];
    if (declared === undefined) throw new Error(`${schema.$ref}: not in the document`);
    if (name === undefined) visitParts(schema);
    else add(name, declared);
  };
  const visitParts = ({ items, properties = {}, anyOf = [] }: Schema): void => {
    for (const part of [...Object.values(properties), ...anyOf, ...(items === undefined ? [] : [items])]) visit(part);
  };
  for (const [name, schema] of Object.entries(components.schemas)) add(name, schema);
  return [...[...found].map(([name, schema]) => ({ name, schema })), MODEL_FORMAT];
}

/** Returns the name of the type that a part refers to; undefined for a part without a name. */
export function nameOf({ $ref, title }: Schema): string | undefined {
  return $ref === undefined ? title : $ref.slice($ref.lastIndexOf("/") + 1);
}

function typescript(schemas: readonly NamedSchema[]): string {
  const declarations = schemas.map(({ name, schema }) => {
    const { title: _, ...declared } = schema;
    const type = typeOf(declared, "");
    return `${comment(schema, "")}export ${schema.properties === undefined ? `type ${name} = ${type};` : `interface ${name} ${type}`}\n`;
  });
  const constants = CONSTANTS.map(({ name, doc, value }) => {
    const text = Array.isArray(value) ? `new Set(${JSON.stringify(value)})` : String(value);
    return `/** ${doc} */\nexport const ${name}${Array.isArray(value) ? ": ReadonlySet<Stage>" : ""} = ${text};\n`;
  });
  const head = "// Generated from the service by `bun run clients:types`: do not edit.\n";
  return [head, ...declarations, ...constants].join("\n");
}

function typeOf(schema: Schema, indent: string): string {
  const { type, enum: values, anyOf, items, properties } = schema;
  const name = nameOf(schema);
  if (name !== undefined) return name;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (values !== undefined) return values.map((value) => JSON.stringify(value)).join(" | ");
  if (anyOf !== undefined) return anyOf.map((part) => typeOf(part, indent)).join(" | ");
  if (properties !== undefined) return objectOf(schema, indent);
  if (type === "object") return "Readonly<Record<string, unknown>>";
  if (type !== "array") return type === "integer" ? "number" : (type ?? "unknown");
  const item = typeOf(items ?? {}, indent);
  return `readonly ${/[ |]/.test(item) ? `(${item})` : item}[]`;
}

function objectOf({ properties = {}, required = [] }: Schema, indent: string): string {
  const inner = `${indent}  `;
  const members = Object.entries(properties).map(([name, part]) => {
    const isOptional = !required.includes(name);
    return `${comment(part, inner)}${inner}readonly ${name}${isOptional ? "?" : ""}: ${typeOf(part, inner)};\n`;
  });
  return `{\n${members.join("")}${indent}}`;
}

function comment({ description }: Schema, indent: string): string {
  return description === undefined ? "" : `${indent}/** ${description} */\n`;
}

/** Python 3.10 marks optional members by a second class: `NotRequired` is newer. */
function python(schemas: readonly NamedSchema[]): string {
  const declarations = schemas.map(({ name, schema }) => {
    if (schema.properties !== undefined) return pythonClass(name, schema);
    const { title: _, ...declared } = schema;
    return `${name} = ${pythonType(declared)}\n${docstring(schema, "")}`;
  });
  const constants = CONSTANTS.map(({ name, doc, value }) => `${name} = ${pythonValue(value)}\n"""${doc}"""\n`);
  const head = `"""Generated from the service by \`bun run clients:types\`: do not edit."""

from __future__ import annotations

import re
from typing import Any, Literal, TypedDict, Union
`;
  return [head, ...declarations, constants.join("\n")].join("\n\n");
}

function pythonValue(value: Constant["value"]): string {
  if (value instanceof RegExp) return `re.compile(r"${value.source.slice(1, -1)}\\Z")`;
  return typeof value === "number" ? String(value) : `frozenset({${value.map((stage) => `"${stage}"`).join(", ")}})`;
}

function pythonClass(name: string, schema: Schema): string {
  const { properties = {}, required = [] } = schema;
  const membersOf = (isRequired: boolean): string => {
    const chosen = Object.entries(properties).filter(([key]) => required.includes(key) === isRequired);
    return chosen.map(([key, part]) => `    ${key}: ${pythonType(part, "    ")}\n${docstring(part, "    ")}`).join("");
  };
  const [always, optional] = [membersOf(true), membersOf(false)];
  const doc = docstring(schema, "    ");
  if (optional === "") return `class ${name}(TypedDict):\n${doc}${doc && "\n"}${always}`;
  const base = `class _${name}Always(TypedDict):\n${always}`;
  return `${base}\n\nclass ${name}(_${name}Always, total=False):\n${doc}${doc && "\n"}${optional}`;
}

/** Returns a type of at most one line, or one value in each. */
function pythonType(schema: Schema, indent = ""): string {
  const { type, enum: values, anyOf, items } = schema;
  const name = nameOf(schema);
  if (name !== undefined) return name;
  if (schema.properties !== undefined) throw new Error("an object with properties needs a title, which names its type");
  if (schema.const !== undefined) return `Literal[${schema.const === true ? "True" : JSON.stringify(schema.const)}]`;
  if (values !== undefined) {
    const listed = values.map((value) => JSON.stringify(value));
    const line = `Literal[${listed.join(", ")}]`;
    return line.length <= 100
      ? line
      : `Literal[\n${listed.map((value) => `${indent}    ${value},\n`).join("")}${indent}]`;
  }
  if (anyOf !== undefined) return `Union[${anyOf.map((part) => pythonType(part, indent)).join(", ")}]`;
  if (type === "array") return `list[${pythonType(items ?? {}, indent)}]`;
  const plain = { string: "str", number: "float", integer: "int", boolean: "bool", object: "dict[str, Any]" } as const;
  return type === undefined ? "Any" : plain[type];
}

function docstring({ description }: Schema, indent: string): string {
  return description === undefined ? "" : `${indent}"""${description}"""\n`;
}

if (import.meta.main) {
  const schemas = namedSchemas(openApiDocument([]));
  for (const { file, write } of LANGUAGES) writeFileSync(join(CLIENTS, file), write(schemas));
}
