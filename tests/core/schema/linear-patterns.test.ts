import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { ManifestError, Refusal } from "../../../src/core/errors.ts";
import { compilePolicy } from "../../../src/core/output-policy/output-policy.ts";
import { boundPatterns } from "../../../src/core/schema/linear-patterns.ts";
import type { Tool } from "../../../src/core/types.ts";
import { defineTool } from "../../../src/index.ts";
import { parseInput, parseOutput } from "../../../src/pipeline/schema-validator.ts";

/** A text for which this runtime's own matcher takes practically forever. */
const HOSTILE = `${"a".repeat(5_000)}!`;

function tool(schema: z.ZodType): Tool {
  return defineTool({
    name: "look_up",
    description: "Looks something up",
    classification: "read",
    permissions: { required: ["things:read"] },
    input: z.strictObject({ value: schema }),
    handler: () => ({ value: null }) as never,
    output: z.strictObject({ value: schema }),
    outputPolicy: { "*": "redact" },
  } as never) as unknown as Tool;
}

function codeOf(work: () => unknown): unknown {
  try {
    work();
    return "accepted";
  } catch (error) {
    return error instanceof Refusal ? error.code : error;
  }
}

const evil = () => z.string().regex(/^(a+)+$/);

describe("a hostile text is refused at once, wherever the pattern is declared", () => {
  test.each<[string, () => z.ZodType, unknown]>([
    ["a string", evil, HOSTILE],
    ["an optional one", () => evil().optional(), HOSTILE],
    ["a list", () => z.array(evil()), [HOSTILE]],
    ["a tuple", () => z.tuple([evil()]), [HOSTILE]],
    ["an object", () => z.object({ name: evil() }), { name: HOSTILE }],
    [
      "an object that makes its schemas anew",
      () =>
        z.object({
          get name() {
            return evil();
          },
        }),
      { name: HOSTILE },
    ],
    ["a record's keys", () => z.record(evil(), z.int()), { [HOSTILE]: 1 }],
    ["a choice", () => z.union([evil(), z.int()]), HOSTILE],
    ["both of two", () => z.intersection(evil(), z.string()), HOSTILE],
    ["later", () => z.lazy(evil), HOSTILE],
    ["after another schema", () => z.string().pipe(evil()), HOSTILE],
    ["a format of one's own", () => z.stringFormat("as", /^(a+)+$/), HOSTILE],
    ["another pattern for a format", () => z.email({ pattern: /^(a+)+$/ }), HOSTILE],
    ["a host's name", () => z.url({ hostname: /^(a+)+$/ }), `https://${HOSTILE.replace("!", "b")}/`],
    ["a template", () => z.templateLiteral(["x", z.string().regex(/(a+)+/)]), `x${HOSTILE}`],
    ["beside a maximum, which does not stop Zod", () => evil().max(10), HOSTILE],
  ])("%s", (_where, schema, value) => {
    const made = tool(schema());
    expect(codeOf(() => parseInput({ tool: made } as never, { value }))).toBe("INVALID_INPUT");
    const policy = compilePolicy(made.outputPolicy, made.output);
    expect(codeOf(() => parseOutput(made, { value } as never, policy))).toBe("INVALID_OUTPUT");
  });
});

test("texts that the patterns accept are accepted, and their descriptions stay", () => {
  const schema = evil().describe("letters");
  const before = z.toJSONSchema(schema);
  const made = tool(schema);
  expect(codeOf(() => parseInput({ tool: made } as never, { value: "aaa" }))).toBe("accepted");
  expect(z.toJSONSchema(schema)).toEqual(before);
  expect(evil().safeParse("b").error?.issues[0]?.message).toBe(schema.safeParse("b").error?.issues[0]?.message ?? "");
});

test("a text that needs too many steps is refused, and the operator learns why", () => {
  const made = tool(z.string().regex(/^(.+)+\1x$/));
  try {
    parseInput({ tool: made } as never, { value: "ab".repeat(40) });
    expect.unreachable();
  } catch (error) {
    expect(error).toBeInstanceOf(Refusal);
    const { code, message, cause } = error as Refusal;
    expect([code, message]).toEqual(["INVALID_INPUT", "The arguments do not match the tool's input schema."]);
    expect(String(cause)).toContain("threw RangeError");
  }
});

test("a pattern that cannot run in linear time does not load, and the field is named", () => {
  const huge = z.object({ list: z.array(z.string().regex(/^(?:a{1,1000}){1,1000}b$/)) });
  try {
    tool(huge);
    expect.unreachable();
  } catch (error) {
    expect(error).toBeInstanceOf(ManifestError);
    const faults = (error as ManifestError).faults;
    expect(faults.map(({ field }) => field)).toEqual(["input.value.list[]", "output.value.list[]"]);
    expect(faults[0]?.message).toContain("is too large: written out it has more than 262144 parts");
  }
  expect(boundPatterns("input", z.string().regex(/^[\q{ab|c}]$/v))[0]?.message).toContain("a class of strings");
});

test("a pattern that two schemas share is checked once", () => {
  const pattern = /^(b+)+$/;
  const [one, two] = [z.string().regex(pattern), z.string().regex(pattern)];
  boundPatterns("input", z.tuple([one, two, one]));
  expect(one._zod.def.checks?.[0]?._zod.def).toHaveProperty("pattern", expect.any(RegExp));
  expect([one, two].map((schema) => schema.safeParse("bbb").success)).toEqual([true, true]);
  expect(pattern.test("bbb")).toBe(true);
});
