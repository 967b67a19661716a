import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemCode } from "../core/error-text.ts";
import { isList, isTable } from "../core/json.ts";
import { personalName } from "../core/policy/personal-names.ts";
import type { ToolDraft } from "../core/target-kind.ts";
import type { Json } from "../core/types.ts";
import { labelOf } from "../detection/labels.ts";
import { type ConfigurationOptions, withParts } from "./configuration.ts";
import { CommandError, EXIT, print, wrongUsage } from "./output.ts";
import { printableCell } from "./printable.ts";

/**
 * `stc import`: writes data-only manifests for the tools of a system. All texts of the system are data: they are written as quoted
 * texts, never as comments, and file names come from an alphabet of our own.
 */

const NAME_CHARACTERS_MAX = 64;
const DEPTH_MAX = 24;
const FIELDS_MAX = 500;
/** A field that a comment may name: nothing else of a system is ever written into a comment. */
const PLAIN_FIELD = /^[A-Za-z0-9_-]{1,64}$/;

interface ImportOptions extends ConfigurationOptions {
  readonly out: string;
  readonly tool?: readonly string[] | undefined;
  readonly json?: boolean;
}

interface Imported {
  readonly tool: string;
  /** Name of the file; null when nothing was written. */
  readonly file: string | null;
  /** What the author should know, or why nothing was written. */
  readonly notes: readonly string[];
}

/** Writes a manifest for each tool, or for those that are named. An existing file is left as it is. */
export async function importTools(system: string, options: ImportOptions): Promise<void> {
  await withParts(options, async ({ targets, registry }) => {
    const drafts = await targets.drafts(system);
    if (drafts === undefined)
      return wrongUsage(`no system ${printableCell(system)} is configured that tools can be imported from`);
    if (typeof drafts === "string") throw new CommandError(EXIT.unreachable, `systems.${system}: ${drafts}`);
    const wanted = drafts.filter(({ name }) => options.tool === undefined || options.tool.includes(name));
    const unknown = (options.tool ?? []).filter((name) => !drafts.some((draft) => draft.name === name));
    if (unknown.length > 0) {
      const offered = drafts.map(({ name }) => printableCell(name)).join(", ");
      return wrongUsage(`${system} offers no tool ${unknown.map(printableCell).join(", ")}; it offers ${offered}`);
    }
    const taken = new Set(registry.list().map(({ tool }) => tool.name));
    const imported = wanted.map((draft) => write(draft, { system, out: options.out, taken }));
    if (options.json === true) return print.json({ imported });
    for (const { tool, file, notes } of imported) {
      print.line(`${printableCell(tool)}: ${file ?? "not written"}`);
      for (const note of notes) print.line(`  note: ${note}`);
    }
    print.line("Nothing is released yet: allow fields in outputPolicy, then run stc check.");
  });
}

interface Place {
  readonly system: string;
  readonly out: string;
  /** Names of tools that exist. */
  readonly taken: Set<string>;
}

function write(draft: ToolDraft, { system, out, taken }: Place): Imported {
  const name = freeName(draft.name, system, taken);
  taken.add(name);
  const file = `${name}.tool.yaml`;
  try {
    writeFileSync(join(out, file), manifestText(name, system, draft), { flag: "wx" });
    return { tool: draft.name, file, notes: draft.notes };
  } catch (error) {
    const code = systemCode(error);
    const note = code === "EEXIST" ? `${file} exists and is left as it is` : `${file} cannot be written (${code})`;
    return { tool: draft.name, file: null, notes: [note] };
  }
}

/** Returns a valid name for a tool, with the system's name before it when another tool has the name. */
function freeName(offered: string, system: string, taken: ReadonlySet<string>): string {
  const word = (text: string): string =>
    text
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, "_")
      .replace(/^_+|_+$/g, "");
  const valid = (text: string): string => (/^[a-z]/.test(text) ? text : `tool_${text}`).slice(0, NAME_CHARACTERS_MAX);
  const plain = valid(word(offered));
  const candidates = [plain, valid(`${word(system)}_${word(offered)}`)];
  for (let number = 2; ; number += 1) {
    const free = candidates.find((name) => !taken.has(name));
    if (free !== undefined) return free;
    const suffix = `_${number}`;
    candidates.push(`${plain.slice(0, NAME_CHARACTERS_MAX - suffix.length)}${suffix}`);
  }
}

