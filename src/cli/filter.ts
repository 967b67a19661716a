import { readFileSync, statSync } from "node:fs";
import { canonical, NotJsonError } from "../core/digest.ts";
import { Refusal } from "../core/errors.ts";
import type { RegisteredTool } from "../core/evidence.ts";
import { type ExplainedField, explainPolicy, type ValuePath } from "../core/policy/explain.ts";
import { applyPolicy, type CompiledPolicy } from "../core/policy/output-policy.ts";
import type { CompiledScan } from "../core/policy/scan-policy.ts";
import type { Json, OutputPolicy } from "../core/types.ts";
import { fit } from "../pipeline/output-bound.ts";
import { lookThrough, lookThroughFields } from "../pipeline/redactor.ts";
import { assemble } from "../runtime/composition/wiring.ts";
import { wrongUsage } from "./client.ts";
import { type ConfigurationOptions, configuration } from "./configuration.ts";
import { print, StdoutError, table } from "./output.ts";
import { printableCell } from "./printable.ts";

export interface FilterOptions extends ConfigurationOptions {
  readonly sample: string;
  readonly json?: boolean;
}

/** The most that any tool may answer, and some room for how a file is written. */
const SAMPLE_BYTES_MAX = 2 * 67_108_864;
/** As for an answer: containers within containers, values. */
const ANSWER_LIMITS = { depthMax: 64, nodesMax: 500_000 } as const;
const ISSUES_MAX = 20;
const LEFT_OUT_MAX = 100;
const CELL_CHARS_MAX = 72;

interface ShownAnswer extends FilteredAnswer {
  /** Whether only a part of it would leave. */
  readonly truncated?: boolean;
}

interface Issue {
  readonly path: string;
  readonly message: string;
}

/** sysexits.h: there is nothing to be read. */
const NO_SAMPLE = 66;

class SampleError extends Error {}

/** The tool would withhold such an answer. */
class Withheld extends Error {
  readonly code: string;
  readonly issues: readonly Issue[];

  constructor(code: string, issues: readonly Issue[]) {
    super([`withheld, ${code}:`, ...issues.map(({ path, message }) => `${path}: ${message}`)].join("\n"));
    this.code = code;
    this.issues = issues;
  }
}

/**
 * `stc filter`: what an agent would see of an answer, and why. The sample is what the tool's output schema reads: a gRPC message as
 * JSON, what a command's parser returns. Nothing runs. Exit 0, 1 when the tool would withhold the answer, 64 no such tool, 66 no such sample.
 */
export async function filter(name: string, { sample, json, ...options }: FilterOptions): Promise<void> {
  const { config } = await configuration(options);
  const parts = await assemble(config);
  try {
    const found = parts.registry.list().find(({ tool }) => tool.name === name);
    if (found === undefined) return wrongUsage(`there is no tool ${printableCell(name)}; \`stc tools\` lists them`);
    const answer = filterSample(found, readSample(sample));
    if (json === true) print.json({ tool: name, ok: true, ...answer, uncovered: uncoveredIn(answer) });
    else show(answer);
  } catch (error) {
    if (error instanceof StdoutError) throw error;
    process.exitCode = error instanceof SampleError ? NO_SAMPLE : 1;
    if (json === true && error instanceof Withheld) {
      print.json({ tool: name, ok: false, code: error.code, issues: error.issues });
    } else print.error(error instanceof Error ? shownText(error.message) : String(error));
  } finally {
    await parts.close();
  }
}

function readSample(file: string): unknown {
  try {
    if (statSync(file).size > SAMPLE_BYTES_MAX) throw new Error(`is over ${SAMPLE_BYTES_MAX} bytes`);
    return JSON.parse(readFileSync(file, "utf8")) as unknown;
  } catch (error) {
    const why = error instanceof SyntaxError ? "is not JSON" : String(error instanceof Error ? error.message : error);
    throw new SampleError(`${file}: ${why}`);
  }
}

