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

describe("left to the schema itself", () => {
  test.each<readonly [string, z.ZodType]>([
    ["what coerces", z.object({ a: z.coerce.string() })],
    ["what transforms", z.object({ a: z.string().transform((text) => text.length) })],
    ["what trims", z.object({ a: z.string().trim() })],
    ["what asks the author's code", z.object({ a: z.string().refine(() => true) })],
    ["a format of the author's", z.object({ a: z.stringFormat("mine", () => true) })],
    ["an object that is asked as a whole", z.object({ a: z.string() }).refine(() => true)],
    ["a list that is asked as a whole", z.object({ a: z.array(z.string()).refine(() => true) })],
    ["an object that keeps what it does not know", z.looseObject({ a: z.string() })],
    ["defaults", z.object({ a: z.string().default("x") })],
    ["a union", z.union([z.string(), z.number()])],
    ["a record", z.record(z.string(), z.string())],
    ["a name that every object has", z.object({ toString: z.string() })],
    ["one that holds itself", recursive],
    ["anything", z.object({ a: z.unknown() })],
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
];

const names = ["a", "b", "c", "10", "2"];

const { schema } = fc.letrec<{ schema: z.ZodType }>((tie) => ({
  schema: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constantFrom(...scalars),
    tie("schema").map((inner) => inner.nullable()),
    tie("schema").map((inner) => z.array(inner)),
    tie("schema").map((inner) => z.array(inner).min(1).max(2)),
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
  if (def.type === "array") return fc.array(fitting(def.element as z.ZodType), { maxLength: 3 });
  if (def.type !== "object") return fc.oneof(leaf, guid);
  const shape = Object.entries(def.shape).map(([key, inner]) => [key, fitting(inner as z.ZodType)] as const);
  return fc.record<Record<string, Json>>(Object.fromEntries(shape), { noNullPrototype: true });
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
