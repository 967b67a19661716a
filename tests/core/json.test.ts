import { describe, expect, test } from "bun:test";
import { canonicalJson } from "../../src/core/digest.ts";
import { ARGUMENT_LIMITS, isSameJson } from "../../src/core/json.ts";

const SAME: readonly (readonly [string, unknown, unknown])[] = [
  ["scalars", "text", "text"],
  ["both zeros", 0, -0],
  ["objects with keys in another order", { a: 1, b: [2, { c: null }] }, { b: [2, { c: null }], a: 1 }],
  ["an own key __proto__", JSON.parse('{"__proto__":1}'), JSON.parse('{"__proto__":1}')],
];

const DIFFERENT: readonly (readonly [string, unknown, unknown])[] = [
  ["another value", { a: 1 }, { a: 2 }],
  ["a missing key", { a: 1, b: 2 }, { a: 1 }],
  ["another key", { a: 1 }, { b: 1 }],
  ["a key of the prototype", { toString: 1 }, { a: 1 }],
  ["an own key __proto__ and none", JSON.parse('{"__proto__":{}}'), { a: 1 }],
  ["a list and an object", [1], { 0: 1 }],
  ["a longer list", [1], [1, 2]],
  ["a list with a hole at its end", [1], Object.assign([1], { length: 2 })],
  ["a number and its text", 1, "1"],
  ["a date", { at: "2026-01-01T00:00:00.000Z" }, { at: new Date("2026-01-01") }],
  ["NaN", Number.NaN, Number.NaN],
];

describe("two values are the same JSON", () => {
  test.each(SAME)("%s", (_title, one, other) => {
    expect(isSameJson(one, other, 8)).toBe(true);
    expect(canonicalJson(one, ARGUMENT_LIMITS)).toBe(canonicalJson(other, ARGUMENT_LIMITS));
  });
});

describe("two values are not the same JSON", () => {
  test.each(DIFFERENT)("%s", (_title, one, other) => {
    expect(isSameJson(one, other, 8)).toBe(false);
    expect(isSameJson(other, one, 8)).toBe(false);
  });

  test("an instance of a class is not even the same as itself", () => {
    const date = new Date(0);
    expect(isSameJson({ date }, { date }, 8)).toBe(false);
  });

  test("values that nest deeper than the limit", () => {
    const nested = (): unknown => ({ a: { b: { c: 1 } } });
    expect(isSameJson(nested(), nested(), 3)).toBe(true);
    expect(isSameJson(nested(), nested(), 2)).toBe(false);
    const shared = nested();
    expect(isSameJson(shared, shared, 2)).toBe(false);
  });
});
