import { describe, expect, test } from "bun:test";
import { AmbiguousValue } from "../../src/core/ambiguous-value.ts";
import {
  parseAnswerJson,
  parseStrictJson,
  StrictJsonError,
  type StrictJsonLimits,
} from "../../src/core/strict-json.ts";

const LIMITS: StrictJsonLimits = { depthMax: 32, keysMax: 1000, elementsMax: 1000 };

function read(body: string | Uint8Array, limits: Partial<StrictJsonLimits> = {}): unknown {
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  return parseStrictJson(bytes, { ...LIMITS, ...limits });
}

function errorOf(work: () => unknown): StrictJsonError {
  try {
    work();
  } catch (error) {
    if (error instanceof StrictJsonError) return error;
    throw error;
  }
  throw new Error("accepted");
}

describe("bodies that are accepted, with JSON.parse's value", () => {
  test.each([
    "null",
    "true",
    " false ",
    "0",
    "-0",
    "-1.5e-3",
    "1E+2",
    "9007199254740991",
    "-9007199254740991",
    "90071992547409.91",
    "1e-999",
    '""',
    '"\\u0041\\n\\"\\\\\\/\\b\\f\\r\\t"',
    '"😀\\ud83d\\ude00 é \u2028 \u007f"',
    "[]",
    "{}",
    "[1,[2,[3]]]",
    '\t{\r\n"a" : [ 1 , {"b":null} ] }\n',
    '{"":1," ":2}',
    '{"a":{"x":1},"b":{"x":1}}',
    '[{"x":1},{"x":1}]',
    '{"a":1,"A":2,"\u00e9":3,"e\u0301":4}',
    '{"constructor":1}',
    '{"constructor":{"name":"x"}}',
    '{"constructor":["prototype"]}',
    '{"prototype":{"a":1},"__proto":1,"proto__":2,"__PROTO__":3,"toString":4,"hasOwnProperty":5}',
    '{"text":"__proto__","also":"{\\"__proto__\\":1}"}',
    '{"2":1,"1":2,"x":3}',
    '"\ufeff"',
  ])("%s", (body) => {
    expect(read(body)).toStrictEqual(JSON.parse(body));
  });
});

const REFUSED: readonly (readonly [body: string | Uint8Array, reason: string, place?: string])[] = [
  ["", "it is empty"],
  [" \n", "unexpected end"],
  ["\ufeff{}", "it begins with a byte order mark"],
  ["\ufeff", "it begins with a byte order mark"],
  [Uint8Array.of(0x22, 0xff, 0x22), "it is not valid UTF-8"],
  [Uint8Array.of(0x22, 0xc0, 0xaf, 0x22), "it is not valid UTF-8"],
  [Uint8Array.of(0x22, 0xed, 0xa0, 0x80, 0x22), "it is not valid UTF-8"],
  [Uint8Array.of(0x22, 0xf0, 0x9f, 0x22), "it is not valid UTF-8"],
  [Buffer.from("{}", "utf16le"), "unexpected character"],
  ['{"a":1,"a":1}', "duplicate key", "a"],
  ['{"a":1,"\\u0061":1}', "duplicate key", "a"],
  ['{"args":{"items":[{},{"id":1,"x":2,"id":3}]}}', "duplicate key", "args.items[1].id"],
  ['{"toString":1,"toString":2}', "duplicate key", "toString"],
  ['{"0":1,"0":2}', "duplicate key", '["0"]'],
  ['{"__proto__":1}', "the key __proto__", "__proto__"],
  ['{"a":[{"__proto__":null}]}', "the key __proto__", "a[0].__proto__"],
  ['{"\\u005f_proto__":{"admin":true}}', "the key __proto__", "__proto__"],
  ['{"__pr\\u006Fto__":{}}', "the key __proto__", "__proto__"],
  ['{"constructor":{"prototype":{"admin":true}}}', "a constructor with a prototype", "constructor"],
  ['{"a":{"c\\u006fnstructor":{"x":1,"prototyp\\u0065":1}}}', "a constructor with a prototype", "a.constructor"],
  ["9007199254740992", "an integer beyond 2^53-1"],
  ["-9007199254740993", "an integer beyond 2^53-1"],
  ["9007199254740993.0", "an integer beyond 2^53-1"],
  ["9.007199254740993e15", "an integer beyond 2^53-1"],
  ["1e20", "an integer beyond 2^53-1"],
  ['{"id":123456789012345678901}', "an integer beyond 2^53-1", "id"],
  ["1e999", "a number beyond the range of a double"],
  ["[-1e999]", "a number beyond the range of a double", "[0]"],
  ["9".repeat(400), "a number beyond the range of a double"],
  ['"\\ud800"', "a lone surrogate"],
  ['"\\udc00\\ud800"', "a lone surrogate"],
  ['"\\ud83dx"', "a lone surrogate"],
  ['{"\\ud800":1}', "a lone surrogate"],
  ["{} {}", "unexpected text after the value"],
  ["{}x", "unexpected text after the value"],
  ["null\u0000", "unexpected text after the value"],
  ["1 2", "unexpected text after the value"],
  ["01", "unexpected text after the value"],
  ["0x10", "unexpected text after the value"],
  ...[
    "nul",
    "True",
    "NaN",
    "Infinity",
    "-Infinity",
    "undefined",
    "'a'",
    "+1",
    ".5",
    "/**/1",
    "{a:1}",
    "{'a':1}",
    "[,]",
    "[1,]",
    "[1 2]",
    '{"a":1,}',
    '{"a" 1}',
    '{"a"::1}',
    '{"a":1 "b":2}',
    "{,}",
    "{1:2}",
    "]",
    "}",
    "[1}",
    '{"a":1]',
    "\u00a01",
    "\u20281",
    "-x",
    "1.x",
    "1ex",
  ].map((body) => [body, "unexpected character"] as const),
  ...[
    "-",
    "1.",
    "1e",
    "1e+",
    "[",
    "[1",
    "[1,",
    "{",
    '{"a"',
    '{"a":',
    '{"a":1',
    '{"a":1,',
    '"',
    '"a',
    '"\\',
    '"\\"',
  ].map((body) => [body, "unexpected end"] as const),
  ['"a\nb"', "a raw control character in a string"],
  ['"\u0000"', "a raw control character in a string"],
  ['"\\x41"', "a wrong escape in a string"],
  ['"\\u12"', "a wrong escape in a string"],
  ['"\\u{41}"', "a wrong escape in a string"],
  ['{"\\q":1}', "a wrong escape in a string"],
];

