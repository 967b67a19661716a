import { defineTool, type ToolConfig } from "safe-tool-call";
import { z } from "zod";
import { MountedPath, PATH_EXAMPLE } from "./fs-path.ts";

const ENTRIES_MAX = 1_000;
/** So many of the longest names, with room for what JSON escapes. */
const OUTPUT_BYTES_MAX = 4_194_304;

export const fsList = defineTool((config: ToolConfig) => ({
  name: "fs_list",
  description: `List a directory of the workspace. Mounts: ${config.workspaceMounts("read").join(", ")}.`,
  classification: "read",
  permissions: { required: ["workspace:fs:read"] },
  input: z.strictObject({
    path: MountedPath.describe("A directory, such as @project or @project/src"),
    all: z.boolean().default(false).describe("Also names that begin with a dot, and links"),
    maxEntries: z.int().min(1).max(ENTRIES_MAX).default(ENTRIES_MAX),
  }),
  inputPolicy: { path: "allow" },
  target: { system: "workspace", fs: { operation: "list" } },
  output: z.strictObject({
    path: z.string(),
    entries: z.array(
      z.strictObject({
        name: z.string(),
        type: z.enum(["file", "directory", "link", "other"]),
        bytes: z.int().optional().describe("Of a file"),
      }),
    ),
    truncated: z.boolean().describe("Whether the directory holds more than is listed"),
    skipped: z.int().describe("Names that are not listed: hidden, links, or not UTF-8"),
    hint: z.string().optional(),
  }),
  outputPolicy: { path: "allow", "entries[].*": "allow", truncated: "allow", skipped: "allow", hint: "allow" },
  limits: { outputBytesMax: OUTPUT_BYTES_MAX },
  idempotent: true,
  examples: {
    accepts: [{ path: PATH_EXAMPLE }, { path: "@project/src", all: true }],
    rejects: [{ path: "" }, { path: "@project", maxEntries: 0 }, {}],
  },
}));
