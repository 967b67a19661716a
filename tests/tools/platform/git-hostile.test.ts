import { expect } from "bun:test";
import { appendFileSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Refusal } from "../../../src/core/errors.ts";
import { gitDiffBranches } from "../../../tools/platform/git-diff-branches.ts";
import { gitLog } from "../../../tools/platform/git-log.ts";
import { gitShowFile } from "../../../tools/platform/git-show-file.ts";
import { describe, test } from "../../support/git-tests.ts";
import { temporaryDirectory } from "../../targets/command/temporary-directory.ts";
import { Canary, callTool, TestRepository } from "./repositories.ts";

interface Trap {
  readonly config?: (program: string) => string;
  readonly attributes?: string;
  readonly hooks?: readonly string[];
  readonly arrange?: (repository: TestRepository, program: string) => void;
  /** What springs the trap when git is asked without care; absent where only another version or a terminal would. */
  readonly plainly?: readonly string[];
  /** The repository is damaged as well, so a call may end in a refusal. */
  readonly mayRefuse?: true;
}

const TRAPS: Readonly<Record<string, Trap>> = {
  "diff.external": { plainly: ["diff", "HEAD~1", "HEAD"], config: (program) => `[diff]\n\texternal = ${program}\n` },
  "a diff driver's command": {
    plainly: ["diff", "HEAD~1", "HEAD"],
    config: (program) => `[diff "x"]\n\tcommand = ${program}\n`,
    attributes: "* diff=x\n",
  },
  "a diff driver's textconv": {
    plainly: ["diff", "HEAD~1", "HEAD"],
    config: (program) => `[diff "x"]\n\ttextconv = ${program}\n\tcachetextconv = true\n`,
    attributes: "* diff=x\n",
  },
  "a filter's clean, smudge and process": {
    // `status` filters only a file that looks changed since the index was written; the clock decides that.
    plainly: ["hash-object", "a.txt"],
    config: (program) =>
      `[filter "x"]\n\tclean = ${program}\n\tsmudge = ${program}\n\tprocess = ${program}\n\trequired = true\n`,
    attributes: "* filter=x\n",
  },
  "a merge driver": { config: (program) => `[merge "x"]\n\tdriver = ${program}\n`, attributes: "* merge=x\n" },
  "core.fsmonitor": {
    plainly: ["status"],
    config: (program) => `[core]\n\tfsmonitor = ${program}\n\tuntrackedCache = true\n`,
  },
  "pagers and editors": {
    config: (program) =>
      `[core]\n\tpager = ${program}\n\teditor = ${program}\n\taskPass = ${program}\n[pager]\n\tdiff = ${program}\n\tlog = ${program}\n\tcat-file = ${program}\n\tls-tree = ${program}\n\trev-parse = ${program}\n[interactive]\n\tdiffFilter = ${program}\n`,
  },
  "aliases of the verbs": {
    config: (program) =>
      `[alias]\n${["diff", "log", "cat-file", "ls-tree", "rev-parse"].map((verb) => `\t${verb} = "!${program}"\n`).join("")}`,
  },
  "gpg.program with log.showSignature": {
    plainly: ["log"],
    arrange: sign,
    config: (program) =>
      `[gpg]\n\tprogram = ${program}\n[gpg "ssh"]\n\tprogram = ${program}\n[log]\n\tshowSignature = true\n[format]\n\tpretty = %G? %GS\n`,
  },
  "core.hooksPath": {
    plainly: ["status"],
    config: (program) => `[core]\n\thooksPath = ${join(program, "..")}\n`,
    hooks: ["post-index-change", "reference-transaction", "fsmonitor-watchman"],
  },
  "core.sshCommand, gitProxy and credential helpers": {
    config: (program) =>
      `[core]\n\tsshCommand = ${program}\n\tgitProxy = ${program}\n\talternateRefsCommand = ${program}\n[credential]\n\thelper = ${program}\n`,
  },
  "a promisor remote over ext::": {
    plainly: ["diff", "HEAD~1", "HEAD"],
    config: (program) =>
      `[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = evil\n[remote "evil"]\n\turl = ext::${program} %S\n\tpromisor = true\n\tpartialclonefilter = blob:none\n[protocol]\n\tallow = always\n`,
    arrange: forgetBlobs,
    mayRefuse: true,
  },
  "a promisor remote with an upload-pack of its own": {
    plainly: ["diff", "HEAD~1", "HEAD"],
    config: (program) =>
      `[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = evil\n[remote "evil"]\n\turl = /tmp\n\tuploadpack = ${program}\n\tpromisor = true\n[protocol "file"]\n\tallow = always\n`,
    arrange: forgetBlobs,
    mayRefuse: true,
  },
  "a promisor remote over ssh": {
    plainly: ["diff", "HEAD~1", "HEAD"],
    config: (program) =>
      `[core]\n\trepositoryformatversion = 1\n\tsshCommand = ${program}\n[extensions]\n\tpartialClone = evil\n[remote "evil"]\n\turl = evil@localhost:x\n\tpromisor = true\n[protocol "ssh"]\n\tallow = always\n`,
    arrange: forgetBlobs,
    mayRefuse: true,
  },
  "settings that include others": {
    plainly: ["diff", "HEAD~1", "HEAD"],
    config: (program) => `[include]\n\tpath = ${join(program, "../included")}\n`,
    arrange: (_repository, program) => writeFileSync(join(program, "../included"), `[diff]\n\texternal = ${program}\n`),
  },
  "settings of a work tree": {
    plainly: ["diff", "HEAD~1", "HEAD"],
    config: () => "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n",
    arrange: ({ directory }, program) =>
      writeFileSync(
        join(directory, ".git/config.worktree"),
        `[diff]\n\texternal = ${program}\n[core]\n\tfsmonitor = ${program}\n`,
      ),
  },
  "a submodule that is shown by a program": {
    plainly: ["diff", "HEAD~1", "HEAD"],
    config: () => "[diff]\n\tsubmodule = diff\n[submodule]\n\trecurse = true\n",
    arrange(repository, program) {
      const inner = new TestRepository(mkdirp(join(repository.directory, "sub")));
      inner.commit("inner", { x: "x" });
      repository.commit("with a submodule");
      inner.commit("inner two", { x: "y" });
      repository.commit("with a newer submodule");
      appendFileSync(join(inner.directory, ".git/config"), `[diff]\n\texternal = ${program}\n`);
    },
  },
};

