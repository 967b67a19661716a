import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { Refusal } from "../../src/core/errors.ts";
import { compilePolicy } from "../../src/core/output-policy/output-policy.ts";
import { compileScan } from "../../src/core/output-policy/scan-policy.ts";
import type { Tool } from "../../src/core/types.ts";
import { DETECTOR } from "../../src/detection/sensitive.ts";
import { defineTool } from "../../src/index.ts";
import { cutAgain, release } from "../../src/pipeline/output-filter.ts";

const PLANTED = "planted-secret-text";

const tool = defineTool({
  name: "answer",
  description: "Answers anything",
  classification: "read",
  permissions: { required: ["answers:read"] },
  input: z.strictObject({}),
  handler: () => ({}) as never,
  output: z.object({ value: z.unknown(), text: z.string().optional() }),
  outputPolicy: { value: "allow" },
  limits: { outputBytesMax: 16_777_216 },
}) as unknown as Tool;

/** What an agent gets of an answer: the code of the refusal, or what was released. */
function outcome(raw: unknown): unknown {
  const parts = { tool, outputPolicy: compilePolicy(tool.outputPolicy, tool.output), scan: compileScan(tool.scan) };
  try {
    return release({ ...parts, raw } as never, DETECTOR).result;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    expect(JSON.stringify([error.message, error.details ?? {}])).not.toContain(PLANTED);
    return error.code;
  }
}

function nested(depth: number, inner: unknown = PLANTED): unknown {
  let value = inner;
  for (let level = 0; level < depth; level += 1) value = level % 2 === 0 ? [value] : { a: value };
  return value;
}

const cyclic: Record<string, unknown> = { text: PLANTED };
cyclic["self"] = [cyclic];

const throwing = {
  get value(): never {
    throw new Error(PLANTED);
  },
};

const revoked = Proxy.revocable({}, {});
revoked.revoke();

class Person {
  readonly name = PLANTED;
}

describe("a value that is not JSON is withheld completely", () => {
  test.each<[string, unknown, string]>([
    ["100,000 levels", nested(100_000), "INVALID_OUTPUT"],
    ["one level too many", nested(64), "INVALID_OUTPUT"],
    ["cyclic", cyclic, "INVALID_OUTPUT"],
    ["a getter that throws", throwing, "INVALID_OUTPUT"],
    ["a proxy that was revoked", revoked.proxy, "INVALID_OUTPUT"],
    [
      "a proxy that throws",
      new Proxy(
        {},
        {
          ownKeys: () => {
            throw new Error(PLANTED);
          },
        },
      ),
      "INVALID_OUTPUT",
    ],
    ["NaN", Number.NaN, "INVALID_OUTPUT"],
    ["infinity", Number.POSITIVE_INFINITY, "INVALID_OUTPUT"],
    ["a bigint", 1n, "INVALID_OUTPUT"],
    ["a symbol", Symbol(PLANTED), "INVALID_OUTPUT"],
    ["a function", () => PLANTED, "INVALID_OUTPUT"],
    ["a map", new Map([["a", PLANTED]]), "INVALID_OUTPUT"],
    ["a set", new Set([PLANTED]), "INVALID_OUTPUT"],
    ["bytes", Buffer.from(PLANTED), "INVALID_OUTPUT"],
    ["a class", new Person(), "INVALID_OUTPUT"],
    ["an object that inherits", Object.assign(Object.create({ a: PLANTED }), { b: 1 }), "INVALID_OUTPUT"],
    ["an error", new Error(PLANTED), "INVALID_OUTPUT"],
    ["a regular expression", /planted/, "INVALID_OUTPUT"],
    ["a boxed text", Object(PLANTED), "INVALID_OUTPUT"],
    ["a date that is none", new Date(Number.NaN), "INVALID_OUTPUT"],
    ["a promise", Promise.resolve(PLANTED), "INVALID_OUTPUT"],
  ])("%s", (_title, value, code) => {
    expect(outcome({ value })).toBe(code);
  });
});

describe("too much is withheld completely", () => {
  const bomb = () => {
    let value: unknown = PLANTED;
    for (let level = 0; level < 40; level += 1) value = [value, value];
    return value;
  };
  const sparse: unknown[] = [PLANTED];
  sparse[4_000_000_000] = 1;
  const endless = new Proxy([PLANTED], { get: (list, key) => (key === "length" ? 2 ** 53 : Reflect.get(list, key)) });

  test.each<[string, () => unknown]>([
    ["half a million keys", () => Object.fromEntries(Array.from({ length: 500_100 }, (_, at) => [`k${at}`, PLANTED]))],
    ["a million values", () => Array.from({ length: 1_000_000 }, () => 1)],
    ["a text over the tool's limit", () => PLANTED.repeat(1_000_000)],
    ["a key over the tool's limit", () => ({ [PLANTED.repeat(1_000_000)]: 1 })],
    ["one value many times over", bomb],
    ["a list of holes", () => sparse],
    ["a list without end", () => endless],
    ["text within the tool's limit that is too much to be looked through", () => "word ".repeat(1_700_000)],
  ])("%s", (_title, make) => {
    expect(outcome({ value: make() })).toBe("OUTPUT_TOO_LARGE");
  });
});

