import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { Refusal } from "../../src/core/errors.ts";
import { zodFromJson } from "../../src/core/json-schema/zod.ts";
import { compilePolicy } from "../../src/core/output-policy/output-policy.ts";
import { compileScan } from "../../src/core/output-policy/scan-policy.ts";
import { parseAnswerJson } from "../../src/core/strict-json.ts";
import type { OutputFieldPolicy, Tool } from "../../src/core/types.ts";
import { DETECTOR } from "../../src/detection/sensitive.ts";
import { release } from "../../src/pipeline/output-filter.ts";
import { apiTool } from "../targets/http/support.ts";

const LIMITS = { depthMax: 64, keysMax: 10_000, elementsMax: 10_000 } as const;

interface Given {
  readonly output: z.ZodType;
  readonly outputPolicy: OutputFieldPolicy;
}

function released({ output, outputPolicy }: Given, raw: unknown, scan: Tool["scan"] = {}) {
  const tool: Tool = { ...apiTool({ output }), outputPolicy, scan };
  const parts = { tool, outputPolicy: compilePolicy(outputPolicy, output), scan: compileScan(scan) };
  return release({ ...parts, raw } as never, DETECTOR);
}

/** Returns what is released of the JSON that a target sends. */
const resultOf = (given: Given, json: string): unknown => released(given, parseAnswerJson(json, LIMITS)).result;

