import { describe, expect, test } from "bun:test";
import type { ChatCompletionFunctionTool } from "openai/resources";
import { z } from "zod";
import { exportTool } from "../../src/core/tool-export.ts";
import { inputJsonSchema } from "../../src/core/tool-formats.ts";
import type { Tool } from "../../src/core/types.ts";

function toolOf(input: z.ZodObject): Tool {
  return {
    name: "find_orders",
    title: "Find my orders",
    description: "Find orders",
    version: "1.2.0",
    classification: "read",
    category: "network",
    permissions: { required: ["orders:read"] },
    input,
    output: z.strictObject({ id: z.string() }),
    outputPolicy: { id: "allow" },
    inputPolicy: {},
    scan: {},
    approval: {},
    errors: "withheld",
    target: { system: "orders", handler: () => ({ id: "1" }) },
    timeoutMs: 1_000,
    limits: { outputBytesMax: 1_000, concurrentCallsMax: 1 },
    idempotent: true,
    additive: false,
    examples: { accepts: [], rejects: [] },
  } as Tool;
}

const shared = z.strictObject({ street: z.string() }).meta({ id: "Address" });

function parametersOf(schema: z.ZodType): unknown {
  const tool = toolOf(z.strictObject({ field: schema }));
  const { parameters } = (exportTool(tool, { format: "openai" }) as ChatCompletionFunctionTool).function;
  return (parameters as { properties: { field: unknown } }).properties.field;
}

test("the three formats", () => {
  const tool = toolOf(
    z.strictObject({ id: z.uuid().describe("choosing a format"), count: z.int().min(1).max(9).optional() }),
  );
  const properties = {
    id: { type: "string", format: "uuid", description: "choosing a format" },
    count: { type: "integer", minimum: 1, maximum: 9 },
  };
  const schema = { type: "object", properties, required: ["id"], additionalProperties: false };
  expect(exportTool(tool, { format: "openai" })).toEqual({
    type: "function",
    function: { name: "find_orders", description: "Find orders", parameters: schema },
  });
  expect(exportTool(tool, { format: "anthropic" })).toEqual({
    name: "find_orders",
    description: "Find orders",
    input_schema: schema,
  });
  expect(exportTool(tool, { format: "json" })).toEqual({
    name: "find_orders",
    title: "Find my orders",
    description: "Find orders",
    version: "1.2.0",
    classification: "read",
    category: "network",
    inputSchema: { ...schema, properties: { ...properties, id: { ...properties.id, pattern: expect.any(String) } } },
  });
});

