import { z } from "zod";
import { ManifestError } from "../../core/errors.ts";
import { schemaFaults } from "../../core/manifest/checks.ts";
import type { OpenedKind, TargetKind } from "../../core/target-kind.ts";
import type { Json, McpTarget } from "../../core/types.ts";
import type { Servers } from "./servers.ts";
import { type McpContext, type McpParts, type ServerEntries, system } from "./settings.ts";

const NAME_CHARACTERS_MAX = 256;
const NAME_RULE = `must be the tool's name on the server, at most ${NAME_CHARACTERS_MAX} characters`;
const HASH_RULE = "must be 64 hexadecimal digits in lower case, as stc check shows them";
/** Lines of a server that cannot be used that its author sees. */
const OUTPUT_LINES_SHOWN = 5;
const RESULTS = ["structured", "json", "text"] as const;

/** A manifest's `target.mcp`. */
const tool = z
  .strictObject(
    {
      tool: z
        .string(NAME_RULE)
        .min(1, NAME_RULE)
        .max(NAME_CHARACTERS_MAX, NAME_RULE)
        .describe("The tool's name on the server."),
      definitionSha256: z
        .string(HASH_RULE)
        .regex(/^[0-9a-f]{64}$/, HASH_RULE)
        .optional()
        .describe(
          "Hash of the tool's definition, as `stc check` shows it. A tool with another definition is not called.",
        ),
      definition: z
        .record(z.string(), z.unknown(), "must be the definition as the server lists it")
        .optional()
        .describe("The definition with this hash, with which `stc check` explains a change."),
      result: z
        .enum(RESULTS, `must be one of ${RESULTS.join(", ")}`)
        .optional()
        .describe(
          "The part of the answer that becomes the result. `structured`: `structuredContent`. `json`: the text, parsed. `text`: `{ text }`. Default: `structured` when the definition has an `outputSchema`, otherwise `text`.",
        ),
    },
    { error: ({ code }) => (code === "invalid_type" ? "must be { tool }" : undefined) },
  )
  .describe("A tool of an MCP server.");

/** Returns the kind for tools of MCP servers. Its code is loaded only when a server is configured. */
export function mcp(parts: McpParts): TargetKind<McpContext> {
  return {
    name: "mcp",
    key: "mcp",
    systems: { keys: ["mcp"], schema: system },
    data: tool,
    check: (part) => schemaFaults("target.mcp", tool, part),
    hasErrorText: () => true,
    reachesOthers: () => true,
    category: () => "network",
    readAsJson: (part) => ({ ...(part as Readonly<Record<string, Json>>), result: "json" }),
    planOffline: ({ target }) => {
      const { system: name, mcp: part } = target as McpTarget;
      return (input) => ({ kind: "mcp", system: name, tool: part.tool, arguments: input });
    },
    open: (context) => open(context, parts),
  };
}

/** Creates a target for a tool of an MCP server; `tool` is its name on the server. */
export function mcpTool(system: string, tool: string, options: Omit<McpTarget["mcp"], "tool"> = {}): McpTarget {
  return { system, mcp: { tool, ...options } };
}

function open(context: McpContext, parts: McpParts): OpenedKind {
  const entries = context.systems as ServerEntries;
  let servers: Servers | undefined;
  return {
    async prepare(tools) {
      const used = [...entries].filter(([name]) => tools.some(({ target }) => target.system === name));
      if (used.length === 0) return new Map();
      const { openServers } = await import("./servers.ts");
      servers = await openServers(context, parts, new Map(used));
      return new Map();
    },
    isBroken: ({ target: { system: name } }) => entries.has(name) && servers?.has(name) !== true,
    bind(tool) {
      if (servers !== undefined) return servers.bind(tool);
      const message = `no MCP server ${tool.target.system} is configured`;
      throw new ManifestError(tool.name, [{ field: "target.system", message }]);
    },
    report: (tools) => servers?.report(tools) ?? {},
    async drafts(system) {
      const entry = entries.get(system);
      if (entry === undefined) return undefined;
      const { openServers } = await import("./servers.ts");
      const problems: string[] = [];
      const written: string[] = [];
      const onUpstream: McpContext["onUpstream"] = ({ type, reason }) => {
        if (type === "output") written.push(reason);
      };
      const opened = await openServers({ ...context, problems, onUpstream }, parts, new Map([[system, entry]]));
      try {
        const drafts = await opened.drafts(system);
        if (typeof drafts !== "string") return drafts;
        const last = written.slice(-OUTPUT_LINES_SHOWN);
        const output = last.length === 0 ? [] : [`the last lines that it wrote: ${last.join(" | ")}`];
        return [...(problems.length > 0 ? problems : [drafts]), ...output].join("; ");
      } finally {
        await opened.close();
      }
    },
    upstreams: () => servers?.upstreams() ?? [],
    quarantineOf: (tool) => servers?.quarantineOf(tool),
    certificates: () => servers?.certificates() ?? [],
    watch: (options) => servers?.watch(options),
    revoked: () => servers?.revoked(),
    status: async () => (await servers?.status()) ?? {},
    close: async () => servers?.close(),
  };
}
