import { describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { changeFrontmatter, readFrontmatter } from "../../../src/targets/files/frontmatter.ts";
import { applyPatch } from "../../../src/targets/files/patch.ts";
import { unifiedDiff } from "../../../src/targets/files/write-plan.ts";
import { codeOf, fsStand, refusalOf, type StandOptions } from "./stand.ts";

const codeOfCall = (work: () => unknown): Promise<string> => codeOf(Promise.resolve().then(work));

describe("a unified diff", () => {
  const five = "1\n2\n3\n4\n5\n";
  const rows: readonly (readonly [string, string | undefined, string, string])[] = [
    ["changes a line", five, "@@ -2,3 +2,3 @@\n 2\n-3\n+three\n 4\n", "1\n2\nthree\n4\n5\n"],
    ["has file headers", five, "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+one\n", "one\n2\n3\n4\n5\n"],
    [
      "has Git's headers",
      five,
      "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@ fn()\n-1\n+one\n",
      "one\n2\n3\n4\n5\n",
    ],
    ["adds in between", five, "@@ -2,0 +3 @@\n+2.5\n", "1\n2\n2.5\n3\n4\n5\n"],
    ["adds at the end", five, "@@ -5 +5,2 @@\n 5\n+6\n", `${five}6\n`],
    ["removes", five, "@@ -1,2 +1 @@\n-1\n 2\n", "2\n3\n4\n5\n"],
    ["has two hunks", five, "@@ -1 +1 @@\n-1\n+one\n@@ -5 +5 @@\n-5\n+five\n", "one\n2\n3\n4\nfive\n"],
    [
      "is off by some lines, and fits in only one position",
      five,
      "@@ -40,2 +40,2 @@\n 3\n-4\n+four\n",
      "1\n2\n3\nfour\n5\n",
    ],
    ["creates a file", undefined, "--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\n+b\n", "a\nb\n"],
    ["removes the last newline", "a\n", "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n", "a"],
    ["adds a last newline", "a", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n", "a\n"],
    ["has an empty context line without its leading space", "a\n\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n", "a\n\nc\n"],
    ["has lines that look like headers", "-- x\n", "@@ -1 +1 @@\n--- x\n+++ y\n", "++ y\n"],
    [
      "has an empty line with a carriage return",
      "a\r\n\r\nb\r\n",
      "@@ -1,3 +1,3 @@\n a\r\n\r\n-b\r\n+c\r\n",
      "a\r\n\r\nc\r\n",
    ],
    ["ends with blank lines", "a\n", "@@ -1 +1 @@\n-a\n+b\n\n\n", "b\n"],
    ["ends with blank lines and carriage returns", "a\n", "@@ -1 +1 @@\n-a\n+b\n\r\n", "b\n"],
    ["ends with a signature", "a\n", "@@ -1 +1 @@\n-a\n+b\n-- \n2.39.5\n\n", "b\n"],
    [
      "has a message before Git's header",
      "a\n",
      "From: Ada\nrename all\nrename to x\n---\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
      "b\n",
    ],
    [
      "is of a new file",
      undefined,
      "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n",
      "a\n",
    ],
    [
      "speaks of renames",
      "rename to x\n",
      "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-rename to x\n+rename from y\n",
      "rename from y\n",
    ],
    ["keeps carriage returns", "a\r\nb\r\n", "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n", "a\r\nc\r\n"],
  ];
  test.each(rows)("that %s", (_title, before, diff, want) => {
    expect(applyPatch(before, diff)).toBe(want);
  });

  test.each([
    ["another context", "1\n2\n", "@@ -1,2 +1,2 @@\n x\n-2\n+3\n", "E_PATCH_MISMATCH"],
    ["one space too many", "1\n2\n", "@@ -1,2 +1,2 @@\n  1\n-2\n+3\n", "E_PATCH_MISMATCH"],
    ["carriage returns only here", "a\r\n", "@@ -1 +1 @@\n-a\n+b\n", "E_PATCH_MISMATCH"],
    ["two positions that fit, neither at the stated line", "a\nb\na\n", "@@ -9 +9 @@\n-a\n+c\n", "E_PATCH_MISMATCH"],
    ["hunks out of order", "1\n2\n3\n", "@@ -3 +3 @@\n-3\n+c\n@@ -1 +1 @@\n-1\n+a\n", "E_PATCH_MISMATCH"],
    ["a last line that has no newline", "a", "@@ -1 +1 @@\n-a\n+b\n", "E_PATCH_MISMATCH"],
    ["lines after one without newline", "a", "@@ -1,0 +2 @@\n+b\n", "E_PATCH_MISMATCH"],
    ["no hunk", "a\n", "hello", "E_INVALID_PATCH"],
    ["a hunk that ends early", "a\n", "@@ -1,2 +1 @@\n-a\n", "E_INVALID_PATCH"],
    ["a hunk that is longer than its counts", "a\n", "@@ -1 +1 @@\n-a\n+b\n+c\n", "E_INVALID_PATCH"],
    [
      "another file",
      "a\n",
      "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n",
      "E_INVALID_PATCH",
    ],
    [
      "a rename",
      "a\n",
      "diff --git a/x b/y\nsimilarity index 50%\nrename from x\nrename to y\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n",
      "E_INVALID_PATCH",
    ],
    [
      "a copy",
      "a\n",
      "diff --git a/x b/y\ncopy from x\ncopy to y\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n",
      "E_INVALID_PATCH",
    ],
    [
      "another mode",
      "a\n",
      "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
      "E_INVALID_PATCH",
    ],
    [
      "a new link",
      undefined,
      "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+../y\n\\ No newline at end of file\n",
      "E_INVALID_PATCH",
    ],
    [
      "another file behind Git's header",
      "a\n",
      "diff --git a/y b/y\nold mode 100644\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
      "E_INVALID_PATCH",
    ],
    [
      "another patch behind a signature",
      "a\n",
      "@@ -1 +1 @@\n-a\n+b\n-- \n2.39.5\n@@ -1 +1 @@\n-b\n+c\n",
      "E_INVALID_PATCH",
    ],
    ["a new file where one exists", "a\n", "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b\n", "E_PATCH_MISMATCH"],
    ["text after the last hunk", "a\n", "@@ -1 +1 @@\n-a\n+b\n\nwords\n", "E_INVALID_PATCH"],
    ["a removed file", "a\n", "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "E_INVALID_PATCH"],
    ["a missing file", undefined, "@@ -1 +1 @@\n-a\n+b\n", "ENOENT"],
  ])("refuses %s", async (_title, before, diff, code) => {
    expect(await codeOfCall(() => applyPatch(before, diff))).toBe(code);
  });

  const text = fc.string({ unit: fc.constantFrom("a\n", "b\n", "c\n", "\n", "a"), maxLength: 30 });
  test("that shows a change makes that change", () => {
    fc.assert(
      fc.property(text, text, (before, after) => {
        if (before === after) return;
        const diff = unifiedDiff("@project/x", before, after).join("\n");
        expect(applyPatch(before, `${diff}\n`)).toBe(after);
      }),
      { numRuns: 1_000 },
    );
  });

  test("any diff ends in a text or a refusal", async () => {
    const line = fc.constantFrom("@@ -1 +1 @@", "@@ -1,2 +1,3 @@", "-a", "+b", " c", "", "\\ x", "--- a", "+++ b", "x");
    await fc.assert(
      fc.asyncProperty(text, fc.array(line, { maxLength: 12 }), async (before, lines) => {
        const code = await codeOfCall(() => applyPatch(before, lines.join("\n")));
        expect(["done", "E_INVALID_PATCH", "E_PATCH_MISMATCH"]).toContain(code);
      }),
    );
  });

  test("does not search for lines forever", () => {
    const long = "a\n".repeat(20_000);
    const many = unifiedDiff("@project/x", long, "b\n".repeat(20_000));
    expect(many.length).toBe(401);
  });
});

describe("frontmatter", () => {
  const file = "---\n# who\nowner: ann # for now\nlist:\n  - one\n  - two\ncount: 3\n---\n# Body\n---\nnot yaml: [\n";

  test("keeps comments, order and body", () => {
    const changed = changeFrontmatter(file, {
      set: { owner: "bob", added: { deep: [1, true, null] } },
      unset: ["count"],
    });
    expect(changed).toBe(
      "---\n# who\nowner: bob # for now\nlist:\n  - one\n  - two\nadded:\n  deep:\n    - 1\n    - true\n    - null\n---\n# Body\n---\nnot yaml: [\n",
    );
  });

  test.each([
    [
      "words that YAML would read as something else",
      { a: "yes", b: "null", c: "1", d: "- x", e: "a: b", f: "#x", g: "" },
    ],
    ["text with newlines", { a: "one\ntwo\n", b: " lead", c: "trail " }],
    ["what looks like an alias or tag", { a: "*x", b: "&x", c: "!x", d: "---" }],
    ["numbers", { a: 1.5, b: -0.25, c: 1e21 }],
    ["containers", { a: [], b: {}, c: [[1], { d: 2 }] }],
  ])("accepts %s", (_title, set) => {
    expect(readFrontmatter(changeFrontmatter(file, { set }))).toMatchObject(set);
  });

  test.each([
    ["a byte order mark", "\ufeff---\na: 1\n---\n", "\ufeff---\na: 2\n---\n"],
    [
      "carriage returns with comments",
      "---\r\n# c\r\na: 1 # d\r\nb: |\r\n  x\r\n---\r\n",
      "---\r\n# c\r\na: 2 # d\r\nb: |\r\n  x\r\n---\r\n",
    ],
    [
      "dashes and dots that begin no line",
      "---\na: 1\nb: '--- ...'\nc: |\n  ---\n  ...\n---\n",
      "---\na: 2\nb: '--- ...'\nc: |\n  ---\n  ...\n---\n",
    ],
  ])("keeps %s", (_title, before, after) => {
    expect(changeFrontmatter(before, { set: { a: 2 } })).toBe(after);
  });

  test("keeps carriage returns", () => {
    expect(changeFrontmatter("---\r\na: 1\r\n---\r\nbody\r\n", { set: { a: 2 } })).toBe(
      "---\r\na: 2\r\n---\r\nbody\r\n",
    );
  });

  const deep = `${"[".repeat(5_000)}${"]".repeat(5_000)}`;
  const bomb = `a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: [*c,*c]\n`;
  test.each([
    ["none", "# Title\n"],
    ["no end", "---\na: 1\n"],
    ["endless aliases", `---\n${bomb}---\n`],
    ["an anchor", "---\na: &x 1\n---\n"],
    ["a custom tag", "---\na: !!js/function 'x'\n---\n"],
    ["a custom tag", "---\na: !x 1\n---\n"],
    ["a key twice", "---\na: 1\na: 2\n---\n"],
    ["a list", "---\n- a\n---\n"],
    ["a word", "---\nhello\n---\n"],
    ["a broken line", "---\na: [1\n---\n"],
    ["a tab", "---\na:\n\t- x\n---\n"],
    ["endless nesting", `---\na: ${deep}\n---\n`],
    ["more than the limit", `---\n${"k: v\n".repeat(20_000)}---\n`],
    ["__proto__", "---\n__proto__: {a: 1}\n---\n"],
    ["a carriage return that ends a line for some readers", "---\na: 1 # x\ra: 2\n---\n"],
    ["a next line that ends a line for some readers", "---\na: 1 # x\u0085a: 2\n---\n"],
    ["a line separator that ends a line for some readers", "---\na: 1 # x\u2028a: 2\n---\n"],
    ["a line that ends the document for some readers", "---\n---x: 1\na: 2\n---\n"],
    ["the end of a document", "---\na: 1\n...\n---\n"],
    ["an empty key", "---\n~: 1\n'': 2\n---\n"],
    ["a value that is not a number", "---\na: .nan\n---\n"],
  ])("refuses %s", async (_title, text) => {
    expect(await codeOfCall(() => readFrontmatter(text))).toBe("E_INVALID_FRONTMATTER");
  });

  test("any text ends in values or a refusal", async () => {
    const piece = fc.constantFrom(
      "a",
      ": ",
      "\n",
      "  ",
      "- ",
      "[",
      "]",
      "{",
      "}",
      "&x ",
      "*x",
      "!t ",
      "'",
      '"',
      "|",
      "#",
      "? ",
    );
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 20 }), async (pieces) => {
        const code = await codeOfCall(() => readFrontmatter(`---\n${pieces.join("")}\n---\n`));
        expect(["done", "E_INVALID_FRONTMATTER"]).toContain(code);
      }),
    );
  });
});

