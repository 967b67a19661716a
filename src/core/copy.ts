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
