import { z } from "zod";
import type { ServerProcesses, ServerProcessOptions } from "../../core/server-process.ts";
import type { TargetContext, UpstreamEvent } from "../../core/target-kind.ts";
import type { AssertionContext } from "../../egress/assertion.ts";
import { checkUrl, count, ownSystem, text, url, urlSettings } from "../../egress/settings.ts";

/** The configuration of MCP servers, and what the build supplies to reach them. */

export interface McpContext extends TargetContext {
  readonly config: AssertionContext["config"] & {
    readonly commands: {
      readonly confinement: "require" | "prefer" | "off";
      readonly memoryBytesMax?: number | undefined;
    };
    readonly searchPath: string;
  };
  readonly onUpstream?: ((event: UpstreamEvent) => void) | undefined;
}

export interface McpParts {
  /** Loads what starts programs; only used with a server that has a `command`. */
  readonly processes: (options: ServerProcessOptions) => Promise<ServerProcesses>;
}

const ARGS_MAX = 128;
const VARIABLES_MAX = 64;
const PATHS_MAX = 64;

const token = z.string().refine((value) => !value.includes("\0"), "must not contain NUL");
const path = z.string().regex(/^\/[^\0]*$/, "must be an absolute path");
const variableName = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, "must be a name of a variable");
const server = z
  .strictObject({
    url: url().optional().describe("Address of a server that speaks MCP over Streamable HTTP."),
    ...urlSettings,
    assertion: z
      .boolean()
      .default(false)
      .describe(
        "Whether calls carry the caller assertion, when `assertion` is configured. It tells the server who calls.",
      ),
    command: text
      .optional()
      .describe(
        "Program that speaks MCP on its standard input and output: an absolute path, or a name on the service's PATH.",
      ),
    args: z.array(token).max(ARGS_MAX).default([]).describe("Arguments of the program."),
    env: z
      .record(variableName, token)
      .refine((env) => Object.keys(env).length <= VARIABLES_MAX, `must have at most ${VARIABLES_MAX} variables`)
      .default({})
      .describe(
        "Environment variables of the program. It gets no others, except PATH, HOME, TMPDIR, the locale, and STC_CALL_ID, by which the service finds its processes.",
      ),
    secretEnv: z
      .array(
        z.strictObject({
          name: variableName.describe("Name of the variable."),
          valueFile: text.describe("File with the value. Line ends at its end are not part of it."),
        }),
      )
      .max(VARIABLES_MAX)
      .default([])
      .describe("Environment variables with values from files, read whenever the program starts."),
    reads: z
      .array(path)
      .max(PATHS_MAX)
      .default([])
      .describe(
        "Files and directories that the program may read, besides those of the system: its own code, for example.",
      ),
    writes: z
      .array(path)
      .max(PATHS_MAX)
      .default([])
      .describe(
        "Files and directories that the program may read and change. It has a private temporary directory anyway.",
      ),
    network: z
      .array(z.int().min(1).max(65_535))
      .max(PATHS_MAX)
      .optional()
      .describe("TCP ports that the program may connect to, on any host. Without it, the program has no network."),
    stateless: z
      .boolean()
      .default(false)
      .describe("Whether all callers share one session. By default, each caller has a process or session of its own."),
    sessionsMax: count(16, 1_000).describe("Maximum sessions at the same time. The one unused for longest makes room."),
    idleSeconds: count(300, 86_400).describe("Time after which a session without calls is ended."),
    startSeconds: count(15, 300).describe("Time for the server to start and to list its tools."),
    definitionsSeconds: count(300, 86_400).describe(
      "Time between two comparisons of the tools' definitions with their pins.",
    ),
    concurrentCallsMax: count(64, 10_000).describe("Maximum concurrent calls to this server, all tools together."),
    messageBytesMax: count(4_194_304, 67_108_864).describe("Largest message of the server."),
  })
  .refine((entry) => entry.url !== undefined || entry.command !== undefined, {
    path: ["url"],
    message: "is missing; it is text: the server's URL (or command: a program)",
    when: () => true,
  })
  .superRefine((entry, context) => {
    const issue = (path: readonly string[], message: string): void =>
      context.addIssue({ code: "custom", path: [...path], message });
    const { url: address, assertion } = entry;
    if (address === undefined) {
      for (const key of ["tls", "plaintext", "auth"] as const) if (entry[key] !== undefined) issue([key], "needs url");
      if (assertion) issue(["assertion"], "needs url");
      return;
    }
    if (entry.command !== undefined) issue(["command"], "and url exclude each other");
    checkUrl("url", address, entry, context);
    if (entry.stateless && entry.auth?.tokenExchange !== undefined) {
      issue(["stateless"], "shares one session, and auth.tokenExchange needs one for each caller");
    }
  });

export const system = z.strictObject({ mcp: server.describe("An MCP server."), own: ownSystem });

export type ServerEntry = z.output<typeof server>;

/** The servers to use, by the name of their system. */
export type ServerEntries = ReadonlyMap<string, { readonly mcp: ServerEntry }>;
