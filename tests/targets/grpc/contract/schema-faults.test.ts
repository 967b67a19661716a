import { describe, expect, test } from "bun:test";
import { z } from "zod";
import {
  inputSchemaFaults,
  listShape,
  outputSchemaFaults,
  outputSchemaNotes,
} from "../../../../src/targets/grpc/contract/schema-faults.ts";
import { KINDS_SET, kindsMethod } from "../support/kinds.ts";

const { requestShape: ALL } = kindsMethod("Echo", { ...KINDS_SET, anyTypes: ["kinds.v1.Detail"] });
const { requestShape: CLOSED } = kindsMethod("Echo");
const texts = (faults: readonly { readonly field: string; readonly message: string }[]) =>
  faults.map(({ field, message }) => `${field}: ${message}`);

const LEVEL = z.enum(["LEVEL_LOW", "LEVEL_HIGH"]);
const Inner = z.object({ a: z.string(), flags: z.record(z.string(), z.boolean()) });

/** Every kind of field, and a schema that fits it in both directions. */
const FITS = {
  byWide: z.record(z.string(), z.string()),
  byFlag: z.partialRecord(z.enum(["true", "false"]), z.string()),
  innerByName: z.record(z.string(), Inner),
  details: z.array(z.object({ "@type": z.string(), note: z.string() })),
  otherName: z.string(),
  packed: z.array(z.int()).max(9),
  inner: Inner.optional(),
  someText: z.string().optional(),
  raw: z.base64(),
  level: LEVEL,
  at: z.iso.datetime().nullable(),
  took: z.templateLiteral([z.number(), "s"]).nullable(),
  maybeText: z.string().nullable(),
  maybeBig: z.string().nullable(),
  mask: z.string().nullable(),
  open: z.record(z.string(), z.unknown()).nullable(),
  anything: z.union([z.string(), z.number(), z.null()]),
  list: z.array(z.unknown()).nullable(),
  maybeFlag: z.boolean().optional(),
  ratio: z.number(),
  big: z.string(),
  levels: z.array(LEVEL),
};

test("schemas that fit have no errors, however wrapped", () => {
  const wrapped = z.object(FITS).readonly();
  expect(texts(inputSchemaFaults(wrapped, ALL))).toEqual([]);
  expect(texts(outputSchemaFaults(wrapped, ALL))).toEqual([]);
  expect(texts(outputSchemaFaults(z.object(FITS).nullable().catch(null), ALL))).toEqual([]);
});

