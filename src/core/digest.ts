import { createHmac, hash } from "node:crypto";
import { isList, type JsonLimits } from "./json.ts";
import type { Json } from "./types.ts";

/** `throws`: a getter or proxy threw. `type`: something that JSON has no word for. */
export type NotJsonReason = "cyclic" | "depth" | "size" | "type" | "throws";

/** A value is not JSON, or too much of it. `path` shows where, with `*` for every key: keys are data. */
export class NotJsonError extends Error {
  override readonly name = "NotJsonError";
  readonly reason: NotJsonReason;
  readonly path: string;

  constructor(reason: NotJsonReason, path: string) {
    super(`not JSON (${reason}) at ${path === "" ? "the top" : path}`);
    this.reason = reason;
    this.path = path;
  }
}

interface Walk {
  readonly limits: JsonLimits;
  /** The containers from the top down to the one being copied. */
  readonly ancestors: object[];
  nodes: number;
  /** UTF-16 units of strings and keys so far: never more than the bytes of the text. */
  units: number;
  /** Whether some object has a key that objects keep in an order of their own. */
  hasIndexKeys: boolean;
}

/** At most so much is in a tree that its maker vouches for. */
export const VOUCHED_LIMITS = { depthMax: 32, nodesMax: 450_000 } as const;

/** Trees that are as a copy of them would be. */
const vouched = new WeakSet<object>();

/**
 * Spares a tree its copy in `canonical`, once. Only for a decoder of ours that has just made it, of nothing but plain objects and
 * arrays, texts, finite numbers without a minus zero, booleans and null; whose keys stand in their order, none of which begins
 * with a digit; within `VOUCHED_LIMITS`; and that nobody else holds.
 */
export function vouchFor(tree: object): void {
  vouched.add(tree);
}

/** A value's text, and the value that the text spells: plain, and nobody else's. */
export interface Canonical {
  readonly text: string;
  readonly value: Json;
}

/**
 * The RFC 8785 (JCS) text of a value: plain objects and arrays, strings, finite numbers, booleans, null, and dates as
 * ISO strings. `undefined` and holes are dropped from objects and null in arrays, as JSON.stringify does; lone
 * surrogates are escaped as it does; `toJSON` is not called. Every property is read once. Instances of other classes
 * are refused: what they hide would be lost in silence.
 * @throws NotJsonError
 */
export function canonical(value: unknown, limits: JsonLimits): Canonical {
  if (isVouchedFor(value, limits)) return spelled(value, JSON.stringify(value), limits);
  const walk: Walk = { limits, ancestors: [], nodes: 0, units: 0, hasIndexKeys: false };
  let copied: Json | undefined;
  try {
    copied = copy(walk, value);
  } catch (error) {
    throw error instanceof NotJsonError ? error : notJson(walk, "throws");
  }
  if (copied === undefined) throw notJson(walk, "type");
  // The copy's keys stand in their order, so that the engine's own writer spells them in it.
  return spelled(copied, walk.hasIndexKeys ? write(copied) : JSON.stringify(copied), limits);
}

function isVouchedFor(value: unknown, { depthMax, nodesMax }: JsonLimits): value is Json {
  if (typeof value !== "object" || value === null || !vouched.delete(value)) return false;
  return depthMax >= VOUCHED_LIMITS.depthMax && nodesMax >= VOUCHED_LIMITS.nodesMax;
}

function spelled(value: Json, text: string, { bytesMax }: JsonLimits): Canonical {
  if (text.length * 3 > bytesMax && Buffer.byteLength(text) > bytesMax) throw new NotJsonError("size", "");
  return { text, value };
}

/**
 * The text of `canonical`.
 * @throws NotJsonError
 */
export function canonicalJson(value: unknown, limits: JsonLimits): string {
  return canonical(value, limits).text;
}

function notJson(walk: Walk, reason: NotJsonReason): NotJsonError {
  const steps = walk.ancestors.map((ancestor, index) => {
    if (isArray(ancestor)) return "[]";
    return index === 0 ? "*" : ".*";
  });
  return new NotJsonError(reason, steps.join(""));
}

/** `Array.isArray` throws for a revoked proxy. */
function isArray(value: object): boolean {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}

