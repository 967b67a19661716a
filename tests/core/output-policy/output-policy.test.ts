import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { z } from "zod";
import { applyPolicy, compilePolicy, unmatchedPatterns } from "../../../src/core/output-policy/output-policy.ts";
import type { FieldAction, Json, OutputFieldPolicy } from "../../../src/core/types.ts";
import { expectedOf } from "../../support/policy-oracle.ts";

function filter(policy: OutputFieldPolicy, value: Json, schema: z.ZodType = z.unknown()) {
  return applyPolicy(compilePolicy(policy, schema), value);
}

/** A schema that lists the keys of a sample. */
function schemaOf(sample: Json): z.ZodType {
  if (Array.isArray(sample)) return z.array(sample.length === 0 ? z.unknown() : z.union(sample.map(schemaOf)));
  if (typeof sample !== "object" || sample === null) return z.unknown();
  return z.object(Object.fromEntries(Object.entries(sample).map(([key, child]) => [key, schemaOf(child as Json)])));
}

describe("the rule that wins", () => {
  const customer = { customer: { email: "a@b.org", name: "Ann" }, email: "c@d.org" };
  test.each([
    ["nothing named", {}, {}, ["customer", "email"]],
    ["a leaf", { "customer.name": "allow" }, { customer: { name: "Ann" } }, ["customer.email", "email"]],
    [
      "* and a leaf",
      { "*": "allow", "customer.email": "redact" },
      { customer: { name: "Ann" }, email: "c@d.org" },
      ["customer.email"],
    ],
    [
      "*.email reaches every level",
      { "*": "allow", "*.email": "redact" },
      { customer: { name: "Ann" } },
      ["customer.email", "email"],
    ],
    ["a container covers what is below", { customer: "allow" }, { customer: customer.customer }, ["email"]],
    ["container.* does too", { "customer.*": "allow" }, { customer: customer.customer }, ["email"]],
    [
      "the deeper rule",
      { customer: "redact", "customer.name": "allow" },
      { customer: { name: "Ann" } },
      ["customer.email", "email"],
    ],
    [
      "equal and both with *: the stricter",
      { "customer.*": "allow", "*.email": "redact" },
      { customer: { name: "Ann" } },
      ["customer.email", "email"],
    ],
    ["equal, one exact: the exact", { email: "allow", "*.email": "redact" }, { email: "c@d.org" }, ["customer"]],
    [
      "inherited is not exact",
      { customer: "allow", "*.email": "mask" },
      { customer: { email: "*@*.org", name: "Ann" }, email: "*@*.org" },
      ["customer.email", "email"],
    ],
    [
      "more literals beat exact",
      { "*.customer.email": "redact", customer: "allow" },
      { customer: { name: "Ann" } },
      ["customer.email", "email"],
    ],
    [
      "a masked container masks below",
      { customer: "mask" },
      { customer: { email: "*@*.org", name: "A**" } },
      ["customer.email", "customer.name", "email"],
    ],
  ] as const)("%s", (_, policy, result, filteredFields) => {
    expect(filter(policy, customer, schemaOf(customer))).toEqual({ result, filteredFields: [...filteredFields] });
  });
});

