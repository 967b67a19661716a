import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { z } from "zod";
import { plainReader, unread } from "../../../src/core/schema/plain-reader.ts";
import type { Json } from "../../../src/core/types.ts";

const recursive: z.ZodType = z.object({
  get below() {
    return recursive.nullable();
  },
});

function replaced(schema: z.ZodType): z.ZodType {
  const { run } = schema._zod;
  schema._zod.run = (payload, context) => run(payload, context);
  return schema;
}

describe("left to the schema itself", () => {
  test.each<readonly [string, z.ZodType]>([
    ["what coerces", z.object({ a: z.coerce.string() })],
    ["what transforms", z.object({ a: z.string().transform((text) => text.length) })],
    ["what trims", z.object({ a: z.string().trim() })],
    ["what asks the author's code", z.object({ a: z.string().refine(() => true) })],
    ["a format of the author's", z.object({ a: z.stringFormat("mine", () => true) })],
    ["an object that is asked as a whole", z.object({ a: z.string() }).refine(() => true)],
    ["a list that is asked as a whole", z.object({ a: z.array(z.string()).refine(() => true) })],
    ["defaults", z.object({ a: z.string().default("x") })],
    ["a union with a discriminator", z.discriminatedUnion("a", [z.object({ a: z.literal("x") })])],
    ["a union of which exactly one option may fit", z.xor([z.string(), z.number()])],
    ["a union with a transforming option", z.union([z.string(), z.number().transform(String)])],
    ["a record with listed keys", z.record(z.enum(["a"]), z.string())],
    ["a record with checked keys", z.record(z.string().min(2), z.string())],
    ["a loose record", z.looseRecord(z.string().regex(/a/), z.string())],
    ["a name that every object has", z.object({ toString: z.string() })],
    ["one that holds itself", recursive],
    ["one whose run was replaced", replaced(z.array(z.string()))],
  ])("%s", (_title, schema) => expect(plainReader(schema)).toBeUndefined());
});

const scalars: readonly z.ZodType[] = [
  z.string(),
  z.string().max(3),
  z.guid(),
  z.string().regex(/^[ab]*$/),
  z.iso.date(),
  z.number(),
  z.int(),
  z.number().min(2),
  z.boolean(),
  z.enum(["a", "b"]),
  z.literal(["a", 1, null]),
  z.null(),
  z.unknown(),
  z.any(),
];

const names = ["a", "b", "c", "10", "2"];

const { schema } = fc.letrec<{ schema: z.ZodType }>((tie) => ({
  schema: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constantFrom(...scalars),
    tie("schema").map((inner) => inner.nullable()),
    tie("schema").map((inner) => z.array(inner)),
    tie("schema").map((inner) => z.array(inner).min(1).max(2)),
    tie("schema").map((inner) => z.record(z.string(), inner)),
    fc.array(tie("schema"), { minLength: 1, maxLength: 3 }).map((options) => z.union(options)),
    fc.tuple(fields(tie("schema")), tie("schema")).map(([shape, other]) => z.object(shape).catchall(other)),
    fields(tie("schema")).map((shape) => z.object(shape)),
    fields(tie("schema")).map((shape) => z.strictObject(shape)),
  ),
}));

function fields(inner: fc.Arbitrary<z.ZodType>): fc.Arbitrary<Record<string, z.ZodType>> {
  const field = fc.tuple(inner, fc.boolean()).map(([one, isOptional]) => (isOptional ? one.optional() : one));
  return fc.dictionary(fc.constantFrom(...names), field, { maxKeys: 4, noNullPrototype: true });
}

const leaf = fc.constantFrom<Json>("a", "b", "ab", "abab", "2026-11-22", "", 0, 1, 2.5, true, null);
const guid = fc.constant<Json>("3f0c9a52-6b1e-4c77-9d3a-000000000001");

const { value } = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    leaf,
    guid,
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...names, "other"), tie("value"), { maxKeys: 4, noNullPrototype: true }),
  ),
}));

