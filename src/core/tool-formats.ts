import { z } from "zod";
import type { Fault } from "./errors.ts";
import { isList, isTable } from "./json.ts";
import { joinPath } from "./output-policy/field-path.ts";
import type { Json } from "./types.ts";

type JsonObject = { readonly [key: string]: Json };

const SCHEMA_PARTS_MAX = 10_000;

/**
 * Returns the draft-7 JSON Schema of a tool's input: flat (no `$ref`), its top level an object with named properties.
 *
 * @throws {Error} when the schema is recursive, has no JSON Schema (dates, bigints, transforms …), or its top level is
 * a union
 */
export function inputJsonSchema(schema: z.ZodType, target: "draft-7" | "draft-2020-12" = "draft-7"): JsonObject {
  const exported = z.toJSONSchema(schema, { io: "input", target, cycles: "throw", reused: "inline" });
  const { $schema: _, definitions, $defs, ...top } = JSON.parse(JSON.stringify(exported)) as JsonObject;
  const flat = inline(top, {
    definitions: { ...(isTable(definitions) && definitions), ...(isTable($defs) && $defs) },
    open: [],
    parts: { left: SCHEMA_PARTS_MAX },
  });
  if (!isTable(flat) || flat["type"] !== "object" || ["anyOf", "oneOf", "allOf"].some((choice) => choice in flat)) {
    throw new TypeError("the input must be z.object or z.strictObject: LLM APIs refuse a choice at the top");
  }
  return target === "draft-7" ? (inDraft7(flat) as JsonObject) : flat;
}

/** Writes positional elements as draft 7 does. Data-only manifests are written in draft 2020-12. */
function inDraft7(node: Json): Json {
  if (isList(node)) return node.map(inDraft7);
  if (!isTable(node)) return node;
  const { prefixItems, items: rest, ...others } = mapValues(node as JsonObject, inDraft7);
  const named: JsonObject = {
    ...others,
    ...(prefixItems !== undefined && { prefixItems }),
    ...(rest !== undefined && { items: rest }),
  };
  if (!isList(prefixItems)) return named;
  return { ...others, items: prefixItems, ...(rest !== undefined && { additionalItems: rest }) };
}

interface Inlining {
  readonly definitions: JsonObject;
  /** References that are being replaced: finding one of them again means recursion. */
  readonly open: readonly string[];
  readonly parts: { left: number };
}

function inline(node: Json, context: Inlining): Json {
  context.parts.left -= 1;
  if (context.parts.left < 0) throw new RangeError(`the input schema has more than ${SCHEMA_PARTS_MAX} parts`);
  if (isList(node)) return node.map((part) => inline(part, context));
  if (!isTable(node)) return node;
  const { $ref: reference, ...others } = node;
  if (typeof reference !== "string") return mapValues(node, (part) => inline(part, context));
  const target = context.definitions[reference.replace(/^#\/(?:definitions|\$defs)\//, "")];
  if (target === undefined || context.open.includes(reference)) throw new TypeError("the input schema is recursive");
  const replaced = inline(target, { ...context, open: [...context.open, reference] });
  return { ...(isTable(replaced) ? replaced : {}), ...mapValues(others, (part) => inline(part, context)) };
}

function mapValues(source: JsonObject, change: (value: Json) => Json): JsonObject {
  return Object.fromEntries(Object.entries(source).map(([key, value]) => [key, change(value)]));
}

/** Zod types that JSON cannot represent, with what to write instead. */
const UNREPRESENTABLE: Readonly<Record<string, string>> = {
  date: "JSON has no dates: write z.iso.datetime() or z.iso.date()",
  bigint: "JSON has no bigints: write z.int(), or z.string().regex(/^-?[0-9]{1,19}$/) for 64 bits",
  undefined: "JSON has no undefined: leave the field out, or write .optional() on the other schema",
  void: "JSON has no undefined: leave the field out, or write .optional() on the other schema",
  symbol: "JSON has no symbols: write z.literal() or z.enum()",
  nan: "JSON has no NaN: write z.number().nullable()",
  map: "JSON has no maps: write z.record()",
  set: "JSON has no sets: write z.array()",
  file: "JSON has no files: write z.base64() with a maximum",
  promise: "JSON has no promises: write the schema of the result",
  function: "JSON has no functions: write the schema of the result",
  custom: "z.custom() and z.instanceof() say nothing about the shape: write the shape, and .refine() for the rest",
  transform:
    "the result of a transform has no schema: transform in the handler (or in `parse`), and write the result's schema",
};

/** Returns an error for each position without a JSON Schema or a possible JSON value. Fields begin with `top`. */
export function jsonSchemaFaults(top: "input" | "output", schema: z.ZodType): readonly Fault[] {
  const faults = new Map<string, Fault>();
  const override = ({ zodSchema, path }: Visit): void => {
    const { type, checks = [] } = zodSchema._zod.def;
    const message = UNREPRESENTABLE[type] ?? (checks.some(isAsync) ? ASYNC_REFINEMENT : undefined);
    if (message === undefined) return;
    const field = fieldOf(top, path);
    faults.set(field, { field, message });
  };
  z.toJSONSchema(schema, { io: top, unrepresentable: "any", reused: "inline", override });
  return [...faults.values()];
}

const ASYNC_REFINEMENT = "must be synchronous: an async refinement is not possible here; look things up in the handler";

function isAsync({ _zod: { def } }: z.core.$ZodCheck): boolean {
  return "fn" in def && def.fn instanceof Function && def.fn.constructor.name === "AsyncFunction";
}

interface Visit {
  readonly zodSchema: z.core.$ZodType;
  /** Path in the JSON Schema: `["properties", "from"]`. */
  readonly path: readonly (string | number)[];
}

const STEPS: Readonly<Record<string, string>> = { items: "[]", additionalItems: "[]", additionalProperties: "*" };
const NUMBERED: ReadonlySet<string | number> = new Set(["anyOf", "oneOf", "allOf", "prefixItems", "items"]);

function fieldOf(top: string, path: readonly (string | number)[]): string {
  let field = top;
  for (let at = 0; at < path.length; at += 1) {
    const step = path[at] ?? "";
    if (step === "properties") {
      at += 1;
      field = joinPath(field, String(path[at]));
      continue;
    }
    if (step === "prefixItems") field = joinPath(field, "[]");
    else field = STEPS[step] === undefined ? field : joinPath(field, STEPS[step]);
    if (NUMBERED.has(step) && typeof path[at + 1] === "number") at += 1;
  }
  return field;
}
