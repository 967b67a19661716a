import { type ExplainedField, explainPolicy, type ValuePath } from "../core/policy/explain.ts";
import { applyPolicy, type CompiledPolicy } from "../core/policy/output-policy.ts";
import type { CompiledScan } from "../core/policy/scan-policy.ts";
import type { Json, OutputPolicy } from "../core/types.ts";
import { lookThrough, lookThroughFields } from "../pipeline/redactor.ts";

/** What becomes of one value. `stripped`: no pattern covers it; `hidden` and `cleaned`: by what was found in its text. */
export type Fate = "allow" | "mask" | "redact" | "stripped" | "hidden" | "cleaned" | "not in the schema";

export interface FilteredField {
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

export interface Protection {
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
