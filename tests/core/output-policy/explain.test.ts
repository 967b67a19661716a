import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { z } from "zod";
import { type Explained, explainPolicy, type ValuePath } from "../../../src/core/output-policy/explain.ts";
import { joinPath } from "../../../src/core/output-policy/field-path.ts";
import { mask } from "../../../src/core/output-policy/masks.ts";
import { applyPolicy, compilePolicy } from "../../../src/core/output-policy/output-policy.ts";
import type { FieldAction, Json, OutputFieldPolicy } from "../../../src/core/types.ts";

const FIELDS_MAX = 10_000;

function explain(policy: OutputFieldPolicy, value: Json, schema: z.ZodType = z.unknown()): Explained {
  return explainPolicy({ policy, compiled: compilePolicy(policy, schema) }, value, FIELDS_MAX);
}

const customer = { customer: { email: "a@b.org", name: "Ann" }, items: [{ id: 1, note: "x" }, 2], none: [] };

describe("the deciding pattern", () => {
  test.each([
    ["the field's own", { "customer.email": "allow" }, "customer.email", "allow", "customer.email"],
    ["the container's", { customer: "mask" }, "customer.email", "mask", "customer"],
    ["the deeper one", { customer: "allow", "customer.email": "redact" }, "customer.email", "redact", "customer.email"],
    ["equal literals: the exact one", { email: "allow", "*.email": "redact" }, "customer.email", "redact", "*.email"],
    [
      "the stricter of two alike",
      { "customer.*": "allow", "*.email": "redact" },
      "customer.email",
      "redact",
      "*.email",
    ],
    ["of lists", { "items[].id": "allow" }, "items[0].id", "allow", "items[].id"],
    ["of what is in the list", { items: "allow" }, "items[1]", "allow", "items"],
    ["none", { "customer.name": "allow" }, "customer.email", undefined, undefined],
    ["an empty list is a field", { none: "allow" }, "none", "allow", "none"],
  ] as const)("%s", (_, policy, path, action, pattern) => {
    const field = explain(policy, customer).fields.find((one) => one.path === path);
    expect({ action: field?.action, pattern: field?.pattern }).toEqual({ action, pattern });
  });
});

test("lists close up, and removed fields do not appear", () => {
  const { fields } = explain({ "l[].a": "allow" }, { l: [{ b: 1 }, { a: 2 }, 3, { a: 4 }], m: 5 });
  expect(fields.map(({ path, at }) => [path, at])).toEqual([
    ["l[0].b", undefined],
    ["l[0]", ["l", 0]],
    ["l[1].a", ["l", 1, "a"]],
    ["l[2]", undefined],
    ["l[3].a", ["l", 2, "a"]],
    ["m", undefined],
  ]);
});

test("a container that stays although all its fields were removed is a field too", () => {
  const { fields } = explain({ "l[].a": "allow", b: "allow", "b.c": "redact" }, { l: [{ x: 1 }], b: { c: 2 } });
  expect(fields.map(({ path, action, at }) => [path, action, at])).toEqual([
    ["l[0].x", undefined, undefined],
    ["l[0]", undefined, ["l", 0]],
    ["b.c", "redact", undefined],
    ["b", "allow", ["b"]],
  ]);
});

test("a bare value becomes null", () => {
  expect(explain({ "*": "allow" }, "text").fields).toEqual([
    { path: "", action: undefined, pattern: undefined, at: undefined },
  ]);
  expect(explain({ "*": "allow" }, {}).fields).toEqual([{ path: "", action: undefined, pattern: undefined, at: [] }]);
});

test("an own __proto__ is stripped whatever the pattern", () => {
  const { fields } = explain({ "*": "allow" }, JSON.parse('{"__proto__":{"a":1},"b":2}') as Json);
  expect(fields.map(({ path, pattern, at }) => [path, pattern, at])).toEqual([
    ["__proto__", undefined, undefined],
    ["b", "*", ["b"]],
  ]);
});

