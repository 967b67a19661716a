import type { Json } from "./types.ts";

/**
 * Returns a deep copy that the recipient may change without affecting the original. `structuredClone` takes ten times as long
 * for plain JSON.
 *
 * @throws {DOMException} for values that `structuredClone` does not accept
 */
export function copyOf(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(copyOf);
  if (Object.getPrototypeOf(value) !== Object.prototype) return structuredClone(value);
  const copy: Record<string, unknown> = {};
  for (const key of Object.keys(value)) {
    if (key === "__proto__") return structuredClone(value);
    copy[key] = copyOf((value as Readonly<Record<string, unknown>>)[key]);
  }
  return copy;
}

/**
 * Returns whether two values consist of the same JSON, whatever the order of keys. False when they nest deeper than `depthMax`, or
 * hold instances of classes.
 */
export function isSameJson(one: unknown, other: unknown, depthMax: number): boolean {
  if (typeof one !== "object" || one === null) return one === other;
  if (!isContainer(one) || !isContainer(other) || depthMax === 0) return false;
  if (Array.isArray(one) !== Array.isArray(other) || one["length"] !== other["length"]) return false;
  const keys = Object.keys(one);
  if (Object.keys(other).length !== keys.length) return false;
  for (const key of keys) {
    if (!Object.hasOwn(other, key) || !isSameJson(one[key], other[key], depthMax - 1)) return false;
  }
  return true;
}

function isContainer(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) return false;
  return Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype;
}

/** Returns JSON whose texts are changed by a function; keys stay. */
export function mapStrings(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === "string") return change(value);
  if (Array.isArray(value)) return value.map((each) => mapStrings(each, change));
  if (!isTable(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, mapStrings(inner, change)]));
}

/** Returns whether no number of a value has lost digits when it was read: those beyond 2^53 do, and may then be other numbers. */
export function hasExactNumbers(value: Json): boolean {
  if (typeof value === "number") return Math.abs(value) <= Number.MAX_SAFE_INTEGER;
  return typeof value !== "object" || value === null || Object.values(value).every(hasExactNumbers);
}

/** Limits for a call's arguments wherever they are copied or hashed: higher than the limit of any endpoint. */
export const ARGUMENT_LIMITS: JsonLimits = Object.freeze({
  depthMax: 256,
  nodesMax: 1_000_000,
  bytesMax: 67_108_864,
});

/** Works like `Array.isArray`, which does not narrow a readonly list. */
export function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

/** Returns whether a value is an object and not a list. Nothing else is known about its content. */
export function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function asString(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** Returns the strings of a list; none when the value is not a list. */
export function asStrings(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
}

export interface JsonLimits {
  /** Levels of nested containers. */
  readonly depthMax: number;
  /** UTF-8 bytes of the canonical text. */
  readonly bytesMax: number;
  /** Values of any kind. */
  readonly nodesMax: number;
}

/** Returns the JSON type of the value at a path, for messages; `nothing` when there is none. */
export function kindAt(value: unknown, path: readonly PropertyKey[]): string {
  let at: unknown = value;
  for (const step of path) at = typeof at === "object" && at !== null ? Reflect.get(at, step) : undefined;
  if (at === undefined) return "nothing";
  if (at === null) return "null";
  return Array.isArray(at) ? "array" : typeof at;
}
