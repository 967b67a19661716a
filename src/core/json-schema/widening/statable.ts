import { isMemberName } from "../schema.ts";

/** Returns whether a manifest in YAML can hold a value as it is. */
export function isStatable(value: unknown): boolean {
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value === "number")
    return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(value).every(([key, inner]) => isStatableKey(key) && isStatable(inner));
}

export function isStatableKey(key: string): boolean {
  return key !== "__proto__" && key !== "<<" && key.isWellFormed();
}

/** Returns whether a manifest can describe a member of this name. */
export function isStatableName(name: string): boolean {
  return isMemberName(name) && isStatableKey(name);
}
