import { defineTool, type ToolConfig } from "safe-tool-call";
import { z } from "zod";
import { commitId, GIT_OPTIONS, git, gitConfinement, gitEnvironment, NO_DRIVERS, Ref } from "./git.ts";

/** The difference between two commits as git's own defaults would show it, whatever the repository prefers. */
const SHAPE = ["--submodule=short", "--ignore-submodules=dirty", "-O/dev/null", "--src-prefix=a/", "--dst-prefix=b/"];

export const gitDiffBranches = defineTool((config: ToolConfig) => ({
  name: "git_diff_branches",
  description:
    "Show the difference between two branches, tags or commits of a known repository as a unified diff, from base to head.",
  classification: "read",
  permissions: { required: ["platform:git:read"] },
  input: z.strictObject({ repo: config.oneOf("git", "repositories"), base: Ref, head: Ref }),
  inputPolicy: { base: "allow", head: "allow" },
  target: {
    system: "git",
    cli: {
      command: "git",
      cwd: ({ repo }) => config.repository(repo),
      environment: gitEnvironment(config),
      confinement: gitConfinement(config),
      options: [...GIT_OPTIONS, ...NO_DRIVERS, ...SHAPE],
      lookups: { baseId: commitId("base"), headId: commitId("head") },
      argsBuilder: (_input, { baseId, headId }) => git("diff", ...NO_DRIVERS, ...SHAPE, baseId, headId, "--"),
    },
  },
  output: z.strictObject({ diff: z.string() }),
  outputPolicy: { diff: "allow" },
  idempotent: true,
  examples: {
    accepts: [
      { repo: config.sample("git", "repositories"), base: "main", head: "feature/x" },
      { repo: config.sample("git", "repositories"), base: "v1.0.0", head: "HEAD" },
      { repo: config.sample("git", "repositories"), base: "HEAD^", head: "refs/heads/main" },
    ],
    rejects: [
      { repo: config.sample("git", "repositories"), base: "--output=x", head: "main" },
      { repo: config.sample("git", "repositories"), base: "main..topic", head: "main" },
      { repo: config.sample("git", "repositories"), base: "main^{/fix}", head: "main" },
      { repo: "../elsewhere", base: "main", head: "topic" },
    ],
  },
}));
