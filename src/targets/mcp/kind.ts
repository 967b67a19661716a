import { z } from "zod";
import { systemCode } from "../../core/error-text.ts";
import { type Fault, ManifestError } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import { isText, keyFaults, oneOf, optional, unknownKeys } from "../../core/manifest/checks.ts";
import type { OpenedKind, OwnPath, TargetContext, TargetKind, UpstreamEvent } from "../../core/target-kind.ts";
import type { Tool } from "../../core/types.ts";
import type { OpenMcpChannel } from "./channel.ts";
import type { StdioProcess } from "./stdio.ts";
import type { Upstream } from "./upstream.ts";

export interface McpContext extends TargetContext {
  readonly config: {
    readonly commands: {
      readonly confinement: "require" | "prefer" | "off";
      readonly memoryBytesMax?: number | undefined;
    };
    readonly searchPath: string;
  };
  readonly onUpstream?: ((event: UpstreamEvent) => void) | undefined;
}

/** A program that speaks MCP on its standard input and output. */
interface ServerProgram {
  /** Absolute path. */
  readonly command: string;
  readonly argv: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly reads: readonly string[];
  readonly writes: readonly string[];
  /** TCP ports; `null` for no network at all. */
  readonly network: readonly number[] | null;
}

/** Starts programs confined. The build supplies it, because kinds of targets do not import each other. */
interface ServerProcesses {
  find(command: string, searchPath: string): string | undefined;
  overlapping(program: ServerProgram, ownPaths: readonly OwnPath[]): readonly OwnPath[];
  problem(program: ServerProgram): Promise<string | undefined>;
  start(
    program: ServerProgram,
    isConfined: boolean,
    output: { readonly stdout: (chunk: Uint8Array) => void; readonly stderr: (chunk: Uint8Array) => void },
  ): StdioProcess;
  close(): Promise<void>;
}

export interface McpParts {
  /** Loads what starts programs; only used with a server that has a `command`. */
  readonly processes: (options: {
    readonly memoryBytesMax: number | undefined;
    readonly newId: () => string;
  }) => Promise<ServerProcesses>;
}

const ARGS_MAX = 128;
const VARIABLES_MAX = 64;
const PATHS_MAX = 64;

const text = z.string().min(1);
const token = z.string().refine((value) => !value.includes("\0"), "must not contain NUL");
const path = z.string().regex(/^\/[^\0]*$/, "must be an absolute path");
const variableName = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, "must be a name of a variable");
const count = (fallback: number, max: number) => z.int().min(1).max(max).default(fallback);

