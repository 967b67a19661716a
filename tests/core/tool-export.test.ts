import { describe, expect, test } from "bun:test";
import type { Tool as AnthropicTool } from "@anthropic-ai/sdk/resources/messages";
import type { FunctionDeclaration } from "@google/genai";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { ChatCompletionFunctionTool } from "openai/resources";
import type { FunctionTool } from "openai/resources/responses/responses";
import { z } from "zod";
import { zodFromJson } from "../../src/core/json-schema/zod.ts";
import { withoutAbsentNulls } from "../../src/core/schema/absent-nulls.ts";
import { exportTool, type ToolFormat } from "../../src/core/tool-export.ts";
import type { Json, Tool } from "../../src/core/types.ts";
import { defineTool } from "../../src/index.ts";

type Table = Readonly<Record<string, unknown>>;

function toolOf(input: z.ZodObject): Tool {
  return defineTool({
    name: "find_orders",
    description: "Find orders",
    classification: "read",
    permissions: { required: ["orders:read"] },
    input,
    handler: () => ({}),
    output: z.strictObject({}),
    outputPolicy: {},
  });
}

interface Form {
  readonly format: ToolFormat;
  readonly strict?: boolean;
}

/** The exported schema, and whether it is strict, as the types of the provider's own SDK have it. */
const FORMS: readonly (readonly [name: string, form: Form, read: (tool: object) => readonly [unknown, unknown]])[] = [
  ["openai", { format: "openai" }, readChat],
  ["openai, strict", { format: "openai", strict: true }, readChat],
  ["openai-responses", { format: "openai-responses" }, readResponses],
  ["openai-responses, strict", { format: "openai-responses", strict: true }, readResponses],
  ["anthropic", { format: "anthropic" }, readAnthropic],
  ["anthropic, strict", { format: "anthropic", strict: true }, readAnthropic],
  ["google", { format: "google" }, (tool) => [(tool as FunctionDeclaration).parametersJsonSchema, undefined]],
  ["mcp", { format: "mcp" }, (tool) => [(tool as { readonly inputSchema: Table }).inputSchema, undefined]],
];

function readChat(tool: object): readonly [unknown, unknown] {
  const { type, function: declared } = tool as ChatCompletionFunctionTool;
  expect([type, declared.name, declared.description]).toEqual(["function", "find_orders", "Find orders"]);
  return [declared.parameters, declared.strict];
}

function readResponses(tool: object): readonly [unknown, unknown] {
  const { type, name, parameters, strict } = tool as FunctionTool;
  expect([type, name]).toEqual(["function", "find_orders"]);
  return [parameters, strict];
}

function readAnthropic(tool: object): readonly [unknown, unknown] {
  const { name, input_schema: schema, strict } = tool as AnthropicTool;
  expect([name, schema.type]).toEqual(["find_orders", "object"]);
  return [schema, strict];
}

const json = (field: object): z.ZodObject => {
  const { schema, faults } = zodFromJson("input", { type: "object", properties: { field }, required: ["field"] });
  expect(faults).toEqual([]);
  return schema as z.ZodObject;
};
const zod = (field: z.ZodType): z.ZodObject => z.strictObject({ field });

/** A constraint, a value that breaks it, and one that does not. */
const CONSTRAINTS: readonly (readonly [title: string, input: z.ZodObject, broken: unknown, kept: unknown])[] = [
  ["a largest length", zod(z.string().max(3)), "abcd", "abc"],
  ["a least length", zod(z.string().min(2)), "a", "ab"],
  ["a pattern", zod(z.string().regex(/^a+$/)), "b", "aa"],
  ["a pattern with a lookahead", zod(z.string().regex(/^(?!-)[a-z]+$/)), "-a", "a"],
  ["a long pattern", zod(z.string().regex(new RegExp(`^${"a?".repeat(600)}$`))), "b", "a"],
  ["two patterns", zod(z.string().regex(/^a/).regex(/b$/)), "a", "ab"],
  ["a format", zod(z.iso.datetime()), "today", "2026-01-31T09:30:00Z"],
  ["a format of no provider", zod(z.base64()), "***", "aGk="],
  ["an enum", zod(z.enum(["a", "b"])), "c", "a"],
  ["a literal", zod(z.literal("a")), "b", "a"],
  ["a least number", zod(z.number().min(1)), 0, 1],
  ["a number that must be exceeded", zod(z.number().gt(1)), 1, 2],
  ["a step", zod(z.number().multipleOf(5)), 3, 10],
  ["a type", zod(z.int()), "3", 3],
  ["a number of elements", zod(z.array(z.string()).min(2).max(3)), ["a"], ["a", "b"]],
  ["an element", zod(z.array(z.string().max(1))), ["ab"], ["a"]],
  ["a tuple", zod(z.tuple([z.string(), z.number()])), [1, "a"], ["a", 1]],
  ["a record's value", zod(z.record(z.string(), z.number())), { a: "b" }, { a: 1 }],
  ["a record's key", zod(z.record(z.string().max(1), z.number())), { ab: 1 }, { a: 1 }],
  ["a member", zod(z.strictObject({ a: z.string().max(2) })), { a: "abc" }, { a: "ab" }],
  ["an unknown member", zod(z.strictObject({ a: z.string().optional() })), { b: 1 }, { a: "a" }],
  ["a form", zod(z.xor([z.object({ a: z.string() }), z.object({ b: z.string() })])), {}, { a: "a" }],
  ["unique elements", json({ type: "array", items: { type: "string" }, uniqueItems: true }), ["a", "a"], ["a"]],
  [
    "a number of members",
    json({ type: "object", minProperties: 1, additionalProperties: { type: "string" } }),
    {},
    { a: "b" },
  ],
  ["a negation", json({ type: "string", not: { enum: ["a"] } }), "a", "b"],
  [
    "a dependency",
    json({
      type: "object",
      properties: { a: { type: "string" }, b: { type: "string" } },
      dependentRequired: { a: ["b"] },
    }),
    { a: "x" },
    { b: "x" },
  ],
];

