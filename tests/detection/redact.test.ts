import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Json } from "../../src/core/types.ts";
import { REDACTION_BOUNDS, redact, TooLarge } from "../../src/detection/redact.ts";
import { type RedactionPath, ValuePosition } from "../../src/detection/value-position.ts";
import { filler } from "./secret-examples.ts";

const ROWS: readonly (readonly [title: string, given: Json, want: Json])[] = [
  ["a field whose name says secret", { password: "correct horse", user: "x" }, { password: "[REDACTED]", user: "x" }],
  ["a blank password", { Psw: "   ", password: "", secret: "\n" }, { Psw: "   ", password: "", secret: "\n" }],
  ["in a list under its name", { apiKey: [`${filler(20)}`] }, { apiKey: ["[REDACTED]"] }],
  ["name and value", [{ name: "DB_PASSWORD", value: "letmein" }], [{ name: "DB_PASSWORD", value: "[REDACTED]" }]],
  [
    "a date by its field",
    { dateOfBirth: "1985-03-12", createdAt: "1985-03-12" },
    { dateOfBirth: "[REDACTED:DATE_OF_BIRTH]", createdAt: "1985-03-12" },
  ],
  [
    "a telephone number by its field",
    { phoneNumber: "4155552671", orderNumber: "4155552671" },
    { phoneNumber: "[REDACTED:PHONE]", orderNumber: "4155552671" },
  ],
  ["a number", { pan: 4111111111111111, at: 1763775801123 }, { pan: "[REDACTED:CARD]", at: 1763775801123 }],
  ["a social security number that is a number", { ssn: 123456789 }, { ssn: "[REDACTED:US_SSN]" }],
  ["keys", { "john@example.com": 1, "jane@example.com": 2 }, { "[REDACTED:EMAIL]": 1, "[REDACTED:EMAIL]#2": 2 }],
  ["JSON inside a string", { body: '{"email":"a.b@example.com"}' }, { body: '{"email":"[REDACTED:EMAIL]"}' }],
  ["nothing", { a: [1, "x", null, true] }, { a: [1, "x", null, true] }],
];

test.each(ROWS)("%s", (_title, given, want) => {
  expect(redact(given, { level: "balanced" }).value).toEqual(want);
});

test("a value without findings is the very same value", () => {
  const value = { a: { b: ["x"] }, c: [{ mail: "a@example.com" }] };
  const { value: seen, findings } = redact(value, { level: "balanced" });
  expect((seen as typeof value).a).toBe(value.a);
  expect(findings.map(({ path, rule }) => [path, rule])).toEqual([["c[].mail", "EMAIL"]]);
});

test("by field", () => {
  const { value } = redact(
    { a: "x@example.com", b: "x@example.com" },
    { level: ([first]) => (first === "a" ? "off" : "balanced") },
  );
  expect(value).toEqual({ a: "x@example.com", b: "[REDACTED:EMAIL]" });
});

test("a key named like the step into an array is not that step", () => {
  const seen: (readonly string[])[] = [];
  const value = { a: { "[]": "x@example.com" }, b: ["x@example.com"] };
  const { value: hidden, findings } = redact(value, {
    level: (path) => {
      seen.push(path);
      return path[1] === "[]" ? "off" : "balanced";
    },
  });
  expect(hidden).toEqual({ a: { "[]": "[REDACTED:EMAIL]" }, b: ["x@example.com"] });
  expect(findings.map(({ path }) => path)).toEqual(["a.[]"]);
  expect(seen).toContainEqual(["a", '"[]"']);
});

test("invisible characters are removed for agents", () => {
  expect(redact({ "a\u200b": "b\u200bc" }, { level: "balanced", clean: true }).value).toEqual({ a: "bc" });
});

test("a key named like a prototype stays a key", () => {
  const value = JSON.parse('{"__proto__": {"mail": "x@example.com"}}') as Json;
  const seen = redact(value, { level: "balanced" }).value;
  expect(JSON.stringify(seen)).toBe('{"__proto__":{"mail":"[REDACTED:EMAIL]"}}');
  expect(Object.getPrototypeOf(seen)).toBe(Object.prototype);
});

const nested = (depth: number): Json => (depth === 0 ? "x" : [nested(depth - 1)]);