describe("containers, arrays and keys", () => {
  test.each([
    [
      "array elements",
      { "items[].id": "allow" },
      { items: [{ id: 1, x: 2 }, { x: 3 }] },
      { items: [{ id: 1 }, {}] },
      ["items[].x"],
    ],
    [
      "removed elements close up",
      { "items[]": "allow", "items[].x": "redact", "*.y": "redact" },
      { items: [1, { y: 1 }, 2] },
      { items: [1, {}, 2] },
      ["items[].y"],
    ],
    ["an empty list stays where a rule leads through", { "items[].id": "allow" }, { items: [] }, { items: [] }, []],
    ["a list of unnamed things goes", { "other[].id": "allow" }, { items: [{ id: 1 }] }, {}, ["items"]],
    ["top-level array", { "[].name": "allow" }, [{ name: "a", n: 1 }], [{ name: "a" }], ["[].n"]],
    ["array of arrays", { "m[][].x": "allow" }, { m: [[{ x: 1, y: 2 }]] }, { m: [[{ x: 1 }]] }, ["m[][].y"]],
    ["a list where a field was promised", { "items.id": "allow" }, { items: [{ id: 1 }] }, { items: [] }, ["items[]"]],
    ["a field where a list was promised", { "items[].id": "allow" }, { items: { id: 1 } }, { items: {} }, ["items.id"]],
    ["an emptied container that only * reached goes", { "*.email": "allow" }, { a: { b: { c: 1 } } }, {}, ["a"]],
    [
      "an emptied container that is allowed stays",
      { a: "allow", "a.b": "redact" },
      { a: { b: 1 } },
      { a: {} },
      ["a.b"],
    ],
    ["null is a scalar", { a: "mask" }, { a: null, b: null }, { a: null }, ["a", "b"]],
    ["an outermost scalar", { "*": "allow" }, "text", null, ["*"]],
    ["an outermost null", {}, null, null, []],
    [
      "a removed sibling does not unlist a kept one's fields",
      { "l[].ok": "allow", "*.deep.id": "allow" },
      { l: [{ deep: { id: 1, s: 1 } }, { deep: { s: 1 } }] },
      { l: [{ deep: { id: 1 } }, {}] },
      ["l[].deep", "l[].deep.s"],
    ],
  ] as const)("%s", (_, policy, value, result, filteredFields) => {
    const filtered = filter(policy, value as Json, schemaOf(value as Json));
    expect(filtered).toEqual({ result: result as Json, filteredFields: [...filteredFields] });
  });

  test("keys that are data never appear in filteredFields", () => {
    const schema = z.strictObject({
      users: z.record(z.string(), z.strictObject({ email: z.string(), id: z.number() })),
    });
    const value = { users: { "ann@corp.example": { email: "x", id: 1 }, email: { email: "y", id: 2 } } };
    expect(filter({ "users.*.id": "allow" }, value, schema)).toEqual({
      result: { users: { "ann@corp.example": { id: 1 }, email: { id: 2 } } },
      filteredFields: ["users.*.email"],
    });
    expect(filter({ "*.nothing": "allow" }, { "4111 1111": 1 }).filteredFields).toEqual(["*"]);
  });

  test("a key that a rule names in a record is shown as data all the same", () => {
    const schema = z.strictObject({ scores: z.record(z.string(), z.number()) });
    expect(filter({ "scores.ann": "redact", "*": "allow" }, { scores: { ann: 1 } }, schema).filteredFields).toEqual([
      "scores.*",
    ]);
  });

  test("an own __proto__ is removed, an own constructor is an ordinary key", () => {
    const value = JSON.parse('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":2}},"a":1}') as Json;
    const { result, filteredFields } = filter({ "*": "allow" }, value);
    expect(JSON.stringify(result)).toBe('{"constructor":{"prototype":{"polluted":2}},"a":1}');
    expect(filteredFields).toEqual(["*"]);
    expect(Object.getPrototypeOf(result)).toBe(Object.prototype);
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
  });

  test("names of Object.prototype match only themselves", () => {
    expect(
      filter({ toString: "allow" } as OutputFieldPolicy, { valueOf: 1, toString: 2 } as unknown as Json).result,
    ).toEqual({ toString: 2 } as unknown as Json);
  });

  test("a value that is not JSON is never released", () => {
    const value = { f: () => 1, s: Symbol("s"), b: 1n, u: undefined, ok: 1 } as unknown as Json;
    expect(filter({ "*": "allow" }, value)).toEqual({ result: { ok: 1 }, filteredFields: ["*"] });
  });

  test("a value that is too deep is stripped", () => {
    const deep = JSON.parse(`${'{"a":'.repeat(5_000)}1${"}".repeat(5_000)}`) as Json;
    const { result } = filter({ "*": "allow" }, deep);
    expect(JSON.stringify(result).length).toBeLessThan(128 * 7);
  });

  test("filteredFields is cut", () => {
    const names = Array.from({ length: 1_500 }, (_, index) => `f${index}`);
    const schema = z.object(Object.fromEntries(names.map((name) => [name, z.string()])));
    const { filteredFields } = filter({}, Object.fromEntries(names.map((name) => [name, "x"])), schema);
    expect(filteredFields).toHaveLength(1_001);
    expect(filteredFields.at(-1)).toBe("…");
  });

  test("numbers and booleans are masked completely", () => {
    expect(filter({ "*": "mask" }, { n: 42, b: true, l: [1, null] }).result).toEqual({
      n: "***",
      b: "***",
      l: ["***", null],
    });
  });
});

test.each(["", "a..b", "a*", "items[0]"])("a malformed pattern %p does not compile", (text) => {
  expect(() => compilePolicy({ [text]: "allow" }, z.unknown())).toThrow(TypeError);
});

test("an unknown action does not compile", () => {
  expect(() => compilePolicy({ a: "toString" } as unknown as OutputFieldPolicy, z.unknown())).toThrow(TypeError);
});

test("patterns that double at every step stop at a limit", () => {
  const names = Array.from({ length: 14 }, (_, index) => `*.k${index}.*.z${index}`);
  const policy = Object.fromEntries(names.map((name) => [name, "allow" as const]));
  expect(() => compilePolicy(policy, z.unknown())).toThrow(RangeError);
});