describe("values with a JSON form are released in it", () => {
  test.each<[string, unknown, unknown]>([
    ["minus zero", -0, 0],
    ["a date", new Date(0), "1970-01-01T00:00:00.000Z"],
    ["holes", Object.assign(new Array(3), { 0: 1, 2: 2 }), [1, null, 2]],
    ["undefined in lists and objects", { a: undefined, b: [undefined] }, { b: [null] }],
    ["symbols as keys", { [Symbol("a")]: PLANTED, b: 1 }, { b: 1 }],
    ["what is not enumerable", Object.defineProperty({ b: 1 }, "a", { value: PLANTED, enumerable: false }), { b: 1 }],
    ["an object without prototype", Object.assign(Object.create(null), { b: 1 }), { b: 1 }],
    ["the last level", nested(63, 1), nested(63, 1)],
  ])("%s", (_title, value, want) => {
    expect(outcome({ value })).toEqual(want === 0 ? { value: 0 } : { value: want });
    expect(JSON.stringify(outcome({ value }))).not.toContain(PLANTED);
  });

  test("toJSON is not called", () => {
    expect(outcome({ value: { toJSON: () => PLANTED, b: 1 } })).toBe("INVALID_OUTPUT");
    const hidden = Object.defineProperty({ b: 1 }, "toJSON", { value: () => PLANTED, enumerable: false });
    expect(outcome({ value: hidden })).toEqual({ value: { b: 1 } });
  });

  test("a getter is called once, and its first value is used", () => {
    let asked = 0;
    const raw = {
      get value(): unknown {
        asked += 1;
        return asked === 1 ? "first" : PLANTED;
      },
    };
    expect([outcome(raw), asked]).toEqual([{ value: "first" }, 1]);
  });

  test("a prototype is an ordinary key, and is not followed", () => {
    const raw = { value: JSON.parse(`{"__proto__":{"polluted":"${PLANTED}"},"b":1}`) };
    expect(outcome(raw)).toEqual({ value: { b: 1 } });
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });
});

describe("a value that does not fit the schema is named for the operator, without its content", () => {
  const row = z.strictObject({ state: z.enum(["ON", "OFF"]), count: z.number().max(9), email: z.email().optional() });
  const listing = defineTool({
    name: "listing",
    description: "Lists rows",
    classification: "read",
    permissions: { required: ["rows:read"] },
    input: z.strictObject({}),
    handler: () => ({}) as never,
    output: z.object({ rows: z.array(row), byName: z.record(z.string(), z.object({ size: z.number() })) }),
    outputPolicy: { "rows[].count": "allow", "byName.*.size": "allow" },
  }) as unknown as Tool;

  test.each([
    [{ rows: PLANTED, byName: {} }, "rows: expected array, got string"],
    [{ rows: [{ state: "ON" }], byName: {} }, "rows[].count: expected number, got nothing"],
    [{ rows: [{ state: PLANTED, count: 1 }], byName: {} }, 'rows[].state: expected one of "ON", "OFF", got string'],
    [{ rows: [{ state: "ON", count: 4711 }], byName: {} }, "rows[].count: expected number of at most 9, got number"],
    [
      { rows: [{ state: "ON", count: 1, email: PLANTED }], byName: {} },
      "rows[].email: expected the format email, got string",
    ],
    [{ rows: [{ state: "ON", count: 1, [PLANTED]: 1 }], byName: {} }, "rows[]: expected no other keys, got 1 more"],
    [{ rows: [], byName: { [PLANTED]: { size: PLANTED } } }, "byName.*.size: expected number, got string"],
    [{ rows: [], byName: { [PLANTED]: null } }, "byName.*: expected object, got null"],
    [[PLANTED], "(answer): expected object, got array"],
  ])("%#", (raw, says) => {
    const outputPolicy = compilePolicy(listing.outputPolicy, listing.output);
    try {
      release({ tool: listing, outputPolicy, scan: compileScan(listing.scan), raw } as never, DETECTOR);
      expect.unreachable();
    } catch (error) {
      const { code, message, details, cause } = error as Refusal;
      expect([code, details]).toEqual(["INVALID_OUTPUT", undefined]);
      expect(message).toBe("The target's answer does not have the declared shape and was withheld.");
      expect((cause as Error).message).toBe(`output schema of listing: ${says}`);
    }
  });
});

describe("an answer that was released before is cut to the caller's bound", () => {
  const kept = (result: unknown) => ({ result: result as never, filteredFields: ["note"], outputHash: "hash" });
  const textTool = (output: z.ZodType, classification: "read" | "write" = "read") =>
    ({ ...tool, output, classification }) as unknown as Tool;
  const long = { text: "x".repeat(100_000) };

  test("texts are cut, and the answer says so", () => {
    const cut = cutAgain(
      textTool(z.object({ text: z.string(), truncated: z.boolean().optional() })),
      kept(long),
      10_000,
    );
    expect(JSON.stringify(cut.result).length).toBeLessThanOrEqual(10_100);
    expect(cut).toMatchObject({
      result: { truncated: true },
      filteredFields: ["note"],
      truncated: true,
      outputHash: "hash",
    });
  });

  test("an answer within the bound stays as it is, also when it was cut before", () => {
    const small = { ...kept({ text: "x" }), truncated: true as const };
    expect(cutAgain(tool, small, 10_000)).toBe(small);
  });

  test("a filtered answer, which does not fit its schema, is cut", () => {
    const { result } = cutAgain(textTool(z.object({ text: z.string(), hidden: z.string() })), kept(long), 10_000);
    expect(JSON.stringify(result).length).toBeLessThan(10_100);
  });

  const whole = z.object({ text: z.string().length(100_000) });

  test("an answer that does not fit its schema after the cut is refused for a read and withheld for a change", () => {
    expect(() => cutAgain(textTool(whole), kept(long), 10_000)).toThrow("over the tool's limit");
    expect(cutAgain(textTool(whole, "write"), kept(long), 10_000)).toEqual({
      ...{ result: null, filteredFields: ["*"], truncated: true, outputHash: "hash" },
    });
  });
});
