import { createHmac } from "node:crypto";
import { isList, type JsonLimits } from "./json.ts";
import type { Json } from "./types.ts";

/** Reason why a value is not JSON. `throws`: a getter or proxy threw. `type`: a value that JSON cannot represent. */
export type NotJsonReason = "cyclic" | "depth" | "size" | "type" | "throws";

/** A value is not JSON or exceeds the limits. `path` locates the problem, with `*` for every key because keys are data. */
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
  /** True when an object has an index-like key: objects keep such keys in an order of their own. */
  hasIndexKeys: boolean;
}

/** Size limits of a tree passed to `vouchFor`. */
export const VOUCHED_LIMITS = { depthMax: 32, nodesMax: 450_000 } as const;

/** Trees that are identical to their canonical copy. */
const vouched = new WeakSet<object>();

/**
 * Lets `canonical` skip copying a tree, once. Only for this codebase's own decoders, and only for a tree that they have just
 * created: it consists of plain objects and arrays, strings, finite numbers other than minus zero, booleans and null; its keys
 * are sorted and none begins with a digit; it is within `VOUCHED_LIMITS`; and no other code holds a reference to it.
 */
export function vouchFor(tree: object): void {
  vouched.add(tree);
}

/** A value's canonical text, and the value that the text represents: plain, and shared with no other code. */
export interface Canonical {
  readonly text: string;
  readonly value: Json;
}

/**
 * Returns the RFC 8785 (JCS) text of a value: plain objects and arrays, strings, finite numbers, booleans, null, and dates as
 * ISO strings. `undefined` and holes are dropped from objects and become null in arrays, as in JSON.stringify; lone surrogates
 * are escaped likewise; `toJSON` is not called. Every property is read once. Instances of other classes are rejected because
 * their hidden state would be lost silently.
 * @throws NotJsonError
 */
export function canonical(value: unknown, limits: JsonLimits): Canonical {
  if (isVouchedFor(value, limits)) return withText(value, JSON.stringify(value), limits);
  const walk: Walk = { limits, ancestors: [], nodes: 0, units: 0, hasIndexKeys: false };
  let copied: Json | undefined;
  try {
    copied = copy(walk, value);
  } catch (error) {
    throw error instanceof NotJsonError ? error : notJson(walk, "throws");
  }
  if (copied === undefined) throw notJson(walk, "type");
  // The copy's keys are sorted, so JSON.stringify writes them in order.
  return withText(copied, walk.hasIndexKeys ? write(copied) : JSON.stringify(copied), limits);
}

function isVouchedFor(value: unknown, { depthMax, nodesMax }: JsonLimits): value is Json {
  if (typeof value !== "object" || value === null || !vouched.delete(value)) return false;
  return depthMax >= VOUCHED_LIMITS.depthMax && nodesMax >= VOUCHED_LIMITS.nodesMax;
}

function withText(value: Json, text: string, { bytesMax }: JsonLimits): Canonical {
  if (text.length * 3 > bytesMax && Buffer.byteLength(text) > bytesMax) throw new NotJsonError("size", "");
  return { text, value };
}

/**
 * Returns only the text of `canonical`.
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

/** Works like `Array.isArray`, but returns false for a revoked proxy instead of throwing. */
function isArray(value: object): boolean {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}

/** Returns a JSON copy; `undefined` when the value is `undefined`. */
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

/** Returns whether an object was made by a literal, `JSON.parse` or `Object.create(null)`, in this realm or another. */
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

/** Checks the node limit before keys are sorted or copied: a million keys take a second. */
function assertNodes(walk: Walk, count: number): void {
  if (walk.nodes + count > walk.limits.nodesMax) throw notJson(walk, "size");
}

function copyArray(walk: Walk, values: readonly unknown[]): Json {
  const copied: Json[] = [];
  assertNodes(walk, values.length);
  for (let index = 0; index < values.length; index += 1) copied.push(copy(walk, values[index]) ?? null);
  return copied;
}

function copyObject(walk: Walk, value: object): Json {
  const source = value as Readonly<Record<string, unknown>>;
  const copied: Record<string, Json> = {};
  const keys = Object.keys(value);
  assertNodes(walk, keys.length);
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

/** The engine's sort has a fixed cost that a few keys do not repay. */
const KEYS_SORTED_BY_INSERTION_MAX = 16;

/** Sorts keys in place by UTF-16 code units. Keys that are sorted already, as decoders deliver them, cost one pass. */
function sort(keys: string[]): readonly string[] {
  if (keys.length > KEYS_SORTED_BY_INSERTION_MAX) return isSorted(keys) ? keys : keys.sort();
  for (let index = 1; index < keys.length; index += 1) {
    const key = keys[index] ?? "";
    let at = index;
    for (; at > 0 && (keys[at - 1] ?? "") > key; at -= 1) keys[at] = keys[at - 1] ?? "";
    keys[at] = key;
  }
  return keys;
}

function isSorted(keys: readonly string[]): boolean {
  return keys.every((key, index) => index === 0 || (keys[index - 1] ?? "") <= key);
}

/** Defines an own property; an assignment to `__proto__` would set the prototype. */
function own(target: object, key: string, value: Json): void {
  Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
}

function isIndexLike(key: string): boolean {
  const code = key.charCodeAt(0);
  return code >= 0x30 && code <= 0x39;
}

/** Returns the text of a copy with keys that the engine does not keep in sorted order. */
function write(value: Json): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (isList(value)) return `[${value.map(write).join()}]`;
  const fields = sort(Object.keys(value)).map((key) => `${JSON.stringify(key)}:${write(value[key] ?? null)}`);
  return `{${fields.join()}}`;
}

/** Bytes of a SHA-256. */
export const SHA256_BYTES = 32;

/**
 * Returns a SHA-256 in hex. Lone surrogates in text hash as U+FFFD: escape them first (`canonicalJson` does). For a text of
 * 60 bytes, `hash` of `node:crypto` takes 210 ns, `Bun.SHA256.hash` 160 ns, and 120 ns as bytes.
 */
export function sha256Hex(content: string | Uint8Array): string {
  return Bun.SHA256.hash(content, "hex");
}

export function sha256Base64(content: string | Uint8Array): string {
  return Bun.SHA256.hash(content, "base64");
}

/** Returns a SHA-256 as bytes, in `into`: by default, a new buffer. */
export function sha256(content: string | Uint8Array, into: Buffer = Buffer.allocUnsafe(SHA256_BYTES)): Buffer {
  Bun.SHA256.hash(content, into);
  return into;
}

export function hmacSha256Hex(key: string | Uint8Array, text: string | Uint8Array): string {
  return createHmac("sha256", key).update(text).digest("hex");
}
