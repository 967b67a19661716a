import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { zodFromJson } from "../../../src/core/json-schema/zod.ts";
import { withoutAbsentNulls } from "../../../src/core/schema/absent-nulls.ts";
import type { Json } from "../../../src/core/types.ts";

function fromJson(properties: object, rest: object = {}): z.ZodType {
  const { schema, faults } = zodFromJson("input", { type: "object", properties, ...rest });
  expect(faults).toEqual([]);
  return schema;
}

const address = z.strictObject({ street: z.string(), floor: z.int().optional() });
const addressJson = {
  type: "object",
  properties: { street: { type: "string" }, floor: { type: "integer" } },
  required: ["street"],
};
const kinds = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("a"), note: z.string().optional() }),
  z.strictObject({ kind: z.literal("b"), note: z.string().nullable().optional() }),
]);
const kindsJson = {
  oneOf: [
    { type: "object", properties: { kind: { const: "a" }, note: { type: "string" } }, required: ["kind"] },
    { type: "object", properties: { kind: { const: "b" }, note: { type: ["string", "null"] } }, required: ["kind"] },
  ],
};

/** The schema in Zod, the same as JSON Schema, and what of the value is left. */
type Row = readonly [title: string, zod: z.ZodType, json: z.ZodType, value: Json, left: Json];

const LEFT: readonly Row[] = [
  [
    "an optional member",
    z.strictObject({ a: z.string().optional() }),
    fromJson({ a: { type: "string" } }),
    { a: null },
    {},
  ],
  [
    "a member with a default",
    z.strictObject({ a: z.string().default("x") }),
    fromJson({ a: { type: "string", default: "x" } }),
    { a: null },
    {},
  ],
  [
    "members of nested objects",
    z.strictObject({ at: address }),
    fromJson({ at: addressJson }, { required: ["at"] }),
    { at: { street: "s", floor: null } },
    { at: { street: "s" } },
  ],
  [
    "members of elements",
    z.strictObject({ list: z.array(address).optional() }),
    fromJson({ list: { type: "array", items: addressJson } }),
    {
      list: [
        { street: "s", floor: null },
        { street: "t", floor: 2 },
      ],
    },
    { list: [{ street: "s" }, { street: "t", floor: 2 }] },
  ],
  [
    "members of a record's values",
    z.strictObject({ by: z.record(z.string(), address) }),
    fromJson({ by: { type: "object", additionalProperties: addressJson } }, { required: ["by"] }),
    { by: { home: { street: "s", floor: null } } },
    { by: { home: { street: "s" } } },
  ],
  [
    "members of the form that a union chooses",
    z.strictObject({ one: kinds }),
    fromJson({ one: kindsJson }, { required: ["one"] }),
    { one: { kind: "a", note: null } },
    { one: { kind: "a" } },
  ],
];

const KEPT: readonly (readonly [title: string, zod: z.ZodType, json: z.ZodType, value: Json])[] = [
  [
    "a required member",
    z.strictObject({ a: z.string() }),
    fromJson({ a: { type: "string" } }, { required: ["a"] }),
    { a: null },
  ],
  [
    "a member that may be null",
    z.strictObject({ a: z.string().nullish() }),
    fromJson({ a: { type: ["string", "null"] } }),
    { a: null },
  ],
  ["any value", z.strictObject({ a: z.unknown() }), fromJson({ a: true }), { a: { b: null, c: [null] } }],
  [
    "a record's value",
    z.strictObject({ by: z.record(z.string(), z.string()) }),
    fromJson({ by: { type: "object", additionalProperties: { type: "string" } } }, { required: ["by"] }),
    { by: { a: null } },
  ],
  [
    "an element",
    z.strictObject({ list: z.array(z.string()) }),
    fromJson({ list: { type: "array", items: { type: "string" } } }),
    { list: ["a", null] },
  ],
  [
    "a member that the schema does not know",
    z.strictObject({ a: z.string().optional() }),
    fromJson({ a: { type: "string" } }),
    { other: null },
  ],
  [
    "a member that the chosen form may have as null",
    z.strictObject({ one: kinds }),
    fromJson({ one: kindsJson }, { required: ["one"] }),
    { one: { kind: "b", note: null } },
  ],
];

describe.each(["Zod", "JSON Schema"])("of a schema in %s", (language) => {
  const schemaOf = (zod: z.ZodType, json: z.ZodType): z.ZodType => (language === "Zod" ? zod : json);

  test.each(LEFT)("null means absent for %s", (_, zod, json, value, left) => {
    const schema = schemaOf(zod, json);
    expect(withoutAbsentNulls(schema, value)).toEqual(left);
    expect(schema.safeParse(value).success).toBe(false);
    expect(schema.safeParse(left).success).toBe(true);
  });

  test.each(KEPT)("null stays for %s", (_, zod, json, value) => {
    expect(withoutAbsentNulls(schemaOf(zod, json), value)).toBe(value);
  });
});

test("the arguments that were sent do not change", () => {
  const value = { at: { street: "s", floor: null } };
  withoutAbsentNulls(z.strictObject({ at: address }), value);
  expect(value).toEqual({ at: { street: "s", floor: null } });
});

test("forms of forms are tried a bounded number of times", () => {
  const leaf = z.strictObject({ end: z.literal(1), x: z.string().optional() });
  const nested = Array.from({ length: 12 }).reduce<z.ZodType>(
    (inner) =>
      z.union([
        z.strictObject({ a: inner, p: z.literal(1) }),
        z.strictObject({ a: inner, q: z.literal(1) }),
        z.strictObject({ a: inner, r: z.literal(1) }),
      ]),
    leaf,
  );
  const value = Array.from({ length: 12 }).reduce<Json>((inner) => ({ a: inner }), { end: 1, x: null });
  expect(withoutAbsentNulls(z.strictObject({ top: nested }), { top: value })).toEqual({ top: value });
});
