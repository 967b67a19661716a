import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { readHunk, sidesOf } from "../../src/core/diff-hunk.ts";

const REMARK = "\\ No newline at end of file";

describe("the counts of the header determine the hunk", () => {
  test.each([
    ["no header", [" x"], undefined],
    ["a number of more than nine digits", ["@@ -9999999999 +1 @@", "-a", "+b"], undefined],
    ["the text ends early", ["@@ -1,3 +1,3 @@", " x"], "too short"],
    ["a line without a mark", ["@@ -1,2 +1,2 @@", " x", "?y"], "too short"],
    ["a remark before any line", ["@@ -1 +1 @@", REMARK, "-a", "+b"], "too short"],
    ["two remarks for a line", ["@@ -1 +1 @@", "-a", REMARK, REMARK, "+b"], "too short"],
    ["more old lines than counted", ["@@ -1 +1,2 @@", "-a", "-b", "+c", "+d"], "too long"],
    ["more new lines than counted", ["@@ -1,2 +1 @@", "+a", "+b", "-c", "-d"], "too long"],
  ])("%s", (_title, lines, expected) => {
    expect(readHunk(lines, 0)).toBe(expected as undefined);
  });

  test("lines that look like headers belong to the hunk", () => {
    const lines = ["@@ -1 +1,2 @@ text", "--- a", "+++ b", "+@@ -1 +1 @@", "--- c"];
    expect(readHunk(lines, 0)).toMatchObject({ oldLines: 1, newLines: 2, lines: lines.slice(1, 4) });
  });
});

test.each([
  ["a newline is missing on both sides", ["-a", REMARK, "+b", REMARK], ["a"], ["b"]],
  ["unchanged empty lines without their marks", ["", "\r", "-a", "+b"], ["\n", "\r\n", "a\n"], ["\n", "\r\n", "b\n"]],
  ["a removed line that looks like a remark", ["-\\ No", "+b"], ["\\ No\n"], ["b\n"]],
])("%s", (_title, marked, before, after) => {
  const hunk = readHunk([`@@ -1,${before.length} +1,${after.length} @@`, ...marked], 0);
  if (hunk === undefined || typeof hunk === "string") throw new Error(`expected a hunk, got ${hunk}`);
  expect(hunk.lines).toEqual(marked);
  expect(sidesOf(hunk)).toEqual({ before, after });
});

test("any input: a hunk that is read has as many lines on each side as its header says", () => {
  const line = fc.oneof(
    fc.constantFrom(" x", "-x", "+x", "", "\r", REMARK, "\\", "@@ -1 +1 @@", "--- a", "+++ b"),
    fc.string({ maxLength: 5 }),
  );
  const count = fc.nat({ max: 4 });
  fc.assert(
    fc.property(count, count, fc.array(line, { maxLength: 8 }), (old, added, lines) => {
      const hunk = readHunk([`@@ -1,${old} +1,${added} @@`, ...lines], 0);
      if (hunk === undefined) throw new Error("the header is valid");
      if (typeof hunk === "string") return;
      const { before, after } = sidesOf(hunk);
      expect([before.length, after.length]).toEqual([old, added]);
      expect(lines.slice(0, hunk.lines.length)).toEqual([...hunk.lines]);
    }),
    { numRuns: 2_000, seed: 36 },
  );
});