/** Not JSON either, but described before the syntax is read. */
const BEFORE_SYNTAX = ["it is empty", "it begins with a byte order mark"];

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

describe("bodies that are refused", () => {
  const texts = REFUSED.flatMap(([body, reason]) =>
    typeof body === "string" && !BEFORE_SYNTAX.includes(reason) ? [body] : [],
  );
  test.each(texts)("%p: the error says whether it is JSON at all", (body) => {
    expect(errorOf(() => read(body)).isSyntax).toBe(!isJson(body));
  });

  test.each(['{"a b\\ud800":1}', "[[[]]]", "[1,2,3]"])("%p: JSON beyond the limits is not a wrong syntax", (body) => {
    expect(errorOf(() => read(body, { depthMax: 2, elementsMax: 2 })).isSyntax).toBe(false);
  });

  test.each(REFUSED.map(([body, reason, place]) => [body, reason, place ?? null] as const))(
    "%p: %s",
    (body, reason, place) => {
      const error = errorOf(() => read(body));
      expect([error.reason, error.path]).toEqual([reason, place ?? error.path]);
    },
  );

  test("the message names the position and no value", () => {
    const error = errorOf(() => read('{"args":{"token":"s3cret","n":1e999}}'));
    expect(error.message).toBe(
      "the body is not acceptable JSON: a number beyond the range of a double at position 30 (in args.n)",
    );
  });

  test.each([
    ['{"a\\u202eb\\n":{"x":1,"x":2}}', '["a\\u202eb\\n"].x'],
    [`{"${"k".repeat(500)}":[1e999]}`, `["${"k".repeat(118)}...`],
    [`{"a":${'{"b":'.repeat(30)}1e999${"}".repeat(31)}`, `a${".b".repeat(30)}`],
    ['[[1],[2,{"a":1}],1e999]', "[2]"],
    ['{"a":[1],"b":{"c":2},"d":1e999}', "d"],
  ])("the path of %p is escaped and limited", (body, path) => {
    expect(errorOf(() => read(body)).path).toBe(path);
  });
});

