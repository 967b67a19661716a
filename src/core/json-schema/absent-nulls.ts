import { type NullReader, NullReading, withElements, withMembers } from "../schema/absent-nulls.ts";
import type { Json } from "../types.ts";
import { checkerOf } from "./check.ts";
import type { JsonSchema, SchemaTable } from "./schema.ts";

/** Returns what `withoutAbsentNulls` says, for values that a JSON Schema describes. */
export function nullReaderOf(schema: JsonSchema): NullReader {
  return (value) => new SchemaReader().read(schema, value);
}

class SchemaReader {
  readonly #reading = new NullReading();

  read(schema: JsonSchema, value: Json): Json {
    if (typeof schema === "boolean" || typeof value !== "object" || value === null) return value;
    this.#reading.visit();
    const own = withElements(
      withMembers(value, (name, inner) => this.#member(schema, name, inner)),
      (inner, at) => this.read(schema.prefixItems?.[at] ?? schema.items ?? true, inner),
    );
    const whole = (schema.allOf ?? []).reduce((read, part) => this.read(part, read), own);
    return [schema.anyOf, schema.oneOf].reduce((read, forms) => (forms ? this.#form(forms, read) : read), whole);
  }

  #member(schema: SchemaTable, name: string, inner: Json): Json | undefined {
    const { properties = {}, required = [], additionalProperties: more } = schema;
    const member = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (member === undefined) return this.read(more ?? true, inner);
    if (inner === null) return required.includes(name) || takes(member, null) ? inner : undefined;
    return this.read(member, inner);
  }

  /** Reads a value as the first form that takes it. */
  #form(forms: readonly JsonSchema[], value: Json): Json {
    for (const form of forms) {
      const read = this.read(form, value);
      this.#reading.visitAll(read);
      if (takes(form, read)) return read;
    }
    return value;
  }
}

const checkers = new WeakMap<SchemaTable, (value: unknown) => readonly unknown[]>();

function takes(schema: JsonSchema, value: Json): boolean {
  if (typeof schema === "boolean") return schema;
  const check = checkers.get(schema) ?? checkerOf(schema);
  checkers.set(schema, check);
  return check(value).length === 0;
}
