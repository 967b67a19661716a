import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { z } from "zod";
import { checkerOf } from "../../../src/core/json-schema/check.ts";
import { readJsonSchema } from "../../../src/core/json-schema/schema.ts";
import { zodFromJson } from "../../../src/core/json-schema/zod.ts";
import { unmatchedPatterns } from "../../../src/core/output-policy/output-policy.ts";
import { boundPatterns } from "../../../src/core/schema/linear-patterns.ts";
import { plainReader, unread } from "../../../src/core/schema/plain-reader.ts";
import { inputJsonSchema } from "../../../src/core/tool-formats.ts";
import type { Json } from "../../../src/core/types.ts";
import { anySchema, plainSchema, value } from "./generated.ts";

const SEED = Number(process.env["STC_TEST_SEED"] ?? 1);

function schemaOf(side: "input" | "output", json: unknown): z.ZodType {
  const { schema, faults } = zodFromJson(side, json);
  expect(faults).toEqual([]);
  expect(boundPatterns(side, schema)).toEqual([]);
  return schema;
}

const issuesOf = (schema: z.ZodType, data: unknown): readonly string[] =>
  (schema.safeParse(data).error?.issues ?? []).map(({ path, message }) => `${path.join(".")}: ${message}`);

test("without a choice of forms, a value is accepted exactly when the JSON Schema accepts it, and arrives whole", () => {
  const described = { a: true, b: true, c: true, d: true };
  fc.assert(
    fc.property(plainSchema, fc.array(value, { minLength: 4, maxLength: 4 }), (json, values) => {
      const violations = checkerOf(readJsonSchema("output", json).schema);
      const schema = schemaOf("output", json);
      for (const each of values) {
        expect([json, each, schema.safeParse(each).success]).toEqual([json, each, violations(each).length === 0]);
      }
      const open = schemaOf("output", { type: "object", properties: { ...described, a: json } });
      for (const each of values.filter((one) => violations(one).length === 0)) {
        expect(open.parse({ b: each, c: 1 })).toEqual({ b: each, c: 1 });
      }
    }),
    { seed: SEED, numRuns: 300 },
  );
});

test.each([
  [{ patternProperties: { "^a$": { items: { type: "null" } } }, additionalProperties: { maximum: 0 } }, { d: ["ab"] }],
  [
    { patternProperties: { "^a$": { properties: { x: { type: "null" } } } }, additionalProperties: {} },
    { d: { x: 1 } },
  ],
  [{ prefixItems: [{ properties: { x: { type: "null" } } }, { required: ["x"] }] }, [{ x: null }, { x: 1 }]],
])("%j takes %j: what one position asks for does not bind another", (json, value) => {
  expect(schemaOf("output", json).parse(value)).toEqual(value);
});

test("a bounded number alone is read", () => {
  const schema = schemaOf("output", { type: ["integer"], maximum: 0 });
  expect([-1, 1, "-1"].map((each) => schema.safeParse(each).success)).toEqual([true, false, false]);
});

test("the schema's own reader leaves an answer that is a list to the check of its JSON Schema", () => {
  const json = { type: "array", items: { type: "integer" }, uniqueItems: true, maxItems: 2 };
  const schema = schemaOf("output", json);
  const read = plainReader(schema) ?? ((each: Json) => schema.safeParse(each).data ?? unread);
  expect([[1, 2], [1, 1], [1, 2, 3], [1.5]].map((each) => read(each) !== unread)).toEqual([true, false, false, false]);
});

test("whatever the schema, nothing is accepted that the JSON Schema refuses", () => {
  fc.assert(
    fc.property(anySchema, fc.array(value, { minLength: 4, maxLength: 4 }), (json, values) => {
      const violations = checkerOf(readJsonSchema("output", json).schema);
      const schema = schemaOf("output", json);
      for (const each of values) if (schema.safeParse(each).success) expect(violations(each)).toEqual([]);
    }),
    { seed: SEED, numRuns: 300 },
  );
});