test.each([
  ["depthMax", nested(REDACTION_BOUNDS.depthMax + 1)],
  ["nodesMax", new Array<Json>(REDACTION_BOUNDS.nodesMax).fill(1)],
  ["charsMax", ["x".repeat(REDACTION_BOUNDS.charsMax + 1)]],
] as const)("over %s nothing is released", (bound, value) => {
  let thrown: unknown;
  try {
    redact(value, { level: "balanced" });
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(TooLarge);
  expect((thrown as TooLarge).bound).toBe(bound);
});

test("any tree: shapes stay, and hidden text is not found again", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const { value: seen } = redact(value as Json, { level: "strict" });
      expect(Array.isArray(seen)).toBe(Array.isArray(value));
      expect(redact(seen, { level: "strict" }).value).toEqual(seen);
    }),
    { numRuns: 300, seed: 41 },
  );
});

test("a key that needed no cleaning is cleaned in the next value", () => {
  const fields = { "not\u200bvisible": { "here\u202e": 1 } };
  expect(redact(fields, { level: "secrets" }).value).toEqual(fields);
  expect(redact(fields, { level: "secrets", clean: true }).value).toEqual({ notvisible: { here: 1 } });
});

test("keys seen in one value do not affect the next one", () => {
  const hidden = { "john@example.com": "x", note: "y" };
  for (const _ of [1, 2]) {
    expect(redact({ rows: [hidden, { note: "mail john@example.com" }] }, { level: "balanced" })).toMatchObject({
      value: { rows: [{ "[REDACTED:EMAIL]": "x", note: "y" }, { note: "mail [REDACTED:EMAIL]" }] },
      findings: [{ path: "rows[].*" }, { path: "rows[].note" }],
    });
  }
});

test("more keys than the cache holds are scanned all the same", () => {
  const many = Object.fromEntries(
    Array.from({ length: 2_000 }, (_, at) => [`field${at}`, { below: "password=hunter2222" }]),
  );
  for (const _ of [1, 2]) expect(redact({ many }, { level: "secrets" }).findings).toHaveLength(2_000);
});

/** Levels as in a policy: one for some fields, another for the same field inside a list. */
function levelsAnew() {
  return (path: RedactionPath) => {
    if (path.includes("note")) return "strict";
    if (path.includes("raw")) return "off";
    return path.includes("[]") ? "balanced" : "secrets";
  };
}

const FIELDS = ["note", "raw", "rows", "[]", "name", "value", "phone", "password", "kty", "d", "__proto__", "x\u200by"];
const TEXTS = [
  "john@example.com",
  "+1 415-555-2671",
  "password=hunter2222",
  "hello",
  "a\u200bb",
  "--token",
  "192.168.0.1",
];

const { tree } = fc.letrec<{ tree: Json }>((tie) => ({
  tree: fc.oneof(
    { depthSize: "small" },
    fc.constantFrom<Json>(...TEXTS, 4111111111111111, 4155552671, null),
    fc.array(tie("tree"), { maxLength: 3 }),
    fc
      .uniqueArray(fc.tuple(fc.constantFrom(...FIELDS, ...TEXTS), tie("tree")), {
        maxLength: 4,
        selector: ([key]) => key,
      })
      .map((entries) => Object.fromEntries(entries)),
  ),
}));

test("the cache between values changes no result", () => {
  const levels = levelsAnew();
  fc.assert(
    fc.property(tree, fc.boolean(), (value, clean) => {
      expect(redact(value, { level: levels, clean })).toEqual(redact(value, { level: levelsAnew(), clean }));
    }),
    { numRuns: 1_000, seed: 41 },
  );
});

test("keys that are data, always new, leave room for recurring ones", () => {
  const levels = levelsAnew();
  for (let at = 0; at < 10_000; at += 1) redact({ users: { [`user${at}`]: 1 }, [`top${at}`]: 1 }, { level: levels });
  for (const _ of [1, 2]) redact({ late: { field: "x" } }, { level: levels });
  expect(ValuePosition.rootOf(levels).cachedBelow("late")?.cachedBelow("field")?.isCached).toBe(true);
});

test("a long key is not cached, at any level", () => {
  for (const level of ["off", "secrets"] as const) {
    const levels = () => level;
    redact({ ["k ".repeat(40)]: 1, short: 1 }, { level: levels });
    expect(ValuePosition.rootOf(levels).cachedBelow("k ".repeat(40))).toBeUndefined();
    expect(ValuePosition.rootOf(levels).cachedBelow("short")?.isCached).toBe(true);
  }
});

