import { z } from "zod";
import type { Fault } from "../errors.ts";
import { joinPath } from "../policy/field-path.ts";

/** Zod types that JSON cannot represent, with what to write instead. */
const UNFIT: Readonly<Record<string, string>> = {
  date: "JSON has no dates: write z.iso.datetime() or z.iso.date()",
  bigint: "JSON has no bigints: write z.int(), or z.string().regex(/^-?[0-9]{1,19}$/) for 64 bits",
  undefined: "JSON has no undefined: leave the field out, or write .optional() on what it is otherwise",
  void: "JSON has no undefined: leave the field out, or write .optional() on what it is otherwise",
  symbol: "JSON has no symbols: write z.literal() or z.enum()",
  nan: "JSON has no NaN: write z.number().nullable()",
  map: "JSON has no maps: write z.record()",
  set: "JSON has no sets: write z.array()",
  file: "JSON has no files: write z.base64() with a maximum",
  promise: "a promise is no value: write the schema of what it resolves to",
  function: "a function is no value: write the schema of what it returns",
  custom: "z.custom() and z.instanceof() say nothing about the shape: write the shape, and .refine() for the rest",
  transform:
    "the outcome of a transform has no shape: transform in the handler (or in `parse`), and write what it gives",
};

/**
 * Returns the positions in a schema that have no JSON Schema, or that no JSON value can match, each with what to write instead.
 * Fields are paths as in output policies, below `top`.
 */
export function jsonSchemaFaults(top: "input" | "output", schema: z.ZodType): readonly Fault[] {
  const faults = new Map<string, Fault>();
  const override = ({ zodSchema, path }: Visit): void => {
    const { type, checks = [] } = zodSchema._zod.def;
    const message = UNFIT[type] ?? (checks.some(waits) ? WAITS : undefined);
    if (message === undefined) return;
    const field = fieldOf(top, path);
    faults.set(field, { field, message });
  };
  z.toJSONSchema(schema, { io: top, unrepresentable: "any", reused: "inline", override });
  return [...faults.values()];
}

const WAITS = "must not wait: an async refinement has no place here; look things up in the handler";

function waits({ _zod: { def } }: z.core.$ZodCheck): boolean {
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