describe("limits", () => {
  const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;
  const keys = (count: number) =>
    JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, 0])));
  const rows: readonly (readonly [string, string, string, Partial<StrictJsonLimits>])[] = [
    ["depth", nested(4), nested(5), { depthMax: 4 }],
    ["depth by objects", '{"a":{"a":1}}', '{"a":{"a":{}}}', { depthMax: 2 }],
    ["depth is that of the deepest branch", "[[[]],[[]]]", "[[[]],[[[]]]]", { depthMax: 3 }],
    ["keys", keys(8), keys(9), { keysMax: 8 }],
    ["keys in all objects together", '[{"a":1},{"a":1}]', '[{"a":1},{"a":{"b":1}}]', { keysMax: 2 }],
    ["elements", "[1,2,3]", "[1,2,3,4]", { elementsMax: 3 }],
    ["elements in all arrays together", "[[1],[]]", "[[1],[2]]", { elementsMax: 3 }],
  ];
  test.each(rows.map((row) => [...row] as const))("%s", (_title, within, over, limits) => {
    expect(read(within, limits)).toStrictEqual(JSON.parse(within));
    expect(errorOf(() => read(over, limits)).reason).toMatch(/deeper than|too many/);
  });

  test("no limit on depth can exhaust the stack", () => {
    expect(errorOf(() => read(nested(1_000_000), { depthMax: Number.MAX_SAFE_INTEGER })).reason).toBe(
      "deeper than 512 levels",
    );
    expect(read(nested(512), { depthMax: 512 })).toStrictEqual(JSON.parse(nested(512)));
  });
});

test("Object.prototype is unchanged", () => {
  const before = Object.getOwnPropertyNames(Object.prototype);
  for (const body of ['{"__proto__":{"polluted":1}}', '{"constructor":{"prototype":{"polluted":1}}}']) {
    expect(() => read(body)).toThrow(StrictJsonError);
  }
  expect(Object.getOwnPropertyNames(Object.prototype)).toEqual(before);
  expect(Object.hasOwn(read('{"a":1}') as object, "polluted")).toBe(false);
});

describe("the JSON of an answer", () => {
  const problemsIn = (value: unknown, path = ""): readonly string[] => {
    if (AmbiguousValue.is(value)) return [`${path}: ${AmbiguousValue.factsOf(value).problem} ${value}`];
    if (typeof value !== "object" || value === null) return [];
    return Object.entries(value).flatMap(([key, inner]) => problemsIn(inner, `${path}/${key}`));
  };

  test.each([
    ['{"id":9007199254740993,"n":1}', ["/id: an integer beyond 2^53-1 9007199254740993"]],
    ['{"id":-9223372036854775808}', ["/id: an integer beyond 2^53-1 -9223372036854775808"]],
    ['{"id":9007199254740992}', ["/id: an integer beyond 2^53-1 9007199254740992"]],
    ["[1e+21]", ["/0: an integer beyond 2^53-1 1e+21"]],
    ['{"x":1e400}', ["/x: a number beyond the range of a double 1e400"]],
    ['{"a":1,"b":{"c":1,"c":[2]},"a":3}', ["/a: duplicate key (duplicate key)", "/b/c: duplicate key (duplicate key)"]],
    [
      '{"constructor":{"prototype":{}}}',
      ["/constructor: a constructor with a prototype (a constructor with a prototype)"],
    ],
    ['{"id":"9007199254740993","text":"1e+21 constructor","constructor":{"name":"x"}}', []],
    ['{"score":0.12345678901234567,"small":1e-7,"safe":9007199254740991}', []],
    ['{"text":"half \\ud800 of a pair","__proto__":{"x":1}}', []],
    ['{"id":1}\n', []],
  ])("%s", (text, problems) => {
    const value = parseAnswerJson(text, LIMITS);
    expect(problemsIn(value)).toEqual(problems);
    if (problems.length === 0) expect(value).toEqual(JSON.parse(text));
  });

  test.each(["", "{", '{"a":1,}', "\ufeff{}", "[".repeat(100), "'a'"])("%j is not JSON", (text) => {
    expect(errorOf(() => parseAnswerJson(text, LIMITS))).toBeInstanceOf(StrictJsonError);
  });

  test.each(["[", '{"a":'])("levels of %j are bounded, with and without spaces", (open) => {
    const nested = (levels: number): string => `${open.repeat(levels)}1${(open === "[" ? "]" : "}").repeat(levels)}`;
    expect(parseAnswerJson(nested(32), LIMITS)).toEqual(JSON.parse(nested(32)));
    for (const text of [nested(33), ` ${nested(33)}`, nested(60_000)]) {
      expect(errorOf(() => parseAnswerJson(text, LIMITS)).reason).toBe("deeper than 32 levels");
    }
  });

  test("code that looks into an ambiguous value finds nothing", () => {
    const value = parseAnswerJson('{"a":{"admin":false},"a":{"admin":true}}', LIMITS) as { readonly a: object };
    expect(Object.entries(value.a)).toEqual([]);
    expect((value.a as { readonly admin?: unknown }).admin).toBeUndefined();
  });
});
