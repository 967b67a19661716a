import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { Tool } from "../../../../src/core/types.ts";
import { TestRepository } from "../../../tools/platform/repositories.ts";
import { standTool } from "../stand.ts";
import { temporaryDirectory } from "../temporary-directory.ts";
import { COMMANDS, type ConfinedStand, confinedStand, missing } from "./stand.ts";

/** Git without its own hardening in a hostile repository: only the kernel protects the service. */
const skipped = missing !== undefined || !COMMANDS.has("git");
const folder = temporaryDirectory();
const marker = join(folder, "marker");
const other = new TestRepository(made("other"));
const repository = new TestRepository(made("hostile"));
const gitDir = join(repository.directory, ".git");
let stand: ConfinedStand;

function made(name: string): string {
  mkdirSync(join(folder, name));
  return join(folder, name);
}

function git(...args: readonly string[]): Tool {
  const cli = {
    command: "git",
    options: args.filter((token) => token.startsWith("-")),
    cwd: () => repository.directory,
    argsBuilder: () => args,
    environment: { GIT_DIR: gitDir, GIT_WORK_TREE: repository.directory },
    confinement: { reads: [gitDir], runs: "command" },
    exitCodes: { 1: "OK", 128: "OK", 129: "OK" },
  } as const;
  return standTool(cli, z.strictObject({ text: z.string() }));
}

const said = async (...args: readonly string[]): Promise<string> =>
  z.object({ text: z.string() }).parse(await stand.call(git(...args))).text;

let foreign = "";

beforeAll(async () => {
  if (skipped) return;
  foreign = other.commit("foreign secret", { "a.txt": "foreign\n" });
  repository.commit("first", { "a.txt": "one\n", "secret.txt": "in the work tree\n" });
  repository.commit("second", { "a.txt": "two\n" });
  const evil = join(gitDir, "evil");
  writeFileSync(evil, `#!/bin/sh\ntouch ${marker}\necho ran\n`);
  chmodSync(evil, 0o755);
  for (const hook of ["post-index-change", "reference-transaction", "fsmonitor-watchman", "post-checkout"]) {
    writeFileSync(join(gitDir, "hooks", hook), `#!/bin/sh\ntouch ${marker}\n`, { mode: 0o755 });
  }
  writeFileSync(join(gitDir, "info/attributes"), "* diff=evil filter=evil\n");
  const settings = [
    `[core]\n\tfsmonitor = "${evil}"\n\tpager = "${evil}"\n\tsshCommand = "${evil}"\n`,
    `[diff "evil"]\n\tcommand = "${evil}"\n\ttextconv = "${evil}"\n[diff]\n\texternal = "touch ${marker}; echo ran"\n`,
    `[filter "evil"]\n\tclean = "touch ${marker}"\n\tsmudge = "touch ${marker}"\n\tprocess = "${evil}"\n`,
    `[alias]\n\town = "!touch ${marker}; echo ran"\n[log]\n\tshowSignature = true\n[gpg]\n\tprogram = "${evil}"\n`,
    `[include]\n\tpath = "${join(other.directory, ".git/config")}"\n[remote "o"]\n\turl = "ext::sh -c touch% ${marker}"\n`,
  ];
  writeFileSync(join(gitDir, "config"), settings.join(""), { flag: "a" });
  writeFileSync(join(gitDir, "objects/info/alternates"), `${join(other.directory, ".git/objects")}\n`);
  symlinkSync(join(other.directory, ".git/refs/heads/main"), join(gitDir, "refs/heads/stolen"));
  stand = await confinedStand([git("log")]);
});
afterAll(() => stand?.close());

describe.skipIf(skipped)(`git on a hostile repository (${missing ?? "held"})`, () => {
  test.each([
    ["diff", ["diff", "HEAD~1", "HEAD"]],
    ["diff with its drivers", ["diff", "--ext-diff", "--textconv", "HEAD~1", "HEAD"]],
    ["log with patches", ["log", "-p", "--ext-diff", "--textconv"]],
    ["status", ["status"]],
    ["add", ["add", "a.txt"]],
    ["an alias that is a command", ["own"]],
    ["a paged log", ["--paginate", "log"]],
    ["a fetch", ["-c", "protocol.ext.allow=always", "fetch", "o"]],
    ["a commit", ["commit", "--allow-empty", "-m", "x"]],
    ["garbage collection", ["gc", "--auto"]],
    ["a checkout", ["checkout", "HEAD~1"]],
    ["a program from the command line", ["-c", `core.sshCommand=touch ${marker}`, "ls-remote", "ssh://x/y"]],
  ] as const)("%s starts nothing from it", async (_title, args) => {
    await stand.call(git(...args)).catch(() => {});
    expect(existsSync(marker)).toBe(false);
  });

  test("unconfined, the same repository starts its programs", async () => {
    const unheld = await confinedStand([git("log")], { mode: "off" });
    await unheld.call(git("diff", "--ext-diff", "HEAD~1", "HEAD")).catch(() => {});
    await unheld.close();
    expect(existsSync(marker)).toBe(true);
    rmSync(marker);
  });

  test("it shows neither another repository's objects nor the work tree", async () => {
    expect(await said("--no-pager", "cat-file", "-p", foreign)).not.toContain("foreign");
    expect(await said("--no-pager", "log", "stolen")).not.toContain("foreign");
    expect(await said("--no-pager", "diff", "--no-index", "/dev/null", "secret.txt")).not.toContain("in the work tree");
  });
});

describe.skipIf(skipped)("git on an honest repository", () => {
  test("answers as usual", async () => {
    const honest = new TestRepository(made("honest"));
    const id = honest.commit("an honest commit", { "a.txt": "x\n" });
    const dir = join(honest.directory, ".git");
    const tool: Tool = {
      ...git("log"),
      target: {
        system: "git",
        cli: {
          command: "git",
          options: ["--no-pager", "--format=%H %s"],
          cwd: () => honest.directory,
          argsBuilder: () => ["--no-pager", "log", "--format=%H %s"],
          environment: { GIT_DIR: dir, GIT_WORK_TREE: honest.directory },
          confinement: { reads: [dir], runs: "command" },
        },
      },
    };
    expect(await stand.call(tool)).toEqual({ text: `${id} an honest commit\n` });
  });
});
