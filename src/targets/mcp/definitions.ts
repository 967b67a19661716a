import { AmbiguousValue } from "../../core/ambiguous-value.ts";
import { canonical, canonicalJson, sha256Hex } from "../../core/digest.ts";
import { isList, isTable, type JsonLimits } from "../../core/json.ts";
import { visible } from "../../core/terminal-text.ts";
import type { Json } from "../../core/types.ts";

/** Tool definitions of MCP servers: their pins, and what changed. The texts come from a server and are untrusted. */

export const DEFINITION_LIMITS: JsonLimits = { depthMax: 48, nodesMax: 50_000, bytesMax: 524_288 };

/** Members of a definition that the pin covers, besides `x-…`. Icons and `_meta` may change. */
const PINNED: ReadonlySet<string> = new Set([
  ...["name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution"],
]);

/** Keywords of JSON Schema whose values are data: a `required` in them is not a set. */
const DATA: ReadonlySet<string> = new Set(["const", "default", "enum", "example", "examples"]);
/** Keywords whose members are schemas by name: a member named `required` is a schema. */
const NAMED: ReadonlySet<string> = new Set(
  ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"], //
);

/** Identifies a server. Its version is not part of it. */
export interface ServerIdentity {
  /** The configured URL, or command and arguments. */
  readonly address: Json;
  /** Identity of the TLS connection; null without TLS. */
  readonly tls: Json;
  /** The name that the server states. */
  readonly name: string;
}

export interface Definition {
  readonly name: string;
  /** The pinned part, in its canonical order. */
  readonly pinned: Readonly<Record<string, Json>>;
  readonly sha256: string;
}

/**
 * Reads a definition as a server lists it.
 *
 * @throws {Error} when it exceeds `DEFINITION_LIMITS`, or two readers may read it differently
 */
export function definitionOf(listed: Readonly<Record<string, unknown>>, identity: ServerIdentity): Definition {
  const pinned = pinnedPart(listed);
  return { name: String(listed["name"]), pinned, sha256: definitionSha256(pinned, identity) };
}

/**
 * Returns the part of a definition that the pin covers, in its canonical order.
 *
 * @throws {Error} when it exceeds `DEFINITION_LIMITS`, or two readers may read it differently
 */
export function pinnedPart(listed: Readonly<Record<string, unknown>>): Readonly<Record<string, Json>> {
  const members = Object.entries(listed)
    .filter(([key]) => PINNED.has(key) || key.startsWith("x-"))
    .map(([key, inner]) => [key, definite(inner, [key])]);
  const { value } = canonical(Object.fromEntries(members), DEFINITION_LIMITS);
  return Object.fromEntries(
    Object.entries(value as Readonly<Record<string, Json>>).map(([key, inner]) => [
      key,
      key === "inputSchema" || key === "outputSchema" ? orderedSchema(inner) : inner,
    ]),
  );
}

/**
 * Returns a part of a definition that every reader of JSON reads alike. A bound that JavaScript rounds is kept rounded.
 *
 * @throws {Error} for duplicate keys, and for keys that mean something else to JavaScript
 */
function definite(value: unknown, path: readonly string[]): unknown {
  if (path.length > DEFINITION_LIMITS.depthMax) return value;
  if (AmbiguousValue.is(value)) {
    const { digits, reading, problem } = AmbiguousValue.factsOf(value);
    if (digits === undefined) throw new Error(`${problem} (${bounded(path.join("."))})`);
    return reading;
  }
  if (Array.isArray(value)) return value.map((each, index) => definite(each, [...path, String(index)]));
  if (!isTable(value)) return value;
  if (Object.hasOwn(value, "__proto__")) throw new Error(`a key __proto__ (${bounded(path.join("."))})`);
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, definite(inner, [...path, key])]));
}

/** Returns the hash that pins a definition, in hex. */
function definitionSha256(pinned: Readonly<Record<string, Json>>, { address, tls, name }: ServerIdentity): string {
  const covered = { server: { address, tls, name }, definition: pinned };
  return sha256Hex(canonicalJson(covered, { ...DEFINITION_LIMITS, depthMax: DEFINITION_LIMITS.depthMax + 2 }));
}