describe("the description for a provider", () => {
  test.each([
    [
      "a short pattern",
      z
        .string()
        .max(5)
        .regex(/^[a-z]+$/),
      { type: "string", maxLength: 5, pattern: "^[a-z]+$" },
    ],
    [
      "a long one",
      z.string().regex(new RegExp(`^${"a".repeat(200)}$`)),
      { type: "string", pattern: `^${"a".repeat(200)}$` },
    ],
    [
      "that there is one that is too long",
      z.string().regex(new RegExp(`^${"a".repeat(2_000)}$`)),
      { type: "string", description: "Must match a pattern of 2002 characters, which GET /tools/<name> shows." },
    ],
    [
      "one with a lookahead in words",
      z.string().regex(/^(?!-)[a-z]+$/),
      { type: "string", description: "Pattern: ^(?!-)[a-z]+$" },
    ],
    [
      "several patterns: one, and the others in words",
      z.string().regex(/^a/).regex(/b$/),
      { type: "string", pattern: "^a", description: "Pattern: b$" },
    ],
    ["known formats", z.iso.datetime(), { type: "string", format: "date-time" }],
    ["no others", z.cuid2(), { type: "string", pattern: "^[0-9a-z]+$" }],
    ["enum", z.enum(["a", "b"]), { type: "string", enum: ["a", "b"] }],
    ["literal", z.literal("a"), { type: "string", const: "a" }],
    ["nullable", z.string().nullable(), { type: ["string", "null"] }],
    ["default", z.string().default("a"), { type: "string", default: "a" }],
    ["list", z.array(z.string()).min(1).max(3), { type: "array", items: { type: "string" }, minItems: 1, maxItems: 3 }],
    [
      "tuple",
      z.tuple([z.string(), z.number()]),
      {
        type: "array",
        items: { anyOf: [{ type: "string" }, { type: "number" }] },
        minItems: 2,
        maxItems: 2,
        description: 'Elements in this order: {"type":"string"}, {"type":"number"}.',
      },
    ],
    [
      "record",
      z.record(z.string().max(5), z.number()),
      {
        type: "object",
        properties: {},
        additionalProperties: { type: "number" },
        description: 'Names of members: {"type":"string","maxLength":5}.',
      },
    ],
    [
      "choice",
      z.discriminatedUnion("k", [z.object({ k: z.literal("a") }), z.object({ k: z.literal("b"), n: z.number() })]),
      {
        anyOf: [
          {
            type: "object",
            properties: { k: { type: "string", const: "a" } },
            required: ["k"],
            additionalProperties: false,
          },
          {
            type: "object",
            properties: { k: { type: "string", const: "b" }, n: { type: "number" } },
            required: ["k", "n"],
            additionalProperties: false,
          },
        ],
      },
    ],
    [
      "intersection",
      z.intersection(z.object({ a: z.string() }), z.object({ b: z.string() })),
      {
        type: "object",
        properties: { a: { type: "string" }, b: { type: "string" } },
        required: ["a", "b"],
        additionalProperties: false,
      },
    ],
    [
      "fields named like keywords",
      z.strictObject({ pattern: z.string(), $ref: z.string(), minLength: z.number(), allOf: z.boolean() }),
      {
        type: "object",
        properties: {
          pattern: { type: "string" },
          $ref: { type: "string" },
          minLength: { type: "number" },
          allOf: { type: "boolean" },
        },
        required: ["pattern", "$ref", "minLength", "allOf"],
        additionalProperties: false,
      },
    ],
    ["transformed input", z.string().transform(Number), { type: "string" }],
    [
      "a schema with an id",
      shared,
      { type: "object", properties: { street: { type: "string" } }, required: ["street"], additionalProperties: false },
    ],
  ])("%s", (_, schema, told) => {
    expect(parametersOf(schema)).toEqual(told);
  });
});

test("a schema used twice is written out twice", () => {
  const schema = inputJsonSchema(z.strictObject({ from: shared, to: shared.describe("the destination") }));
  const text = JSON.stringify(schema);
  expect(text).not.toContain("$ref");
  expect(text).not.toContain("definitions");
  expect(text.match(/street/g)).toHaveLength(4);
});

const node: z.ZodType = z.strictObject({
  name: z.string(),
  get next() {
    return node.optional();
  },
});
const named: z.ZodType = z
  .strictObject({
    get next() {
      return z.array(named);
    },
  })
  .meta({ id: "Named" });

test.each([
  ["recursion", z.strictObject({ node })],
  ["recursion through an id", z.strictObject({ named })],
  ["recursion through lazy", z.strictObject({ node: z.lazy(() => node) })],
  ["a date", z.strictObject({ at: z.date() })],
  ["a bigint", z.strictObject({ n: z.bigint() })],
  ["a map", z.strictObject({ m: z.map(z.string(), z.string()) })],
  ["a custom check of type", z.strictObject({ c: z.custom() })],
  ["a union at the top", z.union([z.strictObject({ a: z.string() }), z.strictObject({ b: z.string() })])],
  ["a string at the top", z.string()],
  ["a nullable top", z.strictObject({}).nullable()],
])("%s is refused", (_, schema) => {
  expect(() => inputJsonSchema(schema)).toThrow();
});

test("each call returns its own copy", () => {
  const input = z.strictObject({ a: z.enum(["x"]) });
  expect(inputJsonSchema(input)).not.toBe(inputJsonSchema(input));
});
