import { defOf, type End, innerSchemas, type Schema } from "../../../core/schema/walk.ts";

/** What an object or a record declares for a key. */
export function fieldOf(shape: Schema, key: string): readonly Schema[] {
  const def = defOf(shape);
  if (def.type === "record") return [def.valueType];
  if (def.type !== "object") return [];
  const declared = Object.hasOwn(def.shape, key) ? def.shape[key] : def.catchall;
  return declared === undefined ? [] : [declared];
}

/** What a list declares for its elements. */
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

/** What these schemas stand for, wrappers and choices taken off. */
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

/** Types that never take null. Of the others (any, unknown, custom …) nothing is known, so null is left to them. */
const NEVER_NULL: ReadonlySet<string> = new Set(
  ["string", "number", "int", "boolean", "enum", "object", "record", "array", "tuple", "template_literal", "never"], //
);

/** Whether null may be given, as far as the schema's own shape tells. */
export function takesNull(schema: Schema): boolean {
  const def = defOf(schema);
  if (def.type === "nullable" || def.type === "catch") return true;
  if (def.type === "intersection") return takesNull(def.left) && takesNull(def.right);
  if (def.type === "literal") return def.values.includes(null);
  // What coerces makes something of null.
  if ("coerce" in def && def.coerce === true) return true;
  const inner = innerSchemas(schema, "in") ?? [];
  return inner.length === 0 ? !NEVER_NULL.has(def.type) : inner.some(takesNull);
}
