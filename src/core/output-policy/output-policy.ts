import type { z } from "zod";
import { type SchemaMap, type SchemaNode, schemaMapOf } from "../schema/walk.ts";
import type { FieldAction, Json, OutputFieldPolicy } from "../types.ts";
import {
  advance,
  element,
  type FieldPattern,
  joinPath,
  otherKey,
  parseFieldPattern,
  type Segment,
  type Step,
  startPosition,
} from "./field-path.ts";
import { ListedFields, newMemory, type PathMemory, type ShownPath } from "./listed-fields.ts";
import { mask } from "./masks.ts";
import { actionOf, type OutputPolicyState, type PolicyRule, policyStates, releases } from "./rule-states.ts";

/** A policy compiled for its output schema: a table of all decisions. Values never change it. */
export interface CompiledPolicy {
  readonly root: PolicyNode;
  readonly paths: PathMemory;
}

export interface Filtered {
  readonly result: Json;
  /** Sorted paths in pattern notation, each once; keys that are data appear as `*`. A cut list ends in `…`. */
  readonly filteredFields: readonly string[];
}

interface PolicyNode {
  /** Action for a scalar here; `undefined` when no rule covers it, so that it is stripped. */
  readonly action: FieldAction | undefined;
  /** True when a container stays here although nothing is left in it. */
  readonly keepsEmpty: boolean;
  /** True when nothing here or below can be released, so the content need not be visited. */
  readonly releasesNothing: boolean;
  readonly keys: ReadonlyMap<string, Edge>;
  readonly other: Edge;
  readonly element: Edge;
}

/** A step to a key or an element, with its text in `filteredFields`. */
interface Edge {
  readonly shown: string;
  readonly node: PolicyNode;
}

const POLICY_NODES_MAX = 10_000;

/** Levels of nesting that are visited; deeper values are stripped. */
const POLICY_DEPTH_MAX = 128;

const PROTOTYPE = "__proto__";

const DROPPED: Edge = {
  shown: "*",
  node: {
    action: undefined,
    keepsEmpty: false,
    releasesNothing: true,
    keys: new Map(),
    get other() {
      return DROPPED;
    },
    get element() {
      return DROPPED;
    },
  },
};

/**
 * Compiles a policy, so that every decision is made once. At each path one rule wins: the one with more literal keys
 * (`[]` and `*` do not count); else the one that names exactly this path without `*`; else the stricter one. A rule on
 * a container covers everything below it. Values that no rule covers are stripped.
 *
 * @throws {TypeError} for a malformed pattern or action
 * @throws {RangeError} for a policy or schema that is too large
 */
export function compilePolicy(policy: OutputFieldPolicy, output: z.ZodType): CompiledPolicy {
  const states = policyStates(Object.entries(policy).map(readRule));
  const map = schemaMapOf(output);
  const nodes = new Map<string, PolicyNode>();
  const unfinished: (() => void)[] = [];

  const nodeOf = (state: OutputPolicyState, schemaNode: SchemaNode = map.nothing): PolicyNode => {
    const name = `${schemaNode.id}/${state.id}`;
    const known = nodes.get(name);
    if (known !== undefined) return known;
    if (nodes.size >= POLICY_NODES_MAX) throw new RangeError(`the policy needs more than ${POLICY_NODES_MAX} states`);
    const keys = new Map<string, Edge>();
    const keepsEmpty = releases(state.action) || state.isNamed;
    const node = {
      action: state.action,
      keepsEmpty,
      releasesNothing: state.releasesNothing,
      keys,
      other: DROPPED,
      element: DROPPED,
    };
    nodes.set(name, node);
    unfinished.push(() => {
      for (const key of new Set([...schemaNode.keys, ...state.awaited])) {
        const shown = schemaNode.keysAreData && !schemaNode.keys.includes(key) ? "*" : key;
        keys.set(key, { shown, node: nodeOf(states.next(state, key), map.key(schemaNode, key)) });
      }
      node.other = { shown: "*", node: nodeOf(states.next(state, otherKey), map.otherKey(schemaNode)) };
      node.element = { shown: "[]", node: nodeOf(states.next(state, element), map.element(schemaNode)) };
    });
    return node;
  };

  const root = nodeOf(states.start, map.root);
  for (let finish = unfinished.pop(); finish !== undefined; finish = unfinished.pop()) finish();
  return { root, paths: newMemory() };
}

function readRule([text, declared]: readonly [string, unknown], index: number): PolicyRule {
  const pattern = parseFieldPattern(text);
  if ("fault" in pattern) throw new TypeError(`"${text}" ${pattern.fault}`);
  const action = actionOf(declared);
  if (action === undefined) throw new TypeError(`"${text}" must be "allow", "mask" or "redact"`);
  return { index, pattern, action };
}