const ajv = new Ajv2020({ strict: false, validateFormats: true });
ajv.addFormat("date-time", /^\d{4}-\d\d-\d\dT/);
const accepts = (schema: unknown, value: unknown): boolean => ajv.validate(schema as Table, value) as boolean;

/** The words of a schema and of everything inside it. */
function descriptionsIn(schema: unknown): string {
  if (typeof schema !== "object" || schema === null) return "";
  const { description } = schema as { readonly description?: unknown };
  return `${typeof description === "string" ? description : ""}${Object.values(schema).map(descriptionsIn).join("")}`;
}

describe.each(FORMS)("exported as %s", (_name, form, read) => {
  test.each(CONSTRAINTS)(
    "%s is in the schema or in its words, and nothing else is refused",
    (_, input, broken, kept) => {
      const [schema] = read(exportTool(toolOf(input), form));
      expect(input.safeParse({ field: broken }).success).toBe(false);
      expect(input.safeParse({ field: kept }).success).toBe(true);
      const sent = withStrictNulls(schema, { field: kept });
      expect([sent, accepts(schema, sent)]).toEqual([sent, true]);
      expect(input.safeParse(withoutAbsentNulls(input, sent)).success).toBe(true);
      if (accepts(schema, withStrictNulls(schema, { field: broken }))) expect(descriptionsIn(schema)).not.toBe("");
    },
  );
});

/** Adds null for every required member that is missing: what a model in strict mode sends. */
function withStrictNulls(schema: unknown, value: Json | unknown): Json {
  const { type, properties, required, items } = schema as Table & {
    readonly properties?: Table;
    readonly required?: readonly string[];
  };
  if (Array.isArray(value))
    return value.map((inner) => (items === undefined ? inner : withStrictNulls(items, inner))) as Json;
  if (typeof value !== "object" || value === null || ![type].flat().includes("object")) return value as Json;
  const members = Object.entries(value).map(([name, inner]) => [
    name,
    withStrictNulls(properties?.[name] ?? {}, inner),
  ]);
  const missing = (required ?? []).filter((name) => {
    const types = [(properties?.[name] as Table | undefined)?.["type"]].flat();
    return !(name in (value as object)) && types.includes("null");
  });
  return { ...Object.fromEntries(members), ...Object.fromEntries(missing.map((name) => [name, null])) };
}

const ORDER = z.strictObject({
  id: z.uuid().describe("The order"),
  note: z.string().max(20).optional().describe("A note"),
  count: z.int().min(1).default(3),
  mood: z.enum(["calm", "cross"]).optional(),
  lines: z.array(z.strictObject({ sku: z.string(), color: z.string().optional() })).optional(),
});

