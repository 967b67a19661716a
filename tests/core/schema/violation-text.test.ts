import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { z } from "zod";
import { Refusal } from "../../../src/core/errors.ts";
import { zodFromJson } from "../../../src/core/json-schema/zod.ts";
import type { Tool } from "../../../src/core/types.ts";
import { readInput } from "../../../src/pipeline/schema-validator.ts";

interface Issue {
  readonly path: string;
  readonly message: string;
}

function refusalOf(input: z.ZodType, args: unknown): Refusal {
  try {
    readInput({ name: "echo", input, output: z.null() } as unknown as Tool, args);
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
  throw new Error("was accepted");
}

function issuesOf(input: z.ZodType, args: unknown): readonly Issue[] {
  return refusalOf(input, args).details?.["issues"] as readonly Issue[];
}

const shape = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("circle"), radius: z.number() }),
  z.strictObject({ kind: z.literal("square"), side: z.number() }),
]);
const plain = z.union([
  z.strictObject({ type: z.literal("mail"), to: z.string() }),
  z.strictObject({ type: z.literal("call"), number: z.string() }),
]);
const many = Array.from({ length: 500 }, (_, at) => `value_${at}`);

describe("the message of a violation says what is allowed", () => {
  test.each<[title: string, schema: z.ZodType, value: unknown, path: string, message: string]>([
    ["a choice", z.enum(["calm", "cross"]), "sad", "field", 'Invalid option: expected one of "calm"|"cross"'],
    ["a single value", z.literal("self"), "other", "field", 'Invalid input: expected "self"'],
    [
      "a choice of a union",
      z.union([z.enum(["a", "b"]), z.literal("c")]),
      "d",
      "field",
      'Invalid option: expected one of "a"|"b"|"c"',
    ],
    ["a type", z.string(), 3, "field", "Invalid input: expected string, received number"],
    [
      "the types of a union",
      z.union([z.string(), z.array(z.string())]),
      3,
      "field",
      "Invalid input: expected string or array, received number",
    ],
    [
      "the values of a discriminator",
      shape,
      { kind: "round" },
      "field.kind",
      "Invalid discriminator value. Expected 'circle' | 'square'",
    ],
    [
      "the member of the form that the discriminator names",
      shape,
      { kind: "circle", radius: "1" },
      "field.radius",
      "Invalid input: expected number, received string",
    ],
    [
      "the nearest form of a union",
      plain,
      { type: "mail", to: 4 },
      "field",
      "Invalid input: matches none of 2 forms. Nearest: to: expected string, received number",
    ],
    [
      "each form that is as near as another",
      z.union([z.strictObject({ a: z.string() }), z.strictObject({ b: z.string() })]),
      {},
      "field",
      "Invalid input: matches none of 2 forms. Nearest: a: expected string, received undefined; or b: expected string, received undefined",
    ],
    [
      "the only form that takes the type of the value",
      z.union([z.string().max(3), z.number()]),
      "long",
      "field",
      "Too big: expected string to have <=3 characters",
    ],
    ["a short pattern", z.string().regex(/^a+$/), "b", "field", "Invalid string: must match pattern /^a+$/"],
    [
      "that there is a long pattern",
      z.string().regex(new RegExp(`^${"a".repeat(300)}$`)),
      "b",
      "field",
      "Invalid string: must match a pattern of 304 characters, which the tool's schema shows",
    ],
    [
      "how a format is written",
      z.iso.datetime(),
      "today",
      "field",
      "Invalid ISO datetime: expected, for example, 2026-01-31T09:30:00Z",
    ],
    ["no misleading example", z.iso.datetime({ local: true }), "today", "field", "Invalid ISO datetime"],
    ["a range", z.number().min(1).max(9), 10, "field", "Too big: expected number to be <=9"],
    ["a length", z.array(z.string()).min(2), ["a"], "field", "Too small: expected array to have >=2 items"],
    [
      "why a key is not valid",
      z.record(z.string().max(2), z.number()),
      { abc: 1 },
      "field.abc",
      "Invalid key in record: Too big: expected string to have <=2 characters",
    ],
    ["a message of the manifest", z.string({ error: "must be a name" }), 3, "field", "must be a name"],
    [
      "a rule that no schema states",
      z.string().refine(() => false),
      "a",
      "field",
      "Invalid input: breaks a rule of the tool that its schema does not state",
    ],
    [
      "the key that was meant",
      z.strictObject({ status: z.string().optional() }),
      { sttaus: "a" },
      "field",
      'Unrecognized key: "sttaus"; did you mean "status"?',
    ],
    [
      "no key that is not similar",
      z.strictObject({ status: z.string().optional() }),
      { token: "a" },
      "field",
      'Unrecognized key: "token"',
    ],
    [
      "the path of an element",
      z.array(z.strictObject({ id: z.string() })),
      [{ id: "a" }, { id: 1 }],
      "field.1.id",
      "Invalid input: expected string, received number",
    ],
  ])("%s", (_, schema, value, path, message) => {
    expect(issuesOf(z.strictObject({ field: schema }), { field: value })).toEqual([{ path, message }]);
  });

  test("a long choice is cut, and the value that was meant is named", () => {
    const [issue] = issuesOf(z.strictObject({ field: z.enum(many) }), { field: "valeu_321" });
    expect(issue?.message).toStartWith('Invalid option: expected one of "value_0"|');
    expect(issue?.message).toEndWith(' and 480 more; did you mean "value_321"?');
  });
});

