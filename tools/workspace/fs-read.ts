import { defineTool, type ToolConfig } from "safe-tool-call";
import { z } from "zod";
import { MountedPath } from "./fs-path.ts";

const LINE_MAX = 1_000_000_000;
/** More than a read may hold, with room for what JSON escapes. */
const OUTPUT_BYTES_MAX = 8_388_608;

export const fsRead = defineTool((config: ToolConfig) => ({
  name: "fs_read",
  description: `Read a text file of the workspace, whole or a window of lines; sha256 is that of the whole file. Mounts: ${config.workspaceMounts("read").join(", ")}.`,
  classification: "read",
  permissions: { required: ["workspace:fs:read"] },
  input: z
    .strictObject({
      path: MountedPath.describe("A file, such as @project/README.md"),
      startLine: z.int().min(1).max(LINE_MAX).optional().describe("First line, counted from 1"),
      endLine: z.int().min(1).max(LINE_MAX).optional().describe("Last line, included"),
    })
    .refine(({ startLine = 1, endLine = LINE_MAX }) => startLine <= endLine, {
      path: ["endLine"],
      error: "must not come before startLine",
    }),
  inputPolicy: { path: "allow" },
  target: { system: "workspace", fs: { operation: "read" } },
  output: z.strictObject({
    path: z.string(),
    content: z.string(),
    sha256: z.string().describe("Of the whole file: the ifMatchSha256 of a write"),
    bytes: z.int().describe("Of the whole file"),
    binary: z.boolean().describe("Whether the file is no UTF-8 text; its content is then empty"),
    startLine: z.int().describe("The first line of the content; 0 when there is none"),
    endLine: z.int().describe("The last line of the content"),
    totalLines: z.int(),
    truncated: z.boolean().describe("Whether lines that were asked for are left out"),
    hint: z.string().optional(),
  }),
  outputPolicy: {
    ...{ path: "allow", content: "allow", sha256: "allow", bytes: "allow", binary: "allow" },
    ...{ startLine: "allow", endLine: "allow", totalLines: "allow", truncated: "allow", hint: "allow" },
  },
  limits: { outputBytesMax: OUTPUT_BYTES_MAX },
  idempotent: true,
  examples: {
    accepts: [{ path: "@project/README.md" }, { path: "@project/src/main.ts", startLine: 10, endLine: 40 }],
    rejects: [{ path: "" }, { path: "@project/x", startLine: 0 }, { path: "@project/x", startLine: 9, endLine: 8 }],
  },
}));
