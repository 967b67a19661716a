import { describe, expect, test } from "bun:test";
import { isVisible, readJsonSchema } from "../../../src/core/json-schema/schema.ts";

const faultsOf = (json: unknown, side: "input" | "output" = "output") =>
  readJsonSchema(side, json).faults.map(({ field, message }) => `${field}: ${message}`);

const nested = (levels: number): object => (levels === 0 ? { type: "string" } : { items: nested(levels - 1) });

/** Definitions of which each refers to the next one twice: 2 to the power of their number, when written out. */
const doubling = Object.fromEntries(
  Array.from({ length: 30 }, (_, at) => [
    `d${at}`,
    { prefixItems: [{ $ref: `#/$defs/d${at + 1}` }, { $ref: `#/$defs/d${at + 1}` }] },
  ]),
);

describe("does not load", () => {
  test.each([
    ["no schema at all", undefined, "output: must be a schema: a table, true or false"],
    ["a list", [], "output: must be a schema: a table, true or false"],
    [
      "a misspelt keyword",
      { propertis: {} },
      "output.propertis: is not a keyword of JSON Schema; did you mean properties?",
    ],
    ["a keyword that is inherited", { constructor: 1 }, "output.constructor: is not a keyword of JSON Schema"],
    [
      "a misspelt type",
      { type: "strng" },
      "output.type: must be one of null, boolean, integer, number, string, array, object, or a list of them; did you mean string?",
    ],
    ["a misspelt format", { format: "datetime" }, "output.format: is not a known format; did you mean date-time?"],
    ["a keyword of draft 7", { definitions: {} }, "output.definitions: write $defs"],
    ["a keyword of OpenAPI 3.0", { nullable: true }, 'output.nullable: write type: ["…", "null"]'],
    ["positions as a list of items", { items: [{}] }, "output.items: must be a schema: a table, true or false"],
    ["an empty anyOf", { anyOf: [] }, "output.anyOf: must be a list of schemas"],
    ["a negative length", { minLength: -1 }, "output.minLength: must be a whole number of 0 or more"],
    ["a length that is no number", { maxLength: "3" }, "output.maxLength: must be a whole number of 0 or more"],
    ["an infinite minimum", { minimum: Number.NEGATIVE_INFINITY }, "output.minimum: must be a number"],
    ["a divisor of 0", { multipleOf: 0 }, "output.multipleOf: must be a number above 0"],
    [
      "a broken pattern",
      { pattern: "(" },
      "output.pattern: is not a usable pattern: Invalid regular expression: missing )",
    ],
    [
      "a pattern with inline flags",
      { pattern: "(?i)a" },
      expect.stringMatching(/^output\.pattern: is not a usable pattern: /),
    ],
    [
      "a pattern that is too large",
      { pattern: "a{1,300000}" },
      expect.stringMatching(/^output\.pattern: is not a usable pattern: /),
    ],
    [
      "a broken pattern of names",
      { patternProperties: { "[": {} } },
      expect.stringMatching(/^output\.patternProperties\["\["\]: is not a usable/),
    ],
    [
      "a name of every object",
      { properties: { toString: {} } },
      expect.stringMatching(/^output\.properties\.toString: must be a visible name/),
    ],
    [
      "the prototype's name",
      { properties: JSON.parse('{"__proto__": {}}') },
      expect.stringMatching(/^output\.properties\.__proto__: must be a visible name/),
    ],
    [
      "a name with a zero-width character",
      { properties: { "a\u200bb": {} } },
      expect.stringMatching(/must be a visible name/),
    ],
    [
      "a required name that nobody sees",
      { required: ["\u202e"] },
      expect.stringMatching(/^output\.required: must be a list of different names/),
    ],
    [
      "a description that reorders itself",
      { description: "pay \u202ellib" },
      expect.stringMatching(/^output\.description: must be a text/),
    ],
    [
      "a description with invisible instructions",
      { description: "x\u{e0041}\u{e0042}" },
      expect.stringMatching(/^output\.description: must be a text/),
    ],
    [
      "a reference to another file",
      { $ref: "other.json" },
      "output.$ref: must be #/$defs/<name>, in the same schema: nothing else is ever read",
    ],
    [
      "a reference to an address",
      { $ref: "http://169.254.169.254/a" },
      "output.$ref: must be #/$defs/<name>, in the same schema: nothing else is ever read",
    ],
    [
      "a reference to a file of the system",
      { $ref: "file:///etc/passwd" },
      "output.$ref: must be #/$defs/<name>, in the same schema: nothing else is ever read",
    ],
    [
      "a reference to itself",
      { $ref: "#" },
      "output.$ref: must be #/$defs/<name>, in the same schema: nothing else is ever read",
    ],
    [
      "a reference to nothing",
      { $ref: "#/$defs/adress", $defs: { address: {} } },
      "output.$ref: names nothing in $defs; did you mean address?",
    ],
    [
      "a reference to an inherited name",
      { $ref: "#/$defs/constructor", $defs: {} },
      "output.$ref: names nothing in $defs",
    ],
    ["a reference that is no text", { $ref: 1 }, expect.stringMatching(/^output\.\$ref: must be #/)],
    ["definitions below the top", { items: { $defs: {} } }, "output.items.$defs: must be at the top of the schema"],
    [
      "recursion",
      { $ref: "#/$defs/a", $defs: { a: { items: { $ref: "#/$defs/a" } } } },
      "output.$defs.a.items.$ref: must not be recursive: write out its levels, or {} for any JSON",
    ],
    [
      "unevaluatedProperties",
      { unevaluatedProperties: false },
      expect.stringMatching(/^output\.unevaluatedProperties: is not supported/),
    ],
    ["40 levels", nested(40), expect.stringMatching(/is nested more than 32 levels deep$/)],
    [
      "references that double at each level",
      { $ref: "#/$defs/d0", $defs: { ...doubling, d30: {} } },
      expect.stringMatching(/^output(?:\.\S+)?: (?:has more than 5000 parts|is nested)/),
    ],
    [
      "6,000 members",
      { properties: Object.fromEntries(Array.from({ length: 6_000 }, (_, at) => [`m${at}`, {}])) },
      "output: has more than 5000 parts, with its references written out",
    ],
  ])("%s", (_what, json, expected) => {
    expect(faultsOf(json)[0]).toEqual(expected as string);
  });

  test("a schema with many errors: all are reported, up to 50", () => {
    expect(faultsOf({ type: "x", minimum: "1", properties: { a: { b: 1 } } })).toHaveLength(3);
    expect(
      faultsOf({ properties: Object.fromEntries(Array.from({ length: 200 }, (_, at) => [`m${at}`, { x: 1 }])) }),
    ).toHaveLength(50);
  });

  test("an input with an object of which nothing is known, or with a required name that is misspelt", () => {
    const input = {
      type: "object",
      properties: { filter: { type: "object" }, ok: { type: "object", additionalProperties: true }, name: {} },
      required: ["nmae"],
    };
    expect(faultsOf(input, "input")).toEqual([
      "input.properties.filter: has no properties: name them, or write additionalProperties: true for any",
      "input.required: names nmae, which is not in properties; did you mean name?",
    ]);
  });
});

test("loads what ordinary schemas have: annotations, extensions, a dialect, an address, encoded references", () => {
  const schema = {
    ...{
      $schema: "https://json-schema.org/draft/2020-12/schema",
      $id: "https://example.com/a",
      $comment: "x",
      "x-order": 1,
    },
    $defs: { "a/b c": { type: "string" } },
    ...{ title: "T", description: "Two\n\tlines: اَلْعَرَبِيَّةُ, ไทย, 👩‍👩‍👧", deprecated: false, examples: [{ a: 1 }] },
    properties: {
      a: { $ref: "#/$defs/a~1b%20c", description: "x" },
      é: {},
      "with space": {},
      constructors: {},
      format: {},
    },
    pattern: "^[\\w\\-]+\\-$",
  };
  const { schema: read, faults } = readJsonSchema("output", schema);
  expect(faults).toEqual([]);
  expect(read).toMatchObject({ title: "T", properties: { a: { type: "string", description: "x" } } });
  expect(Object.keys(read as object)).not.toContain("$defs");
});

test("closes the objects of an input, and leaves its conditions as they are", () => {
  const condition = { properties: { kind: { const: "a" } } };
  const { schema } = readJsonSchema("input", {
    ...{ type: "object", properties: { kind: {}, one: { type: "object", properties: { x: {} } } } },
    ...{ if: condition, then: { properties: { two: {} } }, not: { properties: { three: {} } } },
  });
  expect(schema).toMatchObject({
    additionalProperties: false,
    properties: { kind: {}, two: {}, one: { additionalProperties: false } },
    if: condition,
    not: { properties: { three: {} } },
  });
  expect(Object.keys((schema as { properties: object }).properties)).toEqual(["kind", "one", "two"]);
});

test("a name shows everything that it says", () => {
  const faults = (name: string) =>
    readJsonSchema("output", { type: "object", properties: { [name]: {} } }).faults.length;
  expect(["a b", "größe", "名前", "@id", "a.b/c", "naïve", "❤"].map(faults)).toEqual([0, 0, 0, 0, 0, 0, 0]);
  const unseen = [" ", "a\u00a0b", "\u3164", "a\ufe0f", "\u2800", "\u115f", "a\u034fb", "a\u3000"];
  expect(unseen.map(faults)).toEqual(unseen.map(() => 1));
});

test("a text is visible unless it hides or reorders something", () => {
  expect(["a\tb\n", "👩‍👩‍👧", "فارسی‌زبان", "x\u200by", "👁️‍🗨️ ❤️", "葛\u{e0100}城"].every(isVisible)).toBe(true);
  const hidden = [
    "\u3164",
    "\uffa0",
    "\u2062",
    "a\u{e0148}\u{e0155}",
    "a\ufe01\ufe02",
    "a\u200b\u200c\u200b",
    "❤\ufe0f\ufe0f",
  ];
  expect(hidden.some(isVisible)).toBe(false);
  expect(["\u0000", "\u001b[2J", "\r", "\u202e", "\u2066", "\u{e0061}", "\ud800", "\u009b"].some(isVisible)).toBe(
    false,
  );
});
