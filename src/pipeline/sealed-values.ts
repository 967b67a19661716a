import { canonicalJson, type JsonLimits } from "../core/digest.ts";

/**
 * The text of what a schema made of arguments when JSON has no word for it: sets, maps, large numbers, bytes. Every container says
 * what it is, so that no two values have the same text.
 *
 * @throws NotJsonError for anything else
 */
export function sealedText(value: unknown, limits: JsonLimits): string {
  return canonicalJson(worded(value), limits);
}

function worded(value: unknown): unknown {
  if (typeof value === "bigint") return { bigint: value.toString() };
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return { list: value.map(worded) };
  if (value instanceof Set) return { set: [...value].map(worded) };
  if (value instanceof Map) return { map: [...value].map(([key, inner]) => [worded(key), worded(inner)]) };
  if (value instanceof Uint8Array) return { bytes: Buffer.from(value).toString("base64") };
  if (value instanceof Date) return { date: value };
  // What instances of other classes hide would be lost in silence.
  if (Object.getPrototypeOf(value) !== Object.prototype) return value;
  return { table: Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, worded(inner)])) };
}
