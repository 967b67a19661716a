import { defineTool, type ToolConfig } from "safe-tool-call";
import { z } from "zod";
import { commitId, GIT_OPTIONS, git, gitConfinement, gitEnvironment, NO_DRIVERS, ObjectId, Ref } from "./git.ts";

const COMMITS_MAX = 100;

/** One field a line. E-mail addresses are never asked for. */
const FORMAT = "--format=%H%n%aI%n%an%n%s";
const QUIET = ["--no-show-signature", "--no-mailmap", "--no-notes", "--no-decorate", "--no-patch", "--encoding=UTF-8"];

const Commit = z.strictObject({
  id: ObjectId,
  author: z.string(),
  date: z.string().describe("When the author wrote it, ISO 8601; empty when the commit does not say"),
  subject: z.string(),
});

export const gitLog = defineTool((config: ToolConfig) => ({
  name: "git_log",
  description: "List the latest commits of a branch, tag or commit of a known repository, newest first.",
  classification: "read",
  permissions: { required: ["platform:git:read"] },
  input: z.strictObject({
    repo: config.oneOf("git", "repositories"),
    ref: Ref.default("HEAD"),
    count: z.number().int().min(1).max(COMMITS_MAX).default(20),
  }),
  inputPolicy: { ref: "allow" },
  target: {
    system: "git",
    cli: {
      command: "git",
      cwd: ({ repo }) => config.repository(repo),
      environment: gitEnvironment(config),
      confinement: gitConfinement(config),
      options: [...GIT_OPTIONS, ...NO_DRIVERS, ...QUIET, "--format=", "--max-count="],
      lookups: { id: commitId("ref") },
      argsBuilder: ({ count }, { id }) => git("log", ...NO_DRIVERS, ...QUIET, FORMAT, `--max-count=${count}`, id, "--"),
      parse: commits,
    },
  },
  output: z.strictObject({ commits: z.array(Commit).max(COMMITS_MAX) }),
  outputPolicy: {
    "commits[].id": "allow",
    "commits[].author": "allow",
    "commits[].date": "allow",
    "commits[].subject": "allow",
  },
  idempotent: true,
  examples: {
    accepts: [
      { repo: config.sample("git", "repositories") },
      { repo: config.sample("git", "repositories"), ref: "release/1.2", count: 5 },
      { repo: config.sample("git", "repositories"), ref: "origin/main~2" },
    ],
    rejects: [
      { repo: config.sample("git", "repositories"), ref: "--all" },
      { repo: config.sample("git", "repositories"), ref: "main@{1}" },
      { repo: config.sample("git", "repositories"), count: COMMITS_MAX + 1 },
    ],
  },
}));

function commits(stdout: string): { commits: readonly z.input<typeof Commit>[] } {
  const lines = stdout.split("\n").slice(0, -1);
  const list = [];
  for (let at = 0; at < lines.length; at += 4) {
    const [id = "", date = "", author = "", subject = ""] = lines.slice(at, at + 4);
    // Git leaves the placeholder where a commit has no readable date.
    list.push({ id, author, date: date.startsWith("%") ? "" : date, subject });
  }
  return { commits: list };
}