/** Gives the last commit a signature that somebody would have to verify. */
function sign(repository: TestRepository): void {
  const signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n AAAA\n -----END PGP SIGNATURE-----\n\n";
  const signed = `${repository.git("cat-file", "commit", "HEAD")}\n`.replace("\n\n", () => `\n${signature}`);
  repository.git(
    "update-ref",
    "refs/heads/main",
    repository.feed(signed, "hash-object", "-t", "commit", "-w", "--stdin"),
  );
}

function mkdirp(directory: string): string {
  mkdirSync(directory, { recursive: true });
  return directory;
}

/** Takes every object away that only file contents need, so that showing them would fetch. */
function forgetBlobs(repository: TestRepository): void {
  for (const name of ["HEAD:a.txt", "HEAD~1:a.txt"]) {
    const id = repository.git("rev-parse", name);
    rmSync(join(repository.directory, ".git/objects", id.slice(0, 2), id.slice(2)), { force: true });
  }
}

function sprung({ config, attributes, hooks, arrange }: Trap, canary: Canary): TestRepository {
  const repository = new TestRepository();
  repository.commit("one", { "a.txt": "alpha\n", ...(attributes !== undefined && { ".gitattributes": attributes }) });
  repository.commit("two", { "a.txt": "beta\n" });
  arrange?.(repository, canary.program);
  const directories = [join(repository.directory, ".git/hooks"), join(canary.program, "..")];
  for (const directory of directories) {
    mkdirSync(directory, { recursive: true });
    for (const hook of hooks ?? [])
      writeFileSync(join(directory, hook), `#!/bin/sh\nexec '${canary.program}'\n`, { mode: 0o755 });
  }
  if (config !== undefined) appendFileSync(join(repository.directory, ".git/config"), config(canary.program));
  // The work tree is dirty, so whatever would compare it has a reason to.
  repository.write("a.txt", "dirty\n");
  return repository;
}

