import { expect } from "bun:test";
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inspectRepository, repositoryFault } from "../../../src/targets/command/git-repository.ts";
import { test } from "../../support/git-tests.ts";
import { TestRepository } from "../../tools/platform/repositories.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

test("a repository with its work tree", () => {
  const { directory } = new TestRepository();
  expect(inspectRepository(directory)).toEqual({ gitDir: join(directory, ".git"), workTree: directory });
  expect(repositoryFault(directory)).toBeUndefined();
});

test("a bare repository", () => {
  const repository = new TestRepository();
  const bare = join(temporaryDirectory(), "bare.git");
  repository.git("clone", "--quiet", "--bare", repository.directory, bare);
  expect(inspectRepository(bare)).toEqual({ gitDir: bare });
});

test("a repository with a borrowed work tree, and an empty alternates file", () => {
  const repository = new TestRepository();
  repository.commit("one");
  repository.git("worktree", "add", "--quiet", join(temporaryDirectory(), "linked"));
  writeFileSync(join(repository.directory, ".git/objects/info/alternates"), "");
  expect(repositoryFault(repository.directory)).toBeUndefined();
});

const BROKEN: Readonly<Record<string, (directory: string) => string>> = {
  "a relative path": () => "some/repository",
  "nothing there": (directory) => join(directory, "missing"),
  "a file": (directory) => join(directory, ".git/HEAD"),
  "a plain directory": () => temporaryDirectory(),
  "a directory inside a repository": (directory) => made(join(directory, "src")),
  "a link to a repository": (directory) => linked(directory),
  "a .git file": (directory) => {
    rmSync(join(directory, ".git"), { recursive: true });
    writeFileSync(join(directory, ".git"), "gitdir: /elsewhere\n");
    return directory;
  },
  "a .git link": (directory) => moved(directory, ".git"),
  "linked objects": (directory) => moved(directory, ".git/objects"),
  "linked refs": (directory) => moved(directory, ".git/refs"),
  "a linked HEAD": (directory) => moved(directory, ".git/HEAD"),
  "linked settings": (directory) => moved(directory, ".git/config"),
  "linked packs": (directory) => moved(directory, ".git/objects/pack"),
  "linked branches": (directory) => moved(directory, ".git/refs/heads"),
  "a linked object directory": (directory) => {
    symlinkSync(temporaryDirectory(), join(directory, ".git/objects/ab"));
    return directory;
  },
  alternates: (directory) => written(directory, ".git/objects/info/alternates"),
  "http alternates": (directory) => written(directory, ".git/objects/info/http-alternates"),
  commondir: (directory) => written(directory, ".git/commondir"),
};

function made(directory: string): string {
  mkdirSync(directory);
  return directory;
}

function linked(directory: string): string {
  const link = join(temporaryDirectory(), "link");
  symlinkSync(directory, link);
  return link;
}

function moved(directory: string, part: string): string {
  const place = join(temporaryDirectory(), "moved");
  renameSync(join(directory, part), place);
  symlinkSync(place, join(directory, part));
  return directory;
}

function written(directory: string, file: string): string {
  writeFileSync(join(directory, file), "/elsewhere\n");
  return directory;
}

test.each(Object.entries(BROKEN))("%s is refused", (_title, arrange) => {
  const path = arrange(new TestRepository().directory);
  expect(inspectRepository(path)).toEqual({ fault: expect.any(String) });
  expect(repositoryFault(path)).toBeString();
});
