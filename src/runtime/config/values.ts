import { z } from "zod";
import { defOf, type Schema } from "../../core/schema/walk.ts";
import { TENANT_NAME, TENANT_NAME_RULE } from "../../core/tenant-names.ts";

/** Schemas that several sections of the configuration share. */

export const text = z.string().min(1);

export const name = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, "must be a name of letters, digits, dot, dash, underscore");

/** A name that is part of audit lines, and of which workers add their number. */
export const instanceName = z
  .string()
  .regex(
    /^[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/,
    "must be a name of letters, digits, dash, up to 63 characters",
  );

/** Name of a tenant. It is part of paths, of a database schema and of labels. */
export const tenantName = z.string().regex(TENANT_NAME, TENANT_NAME_RULE);

export const count = (fallback: number, max: number) => z.int().min(1).max(max).default(fallback);

/** Returns a function that reports a problem of the value being refined. A text is a path with dots. */
export function problemAdder(context: z.core.$RefinementCtx) {
  return (path: string | readonly PropertyKey[], message: string): void => {
    context.addIssue({ code: "custom", path: typeof path === "string" ? path.split(".") : [...path], message });
  };
}

/** Returns a refinement of a list whose entries need different names. */
export function uniqueNames(message: string) {
  return (entries: readonly { readonly name: string }[], context: z.core.$RefinementCtx): void => {
    const add = problemAdder(context);
    for (const index of repeated(entries.map(({ name }) => name))) add([index, "name"], message);
  };
}

/** Returns the indexes of the values that repeat an earlier one. */
export function repeated(values: readonly unknown[]): readonly number[] {
  return values.flatMap((value, index) => (values.indexOf(value) < index ? [index] : []));
}

/** The settings that a reload adopts, and what it adopts of each. */
const RELOADED = new WeakMap<Schema, string>();

/**
 * Marks a setting that a reload adopts, with everything below it; every other one is read only at startup. `adopts` says what, for
 * the documentation.
 */
export function reloaded<Setting extends z.ZodType>(setting: Setting, adopts = ""): Setting {
  // The same schema may serve another key.
  const marked = setting.clone();
  RELOADED.set(marked, adopts);
  return marked;
}

/** A key that a reload adopts, and what it adopts of it. */
interface ReloadedKey {
  readonly key: string;
  readonly adopts: string;
}

export function reloadedKeys(schema: Schema, path: readonly string[] = []): readonly ReloadedKey[] {
  const adopts = RELOADED.get(schema);
  if (adopts !== undefined) return [{ key: path.join("."), adopts }];
  const def = defOf(schema);
  if ("innerType" in def) return reloadedKeys(def.innerType, path);
  if (def.type !== "object") return [];
  return Object.entries(def.shape).flatMap(([name, below]) => reloadedKeys(below, [...path, name]));
}