/** The same steps as for every answer: plain JSON → tool's bound → output schema → output policy → redaction. */
function filterSample({ tool, outputPolicy, scan }: RegisteredTool, sample: unknown): ShownAnswer {
  const { outputBytesMax } = tool.limits;
  try {
    const { value, text } = canonical(sample, { ...ANSWER_LIMITS, bytesMax: SAMPLE_BYTES_MAX });
    const fitted = fit(value, text, { bytesMax: outputBytesMax });
    if (fitted === undefined) throw overLimit(outputBytesMax);
    const { value: raw, isCut } = fitted;
    const parsed = tool.output.safeParse(raw);
    if (!parsed.success && isCut) throw overLimit(outputBytesMax);
    if (!parsed.success) {
      const issues = parsed.error.issues.slice(0, ISSUES_MAX);
      throw new Withheld(
        "INVALID_OUTPUT",
        issues.map(({ path, message }) => ({ path: shownPath(path), message })),
      );
    }
    const answer = filterAnswer({ policy: tool.outputPolicy, compiled: outputPolicy, scan }, parsed.data as Json);
    const leftOut = leftOutBySchema(raw, parsed.data, LEFT_OUT_MAX).map(notInSchema);
    return { ...answer, fields: [...answer.fields, ...leftOut], ...(isCut && { truncated: true }) };
  } catch (error) {
    if (error instanceof NotJsonError && error.reason === "size") throw overLimit(outputBytesMax);
    if (error instanceof NotJsonError) {
      throw new Withheld("INVALID_OUTPUT", [{ path: error.path || "(answer)", message: `not JSON: ${error.reason}` }]);
    }
    if (error instanceof Refusal) throw new Withheld(error.code, [{ path: "(answer)", message: error.message }]);
    throw error;
  }
}

function overLimit(bytesMax: number): Withheld {
  return new Withheld("OUTPUT_TOO_LARGE", [{ path: "(answer)", message: `over ${bytesMax} bytes, and cannot be cut` }]);
}

function notInSchema(path: string): FilteredField {
  return { path, fate: "not in the schema", pattern: undefined, rules: [], value: undefined };
}

function shownPath(path: readonly PropertyKey[]): string {
  const text = path.reduce<string>(
    (before, step) =>
      typeof step === "number" ? `${before}[${step}]` : `${before}${before === "" ? "" : "."}${String(step)}`,
    "",
  );
  return text === "" ? "(answer)" : text;
}

/** The pattern that decided, and the manifest's reason where it gives one. */
function by({ pattern, reason }: FilteredField): string {
  if (pattern === undefined) return "no pattern";
  return printableCell(reason === undefined ? `"${pattern}"` : `"${pattern}", because: ${reason}`);
}

/** Fields that the policy says nothing of. */
function uncoveredIn({ fields }: FilteredAnswer): readonly string[] {
  return fields.filter(({ fate }) => fate === "stripped").map(({ path }) => path);
}

function show(answer: ShownAnswer): void {
  const { truncated, fields, omitted, filteredFields, redactions } = answer;
  const uncovered = uncoveredIn(answer);
  const rows = fields.map((field) => [
    printableCell(field.path === "" ? "(answer)" : field.path),
    field.fate === "hidden" ? `hidden: ${field.rules.join(", ")}` : field.fate,
    by(field),
    field.value === undefined ? "" : clipped(printableCell(JSON.stringify(field.value))),
  ]);
  print.line(table([["FIELD", "WHAT HAPPENS", "BY", "THE AGENT SEES"], ...rows]));
  if (omitted > 0) print.line(`… and ${omitted} more fields`);
  if (uncovered.length > 0) print.line(`no pattern covers: ${printableCell(uncovered.join(", "))}`);
  print.line(`filteredFields: ${printableCell(filteredFields.join(", ")) || "none"}`);
  if (truncated) print.line("truncated: the answer is over the tool's limit; lists and texts were cut");
  const counts = Object.entries(redactions).map(([rule, count]) => `${rule} ${count}`);
  if (counts.length > 0) print.line(`redactions: ${counts.join(", ")}`);
}

function shownText(text: string): string {
  return text.split("\n").map(printableCell).join("\n");
}

function clipped(text: string): string {
  return text.length > CELL_CHARS_MAX ? `${text.slice(0, CELL_CHARS_MAX)}…` : text;
}