test("a limited number of fields is listed; the rest is counted", () => {
  const value = Array.from({ length: 50 }, (_, index) => ({ index }));
  const compiled = compilePolicy({ "*": "allow" }, z.unknown());
  const { fields, omitted } = explainPolicy({ policy: { "*": "allow" }, compiled }, value, 20);
  expect([fields.length, omitted]).toEqual([20, 30]);
});

test("a value that is too deep is one field, in a container that stays", () => {
  const deep = JSON.parse(`${'{"a":'.repeat(5_000)}1${"}".repeat(5_000)}`) as Json;
  const { fields } = explain({ "*": "allow" }, deep);
  expect(fields.map(({ at }) => at?.length)).toEqual([undefined, 128]);
  const compiled = compilePolicy({ "*": "allow" }, z.unknown());
  expect(JSON.stringify(applyPolicy(compiled, deep).result)).toBe(`${'{"a":'.repeat(128)}{}${"}".repeat(128)}`);
});

describe("compared with the policy", () => {
  const key = fc.constantFrom("a", "b", "c", "email", "__proto__", "constructor", "[]", "*", "0");
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
  const policy = fc.dictionary(
    fc.oneof(
      pattern,
      pattern.map((text) => `[].${text}`),
    ),
    fc.constantFrom<FieldAction>("allow", "mask", "redact"),
    { maxKeys: 5 },
  );

  const resolve = (value: Json, at: ValuePath): Json =>
    at.reduce<Json>((inner, step) => (inner as Record<string | number, Json>)[step] ?? null, value);
  const scalars = (value: Json): number =>
    typeof value === "object" && value !== null
      ? Object.values(value).reduce<number>((sum, inner: Json) => sum + scalars(inner), 0)
      : 1;

  test("each field is at its path, as its action leaves it, and there are no others", () => {
    fc.assert(
      fc.property(policy, json, (rules, value) => {
        const compiled = compilePolicy(rules, z.unknown());
        const { result } = applyPolicy(compiled, value);
        const { fields } = explainPolicy({ policy: rules, compiled }, value, FIELDS_MAX);
        if (typeof value !== "object" || value === null) return;
        const paths = originals(value);
        fc.pre(new Set(fields.map(({ path }) => path)).size === fields.length);
        let released = 0;
        for (const { path, action, at } of fields) {
          const original = paths.get(path);
          if (at === undefined || original === null) continue;
          if (typeof original === "object" || original === undefined) {
            expect(Object.values(resolve(result, at) as object)).toEqual([]);
            continue;
          }
          released += 1;
          expect(resolve(result, at)).toEqual(action === "mask" ? mask(original) : original);
        }
        const nulls = fields.filter(({ path, at }) => at !== undefined && paths.get(path) === null).length;
        expect(released + nulls).toBe(scalars(result));
      }),
      { numRuns: 2_000 },
    );
  });

  test("the deciding pattern gives the same result alone", () => {
    fc.assert(
      fc.property(policy, json, (rules, value) => {
        for (const { path, action, pattern: decided } of explain(rules, value).fields) {
          expect(decided === undefined).toBe(action === undefined);
          if (decided === undefined || action === undefined) continue;
          expect(rules[decided]).toBe(action);
          const alone = explain({ [decided]: action }, value).fields.find((field) => field.path === path);
          // Without the other rule, an emptied container is not a field.
          if (alone !== undefined) expect(alone.action).toBe(action);
        }
      }),
      { numRuns: 1_000 },
    );
  });

  /** By display path. Values that share a path are left out. */
  function originals(value: Json): ReadonlyMap<string, Json> {
    const found = new Map<string, Json | undefined>();
    const visit = (inner: Json, path: string): void => {
      if (typeof inner !== "object" || inner === null || Object.keys(inner).length === 0) {
        found.set(path, found.has(path) ? undefined : inner);
        return;
      }
      for (const [name, child] of Object.entries(inner)) {
        visit(child as Json, Array.isArray(inner) ? `${path}[${name}]` : joinPath(path, name));
      }
    };
    visit(value, "");
    return new Map([...found].filter((entry): entry is [string, Json] => entry[1] !== undefined));
  }
});
