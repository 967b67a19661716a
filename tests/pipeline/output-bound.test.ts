import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { z } from "zod";
import { compilePolicy } from "../../src/core/output-policy/output-policy.ts";
import { compileScan } from "../../src/core/output-policy/scan-policy.ts";
import { CUT_MARGIN_BYTES, PartialAnswer, textWithin, textWithinJson } from "../../src/core/partial-answer.ts";
import type { Json, Tool } from "../../src/core/types.ts";
import { DETECTOR } from "../../src/detection/sensitive.ts";
import { defineTool } from "../../src/index.ts";
import { fit, release } from "../../src/pipeline/output-filter.ts";
import { filler } from "../detection/secret-examples.ts";

const BOUND = 2_000;
const RUNS = { seed: 20_261_122, numRuns: 150 };
/** Fewer characters of a secret's beginning give nothing away. */
const TOLD_MAX = 12;

const tool = defineTool({
  name: "cut",
  description: "Answers with text",
  classification: "read",
  permissions: { required: ["cut:read"] },
  input: z.strictObject({}),
  handler: () => ({}) as never,
  output: z.strictObject({ text: z.string() }),
  outputPolicy: { text: "allow" },
  limits: { outputBytesMax: BOUND },
}) as unknown as Tool;

function released(raw: unknown): string {
  const parts = { tool, outputPolicy: compilePolicy(tool.outputPolicy, tool.output), scan: compileScan(tool.scan) };
  const { result, truncated } = release({ ...parts, raw } as never, DETECTOR);
  expect(truncated).toBe(true);
  return (result as { readonly text: string }).text;
}

/** What a handler keeps of a text that is longer than it takes. */
function read(text: string): unknown {
  const kept = textWithin(text, BOUND + CUT_MARGIN_BYTES);
  return kept === text ? { text } : new PartialAnswer({ text: kept }, { field: "text", bytesMax: BOUND });
}

const LINE = "an ordinary line of a log\n";
const SECRETS = [`ghp_${filler(36)}`, `AKIA${filler(16, "A2B3C4D5E6F7")}`, `sk-ant-api03-${filler(80)}`];
const PEM = `-----BEGIN PRIVATE KEY-----\n${`${filler(64)}\n`.repeat(26)}-----END PRIVATE KEY-----`;

describe("half a secret at a cut is not released", () => {
  const secret = fc.constantFrom(...SECRETS, PEM);
  const near = (at: number) => fc.integer({ min: at - PEM.length - 40, max: at + 40 });
  const before = (length: number, filling: string) =>
    filling.repeat(Math.ceil(length / filling.length)).slice(0, length);
  const isSilent = (output: string, one: string) =>
    !output.includes(one === PEM ? filler(TOLD_MAX) : one.slice(0, TOLD_MAX)) && Buffer.byteLength(output) <= BOUND;

  test("at the limit", () => {
    fc.assert(
      fc.property(secret, near(BOUND), (one, at) => {
        const text = `${before(Math.max(0, at), LINE)} ${one} ${LINE.repeat(800)}`;
        return isSilent(released(read(text)), one);
      }),
      RUNS,
    );
  });

  test("where reading ended, though everything before it has shrunk", () => {
    const long = `token: ${filler(400)}\n`;
    fc.assert(
      fc.property(secret, near(BOUND + CUT_MARGIN_BYTES), (one, at) => {
        const output = released(read(`${before(at, long)}\n${one} ${LINE.repeat(100)}`));
        return isSilent(output, one) && output.startsWith("token: [REDACTED]\n");
      }),
      RUNS,
    );
  });

  test("in a complete answer too", () => {
    fc.assert(
      fc.property(secret, near(BOUND), (one, at) => {
        const text = `${before(Math.max(0, at), LINE)} ${one} ${LINE.repeat(900)}`;
        return isSilent(released({ text }), one);
      }),
      RUNS,
    );
  });
});

test("a cut text that no longer fits its schema is too large, not invalid", () => {
  const strict = { ...tool, output: z.strictObject({ text: z.string().endsWith("end") }) } as Tool;
  const parts = { tool: strict, outputPolicy: compilePolicy(tool.outputPolicy, tool.output), scan: compileScan({}) };
  const raw = new PartialAnswer({ text: "short, its colours are gone" }, { field: "text", bytesMax: 5 });
  expect(() => release({ ...parts, raw } as never, DETECTOR)).toThrow(
    expect.objectContaining({ code: "OUTPUT_TOO_LARGE" }),
  );
});

test("an ordinary text is cut at the limit exactly", () => {
  for (const count of [100, 1_000]) {
    const text = LINE.repeat(count);
    const cut = released(read(text));
    expect(text.startsWith(cut)).toBe(true);
    expect(jsonBytes({ text: cut })).toBeOneOf([BOUND - 1, BOUND]);
  }
});

function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

