import { expect, test } from "bun:test";
import fc from "fast-check";
import {
  advance,
  element,
  joinPath,
  otherKey,
  parseFieldPattern,
  startPosition,
  wildcard,
} from "../../../src/core/output-policy/field-path.ts";

test.each([
  ["email", ["email"], 1],
  ["customer.email", ["customer", "email"], 2],
  ["items[].email", ["items", element, "email"], 2],
  ["matrix[][].x", ["matrix", element, element, "x"], 2],
  ["[].name", [element, "name"], 1],
  ["[]", [element], 0],
  ["*", [wildcard], 0],
  ["*.email", [wildcard, "email"], 1],
  ["customer.*.id", ["customer", wildcard, "id"], 2],
  ["@type.x-y.constructor", ["@type", "x-y", "constructor"], 3],
] as const)("%s is read", (text, segments, literals) => {
  expect(parseFieldPattern(text)).toEqual({ text, segments: [...segments], literals, hasWildcard: text.includes("*") });
});

test.each([
  ["", "empty segment"],
  ["a..b", "empty segment"],
  [".a", "empty segment"],
  ["a.", "empty segment"],
  ["**", "whole segment"],
  ["a*b", "whole segment"],
  ["a.b*", "whole segment"],
  ["*[]", "already reaches through arrays"],
  ["items[0].x", "brackets other than"],
  ["items[*]", "brackets other than"],
  ["items[", "brackets other than"],
  ["items[]x", "brackets other than"],
  ["items]", "without `[`"],
  ["items.[].x", "right after the name"],
  ["a.__proto__", "never released"],
  ["a".repeat(513), "longer than"],
  [`${"a.".repeat(70)}a`, "more than"],
])("%s is malformed", (text, fault) => {
  expect(parseFieldPattern(text)).toEqual({ fault: expect.stringContaining(fault) });
});

test("reading never throws and never takes a bracket or a star for part of a name", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", ".", "[", "]", "*", "_", " ", "é"), maxLength: 40 });
  fc.assert(
    fc.property(text, (source) => {
      const pattern = parseFieldPattern(source);
      if ("fault" in pattern) return;
      const names = pattern.segments.filter((segment) => typeof segment === "string");
      expect(names.every((name) => name !== "" && !/[[\]*.]/.test(name))).toBe(true);
      expect(pattern.segments.length).toBeGreaterThan(0);
    }),
  );
});

test("a leading * may stand for nothing, but not alone", () => {
  const positions = ["*.a", "*", "a.*"].map((text) => {
    const pattern = parseFieldPattern(text);
    return "fault" in pattern ? undefined : startPosition(pattern);
  });
  expect(positions).toEqual([1, 0, 0]);
});

test("[] matches elements only, a name that key only, * anything", () => {
  const steps = ["a", "[]", otherKey, element] as const;
  const taken = ["a", "[]", "*"].map((text) => {
    const pattern = parseFieldPattern(text);
    return steps.map((step) => ("fault" in pattern ? [] : advance(pattern, 0, step)));
  });
  expect(taken).toEqual([
    [[1], [], [], []],
    [[], [], [], [1]],
    [[1], [1], [1], [1]],
  ]);
});

test("a * matches further steps once it matched one", () => {
  const pattern = parseFieldPattern("a.*.b");
  const taken = [0, 1, 2].map((at) => ("fault" in pattern ? [] : [...advance(pattern, at, "b")]));
  expect(taken).toEqual([[], [2], [2, 3]]);
});

test("paths are shown in pattern syntax", () => {
  expect(["items", "[]", "[]", "email", "*"].reduce(joinPath, "")).toBe("items[][].email.*");
});
