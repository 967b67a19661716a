import { defineTool, type ToolConfig } from "safe-tool-call";
import { z } from "zod";
import { MountedPath } from "./fs-path.ts";

const PATTERN_CHARACTERS_MAX = 1_000;
const CONTEXT_LINES_MAX = 20;
const MATCHES_MAX = 1_000;
const MATCHES_DEFAULT = 100;

const contextLines = z.int().min(0).max(CONTEXT_LINES_MAX).default(0);

export const fsSearch = defineTool((config: ToolConfig) => ({
  name: "fs_search",
  description: `Find lines of the workspace's text files by an RE2 expression or literal text. Files that .gitignore names, hidden files and links are left out. Mounts: ${config.workspaceMounts("read").join(", ")}.`,
  classification: "read",
  permissions: { required: ["workspace:fs:read"] },
  input: z.strictObject({
    path: MountedPath.describe("A directory or file, such as @project/src"),
    pattern: z
      .string()
      .min(1)
      .max(PATTERN_CHARACTERS_MAX)
      .refine((text) => text.isWellFormed() && !/[\0\n]/.test(text), "must be one line"),
    literal: z.boolean().default(false).describe("Take the pattern as it is written, not as an expression"),
    ignoreCase: z.boolean().default(false),
    before: contextLines.describe("Lines of context before each match"),
    after: contextLines.describe("Lines of context after each match"),
    maxMatches: z.int().min(1).max(MATCHES_MAX).default(MATCHES_DEFAULT),
    all: z.boolean().default(false).describe("Also files and directories whose names begin with a dot"),
  }),
  inputPolicy: { path: "allow" },
  target: { system: "workspace", fs: { operation: "search" } },
  output: z.strictObject({
    path: z.string(),
    matches: z.array(
      z.strictObject({
        path: z.string(),
        line: z.int(),
        text: z.string(),
        before: z.array(z.string()),
        after: z.array(z.string()),
      }),
    ),
    truncated: z.boolean().describe("Whether there is more than was searched or is shown"),
    filesSearched: z.int(),
    filesSkipped: z.int().describe("Binary or too large, or not to be opened"),
    hint: z.string().optional(),
  }),
  outputPolicy: {
    ...{ path: "allow", "matches[].path": "allow", "matches[].line": "allow", "matches[].text": "allow" },
    ...{ "matches[].before[]": "allow", "matches[].after[]": "allow", truncated: "allow" },
    ...{ filesSearched: "allow", filesSkipped: "allow", hint: "allow" },
  },
  limits: { outputBytesMax: 4_194_304, concurrentCallsMax: 4 },
  idempotent: true,
  examples: {
    accepts: [
      { path: "@project", pattern: "TODO" },
      { path: "@project/src", pattern: "export function \\w+", before: 1, after: 3, maxMatches: 20 },
    ],
    rejects: [{ path: "@project", pattern: "" }, { path: "@project", pattern: "x", before: -1 }, { pattern: "x" }],
  },
}));
