import { z } from "zod";
import { NOT_LOGGED } from "../audit-fields.ts";
import { isList } from "../json.ts";
import { element, joinPath } from "../output-policy/field-path.ts";
import { mask } from "../output-policy/masks.ts";
import { type CompiledPolicy, compilePolicy } from "../output-policy/output-policy.ts";
import { boundedFormatsOf, checksOf } from "../schema/text-checks.ts";
import { defOf, type Schema, schemaParts } from "../schema/walk.ts";
import type { InputPolicy, Json } from "../types.ts";

/** Largest size of a number range whose values are logged: such a number reveals no more than an enum value. */
const NUMBER_RANGE_MAX = 1_000_000;

/** Types of schemas whose values have no parts. */
const SCALARS = new Set(["string", "template_literal", "number", "bigint", "boolean", "enum", "literal", "null"]);

/**
 * Compiles the declared policy together with the defaults.
 *
 * @throws {TypeError} for a malformed pattern
 */
export function compileInputPolicy(declared: InputPolicy, input: z.ZodType): CompiledPolicy {
  const { root } = compilePolicy(declared, input);
  const defaults = Object.entries(defaultsOf(input)).filter(([path]) => nodeAt(root, path).action === undefined);
  return compilePolicy({ ...Object.fromEntries(defaults), ...declared }, input);
}

/** Returns the arguments for the audit: every field, with its value only if a pattern or its type allows it. */
export function sanitizeInput({ root }: CompiledPolicy, input: unknown): Record<string, Json> {
  const shown = show(root, input as Json);
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

/** Returns the node that a path of plain names and `[]` leads to. */
function nodeAt(root: PolicyNode, path: string): PolicyNode {
  return stepsOf(path).reduce<PolicyNode>(
    (node, step) => (step === "[]" ? node.element.node : (node.keys.get(step) ?? node.other).node),
    root,
  );
}

function stepsOf(path: string): readonly string[] {
  return path.match(/[^.[\]]+|\[\]/g) ?? [];
}

interface Leaves {
  readonly isHarmless: Map<string, boolean>;
  /** Paths below which any value may occur, except at the listed keys. */
  readonly open: Map<string, ReadonlySet<string>>;
}

/**
 * Returns patterns that allow fields with harmless types. Where a union gives a field several types, all must be
 * harmless. A pattern also covers everything below it, so other fields below get a pattern of their own that redacts
 * them.
 */
function defaultsOf(input: z.ZodType): InputPolicy {
  const leaves: Leaves = { isHarmless: new Map(), open: new Map() };
  collect(input, "", leaves);
  const holdsOpen = new Set(
    [...leaves.open.keys()].flatMap((path) => [path, ...stepsAbove(path).map((step) => step.path)]),
  );
  const paths = [...leaves.isHarmless];
  const shown = new Set(
    paths.flatMap(([path, isHarmless]) =>
      isHarmless && !holdsOpen.has(path) && !isInOpen(path, leaves) ? [path] : [],
    ),
  );
  const closed = paths.filter(
    ([path, isHarmless]) => !isHarmless && stepsAbove(path).some((step) => shown.has(step.path)),
  );
  return Object.fromEntries([
    ...[...shown].map((path) => [path, "allow"] as const),
    ...closed.map(([path]) => [path, "redact"] as const),
  ]);
}

/** Returns whether a path may hold a value that the schema does not list. */
function isInOpen(path: string, { open }: Leaves): boolean {
  return stepsAbove(path).some((step) => open.get(step.path)?.has(step.next) === false);
}

/** Returns the paths above a path, each with its next step towards it. */
function stepsAbove(path: string): readonly { readonly path: string; readonly next: string }[] {
  let before = "";
  return stepsOf(path).map((next) => {
    const step = { path: before, next };
    before = joinPath(before, next);
    return step;
  });
}

function collect(schema: Schema, path: string, leaves: Leaves): void {
  const def = defOf(schema);
  const parts = partsOf(schema, path);
  if (parts === undefined) {
    leaves.isHarmless.set(path, isHarmless(schema) && leaves.isHarmless.get(path) !== false);
    if (!SCALARS.has(def.type)) leaves.open.set(path, new Set());
    return;
  }
  if (def.type === "object" && !isDescribed(def)) {
    const listedBefore = leaves.open.get(path);
    const keys = Object.keys(def.shape).filter((key) => listedBefore?.has(key) !== false);
    leaves.open.set(path, new Set(keys));
  }
  for (const [innerPath, part] of parts) collect(part, innerPath, leaves);
}

/** Types of schemas whose parts decide instead of the schema itself. */
const BRANCHES: ReadonlySet<string> = new Set(
  "optional nullable default prefault readonly nonoptional catch array union object".split(" "),
);

/** Returns the parts of a schema with their paths; `undefined` when it is a leaf. */
function partsOf(schema: Schema, path: string): readonly (readonly [path: string, schema: Schema])[] | undefined {
  if (!BRANCHES.has(defOf(schema).type)) return undefined;
  return schemaParts(schema).flatMap(([step, part]) => {
    if (step === undefined) return [[path, part] as const];
    if (step === element) return [[joinPath(path, "[]"), part] as const];
    return typeof step === "string" && PLAIN_WORD.test(step) ? [[joinPath(path, step), part] as const] : [];
  });
}

/** Names that a pattern can contain. Fields with other names are not logged. */
const PLAIN_WORD = /^[A-Za-z_$][\w$-]*$/;

/** Returns whether patterns can name all keys that the object may have. */
function isDescribed({ shape, catchall }: z.core.$ZodObjectDef): boolean {
  const isClosed = catchall === undefined || defOf(catchall).type === "never";
  return isClosed && Object.keys(shape).every((key) => PLAIN_WORD.test(key));
}

function isHarmless(schema: Schema): boolean {
  const def = defOf(schema);
  if (def.type === "enum" || def.type === "literal" || def.type === "boolean" || def.type === "null") return true;
  if (def.type === "string")
    return boundedFormatsOf(checksOf(schema)).some((format) => format === "uuid" || format === "guid");
  if (def.type !== "number") return false;
  const { minimum, maximum } = z.toJSONSchema(schema) as { readonly minimum?: number; readonly maximum?: number };
  return minimum !== undefined && maximum !== undefined && maximum - minimum <= NUMBER_RANGE_MAX;
}