describe("no program that a repository names ever runs", () => {
  test.each(Object.entries(TRAPS))("%s", async (_title, trap) => {
    const canary = new Canary();
    const { directory } = sprung(trap, canary);
    const before = readdirSync(join(directory, ".git")).sort();
    const calls = [
      callTool(gitDiffBranches, directory, { base: "main", head: "main" }),
      callTool(gitDiffBranches, directory, { base: await idOf(directory, 1), head: "main" }),
      callTool(gitLog, directory, {}),
      callTool(gitShowFile, directory, { ref: "main", path: "a.txt" }),
      callTool(gitShowFile, directory, { ref: "main", path: "missing" }).catch(expectRefusal),
    ];
    const endings = await Promise.allSettled(calls);
    expect(canary.sang()).toBe(false);
    for (const ending of endings) {
      if (ending.status === "fulfilled") continue;
      expectRefusal(ending.reason);
      expect(trap.mayRefuse).toBe(true);
    }
    expect(readdirSync(join(directory, ".git")).sort()).toEqual(before);
  });

  test.each(Object.entries(TRAPS).filter(([, { plainly }]) => plainly !== undefined))(
    "the trap works: %s",
    (_title, trap) => {
      const canary = new Canary();
      const repository = sprung(trap, canary);
      try {
        repository.git(...(trap.plainly ?? []));
      } catch {
        // The canary is no good differ, filter or transport, so git may fail after it sang.
      }
      expect(canary.sang()).toBe(true);
    },
  );
});

async function idOf(directory: string, index: number): Promise<string> {
  const { commits } = (await callTool(gitLog, directory, {})) as {
    readonly commits: readonly { readonly id: string }[];
  };
  return commits[index]?.id ?? "";
}

function expectRefusal(error: unknown): void {
  expect(error).toBeInstanceOf(Refusal);
}

describe("nothing outside the repository is shown", () => {
  const secret = () => {
    const file = join(temporaryDirectory(), "secret");
    writeFileSync(file, "top secret\n");
    return file;
  };

  test("a replaced object does not replace the commit's own", async () => {
    const repository = new TestRepository();
    repository.commit("one", { "a.txt": "alpha\n" });
    const other = repository.feed("replaced\n", "hash-object", "-w", "--stdin");
    repository.git("replace", repository.git("rev-parse", "HEAD:a.txt"), other);
    expect(await callTool(gitShowFile, repository.directory, { ref: "main", path: "a.txt" })).toEqual({
      content: "alpha\n",
    });
  });

  test("grafts do not change history", async () => {
    const repository = new TestRepository();
    repository.commit("one");
    const second = repository.commit("two");
    mkdirSync(join(repository.directory, ".git/info"), { recursive: true });
    writeFileSync(join(repository.directory, ".git/info/grafts"), `${second}\n`);
    expect(await callTool(gitLog, repository.directory, {})).toMatchObject({
      commits: [{ subject: "two" }, { subject: "one" }],
    });
  });

  test("core.worktree elsewhere is not used", async () => {
    const repository = new TestRepository();
    repository.commit("one", { "a.txt": "alpha\n" });
    appendFileSync(join(repository.directory, ".git/config"), `[core]\n\tworktree = ${join(secret(), "..")}\n`);
    expect(await callTool(gitShowFile, repository.directory, { ref: "main", path: "a.txt" })).toEqual({
      content: "alpha\n",
    });
  });

  test("diff.orderFile is not opened", async () => {
    const repository = new TestRepository();
    const base = repository.commit("one", { "a.txt": "alpha\n" });
    repository.commit("two", { "a.txt": "beta\n" });
    appendFileSync(
      join(repository.directory, ".git/config"),
      "[diff]\n\torderFile = /nonexistent/order\n\tnoprefix = true\n[color]\n\tui = always\n",
    );
    expect(await callTool(gitDiffBranches, repository.directory, { base, head: "main" })).toMatchObject({
      diff: expect.stringMatching(/^diff --git a\/a\.txt b\/a\.txt\n/),
    });
  });

  test("a reference that is a link to a file shows none of its contents", async () => {
    const repository = new TestRepository();
    repository.commit("one");
    const { symlinkSync } = await import("node:fs");
    const file = secret();
    symlinkSync(file, join(repository.directory, ".git/refs/heads/evil"));
    const error: unknown = await callTool(gitLog, repository.directory, { ref: "evil" }).catch(
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(Refusal);
    expect(JSON.stringify(error) + String(error)).not.toContain("secret");
  });

  test("objects borrowed after the start stop the next call", async () => {
    const lender = new TestRepository();
    lender.commit("theirs", { "a.txt": "theirs\n" });
    const repository = new TestRepository();
    repository.commit("ours");
    expect(await callTool(gitLog, repository.directory, {})).toMatchObject({ commits: [{ subject: "ours" }] });
    mkdirSync(join(repository.directory, ".git/objects/info"), { recursive: true });
    writeFileSync(join(repository.directory, ".git/objects/info/alternates"), `${lender.directory}/.git/objects\n`);
    expect(existsSync(join(repository.directory, ".git/objects/info/alternates"))).toBe(true);
    await expect(callTool(gitLog, repository.directory, {})).rejects.toThrow("points to another location");
  });
});