describe("of one field", () => {
  test.each([
    // title, schema, refused as input, refused as output
    [
      "a number for a string",
      { otherName: z.number() },
      "otherName: is number here, and string in the proto (string)",
      "otherName: is number",
    ],
    [
      "a string for a number",
      { ratio: z.string() },
      "ratio: is string here, and number in the proto (double)",
      "ratio: is string",
    ],
    [
      "a string for a boolean",
      { maybeFlag: z.enum(["true", "false"]) },
      "maybeFlag: is string here, and boolean",
      "maybeFlag: is string",
    ],
    [
      "a number for 64 bits: it may be sent, and never comes",
      { big: z.int() },
      undefined,
      "big: is 64 bits wide and comes as a decimal string",
    ],
    [
      "the same of a wrapper",
      { maybeBig: z.number().nullable() },
      undefined,
      "maybeBig: is 64 bits wide and comes as a decimal string",
    ],
    ["a bigint", { big: z.bigint() }, "big: is bigint", "big: is bigint"],
    ["a coerced number for 64 bits", { big: z.coerce.number() }, undefined, undefined],
    ["a text made a number for 64 bits", { big: z.string().transform(Number) }, undefined, undefined],
    ["a number for bytes", { raw: z.number() }, "raw: is number", "raw: is number"],
    ["a list of bytes", { raw: z.array(z.int()) }, "raw: is list", "raw: is list"],
    [
      "a date for a time",
      { at: z.date() },
      "at: is Date here, and string in the proto (google.protobuf.Timestamp)",
      "at: is Date",
    ],
    ["a coerced date for a time", { at: z.coerce.date() }, "at: is Date", undefined],
    ["seconds and nanos for a time", { at: z.object({ seconds: z.string() }) }, "at: is object", "at: is object"],
    ["a number for a duration", { took: z.number() }, "took: is number", "took: is number"],
    [
      "a wrapper as its message",
      { maybeText: z.object({ value: z.string() }) },
      "maybeText: is object",
      "maybeText: is object",
    ],
    ["a list for a mask", { mask: z.array(z.string()) }, "mask: is list", "mask: is list"],
    ["a text for a structure", { open: z.string() }, "open: is string", "open: is string"],
    [
      "one for a list",
      { packed: z.int() },
      "packed: is number here, and list in the proto (repeated int32)",
      "packed: is number",
    ],
    ["a list for one", { otherName: z.array(z.string()) }, "otherName: is list", "otherName: is list"],
    [
      "a list of what it is not",
      { packed: z.array(z.string()) },
      "packed[]: is string here, and number in the proto (int32)",
      "packed[]: is string",
    ],
    [
      "a list for a map",
      { byWide: z.array(z.object({ key: z.string() })) },
      "byWide: is list here, and object in the proto (map<int64, string>)",
      "byWide: is list",
    ],
    ["a Map for a map", { byWide: z.map(z.string(), z.string()) }, "byWide: is Map", "byWide: is Map"],
    [
      "a map of what it is not",
      { byWide: z.record(z.string(), z.int()) },
      "byWide.*: is number here, and string",
      "byWide.*: is number",
    ],
    [
      "a map's message with a field it lacks",
      { innerByName: z.record(z.string(), z.object({ b: z.string() })) },
      "innerByName.*.b: kinds.v1.All.Inner has no such field; it has a, flags",
      "innerByName.*.b: kinds.v1.All.Inner has no such field",
    ],
    [
      "a string for a message",
      { inner: z.string() },
      "inner: is string here, and object in the proto (kinds.v1.All.Inner)",
      "inner: is string",
    ],
    [
      "a field misspelt",
      { bigUnsinged: z.string() },
      "bigUnsinged: kinds.v1.All has no such field",
      "bigUnsinged: kinds.v1.All has no such field",
    ],
    ["the proto's own spelling", { some_text: z.string() }, "did you mean someText?", "did you mean someText?"],
    [
      "a misspelt field that may be missing",
      { otherNaem: z.string().optional() },
      "did you mean otherName?",
      "did you mean otherName?",
    ],
    ["a field that must not be there", { other: z.undefined().optional() }, undefined, undefined],
    [
      "an enum's value misspelt",
      { level: z.enum(["LEVEL_LOW", "LEVEL_HIHG"]) },
      "level: kinds.v1.All.Level has no value LEVEL_HIHG; did you mean LEVEL_HIGH?",
      undefined,
    ],
    [
      "an enum of other values",
      { level: z.enum(["low", "high"]) },
      "level: kinds.v1.All.Level has no value low, high",
      "level: accepts no value of kinds.v1.All.Level",
    ],
    [
      "an enum by number: it may be sent, and never comes",
      { level: z.literal([1, 2]) },
      undefined,
      "level: is number here, and string",
    ],
    [
      "an enum by an unknown number",
      { level: z.literal(7) },
      "level: kinds.v1.All.Level has no value 7",
      "level: is number",
    ],
    ["an enum as any text", { level: z.string() }, undefined, undefined],
    ["a choice of which one fits", { ratio: z.union([z.string(), z.number()]) }, undefined, undefined],
    [
      "a choice of which none fits",
      { ratio: z.union([z.string(), z.boolean()]) },
      "ratio: is boolean or string here",
      "ratio: is boolean or string",
    ],
    ["anything", { ratio: z.unknown(), inner: z.any(), packed: z.custom() }, undefined, undefined],
    ["a oneof by its own name", { choice: z.enum(["someText"]).optional() }, undefined, undefined],
  ] as const)("%s", (_title, shape, asInput, asOutput) => {
    const schema = z.object(shape);
    expect(texts(inputSchemaFaults(schema, ALL))).toEqual(
      asInput === undefined ? [] : [expect.stringContaining(asInput)],
    );
    expect(texts(outputSchemaFaults(schema, ALL))).toEqual(
      asOutput === undefined ? [] : [expect.stringContaining(asOutput)],
    );
  });
});

