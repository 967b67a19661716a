import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { escapeJson, escapeLine } from "../../audit/escape.ts";
import { createDefineTool } from "../../core/define-tool.ts";
import { systemCode } from "../../core/error-text.ts";
import { isTable } from "../../core/json.ts";
import { zodFromJson } from "../../core/json-schema/zod.ts";
import { otherKey } from "../../core/policy/field-path.ts";
import { personalName } from "../../core/policy/personal-names.ts";
import { namesOf, type PolicyField, policyFields } from "../../core/policy/policy-fields.ts";
import type { Classification, Json } from "../../core/types.ts";
import { labelOf } from "../../detection/labels.ts";
import { readDataOnly } from "../../runtime/manifests/data-only.ts";
import { MODULES } from "../../runtime/modules.ts";

/** A tool that a command proposes. Everything but `name`, `permissions` and `notes` may hold texts that others wrote. */
export interface ManifestDraft {
  /** From `toolName`. */
  readonly name: string;
  readonly title?: string;
  readonly description: string;
  readonly classification: Classification;
  readonly permissions: readonly string[];
  readonly target: Json;
  /** JSON Schemas. */
  readonly input: Json;
  readonly output: Json;
  /** Further fields of the manifest. */
  readonly others?: Readonly<Record<string, Json>>;
  /** Comments, in our own words. */
  readonly notes?: readonly string[];
}

const NAME_CHARACTERS_MAX = 64;
const HASH_CHARACTERS = 6;

/** Returns a name for a tool, from any text: lower-case letters, digits and `_`, unlike all names that are taken. */
export function toolName(words: string, taken: ReadonlySet<string> = new Set()): string {
  const name = snakeCase(words) || "tool";
  const plain = /^[a-z]/.test(name) ? name : `tool_${name}`;
  const isUsable = plain.length <= NAME_CHARACTERS_MAX && !taken.has(plain);
  if (isUsable) return plain;
  const hash = createHash("sha256").update(words).digest("hex").slice(0, HASH_CHARACTERS);
  const cut = plain.slice(0, NAME_CHARACTERS_MAX - HASH_CHARACTERS - 1).replace(/_+$/, "");
  return numbered(`${cut}_${hash}`, taken);
}

/** Returns a text in lower-case letters and digits, with `_` between its words. */
export function snakeCase(text: string): string {
  return text
    .slice(0, 512)
    .normalize("NFKD")
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .replace(/([A-Z])([A-Z][a-z])/g, "$1_$2")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "_")
    .replace(/^_+|_+$/g, "");
}

/** Returns a name with a number at its end, unlike all names that are taken. */
export function numbered(name: string, taken: ReadonlySet<string>): string {
  for (let number = 1; ; number += 1) {
    const numeral = number === 1 ? "" : `_${number}`;
    const tried = `${name.slice(0, NAME_CHARACTERS_MAX - numeral.length)}${numeral}`;
    if (!taken.has(tried)) return tried;
  }
}

/** Permissions that belong to operators begin with these. */
const OPERATORS = /^(?:approvals|audit|modes|grants|metrics|service)$/;
const VERBS: Readonly<Record<Classification, string>> = { read: "read", write: "write", destructive: "delete" };

/** Returns the permission to propose for a tool of a system. */
export function proposedPermission(system: string, classification: Classification): string {
  return `${OPERATORS.test(system) ? `${system}-api` : system}:${VERBS[classification]}`;
}

/** Returns a text on one line, of at most `charactersMax` characters, in which hidden characters are written as `\u…`. */
export function shownText(text: string, charactersMax: number): string {
  const line = escapeLine(
    text
      .slice(0, charactersMax * 2)
      .replace(/\s+/g, " ")
      .trim(),
  );
  if (line.length <= charactersMax) return line;
  const cut = line.slice(0, charactersMax - 1).replace(/\\u?[0-9a-f]{0,3}$|[\ud800-\udbff]$/, "");
  return `${cut.trimEnd()}…`;
}

/** Names the schema that `stc schema tool` prints, in a file next to the manifest: it needs no network, and fits the version in use. */
const EDITOR_HINT = "# yaml-language-server: $schema=tool.schema.json";

/**
 * Returns a manifest as YAML. Texts are data: every scalar is plain or in quotes, with hidden characters escaped. Comments hold our
 * own words, and names of fields that consist of letters, digits, `_` and `-`.
 */
export function manifestText(draft: ManifestDraft): string {
  const { name, title, description, classification, permissions, target, input, output, others, notes = [] } = draft;
  const head = { name, ...(title !== undefined && { title }), description, classification };
  return [
    EDITOR_HINT,
    ...notes.map((note) => `# ${escapeLine(note)}`),
    "",
    ...tableLines({ ...head, permissions: { required: permissions }, ...others }, ""),
    ...["", ...tableLines({ target }, ""), "", ...tableLines({ input }, ""), "", ...tableLines({ output }, ""), ""],
    ...policyLines(output),
    "",
  ].join("\n");
}

const POLICY_LINES_MAX = 400;
const PLAIN_NAME = /^[A-Za-z0-9_-]{1,64}$/;
/** A path that needs no quotes as a key. */
const PLAIN_PATH = /^[A-Za-z_](?:[A-Za-z0-9_.-]|\[\])*$/;
const PATH_CHARACTERS_MAX = 300;

