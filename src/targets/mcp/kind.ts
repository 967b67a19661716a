import { type Fault, ManifestError } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import { isText, keyFaults, oneOf, optional, unknownKeys } from "../../core/manifest/checks.ts";
import type { OpenedKind, TargetKind } from "../../core/target-kind.ts";
import type { Servers } from "./servers.ts";
import { type McpContext, type McpParts, type ServerEntries, system } from "./settings.ts";

const NAME_CHARACTERS_MAX = 256;
/** Lines of a server that cannot be used that its author sees. */
const OUTPUT_LINES_SHOWN = 5;
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
    certificates: () => servers?.certificates() ?? [],
    watch: (options) => servers?.watch(options),
    revoked: () => servers?.revoked(),
    status: async () => (await servers?.status()) ?? {},
    close: async () => servers?.close(),
  };
}