/** What becomes of one value. `stripped`: no pattern covers it; `hidden` and `cleaned`: by what was found in its text. */
type Fate = "allow" | "mask" | "redact" | "stripped" | "hidden" | "cleaned" | "not in the schema";

interface FilteredField {
  readonly path: string;
  readonly fate: Fate;
  /** The pattern of the output policy that decided; undefined: none. */
  readonly pattern: string | undefined;
  /** Why that pattern allows, when the manifest says so. */
  readonly reason?: string | undefined;
  /** What was found in it, by rule. */
  readonly rules: readonly string[];
  /** As the agent sees it; undefined: not at all. */
  readonly value: Json | undefined;
}

export interface FilteredAnswer {
  readonly fields: readonly FilteredField[];
  /** Fields that are not listed. */
  readonly omitted: number;
  readonly result: Json;
  readonly filteredFields: readonly string[];
  readonly redactions: Readonly<Record<string, number>>;
}

interface Protection {
  readonly policy: OutputPolicy;
  readonly compiled: CompiledPolicy;
  readonly scan: CompiledScan;
}

const FIELDS_MAX = 1_000;

/** Short enough to stand beside a value as its name. UTF-16 units. */
const NEIGHBOUR_CHARS_MAX = 256;

/**
 * What an agent would get of an answer that its schema has read, and why, field by field.
 *
 * @throws {Refusal} OUTPUT_TOO_LARGE
 */
export function filterAnswer({ policy, compiled, scan }: Protection, answer: Json): FilteredAnswer {
  const filtered = applyPolicy(compiled, answer);
  const looked = lookThroughFields(filtered, scan, compiled);
  const explained = explainPolicy({ policy, compiled }, answer, FIELDS_MAX);
  const sight = new Sight(filtered.result, looked.value, scan);
  return {
    fields: explained.fields.flatMap((field) => sight.of(field)),
    omitted: explained.omitted,
    result: looked.value,
    filteredFields: looked.filteredFields,
    redactions: looked.redactions ?? {},
  };
}

/** What the schema leaves out of an answer: keys that it does not return, as paths. At most so many. */
export function leftOutBySchema(raw: Json, parsed: unknown, fieldsMax: number): readonly string[] {
  const found: string[] = [];
  const compare = (before: unknown, after: unknown, path: string): void => {
    if (found.length >= fieldsMax || !isContainer(before) || !isContainer(after)) return;
    if (Array.isArray(before) !== Array.isArray(after)) return;
    for (const [key, child] of Object.entries(before)) {
      const here = Array.isArray(before) ? `${path}[${key}]` : joined(path, key);
      if (Object.hasOwn(after, key)) compare(child, (after as Record<string, unknown>)[key], here);
      else if (found.length < fieldsMax) found.push(here);
    }
  };
  compare(raw, parsed, "");
  return found;
}

function joined(path: string, key: string): string {
  return path === "" ? key : `${path}.${key}`;
}

