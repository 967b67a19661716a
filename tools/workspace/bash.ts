import { defineTool, freeText, type ToolConfig } from "safe-tool-call";
import { z } from "zod";

const COMMAND_CHARACTERS_MAX = 8_192;
const DIRECTORY_CHARACTERS_MAX = 1_024;
const TIMEOUT_MS_MAX = 120_000;
const TIMEOUT_MS_DEFAULT = 30_000;
const OUTPUT_BYTES_MAX = 262_144;

/** What shows nothing, or turns the text around it: a reader would see another name. */
const UNSEEN = /[\p{Cf}\p{Zl}\p{Zp}]/u;

/** Below the workspace: no leading `-` or `/`, no empty part, no `..`. No shell reads it, so that other signs are harmless. */
const WorkingDirectory = z
  .string()
  .max(DIRECTORY_CHARACTERS_MAX)
  .regex(
    /^[A-Za-z0-9_.@+#%=,([{\u00a1-\ud7ff\ue000-\u{10ffff}][A-Za-z0-9_.@+#%=,()[\]{}!&'~$ /\u00a1-\ud7ff\ue000-\u{10ffff}-]*$/u,
    "must be a relative directory, not beginning with - or ~, without quotes, backslashes and control characters",
  )
  .refine((path) => path.split("/").every((part) => part !== "" && part !== ".."), "must have no empty part and no ..")
  .refine((path) => !UNSEEN.test(path), "must have no characters that are not seen")
  .describe("Where to run, from the top of the workspace; its top when left out");

export const bash = defineTool((config: ToolConfig) => ({
  name: "bash",
  description:
    "Run a bash command in the workspace. A person decides on every command before it runs; one that is too dangerous is refused at once.",
  classification: "write",
  category: "command",
  permissions: { required: ["workspace:bash"] },
  input: z.strictObject({
    command: freeText(COMMAND_CHARACTERS_MAX).min(1).describe("The command, as bash -c takes it"),
    workingDir: WorkingDirectory.optional(),
    timeoutMs: z.int().min(100).max(TIMEOUT_MS_MAX).default(TIMEOUT_MS_DEFAULT),
  }),
  inputPolicy: { command: "allow", workingDir: "allow" },
  approval: { required: true, message: "Runs this command in the workspace." },
  target: {
    system: "workspace",
    cli: {
      command: "bash",
      shell: { workspace: config.shellWorkspace(), timeoutMs: ({ timeoutMs }) => timeoutMs },
      cwd: ({ workingDir }) => workingDir ?? ".",
      environment: { TERM: "dumb", NO_COLOR: "1" },
      confinement: { writes: [config.shellWorkspace()], temporaryDirectory: true },
      options: ["--noprofile", "--norc", "-c"],
      argsBuilder: ({ command }) => ["--noprofile", "--norc", "-c", "--", command],
    },
  },
  output: z.strictObject({
    output: z.string().describe("Standard output and standard error, as they came"),
    exitCode: z.int().describe("0 is success; 128 and more: ended by a signal"),
    truncated: z.boolean().describe("Whether the command wrote more than is shown"),
  }),
  outputPolicy: { output: "allow", exitCode: "allow", truncated: "allow" },
  timeoutMs: TIMEOUT_MS_MAX,
  limits: { outputBytesMax: OUTPUT_BYTES_MAX, concurrentCallsMax: 8 },
  examples: {
    accepts: [{ command: "ls -la" }, { command: "wc -l *.md", workingDir: "docs", timeoutMs: 5_000 }],
    rejects: [
      { command: "" },
      { command: "ls", workingDir: "../elsewhere" },
      { command: "ls", workingDir: "/etc" },
      { command: "ls", workingDir: "-x" },
      { command: "ls", timeoutMs: 600_000 },
    ],
  },
}));