/** Returns an output policy that releases nothing and lists every field as a comment, with a suggestion by its name. */
function policyLines(output: Json): readonly string[] {
  const fields = fieldsOf(output);
  const named = new Map(fields.filter(isListable).map((field) => [field.path, field]));
  const lines = [...named.values()].slice(0, POLICY_LINES_MAX).map(suggestion);
  const missing = new Set(fields.map(({ path }) => path)).size - lines.length;
  return [
    "# Fields without a line here are left out of every answer. Remove the # of what agents may see; mask hides most of a value.",
    ...(missing > 0
      ? [
          `# Not listed here: ${missing} more, because of their names or their number, or because they may hold anything.`,
        ]
      : []),
    ...(lines.length === 0 ? ["outputPolicy: {}"] : ["outputPolicy:", ...lines]),
  ];
}

/** Returns the fields of an answer; none for a schema that cannot be loaded. */
function fieldsOf(output: Json): readonly PolicyField[] {
  const { schema, faults } = zodFromJson("output", output);
  if (faults.length > 0) return [];
  try {
    return policyFields({ output: schema, outputPolicy: {} });
  } catch (error) {
    if (error instanceof RangeError) return [];
    throw error;
  }
}

function isListable({ steps, path, kind }: PolicyField): boolean {
  return (
    steps.length > 0 &&
    kind !== "open" &&
    // Names that the answer chooses: no pattern for them says what it releases.
    !steps.includes(otherKey) &&
    path.length <= PATH_CHARACTERS_MAX &&
    namesOf(steps).every(({ name }) => PLAIN_NAME.test(name))
  );
}

function suggestion({ steps, path }: PolicyField): string {
  const names = namesOf(steps).map(({ name }) => name);
  const key = PLAIN_PATH.test(path) && !RESERVED.test(path) ? path : scalar(path, "key");
  if (names.some((name) => labelOf(name).secret !== undefined)) return `  # ${key}: redact # a secret, by its name`;
  if (personalName(names) !== undefined) return `  # ${key}: mask # personal data, by its name`;
  return `  # ${key}: allow`;
}

/** Returns what keeps a manifest from being loaded; empty: it loads. */
export function manifestProblems(text: string): readonly string[] {
  const kinds = MODULES.targetKinds;
  const read = readDataOnly(text, { define: createDefineTool(kinds), kinds });
  return "problems" in read ? read.problems : [];
}

/**
 * Writes a new manifest and returns its path. Never replaces a file and never follows a link.
 *
 * @throws {Error} that says why the file cannot be written
 */
export function writeManifest(folder: string, name: string, text: string): string {
  const path = join(folder, `${name}.tool.yaml`);
  try {
    mkdirSync(folder, { recursive: true });
    writeFileSync(path, text, { flag: "wx" });
  } catch (error) {
    const code = systemCode(error);
    throw new Error(code === "EEXIST" ? `${path} exists and is left as it is` : `${path} cannot be written (${code})`);
  }
  return path;
}

const LINE_CHARACTERS_MAX = 110;

function tableLines(table: Readonly<Record<string, unknown>>, indent: string): readonly string[] {
  return Object.entries(table).flatMap(([key, value]) => {
    const start = `${indent}${scalar(key, "key")}:`;
    return valueLines(start, value, indent);
  });
}

function listLines(list: readonly unknown[], indent: string): readonly string[] {
  return list.flatMap((value) => valueLines(`${indent}-`, value, indent));
}

function valueLines(start: string, value: unknown, indent: string): readonly string[] {
  const flow = flowText(value, LINE_CHARACTERS_MAX - start.length);
  if (flow !== undefined) return [`${start} ${flow}`];
  const below = `${indent}  `;
  if (Array.isArray(value)) return [start, ...listLines(value, below)];
  if (isTable(value)) return [start, ...tableLines(value, below)];
  return [`${start} ${scalar(value, "block")}`];
}

/** Returns a value on one line; undefined when it is longer, or a table of tables, which reads better on several lines. */
function flowText(value: unknown, charactersMax: number): string | undefined {
  const text = flow(value, 0);
  return text === undefined || text.length > charactersMax ? undefined : text;
}

function flow(value: unknown, depth: number): string | undefined {
  const isList = Array.isArray(value);
  if (!isList && !isTable(value)) return scalar(value, depth === 0 ? "block" : "flow");
  if (depth > 1) return undefined;
  const parts = isList
    ? value.map((inner) => flow(inner, depth + 1))
    : Object.entries(value).map(([key, inner]) => {
        const text = flow(inner, depth + 1);
        return text === undefined || (depth > 0 && isTable(inner)) ? undefined : `${scalar(key, "key")}: ${text}`;
      });
  if (parts.includes(undefined)) return undefined;
  if (parts.length === 0) return isList ? "[]" : "{}";
  return isList ? `[${parts.join(", ")}]` : `{ ${parts.join(", ")} }`;
}

/** Texts that need no quotes: words that no reader of YAML takes for anything else. */
const PLAIN = /^[A-Za-z_](?:[A-Za-z0-9_./'()-]| (?=[A-Za-z0-9_(]))*$/;
const PLAIN_IN_BLOCK = /^[A-Za-z_](?:[A-Za-z0-9_./'(),;-]| (?=[A-Za-z0-9_(]))*$/;
const PLAIN_KEY = /^[A-Za-z_$][A-Za-z0-9_.$-]{0,127}$/;
const RESERVED = /^(?:null|true|false|yes|no|on|off|y|n)$/i;

function scalar(value: unknown, context: "block" | "flow" | "key"): string {
  if (typeof value !== "string") return JSON.stringify(value) ?? "null";
  const plain = { block: PLAIN_IN_BLOCK, flow: PLAIN, key: PLAIN_KEY }[context];
  if (plain.test(value) && !RESERVED.test(value)) return value;
  // A file that holds the replacement character is taken for one that is not UTF-8.
  return escapeJson(JSON.stringify(value.toWellFormed())).replaceAll("\ufffd", "\\ufffd");
}
