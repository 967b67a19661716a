import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { canonical, canonicalJson, hmacSha256Hex, NotJsonError, sha256Hex, vouchFor } from "../../src/core/digest.ts";

const limits = { depthMax: 16, bytesMax: 100_000, nodesMax: 10_000 };

describe("RFC 8785", () => {
  test.each([
    [
      "section 3.2.3",
      {
        numbers: [Number("333333333.33333329"), 1e30, 4.5, 2e-3, 0.000000000000000000000000001],
        string: "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"/",
        literals: [null, true, false],
      },
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    ],
    [
      "sorting by UTF-16 units",
      {
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew",
        "1": "One",
        "\ud83d\ude00": "Smile",
        "\u0080": "Control",
        "\u00f6": "o",
      },
      '{"\\r":"Carriage Return","1":"One","\u0080":"Control","ö":"o","€":"Euro Sign","😀":"Smile","\ufb33":"Hebrew"}',
    ],
    [
      "numbers",
      [0, -0, 5e-324, 1.7976931348623157e308, 9007199254740992, 1e21, 999999999999999900000, 1e-7],
      "[0,0,5e-324,1.7976931348623157e+308,9007199254740992,1e+21,999999999999999900000,1e-7]",
    ],
    ["nothing", {}, "{}"],
    ["nested", [[], {}, [{ b: 1, a: [2] }]], '[[],{},[{"a":[2],"b":1}]]'],
  ])("%s", (_, value, text) => {
    expect(canonicalJson(value, limits)).toBe(text);
  });
});

const sparse = [1];
sparse[2] = 3;

test.each([
  ["undefined is dropped from objects", { a: undefined, b: 1 }, '{"b":1}'],
  ["and null in lists", [undefined, 1], "[null,1]"],
  ["holes too", sparse, "[1,null,3]"],
  ["a date is its ISO text", { at: new Date(0) }, '{"at":"1970-01-01T00:00:00.000Z"}'],
  ["no prototype", Object.assign(Object.create(null), { a: 1 }), '{"a":1}'],
  ["an own __proto__ is a key", JSON.parse('{"__proto__":{"a":1}}'), '{"__proto__":{"a":1}}'],
  [
    "symbols and what does not enumerate are no keys",
    Object.defineProperty({ [Symbol("s")]: 1, a: 1 }, "b", { value: 2 }),
    '{"a":1}',
  ],
  ["a lone surrogate is escaped", ["\ud800", "a\udc00"], '["\\ud800","a\\udc00"]'],
  ["toJSON is not called", { toJSON: undefined, a: 1 }, '{"a":1}'],
  [
    "the same object twice is no cycle",
    ((one) => ({ a: one, b: [one, one] }))({ x: 1 }),
    '{"a":{"x":1},"b":[{"x":1},{"x":1}]}',
  ],
])("%s", (_, value, text) => {
  expect(canonicalJson(value, limits)).toBe(text);
});

const cyclic: Record<string, unknown> = { big: Array.from({ length: 100 }, () => 0) };
cyclic["self"] = [{ cyclic }];
const revoked = Proxy.revocable({}, {});
revoked.revoke();
const nested = (depth: number): unknown => JSON.parse("[".repeat(depth) + "]".repeat(depth));

test.each([
  ["a cycle", cyclic, "cyclic", "*[].*"],
  ["depth", nested(17), "depth", "[]".repeat(16)],
  ["a long string", { a: "x".repeat(100_001) }, "size", "*"],
  ["long keys", { ["k".repeat(100_001)]: 1 }, "size", "*"],
  ["bytes, not characters", "€".repeat(40_000), "size", ""],
  ["many values", Array.from({ length: 10_001 }, () => 0), "size", "[]"],
  ["a huge hole", new Array(4_294_967_295), "size", "[]"],
  ["a function", { secretKey: () => 1 }, "type", "*"],
  ["a symbol", [Symbol("s")], "type", "[]"],
  ["a bigint", 1n, "type", ""],
  ["NaN", { a: [Number.NaN] }, "type", "*[]"],
  ["Infinity", Number.POSITIVE_INFINITY, "type", ""],
  ["undefined", undefined, "type", ""],
  ["a Map", new Map([["a", 1]]), "type", ""],
  ["a Set", new Set(), "type", ""],
  ["bytes", new Uint8Array(4), "type", ""],
  ["a Buffer", Buffer.from("x"), "type", ""],
  ["a Promise", Promise.resolve(1), "type", ""],
  ["an Error", new Error("x"), "type", ""],
  ["a RegExp", /x/, "type", ""],
  ["a URL", new URL("http://x.example"), "type", ""],
  ["a boxed string", Object("text"), "type", ""],
  ["a bad date", new Date(Number.NaN), "type", ""],
  [
    "an instance of a class",
    new (class Row {
      id = 1;
    })(),
    "type",
    "",
  ],
  [
    "a throwing getter",
    {
      a: {
        get secret() {
          throw new Error("secret");
        },
      },
    },
    "throws",
    "*.*",
  ],
  [
    "a throwing proxy",
    [
      new Proxy(
        {},
        {
          ownKeys() {
            throw new Error("secret");
          },
        },
      ),
    ],
    "throws",
    "[].*",
  ],
  ["a revoked proxy", { a: revoked.proxy }, "throws", "*"],
] as const)("%s is not JSON", (_, value, reason, path) => {
  const attempt = () => canonicalJson(value, limits);
  expect(attempt).toThrow(NotJsonError);
  expect(attempt).toThrow(expect.objectContaining({ reason, path, message: expect.not.stringContaining("ecret") }));
});