/** `undefined` when the value is `undefined`. */
function copy(walk: Walk, value: unknown): Json | undefined {
  walk.nodes += 1;
  if (walk.nodes > walk.limits.nodesMax) throw notJson(walk, "size");
  switch (typeof value) {
    case "string":
      return counted(walk, value);
    case "number":
      if (!Number.isFinite(value)) throw notJson(walk, "type");
      // JSON has no minus zero.
      return value === 0 ? 0 : value;
    case "boolean":
    case "undefined":
      return value;
    case "object":
      return value === null ? null : copyContainer(walk, value);
    default:
      throw notJson(walk, "type");
  }
}

function counted(walk: Walk, text: string): string {
  walk.units += text.length;
  if (walk.units > walk.limits.bytesMax) throw notJson(walk, "size");
  return text;
}

function copyContainer(walk: Walk, value: object): Json {
  if (Array.isArray(value)) {
    enter(walk, value);
    const copied = copyArray(walk, value);
    walk.ancestors.pop();
    return copied;
  }
  if (isPlain(value)) {
    enter(walk, value);
    const copied = copyObject(walk, value);
    walk.ancestors.pop();
    return copied;
  }
  if (value instanceof Date && !Number.isNaN(Date.prototype.getTime.call(value))) {
    return counted(walk, Date.prototype.toISOString.call(value));
  }
  throw notJson(walk, "type");
}

/** Plain: made by a literal, `JSON.parse` or `Object.create(null)`, in this realm or another. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null || Object.getPrototypeOf(prototype) === null;
}

function enter(walk: Walk, value: object): void {
  const { ancestors, limits } = walk;
  if (ancestors.includes(value)) throw notJson(walk, "cyclic");
  if (ancestors.length >= limits.depthMax) throw notJson(walk, "depth");
  ancestors.push(value);
}

/** Before they are sorted or copied: a million keys take a second. */
function assertRoom(walk: Walk, count: number): void {
  if (walk.nodes + count > walk.limits.nodesMax) throw notJson(walk, "size");
}

function copyArray(walk: Walk, values: readonly unknown[]): Json {
  const copied: Json[] = [];
  assertRoom(walk, values.length);
  for (let index = 0; index < values.length; index += 1) copied.push(copy(walk, values[index]) ?? null);
  return copied;
}

function copyObject(walk: Walk, value: object): Json {
  const source = value as Readonly<Record<string, unknown>>;
  const copied: Record<string, Json> = {};
  const keys = Object.keys(value);
  assertRoom(walk, keys.length);
  sort(keys);
  for (let index = 0; index < keys.length; index += 1) {
    const key = keys[index] ?? "";
    const inner = copy(walk, source[key]);
    if (inner === undefined) continue;
    counted(walk, key);
    if (isIndexLike(key)) walk.hasIndexKeys = true;
    if (key === "__proto__") own(copied, key, inner);
    else copied[key] = inner;
  }
  return copied;
}

/** Most objects come with their keys in order: decoders sort them, and so does this module. */
function sort(keys: string[]): readonly string[] {
  for (let index = 1; index < keys.length; index += 1) {
    if ((keys[index - 1] ?? "") > (keys[index] ?? "")) return keys.sort();
  }
  return keys;
}

/** An assignment would set the prototype. */
function own(target: object, key: string, value: Json): void {
  Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
}

function isIndexLike(key: string): boolean {
  const code = key.charCodeAt(0);
  return code >= 0x30 && code <= 0x39;
}

/** The text of a copy whose keys the engine does not keep in their order. */
function write(value: Json): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (isList(value)) return `[${value.map(write).join()}]`;
  const fields = sort(Object.keys(value)).map((key) => `${JSON.stringify(key)}:${write(value[key] ?? null)}`);
  return `{${fields.join()}}`;
}

/** Lone surrogates in text hash as U+FFFD: escape them first (`canonicalJson` does). */
export function sha256Hex(content: string | Uint8Array): string {
  return hash("sha256", content, "hex");
}

export function hmacSha256Hex(key: string | Uint8Array, text: string | Uint8Array): string {
  return createHmac("sha256", key).update(text).digest("hex");
}
