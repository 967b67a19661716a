import fc from "fast-check";
import type { Json } from "../../../src/core/types.ts";

/** Random JSON Schemas and values that often fit them: few names, small numbers, short texts. */

const name = fc.constantFrom("a", "b", "c", "d");
const count = fc.integer({ min: 0, max: 3 });
const scalar: fc.Arbitrary<Json> = fc.oneof(
  fc.constantFrom(null, true, false, 0, 1, 2, 3, 1.5, -1, "", "a", "ab", "é😀", "b1"),
  fc.string({ maxLength: 3 }),
);

const { value } = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    scalar,
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(name, tie("value"), { maxKeys: 3, noNullPrototype: true }),
  ),
}));

const type = fc.constantFrom("null", "boolean", "integer", "number", "string", "array", "object");

const scalarKeywords = fc.record(
  {
    type: fc.oneof(type, fc.uniqueArray(type, { minLength: 1, maxLength: 3 })),
    enum: fc.array(value, { minLength: 1, maxLength: 3 }),
    const: value,
    minLength: count,
    maxLength: count,
    pattern: fc.constantFrom("^a", "b$", "^[a-b]+$", ".", "^(a|b)*1?$", "\\d"),
    minimum: count,
    maximum: count,
    exclusiveMinimum: count,
    exclusiveMaximum: count,
    multipleOf: fc.constantFrom(1, 2, 0.5),
    minItems: count,
    maxItems: count,
    uniqueItems: fc.boolean(),
    minProperties: count,
    maxProperties: count,
    required: fc.uniqueArray(name, { maxLength: 2 }),
    dependentRequired: fc.dictionary(name, fc.uniqueArray(name, { maxLength: 2 }), {
      maxKeys: 1,
      noNullPrototype: true,
    }),
  },
  { requiredKeys: [] },
);

/** A few of the keywords, so that many values fit. */
function fewOf<T extends object>(keywords: fc.Arbitrary<T>): fc.Arbitrary<Partial<T>> {
  return fc.tuple(keywords, fc.array(fc.nat({ max: 20 }), { minLength: 1, maxLength: 3 })).map(([all, picked]) => {
    const entries = Object.entries(all);
    const kept = entries.filter((_, index) => picked.some((at) => entries.length > 0 && at % entries.length === index));
    return Object.fromEntries(kept) as Partial<T>;
  });
}

const { anySchema, plainSchema } = fc.letrec<{ anySchema: Json; plainSchema: Json }>((tie) => {
  const structure = (schema: fc.Arbitrary<Json>) => {
    const members = fc.dictionary(name, schema, { maxKeys: 3, noNullPrototype: true });
    return {
      properties: members,
      patternProperties: fc.dictionary(fc.constantFrom("^[ab]$", "c"), schema, { maxKeys: 1, noNullPrototype: true }),
      additionalProperties: schema,
      propertyNames: schema,
      items: schema,
      prefixItems: fc.array(schema, { minLength: 1, maxLength: 2 }),
      contains: schema,
      minContains: count,
      maxContains: count,
    };
  };
  const any = tie("anySchema");
  const list = fc.array(any, { minLength: 1, maxLength: 3 });
  const combinations = {
    ...{ allOf: list, anyOf: list, oneOf: list, not: any, if: any, then: any, else: any },
    dependentSchemas: fc.dictionary(name, any, { maxKeys: 1, noNullPrototype: true }),
  };
  const joined = (keywords: fc.Arbitrary<object>) =>
    fc.tuple(fewOf(scalarKeywords), fewOf(keywords)).map(([some, others]) => {
      // Next to prefixItems, Ajv takes an empty list for one that contains something.
      const { prefixItems, ...kept } = { prefixItems: undefined, ...some, ...others };
      return (prefixItems === undefined || "contains" in kept ? kept : { ...kept, prefixItems }) as Json;
    });
  return {
    anySchema: fc.oneof(
      { maxDepth: 3 },
      fewOf(scalarKeywords) as fc.Arbitrary<Json>,
      joined(fc.record({ ...structure(any), ...combinations }, { requiredKeys: [] })),
      fc.boolean(),
    ),
    plainSchema: fc.oneof(
      { maxDepth: 3 },
      fewOf(scalarKeywords) as fc.Arbitrary<Json>,
      joined(fc.record(structure(tie("plainSchema")), { requiredKeys: [] })),
    ),
  };
});

export { anySchema, plainSchema, value };
