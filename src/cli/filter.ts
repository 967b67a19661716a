import { readFileSync, statSync } from "node:fs";
import { NotJsonError } from "../core/digest.ts";
import { Refusal } from "../core/errors.ts";
import type { RegisteredTool } from "../core/evidence.ts";
import { kindAt } from "../core/json.ts";
import { type ExplainedField, explainPolicy, type ValuePath } from "../core/output-policy/explain.ts";
import { applyPolicy, type CompiledPolicy } from "../core/output-policy/output-policy.ts";
import { printableCell } from "../core/printable.ts";
import { BOUNDED_TEXT_LIMITS, parseAnswerJson, StrictJsonError } from "../core/strict-json.ts";
import type { Json, OutputFieldPolicy } from "../core/types.ts";
import type { Detector } from "../detection/sensitive.ts";
import { plainAnswer } from "../pipeline/answer-json.ts";
import { fit } from "../pipeline/output-filter.ts";
import { redactFiltered, redactOutput, type Search } from "../pipeline/redactor.ts";
import { type ConfigurationOptions, findTool, withParts } from "./configuration.ts";
import { CommandError, EXIT, print, table } from "./output.ts";

interface FilterOptions extends ConfigurationOptions {
  readonly sample: string;
  readonly json?: boolean;
}

/** Maximum size of the sample: twice the largest tool answer, which leaves room for the formatting of the file. */
const SAMPLE_BYTES_MAX = 2 * 67_108_864;
const ANSWER_LIMITS = { depthMax: 64, nodesMax: 500_000 } as const;
const ISSUES_MAX = 20;
const LEFT_OUT_MAX = 100;
const CELL_CHARS_MAX = 72;

export interface ShownAnswer extends FilteredAnswer {
  readonly truncated?: boolean;
}

interface Issue {
  readonly path: string;
  readonly message: string;
}

/** The agent would get an error instead of the answer. */
export class Withheld extends Error {
  readonly code: string;
  readonly issues: readonly Issue[];

  constructor(code: string, issues: readonly Issue[]) {
    super([`withheld, ${code}:`, ...issues.map(({ path, message }) => `${path}: ${message}`)].join("\n"));
    this.code = code;
    this.issues = issues;
  }
}

/**
 * `stc filter`: shows what an agent would see of an answer, and why. The sample is the input of the tool's output schema: a gRPC
 * message as JSON, or the value that a command's parser returns. Nothing runs.
 */
export async function filter(name: string, { sample, json, ...options }: FilterOptions): Promise<void> {
  await withParts(options, (parts, config) => {
    const found = findTool(parts, name, config);
    const input = readSample(sample);
    const answer = tried(() => filterSample(found, parts.detector, input));
    if (answer instanceof Withheld && json === true) {
      print.json({ tool: name, ok: false, code: answer.code, issues: answer.issues });
      throw new CommandError(EXIT.failed);
    }
    if (answer instanceof Error) throw new CommandError(EXIT.failed, shownText(answer.message));
    if (json === true) print.json({ tool: name, ok: true, ...answer, uncovered: uncoveredIn(answer) });
    else show(answer);
  });
}

/** Returns the error that `make` throws. A schema of a manifest may throw anything. */
export function tried<T>(make: () => T): T | Error {
  try {
    return make();
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

function readSample(file: string): unknown {
  try {
    if (statSync(file).size > SAMPLE_BYTES_MAX) throw new Error(`is over ${SAMPLE_BYTES_MAX} bytes`);
    return parseAnswerJson(readFileSync(file), BOUNDED_TEXT_LIMITS);
  } catch (error) {
    const why =
      error instanceof StrictJsonError
        ? `is not JSON: ${error.reason}`
        : String(error instanceof Error ? error.message : error);
    throw new CommandError(EXIT.noInput, shownText(`${file}: ${why}`));
  }
}

/** Runs the same steps as for every answer: plain JSON → the tool's size limit → output schema → output policy → redaction. */
export function filterSample(registered: RegisteredTool, detector: Detector, sample: unknown): ShownAnswer {
  const { tool, outputPolicy, scan: level } = registered;
  const { outputBytesMax } = tool.limits;
  try {
    const { value, text } = plainAnswer(registered, sample, { ...ANSWER_LIMITS, bytesMax: SAMPLE_BYTES_MAX });
    const fitted = fit(value, text, { bytesMax: outputBytesMax });
    if (fitted === undefined) throw overLimit(outputBytesMax);
    const { value: raw, isCut } = fitted;
    const parsed = tool.output.safeParse(raw);
    if (!parsed.success && isCut) throw overLimit(outputBytesMax);
    if (!parsed.success) {
      const issues = parsed.error.issues.slice(0, ISSUES_MAX);
      throw new Withheld(
        "INVALID_OUTPUT",
        issues.map(({ path, message }) => ({
          path: pathText(path) || "(answer)",
          message: message.includes("received") ? message : `${message}; got ${kindAt(raw, path)}`,
        })),
      );
    }
    const answer = filterAnswer(
      { policy: tool.outputPolicy, compiled: outputPolicy, scan: { level, detector } },
      parsed.data as Json,
    );
    const leftOut = leftOutBySchema(raw, parsed.data, LEFT_OUT_MAX).map(notInSchema);
    return { ...answer, fields: [...answer.fields, ...leftOut], ...(isCut && { truncated: true }) };
  } catch (error) {
    if (error instanceof NotJsonError && error.reason === "size") throw overLimit(outputBytesMax);
    if (error instanceof NotJsonError) {
      throw new Withheld("INVALID_OUTPUT", [{ path: error.path || "(answer)", message: `not JSON: ${error.reason}` }]);
    }
    if (error instanceof Refusal) {
      const field = error.details?.["field"];
      throw new Withheld(error.code, [
        { path: typeof field === "string" ? field : "(answer)", message: error.message },
      ]);
    }
    throw error;
  }
}

function overLimit(bytesMax: number): Withheld {
  return new Withheld("OUTPUT_TOO_LARGE", [{ path: "(answer)", message: `over ${bytesMax} bytes, and cannot be cut` }]);
}

function notInSchema(path: string): FilteredField {
  return { path, fate: "not in the schema", pattern: undefined, rules: [], value: undefined };
}

export function pathText(path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, step) => (typeof step === "number" ? `${text}[${step}]` : joined(text, String(step))),
    "",
  );
}

