import { describe, expect, test } from "bun:test";
import type { ChatCompletionFunctionTool } from "openai/resources";
import { z } from "zod";
import { ManifestError } from "../../src/core/errors.ts";
import { exportTool } from "../../src/core/tool-export.ts";
import { defineTool } from "../../src/index.ts";

const text = z.string();
const pair = z.object({ a: text, b: text });

/** What teams write in schemas every day. */
const EVERYDAY: Readonly<Record<string, z.ZodType>> = {
  enum: z.enum(["a", "b"]),
  "native enum": z.enum({ A: "a", B: "b" } as const),
  literals: z.literal(["x", 1, true, null]),
  union: z.union([text, z.number()]),
  "discriminated union": z.discriminatedUnion("k", [
    z.object({ k: z.literal("a"), x: text }),
    z.object({ k: z.literal("b"), y: z.number() }),
  ]),
  intersection: z.object({ a: text }).and(z.object({ b: text })),
  optional: text.optional(),
  nullable: pair.nullable(),
  nullish: text.nullish(),
  default: text.default("d"),
  catch: text.catch("c"),
  "ISO date": z.iso.date(),
  "ISO date and time": z.iso.datetime({ offset: true }),
  email: z.email(),
  url: z.url(),
  uuid: z.uuid(),
  base64: z.base64(),
  int: z.int(),
  "64 bits as text": text.regex(/^-?[0-9]{1,19}$/),
  coerced: z.coerce.number(),
  record: z.record(text, z.number()),
  "record of an enum": z.record(z.enum(["a", "b"]), z.number()),
  "partial record": z.partialRecord(z.enum(["a", "b"]), z.number()),
  tuple: z.tuple([text, z.number()]),
  "tuple with a rest": z.tuple([text], z.number()),
  "empty tuple": z.tuple([]),
  "nested arrays": z.array(z.array(z.number())),
  pick: pair.pick({ a: true }),
  omit: pair.omit({ a: true }),
  extend: pair.extend({ c: text }),
  partial: pair.partial(),
  refine: text.refine((value) => value !== "no"),
  superRefine: text.superRefine((value, context) => {
    if (value === "no") context.addIssue({ code: "custom", message: "no" });
  }),
  check: text.check(z.minLength(1)),
  meta: text.meta({ title: "T", description: "said", examples: ["x"] }),
  brand: text.brand<"Id">(),
  readonly: z.array(text).readonly(),
  lazy: z.lazy(() => text),
  pipe: text.pipe(z.string().min(1)),
  trim: text.trim(),
  template: z.templateLiteral(["v", z.number()]),
  unknown: z.unknown(),
};

const base = { name: "tool", description: "d", classification: "read", permissions: { required: ["p:r"] } } as const;
const nothing = z.strictObject({});

const takes = (value: z.ZodType) =>
  defineTool({
    ...base,
    input: z.strictObject({ value }),
    handler: async () => ({ ok: true }),
    output: z.object({ ok: z.boolean() }),
    outputPolicy: { ok: "allow" },
  });

const gives = (value: z.ZodType) =>
  defineTool({
    ...base,
    input: nothing,
    handler: async () => ({}) as never,
    output: z.object({ value }),
    outputPolicy: { value: "allow" },
  });

function faultsOf(define: () => unknown): readonly string[] {
  try {
    define();
    return [];
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error;
    return error.faults.map(({ field, message }) => `${field}: ${message}`);
  }
}

test.each(Object.entries(EVERYDAY))("%s loads, as input and output", (_name, schema) => {
  expect([...faultsOf(() => takes(schema)), ...faultsOf(() => gives(schema))]).toEqual([]);
});

describe("types that JSON cannot carry are refused with their field and the type to write instead", () => {
  test.each([
    ["a date", z.object({ on: z.date() }), "value.on: JSON has no dates: write z.iso.datetime() or z.iso.date()"],
    ["a date in a list", z.array(z.date()), "value[]: JSON has no dates"],
    ["a date in a record", z.record(text, z.date()), "value.*: JSON has no dates"],
    ["a date in a tuple", z.tuple([text, z.date()]), "value[]: JSON has no dates"],
    ["a date among others", z.union([text, z.date()]), "value: JSON has no dates"],
    ["64 bits", z.int64(), "value: JSON has no bigints: write z.int(), or z.string()"],
    ["a map", z.map(text, text), "value: JSON has no maps: write z.record()"],
    ["a set", z.set(text), "value: JSON has no sets: write z.array()"],
    ["a file", z.file(), "value: JSON has no files"],
    ["a promise", z.promise(text), "value: JSON has no promises"],
    ["a custom check", z.custom<string>(), "value: z.custom() and z.instanceof() say nothing about the shape"],
    ["an asynchronous check", text.refine(async () => true), "value: must be synchronous"],
  ] as const)("%s", (_name, schema, want) => {
    const [asInput] = faultsOf(() => takes(schema));
    const [asOutput] = faultsOf(() => gives(schema));
    expect(asInput).toStartWith(`input.${want}`);
    expect(asOutput).toStartWith(`output.${want}`);
  });

  test("a schema that contains itself", () => {
    expect(faultsOf(() => takes(z.json()))).toEqual([expect.stringContaining("input: must not be recursive")]);
  });

  test("an example that needs an asynchronous check is reported", () => {
    const input = z.strictObject({ id: text.superRefine(() => Promise.resolve()) });
    const tool = () =>
      defineTool({
        ...base,
        input,
        handler: async () => ({ ok: true }),
        output: z.object({ ok: z.boolean() }),
        outputPolicy: {},
        examples: { accepts: [{ id: "x" }], rejects: [{ id: "y" }] },
      });
    expect(faultsOf(tool)).toEqual([
      "examples.accepts[0]: cannot be checked: the input schema is asynchronous; make it synchronous",
      "examples.rejects[0]: cannot be checked: the input schema is asynchronous; make it synchronous",
    ]);
  });
});

describe("the schemas shown to LLM providers", () => {
  const shown = (value: z.ZodType): unknown =>
    (exportTool(takes(value), { format: "openai" }) as ChatCompletionFunctionTool).function.parameters?.["properties"];

  test("a tuple's rest is not forgotten", () => {
    const items = { anyOf: [{ type: "string" }, { type: "number" }] };
    expect(shown(z.tuple([text], z.number()))).toEqual({
      value: {
        type: "array",
        items,
        minItems: 1,
        description: 'Elements in this order: {"type":"string"}, then {"type":"number"}.',
      },
    });
  });

  test("a record of an enum names its keys, which providers need as required", () => {
    const properties = { a: { type: "number" }, b: { type: "number" } };
    const open = { type: "object", properties, additionalProperties: false };
    expect(shown(z.record(z.enum(["a", "b"]), z.number()))).toEqual({ value: { ...open, required: ["a", "b"] } });
    expect(shown(z.partialRecord(z.enum(["a", "b"]), z.number()))).toEqual({ value: open });
  });

  test("a tuple of nothing has a schema", () => {
    expect(shown(z.tuple([]))).toEqual({ value: { type: "array", items: {}, maxItems: 0 } });
  });
});