describe("strict mode", () => {
  test("OpenAI: every member is required, optional ones may be null, and words say what the mode cannot", () => {
    const [parameters, strict] = readChat(exportTool(toolOf(ORDER), { format: "openai", strict: true }));
    expect(strict).toBe(true);
    expect(parameters).toEqual({
      type: "object",
      properties: {
        id: { type: "string", format: "uuid", description: "The order" },
        note: { type: ["string", "null"], description: "A note. At most 20 characters. Optional: null if absent." },
        count: {
          type: ["integer", "null"],
          minimum: 1,
          maximum: Number.MAX_SAFE_INTEGER,
          description: "Default: 3. Optional: null if absent.",
        },
        mood: { type: ["string", "null"], enum: ["calm", "cross", null], description: "Optional: null if absent." },
        lines: {
          type: ["array", "null"],
          items: {
            type: "object",
            properties: {
              sku: { type: "string" },
              color: { type: ["string", "null"], description: "Optional: null if absent." },
            },
            required: ["sku", "color"],
            additionalProperties: false,
          },
          description: "Optional: null if absent.",
        },
      },
      required: ["id", "note", "count", "mood", "lines"],
      additionalProperties: false,
    });
  });

  test("Anthropic: optional members stay optional", () => {
    const [schema, strict] = readAnthropic(exportTool(toolOf(ORDER), { format: "anthropic", strict: true }));
    expect(strict).toBe(true);
    expect(schema).toMatchObject({
      required: ["id"],
      properties: {
        note: { type: "string", description: "A note. At most 20 characters." },
        count: { default: 3, description: expect.stringContaining("At least 1.") },
      },
    });
  });

  test.each([
    ["a record", zod(z.record(z.string(), z.string()))],
    ["an open object", zod(z.looseObject({ a: z.string() }))],
    ["any value", zod(z.unknown())],
  ])("a tool with %s is exported without it", (_, input) => {
    for (const format of ["openai", "openai-responses", "anthropic"] as const) {
      expect(exportTool(toolOf(input), { format, strict: true })).toEqual(exportTool(toolOf(input), { format }));
    }
    expect(readResponses(exportTool(toolOf(input), { format: "openai-responses", strict: true }))[1]).toBe(false);
    expect(readChat(exportTool(toolOf(input), { format: "openai", strict: true }))[1]).toBeUndefined();
  });
});

test("Google's schema has only members that Gemini reads; words say the others", () => {
  const input = zod(z.string().min(2).max(9).regex(/^a/).default("aa").describe("A name"));
  expect((exportTool(toolOf(input), { format: "google" }) as FunctionDeclaration).parametersJsonSchema).toEqual({
    type: "object",
    properties: {
      field: {
        type: "string",
        description: 'A name. Default: "aa". At least 2 characters. At most 9 characters. Pattern: ^a',
      },
    },
    additionalProperties: false,
  });
});

test("MCP's form has the whole schema and the annotations", () => {
  expect(exportTool(toolOf(zod(z.string().max(2))), { format: "mcp" })).toMatchObject({
    name: "find_orders",
    inputSchema: { properties: { field: { type: "string", maxLength: 2 } }, required: ["field"] },
    annotations: { readOnlyHint: true, destructiveHint: false },
  });
});

const ADDS = { classification: "write", category: "write", additive: true } as const;

/** Read-only, destructive, idempotent. */
const HINTS: readonly (readonly [string, Partial<Tool>, readonly [boolean, boolean, boolean]])[] = [
  ["a read tool", {}, [true, false, true]],
  ["a read tool that reaches a network", { category: "network" }, [true, false, true]],
  ["a changing tool", { classification: "write", category: "write" }, [false, true, false]],
  [
    "a changing tool that may be repeated",
    { classification: "write", category: "write", idempotent: true },
    [false, true, true],
  ],
  ["a tool that only adds", ADDS, [false, false, false]],
  ["a tool that only adds and may be repeated", { ...ADDS, idempotent: true }, [false, false, true]],
  ["a tool that only adds and is named send", { ...ADDS, name: "send_message" }, [false, false, false]],
  ["a tool that only adds a marker", { ...ADDS, name: "create_delete_marker" }, [false, false, false]],
  ["an additive tool that writes", { ...ADDS, description: "Write a note to the case" }, [false, false, false]],
  ["an additive tool whose name says delete", { ...ADDS, name: "delete_orders" }, [false, true, false]],
  ["an additive tool whose name also says delete", { ...ADDS, name: "create_and_delete_order" }, [false, true, false]],
  [
    "an additive tool whose description says remove",
    { ...ADDS, name: "create_order", description: "Removes the draft of an order" },
    [false, true, false],
  ],
  ["an additive tool whose name says update", { ...ADDS, name: "update_order" }, [false, true, false]],
  ["a destructive tool", { classification: "destructive", category: "network" }, [false, true, false]],
  ["a read tool whose name says delete", { name: "delete_orders", category: "network" }, [false, true, false]],
  [
    "a read tool whose description says delete",
    { description: "Deletes all orders", category: "command" },
    [false, true, false],
  ],
  [
    "a tool named delete that is declared as reading",
    { name: "delete_preview", category: "read" },
    [true, false, true],
  ],
  ["a read tool named like a noun", { name: "update_history", category: "network" }, [true, false, true]],
];

test.each(HINTS)("MCP's hints for %s", (_what, given, [readOnlyHint, destructiveHint, idempotentHint]) => {
  const tool = { ...toolOf(zod(z.string())), ...given } as Tool;
  expect(exportTool(tool, { format: "mcp" })).toMatchObject({
    annotations: { readOnlyHint, destructiveHint, idempotentHint },
  });
});