/** Returns the text of a data-only manifest. */
export function manifestText(name: string, system: string, draft: ToolDraft): string {
  const { description, classification, target, input, output, hints } = draft;
  const permission = `${system}:${classification === "read" ? "read" : "write"}`;
  return [
    ...block({ name, description, classification }, 0),
    ...hints.map((hint) => `# ${hint}`),
    ...block({ permissions: { required: [permission] } }, 0),
    "",
    ...block({ target: { system, ...target } }, 0),
    "",
    ...block({ input }, 0),
    "",
    ...block({ output }, 0),
    "",
    ...policyLines(output),
    "",
  ].join("\n");
}

/** Returns a policy that releases nothing, with a suggestion for each field. */
function policyLines(output: Json): readonly string[] {
  const fields = fieldsOf(output, { path: "", names: [], depth: 0 });
  const plain = fields.filter(({ isPlain }) => isPlain).slice(0, FIELDS_MAX);
  const others = fields.length - plain.length;
  return [
    "# Released is what a line below allows. The suggestions come from the fields' names alone: read them before you use them.",
    "outputPolicy:",
    ...plain.map(
      ({ path, names }) => `#  ${path.includes("[") ? JSON.stringify(path) : path}: ${suggestionFor(names)}`,
    ),
    ...(others > 0
      ? [`# ${others} further fields are not listed here: their names are not plain, or there are too many.`]
      : []),
  ];
}

function suggestionFor(names: readonly string[]): string {
  const own = names.at(-1) ?? "";
  if (labelOf(own).secret !== undefined) return "redact";
  return personalName(names) === undefined && labelOf(own).words === "" ? "allow" : "mask";
}

interface Field {
  readonly path: string;
  readonly names: readonly string[];
  readonly isPlain: boolean;
}

interface At {
  readonly path: string;
  readonly names: readonly string[];
  readonly depth: number;
}

/** Returns the innermost fields of an answer, as a policy names them. */
function fieldsOf(schema: Json | undefined, { path, names, depth }: At): readonly Field[] {
  const own = { path, names, isPlain: names.every((name) => PLAIN_FIELD.test(name)) };
  if (!isTable(schema) || depth > DEPTH_MAX) return path === "" ? [] : [own];
  const { properties, items } = schema as Readonly<Record<string, Json>>;
  if (isTable(properties) && Object.keys(properties).length > 0) {
    return Object.entries(properties as Readonly<Record<string, Json>>).flatMap(([name, inner]) =>
      fieldsOf(inner, { path: path === "" ? name : `${path}.${name}`, names: [...names, name], depth: depth + 1 }),
    );
  }
  if (isTable(items)) return fieldsOf(items as Json, { path: `${path}[]`, names, depth: depth + 1 });
  return path === "" ? [] : [own];
}

/** Returns JSON as YAML in block style. Every text is quoted, and every character that is not plain is escaped. */
function block(value: Json, depth: number): readonly string[] {
  const indent = "  ".repeat(depth);
  if (isList(value)) {
    return value.flatMap((item) => {
      if (!isContainer(item)) return [`${indent}- ${scalar(item)}`];
      const [first = "", ...rest] = block(item, depth + 1);
      return [`${indent}- ${first.trimStart()}`, ...rest];
    });
  }
  if (!isTable(value)) return [`${indent}${scalar(value)}`];
  return Object.entries(value as Readonly<Record<string, Json>>).flatMap(([key, inner]) => {
    const name = /^[A-Za-z][A-Za-z0-9_]{0,63}$/.test(key) && !RESERVED.has(key.toLowerCase()) ? key : scalar(key);
    if (!isContainer(inner)) return [`${indent}${name}: ${scalar(inner)}`];
    return [`${indent}${name}:`, ...block(inner, depth + 1)];
  });
}

/** Words that readers of YAML may take for another value than a text. */
const RESERVED: ReadonlySet<string> = new Set(["y", "n", "yes", "no", "on", "off", "true", "false", "null"]);

function isContainer(value: Json): boolean {
  return isList(value) ? value.length > 0 : isTable(value) && Object.keys(value).length > 0;
}

function scalar(value: Json): string {
  if (typeof value === "string") return quoted(value);
  return JSON.stringify(value);
}

/** Returns a text in double quotes, which YAML reads as JSON does. Only visible ASCII and letters are written as they are. */
function quoted(text: string): string {
  return JSON.stringify(text.toWellFormed()).replace(/[^\x20-\x7e\p{L}]/gu, (character) =>
    [...Array(character.length).keys()]
      .map((index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`)
      .join(""),
  );
}