describe("unmatchedPatterns", () => {
  const order = z.strictObject({ id: z.string(), lines: z.array(z.strictObject({ sku: z.string() })) });
  const node: z.ZodType = z.strictObject({ name: z.string(), next: z.lazy(() => node).nullable() });
  test.each([
    ["plain", order, ["id", "lines", "lines[]", "lines[].sku", "*", "*.sku", "lines.*", "*.lines[].sku"]],
    ["wrapped", order.optional().nullable().readonly(), ["id", "lines[].sku"]],
    ["tuple", z.object({ t: z.tuple([z.object({ a: z.string() }), z.object({ b: z.string() })]) }), ["t[].a", "t[].b"]],
    [
      "discriminated union",
      z.discriminatedUnion("k", [
        z.object({ k: z.literal("a"), x: z.string() }),
        z.object({ k: z.literal("b"), y: z.string() }),
      ]),
      ["x", "y", "k"],
    ],
    ["record", z.record(z.string(), z.object({ a: z.string() })), ["anything", "anything.a", "*.a"]],
    ["recursive", node, ["name", "next.next.next.name", "*.name"]],
    ["any", z.any(), ["what.ever[][].x"]],
    ["loose", z.looseObject({ a: z.string() }), ["b.c"]],
    ["transform", z.object({ a: z.string().transform((x) => ({ x })) }), ["a.x"]],
  ] as const)("%s: all match", (_, schema, patterns) => {
    expect(unmatchedPatterns(Object.fromEntries(patterns.map((text) => [text, "allow" as const])), schema)).toEqual([]);
  });

  test.each([
    ["lines.sku", 'did you mean "lines[].sku"?'],
    ["id[]", 'did you mean "id"?'],
    ["[].id", 'did you mean "id"?'],
    ["lines[].sku[]", 'did you mean "lines[].sku"?'],
    ["nope", "matches no field"],
    ["*.nope", "matches no field"],
    ["id.*", "matches no field"],
    ["lines[][].sku", "matches no field"],
    ["constructor", "matches no field"],
    ["a..b", "empty segment"],
    ["**", "whole segment"],
  ])("%s: %s", (text, message) => {
    expect(unmatchedPatterns({ [text]: "allow" }, order)).toEqual([expect.stringContaining(message)]);
  });

  test("no pattern matches a bare scalar", () => {
    expect(unmatchedPatterns({ "*": "allow" }, z.string())).toHaveLength(1);
  });
});

describe("compared with a plain reading of the rules", () => {
  const key = fc.constantFrom("a", "b", "c", "email", "__proto__", "constructor", "[]", "*");
  const json = fc.letrec<{ value: Json }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 5 },
      fc.string({ maxLength: 5 }),
      fc.integer(),
      fc.constant(null),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.array(fc.tuple(key, tie("value")), { maxLength: 4 }).map((entries) => Object.fromEntries(entries) as Json),
    ),
  })).value;
  const segment = fc.constantFrom("a", "b", "c", "email", "*", "a[]", "b[][]", "constructor");
  const pattern = fc.array(segment, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("."));
  const action = fc.constantFrom<FieldAction>("allow", "mask", "redact");
  const policy = fc.dictionary(
    fc.oneof(
      pattern,
      pattern.map((text) => `[].${text}`),
    ),
    action,
    { maxKeys: 5 },
  );
  const schema = fc.constantFrom<z.ZodType>(
    z.unknown(),
    z.looseObject({ a: z.looseObject({ b: z.array(z.unknown()) }), email: z.string() }),
    z.record(z.string(), z.record(z.string(), z.unknown())),
  );

  test("the result is the same, and neither side is changed", () => {
    fc.assert(
      fc.property(policy, schema, json, (rules, output, value) => {
        const before = JSON.stringify(value);
        const { result } = filter(rules, value, output);
        expect(JSON.stringify(result)).toBe(JSON.stringify(expectedOf(rules, value)));
        expect(JSON.stringify(value)).toBe(before);
        expect(shared(result, containersOf(value))).toBe(false);
      }),
      { numRuns: 2_000 },
    );
  });

  function containersOf(value: Json): ReadonlySet<unknown> {
    if (typeof value !== "object" || value === null) return new Set();
    return new Set([value, ...Object.values(value).flatMap((child: Json) => [...containersOf(child)])]);
  }

  function shared(value: Json, containers: ReadonlySet<unknown>): boolean {
    if (typeof value !== "object" || value === null) return false;
    return containers.has(value) || Object.values(value).some((child: Json) => shared(child, containers));
  }
});