/** Returns the pattern that decided, with the reason that the manifest gives for it. */
function reasonText({ pattern, reason }: FilteredField): string {
  if (pattern === undefined) return "no pattern";
  return printableCell(reason === undefined ? `"${pattern}"` : `"${pattern}", because: ${reason}`);
}

function uncoveredIn({ fields }: FilteredAnswer): readonly string[] {
  return fields.filter(({ fate }) => fate === "stripped").map(({ path }) => path);
}

function show(answer: ShownAnswer): void {
  const { truncated, fields, omitted, filteredFields, redactions } = answer;
  const uncovered = uncoveredIn(answer);
  const rows = fields.map((field) => [
    printableCell(field.path || "(answer)"),
    field.fate === "hidden" ? `hidden: ${field.rules.join(", ")}` : field.fate,
    reasonText(field),
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

/** The treatment of one value. `stripped`: no pattern covers it; `hidden` and `cleaned`: decided by findings in its text. */
type Fate = "allow" | "mask" | "redact" | "stripped" | "hidden" | "cleaned" | "not in the schema";

interface FilteredField {
  readonly path: string;
  readonly fate: Fate;
  /** The pattern of the output policy that decided, or undefined when none matched. */
  readonly pattern: string | undefined;
  readonly reason?: string | undefined;
  readonly rules: readonly string[];
  /** The value as the agent sees it, or undefined when the agent does not see it. */
  readonly value: Json | undefined;
}

export interface FilteredAnswer {
  readonly fields: readonly FilteredField[];
  readonly omitted: number;
  readonly result: Json;
  readonly filteredFields: readonly string[];
  readonly redactions: Readonly<Record<string, number>>;
}

interface Protection {
  readonly policy: OutputFieldPolicy;
  readonly compiled: CompiledPolicy;
  readonly scan: Search;
}

const FIELDS_MAX = 1_000;

/** Longest sibling text that may be the name of a value (UTF-16 units). */
const NEIGHBOUR_CHARS_MAX = 256;

/**
 * Filters an answer that the schema has parsed. Returns the result, and the reason for each field.
 *
 * @throws {Refusal} OUTPUT_TOO_LARGE
 */
export function filterAnswer({ policy, compiled, scan }: Protection, answer: Json): FilteredAnswer {
  const filtered = applyPolicy(compiled, answer);
  const redacted = redactFiltered(filtered, scan, compiled);
  const explained = explainPolicy({ policy, compiled }, answer, FIELDS_MAX);
  const seen = new VisibleAnswer(filtered.result, redacted.value, scan);
  return {
    fields: explained.fields.flatMap((field) => seen.of(field)),
    omitted: explained.omitted,
    result: redacted.value,
    filteredFields: redacted.filteredFields,
    redactions: redacted.redactions ?? {},
  };
}

/** Returns the paths of the keys that the schema leaves out of an answer, at most `fieldsMax`. */
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

/** Finds the values that a policy allowed in the answer that the agent sees. */
class VisibleAnswer {
  readonly #filtered: Json;
  readonly #seen: Json;
  readonly #scan: Search;
  readonly #renamed = new WeakMap<object, ReadonlyMap<string, string>>();
  readonly #keysListed = new Set<string>();

  constructor(filtered: Json, seen: Json, scan: Search) {
    this.#filtered = filtered;
    this.#seen = seen;
    this.#scan = scan;
  }

  /** Returns the field, preceded by each key on its path that the agent sees differently. Each such key is returned once. */
  of({ path, action, pattern, reason, at }: ExplainedField): readonly FilteredField[] {
    if (at === undefined) {
      const fate = action === "redact" ? "redact" : "stripped";
      return [{ path, fate, pattern, rules: [], value: undefined }];
    }
    const listed: FilteredField[] = [];
    let before = this.#filtered;
    let after = this.#seen;
    for (const [index, step] of at.entries()) {
      const name = typeof step === "string" ? this.#nameOf(before, after, at.slice(0, index + 1)) : step;
      if (name !== step) listed.push(...this.#key(at.slice(0, index + 1), String(name), pattern));
      before = childOf(before, step);
      after = childOf(after, name);
    }
    const by = { path, pattern, ...(reason !== undefined && { reason }) };
    if (before === after) return [...listed, { ...by, fate: action ?? "allow", rules: [], value: after }];
    const rules = this.#rulesAt(at);
    return [...listed, { ...by, fate: rules.length > 0 ? "hidden" : "cleaned", rules, value: after }];
  }

  #key(at: ValuePath, name: string, pattern: string | undefined): readonly FilteredField[] {
    const path = `${pathText(at)} (key)`;
    if (this.#keysListed.has(path)) return [];
    this.#keysListed.add(path);
    const rules = increased(this.#found(structureOf(at, null)), this.#found(structureOf(at.slice(0, -1), {})));
    return [{ path, fate: rules.length > 0 ? "hidden" : "cleaned", pattern, rules, value: name }];
  }

  /** Returns the name under which the agent sees the last key of a path. */
  #nameOf(before: Json, after: Json, at: ValuePath): string {
    const key = String(at.at(-1));
    if (before === after || !isContainer(before) || !isContainer(after)) return key;
    const known = this.#renamed.get(after) ?? this.#names(before, after, at.slice(0, -1));
    this.#renamed.set(after, known);
    return known.get(key) ?? key;
  }

  /**
   * Maps keys to the names that the agent sees. Keys keep their order unless some are array indexes; then each key is scanned
   * alone.
   */
  #names(before: object, after: object, at: ValuePath): ReadonlyMap<string, string> {
    const [keys, names] = [Object.keys(before), Object.keys(after)];
    if (![...keys, ...names].some((key) => INDEX.test(key))) return inOrder(keys, names);
    const free = new Set(names);
    return new Map(keys.map((key) => [key, takeName(free, this.#nameWhenAlone([...at, key]), names.length)]));
  }

  /** Returns the name that a key would get if it were the only one. */
  #nameWhenAlone(at: ValuePath): string {
    let seen = redactOutput(structureOf(at, null), this.#scan, []).value;
    for (const _ of at.slice(0, -1)) seen = Object.values(seen ?? {})[0] ?? null;
    return Object.keys(seen ?? {})[0] ?? "";
  }

  /** Returns the rules that match in the value itself, not counting those that match in its surroundings. */
  #rulesAt(at: ValuePath): readonly string[] {
    return increased(this.#found(isolated(this.#filtered, at)), this.#found(isolated(this.#filtered, at, null)));
  }

  #found(value: Json): Readonly<Record<string, number>> {
    return redactOutput(value, this.#scan, []).redactions ?? {};
  }
}

function childOf(value: Json, step: string | number): Json {
  return isContainer(value) ? ((value as Record<string | number, Json>)[step] ?? null) : null;
}

const INDEX = /^(?:0|[1-9]\d{0,9})$/;

function inOrder(before: readonly string[], after: readonly string[]): ReadonlyMap<string, string> {
  return new Map(before.map((key, at) => [key, after[at] ?? key]));
}

/** Takes one of the unused names. Keys with the same name are numbered in their order. */
function takeName(free: Set<string>, name: string, countMax: number): string {
  let taken = name;
  for (let count = 2; !free.has(taken) && count <= countMax; count += 1) taken = `${name}#${count}`;
  free.delete(taken);
  return taken;
}

/** Returns a structure that contains only this path, with the value at its end. */
function structureOf(at: ValuePath, value: Json): Json {
  return at.reduceRight<Json>((inner, step) => (typeof step === "number" ? [inner] : { [step]: inner }), value);
}

/**
 * Returns the value, or `instead`, at its path. Lists keep no other elements; objects keep only siblings that may name the value.
 */
function isolated(value: Json, at: ValuePath, instead?: Json): Json {
  const [step, ...below] = at;
  if (step === undefined) return instead === undefined ? value : instead;
  const inner = isolated(childOf(value, step), below, instead);
  if (typeof step === "number") return [inner];
  const siblings = Object.entries(value ?? {}).filter(([key, other]) => key !== step && isShortText(other));
  return Object.fromEntries([...siblings, [step, inner]]);
}

function isShortText(value: Json): boolean {
  return typeof value === "string" && value.length <= NEIGHBOUR_CHARS_MAX;
}

/** Returns the rules that have a higher count in `counts` than in `without`. */
function increased(
  counts: Readonly<Record<string, number>>,
  without: Readonly<Record<string, number>>,
): readonly string[] {
  return Object.keys(counts)
    .filter((rule) => (counts[rule] ?? 0) > (without[rule] ?? 0))
    .sort();
}
