import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { parseUnifiedDiff } from "../../../src/targets/command/unified-diff.ts";

const GIT = `diff --git a/x.txt b/x.txt
index ce01362..3b18e51 100644
--- a/x.txt
+++ b/x.txt
@@ -1,3 +1,3 @@ heading
 one
-two
+TWO
 three
@@ -10 +10,2 @@
-ten
\\ No newline at end of file
+ten
+eleven
\\ No newline at end of file
diff --git a/new b/new
--- /dev/null
+++ b/new
@@ -0,0 +1 @@
+x
diff --git a/old b/old
--- a/old
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/a b/b
rename from a
rename to b
--- a/a\t2024-01-01
+++ b/b\t2024-01-01
@@ -1 +1 @@
-a
+b
diff --git a/bin b/bin
Binary files a/bin and b/bin differ
`;

test("files, status, hunks and the text between them", () => {
  const { files, rest } = parseUnifiedDiff(GIT);
  expect(files.map(({ oldPath, newPath, status, hunks }) => [oldPath, newPath, status, hunks.length])).toEqual([
    ["a/x.txt", "b/x.txt", "modified", 2],
    ["/dev/null", "b/new", "added", 1],
    ["a/old", "/dev/null", "deleted", 1],
    ["a/a", "b/b", "renamed", 1],
  ]);
  expect(files[0]?.hunks).toEqual([
    { oldStart: 1, oldLines: 3, newStart: 1, newLines: 3, lines: [" one", "-two", "+TWO", " three"] },
    {
      ...{ oldStart: 10, oldLines: 1, newStart: 10, newLines: 2 },
      lines: ["-ten", "\\ No newline at end of file", "+ten", "+eleven", "\\ No newline at end of file"],
    },
  ]);
  expect(rest).toEqual(["diff --git a/bin b/bin", "Binary files a/bin and b/bin differ"]);
});

test("a line of a file cannot imitate a header", () => {
  const forged = "--- a\n+++ b\n@@ -1,2 +1,3 @@\n x\n--- a/etc/passwd\n+++ b/etc/passwd\n+@@ -1 +1 @@\n";
  const { files } = parseUnifiedDiff(forged);
  expect(files).toHaveLength(1);
  expect(files[0]?.hunks[0]?.lines).toEqual([" x", "--- a/etc/passwd", "+++ b/etc/passwd", "+@@ -1 +1 @@"]);
});

describe("a broken diff is refused", () => {
  test.each([
    ["too few lines", "--- a\n+++ b\n@@ -1,5 +1,5 @@\n x\n"],
    ["a line without a mark", "--- a\n+++ b\n@@ -1,2 +1,2 @@\n x\ny\n"],
    ["more of one side than it says", "--- a\n+++ b\n@@ -1,1 +1,3 @@\n-x\n-y\n+a\n+b\n+c\n"],
  ])("%s", (_title, text) => {
    expect(() => parseUnifiedDiff(text)).toThrow(SyntaxError);
  });
});

test.each(["", "\n", "no diff\n", "--- a\n", "--- a\n+++ b\n", "--- a\n+++ b\nx\n", "@@ -1 +1 @@\n-a\n+b\n"])(
  "%p contains no file",
  (text) => {
    expect(parseUnifiedDiff(text).files).toEqual([]);
  },
);

test("any input: every line is accounted for or it is refused", () => {
  const line = fc.oneof(
    fc.constantFrom(
      "--- a",
      "+++ b",
      "@@ -1,2 +1,2 @@",
      "@@ -1 +1 @@",
      "@@ -0,0 +1 @@",
      " x",
      "-x",
      "+x",
      "\\ No newline",
      "",
    ),
    fc.string({ maxLength: 5 }).map((text) => text.replaceAll("\n", "")),
  );
  fc.assert(
    fc.property(fc.array(line, { maxLength: 20 }), (lines) => {
      const text = lines.map((each) => `${each}\n`).join("");
      try {
        const { files, rest } = parseUnifiedDiff(text);
        const counted = files.map(
          ({ preamble, hunks }) => preamble.length + 2 + hunks.reduce((sum, { lines: own }) => sum + 1 + own.length, 0),
        );
        expect(counted.reduce((sum, count) => sum + count, rest.length)).toBe(lines.length);
      } catch (error) {
        expect(error).toBeInstanceOf(SyntaxError);
      }
    }),
    { numRuns: 2_000 },
  );
});