describe("the limit is one of the JSON that is sent", () => {
  const within = (bytesMax: number, given: Partial<Tool>, raw: unknown) => {
    const own = { ...tool, ...given, limits: { ...tool.limits, outputBytesMax: bytesMax } } as Tool;
    const scan = compileScan(own.scan);
    const parts = { tool: own, outputPolicy: compilePolicy(own.outputPolicy, own.output), scan };
    return release({ ...parts, raw } as never, DETECTOR);
  };

  test.each([
    ["quotes", '"'],
    ["tabs", "\t"],
    ["lines", "a\n"],
    ["letters", "é"],
    ["pairs", "😀"],
    ["ordinary characters", "x"],
  ])("%s in a text", (_what, unit) => {
    const { result, truncated } = within(BOUND, {}, { text: unit.repeat(BOUND) });
    expect(truncated).toBe(true);
    expect(jsonBytes(result)).toBeLessThanOrEqual(BOUND);
    expect(jsonBytes(result)).toBeGreaterThan(BOUND - 6);
    const fitting = { text: "x".repeat(BOUND - jsonBytes({ text: "" })) };
    expect(within(BOUND, {}, fitting)).toMatchObject({ result: fitting });
    expect(within(BOUND, {}, fitting).truncated).toBeUndefined();
  });

  test("a mark of redaction that is longer than what it hides, and the mark of a cut, count too", () => {
    const output = z.strictObject({ text: z.string(), truncated: z.boolean().optional() });
    const outputPolicy = { text: "allow", truncated: "allow" } as const;
    const { result, truncated } = within(BOUND, { output, outputPolicy } as never, {
      text: "a@b.co\n".repeat(BOUND / 8),
    });
    expect([truncated, (result as { truncated: boolean }).truncated]).toEqual([true, true]);
    expect(jsonBytes(result)).toBeLessThanOrEqual(BOUND);
  });

  test("any answer is at most as long as its limit, or refused", () => {
    const value = fc.jsonValue({ maxDepth: 4 }) as fc.Arbitrary<Json>;
    fc.assert(
      fc.property(value, fc.integer({ min: 2, max: 300 }), (raw, bytesMax) => {
        const fitted = fit(raw, JSON.stringify(raw), { bytesMax });
        return fitted === undefined || jsonBytes(fitted.value) <= bytesMax;
      }),
      RUNS,
    );
  });
});

test("for any text: the longest prefix whose JSON fits", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 200 }), fc.integer({ min: 2, max: 600 }), (text, bytes) => {
      const cut = textWithinJson(text, bytes);
      const next = [...text.slice(cut.length)][0] ?? "";
      const isLongest = cut === text || jsonBytes(cut + next) > bytes;
      return text.startsWith(cut) && jsonBytes(cut) <= bytes && isLongest;
    }),
    RUNS,
  );
});

describe("a text is cut between characters", () => {
  test.each([
    ["two bytes", "é", 3, "é"],
    ["three bytes", "€", 5, "€"],
    ["a surrogate pair", "😀", 7, "😀"],
    ["room for all", "😀", 8, "😀😀"],
    ["no room", "😀", 3, ""],
    ["less than none", "a", -1, ""],
  ])("%s", (_title, character, bytes, want) => {
    expect(textWithin(character.repeat(9), bytes)).toBe(want);
  });

  test("for any text: the longest prefix that fits", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 200 }), fc.nat(400), (text, bytes) => {
        const cut = textWithin(text, bytes);
        const next = [...text.slice(cut.length)][0] ?? "";
        const isLongest = cut === text || Buffer.byteLength(cut + next) > bytes;
        return text.startsWith(cut) && Buffer.byteLength(cut) <= bytes && isLongest && cut.isWellFormed();
      }),
      RUNS,
    );
  });
});

describe("an answer that fits its limit", () => {
  const json = fc.jsonValue({ maxDepth: 4 }) as fc.Arbitrary<Json>;
  const cutOf = (value: Json, bytes: number) => {
    const fitted = fit(value, JSON.stringify(value), { bytesMax: bytes });
    return fitted && { fitted, cut: fitted.value };
  };

  test("stays unchanged, and a cut answer keeps its shape and its beginning", () => {
    fc.assert(
      fc.property(json, fc.nat(300), (value, bytes) => {
        const outcome = cutOf(value, bytes);
        if (outcome === undefined) return Buffer.byteLength(JSON.stringify(value)) > bytes;
        return outcome.fitted.isCut ? isBeginningOf(outcome.cut, value) : Bun.deepEquals(outcome.cut, value);
      }),
      RUNS,
    );
  });

  test.each<[string, Json, Json | undefined]>([
    ["a list", ["x".repeat(900), "y".repeat(900), "z".repeat(900)], ["x".repeat(900), "y".repeat(900)]],
    ["a text", "x".repeat(3_000), "x".repeat(1_998)],
    ["a list inside", { a: { list: Array.from({ length: 999 }, () => 1) } }, { a: { list: Array(992).fill(1) } }],
    ["an element that is too large by itself", ["x".repeat(3_000)], []],
    ["many names", Object.fromEntries(Array.from({ length: 400 }, (_, at) => [`name ${at}`, at])), undefined],
    [
      "many small texts",
      Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`n${at}`, "x".repeat(90)])),
      undefined,
    ],
    [
      "__proto__",
      JSON.parse(`{"__proto__":"${"x".repeat(3_000)}"}`),
      JSON.parse(`{"__proto__":"${"x".repeat(1_984)}"}`),
    ],
  ])("%s", (_title, value, want) => {
    expect(cutOf(value, BOUND)?.cut as unknown).toEqual(want);
  });
});

function isBeginningOf(cut: Json, whole: Json): boolean {
  if (typeof cut === "string" && typeof whole === "string") return whole.startsWith(cut);
  if (Array.isArray(cut) && Array.isArray(whole)) return Bun.deepEquals(cut, whole.slice(0, cut.length));
  if (typeof cut !== "object" || typeof whole !== "object" || cut === null || whole === null) return cut === whole;
  const keys = Object.keys(whole);
  return (
    Bun.deepEquals(Object.keys(cut), keys) &&
    keys.every((key) => isBeginningOf(Reflect.get(cut, key) as Json, Reflect.get(whole, key) as Json))
  );
}