const HOSTILE: readonly string[] = [
  ...[
    "`);globalThis.ran=1//",
    '"];globalThis.ran=1;["',
    "$" + "{globalThis.ran=1}",
    "'+(globalThis.ran=1)+'",
    "a/*",
    "*/",
  ],
  ...[
    "\\u0022);globalThis.ran=1;(",
    "</script>",
    "a.b",
    "a[]",
    "*",
    "[]",
    "$ref",
    "$defs",
    "#/$defs/a",
    "then",
    "🙂",
    "a b",
  ],
  ...["; rm -rf /", "$(touch /tmp/ran)", "%00", "..", "../../etc/passwd", "__defineGetter", "ValueOf"],
];

test("names, enums, patterns and texts that try to break out of a program run nothing, and mean themselves", () => {
  const hostile = fc.oneof(
    fc.constantFrom(...HOSTILE),
    fc.string({ minLength: 1, maxLength: 12, unit: fc.constantFrom(..."`'\"\\/[](){}<>;:,.*+?^$|#&%=_-a1 ") }),
  );
  // A name of spaces alone is refused.
  const hostileName = hostile.filter((name) => name.trim() !== "");
  fc.assert(
    fc.property(hostileName, hostile, hostile, (name, text, further) => {
      const named = (json: Json): Json => ({ [name]: json });
      const json = {
        type: "object",
        title: text,
        description: further,
        properties: {
          inner: { type: "object", properties: named({ enum: [text, further, { [name]: text }] }) },
          text: { const: text },
        },
        required: ["inner"],
        dependentRequired: { [name]: ["inner"] },
        patternProperties: { [RegExp.escape(further)]: { type: "string", pattern: RegExp.escape(text) } },
        additionalProperties: false,
      };
      const { schema, faults } = zodFromJson("output", json);
      expect(faults).toEqual([]);
      expect(schema.safeParse({ inner: named(text), text }).success).toBe(true);
      expect(schema.safeParse({ inner: named(`${text}${further}!`), text }).success).toBe(false);
      expect(schema.safeParse({ inner: {}, text: `${text}!` }).success).toBe(false);
      expect(JSON.stringify(z.toJSONSchema(schema))).toContain(JSON.stringify(name).slice(1, -1));
      expect("ran" in globalThis).toBe(false);
    }),
    { seed: SEED, numRuns: 300 },
  );
});

describe("an input", () => {
  const input = schemaOf("input", {
    type: "object",
    $defs: { id: { type: "string", format: "uuid", description: "An id" } },
    properties: {
      id: { $ref: "#/$defs/id" },
      size: { type: "integer", minimum: 1, maximum: 9, default: 3 },
      at: { type: "object", properties: { x: { type: "number" } }, allOf: [{ properties: { y: { type: "number" } } }] },
      tags: { type: "object", additionalProperties: { type: "string" } },
      pair: { type: "array", prefixItems: [{ type: "string" }, { type: "number" }], items: false },
    },
    required: ["id"],
  });
  const id = "3f0c9a52-6b1e-4c77-9d3a-000000000001";

  test("takes no member that it does not name, at any level, unless it says so", () => {
    expect(input.parse({ id, at: { x: 1, y: 2 }, tags: { any: "thing" } })).toEqual({
      id,
      size: 3,
      at: { x: 1, y: 2 },
      tags: { any: "thing" },
    });
    expect(issuesOf(input, { id, more: 1, at: { z: 1 } })).toEqual([
      'at: Unrecognized key: "z"',
      ': Unrecognized key: "more"',
    ]);
    expect(issuesOf(input, { id, tags: { a: 1 } })).toEqual([
      "tags.a: Invalid input: expected string, received number",
    ]);
  });

  test("is exported as it was written, with its references written out and its objects closed", () => {
    expect(inputJsonSchema(input as z.ZodObject, "draft-2020-12")).toEqual({
      type: "object",
      properties: {
        id: { type: "string", format: "uuid", description: "An id" },
        size: { type: "integer", minimum: 1, maximum: 9, default: 3 },
        at: {
          ...{ type: "object", properties: { x: { type: "number" }, y: {} } },
          ...{ allOf: [{ properties: { y: { type: "number" } } }], additionalProperties: false },
        },
        tags: { type: "object", additionalProperties: { type: "string" } },
        pair: { type: "array", prefixItems: [{ type: "string" }, { type: "number" }], items: false },
      },
      required: ["id"],
      additionalProperties: false,
    });
  });

  test("is exported to draft 7 with its positional elements in the words of draft 7", () => {
    expect(inputJsonSchema(input as z.ZodObject)["properties"]).toMatchObject({
      pair: { type: "array", items: [{ type: "string" }, { type: "number" }], additionalItems: false },
    });
  });

  test("does not share a default between calls", () => {
    const schema = schemaOf("input", { type: "object", properties: { list: { type: "array", default: [] } } });
    (schema.parse({}) as { list: number[] }).list.push(1);
    expect(schema.parse({})).toEqual({ list: [] });
  });
});