/**
 * Returns one error for every pattern that is malformed or can match no field of the schema's output.
 *
 * @throws {RangeError} for a schema that never ends
 */
export function unmatchedPatterns(policy: OutputFieldPolicy, output: z.ZodType): readonly string[] {
  const map = schemaMapOf(output);
  return Object.keys(policy).flatMap((text) => {
    const pattern = parseFieldPattern(text);
    const fault = "fault" in pattern ? pattern.fault : unreachable(pattern, map);
    return fault === undefined ? [] : [`"${text}" ${fault}`];
  });
}

interface Run {
  readonly listed: ListedFields;
  /** Current path, as shown in `filteredFields`. */
  path: ShownPath;
  depth: number;
}

/**
 * Copies the parts of a value that the policy releases. Each scalar is kept, masked or removed by the decision for its
 * path; lists have no gaps where elements were removed. An emptied container stays when a rule allows or masks it, or
 * names the path through it (without `*`) to a field that it allows or masks; otherwise it is removed and listed
 * instead of its content. The outermost container always stays; an outermost scalar, which no pattern can name, becomes
 * null. Keys are never masked. `__proto__` is always removed, and so is a key that differs from a known name only by
 * invisible characters. Takes linear time; the copy shares nothing with the value.
 */
export function applyPolicy(compiled: CompiledPolicy, value: Json): Filtered {
  const { paths } = compiled;
  if (value === null) return { result: null, filteredFields: [] };
  if (typeof value !== "object") return { result: null, filteredFields: ["*"] };
  const run: Run = { listed: new ListedFields(paths), path: paths.top, depth: 0 };
  const result = filterContent(run, compiled.root, value) ?? emptyLike(value);
  return { result, filteredFields: run.listed.sorted() };
}

/** Returns the step to a key. `__proto__`, and keys that only look like a known name, are dropped. */
export function edgeOf(node: PolicyNode, key: string): Edge {
  if (key === PROTOTYPE) return DROPPED;
  return node.keys.get(key) ?? (posesAs(key, PROTOTYPE, node.keys) ? DROPPED : node.other);
}

/** Returns a path in the form of `filteredFields`: keys that are data appear as `*`. */
export function shownPath({ root }: CompiledPolicy, steps: readonly Step[]): string {
  let node = root;
  let path = "";
  for (const step of steps) {
    const edge = edgeAt(node, step);
    path = joinPath(path, edge.shown);
    node = edge.node;
  }
  return path;
}

function edgeAt(node: PolicyNode, step: Step): Edge {
  if (step === element) return node.element;
  return step === otherKey ? node.other : edgeOf(node, step);
}

function filterField(run: Run, edge: Edge, value: unknown): Json | undefined {
  if (typeof value === "object" && value !== null) return filterContainer(run, edge, value);
  const { action } = edge.node;
  if (!isScalar(value)) {
    if (value !== undefined) addFiltered(run, edge.shown);
    return undefined;
  }
  if (action === "allow") return value;
  addFiltered(run, edge.shown);
  return action === "mask" ? mask(value) : undefined;
}

export function isScalar(value: unknown): value is string | number | boolean | null {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" || value === null;
}

function filterContainer(run: Run, edge: Edge, value: object): Json | undefined {
  const { listed, path, depth } = run;
  const { node, shown } = edge;
  if (node.releasesNothing || depth >= POLICY_DEPTH_MAX) {
    addFiltered(run, shown);
    return undefined;
  }
  const { length } = listed;
  run.path = listed.below(path, shown);
  run.depth = depth + 1;
  const kept = filterContent(run, node, value);
  run.path = path;
  run.depth = depth;
  if (kept !== undefined) return kept;
  if (node.keepsEmpty) return emptyLike(value);
  listed.removeAfter(length);
  addFiltered(run, shown);
  return undefined;
}

/** Returns the filtered copy, or `undefined` when nothing is left. */
function filterContent(run: Run, node: PolicyNode, value: object): Json | undefined {
  return Array.isArray(value) ? filterElements(run, node.element, value) : filterKeys(run, node, value);
}

function filterElements(run: Run, edge: Edge, value: readonly unknown[]): Json | undefined {
  const kept: Json[] = [];
  for (let index = 0; index < value.length; index += 1) {
    const field = filterField(run, edge, value[index]);
    if (field !== undefined) kept.push(field);
  }
  return kept.length === 0 ? undefined : kept;
}

