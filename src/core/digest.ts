import { createHmac, hash } from "node:crypto";

export interface JsonLimits {
  /** Containers within containers. */
  readonly depthMax: number;
  /** UTF-8 bytes of the canonical text. */
  readonly bytesMax: number;
  /** Values of any kind. */
  readonly nodesMax: number;
}

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
  /** The containers from the top down to the one being written. */
  readonly ancestors: object[];
  nodes: number;
  /** UTF-16 units of strings and keys so far: never more than the bytes of the text. */
  units: number;
}

/**
 * The RFC 8785 (JCS) text of a value: plain objects and arrays, strings, finite numbers, booleans, null, and dates as
 * ISO strings. `undefined` and holes are dropped from objects and null in arrays, as JSON.stringify does; lone
 * surrogates are escaped as it does; `toJSON` is not called. Every property is read once. Instances of other classes
 * are refused: what they hide would be lost in silence.
 * @throws NotJsonError
 */
export function canonicalJson(value: unknown, limits: JsonLimits): string {
  const walk: Walk = { limits, ancestors: [], nodes: 0, units: 0 };
  let text: string | undefined;
  try {
    text = write(walk, value);
  } catch (error) {
    throw error instanceof NotJsonError ? error : notJson(walk, "throws");
  }
  if (text === undefined) throw notJson(walk, "type");
  if (text.length * 3 > limits.bytesMax && Buffer.byteLength(text) > limits.bytesMax) throw notJson(walk, "size");
  return text;
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
function write(walk: Walk, value: unknown): string | undefined {
  walk.nodes += 1;
  if (walk.nodes > walk.limits.nodesMax) throw notJson(walk, "size");
  switch (typeof value) {
    case "string":
      return quote(walk, value);
    case "number":
      if (!Number.isFinite(value)) throw notJson(walk, "type");
      return String(value);
    case "boolean":
      return value ? "true" : "false";
    case "undefined":
      return undefined;
    case "object":
      return value === null ? "null" : writeContainer(walk, value);
    default:
      throw notJson(walk, "type");
  }
}

function quote(walk: Walk, text: string): string {
  walk.units += text.length;
  if (walk.units > walk.limits.bytesMax) throw notJson(walk, "size");
  return JSON.stringify(text);
}

function writeContainer(walk: Walk, value: object): string {
  if (Array.isArray(value)) {
    enter(walk, value);
    const text = writeArray(walk, value);
    walk.ancestors.pop();
    return text;
  }
  if (isPlain(value)) {
    enter(walk, value);
    const text = writeObject(walk, value);
    walk.ancestors.pop();
    return text;
  }
  if (value instanceof Date && !Number.isNaN(Date.prototype.getTime.call(value))) {
    return quote(walk, Date.prototype.toISOString.call(value));
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

function writeArray(walk: Walk, values: readonly unknown[]): string {
  let text = "";
  for (let index = 0; index < values.length; index += 1) {
    text += `${index === 0 ? "" : ","}${write(walk, values[index]) ?? "null"}`;
  }
  return `[${text}]`;
}

function writeObject(walk: Walk, value: object): string {
  const source = value as Readonly<Record<string, unknown>>;
  let text = "";
  for (const key of Object.keys(value).sort()) {
    const written = write(walk, source[key]);
    if (written === undefined) continue;
    text += `${text === "" ? "" : ","}${quote(walk, key)}:${written}`;
  }
  return `{${text}}`;
}

/** Lone surrogates in text hash as U+FFFD: escape them first (`canonicalJson` does). */
export function sha256Hex(content: string | Uint8Array): string {
  return hash("sha256", content, "hex");
}

export function hmacSha256Hex(key: string | Uint8Array, text: string | Uint8Array): string {
  return createHmac("sha256", key).update(text).digest("hex");
}
