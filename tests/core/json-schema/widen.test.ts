import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { checkerOf } from "../../../src/core/json-schema/check.ts";
import { readJsonSchema } from "../../../src/core/json-schema/schema.ts";
import { widened } from "../../../src/core/json-schema/widening/widen.ts";
import { zodFromJson } from "../../../src/core/json-schema/zod.ts";
import type { Json } from "../../../src/core/types.ts";
import { anySchema, value } from "./generated.ts";
import suite from "./official-suite.json";

const SEED = Number(process.env["STC_TEST_SEED"] ?? 1);

interface Group {
  readonly description: string;
  readonly schema: Json;
  readonly tests: readonly { readonly description: string; readonly data: Json; readonly valid: boolean }[];
}

const GROUPS = Object.values(suite.files as unknown as Readonly<Record<string, readonly Group[]>>).flat();

const accepts = (side: "input" | "output", schema: Json, data: Json): boolean => {
  expect(zodFromJson(side, schema).faults).toEqual([]);
  return checkerOf(readJsonSchema(side, schema).schema)(data).length === 0;
};
const argument = (schema: Json, more: { readonly [key: string]: Json } = {}) => {
  const { schema: whole, notes } = widened("input", { type: "object", properties: { a: schema }, ...more });
  expect(zodFromJson("input", whole).faults).toEqual([]);
  const { a } = (whole as { readonly properties: Readonly<Record<string, Json>> }).properties;
  return { schema: a, notes };
};

