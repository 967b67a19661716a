import { expect } from "bun:test";
import fc from "fast-check";
import { Ref, RepositoryPath } from "../../../tools/platform/git.ts";
import { describe, test } from "../../support/git-tests.ts";
import { TestRepository } from "./repositories.ts";

const repository = new TestRepository();

describe("names of branches and tags", () => {
  const names = [
    ...["main", "feature/x", "v1.2.3", "release/2024.02", "a+b", "fix#12", "user@host", "a@b/c", "(topic)", "größe"],
    ...[
      "日本語",
      "x{y}",
      "a.b.c",
      "0",
      "HEAD",
      "deadbee",
      "1.0-rc.1",
      "a_b",
      "dependabot/npm_and_yarn/@types/node-20",
      "é",
      "🚀",
    ],
    ...[
      "a|b",
      "$x",
      "`x`",
      "a;b",
      "a&b",
      "!x",
      '"x"',
      "'x'",
      "a=b",
      "a,b",
      "a<b>",
      "100%",
      "x]",
      "head",
      "stash",
      "lock",
    ],
  ];
  test.each(names)("%p is valid", (name) => {
    expect(Ref.safeParse(name).success).toBe(true);
    if (name !== "HEAD") expect(repository.git("check-ref-format", `refs/heads/${name}`)).toBe("");
  });

  const refused = [
    ...["", "-x", "--all", "--output=x", "@", "a..b", "..", "a...b", "^main", "main:file", ":file"],
    ...["main@{1}", "@{u}", "a b", " a", "a ", "a\n", "a\nb", "a\0b", "a\tb", "a?b", "a*b", "a[b", "a\\b", "a\u007fb"],
    ...["/a", "a/", "a//b", "a.lock", "a.lock/b", ".a", "a/.b", "a.", "a\u202eb", "a\u200bb", "\ufeffa", "a\u0085b"],
    ...["a\u2028b", "a\ud800", "a\u{e0041}b", "x".repeat(256), "main^{commit}", "a\rb"],
    ...["main^{/fix}", "main^{}", "main^@", "main^!", "main^-", "main~-1", "main^-1", "main~1x", "main~1/x", "main^~x"],
    ...[
      "~1",
      "^",
      "@~1",
      "main@{1}~1",
      "main@{-1}",
      "@{-1}",
      "-x~1",
      "a.~1",
      "a.lock^",
      "main~1..x",
      "main~1:f",
      "main ~1",
    ],
    ...["main~12345", `main${"^".repeat(17)}`, "main^12", "abc1234~1", "ABC1234^", "x-gabc1234~1", ":/fix", ":0:f"],
  ];
  test.each(refused)("%p is invalid", (name) => {
    expect(Ref.safeParse(name).success).toBe(false);
  });

  const stepped = [
    "main~",
    "main^",
    "HEAD~1",
    "HEAD^^~3",
    "main^2~10",
    "origin/main~2",
    "refs/tags/v1^0",
    "deadbeef/x~1",
  ];
  test.each([
    ...stepped,
    `${"a".repeat(40)}^`,
    `${"b".repeat(64)}~1`,
    "origin/main",
    "refs/heads/main",
    "refs/heads/abc1234^",
  ])("%p is an ancestor or a full name", (name) => expect(Ref.safeParse(name).success).toBe(true));

  test("git accepts every accepted name", () => {
    const unit = fc.oneof(fc.constantFrom(..."-./@{}~^:?*[\\ #a0é"), fc.string({ unit: "binary", maxLength: 1 }));
    fc.assert(
      fc.property(fc.array(unit, { maxLength: 6 }), (units) => {
        const ref = units.join("");
        if (!Ref.safeParse(ref).success) return;
        const name = ref.replace(/(?:~[0-9]{0,4}|\^[0-9]?)*$/, "");
        expect(name).not.toBe("");
        expect(name).not.toMatch(/^-|\.\.|@\{|[\x00-\x20\x7f~^:?*[\\]|\.lock(?:\/|$)|^[./]|[./]$|\/[./]/);
        expect(name.isWellFormed()).toBe(true);
      }),
      { numRuns: 3_000 },
    );
  });
});

describe("paths", () => {
  const paths = [
    ...[
      "README.md",
      "src/a b.txt",
      ".gitignore",
      ".github/workflows/ci.yml",
      ".gitattributes",
      ".gitmodules",
      "a+b",
      "[x].ts",
    ],
    ...[
      "größe/日本語.txt",
      "a-b",
      "x:y",
      "@types/x.d.ts",
      "a..b",
      "...",
      "..a",
      "a.",
      "digit",
      "my.git/x",
      ".git-blame-ignore-revs",
    ],
    ...[
      "x-g1234567",
      "a~1",
      "git",
      "%2e%2e/x",
      "$HOME",
      "*.ts",
      " x",
      "a\u00a0b",
      "node_modules/.bin/x",
      "git~x",
      ".gitx/y",
    ],
  ];
  test.each(paths)("%p is valid", (path) => {
    expect(RepositoryPath.safeParse(path).success).toBe(true);
  });

  const refused = [
    ...[
      "",
      "/etc/passwd",
      "..",
      ".",
      "../x",
      "a/../b",
      "a/..",
      "./a",
      "a//b",
      "a/",
      "-x",
      "--output=x",
      ":x",
      ":(top)x",
      ":/x",
    ],
    ...[
      ".git",
      ".git/config",
      "a/.git/config",
      ".GIT/config",
      ".Git",
      ".git./config",
      ".git /config",
      ".git . /x",
      "git~1/config",
    ],
    ...[
      "GIT~2",
      ".g\u200cit/config",
      ".git\u200d/x",
      ".git::$INDEX_ALLOCATION/config",
      ".git:x",
      "．git/config",
      "a\\..\\b",
      "a\0b",
    ],
    ...["a\nb", "a\tb", "a\u001bb", "a\u007fb", "a\u0085b", "a\u202eb", "a\ud800b", "a\u{e0041}b", "x".repeat(1_025)],
  ];
  test.each(refused)("%p is invalid", (path) => {
    expect(RepositoryPath.safeParse(path).success).toBe(false);
  });

  test("every accepted path stays inside, and is not git's own", () => {
    const unit = fc.oneof(
      fc.constantFrom(".", "/", "g", "i", "t", ".git", "\\", " ", "-", ":", "\u200c", "G", "~1"),
      fc.string({ unit: "binary", maxLength: 1 }),
    );
    fc.assert(
      fc.property(fc.array(unit, { maxLength: 8 }), (units) => {
        const path = units.join("");
        if (!RepositoryPath.safeParse(path).success) return;
        expect(path).not.toMatch(/^[-:/]|[\x00-\x1f\x7f\\]/);
        for (const part of path.split("/")) {
          expect(["", ".", ".."]).not.toContain(part);
          const bare = part.replaceAll("\u200c", "").toLowerCase();
          expect(bare).not.toMatch(/^\.git[. ]*(?::|$)/);
        }
      }),
      { numRuns: 3_000 },
    );
  });
});
