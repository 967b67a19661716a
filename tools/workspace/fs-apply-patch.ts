import { defineTool, type ToolConfig } from "safe-tool-call";
import { z } from "zod";
import { MountedPath, Sha256 } from "./fs-path.ts";

const DIFF_CHARACTERS_MAX = 1_048_576;
const KEYS_MAX = 64;
const Key = z.string().min(1).max(128);

const UpdateFrontmatter = z.strictObject({
  operation: z.literal("updateFrontmatter"),
  set: z.record(Key, z.unknown()).optional().describe("Keys of the frontmatter and their new values"),
  unset: z.array(Key).max(KEYS_MAX).optional().describe("Keys to take away"),
});

const ApplyDiff = z.strictObject({
  operation: z.literal("unifiedDiff"),
  diff: z
    .string()
    .min(1)
    .max(DIFF_CHARACTERS_MAX)
    .refine((text) => text.isWellFormed(), "must hold no lone surrogate")
    .describe("Hunks for this one file; context and removed lines must stand in it exactly"),
});

export const fsApplyPatch = defineTool((config: ToolConfig) => ({
  name: "fs_apply_patch",
  description: `Change part of a text file of the workspace: by a unified diff, or keys of its YAML frontmatter. Mounts: ${config.workspaceMounts("write").join(", ")}.`,
  classification: "write",
  permissions: { required: ["workspace:fs:write"] },
  input: z.strictObject({
    path: MountedPath.describe("A file, such as @project/src/main.ts or @state/workflow.md"),
    patch: z.discriminatedUnion("operation", [UpdateFrontmatter, ApplyDiff]),
    ifMatchSha256: Sha256.optional().describe("The file must still have this hash"),
  }),
  inputPolicy: { path: "allow", ifMatchSha256: "allow" },
  approval: { message: "Changes this file of the workspace." },
  target: { system: "workspace", fs: { operation: "apply_patch" } },
  output: z.strictObject({
    path: z.string(),
    sha256: z.string().describe("Of the file as it is now"),
    bytes: z.int(),
    created: z.boolean(),
    changed: z.boolean().describe("false: the patch changed nothing"),
  }),
  outputPolicy: { path: "allow", sha256: "allow", bytes: "allow", created: "allow", changed: "allow" },
  examples: {
    accepts: [
      { path: "@project/a.txt", patch: { operation: "unifiedDiff" as const, diff: "@@ -1 +1 @@\n-old\n+new\n" } },
      {
        path: "@state/workflow.md",
        patch: { operation: "updateFrontmatter" as const, set: { currentNodeId: "review" } },
      },
    ],
    rejects: [
      { path: "@project/a.txt", patch: { operation: "remove" } },
      { path: "@project/a.txt", patch: { operation: "unifiedDiff" } },
    ],
  },
}));