/** A value that usually fits the schema, so that not only refusals are compared. */
function fitting(of: z.ZodType): fc.Arbitrary<Json> {
  const def = (of as z.ZodAny)._zod.def as z.core.$ZodTypes["_zod"]["def"];
  if (def.type === "nullable" || def.type === "optional") {
    return fc.oneof(fc.constant(null), fitting(def.innerType as z.ZodType));
  }
  if (def.type === "union") return fc.oneof(...def.options.map((option) => fitting(option as z.ZodType)));
  if (def.type === "record")
    return fc.dictionary(fc.constantFrom(...names, "other"), fitting(def.valueType as z.ZodType), {
      ...{ maxKeys: 3, noNullPrototype: true },
    });
  if (def.type === "array") return fc.array(fitting(def.element as z.ZodType), { maxLength: 3 });
  if (def.type !== "object") return fc.oneof(leaf, guid);
  const shape = Object.entries(def.shape).map(([key, inner]) => [key, fitting(inner as z.ZodType)] as const);
  const fitted = fc.record<Record<string, Json>>(Object.fromEntries(shape), { noNullPrototype: true });
  if (def.catchall === undefined || (def.catchall as z.ZodType).def.type === "never") return fitted;
  return fc.tuple(fitted, fitting(def.catchall as z.ZodType)).map(([all, further]) => ({ ...all, further }));
}

/** Compares the order of keys too, and distinguishes absent from undefined. */
const spelled = (read: unknown): string => JSON.stringify(read);

test("accepts what the schema accepts, and nothing that it refuses", () => {
  let accepted = 0;
  fc.assert(
    fc.property(
      schema.chain((one) => fc.tuple(fc.constant(one), fc.oneof(value, fitting(one)))),
      ([one, given]) => {
        const read = plainReader(one);
        if (read === undefined) throw new Error("not a plain schema");
        const parsed = one.safeParse(given);
        const plain = read(given);
        expect(plain === unread).toBe(!parsed.success);
        if (plain === unread) return;
        accepted += 1;
        expect(spelled(plain)).toBe(spelled(parsed.data));
        expect(plain).toStrictEqual(parsed.data as Json);
      },
    ),
    { numRuns: 3_000 },
  );
  expect(accepted).toBeGreaterThan(300);
});

test("a name that would change the prototype is left out, as by the schema itself", () => {
  const hostile = JSON.parse('{"a":1,"__proto__":{"b":1}}') as Json;
  const loose = z.looseObject({ a: z.number() });
  for (const schema of [z.record(z.string(), z.unknown()), loose, z.union([loose, z.unknown()])]) {
    expect(plainReader(schema)?.(hostile)).toStrictEqual({ a: 1 });
    expect<unknown>(schema.parse(hostile)).toStrictEqual({ a: 1 });
  }
});

test("values that were checked before are read without the checks of texts, numbers and lists", () => {
  const schema = z.object({ text: z.guid().max(3), size: z.number().max(3), list: z.array(z.string()).max(1) });
  const checked = { text: "abcd", size: 4, list: ["a", "b"] };
  expect(plainReader(schema, { isChecked: true })?.(checked)).toEqual(checked);
  expect(plainReader(schema)?.(checked)).toBe(unread);
  const transforming = z.object({ text: z.string().trim().max(3) });
  expect(plainReader(transforming, { isChecked: true })).toBeUndefined();
});

test("a schema that occurs many times is compiled once", () => {
  let fork: z.ZodType = z.string();
  for (let depth = 0; depth < 60; depth += 1) fork = z.object({ left: fork.optional(), right: fork.optional() });
  let branch: Json = "end";
  for (let depth = 0; depth < 60; depth += 1) branch = { left: branch };
  expect(plainReader(fork)?.(branch)).toEqual(branch);
  expect(plainReader(fork)?.({ right: { left: 1 } })).toBe(unread);
});

test("next to a recursive one there is no plain reader either", () => {
  expect(
    plainReader(z.object({ first: z.string(), again: z.object({ recursive }), last: z.string() })),
  ).toBeUndefined();
});