describe("fs_apply_patch", () => {
  test.each([
    ["a diff", { operation: "unifiedDiff", diff: "@@ -3 +3 @@\n-body\n+text\n" }, "---\na: 1\n---\ntext\n", undefined],
    ["frontmatter", { operation: "updateFrontmatter", set: { a: 2 } }, "---\na: 2\n---\nbody\n", undefined],
  ])("applies %s", async (_title, patch, want) => {
    const stand = fsStand();
    const path = "@project/x.md";
    writeFileSync(join(stand.project, "x.md"), "---\na: 1\n---\nbody\n");
    expect(await stand.call("fs_apply_patch", { path, patch })).toMatchObject({ path, changed: true });
    expect(readFileSync(join(stand.project, "x.md"), "utf8")).toBe(want);
  });

  test.each([
    ["no frontmatter", { patch: { operation: "updateFrontmatter", set: { a: 1 } } }, "ENOENT"],
    [
      "another hash",
      {
        path: "@project/x",
        ifMatchSha256: "0".repeat(64),
        patch: { operation: "unifiedDiff", diff: "@@ -1 +1 @@\n-a\n+b\n" },
      },
      "E_PRECONDITION_FAILED",
    ],
    [
      "what is no text",
      { path: "@project/bin", patch: { operation: "unifiedDiff", diff: "@@ -0,0 +1 @@\n+b\n" } },
      "E_PATCH_MISMATCH",
    ],
  ])("refuses %s", async (_title, args, code) => {
    const stand = fsStand();
    writeFileSync(join(stand.project, "x"), "a\n");
    writeFileSync(join(stand.project, "bin"), Buffer.from([0]));
    expect(await codeOf(stand.plan("fs_apply_patch", { path: "@project/none", ...args }))).toBe(code);
  });
});

