import { describe, expect, test } from "bun:test";
import { applyPatch } from "../../../src/targets/files/patch.ts";
import { unifiedDiff } from "../../../src/targets/files/write-plan.ts";
import { codeOf } from "./stand.ts";

const MEGABYTE = 1_048_576;

/** Half a million lines: four alternating ones, with an occasional other line between them. */
function periodic(mark: string, offset: number): string {
  const lines = Array.from({ length: 500_000 }, (_, at) => ((at + offset) % 5_000 === 0 ? "!" : "abcd"[at % 4]));
  return [mark, ...lines, mark, ""].join("\n");
}

describe("a difference that is too long to read", () => {
  test.each([
    ["new, of empty lines", undefined, "\n".repeat(MEGABYTE), MEGABYTE],
    ["of empty lines that are all removed", "\n".repeat(MEGABYTE), "", MEGABYTE],
    ["of lines that all change", "a\n".repeat(MEGABYTE / 2), "b\n".repeat(MEGABYTE / 2), MEGABYTE],
    ["of empty lines with another last line", "\n".repeat(MEGABYTE - 1), `${"\n".repeat(MEGABYTE - 2)}x`, undefined],
  ])("of a file %s is shown in part", (_title, before, after, changed) => {
    const shown = unifiedDiff("@project/x", before, after);
    const more = changed === undefined ? [] : [`… ${changed + 3 - 400} more lines`];
    expect(shown.slice(400)).toEqual(more);
  });

  test("is searched within a limit", () => {
    expect(unifiedDiff("@project/x", periodic("x", 0), periodic("y", 1)).at(-1)).toBe("… 608 more lines");
    expect(unifiedDiff("@project/x", periodic("x", 0), periodic("y", 2)).at(-1)).toBe("… 999607 more lines");
  });
});

test("adjacent contexts are one hunk, and others are not", () => {
  const lines = Array.from({ length: 30 }, (_, at) => `${at}\n`);
  const changedAt = (...places: readonly number[]): readonly string[] => {
    const after = lines.map((line, at) => (places.includes(at) ? "x\n" : line)).join("");
    return unifiedDiff("@project/x", lines.join(""), after).filter((line) => line.startsWith("@@"));
  };
  expect(changedAt(5, 12)).toEqual(["@@ -3,14 +3,14 @@"]);
  expect(changedAt(5, 13)).toEqual(["@@ -3,7 +3,7 @@", "@@ -11,7 +11,7 @@"]);
  expect(changedAt(0, 29)).toEqual(["@@ -1,4 +1,4 @@", "@@ -27,4 +27,4 @@"]);
});

test("a hunk with a wrong position is not searched among long identical lines", async () => {
  const line = "a".repeat(899);
  const hunk = `@@ -1,1001 +1 @@\n${`-${line}\n`.repeat(1_000)}-b\n+c\n`;
  const file = (count: number): string => `${`${line}\n`.repeat(count)}b\n`;
  expect(applyPatch(file(1_001), hunk)).toBe(`${line}\nc\n`);
  expect(await codeOf(Promise.resolve().then(() => applyPatch(file(4_000), hunk)))).toBe("E_PATCH_MISMATCH");
});
