import { describe, expect, test } from "bun:test";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { compileName, isIgnored, matchesName, readIgnoreRules } from "../../../src/targets/files/gitignore.ts";
import { compilePattern } from "../../../src/targets/files/search.ts";
import { codeOf, type FsStand, fsStand, type StandOptions } from "./stand.ts";

function tree(files: Readonly<Record<string, string | Uint8Array>>, options: StandOptions = {}): FsStand {
  const stand = fsStand(options);
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(stand.project, name)), { recursive: true });
    writeFileSync(join(stand.project, name), content);
  }
  return stand;
}

interface Match {
  readonly path: string;
  readonly line: number;
  readonly text: string;
  readonly before: readonly string[];
  readonly after: readonly string[];
}

async function matchesOf(stand: FsStand, args: Readonly<Record<string, unknown>>): Promise<readonly Match[]> {
  return (await stand.call("fs_search", { path: "@project", ...args }))["matches"] as readonly Match[];
}

const where = (matches: readonly Match[]): readonly string[] => matches.map(({ path, line }) => `${path}:${line}`);

describe("fs_search", () => {
  const stand = tree({
    "a.ts": "one\nexport function two() {}\nthree\r\n",
    "src/b.ts": "needle here\nNEEDLE there\n",
    "src/deep/c.md": "a (needle) b\n",
    "node_modules/x/index.js": "needle\n",
    "build/out.js": "needle\n",
    "build/keep.js": "needle\n",
    ".github/ci.yml": "needle\n",
    ".git/config": "needle\n",
    "bin.dat": Buffer.from("needle\0needle\n"),
    ".gitignore": "# comment\nnode_modules/\n/build/*\n!keep.js\n",
    "src/.gitignore": "*.log\n",
    "src/x.log": "needle\n",
  });
  symlinkSync("../outside", join(stand.project, "out"));
  writeFileSync(join(stand.outside, "o.txt"), "needle\n");

  test.each([
    ["a word", { pattern: "needle" }, ["build/keep.js:1", "src/b.ts:1", "src/deep/c.md:1"]],
    [
      "any case",
      { pattern: "needle", ignoreCase: true, path: "@project/src" },
      ["src/b.ts:1", "src/b.ts:2", "src/deep/c.md:1"],
    ],
    ["an expression", { pattern: "^export function \\w+\\(" }, ["a.ts:2"]],
    ["a choice", { pattern: "^(one|three)$" }, ["a.ts:1", "a.ts:3"]],
    ["literal text", { pattern: "(needle)", literal: true }, ["src/deep/c.md:1"]],
    ["literal text in any case", { pattern: "(NEEDLE)", literal: true, ignoreCase: true }, ["src/deep/c.md:1"]],
    ["hidden names, never .git", { pattern: "^needle$", all: true }, [".github/ci.yml:1", "build/keep.js:1"]],
    ["one file", { pattern: "needle", path: "@project/src/b.ts" }, ["src/b.ts:1"]],
    ["a file that is ignored, by its name", { pattern: "needle", path: "@project/src/x.log" }, ["src/x.log:1"]],
    ["the rules above a directory count", { pattern: "needle", path: "@project/build" }, ["build/keep.js:1"]],
    ["nothing", { pattern: "no such thing" }, []],
    ["counted repeats one after another", { pattern: "^[a-z]{6} [a-z]{4}$" }, ["src/b.ts:1"]],
  ])("%s", async (_title, args, want) => {
    expect(where(await matchesOf(stand, args))).toEqual(want.map((name) => `@project/${name}`));
  });

  test("with the surrounding lines", async () => {
    const [match] = await matchesOf(stand, { pattern: "two", before: 1, after: 5 });
    expect(match).toMatchObject({ text: "export function two() {}", before: ["one"], after: ["three"] });
  });

  test("at most the requested number, and marked", async () => {
    const many = tree({ "m.txt": "x\n".repeat(500) });
    const answer = await many.call("fs_search", { path: "@project", pattern: "x", maxMatches: 3 });
    expect(answer).toMatchObject({ truncated: true, hint: expect.any(String) });
    expect(answer["matches"]).toHaveLength(3);
    const exact = await tree({ "m.txt": "x\nx\n" }).call("fs_search", {
      path: "@project",
      pattern: "x",
      maxMatches: 2,
    });
    expect(exact).toMatchObject({ truncated: false });
  });

  test.each([
    ["files", { filesMax: 1 }],
    ["bytes", { bytesMax: 12 }],
  ])("at most a number of %s", async (_title, search) => {
    const limits = { search: { filesMax: 10, bytesMax: 1_000, fileBytesMax: 100, timeMs: 1_000, ...search } };
    const answer = await tree({ "1": "0123456789\n", "2": "0123456789\n" }, { limits }).call("fs_search", {
      path: "@project",
      pattern: "0",
    });
    expect(answer).toMatchObject({ truncated: true, filesSearched: 1 });
  });

  test("a file over the limit is skipped and counted", async () => {
    const limits = { search: { filesMax: 10, bytesMax: 1_000, fileBytesMax: 5, timeMs: 1_000 } };
    const answer = await tree({ "1": "01234\n", "2": "012\n" }, { limits }).call("fs_search", {
      path: "@project",
      pattern: "0",
    });
    expect(answer).toMatchObject({ filesSearched: 1, filesSkipped: 1, truncated: false });
  });

  test("at most a limited time", async () => {
    let now = 0;
    const clock = (): number => {
      now += 10;
      return now;
    };
    const files = Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`f${index}`, "x\n"]));
    const limits = { search: { filesMax: 1_000, bytesMax: 10_000, fileBytesMax: 100, timeMs: 1_000 } };
    const answer = await tree(files, { limits, now: clock }).call("fs_search", { path: "@project", pattern: "y" });
    expect(answer).toMatchObject({ truncated: true });
    expect(Number(answer["filesSearched"])).toBeLessThan(200);
  });

  test("other calls get their turn", async () => {
    const files = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`f${index}`, "x\n"]));
    let now = 0;
    const busy = tree(files, { now: () => (now += 5) });
    let turns = 0;
    const timer = setInterval(() => (turns += 1), 0);
    const searching = busy.call("fs_search", { path: "@project", pattern: "y" });
    let done = false;
    searching.then(() => (done = true));
    let between = 0;
    while (!done) {
      await new Promise((resolve) => setImmediate(resolve));
      between += 1;
    }
    clearInterval(timer);
    expect(between).toBeGreaterThan(20);
    expect(turns).toBeGreaterThanOrEqual(0);
  });

  test.each(["(", "a{2000}", "((a{100}){100}){2}", "(a{900}|b{900}|c{900})", "[z-a]", "(?<=a)b", "\\1"])(
    "%j is not a pattern",
    async (pattern) => {
      expect(await codeOf(stand.call("fs_search", { path: "@project", pattern }))).toBe("E_INVALID_PATTERN");
    },
  );

  test.each([["(a+)+$"], ["(a|a)*b"], ["(.*)*x"], ["^(a?){50}a{50}$"], ["a{1,100}a{1,100}a{1,100}b"]])(
    "%s takes no longer for a hostile line",
    async (pattern) => {
      const hostile = tree({ "h.txt": `${"a".repeat(16_000)}!\n`.repeat(4) });
      expect(await matchesOf(hostile, { pattern })).toEqual([]);
    },
  );

  test("a text is found in a line of any length", () => {
    const ends = (text: string): string => `${"a".repeat(3_000)}${"aé".repeat(1_000)}z${text}`;
    for (const pattern of ["aéb", `${"a".repeat(500)}b${"a".repeat(499)}`, "é".repeat(900), `${"ab".repeat(499)}é`]) {
      const { matches } = compilePattern({ pattern, literal: true, ignoreCase: false });
      expect(matches(ends(pattern))).toBe(true);
      expect(matches(ends(`${pattern}z`))).toBe(true);
      expect(matches(ends(pattern.slice(0, -1)))).toBe(false);
    }
  });

  test("a large expression sees less of a long line than a small one", () => {
    const sees = (pattern: string, at: number): boolean =>
      compilePattern({ pattern, literal: false, ignoreCase: false }).matches(`${"a".repeat(at)}x`);
    expect(sees("[xy]", 16_000)).toBe(true);
    expect(sees("[xy]", 17_000)).toBe(false);
    expect(sees("[xy]|b{900}|c{900}", 2_000)).toBe(true);
    expect(sees("[xy]|b{900}|c{900}", 16_000)).toBe(false);
  });

  test("a literal that the pattern requires never hides a match", () => {
    const atom = fc.constantFrom(
      "abc",
      "def",
      "a",
      ".",
      "b?",
      "abcd*",
      "c+",
      "\\.",
      "\\w",
      "\\bab",
      "(x|abc)",
      "[a-c]",
      "^",
      "$",
    );
    const line = fc.string({ unit: fc.constantFrom("a", "b", "c", "d", "e", "f", "."), maxLength: 12 });
    fc.assert(
      fc.property(fc.array(atom, { minLength: 1, maxLength: 4 }), line, (atoms, text) => {
        const pattern = atoms.join("");
        const found = compilePattern({ pattern, literal: false, ignoreCase: false }).matches(text);
        expect([pattern, text, found]).toEqual([pattern, text, new RegExp(pattern, "u").test(text)]);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe(".gitignore", () => {
  const ignored = (text: string, path: string): boolean => {
    const isDirectory = path.endsWith("/");
    const names = path.split("/").filter((name) => name !== "");
    return isIgnored([{ depth: 0, rules: readIgnoreRules(text) }], names, isDirectory);
  };

  test.each([
    ["*.log", "a.log", true],
    ["*.log", "deep/a.log", true],
    ["*.log", "a.logs", false],
    ["/a", "a", true],
    ["/a", "b/a", false],
    ["b/a", "b/a", true],
    ["b/a", "c/b/a", false],
    ["a/", "a/", true],
    ["a/", "a", false],
    ["**/x", "x", true],
    ["**/x", "a/b/x", true],
    ["a/**", "a/b/c", true],
    ["a/**", "a/", false],
    ["**/a/**", "a/b", true],
    ["**/a/**", "x/a/b", true],
    ["**/a/**", "x/a/", false],
    ["a/**/b", "a/b", true],
    ["a/**/b", "a/x/y/b", true],
    ["*.log\n!keep.log", "keep.log", false],
    ["!keep.log\n*.log", "keep.log", true],
    ["# x", "# x", false],
    ["\\#x", "#x", true],
    ["\\!x", "!x", true],
    ["x ", "x", true],
    ["x\\ ", "x ", true],
    ["x\r", "x", true],
    ["[ab].c", "a.c", true],
    ["[!ab].c", "a.c", false],
    ["[a-c]x", "bx", true],
    ["[]x]", "]", true],
    ["[x", "[x", true],
    ["?x", "ax", true],
    ["*", "anything", true],
    ["", "x", false],
  ])("%j and %j: %j", (text, path, want) => {
    expect(ignored(text, path)).toBe(want);
  });

  test("a name's pattern means the same as its regular expression", () => {
    const part = fc.constantFrom("a", "b", "*", "?", "[ab]", "[!a]");
    fc.assert(
      fc.property(
        fc.array(part, { maxLength: 6 }),
        fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 6 }),
        (parts, name) => {
          const source = parts.map((one) => one.replace("*", ".*").replace("?", ".").replace("[!", "[^")).join("");
          const found = matchesName(compileName(parts.join("")), [...name], { left: 1_000 });
          expect(found).toBe(new RegExp(`^${source}$`).test(name));
        },
      ),
    );
  });

  test("many stars take no longer", () => {
    const tokens = compileName(`${"*a".repeat(200)}b`);
    const steps = { left: 100_000 };
    expect(matchesName(tokens, [..."a".repeat(4_000)], steps)).toBe(false);
    expect(steps.left).toBeGreaterThan(0);
  });

  test.each<string>(["**/*aaaaaaaaaaaaaaaaaaaaaaaab/**/x", `**/*${"a".repeat(120)}b`, `*${`[${"x".repeat(200)}]`}b`])(
    "rules that take too long ignore nothing: %s",
    (pattern) => {
      const rules = readIgnoreRules(`${`${pattern}\n`.repeat(240)}*`);
      const slow = Array.from({ length: 240 }, () => pattern).join("\n");
      const names = Array.from({ length: 40 }, () => "a".repeat(255));
      const files = Array.from({ length: 40 }, (_, depth) => ({ depth, rules: readIgnoreRules(slow) }));
      // Rules are tried from the last to the first; the last one is quick.
      expect(isIgnored([{ depth: 0, rules }], names, false)).toBe(true);
      expect(isIgnored([{ depth: 0, rules: readIgnoreRules("*") }, ...files], names, false)).toBe(false);
    },
  );

  test("hundreds of ordinary rules all apply", () => {
    const rules = Array.from({ length: 900 }, (_, index) => `**/build-${index}/**/*.[oa]`);
    const names = Array.from({ length: 40 }, (_, index) => `folder-${index}`);
    const ignores = readIgnoreRules(["*.log", ...rules].join("\n"));
    expect(isIgnored([{ depth: 0, rules: ignores }], [...names, "x.log"], false)).toBe(true);
    expect(isIgnored([{ depth: 0, rules: ignores }], ["build-7", ...names, "x.o"], false)).toBe(true);
  });
});
