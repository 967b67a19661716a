import { z } from "zod";
import { element, otherKey, type Step } from "../policy/field-path.ts";
import { ANYTHING, defOf, innerSchemas, type Schema } from "./walk.ts";

/**
 * What a field can hold. `text`: prose; `format`: text that is none; `closed`: a listed value, a boolean, a time; `open`: anything,
 * described nowhere.
 */
export type FieldKind = "text" | "format" | "number" | "closed" | "open";

/** A place at which an output schema can give a scalar, or anything. */
export interface SchemaField {
  readonly steps: readonly Step[];
  readonly kind: FieldKind;
}

const VISITS_MAX = 50_000;

interface Walk {
  /** The schemas from the top down to the one being visited. */
  readonly open: Set<Schema>;
  readonly fields: SchemaField[];
  visits: number;
}

/**
 * The fields of a schema's output, in its order; `otherKey` stands for keys that it does not spell out. A place may come twice.
 *
 * @throws {RangeError} for a schema with very many: what is not looked at cannot be judged
 */
export function schemaFields(output: Schema): readonly SchemaField[] {
  const walk: Walk = { open: new Set(), fields: [], visits: 0 };
  visit(walk, output, []);
  return walk.fields;
}

function visit(walk: Walk, schema: Schema, steps: readonly Step[]): void {
  walk.visits += 1;
  if (walk.visits > VISITS_MAX) throw new RangeError(`the schema has more than ${VISITS_MAX} parts`);
  if (walk.open.has(schema)) {
    // It goes on in itself for ever: `z.json()` describes nothing.
    walk.fields.push({ steps, kind: "open" });
    return;
  }
  walk.open.add(schema);
  for (const [step, inner] of partsOf(schema)) visit(walk, inner, step === undefined ? steps : [...steps, step]);
  walk.open.delete(schema);
  const kind = kindOf(schema);
  if (kind !== undefined) walk.fields.push({ steps, kind });
}

/** What stands below a schema, or inside it without a step. */
function partsOf(schema: Schema): readonly (readonly [Step | undefined, Schema])[] {
  const def = defOf(schema);
  switch (def.type) {
    case "object":
      return [...Object.entries(def.shape), ...(def.catchall === undefined ? [] : [[otherKey, def.catchall] as const])];
    case "record": {
      const names = def.keyType._zod.values;
      const keys: readonly Step[] = names === undefined ? [otherKey] : [...names].map(String);
      const described = keys.map((key) => [key, def.valueType] as const);
      return def.mode === "loose" ? [...described, [otherKey, ANYTHING]] : described;
    }
    case "array":
      return [[element, def.element]];
    case "tuple":
      return [...def.items, ...(def.rest === null ? [] : [def.rest])].map((item) => [element, item]);
    default:
      return (innerSchemas(schema, "out") ?? []).map((inner) => [undefined, inner]);
  }
}

const CLOSED: ReadonlySet<string> = new Set(["boolean", "enum", "literal", "date"]);
const NUMBERS: ReadonlySet<string> = new Set(["number", "int", "bigint"]);
const OPEN: ReadonlySet<string> = new Set(["any", "unknown", "custom"]);

/** Undefined for what is no scalar itself, or nothing at all. What a transform makes counts as text: nobody knows. */
function kindOf(schema: Schema): FieldKind | undefined {
  const { type } = defOf(schema);
  if (CLOSED.has(type)) return "closed";
  if (NUMBERS.has(type)) return "number";
  if (OPEN.has(type)) return "open";
  if (type === "transform") return "text";
  if (type === "string" || type === "template_literal") return takesWords(schema) ? "text" : "format";
  return undefined;
}

/** What a pattern, a format or a bound would have to let through for a field to hold prose. */
const WORDS: readonly string[] = [
  "a few words",
  "a few words, many times. ".repeat(4),
  "a few words, many times. ".repeat(80),
];

function takesWords(schema: Schema): boolean {
  try {
    return WORDS.some((words) => z.safeParse(schema, words).success);
  } catch {
    return true;
  }
}
