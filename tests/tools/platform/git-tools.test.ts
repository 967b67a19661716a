import { expect } from "bun:test";
import type { ToolFactory } from "safe-tool-call";
import { gitDiffBranches } from "../../../tools/platform/git-diff-branches.ts";
import { gitLog } from "../../../tools/platform/git-log.ts";
import { gitShowFile } from "../../../tools/platform/git-show-file.ts";
import { describe, test } from "../../support/git-tests.ts";
import { refusalFrom } from "../../targets/command/stand.ts";
import { temporaryDirectory } from "../../targets/command/temporary-directory.ts";
import { callTool, TestRepository } from "./repositories.ts";

const BRANCHES = ["feature/x", "a+b", "fix#12", "user@host", "(topic)", "größe", "deadbee", "stash"];
const FILES = ["a b.txt", "größe/日本語.txt", "[x]+(1).ts", "x:y", "-dash/inside.txt", ".gitignore", "a.", "*.glob"];

const repository = new TestRepository();
const first = repository.commit("one: café", {
  "a.txt": "alpha\n",
  ...Object.fromEntries(FILES.map((file) => [file, `in ${file}\n`])),
});
repository.git("tag", "-a", "v1.0.0", "-m", "tagged");
const second = repository.commit("two\ttabbed", { "a.txt": "beta\n" });
for (const branch of BRANCHES) repository.git("branch", branch, first);
repository.git("tag", "both", second);
repository.git("branch", "both", first);
repository.git("update-ref", "refs/remotes/origin/main", second);

const call = (tool: ToolFactory, args: Readonly<Record<string, unknown>>) => callTool(tool, repository.directory, args);

describe("git_diff_branches", () => {
  test("shows what differs, from base to head", async () => {
    expect(await call(gitDiffBranches, { base: "feature/x", head: "main" })).toEqual({
      diff: expect.stringMatching(/^diff --git a\/a\.txt b\/a\.txt\n(?:.*\n)*-alpha\n\+beta\n$/),
    });
  });

  test("shows nothing when nothing differs", async () => {
    expect(await call(gitDiffBranches, { base: "main", head: "main" })).toEqual({ diff: "" });
  });

  test.each([...BRANCHES, "v1.0.0", "HEAD"])("finds %p", async (base) => {
    expect(await call(gitDiffBranches, { base, head: base })).toEqual({ diff: "" });
  });

  test("finds commits by id, in full, in short and in capitals", async () => {
    for (const base of [first, first.slice(0, 7), first.slice(0, 12).toUpperCase()]) {
      expect(await call(gitDiffBranches, { base, head: first })).toEqual({ diff: "" });
    }
  });

  test("a branch that is named like a full commit id does not replace that commit", async () => {
    repository.git("update-ref", `refs/heads/${second}`, first);
    expect(await call(gitDiffBranches, { base: second, head: "main" })).toEqual({ diff: "" });
  });

  test("a branch comes before a tag of the same name", async () => {
    expect(await call(gitDiffBranches, { base: "both", head: first })).toEqual({ diff: "" });
  });

  test.each([
    "nowhere",
    "origin/nowhere",
    "refs/heads/nowhere",
    "refs/heads/v1.0.0",
    "refs/stash",
    "main~2",
    "main^2",
    `x-g${first}`,
    `refs/heads/x-g${first.slice(0, 7)}`,
    "FETCH_HEAD",
    "ORIG_HEAD",
    "a.txt",
    "0000000",
    "f".repeat(40),
  ])("does not find %p, and names the field", async (head) => {
    const refusal = await refusalFrom(call(gitDiffBranches, { base: "main", head }));
    expect(refusal.code).toBe("TARGET_REFUSED");
    expect(refusal.details).toEqual({ status: "NOT_FOUND", lookup: "headId", fields: ["head"] });
    expect(refusal.message).not.toContain(head);
  });

  test.each([
    ["origin/main", second],
    ["remotes/origin/main", second],
    ["refs/remotes/origin/main", second],
    ["refs/heads/main", second],
    ["heads/main", second],
    ["refs/tags/v1.0.0", first],
    ["main^", first],
    ["main~1", first],
    ["HEAD~", first],
    ["HEAD^0~1", first],
    ["origin/main^", first],
    ["both~0", first],
    [`${second}~1`, first],
    ["deadbee", first],
    ["release-gabc1234", first],
  ])("finds %p", async (base, id) => {
    repository.git("branch", "--force", "release-gabc1234", first);
    expect(await call(gitDiffBranches, { base, head: id })).toEqual({ diff: "" });
    expect(await call(gitLog, { ref: base, count: 1 })).toMatchObject({ commits: [{ id }] });
  });

  test("a local branch comes before a remote's of the same name, and neither replaces a full name", async () => {
    const own = new TestRepository();
    const one = own.commit("one");
    const two = own.commit("two");
    own.git("update-ref", "refs/remotes/origin/main", two);
    own.git("update-ref", "refs/heads/origin/main", one);
    own.git("update-ref", "refs/tags/refs/heads/main", one);
    own.git("update-ref", "refs/heads/HEAD", one);
    own.git("update-ref", `refs/${two.slice(0, 7)}`, one);
    const ids = async (ref: string) => await callTool(gitLog, own.directory, { ref, count: 1 });
    expect(await ids("origin/main")).toMatchObject({ commits: [{ id: one }] });
    expect(await ids("refs/remotes/origin/main")).toMatchObject({ commits: [{ id: two }] });
    for (const ref of ["main", "refs/heads/main", "HEAD"])
      expect(await ids(ref)).toMatchObject({ commits: [{ id: two }] });
    expect((await refusalFrom(ids(two.slice(0, 7)))).code).toBe("TARGET_REFUSED");
  });

  test("finds no blob, no tree and no tag object by id", async () => {
    for (const name of ["HEAD:a.txt", "HEAD^{tree}", "refs/tags/v1.0.0"]) {
      const base = repository.git("rev-parse", name);
      expect((await refusalFrom(call(gitDiffBranches, { base, head: "main" }))).code).toBe("TARGET_REFUSED");
    }
  });
});

