import { mkdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { defineTool, type McpTarget, mcpTool } from "../../../src/index.ts";
import { AskingService, type CallExtras, type Reply } from "../../support/asking-service.ts";
import { assemble, readConfig } from "../../support/build.ts";

const SERVER = join(import.meta.dir, "hostile-server.ts");

interface Offered extends Partial<McpTarget["mcp"]> {
  readonly change?: boolean;
  readonly filtered?: boolean;
  readonly timeoutMs?: number;
  /** True when every call needs an approval. */
  readonly gated?: boolean;
  readonly system?: string;
  readonly input?: z.ZodObject;
}

/** A tool named `<tool>` of the hostile server. */
export function hostileTool(tool: string, offered: Offered = {}) {
  const { change = false, filtered = false, gated = false, system = "hostile", timeoutMs, input, ...mcp } = offered;
  return defineTool({
    name: change ? `change_${tool}` : tool,
    description: "Reaches a tool of a server",
    classification: change ? "write" : "read",
    category: change ? "network" : "read",
    permissions: { required: ["deeds:do"] },
    approval: gated ? { required: true } : { needsApproval: () => false },
    input: input ?? z.strictObject({ text: z.string().max(1_000) }),
    output: z.record(z.string(), z.unknown()),
    outputPolicy: { text: "allow", name: "allow" },
    errors: filtered ? "filtered" : "withheld",
    timeoutMs: timeoutMs ?? 20_000,
    target: mcpTool(system, tool, mcp),
  });
}

/** A real service whose tools are those of a server that misbehaves. */
export class HostileWorld extends AskingService {
  /** The server reads this folder. */
  readonly control: string;

  constructor() {
    super();
    this.control = join(realpathSync(this.folder), "control");
    mkdirSync(this.control);
  }

  serverEntry(more: Readonly<Record<string, unknown>> = {}): Readonly<Record<string, unknown>> {
    return {
      command: process.execPath,
      args: ["--no-env-file", "--config=/dev/null", "--no-install", SERVER, this.control],
      reads: [dirname(SERVER), this.control],
      messageBytesMax: 1_000_000,
      ...more,
    };
  }

  /** With the server as a process. */
  async start(tools: readonly unknown[], more: Readonly<Record<string, unknown>> = {}): Promise<this> {
    return await this.startWith(tools, this.serverEntry(more));
  }

  /** With any entry for the server. */
  async startWith(
    tools: readonly unknown[],
    mcp: Readonly<Record<string, unknown>>,
    { confinement = "prefer", assertion }: { readonly confinement?: string; readonly assertion?: object } = {},
  ): Promise<this> {
    const approvals = { store: "sqlite://./approvals.sqlite", mode: "yolo" };
    const entry = { messageBytesMax: 1_000_000, ...mcp };
    const commands = { confinement, launchers: 0 };
    await this.run({
      tools,
      systems: { hostile: { mcp: entry } },
      approvals,
      commands,
      ...(assertion && { assertion }),
    });
    return this;
  }

  /** Calls a tool of the hostile server. */
  async call(tool: string, words = "hello", { token, approval }: CallExtras = {}): Promise<Reply> {
    const body = { tool, args: { text: words }, ...(approval && { approval }) };
    return this.send("POST", "/call", { token: token ?? (await this.agent()), body });
  }

  /** Changes what the server does from its next message on. */
  tell(name: string, content: unknown): void {
    writeFileSync(join(this.control, name), typeof content === "string" ? content : JSON.stringify(content));
  }

  untell(name: string): void {
    rmSync(join(this.control, name), { force: true });
  }

  /** The labels and values of a metric. */
  async metric(name: string): Promise<readonly string[]> {
    const token = await this.person({ permissions: ["metrics:read"] });
    const response = await fetch(`${this.url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
    const lines = (await response.text()).split("\n").filter((line) => line.startsWith(`${name}{`));
    return lines.map((line) => line.slice(name.length));
  }

  async health(): Promise<Reply> {
    return this.send("GET", "/readyz", { token: await this.person({ permissions: ["metrics:read"] }) });
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Resolves when a process has ended. */
export async function ended(pid: number): Promise<void> {
  while (isAlive(pid)) await Bun.sleep(20);
}

export const codeOf = ({ body }: Reply): unknown => body.error?.code;
export const textOf = ({ body }: Reply): string => body.result?.text;

/** What `stc check` would say about the tools, with the hash of each definition that is not pinned. */
export async function checked(
  world: HostileWorld,
  tools: readonly unknown[],
  more: Readonly<Record<string, unknown>> = {},
) {
  const written = {
    ...{ tools, systems: { hostile: { mcp: world.serverEntry(more) } }, commands: { launchers: 0 } },
    ...{ audit: { dir: "checked" }, jwt: { issuers: world.issuers.profiles() } },
  };
  const logged: string[] = [];
  const parts = await assemble(
    readConfig(written, { folder: world.folder, environment: { PATH: "" }, origin: "test" }),
    { onUpstream: ({ reason }) => void logged.push(reason) },
  );
  const { notes, toolNotes } = parts.report;
  await parts.close();
  const hashes = toolNotes.flatMap(({ tool, message }) => {
    const [, sha256] = /definitionSha256: "([0-9a-f]{64})"/.exec(message) ?? [];
    return sha256 === undefined ? [] : [[tool, sha256] as const];
  });
  return { notes, toolNotes, logged, pins: Object.fromEntries(hashes) as Readonly<Record<string, string>> };
}