function refusalOf(given: Given, json: string): Refusal {
  try {
    resultOf(given, json);
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
  throw new Error("released");
}

const ORDER: Given = {
  output: z.object({
    state: z.string(),
    ref: z.string().optional(),
    total: z.number().optional(),
    count: z.int().optional(),
    hidden: z.int().optional(),
    masked: z.number().optional(),
    either: z.union([z.number(), z.string()]).optional(),
    lines: z.array(z.object({ sku: z.string(), weight: z.number().optional(), batch: z.int().optional() })).optional(),
    byName: z.record(z.string(), z.object({ size: z.number() })).optional(),
    any: z.unknown().optional(),
    customer: z.object({ name: z.string(), key: z.int().optional() }).optional(),
  }),
  outputPolicy: {
    state: "allow",
    ref: "allow",
    total: "allow",
    count: "allow",
    masked: "mask",
    either: "allow",
    "lines[].sku": "allow",
    "lines[].weight": "allow",
    "byName.*.size": "allow",
    "any.shown": "allow",
    "customer.name": "allow",
  },
};

describe("what is not released does not withhold the rest", () => {
  test.each([
    ["a 64-bit integer that the schema does not name", '{"state":"open","shard":9007199254740993}', {}],
    ["one that it names as an integer", '{"state":"open","hidden":-9223372036854775808}', {}],
    ["a number without end", '{"state":"open","hidden":1e400}', {}],
    [
      "one inside a list",
      '{"state":"open","lines":[{"sku":"a","batch":9223372036854775807}]}',
      { lines: [{ sku: "a" }] },
    ],
    [
      "one next to a released member",
      '{"state":"open","any":{"shown":1,"id":9223372036854775807}}',
      { any: { shown: 1 } },
    ],
    ["a masked one", '{"state":"open","masked":9223372036854775807}', { masked: "***" }],
    ["a duplicate key", '{"state":"open","hidden":1,"hidden":2}', {}],
    [
      "a duplicate key of tables",
      '{"state":"open","audit":{"by":{"id":1,"id":9007199254740993}},"audit":{"by":{}}}',
      {},
    ],
    ["a key __proto__", '{"state":"open","__proto__":{"state":"closed"}}', {}],
    [
      "a key __proto__ in a table",
      '{"state":"open","customer":{"__proto__":{"name":"x"},"name":"n"}}',
      { customer: { name: "n" } },
    ],
    ["a constructor with a prototype", '{"state":"open","constructor":{"prototype":{"x":1}}}', {}],
    ["half a surrogate pair", '{"state":"open","note":"\\ud800"}', {}],
  ])("%s", (_title, json, more) => {
    expect(resultOf(ORDER, json)).toEqual({ state: "open", ...more });
  });
});

describe("a field that is declared as text releases the digits", () => {
  test.each([
    ["a text", '{"state":"open","ref":9007199254740993}', { ref: "9007199254740993" }],
    ["a text or a number", '{"state":"open","either":-9223372036854775808}', { either: "-9223372036854775808" }],
    ["a text that is there once", '{"state":"open","ref":"9007199254740993"}', { ref: "9007199254740993" }],
    ["a safe number stays one", '{"state":"open","either":9007199254740991}', { either: 9007199254740991 }],
  ])("%s", (_title, json, more) => {
    expect(resultOf(ORDER, json)).toEqual({ state: "open", ...more });
  });

  const wide = (more: object = {}): Given => {
    const id = { type: "integer", format: "int64", ...more };
    const declared = { type: "object", properties: { id, ids: { type: "array", items: id } } };
    const { schema, faults } = zodFromJson("output", declared);
    expect(faults).toEqual([]);
    return { output: schema, outputPolicy: { id: "allow", "ids[]": "allow" } };
  };

  test.each([
    ["a number of 64 bits", {}, '{"id":9223372036854775807}', { id: "9223372036854775807" }],
    ["a negative one", {}, '{"id":-9223372036854775808}', { id: "-9223372036854775808" }],
    ["one with a minimum", { minimum: 1 }, '{"id":9223372036854775807}', { id: "9223372036854775807" }],
    ["one of a list", {}, '{"ids":[1,9007199254740993]}', { ids: [1, "9007199254740993"] }],
    ["a safe number", {}, '{"id":7}', { id: 7 }],
  ])("format: int64: %s", (_title, more, json, want) => {
    expect(resultOf(wide(more), json)).toEqual(want);
  });

  test.each([
    ["a text that is no number", {}, '{"id":"many"}'],
    ["a text that could be a number", {}, '{"id":"7"}'],
    ["a number over the maximum", { maximum: 100 }, '{"id":9223372036854775807}'],
    ["a negative one under the minimum", { minimum: 1 }, '{"id":-9223372036854775808}'],
    ["a fraction with an exponent", {}, '{"id":1e400}'],
  ])("format: int64 refuses %s", (_title, more, json) => {
    expect(refusalOf(wide(more), json).code).toBe("INVALID_OUTPUT");
  });
});

describe("a released value that readers of JSON read differently is refused with its path", () => {
  test.each([
    ['{"state":"open","total":9007199254740993}', "total", "an integer beyond 2^53-1"],
    ['{"state":"open","count":12345678901234567890}', "count", "an integer beyond 2^53-1"],
    ['{"state":"open","total":1e400}', "total", "a number beyond the range of a double"],
    ['{"state":"open","lines":[{"sku":"a","weight":1e30}]}', "lines[].weight", "an integer beyond 2^53-1"],
    ['{"state":"open","byName":{"Ann":{"size":9007199254740993}}}', "byName.*.size", "an integer beyond 2^53-1"],
    ['{"state":"open","any":{"shown":9007199254740993}}', "any.shown", "an integer beyond 2^53-1"],
    ['{"state":"open","state":"closed"}', "state", "duplicate key"],
    ['{"state":"open","customer":{"name":"a"},"customer":{"name":"b"}}', "customer", "duplicate key"],
    ['{"state":"open","customer":{"name":"a","name":"b"}}', "customer.name", "duplicate key"],
  ])("%s", (json, field, problem) => {
    const { code, message, details } = refusalOf(ORDER, json);
    expect({ code, message, details }).toEqual({
      code: "INVALID_OUTPUT",
      message: `The target's answer was withheld: readers of JSON read its field ${field} differently (${problem}).`,
      details: { field },
    });
  });

  test("also where code of the manifest makes another field of it", () => {
    const output = z
      .object({ id: z.number(), more: z.number().optional() })
      .transform(({ id }) => ({ label: `#${id}` }));
    const given = { output, outputPolicy: { label: "allow" } as const };
    expect(resultOf(given, '{"id":7,"other":9007199254740993}')).toEqual({ label: "#7" });
    expect(refusalOf(given, '{"id":9007199254740993}').details).toEqual({ field: "*" });
    expect(
      resultOf(
        {
          output: z.object({ id: z.string() }).transform(({ id }) => ({ label: id })),
          outputPolicy: { label: "allow" },
        },
        '{"id":9007199254740993}',
      ),
    ).toEqual({ label: "9007199254740993" });
  });
});

describe("half a surrogate pair becomes U+FFFD", () => {
  const given: Given = {
    output: z.object({ text: z.string(), table: z.record(z.string(), z.string()).optional() }),
    outputPolicy: { text: "allow", "table.*": "allow" },
  };

  test.each([
    ["the first half", { text: "a\ud83d" }, { text: "a\ufffd" }],
    ["the second half", { text: "\ude00b" }, { text: "\ufffdb" }],
    ["in a key", { text: "", table: { "k\ud800": "v\udfff" } }, { text: "", table: { "k\ufffd": "v\ufffd" } }],
    ["a whole pair stays", { text: "\u{1f600}" }, { text: "\u{1f600}" }],
    ["a text about escapes stays", { text: "\\ud800 \\\\udc00" }, { text: "\\ud800 \\\\udc00" }],
  ])("%s", (_title, raw, want) => {
    for (const level of ["off", "secrets", "balanced", "strict"] as const) {
      expect(released(given, raw, { text: level, table: level }).result).toEqual(want);
    }
  });
});
