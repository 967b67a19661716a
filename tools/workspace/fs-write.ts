import { defineTool, type ToolConfig } from "safe-tool-call";
import { z } from "zod";
import { MountedPath, Sha256 } from "./fs-path.ts";

/** The bound in bytes is the configuration's; this one keeps what is no content at all out. */
const CONTENT_CHARACTERS_MAX = 1_048_576;

export const fsWrite = defineTool((config: ToolConfig) => ({
  name: "fs_write",
  description: `Write a whole text file of the workspace, new or in place of what it held. Read it first and send its sha256 as ifMatchSha256, so that nobody's change is lost. Mounts: ${config.workspaceMounts("write").join(", ")}.`,
  classification: "write",
  permissions: { required: ["workspace:fs:write"] },
  input: z.strictObject({
    path: MountedPath.describe("A file, such as @project/notes.md"),
    content: z
      .string()
      .max(CONTENT_CHARACTERS_MAX)
      .refine((text) => text.isWellFormed(), "must hold no lone surrogate"),
    ifMatchSha256: Sha256.optional().describe("The file must still have this hash"),
    createDirectories: z.boolean().default(false).describe("Make the directories that the path needs"),
  }),
  inputPolicy: { path: "allow", ifMatchSha256: "allow" },
  approval: { message: "Writes this file of the workspace." },
  target: { system: "workspace", fs: { operation: "write" } },
  output: z.strictObject({
    path: z.string(),
    sha256: z.string().describe("Of the file as it is now"),
    bytes: z.int(),
    created: z.boolean(),
    changed: z.boolean().describe("false: the file held this content already"),
  }),
  outputPolicy: { path: "allow", sha256: "allow", bytes: "allow", created: "allow", changed: "allow" },
  examples: {
    accepts: [
      { path: "@project/notes.md", content: "# Notes\n" },
      { path: "@state/plan.md", content: "", ifMatchSha256: "0".repeat(64) },
    ],
    rejects: [{ path: "@project/x" }, { path: "@project/x", content: "y", ifMatchSha256: "abc" }],
  },
}));