describe("@state/workflow.md", () => {
  const schema = {
    type: "object",
    properties: {
      currentNodeId: { type: "string" },
      variables: { type: "object" },
      // This runtime's regular expressions would take years for both.
      letters: { type: "string", pattern: "^(a+)+$" },
      twice: { type: "string", pattern: "^(.+)+\\1x$" },
    },
    required: ["currentNodeId", "variables"],
  };
  const transitions = { draft: ["review"], review: ["draft", "done"] };
  const workflow = { schema, transitions, entry: ["draft"] };
  const at = (node: string): string => `---\ncurrentNodeId: ${node}\nvariables: {}\n---\n# Run\n`;

  function state(before: string | undefined, options: StandOptions = { workflow }) {
    const stand = fsStand(options);
    if (before !== undefined) writeFileSync(join(stand.state, "workflow.md"), before);
    return stand;
  }

  test.each([
    ["begins", undefined, at("draft"), "done"],
    ["begins elsewhere", undefined, at("review"), "E_INVALID_TRANSITION"],
    ["goes on", at("draft"), at("review"), "done"],
    ["stays", at("draft"), at("draft").replace("# Run", "# More"), "done"],
    ["reaches an end", at("review"), at("done"), "done"],
    ["leaves an end", at("done"), at("draft"), "E_INVALID_TRANSITION"],
    ["skips a state", at("draft"), at("done"), "E_INVALID_TRANSITION"],
    ["goes to an unknown state", at("draft"), at("elsewhere"), "E_INVALID_TRANSITION"],
    ["uses a name that every object has", at("draft"), at("constructor"), "E_INVALID_TRANSITION"],
    ["loses a field", at("draft"), "---\ncurrentNodeId: draft\n---\n", "E_SCHEMA_VALIDATION"],
    ["changes a field's kind", at("draft"), at("draft").replace("{}", "[]"), "E_SCHEMA_VALIDATION"],
    ["fits an ambiguous pattern", at("draft"), at("draft").replace("{}", `{}\nletters: ${"a".repeat(64)}`), "done"],
    [
      "fits it almost",
      at("draft"),
      at("draft").replace("{}", `{}\nletters: ${"a".repeat(64)}!`),
      "E_SCHEMA_VALIDATION",
    ],
    [
      "has too many ways",
      at("draft"),
      at("draft").replace("{}", `{}\ntwice: ${"ab".repeat(40)}`),
      "E_SCHEMA_VALIDATION",
    ],
    ["loses its frontmatter", at("draft"), "# Run\n", "E_INVALID_FRONTMATTER"],
    ["is emptied", at("draft"), "", "E_INVALID_FRONTMATTER"],
    ["takes aliases", at("draft"), at("draft").replace("{}", "&a {}"), "E_INVALID_FRONTMATTER"],
  ])("%s", async (_title, before, content, code) => {
    const stand = state(before);
    expect(await codeOf(stand.call("fs_write", { path: "@state/workflow.md", content }))).toBe(code);
  });

  test("a patch obeys the same rules", async () => {
    const stand = state(at("draft"));
    const patch = (node: string) => ({
      path: "@state/workflow.md",
      patch: { operation: "updateFrontmatter", set: { currentNodeId: node } },
    });
    expect(await refusalOf(stand.call("fs_apply_patch", patch("done")))).toMatchObject({
      code: "TARGET_REFUSED",
      details: { status: "FAILED_PRECONDITION", code: "E_INVALID_TRANSITION", allowed: ["review"] },
    });
    expect(await codeOf(stand.call("fs_apply_patch", patch("review")))).toBe("done");
  });

  test.each([
    ["dots", "@state/./workflow.md"],
    ["a detour", "@state/sub/../workflow.md"],
    ["slashes", "@state//workflow.md"],
    ["a link to it", "@state/link.md"],
    ["through a link to its directory", "@state/here/workflow.md"],
    ["another case", "@state/Workflow.MD"],
    ["an invisible character", "@state/work\u200bflow.md"],
  ])("is the workflow by %s too", async (_title, path) => {
    const stand = state(at("draft"));
    mkdirSync(join(stand.state, "sub"));
    symlinkSync("workflow.md", join(stand.state, "link.md"));
    symlinkSync(".", join(stand.state, "here"));
    expect(await codeOf(stand.call("fs_write", { path, content: "free text" }))).toBe("E_INVALID_FRONTMATTER");
  });

  test("is the target of a link of that name", async () => {
    const stand = fsStand({ workflow });
    symlinkSync("real.md", join(stand.state, "workflow.md"));
    const write = (content: string) => codeOf(stand.call("fs_write", { path: "@state/real.md", content }));
    expect(await write("free text")).toBe("E_INVALID_FRONTMATTER");
    expect(await write(at("draft"))).toBe("done");
    expect(await write(at("done"))).toBe("E_INVALID_TRANSITION");
  });

  test.each([
    ["another name", "@state/notes.md"],
    ["another directory", "@state/sub/workflow.md"],
    ["another mount", "@project/workflow.md"],
  ])("is not %s", async (_title, path) => {
    const stand = state(at("draft"));
    mkdirSync(join(stand.state, "sub"));
    expect(await codeOf(stand.call("fs_write", { path, content: "free text" }))).toBe("done");
  });

  test("without a graph its state stays", async () => {
    const stand = state(at("draft"), {});
    const write = (content: string) => codeOf(stand.call("fs_write", { path: "@state/workflow.md", content }));
    expect(await write(at("review"))).toBe("E_INVALID_TRANSITION");
    expect(await write("---\ntitle: x\n---\n")).toBe("E_SCHEMA_VALIDATION");
    expect(await write(at("draft").replace("# Run", "# More"))).toBe("done");
  });

  test("a plan made before the link does not write through it", async () => {
    const stand = fsStand({ workflow });
    const plan = await stand.plan("fs_write", { path: "@state/real.md", content: "free text" });
    symlinkSync("real.md", join(stand.state, "workflow.md"));
    expect(await codeOf(stand.run("fs_write", plan))).toBe("E_PRECONDITION_FAILED");
  });
});