/** Returns a schema with every `required` as a sorted set. All other lists keep their order. */
function orderedSchema(schema: Json): Json {
  if (isList(schema)) return schema.map(orderedSchema);
  if (!isTable(schema)) return schema;
  const members = Object.entries(schema as Readonly<Record<string, Json>>).map(([key, inner]): [string, Json] => {
    if (DATA.has(key)) return [key, inner];
    if (key === "required" && isList(inner)) return [key, sortedSet(inner)];
    if (!NAMED.has(key) || !isTable(inner)) return [key, orderedSchema(inner)];
    const named = Object.entries(inner as Readonly<Record<string, Json>>);
    return [key, Object.fromEntries(named.map(([name, each]) => [name, orderedSchema(each)]))];
  });
  return Object.fromEntries(members);
}

function sortedSet(names: readonly Json[]): Json {
  const byText = new Map(names.map((name) => [JSON.stringify(name), name]));
  return [...byText].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, name]) => name);
}

const DIFFERENCES_MAX = 16;
const SHOWN_CHARACTERS_MAX = 160;
/** Characters before the first difference of two long texts. */
const CONTEXT_CHARACTERS = 40;

/** A difference between two definitions at one position, with invisible characters escaped. */
interface Difference {
  /** One bounded line. */
  readonly excerpt: string;
  /** Everything, where the excerpt leaves something out. */
  readonly whole: readonly string[];
}

/** Returns what differs between two definitions, one entry for each position. */
export function differences(before: Json | undefined, after: Json | undefined): readonly Difference[] {
  const found: Difference[] = [];
  compare({ before, after, path: "" }, found);
  return found;
}

/** Returns a bounded number of lines for a log. */
export function excerptsOf(found: readonly Difference[]): readonly string[] {
  const shown = found.slice(0, DIFFERENCES_MAX).map(({ excerpt }) => excerpt);
  return found.length > shown.length ? [...shown, `and ${found.length - shown.length} more`] : shown;
}

/** Returns everything that differs, for whoever decides about the new definition. */
export function allOf(found: readonly Difference[]): readonly string[] {
  return found.flatMap(({ excerpt, whole }) => [excerpt, ...whole]);
}

/** Returns a whole definition as lines. */
export function linesOfDefinition({ pinned }: Definition): readonly string[] {
  return JSON.stringify(pinned, null, 2).split("\n").map(visible);
}

interface Compared {
  readonly before: Json | undefined;
  readonly after: Json | undefined;
  readonly path: string;
}

function compare({ before, after, path }: Compared, found: Difference[]): void {
  if (isTable(before) && isTable(after)) {
    const [one, other] = [before, after] as readonly Readonly<Record<string, Json>>[];
    const keys = new Set([...Object.keys(one ?? {}), ...Object.keys(other ?? {})]);
    for (const key of [...keys].sort()) {
      const inner = { before: own(one, key), after: own(other, key) };
      compare({ ...inner, path: path === "" ? key : `${path}.${key}` }, found);
    }
    return;
  }
  const [was, is] = [jsonOrAbsent(before), jsonOrAbsent(after)];
  if (was === is) return;
  const from = excerptStart(was, is);
  const position = path || "(definition)";
  const isWhole = from === 0 && [position, was, is].every((text) => text.length <= SHOWN_CHARACTERS_MAX);
  found.push({
    excerpt: `${bounded(position)}: ${excerpt(was, from)} → ${excerpt(is, from)}`,
    whole: isWhole ? [] : [`  all of ${visible(position)}`, `  before: ${visible(was)}`, `  now: ${visible(is)}`],
  });
}

function own(table: Readonly<Record<string, Json>> | undefined, key: string): Json | undefined {
  return table !== undefined && Object.hasOwn(table, key) ? table[key] : undefined;
}

function jsonOrAbsent(value: Json | undefined): string {
  return value === undefined ? "(absent)" : JSON.stringify(value);
}

/** Returns where the excerpts of two texts start, so that both show the first difference. */
function excerptStart(one: string, other: string): number {
  let same = 0;
  while (same < one.length && one[same] === other[same]) same += 1;
  return same < SHOWN_CHARACTERS_MAX / 2 ? 0 : same - CONTEXT_CHARACTERS;
}

function excerpt(text: string, from: number): string {
  return bounded(from === 0 ? text : `…${text.slice(from).toWellFormed()}`);
}

/** Returns a server's text for a message: bounded, on one line, with invisible characters escaped. */
export function bounded(text: string, charactersMax = SHOWN_CHARACTERS_MAX): string {
  const cut = text.length > charactersMax ? `${text.slice(0, charactersMax).toWellFormed()}…` : text;
  return visible(cut);
}