const server = z
  .strictObject({
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
      .describe("Environment variables of the program. It gets no others, except PATH, HOME, TMPDIR and the locale."),
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
  .refine((entry) => entry.command !== undefined, { path: ["command"], message: "is missing; it is text" });

const system = z.strictObject({ mcp: server.describe("An MCP server.") });

type ServerEntry = z.output<typeof server>;

const SECOND_MS = 1_000;
const NAME_CHARACTERS_MAX = 256;
const SHA256 = /^[0-9a-f]{64}$/;
const KEYS = ["tool", "definitionSha256", "definition", "result"] as const;
const RESULTS = ["structured", "json", "text"] as const;

/** Returns the kind for tools of MCP servers. Its code is loaded only when a server is configured. */
export function mcp(parts: McpParts): TargetKind<McpContext> {
  return {
    name: "mcp",
    key: "mcp",
    systems: { keys: ["mcp"], schema: system },
    check: targetFaults,
    hasErrorText: () => true,
    category: () => "network",
    open: (context) => open(context, parts),
  };
}

function targetFaults(part: unknown): readonly Fault[] {
  const field = "target.mcp";
  if (!isTable(part)) return [{ field, message: "must be { tool }" }];
  const isName = (name: unknown): boolean => isText(name) && name !== "" && name.length <= NAME_CHARACTERS_MAX;
  const isHash = (hash: unknown): boolean => isText(hash) && SHA256.test(hash);
  return [
    ...keyFaults(field, part, [
      ["tool", isName, `must be the tool's name on the server, at most ${NAME_CHARACTERS_MAX} characters`],
      ["definitionSha256", optional(isHash), "must be 64 hexadecimal digits in lower case, as stc check shows them"],
      ["definition", optional(isTable), "must be the definition as the server lists it"],
      ["result", optional(oneOf(RESULTS)), `must be one of ${RESULTS.join(", ")}`],
    ]),
    ...unknownKeys(field, part, KEYS),
  ];
}

interface Opened {
  readonly upstreams: ReadonlyMap<string, Upstream>;
  readonly handler: typeof import("./handler.ts");
  readonly processes: ServerProcesses | undefined;
  /** What operators should know about the servers' processes. */
  readonly notes: readonly string[];
}

function open(context: McpContext, parts: McpParts): OpenedKind {
  const entries = context.systems as ReadonlyMap<string, { readonly mcp: ServerEntry }>;
  let opened: Opened | undefined;
  return {
    async prepare(tools) {
      const used = [...entries].filter(([name]) => tools.some(({ target }) => target.system === name));
      if (used.length > 0) opened = await openServers(context, parts, new Map(used));
      return new Map();
    },
    isBroken: ({ target: { system: name } }) => entries.has(name) && opened?.upstreams.has(name) !== true,
    bind(tool) {
      if (opened !== undefined) return opened.handler.bindTool(tool, opened.upstreams);
      const message = `no MCP server ${tool.target.system} is configured`;
      throw new ManifestError(tool.name, [{ field: "target.system", message }]);
    },
    report(tools: readonly Tool[]) {
      if (opened === undefined) return {};
      const { upstreams, handler, notes } = opened;
      const failures = [...upstreams.values()].flatMap(({ system: name, failure }) =>
        failure === undefined ? [] : [`systems.${name}: its MCP server cannot be used now: ${failure}`],
      );
      return { notes: [...notes, ...failures], toolNotes: handler.toolNotes(tools, upstreams) };
    },
    async status() {
      const rows = [...(opened?.upstreams.values() ?? [])].map((upstream) => {
        const { state, sessions } = upstream;
        return [upstream.system, { state, sessions, quarantined: upstream.quarantined() }] as const;
      });
      return Object.fromEntries(rows);
    },
    async close() {
      // Together: the end of its process also ends a session that is starting.
      const upstreams = [...(opened?.upstreams.values() ?? [])];
      await Promise.all([...upstreams.map((upstream) => upstream.close()), opened?.processes?.close()]);
    },
  };
}

async function openServers(
  context: McpContext,
  parts: McpParts,
  entries: ReadonlyMap<string, { readonly mcp: ServerEntry }>,
): Promise<Opened> {
  const [handler, { Upstream: UpstreamOf }] = await Promise.all([import("./handler.ts"), import("./upstream.ts")]);
  const { newId, now, config, onUpstream = () => {} } = context;
  const processes = await parts.processes({ memoryBytesMax: config.commands.memoryBytesMax, newId });
  const upstreams = new Map<string, Upstream>();
  const notes: string[] = [];
  for (const [name, { mcp: entry }] of entries) {
    const channel = await programChannel({ context, processes, name, entry, notes });
    if (channel === undefined) continue;
    const upstream = new UpstreamOf({
      ...{ system: name, open: channel, isShared: entry.stateless, now, report: onUpstream },
      identity: { address: { command: entry.command ?? "", args: entry.args }, tls: null },
      limits: {
        startTimeoutMs: entry.startSeconds * SECOND_MS,
        definitionsMs: entry.definitionsSeconds * SECOND_MS,
        sessionsMax: entry.sessionsMax,
        idleMs: entry.idleSeconds * SECOND_MS,
        concurrentCallsMax: entry.concurrentCallsMax,
      },
    });
    upstreams.set(name, upstream);
  }
  const opened = { upstreams, handler, processes, notes };
  // A server that cannot be reached affects its own tools only: the start goes on, and `stc check` reports it.
  await Promise.allSettled([...upstreams.values()].map((each) => each.readDefinitions(new AbortController().signal)));
  return opened;
}

interface ProgramParts {
  readonly context: McpContext;
  readonly processes: ServerProcesses;
  readonly name: string;
  readonly entry: ServerEntry;
  readonly notes: string[];
}

/** Returns undefined after adding a problem. */
async function programChannel({
  context,
  processes,
  name,
  entry,
  notes,
}: ProgramParts): Promise<OpenMcpChannel | undefined> {
  const { problems, config, ownPaths } = context;
  const field = `systems.${name}.mcp`;
  const { args, reads, writes, network, messageBytesMax } = entry;
  const command = processes.find(entry.command ?? "", config.searchPath);
  if (command === undefined) {
    problems.push(`${field}.command: no program ${entry.command} was found`);
    return undefined;
  }
  const environment = (): Readonly<Record<string, string>> => ({ ...entry.env, ...secretsOf(entry, context) });
  try {
    environment();
  } catch (error) {
    problems.push(`${field}.secretEnv: a valueFile cannot be read (${systemCode(error)})`);
    return undefined;
  }
  const program = { command, argv: args, environment: {}, reads, writes, network: network ?? null };
  const overlaps = processes.overlapping(program, ownPaths);
  for (const own of overlaps) {
    problems.push(`${field}: its program may use ${own.field}: ${own.path}, which belongs to the service`);
  }
  if (overlaps.length > 0) return undefined;
  const { confinement } = config.commands;
  const unconfined = confinement === "off" ? "commands.confinement is off" : await processes.problem(program);
  if (unconfined !== undefined && confinement === "require") {
    problems.push(
      `${field}: its program cannot be confined: ${unconfined}; commands.confinement: prefer lets it run unconfined`,
    );
    return undefined;
  }
  if (unconfined !== undefined) notes.push(`systems.${name}: its program runs unconfined (${unconfined})`);
  const { stdioChannel } = await import("./stdio.ts");
  const start: Parameters<typeof stdioChannel>[0]["start"] = (output) =>
    processes.start({ ...program, environment: environment() }, unconfined === undefined, output);
  return stdioChannel({ start, messageBytesMax });
}

function secretsOf({ secretEnv }: ServerEntry, { readFile }: McpContext): Readonly<Record<string, string>> {
  const read = (file: string): string =>
    readFile(file)
      .toString("utf8")
      .replace(/[\r\n]+$/, "");
  return Object.fromEntries(secretEnv.map(({ name, valueFile }) => [name, read(valueFile)]));
}