function isContainer(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** Finds in what an agent sees the values that a policy let out. */
class Sight {
  readonly #filtered: Json;
  readonly #seen: Json;
  readonly #scan: CompiledScan;
  readonly #renamed = new WeakMap<object, ReadonlyMap<string, string>>();
  readonly #keysTold = new Set<string>();

  constructor(filtered: Json, seen: Json, scan: CompiledScan) {
    this.#filtered = filtered;
    this.#seen = seen;
    this.#scan = scan;
  }

  /** The field, and before it each key on the way that the agent sees otherwise, once. */
  of({ path, action, pattern, reason, at }: ExplainedField): readonly FilteredField[] {
    if (at === undefined) {
      const fate = action === "redact" ? "redact" : "stripped";
      return [{ path, fate, pattern, rules: [], value: undefined }];
    }
    const told: FilteredField[] = [];
    let before = this.#filtered;
    let after = this.#seen;
    for (const [index, step] of at.entries()) {
      const name = typeof step === "string" ? this.#nameOf(before, after, at.slice(0, index + 1)) : step;
      if (name !== step) told.push(...this.#key(at.slice(0, index + 1), String(name), pattern));
      before = child(before, step);
      after = child(after, name);
    }
    const by = { path, pattern, ...(reason !== undefined && { reason }) };
    if (before === after) return [...told, { ...by, fate: action ?? "allow", rules: [], value: after }];
    const rules = this.#rulesAt(at);
    return [...told, { ...by, fate: rules.length > 0 ? "hidden" : "cleaned", rules, value: after }];
  }

  #key(at: ValuePath, name: string, pattern: string | undefined): readonly FilteredField[] {
    const path = `${at.reduce<string>((text, step) => (typeof step === "number" ? `${text}[${step}]` : joined(text, step)), "")} (key)`;
    if (this.#keysTold.has(path)) return [];
    this.#keysTold.add(path);
    const rules = added(this.#found(only(at, null)), this.#found(only(at.slice(0, -1), {})));
    return [{ path, fate: rules.length > 0 ? "hidden" : "cleaned", pattern, rules, value: name }];
  }

  /** How the key at the end of a path is called where the agent sees it. */
  #nameOf(before: Json, after: Json, at: ValuePath): string {
    const key = String(at.at(-1));
    if (before === after || !isContainer(before) || !isContainer(after)) return key;
    const known = this.#renamed.get(after) ?? this.#names(before, after, at.slice(0, -1));
    this.#renamed.set(after, known);
    return known.get(key) ?? key;
  }

  /** Keys keep their order, unless some are indexes: then each is looked at by itself. */
  #names(before: object, after: object, at: ValuePath): ReadonlyMap<string, string> {
    const [keys, names] = [Object.keys(before), Object.keys(after)];
    if (![...keys, ...names].some((key) => INDEX.test(key))) return inOrder(keys, names);
    const free = new Set(names);
    return new Map(keys.map((key) => [key, takeName(free, this.#alone([...at, key]), names.length)]));
  }

  /** A key as it would be called if there were no others. */
  #alone(at: ValuePath): string {
    let seen = lookThrough(only(at, null), this.#scan, []).value;
    for (const _ of at.slice(0, -1)) seen = Object.values(seen ?? {})[0] ?? null;
    return Object.keys(seen ?? {})[0] ?? "";
  }

  /** What is found in a value beyond what is found around it. */
  #rulesAt(at: ValuePath): readonly string[] {
    return added(this.#found(alone(this.#filtered, at)), this.#found(alone(this.#filtered, at, null)));
  }

  #found(value: Json): Readonly<Record<string, number>> {
    return lookThrough(value, this.#scan, []).redactions ?? {};
  }
}

function child(value: Json, step: string | number): Json {
  return isContainer(value) ? ((value as Record<string | number, Json>)[step] ?? null) : null;
}

const INDEX = /^(?:0|[1-9]\d{0,9})$/;

function inOrder(before: readonly string[], after: readonly string[]): ReadonlyMap<string, string> {
  return new Map(before.map((key, at) => [key, after[at] ?? key]));
}

/** Keys that come to be called alike are numbered in their order. */
function takeName(free: Set<string>, name: string, countMax: number): string {
  let taken = name;
  for (let count = 2; !free.has(taken) && count <= countMax; count += 1) taken = `${name}#${count}`;
  free.delete(taken);
  return taken;
}

/** A value at the end of a path on which nothing else stands. */
function only(at: ValuePath, value: Json): Json {
  return at.reduceRight<Json>((inner, step) => (typeof step === "number" ? [inner] : { [step]: inner }), value);
}

/** One value where it stands, or another in its place: of lists nothing else, of objects what may be a name beside it. */
function alone(value: Json, at: ValuePath, instead?: Json): Json {
  const [step, ...below] = at;
  if (step === undefined) return instead === undefined ? value : instead;
  const inner = alone(child(value, step), below, instead);
  if (typeof step === "number") return [inner];
  const beside = Object.entries(value ?? {}).filter(([key, other]) => key !== step && isShortText(other));
  return Object.fromEntries([...beside, [step, inner]]);
}

function isShortText(value: Json): boolean {
  return typeof value === "string" && value.length <= NEIGHBOUR_CHARS_MAX;
}

/** The rules that one count has more of than the other. */
function added(counts: Readonly<Record<string, number>>, without: Readonly<Record<string, number>>): readonly string[] {
  return Object.keys(counts)
    .filter((rule) => (counts[rule] ?? 0) > (without[rule] ?? 0))
    .sort();
}
