import { readFileSync, writeFileSync } from "node:fs";
import { parse } from "yaml";
import { escapeLine } from "../../audit/escape.ts";
import { systemCode } from "../../core/error-text.ts";
import { isTable } from "../../core/json.ts";
import { actionOf } from "../../core/output-policy/rule-states.ts";
import { declaredTarget } from "../../core/target-kind.ts";
import type { FieldAction, Json, OutputFieldPolicy } from "../../core/types.ts";
import { MODULES } from "../../modules.ts";
import { CommandError, EXIT } from "../output.ts";
import { manifestProblems, tableText } from "./manifest-text.ts";

/** The changes to a manifest that `stc learn` proposes. */
export interface LearnedPolicy {
  readonly outputPolicy: readonly {
    readonly path: string;
    readonly action: FieldAction | null;
    readonly reason: string;
  }[];
  readonly described: readonly { readonly path: string; readonly schema: Json }[];
  readonly result?: "json" | undefined;
}

/**
 * Writes a proposal into a tool in YAML: its `outputPolicy`, the parts of `output` that were described, and that its target reads JSON. What
 * the author allowed stays unless the proposal masks or redacts it; what the proposal does not decide is a comment.
 *
 * @throws {CommandError} when the file is not the tool's, or would not load
 */
export function applyProposal(file: string, tool: string, proposal: LearnedPolicy): void {
  const source = readText(file);
  const manifest: unknown = manifestProblems(source).length === 0 ? parse(source) : undefined;
  if (!isTable(manifest) || manifest["name"] !== tool) {
    throw new CommandError(EXIT.failed, `${file} is not a manifest of ${tool} that loads: see stc check`);
  }
  const text = applied(source, manifest, proposal);
  const [problem] = manifestProblems(text);
  if (problem !== undefined)
    throw new CommandError(EXIT.failed, `${file} is left as it is: with the proposal, ${problem}`);
  try {
    writeFileSync(file, text);
  } catch (error) {
    throw new CommandError(EXIT.failed, `${file} cannot be written (${systemCode(error)})`);
  }
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new CommandError(EXIT.failed, `${file} cannot be read (${systemCode(error)})`);
  }
}

type Manifest = Readonly<Record<string, unknown>>;

/** Returns the text of a manifest with a proposal in it. */
export function applied(source: string, manifest: Manifest, proposal: LearnedPolicy): string {
  const { described, result } = proposal;
  const output = described.reduce<Json>(
    (schema, part) =>
      part.path === "" && result === "json" ? part.schema : withPart(schema, stepsOf(part.path), part.schema),
    (manifest["output"] ?? {}) as Json,
  );
  const isReplaced = result === "json";
  const before =
    isTable(manifest["outputPolicy"]) && !isReplaced ? (manifest["outputPolicy"] as OutputFieldPolicy) : {};
  const blocks: [string, readonly string[]][] = [["outputPolicy", policyBlock(before, proposal)]];
  if (described.length > 0) blocks.push(["output", tableText({ output })]);
  if (isReplaced) blocks.push(["target", tableText({ target: readAsJson(manifest["target"]) })]);
  return blocks.reduce((text, [key, lines]) => withBlock(text, key, lines), source);
}

/** Returns the target changed so that the text of its answers is read as JSON. */
function readAsJson(target: unknown): Json {
  const { kind, part } = declaredTarget({ target }, MODULES.targetKinds) ?? {};
  const own = kind?.readAsJson && { [kind.key]: kind.readAsJson(part) };
  return { ...(target as { readonly [key: string]: Json }), ...own };
}

function policyBlock(before: OutputFieldPolicy, { outputPolicy }: LearnedPolicy): readonly string[] {
  const proposed = new Set(outputPolicy.map(({ path }) => path));
  const kept = Object.entries(before).filter(([path]) => !proposed.has(path));
  const lines = [
    ...kept.map(([path, action]) => `  ${JSON.stringify(path)}: ${written(action)}`),
    ...outputPolicy.map(({ path, action, reason }) => {
      const own = before[path];
      const isKept = own !== undefined && (action === null || action === actionOf(own));
      const decided = isKept ? written(own) : (action ?? "allow");
      return `  ${action === null && own === undefined ? "# " : ""}${JSON.stringify(path)}: ${decided} # ${escapeLine(reason)}`;
    }),
  ];
  return lines.some((line) => !line.startsWith("  #")) ? ["outputPolicy:", ...lines] : ["outputPolicy: {}", ...lines];
}

function written(action: OutputFieldPolicy[string]): string {
  return typeof action === "string" ? action : JSON.stringify(action);
}

/** Returns the lines of a text with another block for a top-level key. Comments around the block stay. */
function withBlock(text: string, key: string, block: readonly string[]): string {
  const lines = text.split("\n");
  const start = lines.findIndex((line) => line.startsWith(`${key}:`));
  if (start === -1) return [...lines, ...block, ""].join("\n");
  const next = lines.findIndex((line, index) => index > start && /^[^\s#]/.test(line));
  let end = next === -1 ? lines.length : next;
  while (end > start + 1 && /^(?:#.*|\s*)$/.test(lines[end - 1] ?? "")) end -= 1;
  return [...lines.slice(0, start), ...block, ...lines.slice(end)].join("\n");
}

/** Returns the steps of a path in the notation of policies, whose names are plain. */
function stepsOf(path: string): readonly string[] {
  return path.split(/\.|(?=\[\])/).filter((step) => step !== "");
}

/** Returns a schema with another one for a part of it. Fields that it describes already stay as they are. */
function withPart(schema: Json, [step, ...rest]: readonly string[], part: Json): Json {
  const table = isTable(schema) ? (schema as Readonly<Record<string, Json>>) : {};
  if (step === undefined) return combined(table, part as Readonly<Record<string, Json>>);
  if (step === "[]") return { ...table, items: withPart(table["items"] ?? {}, rest, part) };
  const properties = (table["properties"] ?? {}) as Readonly<Record<string, Json>>;
  return { ...table, properties: { ...properties, [step]: withPart(properties[step] ?? {}, rest, part) } };
}

function combined(
  { additionalProperties: _, ...declared }: Readonly<Record<string, Json>>,
  part: Readonly<Record<string, Json>>,
): Json {
  const properties = {
    ...(part["properties"] as object | undefined),
    ...(declared["properties"] as object | undefined),
  };
  const isNamed = Object.keys(properties).length > 0;
  return { ...part, ...declared, ...(isNamed && { properties }) };
}
