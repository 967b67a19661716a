import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { escapeJson, escapeLine } from "../../audit/escape.ts";
import { createDefineTool } from "../../core/define-tool.ts";
import { systemCode } from "../../core/error-text.ts";
import type { Fault } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import { zodFromJson } from "../../core/json-schema/zod.ts";
import { element, otherKey, type Step } from "../../core/output-policy/field-path.ts";
import { namesOf, type PolicyField, pathOf, policyFields } from "../../core/output-policy/output-fields.ts";
import { personalName } from "../../core/output-policy/personal-names.ts";
import { declaredTarget, type ToolDraft } from "../../core/target-kind.ts";
import type { FieldAction, Json, Tool, ToolClassification } from "../../core/types.ts";
import { labelOf } from "../../detection/labels.ts";
import { MODULES } from "../../modules.ts";
import { readDataOnly } from "../../runtime/manifests/data-only.ts";

/** A tool that a command proposes. Everything but `name`, `permissions` and `notes` may hold texts that others wrote. */
export interface ManifestDraft {
  /** From `toolName`. */
  readonly name: string;
  readonly title?: string;
  readonly description: string;
  readonly classification: ToolClassification;
  readonly permissions: readonly string[];
  readonly target: Json;
  /** JSON Schemas. */
  readonly input: Json;
  readonly output: Json;
  /** Further fields of the manifest. */
  readonly others?: Readonly<Record<string, Json>>;
  /** Comments, in our own words. */
  readonly notes?: readonly string[];
  /** The author accepts the suggestions: they are the output policy, instead of comments in it. */
  readonly accepted?: boolean;
  /** Facts about output fields besides their names, by path. */
  readonly fields?: ToolDraft["fields"];
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
const OPERATORS = /^(?:approvals|audit|configuration|grants|metrics|modes|service|tools)$/;
const VERBS: Readonly<Record<ToolClassification, string>> = { read: "read", write: "write", destructive: "delete" };

/** Returns the permission to propose for a tool of a system. */
export function proposedPermission(system: string, classification: ToolClassification): string {
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
 * Returns a manifest as YAML. Texts are data: every scalar is plain, in quotes with hidden characters escaped, or a block of visible
 * lines. Comments hold our own words, and names of fields that consist of letters, digits, `_` and `-`.
 */
export function manifestText(draft: ManifestDraft): string {
  const {
    name,
    title,
    description,
    classification,
    permissions,
    target,
    input,
    output,
    others,
    notes = [],
    accepted = false,
    fields,
  } = draft;
  const head = { name, ...(title !== undefined && { title }), description, classification };
  return [
    EDITOR_HINT,
    ...notes.map((note) => `# ${escapeLine(note)}`),
    "",
    ...tableLines({ ...head, permissions: { required: permissions }, ...others }, ""),
    ...["", ...tableLines({ target }, ""), "", ...tableLines({ input }, ""), "", ...tableLines({ output }, ""), ""],
    ...policyLines(output, { accepted, fields }),
    "",
    ...errorLines(target, accepted),
  ].join("\n");
}

/** Returns the line that releases error texts, for a target that has some. */
function errorLines(target: Json, accepted: boolean): readonly string[] {
  const { kind, part } = declaredTarget({ target }, MODULES.targetKinds) ?? {};
  if (kind !== undefined && kind.hasErrorText?.(part) !== true) return [];
  return [
    "# What the target says about a failure, without secrets; a text with personal data is withheld.",
    `${accepted ? "" : "# "}errors: filtered`,
    "",
  ];
}

const POLICY_LINES_MAX = 400;
/** Outputs with more fields get one line for a part of which everything is suggested to be allowed. */
const FIELDS_LISTED_MAX = 60;
const PLAIN_NAME = /^[A-Za-z0-9_-]{1,64}$/;
/** A path that needs no quotes as a key. */
const PLAIN_PATH = /^[A-Za-z_](?:[A-Za-z0-9_.-]|\[\])*$/;
const PATH_CHARACTERS_MAX = 300;

/** A line of a policy: a field, or a part of an answer. */
interface Suggested {
  readonly steps: readonly Step[];
  /** Undefined: nothing says what the part holds, so somebody has to decide. */
  readonly action: FieldAction | undefined;
  readonly reason: string;
}

/**
 * Returns an output policy with a suggestion for each field by its name: as comments, so that it releases nothing, or as its lines.
 * Parts that the schema does not describe are comments in either case.
 */
function policyLines(
  output: Json,
  { accepted, fields: facts }: Required<Pick<ManifestDraft, "accepted">> & Pick<ManifestDraft, "fields">,
): readonly string[] {
  const fields = fieldsOf(output);
  const lined = fields.flatMap((field) => suggestions(field).map((line) => withFacts(line, field, facts)));
  const named = new Map(lined.map((line) => [pathOf(line.steps), line]));
  const all = [...named.values()].filter(({ steps }) => isNameable(steps));
  const parts = all.length > FIELDS_LISTED_MAX ? merged(all) : all;
  const suggested = withoutLeaks(parts.slice(0, POLICY_LINES_MAX), [...named.values()]);
  const lines = suggested.map((line) => policyLine(line, accepted));
  const missing = named.size - all.length + parts.length - suggested.length;
  const heading = accepted
    ? "Suggested by the names of the fields, and accepted: read each line. Fields without a line are left out of every answer."
    : "Fields without a line here are left out of every answer. Remove the # of what agents may see; mask hides most of a value.";
  const hasText = named.size > 0;
  return [
    `# ${heading}`,
    ...(missing > 0 ? [`# Not listed here: ${missing} more, because of their names or their number.`] : []),
    ...(lines.length === 0 ? ["outputPolicy: {}"] : ["outputPolicy:", ...lines]),
    ...(hasText
      ? [
          "",
          "# Hides personal data that has a shape, such as e-mail addresses, in what is allowed.",
          `scan: { "*": balanced }`,
        ]
      : []),
  ];
}

function policyLine({ steps, action, reason }: Suggested, accepted: boolean): string {
  const path = pathOf(steps);
  const key = PLAIN_PATH.test(path) && !RESERVED.test(path) ? path : scalar(path, "key");
  const mark = accepted && action !== undefined ? "" : "# ";
  return `  ${mark}${key}: ${action ?? "allow"}${reason === "" ? "" : ` # ${reason}`}`;
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

function isNameable(steps: readonly Step[]): boolean {
  const isPlain = steps.every((step) => step === element || step === wholeAnswer || PLAIN_NAME.test(String(step)));
  return isPlain && pathOf(steps).length <= PATH_CHARACTERS_MAX;
}

/** Returns the line for a field; none for an answer that is one value, which no pattern names. */
function suggestions({ steps: all, kind }: Pick<PolicyField, "steps" | "kind">): readonly Suggested[] {
  const keysAreData = all.indexOf(otherKey);
  const steps = keysAreData === -1 ? all : all.slice(0, keysAreData);
  if (keysAreData !== -1) {
    const whole = steps.length === 0 ? [wholeAnswer] : steps;
    return [{ steps: whole, action: undefined, reason: "holds names and values that the schema does not list" }];
  }
  if (steps.length === 0) return [];
  const names = namesOf(steps).map(({ name }) => name);
  const isNumber = kind === "number";
  if (kind !== "closed" && !isNumber && names.some((name) => labelOf(name).secret !== undefined)) {
    return [{ steps, action: "redact", reason: "a secret, by its name" }];
  }
  if (kind === "open") return [{ steps, action: undefined, reason: "may hold anything" }];
  const personal = kind === "closed" ? undefined : personalName(names);
  const isPersonal = personal !== undefined && (!isNumber || personal.takesNumber);
  return [
    isPersonal
      ? { steps, action: "mask", reason: "personal data, by its name" }
      : { steps, action: "allow", reason: "" },
  ];
}

/** Returns the strictest suggestion for a field: from its name, from its names in the system, and from the system's rule. */
function withFacts(line: Suggested, { steps, kind }: PolicyField, facts: ManifestDraft["fields"] = {}): Suggested {
  const path = pathOf(steps);
  const { names = [], rule } = (Object.hasOwn(facts, path) ? facts[path] : undefined) ?? {};
  const [other] = names.length === 0 ? [] : suggestions({ steps: names, kind });
  const isHidden = (action: FieldAction | undefined): boolean => action === "mask" || action === "redact";
  const found =
    isHidden(line.action) || other === undefined || !isHidden(other.action) ? line : { ...other, steps: line.steps };
  if (rule === undefined || found.action === "redact") return found;
  return { ...found, action: rule, reason: "as the system's rules say" };
}

/** The pattern for everything. */
const wholeAnswer = "*";

/** Returns one line for each part of which all fields are to be allowed, and the others as they are. */
function merged(lines: readonly Suggested[]): readonly Suggested[] {
  const kept = new Set(lines.filter(({ action }) => action !== "allow").flatMap(({ steps }) => prefixes(steps)));
  const parts = new Map<string, { readonly steps: readonly Step[]; fields: number; readonly line: Suggested }>();
  for (const line of lines) {
    const prefix = line.action === "allow" ? partOf(line.steps, kept) : line.steps;
    const path = pathOf(prefix);
    const part = parts.get(path) ?? { steps: prefix, fields: 0, line };
    part.fields += 1;
    parts.set(path, part);
  }
  return [...parts.values()].map(({ steps, fields, line }) =>
    fields === 1 && pathOf(steps) === pathOf(line.steps)
      ? line
      : { ...line, steps, reason: `${fields} fields below it` },
  );
}

/** Returns the shortest part of an answer around a field, below its first name, in which all fields are to be allowed. */
function partOf(steps: readonly Step[], kept: ReadonlySet<string>): readonly Step[] {
  const first = steps.findIndex((step) => typeof step === "string");
  const lengths = steps.map((_, index) => index + 1).filter((length) => length > first && steps[length] !== element);
  const found = lengths.find((length) => !kept.has(pathOf(steps.slice(0, length))));
  return found === undefined ? steps : steps.slice(0, found);
}

/**
 * Returns lines of which none opens a field that has another suggestion: a value may be a text or an object, and allowing the text
 * allows the object. Such a field gets a line that hides it, or if it has no line, the value is left to be decided.
 */
function withoutLeaks(lines: readonly Suggested[], all: readonly Suggested[]): readonly Suggested[] {
  const listed = new Set(lines.map(({ steps }) => pathOf(steps)));
  const guarded = all.filter(({ action }) => action !== "allow").map(({ steps }) => prefixes(steps));
  const allowed = new Set(lines.filter(({ action }) => action === "allow").map(({ steps }) => pathOf(steps)));
  for (const above of guarded) {
    if (listed.has(above.at(-1) ?? "")) continue;
    for (const path of above) allowed.delete(path);
  }
  return lines.map((line) => {
    const above = prefixes(line.steps).slice(0, -1);
    if (line.action === "allow" && !allowed.has(pathOf(line.steps))) {
      return { ...line, action: undefined, reason: "would also release what is not listed below it" };
    }
    if (line.action === undefined && above.some((path) => allowed.has(path))) return { ...line, action: "redact" };
    return line;
  });
}

function prefixes(steps: readonly Step[]): readonly string[] {
  return steps.map((_, index) => pathOf(steps.slice(0, index + 1)));
}

/** Returns the tool of a generated manifest. */
export function loadedManifest(text: string): Tool {
  const kinds = MODULES.targetKinds;
  const read = readDataOnly(text, { define: createDefineTool(kinds), kinds });
  if ("problems" in read) throw new Error(`the manifest does not load: ${read.problems.join("; ")}`);
  return read.tool;
}

/** Returns what keeps a manifest from being loaded; empty: it loads. `check` finds what the configuration has against the tool. */
export function manifestProblems(text: string, check: (tool: Tool) => readonly Fault[] = () => []): readonly string[] {
  const kinds = MODULES.targetKinds;
  const read = readDataOnly(text, { define: createDefineTool(kinds), kinds });
  if ("problems" in read) return read.problems;
  return check(read.tool).map(({ field, message }) => `${field}: ${message}`);
}

/** The text of a manifest, or why there is none. */
export type Made = { readonly text: string } | { readonly problem: string };

/** Returns the text of a manifest if it can be loaded: one that cannot would stop the service's next start. */
export function madeManifest(text: string, check?: (tool: Tool) => readonly Fault[]): Made {
  const [problem, another] = manifestProblems(text, check);
  if (problem === undefined) return { text };
  return { problem: `no manifest can say this: ${problem}${another === undefined ? "" : "; and more"}` };
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

/**
 * Returns an output schema that only says which fields there are, and their types: services leave out what their documents require,
 * send null, and longer or other texts. Choices stay, because a policy decides by them.
 */
export function tolerant(schema: Json): Json {
  return tolerantPart(schema, true);
}

const STRICT_KEYWORDS: ReadonlySet<string> = new Set(
  listed(
    "required, minLength, maxLength, pattern, format, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf",
  ),
);
const COUNTING_KEYWORDS: ReadonlySet<string> = new Set(
  listed("minItems, maxItems, uniqueItems, minProperties, maxProperties, dependentRequired, propertyNames, contains"),
);

function listed(words: string): readonly string[] {
  return words.split(", ");
}

function tolerantPart(schema: Json, isRoot: boolean): Json {
  if (!isTable(schema)) return schema;
  const table = schema as Readonly<Record<string, Json>>;
  const members = Object.entries(table).flatMap(([key, value]): [string, Json][] => {
    if (STRICT_KEYWORDS.has(key) || COUNTING_KEYWORDS.has(key)) return [];
    if (key === "additionalProperties" && value === false) return [];
    if (key === "type" && !isRoot) return [[key, withNull(value)]];
    if (key === "enum" && !isRoot && Array.isArray(value))
      return [[key, value.includes(null) ? value : [...value, null]]];
    if (key === "items" || key === "additionalProperties") return [[key, tolerantPart(value, false)]];
    if (key === "properties" || key === "$defs") {
      const parts = Object.entries(value as object).map(([name, part]) => [name, tolerantPart(part as Json, false)]);
      return [[key, Object.fromEntries(parts)]];
    }
    const isChoice = key === "anyOf" || key === "oneOf" || key === "allOf";
    // Without its constraints, a value of one form may also fit others.
    if (isChoice && Array.isArray(value)) {
      return [[key === "oneOf" ? "anyOf" : key, value.map((part: Json) => tolerantPart(part, isRoot))]];
    }
    return [[key, value]];
  });
  return Object.fromEntries(members);
}

/** Returns a schema of arguments with only their names, types and choices, and which of them are required. */
export function openInput(input: Json): Json {
  const { properties = {}, ...others } = input as Readonly<Record<string, Json>>;
  const parts = Object.entries(properties as object).map(([name, part]) => [name, openPart(part as Json)]);
  return { ...others, properties: Object.fromEntries(parts) };
}

function openPart(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(openPart);
  if (!isTable(schema)) return schema;
  const members = Object.entries(schema as Readonly<Record<string, Json>>).flatMap(([key, value]): [string, Json][] => {
    // A path needs texts of a bounded length.
    if (key === "maxLength" || key === "default" || key === "enum" || key === "const") return [[key, value]];
    if (STRICT_KEYWORDS.has(key) || COUNTING_KEYWORDS.has(key)) return [];
    if (key === "additionalProperties") return [[key, value === false ? true : openPart(value)]];
    if (key !== "properties") return [[key, openPart(value)]];
    const parts = Object.entries(value as object).map(([name, part]) => [name, openPart(part as Json)]);
    return [[key, Object.fromEntries(parts)]];
  });
  const isObject = members.some(([key]) => key === "properties");
  return { ...(isObject && { additionalProperties: true }), ...Object.fromEntries(members) };
}

function withNull(type: Json): Json {
  const types = [type].flat() as readonly Json[];
  return types.includes("null") ? type : [...types, "null"];
}

/** Returns the lines of a table as YAML, as in `manifestText`. */
export function tableText(table: Readonly<Record<string, unknown>>): readonly string[] {
  return tableLines(table, "");
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
  if (isBlock(value)) return [`${start} |-`, ...value.split("\n").map((line) => (line === "" ? "" : below + line))];
  return [`${start} ${scalar(value, "block")}`];
}

/** Returns whether a text stays the same as a YAML block: visible ASCII, without spaces that YAML could treat as part of the block. */
function isBlock(value: unknown): value is string {
  return (
    typeof value === "string" && /^[!-~][ -~]*(?:\n(?:[ -~]*[!-~])?)*\n[ -~]*[!-~]$/.test(value) && !/ \n/.test(value)
  );
}

/** Returns a value on one line; undefined when it is longer, or a table of tables, which reads better on several lines. */
function flowText(value: unknown, charactersMax: number): string | undefined {
  if (isBlock(value)) return undefined;
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
