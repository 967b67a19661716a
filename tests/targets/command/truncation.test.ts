import { expect, test } from "bun:test";
import fc from "fast-check";
import { fitLines, truncateText } from "../../../src/targets/command/unified-diff.ts";

test.each([
  ["abc", 3, "abc"],
  ["abcd", 3, "abc… [1 more characters]"],
  ["", 1, ""],
  ["ab🚀", 3, "ab… [2 more characters]"],
  ["one two three", 7, "one two… [6 more characters]"],
  ["one two three", 6, "one … [9 more characters]"],
  ['{"token":"ghp_abcdef"}', 15, '{"token":"… [12 more characters]'],
  [`key ${"x".repeat(300)}`, 280, `key ${"x".repeat(276)}… [24 more characters]`],
  ["🚀🚀", 2, "🚀… [2 more characters]"],
])("%p cut to %p is %p", (text, charactersMax, want) => {
  expect(truncateText(text, charactersMax)).toBe(want);
});

const BUDGET = { linesMax: 3, lineCharactersMax: 4, charactersMax: 1_000 } as const;

test.each([
  ["the first stay", ["a", "b", "c", "d"], { ...BUDGET, keep: "first" }, ["a", "b", "c"], 1],
  ["the last stay", ["a", "b", "c", "d"], { ...BUDGET, keep: "last" }, ["b", "c", "d"], 1],
  ["long lines say so", ["abcdef"], { ...BUDGET, keep: "last" }, ["abcd… [2 more characters]"], 0],
  ["all together are bounded", ["aaaa", "b", "cc"], { ...BUDGET, charactersMax: 3, keep: "last" }, ["b", "cc"], 1],
  ["a first line that does not fit", ["aaaa"], { ...BUDGET, charactersMax: 3, keep: "first" }, [], 1],
  ["nothing", [], { ...BUDGET, keep: "first" }, [], 0],
] as const)("%s", (_title, lines, budget, kept, droppedLines) => {
  expect(fitLines(lines, budget)).toEqual({ lines: [...kept], droppedLines });
});

test("nothing is lost without being counted, and text stays well formed", () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: "grapheme" })),
      fc.nat(20),
      fc.nat(20),
      (lines, linesMax, lineCharactersMax) => {
        const fitted = fitLines(lines, { linesMax, lineCharactersMax, charactersMax: 200, keep: "last" });
        expect(fitted.lines.length + fitted.droppedLines).toBe(lines.length);
        expect(fitted.lines.every((line) => line.isWellFormed())).toBe(true);
      },
    ),
  );
});
