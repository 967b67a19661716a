import { existsSync, mkdirSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ToolConfig, ToolFactory } from "safe-tool-call";
import { z } from "zod";
import { inspectRepository, repositoryFault } from "../../../src/targets/command/git-repository.ts";
import { cliHandler } from "../../../src/targets/command/handler.ts";
import { hasGit } from "../../support/git-tests.ts";
import { temporaryDirectory } from "../../targets/command/temporary-directory.ts";

const GIT = hasGit ? realpathSync(Bun.which("git") ?? "") : "";
const ENVIRONMENT = {
  PATH: "/usr/local/bin:/usr/bin:/bin",
  HOME: "/nonexistent",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_AUTHOR_NAME: "Ada Lovelace",
  GIT_AUTHOR_EMAIL: "ada@example.org",
  GIT_AUTHOR_DATE: "2024-02-03T04:05:06+00:00",
  GIT_COMMITTER_NAME: "Ada Lovelace",
  GIT_COMMITTER_EMAIL: "ada@example.org",
  GIT_COMMITTER_DATE: "2024-02-03T04:05:06+00:00",
};

/** A real repository that a test fills. */
export class TestRepository {
  readonly directory: string;

  constructor(directory = temporaryDirectory()) {
    this.directory = directory;
    this.git("init", "--quiet", "--initial-branch=main", ".");
  }

  git(...args: readonly string[]): string {
    return this.feed("", ...args);
  }

  /** The trimmed output of git, which reads `stdin`. */
  feed(stdin: string, ...args: readonly string[]): string {
    // The tests that would look at it are skipped.
    if (!hasGit) return "";
    const { exitCode, stdout, stderr } = Bun.spawnSync([GIT, "-C", this.directory, ...args], {
      env: ENVIRONMENT,
      stdin: Buffer.from(stdin),
    });
    if (exitCode !== 0) throw new Error(`git ${args.join(" ")}: ${stderr}`);
    return stdout.toString().trim();
  }

  write(path: string, content: string): void {
    const file = join(this.directory, path);
    mkdirSync(join(file, ".."), { recursive: true });
    writeFileSync(file, content);
  }

  /** Commits these files and returns the commit's id. */
  commit(subject: string, files: Readonly<Record<string, string>> = {}): string {
    for (const [path, content] of Object.entries(files)) this.write(path, content);
    this.git("--literal-pathspecs", "add", "--all");
    this.git("commit", "--quiet", "--allow-empty", "-m", subject);
    return this.git("rev-parse", "HEAD");
  }
}

/** What the configuration would offer for one repository named `self`. */
export function configFor(directory: string): ToolConfig {
  const place = inspectRepository(directory);
  if ("fault" in place) throw new Error(place.fault);
  return {
    oneOf: () => z.enum(["self"]),
    sample: () => "self",
    repository: () => place.workTree ?? place.gitDir,
    gitDirectory: () => place.gitDir,
    setting: () => "",
    path: () => "",
    shellWorkspace: () => place.workTree ?? place.gitDir,
    workspaceMounts: () => ["@project"],
    has: () => false,
  };
}

const caller = { issuer: "https://idp.test", subject: "agent", permissions: [], actors: [], expiresAt: 0 };

/** Parses, plans, runs and parses again, as the road does. */
export async function callTool(
  factory: ToolFactory,
  directory: string,
  args: Readonly<Record<string, unknown>>,
): Promise<unknown> {
  const tool = factory.make(configFor(directory));
  const handler = cliHandler({
    commands: new Map([["git", GIT]]),
    emptyDirectory: temporaryDirectory(),
    inspections: new Map([["git", repositoryFault]]),
    now: () => 0,
    newId: () => crypto.randomUUID(),
  });
  const signal = new AbortController().signal;
  const binding = handler.bind(tool);
  const plan = await binding.plan(tool.input.parse({ repo: "self", ...args }), { signal });
  return tool.output.parse(await binding.run(plan, { signal, deadline: 20_000, traceId: "trace", caller }));
}

/** A program that leaves a mark when it runs, as every hostile setting here names it. */
export class Canary {
  readonly #mark: string;
  readonly program: string;

  constructor() {
    const directory = temporaryDirectory();
    this.#mark = join(directory, "sang");
    this.program = join(directory, "canary.sh");
    writeFileSync(this.program, `#!/bin/sh\necho "$0 $*" >> '${this.#mark}'\nexit 1\n`, { mode: 0o755 });
  }

  sang(): boolean {
    return existsSync(this.#mark);
  }
}