test("output of JSON.parse is unchanged, and key order does not matter", () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
      const text = canonicalJson(value, limits);
      expect(JSON.stringify(JSON.parse(text))).toBe(
        JSON.stringify(JSON.parse(canonicalJson(JSON.parse(text), limits))),
      );
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
      expect(canonicalJson(reversed(value), limits)).toBe(text);
    }),
  );
});

test("any value gives text or a NotJsonError", () => {
  const anything = fc.anything({
    withBigInt: true,
    withDate: true,
    withMap: true,
    withSet: true,
    withNullPrototype: true,
    withObjectString: true,
    withSparseArray: true,
    withTypedArray: true,
    withBoxedValues: true,
  });
  fc.assert(
    fc.property(anything, (value) => {
      try {
        JSON.parse(canonicalJson(value, limits));
      } catch (error) {
        expect(error).toBeInstanceOf(NotJsonError);
      }
    }),
  );
});

function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== "object" || value === null) return value;
  const copy: Record<string, unknown> = {};
  for (const [key, child] of Object.entries(value).reverse()) {
    Object.defineProperty(copy, key, { value: reversed(child), enumerable: true, configurable: true, writable: true });
  }
  return copy;
}

test("text and value follow the plain rule: sorted keys, nothing else", () => {
  /** Slow, and with no way around. */
  const plainRule = (value: unknown): string => {
    if (Array.isArray(value)) return `[${value.map(plainRule).join()}]`;
    if (typeof value !== "object" || value === null) return JSON.stringify(value);
    const fields = Object.keys(value).sort();
    return `{${fields.map((key) => `${JSON.stringify(key)}:${plainRule((value as never)[key])}`).join()}}`;
  };
  const key = fc.oneof(fc.string(), fc.constantFrom("__proto__", "0", "10", "9", "1a", "constructor", "toJSON", "-0"));
  const { value: json } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom(null, true, false, -0, 1e21, "\ud800"),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.string(),
      fc.array(tie("value"), { maxLength: 4 }),
      fc.array(fc.tuple(key, tie("value")), { maxLength: 5 }).map((entries) => Object.fromEntries(entries)),
    ),
  }));
  fc.assert(
    fc.property(json, (value) => {
      const got = canonical(value, limits);
      expect(got.text).toBe(plainRule(value));
      expect(got.value).toStrictEqual(JSON.parse(got.text));
      expect(canonicalJson(got.value, limits)).toBe(got.text);
    }),
    { numRuns: 500 },
  );
});

test("the value is a copy: later changes to the original do not affect it", () => {
  const source = { list: [{ a: 1 }] };
  const { value } = canonical(source, limits);
  source.list.push({ a: 2 });
  expect(value).toEqual({ list: [{ a: 1 }] });
});

test("every property is read once", () => {
  const reads: string[] = [];
  const source = new Proxy(
    { b: 1, a: { c: 2 }, "1": 3 },
    {
      get(target, name, receiver) {
        reads.push(String(name));
        return Reflect.get(target, name, receiver) as unknown;
      },
    },
  );
  expect(canonicalJson(source, limits)).toBe('{"1":3,"a":{"c":2},"b":1}');
  expect(reads).toEqual(["1", "a", "b"]);
});

test("SHA-256 and HMAC-SHA-256 give the published values", () => {
  expect(sha256Hex("abc")).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  expect(sha256Hex(new Uint8Array())).toBe("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  expect(sha256Hex("€")).toBe(sha256Hex(new TextEncoder().encode("€")));
  // RFC 4231, test case 2.
  expect(hmacSha256Hex("Jefe", "what do ya want for nothing?")).toBe(
    "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
  );
});

const ROOMY = { depthMax: 64, bytesMax: 100_000, nodesMax: 500_000 };

test("a tree that its creator vouches for is not copied again, but its text is still limited", () => {
  const tree = { a: ["x"], b: { c: 1 } };
  vouchFor(tree);
  expect(canonical(tree, ROOMY).value).toBe(tree);
  expect(canonical(tree, ROOMY).value).not.toBe(tree);
  vouchFor(tree);
  expect(() => canonical(tree, { ...ROOMY, bytesMax: 8 })).toThrow(
    expect.objectContaining({ reason: "size", path: "" }),
  );
  vouchFor(tree);
  expect(() => canonical(tree, { ...ROOMY, depthMax: 1 })).toThrow(expect.objectContaining({ reason: "depth" }));
});