describe("a name with invisible characters is read as the visible name", () => {
  test.each<readonly [Json, Json]>([
    [{ "pass\u200bword": "correct horse" }, { password: "[REDACTED]" }],
    [{ "pass\u009b31mword": "correct horse" }, { password: "[REDACTED]" }],
    [{ [`pass${"\u200b".repeat(200)}word`]: "correct horse" }, { password: "[REDACTED]" }],
    [{ ｐassword: "correct horse" }, { ｐassword: "[REDACTED]" }],
    [{ "dateOf\u00adBirth": "1985-03-12" }, { dateOfBirth: "[REDACTED:DATE_OF_BIRTH]" }],
    [
      { name: "DB_PASS\u200bWORD", value: "correct horse" },
      { name: "DB_PASSWORD", value: "[REDACTED]" },
    ],
    [
      { "na\u200bme": "DB_PASSWORD", "val\u200bue": "correct horse" },
      { name: "DB_PASSWORD", value: "[REDACTED]" },
    ],
    [
      { "k\u200bty": "RSA", "d\u200b": "abcdefabcdef" },
      { kty: "RSA", d: "[REDACTED]" },
    ],
    [
      ["\u200b--pass\u200bword", "correct horse"],
      ["--password", "[REDACTED]"],
    ],
    [
      { "no\u200bte": "correct horse", name: "note", value: "1" },
      { note: "correct horse", name: "note", value: "1" },
    ],
  ])("%j", (given, want) => expect(redact(given, { level: "balanced", clean: true }).value).toEqual(want));
});

test("a path is reported in part when a key is long", () => {
  const key = "k".repeat(5_000);
  const { value, findings } = redact(
    { [key]: { a: "joe@example.com", b: ["joe@example.com"] } },
    { level: "balanced" },
  );
  expect(value).toEqual({ [key]: { a: "[REDACTED:EMAIL]", b: ["[REDACTED:EMAIL]"] } });
  expect(findings.map(({ path }) => path)).toEqual([`${"k".repeat(511)}…`, `${"k".repeat(511)}…`]);
});

test("values with names next to them may be nested", () => {
  const inner = { name: "DB_PASSWORD", value: "correct horse" };
  const given = { aName: "API_TOKEN", aValue: inner, name: "password", value: [inner, "correct horse"], bvalue: "x" };
  const { value } = redact(given, { level: "balanced" });
  const hidden = { name: "DB_PASSWORD", value: "[REDACTED]" };
  expect(value).toEqual({ ...given, aValue: hidden, value: [hidden, "[REDACTED]"] });
});

test("a name may take thousands of characters to write", () => {
  const name = `pass${"\u200b".repeat(2_000)}word`;
  const given = { name, value: "correct horse", Value: "correct horse", note: "correct horse" };
  const hidden = { value: "[REDACTED]", Value: "[REDACTED]" };
  expect(redact(given, { level: "balanced" }).value).toEqual({ ...given, ...hidden });
});

test("sensitive text is found wherever invisible characters are inserted", () => {
  const unseen = fc.constantFrom(
    "\u200b",
    "\u{e0041}",
    "\ufe0f",
    "\u00ad",
    "\u202e",
    "\0",
    "\u001b[31m",
    "\u009b31m",
    "\u001b]0;x\u0007",
  );
  const sensitive = fc.constantFrom(
    ["", "anna.meier@example.com"],
    ["password=", "hunter2secret"],
    ["", "4111 1111 1111 1111"],
  );
  const inserted = fc.tuple(
    fc.nat(),
    fc.array(unseen, { minLength: 1, maxLength: 3 }).map((all) => all.join("")),
  );
  fc.assert(
    fc.property(
      sensitive,
      fc.array(inserted, { minLength: 1, maxLength: 3 }),
      ([before = "", hidden = ""], insertions) => {
        const whole = before + hidden;
        const gaps = Array.from({ length: whole.length + 1 }, (_, at) =>
          insertions.flatMap(([gap, unseen]) => (gap % (whole.length + 1) === at ? [unseen] : [])).join(""),
        );
        const text = gaps.map((gap, at) => gap + whole.charAt(at)).join("");
        const { value, findings } = redact({ text }, { level: "balanced", clean: true });
        expect(JSON.stringify(value)).not.toContain(hidden);
        expect(findings).not.toBeEmpty();
      },
    ),
    { numRuns: 1_000, seed: 41 },
  );
});
