import { defOf, type End, innerSchemas, type Schema } from "../../../core/schema/walk.ts";

/** Returns the schemas that an object or a record declares for a key. */
export function fieldOf(shape: Schema, key: string): readonly Schema[] {
  const def = defOf(shape);
  if (def.type === "record") return [def.valueType];
  if (def.type !== "object") return [];
  const declared = Object.hasOwn(def.shape, key) ? def.shape[key] : def.catchall;
  return declared === undefined ? [] : [declared];
}

/** Returns the schemas that a list declares for its elements. */
export function elementsOf(shape: Schema): readonly Schema[] {
  const def = defOf(shape);
  if (def.type === "array") return [def.element];
  if (def.type !== "tuple") return [];
  return def.rest === null ? def.items : [...def.items, def.rest];
}

const known = {
  in: new WeakMap<Schema, readonly Schema[]>(),
  out: new WeakMap<Schema, readonly Schema[]>(),
} as const satisfies Record<End, unknown>;

/** Returns the schemas with wrappers removed and choices expanded. */
export function shapesOf(schemas: readonly Schema[], end: End): readonly Schema[] {
  const [only] = schemas;
  if (only === undefined || schemas.length > 1) return schemas.flatMap((schema) => shapesOf([schema], end));
  const found = known[end].get(only);
  if (found !== undefined) return found;
  const shapes = new Set<Schema>();
  const seen = new Set<Schema>();
  const todo = [only];
  for (let schema = todo.pop(); schema !== undefined; schema = todo.pop()) {
    if (seen.has(schema)) continue;
    seen.add(schema);
    const inner = innerSchemas(schema, end) ?? [];
    if (inner.length === 0) shapes.add(schema);
    todo.push(...inner);
  }
  known[end].set(only, [...shapes]);
  return [...shapes];
}

/** Types that never accept null. Nothing is known about the others (any, unknown, custom …), so these may accept it. */
const NEVER_NULL: ReadonlySet<string> = new Set(
  ["string", "number", "int", "boolean", "enum", "object", "record", "array", "tuple", "template_literal", "never"], //
);

/** Returns true when the schema may accept null, as far as its own shape shows. */
export function takesNull(schema: Schema): boolean {
  const def = defOf(schema);
  if (def.type === "nullable" || def.type === "catch") return true;
  if (def.type === "intersection") return takesNull(def.left) && takesNull(def.right);
  if (def.type === "literal") return def.values.includes(null);
  // A coercing schema converts null.
  if ("coerce" in def && def.coerce === true) return true;
  const inner = innerSchemas(schema, "in") ?? [];
  return inner.length === 0 ? !NEVER_NULL.has(def.type) : inner.some(takesNull);
}
