import { z } from "zod";
import { isList } from "../json.ts";
import { mask } from "../policy/masks.ts";
import { type CompiledPolicy, compilePolicy } from "../policy/output-policy.ts";
import type { InputPolicy, Json } from "../types.ts";

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
  const { root } = compilePolicy(declared, input);
  const defaults = [...harmless].filter(([path, isHarmless]) => isHarmless && nodeAt(root, path).action === undefined);
  const allowed = Object.fromEntries(defaults.map(([path]) => [path, "allow"] as const));
  return { policy: compilePolicy({ ...allowed, ...declared }, input) };
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

/** Where a path of plain names and `[]` leads. */
function nodeAt(root: PolicyNode, path: string): PolicyNode {
  const steps = path.match(/[^.[\]]+|\[\]/g) ?? [];
  return steps.reduce(
    (node, step) => (step === "[]" ? node.element.node : (node.keys.get(step) ?? node.other).node),
    root,
  );
}

/** Notes for every leaf whether its type makes it harmless; where shapes differ, all of them must. */
function collect(schema: z.core.$ZodType, path: string, harmless: Map<string, boolean>): void {
  const def = schema._zod.def as z.core.$ZodTypeDef & Readonly<Record<string, unknown>>;
  const inner = partsOf(def, path);
  if (inner === undefined) harmless.set(path, isHarmless(schema, def) && harmless.get(path) !== false);
  else for (const [innerPath, part] of inner) collect(part, innerPath, harmless);
}

type Part = readonly [path: string, schema: z.core.$ZodType];

/** What a schema is made of, or nothing when it is a leaf. */
function partsOf(
  def: z.core.$ZodTypeDef & Readonly<Record<string, unknown>>,
  path: string,
): readonly Part[] | undefined {
  if (WRAPPERS.has(def.type)) return [[path, def["innerType"] as z.core.$ZodType]];
  if (def.type === "array") return [[`${path}[]`, def["element"] as z.core.$ZodType]];
  if (def.type === "union") return (def["options"] as readonly z.core.$ZodType[]).map((option) => [path, option]);
  if (def.type !== "object") return undefined;
  // A name that is no plain word cannot be said in a pattern, and stays closed.
  return Object.entries(def["shape"] as Record<string, z.core.$ZodType>)
    .filter(([key]) => /^[A-Za-z_$][\w$-]*$/.test(key))
    .map(([key, part]) => [path === "" ? key : `${path}.${key}`, part]);
}

function isHarmless(schema: z.core.$ZodType, def: z.core.$ZodTypeDef & Readonly<Record<string, unknown>>): boolean {
  if (def.type === "enum" || def.type === "literal" || def.type === "boolean" || def.type === "null") return true;
  if (def.type === "string") return def["format"] === "uuid" || def["format"] === "guid";
  if (def.type !== "number") return false;
  const { minimum, maximum } = z.toJSONSchema(schema) as { readonly minimum?: number; readonly maximum?: number };
  return minimum !== undefined && maximum !== undefined && maximum - minimum <= NUMBER_RANGE_MAX;
}