describe("an output", () => {
  test("keeps what it describes and leaves out the rest", () => {
    const schema = schemaOf("output", {
      type: "object",
      properties: { a: { type: "object", properties: { b: { type: "string" } } } },
    });
    expect(schema.parse({ a: { b: "x", c: 1 }, d: 2 })).toEqual({ a: { b: "x" } });
    expect(schema.safeParse({ a: { b: 1 } }).success).toBe(false);
  });

  test("tells policies its fields, in every form that it may have", () => {
    const schema = schemaOf("output", {
      type: "object",
      properties: {
        owner: {
          oneOf: [
            { type: "object", properties: { email: { type: "string" } }, required: ["email"] },
            { type: "object", properties: { team: { type: "string" } }, required: ["team"] },
            { type: "null" },
          ],
        },
        rows: {
          type: "array",
          items: { allOf: [{ properties: { a: { type: "string" } } }, { properties: { b: { type: "string" } } }] },
        },
        labels: { type: "object", additionalProperties: { type: "string" } },
        payload: {},
      },
    });
    const fields = ["owner.email", "owner.team", "rows[].a", "rows[].b", "labels.*", "payload.any"];
    expect(unmatchedPatterns(Object.fromEntries(fields.map((field) => [field, "allow"])), schema)).toEqual([]);
    expect(unmatchedPatterns({ "owner.name": "allow" }, schema)).toHaveLength(1);
    const answer = { owner: { team: "x" }, rows: [{ a: "1", b: "2" }], labels: { k: "v" }, payload: [1] };
    expect(schema.parse(answer)).toEqual(answer);
    expect(schema.parse({ owner: null })).toEqual({ owner: null });
    expect(schema.safeParse({ owner: { email: "e", team: "t" } }).success).toBe(false);
  });

  test("counts characters as JSON Schema does: one for an emoji", () => {
    const schema = schemaOf("output", { type: "string", maxLength: 2 });
    expect(schema.safeParse("🙂🙂").success).toBe(true);
    expect(schema.safeParse("🙂🙂🙂").success).toBe(false);
  });
});

test.each([
  [
    "an input that is a choice",
    "input",
    { type: "object", anyOf: [{ required: ["a"] }], properties: { a: {} } },
    "input",
    /must not have allOf, anyOf or oneOf at the top/,
  ],
  ["an input that is no object", "input", { type: "string" }, "input.type", /must be object/],
  [
    "a default of the wrong type",
    "input",
    { type: "object", properties: { a: { type: "string", default: 1 } } },
    "input.properties.a.default",
    /refused by its own schema/,
  ],
] as const)("%s is an error", (_what, side, json, field, message) => {
  expect(zodFromJson(side, json).faults).toEqual([
    { field, message: expect.stringMatching(message) as unknown as string },
  ]);
});

test("the largest length of an argument counts characters, not UTF-16 units", () => {
  const schema = schemaOf("input", {
    ...{ type: "object", required: ["code"] },
    properties: { code: { type: "string", maxLength: 2 } },
  });
  expect(schema.safeParse({ code: "\u{1f600}\u{1f600}" }).success).toBe(true);
  expect(issuesOf(schema, { code: "abc" })).toHaveLength(1);
});

test("an integer is one that JavaScript keeps, as with z.int()", () => {
  const values = [0, -0, 2 ** 53 - 1, -(2 ** 53) + 1, 2 ** 53, -(2 ** 53), 1e300, 0.5, "1"];
  for (const side of ["input", "output"] as const) {
    const schema = schemaOf(side, { type: "object", properties: { n: { type: "integer" } } });
    const accepted = values.filter((n) => schema.safeParse({ n }).success);
    expect(accepted).toEqual(values.filter((n) => z.int().safeParse(n).success));
  }
});
