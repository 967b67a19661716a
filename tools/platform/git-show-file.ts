import { defineTool, type ToolConfig } from "safe-tool-call";
import { z } from "zod";
import {
  commitId,
  entryId,
  fileEntry,
  GIT_OPTIONS,
  git,
  gitConfinement,
  gitEnvironment,
  Ref,
  RepositoryPath,
} from "./git.ts";

export const gitShowFile = defineTool((config: ToolConfig) => ({
  name: "git_show_file",
  description:
    "Show a file of a known repository as it is in a branch, tag or commit. A symbolic link shows its target.",
  classification: "read",
  permissions: { required: ["platform:git:read"] },
  input: z.strictObject({ repo: config.oneOf("git", "repositories"), ref: Ref, path: RepositoryPath }),
  inputPolicy: { ref: "allow", path: "allow" },
  target: {
    system: "git",
    cli: {
      command: "git",
      cwd: ({ repo }) => config.repository(repo),
      environment: gitEnvironment(config),
      confinement: gitConfinement(config),
      options: [...GIT_OPTIONS, "-z", "--full-tree"],
      lookups: {
        id: commitId("ref"),
        // Not `<id>:<path>`: git reads a path that ends in `-g<digits>` as the object with those digits, in no commit at all.
        file: ({ path }, { id }) => fileEntry(id ?? "", path),
      },
      argsBuilder: (_input, { file }) => git("cat-file", "blob", entryId(file)),
    },
  },
  output: z.strictObject({ content: z.string() }),
  outputPolicy: { content: "allow" },
  idempotent: true,
  examples: {
    accepts: [{ repo: config.sample("git", "repositories"), ref: "main", path: "src/read me [1].txt" }],
    rejects: [
      { repo: config.sample("git", "repositories"), ref: "main", path: "../../etc/passwd" },
      { repo: config.sample("git", "repositories"), ref: "main", path: "sub/.GIT/config" },
      { repo: config.sample("git", "repositories"), ref: "main:README.md", path: "README.md" },
    ],
  },
}));