test("an optional field of an answer may be a future one, unless it looks like a typing error", () => {
  const soon = z.object({ soon: z.string().optional(), big: z.string(), bigg: z.string().optional() });
  expect(texts(outputSchemaFaults(soon, ALL))).toEqual([]);
  expect(texts(outputSchemaNotes(soon, ALL))).toEqual(
    expect.arrayContaining([expect.stringContaining("output.soon: kinds.v1.All has no such field")]),
  );
  expect(texts(outputSchemaFaults(z.object({ bigg: z.string().optional() }), ALL))).toHaveLength(1);
  expect(texts(inputSchemaFaults(soon, ALL))).toHaveLength(2);
});

test("an Any needs types that are declared", () => {
  const schema = z.object({ detail: z.object({ "@type": z.string(), note: z.string() }) });
  expect(texts(inputSchemaFaults(schema, CLOSED))).toEqual([
    expect.stringContaining("input.detail: is a google.protobuf.Any"),
  ]);
  expect(texts(outputSchemaFaults(schema, CLOSED))).toEqual([
    expect.stringContaining("output.detail: is a google.protobuf.Any"),
  ]);
  expect(texts(outputSchemaFaults(z.object({ detail: z.object({ "@type": z.string() }) }), CLOSED))).toEqual([]);
  expect(texts(outputSchemaFaults(schema, ALL))).toEqual([]);
});

describe("fields of an answer that the output schema lacks", () => {
  const { responseShape: OLD } = kindsMethod("Legacy");
  const all = { id: z.string(), count: z.int().optional(), loose: z.array(z.int()), packed: z.array(z.int()) };
  const state = z.enum(["STATE_ON", "STATE_OFF"]).optional();

  test.each([
    [
      "a field that is left out",
      z.object(all),
      [],
      ["output.state: the answer has it, and the output schema leaves it out"],
    ],
    ["nothing", z.object({ ...all, state }), [], []],
    ["nothing, of a schema that takes all", z.unknown(), [], []],
    ["nothing, of an open schema", z.looseObject({}), [], []],
    [
      "an enum's value",
      z.object({ ...all, state: z.literal("STATE_ON") }),
      [],
      ["output.state: an answer with STATE_OFF would be withheld: the output schema does not accept it"],
    ],
    [
      "a field that a strict schema sometimes refuses",
      z.strictObject(all),
      [],
      ["output.state: an answer that has it would be withheld: the output schema is strict and lacks it"],
    ],
    [
      "a field that a strict schema always refuses",
      z.strictObject({ ...all, state }).omit({ packed: true }),
      ["output.packed: every answer has it"],
      [],
    ],
  ] as const)("%s", (_title, schema, faults, notes) => {
    expect(texts(outputSchemaFaults(schema, OLD))).toEqual(faults.map((text) => expect.stringContaining(text)));
    expect(texts(outputSchemaNotes(schema, OLD))).toEqual([...notes]);
  });

  test("neither an enum's value for an unset field, nor another name of a value", () => {
    const notes = outputSchemaNotes(z.looseObject({ level: z.literal("LEVEL_LOW") }), ALL);
    expect(texts(notes)).toEqual([expect.stringContaining("output.level: an answer with LEVEL_HIGH would be")]);
  });
});

test("a stream is compared as a list", () => {
  const shape = listShape(kindsMethod("Legacy").responseShape);
  expect(
    texts(
      outputSchemaFaults(z.object({ items: z.array(z.object({ idd: z.string() })), truncated: z.string() }), shape),
    ),
  ).toEqual([
    expect.stringContaining("output.items[].idd: kinds.v1.Old has no such field"),
    expect.stringContaining("output.truncated: is string here, and boolean"),
  ]);
});