describe("git_log", () => {
  test("lists commits, newest first, without e-mail addresses", async () => {
    expect(await call(gitLog, {})).toEqual({
      commits: [
        { id: second, author: "Ada Lovelace", date: "2024-02-03T04:05:06Z", subject: "two\ttabbed" },
        { id: first, author: "Ada Lovelace", date: "2024-02-03T04:05:06Z", subject: "one: café" },
      ].map(({ date, ...commit }) => ({ ...commit, date: expect.stringContaining(date.slice(0, 19)) })),
    });
  });

  test("lists as many as requested", async () => {
    expect(await call(gitLog, { ref: "main", count: 1 })).toMatchObject({ commits: [{ id: second }] });
    expect(await call(gitLog, { ref: "v1.0.0", count: 100 })).toMatchObject({ commits: [{ id: first }] });
  });

  test("a commit cannot imitate another: broken, empty and coloured fields stay fields", async () => {
    const tree = repository.git("rev-parse", "HEAD^{tree}");
    const ident = "\u001b[31mEve\tx <e@x> 1700000000 +0000";
    const raw = `tree ${tree}\nauthor ${ident}\ncommitter C <c@x> 1700000000 +0000\n\nfirst\u001b]0;line\nsecond\r\n\n${"a".repeat(40)}\n2020\nFake\nfake\n`;
    const hostile = repository.feed(raw, "hash-object", "-t", "commit", "-w", "--stdin", "--literally");
    const broken = repository.feed(
      `tree ${tree}\nparent ${hostile}\nauthor nobody\ncommitter nobody\n\n`,
      "hash-object",
      "-t",
      "commit",
      "-w",
      "--stdin",
      "--literally",
    );
    const answer = (await call(gitLog, { ref: broken })) as { readonly commits: readonly unknown[] };
    expect(answer.commits).toEqual([
      { id: broken, author: "", date: "", subject: "" },
      { id: hostile, author: "Eve\tx", date: expect.stringMatching(/^2023-/), subject: "first" },
    ]);
  });
});

describe("git_show_file", () => {
  test.each(FILES.filter((file) => !file.startsWith("-")))("shows %p", async (path) => {
    expect(await call(gitShowFile, { ref: "main", path })).toEqual({ content: `in ${path}\n` });
  });

  test("shows the file of that commit", async () => {
    expect(await call(gitShowFile, { ref: "v1.0.0", path: "a.txt" })).toEqual({ content: "alpha\n" });
    expect(await call(gitShowFile, { ref: "HEAD", path: "a.txt" })).toEqual({ content: "beta\n" });
  });

  test.each(["missing.txt", "größe", "a.txt/x", "*.txt", "*", "A.TXT"])("does not find %p", async (path) => {
    const refusal = await refusalFrom(call(gitShowFile, { ref: "main", path }));
    expect(refusal.code).toBe("TARGET_REFUSED");
    expect(refusal.details).toEqual({ status: "NOT_FOUND", lookup: "file", fields: ["path"] });
  });

  test("a path that reads like `git describe` does not reach an object outside the commit", async () => {
    const hidden = repository.feed("hidden\n", "hash-object", "-w", "--stdin");
    const refusal = await refusalFrom(call(gitShowFile, { ref: "main", path: `x-g${hidden}` }));
    expect(refusal.code).toBe("TARGET_REFUSED");
  });

  test("a symbolic link shows its target path, not the target's contents", async () => {
    const linked = new TestRepository();
    const target = `${temporaryDirectory()}/secret`;
    await Bun.write(target, "secret");
    linked.git("init", "--quiet");
    const { symlinkSync } = await import("node:fs");
    symlinkSync(target, `${linked.directory}/link`);
    linked.commit("link");
    expect(await callTool(gitShowFile, linked.directory, { ref: "main", path: "link" })).toEqual({ content: target });
  });

  test("bytes that are not text are shown as such", async () => {
    const binary = new TestRepository();
    await Bun.write(`${binary.directory}/x`, Uint8Array.from([0x61, 0xff, 0x00, 0x1b, 0x5b, 0x6d, 0x62]));
    binary.commit("binary");
    expect(await callTool(gitShowFile, binary.directory, { ref: "main", path: "x" })).toEqual({ content: "a\ufffdb" });
  });
});

test("a bare repository that is configured as one works", async () => {
  const bare = `${temporaryDirectory()}/bare.git`;
  repository.git("clone", "--quiet", "--bare", repository.directory, bare);
  expect(await callTool(gitShowFile, bare, { ref: "main", path: "a.txt" })).toEqual({ content: "beta\n" });
  expect(await callTool(gitLog, bare, { count: 1 })).toMatchObject({ commits: [{ id: second }] });
  expect(await callTool(gitDiffBranches, bare, { base: first, head: "main" })).toMatchObject({
    diff: expect.stringContaining("+beta"),
  });
});

test("a repository without commits finds nothing", async () => {
  const empty = new TestRepository();
  const refusal = await refusalFrom(callTool(gitLog, empty.directory, {}));
  expect(refusal.details).toMatchObject({ status: "NOT_FOUND", fields: ["ref"] });
});