describe("the message of a violation of a JSON Schema says what is allowed", () => {
  const fields = {
    order: {
      anyOf: [
        {
          type: "object",
          properties: { kind: { const: "buy" }, count: { type: "integer" } },
          required: ["kind", "count"],
        },
        { type: "object", properties: { kind: { enum: ["sell", "lend"] } }, required: ["kind"] },
      ],
    },
    id: { type: ["string", "integer"] },
    code: {
      anyOf: [
        { type: "string", maxLength: 3 },
        { type: "string", pattern: "^zz" },
      ],
    },
    target: {
      oneOf: [
        { type: "object", properties: { host: { type: "string" } }, required: ["host"] },
        { type: "object", properties: { port: { type: "integer" } }, required: ["port"] },
      ],
    },
    pair: { enum: [{ a: 1 }, [2]] },
    labels: { type: "object", minProperties: 1, additionalProperties: { type: "string" } },
    status: { enum: ["open", "closed"] },
  };
  const { schema, faults } = zodFromJson("input", { type: "object", properties: fields });

  test.each<[args: object, path: string, message: string]>([
    [{ order: { kind: "by" } }, "order.kind", "Invalid discriminator value. Expected 'buy' | 'sell' | 'lend'"],
    [{ order: { kind: "buy" } }, "order.count", "Invalid input: expected number, received undefined"],
    [{ id: true }, "id", "Invalid input: expected string or integer, received boolean"],
    [
      { code: "abcd" },
      "code",
      "Invalid input: matches none of 2 forms. Nearest: Too big: expected string to have <=3 characters; or Invalid string: must match pattern /^zz/",
    ],
    [
      { target: { host: 1 } },
      "target",
      "Invalid input: matches none of 2 forms. Nearest: host: expected string, received number; or port: expected number, received undefined",
    ],
    [{ pair: 3 }, "pair", 'Invalid input: is not one of the allowed values: {"a":1} | [2]'],
    [{ labels: {} }, "labels", "Too small: expected object to have >=1 keys"],
    [{ status: "opn" }, "status", 'Invalid option: expected one of "open"|"closed"'],
    [{ stauts: "open" }, "(arguments)", 'Unrecognized key: "stauts"; did you mean "status"?'],
  ])("%j", (args, path, message) => {
    expect(faults).toEqual([]);
    expect(issuesOf(schema, args)).toContainEqual({ path, message });
  });
});

const SECRET = "hunter2-in-the-open";

test.each<[title: string, schema: z.ZodType, value: unknown]>([
  ["a choice", z.enum(many), SECRET],
  ["a union", plain, { type: SECRET, to: SECRET, number: SECRET }],
  ["a discriminated union", shape, { kind: SECRET, radius: SECRET }],
  ["a pattern", z.string().regex(/^\d+$/), SECRET],
  ["a format", z.uuid(), SECRET],
  ["a length", z.string().max(3), SECRET],
  ["a record", z.record(z.string(), z.number()), { key: SECRET }],
  ["an unknown key", z.strictObject({}), { key: SECRET }],
])("the refused value is not repeated: %s", (_, schema, value) => {
  const { message, details } = refusalOf(z.strictObject({ field: schema }), { field: value });
  expect(`${message} ${JSON.stringify(details)}`).not.toContain(SECRET);
});

const CHARACTERS_MAX = 12_000;

function textOf({ message, details }: Refusal): string {
  return `${message}${JSON.stringify(details)}`;
}

test("10,000 wrong keys, also in each form of a large union, give a short text", () => {
  const keys = Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`key_${at}`, at]));
  const forms = Array.from({ length: 200 }, (_, at) => z.strictObject({ [`member_${at}`]: z.string() }));
  const input = z.strictObject({ some: z.union(forms).optional(), known: z.string().optional() });
  const text = textOf(refusalOf(input, { ...keys, some: keys }));
  expect(text.length).toBeLessThan(CHARACTERS_MAX);
  expect(text).toContain("and 9990 more");
});

const hostileKeys = fc.dictionary(
  fc.string({ unit: "binary", maxLength: 400 }).filter((key) => key !== "__proto__"),
  fc.jsonValue({ maxDepth: 2 }),
  { maxKeys: 40 },
);
const inputs = [
  z.strictObject({ id: z.string(), shape: shape.optional(), plain: plain.optional() }),
  z.strictObject({ id: z.string(), notes: z.record(z.string().max(3), z.number()) }),
  zodFromJson("input", {
    type: "object",
    properties: {
      id: { type: "string" },
      notes: {
        anyOf: [
          { type: "string" },
          { type: "object", minProperties: 1, additionalProperties: { type: "string", maxLength: 2 } },
        ],
      },
    },
    required: ["id"],
  }).schema,
];

test("whatever the arguments, the text is bounded, on one line per issue, and the same each time", () => {
  fc.assert(
    fc.property(fc.constantFrom(...inputs), hostileKeys, (input, members) => {
      const args = { ...members, shape: members, notes: members };
      const refusal = refusalOf(input, args);
      const text = textOf(refusal);
      expect(text.length).toBeLessThan(CHARACTERS_MAX);
      expect(refusal.message).not.toMatch(/[\p{Cc}\p{Cf}\u2028\u2029]/u);
      for (const { path, message } of issuesOf(input, args))
        expect(`${path}${message}`).not.toMatch(/[\p{Cc}\p{Cf}\u2028\u2029]/u);
      expect(textOf(refusalOf(input, args))).toBe(text);
    }),
    { seed: 22, numRuns: 200 },
  );
});