function filterKeys(run: Run, node: PolicyNode, value: object): Json | undefined {
  const source = value as Readonly<Record<string, unknown>>;
  const kept: Record<string, Json> = {};
  let isEmpty = true;
  for (const key of Object.keys(value)) {
    const field = filterField(run, edgeOf(node, key), source[key]);
    if (field === undefined) continue;
    kept[key] = field;
    isEmpty = false;
  }
  return isEmpty ? undefined : kept;
}

function emptyLike(value: object): Json {
  return Array.isArray(value) ? [] : {};
}

function addFiltered({ listed, path }: Run, shown: string): void {
  listed.add(listed.below(path, shown));
}

/** Controls, formats, lone surrogates and other invisible characters, which are removed before agents read keys. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}]/gu;

/** Characters that may begin a terminal sequence; visible letters after them may be removed, too. */
const SEQUENCE_START = /[\x1b\x9b]/;

/** Maximum names compared with a key that contains a terminal sequence. With more names, the key is dropped. */
const NAMES_TRIED_MAX = 64;

/** Returns whether a key would be read as one of the names once its invisible characters are removed. */
function posesAs(key: string, reserved: string, names: ReadonlyMap<string, unknown>): boolean {
  if (isPlain(key)) return false;
  if (SEQUENCE_START.test(key))
    return names.size > NAMES_TRIED_MAX || [reserved, ...names.keys()].some((name) => mayShrinkTo(key, name));
  const seen = key.replace(INVISIBLE, "");
  return seen !== key && (seen === reserved || names.has(seen));
}

/** Returns whether a key is entirely visible ASCII, as most keys are. */
function isPlain(key: string): boolean {
  for (let at = 0; at < key.length; at += 1) {
    const code = key.charCodeAt(at);
    if (code < 0x20 || code > 0x7e) return false;
  }
  return true;
}

/** Returns whether removing some characters of a key can give a name. */
function mayShrinkTo(key: string, name: string): boolean {
  let from = 0;
  for (let at = 0; at < name.length; at += 1) {
    from = key.indexOf(name.charAt(at), from) + 1;
    if (from === 0) return false;
  }
  return true;
}

/** Returns an error, with a suggestion if there is one, when a pattern can match no value of the schema. */
function unreachable(pattern: FieldPattern, map: SchemaMap): string | undefined {
  if (isReachable(pattern, map)) return undefined;
  const suggestion = suggest(pattern, map);
  return `matches no field of the schema${suggestion === undefined ? "" : `; did you mean "${suggestion}"?`}`;
}

function isReachable(pattern: FieldPattern, map: SchemaMap): boolean {
  const seen = new Set<string>();
  const todo = [{ schemaNode: map.root, position: startPosition(pattern) }];
  for (let from = todo.pop(); from !== undefined; from = todo.pop()) {
    const { schemaNode, position } = from;
    if (position === pattern.segments.length) return true;
    const name = `${schemaNode.id}:${position}`;
    if (seen.has(name)) continue;
    seen.add(name);
    for (const [step, next] of stepsFrom(map, schemaNode, pattern.segments[position])) {
      for (const after of advance(pattern, position, step)) todo.push({ schemaNode: next, position: after });
    }
  }
  return false;
}

/** Returns the possible steps below a node; one step represents all keys that are not listed. */
function stepsFrom(
  map: SchemaMap,
  schemaNode: SchemaNode,
  awaited: Segment | undefined,
): readonly (readonly [Step, SchemaNode])[] {
  const keys = typeof awaited === "string" ? [...schemaNode.keys, awaited] : schemaNode.keys;
  const found: (readonly [Step, SchemaNode | undefined])[] = keys.map((key) => [key, map.key(schemaNode, key)]);
  found.push([otherKey, map.otherKey(schemaNode)], [element, map.element(schemaNode)]);
  return found.filter((entry): entry is readonly [Step, SchemaNode] => entry[1] !== undefined);
}

/** Returns the pattern with `[]` added or removed to fit the schema's arrays; `undefined` when that does not help. */
function suggest(pattern: FieldPattern, map: SchemaMap): string | undefined {
  if (pattern.hasWildcard) return undefined;
  let schemaNode = map.root;
  let text = "";
  for (const segment of pattern.segments.filter((part) => typeof part === "string")) {
    for (let inner = map.element(schemaNode); inner !== undefined && map.key(schemaNode, segment) === undefined; ) {
      text += "[]";
      schemaNode = inner;
      inner = map.element(schemaNode);
    }
    const next = map.key(schemaNode, segment);
    if (next === undefined) return undefined;
    text += text === "" ? segment : `.${segment}`;
    schemaNode = next;
  }
  if (pattern.segments.at(-1) === element && map.element(schemaNode) !== undefined) text += "[]";
  return text === pattern.text ? undefined : text;
}