describe("a schema that is widened", () => {
  test("loads, and accepts what each schema of the official suite accepts, whatever it uses", () => {
    const refused = GROUPS.flatMap(({ description, schema, tests }) => {
      const { schema: wide } = widened("output", schema);
      return tests
        .filter(({ valid, data }) => valid && !accepts("output", wide, data))
        .map((each) => `${description}: ${each.description}`);
    });
    expect(refused).toEqual([]);
  });

  test("is the same schema where a manifest can state it", () => {
    fc.assert(
      fc.property(anySchema, fc.array(value, { minLength: 3, maxLength: 3 }), (schema, values) => {
        const { schema: wide, notes } = widened("output", schema);
        expect(notes).toEqual([]);
        for (const each of values) {
          const pair = [schema, each, accepts("output", schema, each)];
          expect([schema, each, accepts("output", wide, each)]).toEqual(pair);
        }
      }),
      { seed: SEED, numRuns: 300 },
    );
  });

  test.each<readonly [string, Json, Json, readonly string[]]>([
    [
      "of a known form",
      { type: "string", format: "date", maxLength: 9 },
      { type: "string", format: "date", maxLength: 9 },
      [],
    ],
    [
      "with a format that nobody knows",
      { type: "integer", format: "uint32" },
      { type: "integer" },
      ["input.a: the format uint32 cannot be checked, and is left out"],
    ],
    [
      "with the format path",
      { type: "string", format: "path" },
      { type: "string" },
      ["input.a: the format path cannot be checked, and is left out"],
    ],
    ["of draft 4", { type: "number", minimum: 1, exclusiveMinimum: true }, { type: "number", exclusiveMinimum: 1 }, []],
    ["with a bound that is not one", { exclusiveMinimum: true }, {}, []],
    [
      "with bounds beyond 2^53",
      { type: "integer", minimum: 0, maximum: 2 ** 64 },
      { type: "integer", minimum: 0 },
      ["input.a: maximum cannot be checked, and is left out"],
    ],
    [
      "with a pattern of another language",
      { type: "string", pattern: "(?P<x>a)" },
      { type: "string" },
      ["input.a: pattern cannot be checked, and is left out"],
    ],
    [
      "with a tuple of draft 7",
      { type: "array", items: [{ type: "string" }, {}], additionalItems: false },
      { type: "array", prefixItems: [{ type: "string" }, {}], items: false },
      [],
    ],
    [
      "with a type that does not exist",
      { type: "any" },
      {},
      ["input.a: has a type that JSON Schema does not have, and takes any"],
    ],
    [
      "of OpenAPI 3.0",
      { type: "string", nullable: true, enum: ["a"] },
      { type: ["string", "null"], enum: ["a", null] },
      [],
    ],
    [
      "with an empty enum",
      { type: "string", enum: [] },
      { type: "string" },
      ["input.a: its enum cannot be written in YAML, and is left out"],
    ],
    [
      "with a long enum",
      { enum: Array.from({ length: 5_000 }, (_, index) => index) },
      {},
      ["input.a: its enum of more than 1000 values is left out"],
    ],
    ["that is any object", { type: "object" }, { type: "object", additionalProperties: true }, []],
    [
      "that requires what it does not describe",
      { type: "object", required: ["b"] },
      { type: "object", required: ["b"], properties: { b: {} } },
      [],
    ],
    [
      "whose condition cannot be stated",
      { type: "string", not: { format: "path" } },
      { type: "string" },
      [
        "input.a: the format path cannot be checked, and is left out",
        "input.a: a condition cannot be stated, and is left out",
      ],
    ],
    [
      "whose choices overlap when widened",
      { oneOf: [{ format: "path" }, { const: 1 }] },
      { anyOf: [{}, { const: 1 }] },
      ["input.a: the format path cannot be checked, and is left out"],
    ],
    [
      "with dependencies of draft 7",
      { type: "object", properties: { x: {}, y: {} }, dependencies: { x: ["y"] } },
      { type: "object", properties: { x: {}, y: {} }, dependentRequired: { x: ["y"] } },
      [],
    ],
    [
      "with names that no manifest has",
      { type: "object", properties: { "<<": {}, constructor: {}, b: {} } },
      { type: "object", properties: { b: {} } },
      ["input.a: a member whose name a manifest cannot have is left out"],
    ],
    [
      "with a reference that names nothing",
      { $ref: "#/nowhere" },
      {},
      ["input.a: has a reference that names no part of the schema, and is any JSON"],
    ],
  ])("%s keeps what can be stated, and notes the rest", (_, declared, expected, notes) => {
    expect(argument(declared)).toEqual({ schema: expected, notes });
  });

  test("writes out references to any part of the schema, and stops at recursion", () => {
    const node: Json = {
      type: "object",
      properties: { next: { $ref: "#/definitions/node" }, name: { type: "string" } },
    };
    const more = { definitions: { node } };
    expect(argument({ $ref: "#/definitions/node" }, more)).toEqual({
      schema: { type: "object", properties: { next: {}, name: { type: "string" } } },
      notes: ["input.a.next: is recursive: what is below is any JSON"],
    });
    const { schema } = widened("input", {
      type: "object",
      properties: { a: { type: "string", maxLength: 3 }, b: { $ref: "#/properties/a", description: "Like a" } },
    });
    expect(schema).toMatchObject({ properties: { b: { type: "string", maxLength: 3, description: "Like a" } } });
  });

  test.each<readonly [string, Json, readonly Json[], readonly Json[]]>([
    [
      "anyOf",
      {
        anyOf: [
          { properties: { a: { type: "string" } }, required: ["a"] },
          { properties: { b: {} }, required: ["b"] },
        ],
      },
      [{ a: "x" }, { b: 1 }, {}],
      [{ c: 1 }, { a: 1 }],
    ],
    [
      "oneOf of references",
      {
        oneOf: [{ $ref: "#/$defs/one" }, { $ref: "#/$defs/two" }],
        $defs: {
          one: { type: "object", properties: { kind: { const: "one" } }, required: ["kind"] },
          two: { type: "object", properties: { kind: { const: "two" }, n: { type: "integer" } }, required: ["kind"] },
        },
      },
      [{ kind: "one" }, { kind: "two", n: 1 }],
      [{}, { kind: "three" }, { kind: "two", n: "x" }],
    ],
    [
      "allOf",
      {
        type: "object",
        properties: { a: {} },
        allOf: [{ required: ["a"] }, { properties: { b: { type: "boolean" } } }],
      },
      [{ a: 1, b: true }],
      [{ b: true }, { a: 1, b: 1 }],
    ],
    [
      "a choice next to members",
      {
        type: "object",
        properties: { a: { type: "string" }, b: { type: "string" } },
        anyOf: [{ required: ["a"] }, { required: ["b"] }],
      },
      [{ a: "x" }, { b: "x" }],
      [{ a: 1 }, { c: "x" }],
    ],
    ["no type", {}, [{}], [[], { a: 1 }]],
  ])("of arguments has no choice at its top: %s", (_, declared, accepted, refused) => {
    const { schema } = widened("input", declared);
    expect(accepted.filter((each) => !accepts("input", schema, each))).toEqual([]);
    expect(refused.filter((each) => accepts("input", schema, each))).toEqual([]);
  });

  test("is cut where a reader can still judge it, and says so", () => {
    let deep: Json = { type: "string" };
    for (let depth = 0; depth < 60; depth += 1)
      deep = { type: "object", properties: { x: deep, y: { type: "string" } } };
    const { notes } = widened("input", deep);
    expect(notes).toEqual([expect.stringMatching(/: is nested too deeply: what is below is any JSON$/)]);
    const wide = Object.fromEntries(Array.from({ length: 3_000 }, (_, index) => [`p${index}`, { type: "string" }]));
    const { schema, notes: cut } = widened("input", { type: "object", properties: wide, required: ["p7"] });
    expect(accepts("input", schema, { p7: 1, p2999: "x" })).toBe(true);
    expect(accepts("input", schema, { p2999: "x" })).toBe(false);
    expect(cut).toEqual(["input: only its names are kept, because it has more than 2000 parts"]);
  });

  test("loads whatever was declared, and accepts what an object of it may be", () => {
    const keyword = fc.constantFrom(
      ..."type enum const format pattern items prefixItems additionalItems properties patternProperties required".split(
        " ",
      ),
      ..."additionalProperties propertyNames dependencies dependentRequired allOf anyOf oneOf not if then else contains".split(
        " ",
      ),
      ..."minimum exclusiveMinimum maximum multipleOf minLength uniqueItems $ref $defs definitions nullable description".split(
        " ",
      ),
      ..."unevaluatedProperties __proto__ << x y object".split(" "),
    );
    const leaf = fc.oneof(
      fc.constantFrom<unknown>(
        "object",
        "string",
        "integer",
        "#",
        "#/properties/x",
        "#/$defs/y",
        "uint32",
        "(",
        "a|b",
        "\ud800",
        "\u202e",
      ),
      fc.constantFrom<unknown>(true, false, null, 0, -1, 1.5, 2 ** 60, 1e300, [], {}),
    );
    const { schema: any } = fc.letrec((tie) => ({
      schema: fc.oneof(
        { maxDepth: 5 },
        leaf,
        fc.array(tie("schema"), { maxLength: 3 }),
        fc.dictionary(keyword, tie("schema"), { maxKeys: 5 }),
      ),
    }));
    fc.assert(
      fc.property(any, fc.constantFrom("input" as const, "output" as const), (declared, side) => {
        const { schema, notes } = widened(side, declared as Json);
        expect([declared, zodFromJson(side, schema).faults]).toEqual([declared, []]);
        if (side === "input") expect((schema as { type: string }).type).toBe("object");
        for (const note of notes) expect(note).toMatch(/^[ A-Za-z0-9.,:;$[\]()^_*-]+$/);
      }),
      { seed: SEED, numRuns: 1_500 },
    );
  });
});
