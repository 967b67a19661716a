import type { z } from "zod";
import { mask } from "./masks.ts";
import { type CompiledPolicy, compilePolicy } from "./output-policy.ts";
import type { InputPolicy, Json } from "./types.ts";

/** What of the arguments may stand in the audit, compiled once per tool. */
export interface CompiledInputPolicy {
  readonly policy: CompiledPolicy;
}

/** Stands where a value is that the audit may not hold. */
export const NOT_LOGGED = "[not logged]";

/** A number from so small a range says no more than a choice from a list. */
const NUMBER_RANGE_MAX = 1_000_000;

/** Schemas that only wrap another one. */
const WRAPPERS = new Set(["optional", "nullable", "default", "prefault", "readonly", "nonoptional", "catch"]);

/** @throws {TypeError} for a malformed pattern */
export function compileInputPolicy(declared: InputPolicy, input: z.ZodType): CompiledInputPolicy {
  const harmless = new Map<string, boolean>();
  collect(input, "", harmless);
  const defaults = [...harmless].filter(([path, isHarmless]) => isHarmless && !isCovered(declared, path));
  return {
    policy: compilePolicy({ ...Object.fromEntries(defaults.map(([path]) => [path, "allow"])), ...declared }, input),
  };
}

/** The parsed arguments as the audit may show them: every field is there, values only where a rule or a harmless type says so. */
export function sanitizeInput({ policy }: CompiledInputPolicy, input: unknown): Record<string, Json> {
  const shown = show(policy.root, input as Json);
  return typeof shown === "object" && shown !== null && !Array.isArray(shown) ? (shown as Record<string, Json>) : {};
}

type PolicyNode = CompiledPolicy["root"];

function show(node: PolicyNode, value: Json): Json {
  if (typeof value !== "object" || value === null) {
    if (node.action === "allow") return value;
    return node.action === "mask" ? mask(value) : NOT_LOGGED;
  }
  if (isList(value)) return value.map((item) => show(node.element.node, item));
  const shown: Record<string, Json> = {};
  for (const key of Object.keys(value)) {
    const inner = value[key];
    if (key !== "__proto__" && inner !== undefined) shown[key] = show((node.keys.get(key) ?? node.other).node, inner);
  }
  return shown;
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

/** A declared pattern that could speak about the path keeps the default away from it. */
function isCovered(declared: InputPolicy, path: string): boolean {
  const head = path.split(/[.[]/, 1)[0] ?? "";
  return Object.keys(declared).some(
    (pattern) =>
      pattern.startsWith("*") ||
      pattern === head ||
      (/^[.[]/.test(pattern.slice(head.length)) && pattern.startsWith(head)),
  );
}

/** Notes for every leaf whether its type makes it harmless; where shapes differ, all of them must. */
function collect(schema: z.core.$ZodType, path: string, harmless: Map<string, boolean>): void {
  const def = schema._zod.def as z.core.$ZodTypeDef & Readonly<Record<string, unknown>>;
  if (WRAPPERS.has(def.type)) return collect(def["innerType"] as z.core.$ZodType, path, harmless);
  if (def.type === "object") {
    for (const [key, inner] of Object.entries(def["shape"] as Record<string, z.core.$ZodType>)) {
      if (/^[A-Za-z_$][\w$-]*$/.test(key)) collect(inner, path === "" ? key : `${path}.${key}`, harmless);
    }
    return;
  }
  if (def.type === "array") return collect(def["element"] as z.core.$ZodType, `${path}[]`, harmless);
  if (def.type === "union") {
    for (const option of def["options"] as readonly z.core.$ZodType[]) collect(option, path, harmless);
    return;
  }
  harmless.set(path, isHarmless(schema, def) && harmless.get(path) !== false);
}

function isHarmless(schema: z.core.$ZodType, def: z.core.$ZodTypeDef & Readonly<Record<string, unknown>>): boolean {
  if (def.type === "enum" || def.type === "literal" || def.type === "boolean" || def.type === "null") return true;
  if (def.type === "string") return def["format"] === "uuid" || def["format"] === "guid";
  if (def.type !== "number") return false;
  const { minimum, maximum } = schema._zod.bag as { readonly minimum?: number; readonly maximum?: number };
  return minimum !== undefined && maximum !== undefined && maximum - minimum <= NUMBER_RANGE_MAX;
}
