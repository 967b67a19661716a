import { z } from "zod";
import { element, otherKey, type Step } from "../policy/field-path.ts";
import { ANYTHING, defOf, innerSchemas, type Schema } from "./walk.ts";

/**
 * The kind of value a field can hold. `text`: prose; `format`: text that cannot be prose; `closed`: a listed value, a boolean,
 * a time; `open`: any value, not described by the schema.
 */
export type FieldKind = "text" | "format" | "number" | "closed" | "open";

/** A position at which the output can hold a scalar, or any value. */
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
 * Returns the fields of a schema's output in schema order; `otherKey` represents the keys that the schema does not list. A
 * position may occur twice.
 *
 * @throws {RangeError} for a schema with too many parts: parts that are not visited cannot be judged
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
    // The schema contains itself without end: `z.json()` describes nothing.
    walk.fields.push({ steps, kind: "open" });
    return;
  }
  walk.open.add(schema);
  for (const [step, inner] of partsOf(schema)) visit(walk, inner, step === undefined ? steps : [...steps, step]);
  walk.open.delete(schema);
  const kind = kindOf(schema);
  if (kind !== undefined) walk.fields.push({ steps, kind });
}

/** Returns the schemas one step below a schema, and those inside it without a step. */
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

/**
 * Returns the kind of a scalar or open schema, else undefined. A transform's result counts as text because its type is unknown.
 */
function kindOf(schema: Schema): FieldKind | undefined {
  const { type } = defOf(schema);
  if (CLOSED.has(type)) return "closed";
  if (NUMBERS.has(type)) return "number";
  if (OPEN.has(type)) return "open";
  if (type === "transform") return "text";
  if (type === "string" || type === "template_literal") return takesWords(schema) ? "text" : "format";
  return undefined;
}

/** Sample texts: a field whose pattern, format and length limits accept one of them can hold prose. */
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
