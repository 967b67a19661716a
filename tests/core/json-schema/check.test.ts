import { describe, expect, test } from "bun:test";
import Ajv2020 from "ajv/dist/2020.js";
import fc from "fast-check";
import { checkerOf } from "../../../src/core/json-schema/check.ts";
import { readJsonSchema } from "../../../src/core/json-schema/schema.ts";
import type { Json } from "../../../src/core/types.ts";
import { anySchema, value } from "./generated.ts";
import suite from "./official-suite.json";

const SEED = Number(process.env["STC_TEST_SEED"] ?? 1);

interface Group {
  readonly description: string;
  readonly schema: Json;
  readonly tests: readonly { readonly description: string; readonly data: Json; readonly valid: boolean }[];
}

const GROUPS = Object.entries(suite.files as unknown as Readonly<Record<string, readonly Group[]>>).flatMap(
  ([file, groups]) => groups.map((group) => ({ ...group, name: `${file}: ${group.description}` })),
);

/** Groups of the official suite whose schemas do not load. Each uses something that a manifest's schema must not have. */
const REFUSED =
  /\$id|URN|[Rr]emote|metaschema|relative|refs|pointer|escaped characters|Javascript object property names|collect annotations|empty (?:enum|tokens)|new scope|ref to (?:if|then|else)|absolute-path|media type documents with schema|Recursive references/;

describe("the official suite of draft 2020-12", () => {
  const read = GROUPS.map((group) => ({ ...group, ...readJsonSchema("output", group.schema) }));
  const accepted = read.filter(({ faults }) => faults.length === 0);

  test("what is refused uses references beyond $defs, names that cannot be read, or keywords that are not supported", () => {
    const refused = read.filter(({ faults }) => faults.length > 0).map(({ name }) => name);
    expect(refused.filter((name) => !REFUSED.test(name))).toEqual([]);
    expect({ accepted: accepted.length, refused: refused.length }).toEqual({ accepted: 218, refused: 31 });
  });

  test.each(accepted.map((group) => [group.name, group] as const))("%s", (_name, { schema, tests }) => {
    const violations = checkerOf(schema);
    const results = tests.map(({ description, data }) => [description, violations(data).length === 0]);
    expect(results).toEqual(tests.map(({ description, valid }) => [description, valid]));
  });
});

test("random schemas accept what Ajv accepts", () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: false });
  let accepted = 0;
  fc.assert(
    fc.property(anySchema, fc.array(value, { minLength: 5, maxLength: 5 }), (json, values) => {
      const { schema, faults } = readJsonSchema("output", json);
      expect(faults).toEqual([]);
      const violations = checkerOf(schema);
      const validate = ajv.compile(json as object);
      for (const each of values) {
        const isValid = validate(each);
        accepted += Number(isValid);
        expect([json, each, violations(each).length === 0]).toEqual([json, each, isValid]);
      }
    }),
    { seed: SEED, numRuns: 250 },
  );
  expect(accepted).toBeGreaterThan(100);
});

describe("a value that a schema makes expensive", () => {
  const checked = (schema: Json, data: Json) => {
    const { schema: read, faults } = readJsonSchema("output", schema);
    expect(faults).toEqual([]);
    return checkerOf(read)(data);
  };

  test("is refused after a number of steps, whatever the schema asks of it", () => {
    const keys = Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`k${at}`, at]));
    const rows: readonly (readonly [Json, Json])[] = [
      [{ anyOf: Array.from({ length: 4_000 }, () => ({ minProperties: 20_001 })) }, keys],
      [
        { items: { anyOf: Array.from({ length: 4_000 }, () => ({ type: "number", minimum: 2 })) } },
        Array(10_000).fill(1),
      ],
      [{ anyOf: Array.from({ length: 4_000 }, () => ({ uniqueItems: true, maxItems: 1 })) }, Array(100_000).fill({})],
      [{ anyOf: Array.from({ length: 4_000 }, () => ({ pattern: "^(a+)+$" })) }, `${"a".repeat(1_000_000)}b`],
    ];
    for (const [schema, data] of rows) expect(() => checked(schema, data)).toThrow(/too many steps/);
  });

  test("is compared in linear time, and its patterns are matched in linear time", () => {
    const elements = Array.from({ length: 100_000 }, (_, at) => ({ at }));
    expect(checked({ uniqueItems: true }, elements)).toEqual([]);
    expect(checked({ uniqueItems: true }, [...elements, { at: 7 }])).toHaveLength(1);
    expect(checked({ pattern: "^(a+)+$" }, `${"a".repeat(100_000)}b`)).toHaveLength(1);
    expect(checked({ patternProperties: { "^(a|a)*$": false } }, { [`${"a".repeat(100_000)}b`]: 1 })).toEqual([]);
  });

  test("has at most 20 violations, however many it has", () => {
    expect(checked({ items: { type: "string" } }, Array(10_000).fill(1))).toHaveLength(20);
  });
});

test("violations name the member, and say what Zod says of the same", () => {
  const { schema } = readJsonSchema("output", {
    type: "object",
    properties: {
      id: { type: "string", pattern: "^[a-z]{2}$" },
      size: { type: "integer", minimum: 1 },
      kind: { enum: ["A", "B"] },
      other: { anyOf: [{ type: "string", maxLength: 2 }, { type: "null" }] },
      form: { anyOf: [{ type: "string" }] },
      list: { type: "array", items: { type: "object", properties: { x: { type: "boolean" } }, required: ["x"] } },
    },
    required: ["id", "form"],
    additionalProperties: false,
  });
  const found = checkerOf(schema)({ size: 0.5, kind: "C", other: "long", list: [{ x: true }, { x: 1 }, {}], more: 1 });
  expect(found.map(({ path, code }) => [path?.join("."), code])).toEqual([
    ["id", "invalid_type"],
    ["size", "invalid_type"],
    ["kind", "invalid_value"],
    ["other", "too_big"],
    ["form", "invalid_type"],
    ["list.1.x", "invalid_type"],
    ["list.2.x", "invalid_type"],
    ["", "unrecognized_keys"],
  ]);
});

test.each([
  ["date", ["2026-02-28", "2024-02-29"], ["2026-02-29", "2026-2-1", ""]],
  [
    "date-time",
    ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678+02:00"],
    ["2026-01-02", "2026-01-02T03:04:05", "2026-01-02T24:00:00Z"],
  ],
  ["time", ["03:04:05Z"], ["03:04:05", "25:00:00Z"]],
  ["duration", ["P1D", "PT5M"], ["P", "5M"]],
  ["email", ["ada@example.com"], ["ada", "ada@example.com\n"]],
  ["hostname", ["example.com"], ["-a.com", "a b"]],
  ["ipv4", ["127.0.0.1"], ["127.0.0.256", "0x7f.1"]],
  ["ipv6", ["::1", "fe80::1"], ["1::2::3"]],
  ["uuid", ["3f0c9a52-6b1e-4c77-9d3a-000000000001"], ["3f0c9a52", "{3f0c9a52-6b1e-4c77-9d3a-000000000001}"]],
  ["uri", ["https://example.com/a?b#c", "urn:a:b"], ["/a", "https://example.com/a b", "https://a/%zz"]],
  ["uri-reference", ["/a", "../b?c"], ["a b", "\\a"]],
])("the format %s is checked", (format, valid, invalid) => {
  const violations = checkerOf(readJsonSchema("output", { type: "string", format }).schema);
  expect(valid.filter((text) => violations(text).length > 0)).toEqual([]);
  expect(invalid.filter((text) => violations(text).length === 0)).toEqual([]);
});
