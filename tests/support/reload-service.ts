import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type RunningService, startService } from "../../src/cli/service.ts";
import type { Config } from "../../src/runtime/config/config.ts";
import { type JournalEntry, journalEntries } from "./audit-files.ts";
import { readConfigFile } from "./build.ts";
import { LiveIssuers } from "./live-tokens.ts";

/** JSON of which the tests say what they expect. */
type Loose = ReturnType<typeof JSON.parse>;

export interface Reply {
  readonly http: number;
  readonly body: Loose;
}

export interface ManifestOptions {
  readonly name?: string;
  readonly says?: string;
  readonly classification?: "read" | "write";
  readonly permission?: string;
  /** Code above the manifest. */
  readonly before?: string;
  /** The handler's body. */
  readonly body?: string;
}

/** Settings for tests of an import that never ends. Every other import has the usual ten seconds: a busy machine may stop for a while. */
export const SHORT_IMPORTS = { perMinuteMax: 6_000, importTimeoutMs: 2_000 } as const;

/** A tool in a file, as an operator would write it. */
export function manifest(options: ManifestOptions = {}): string {
  const { name = "hello", says = "first", classification = "read", permission = "hello:say" } = options;
  const { before = "", body = `return { said: ${JSON.stringify(says)} };` } = options;
  return `
import { defineTool } from "safe-tool-call";
import { z } from "zod";
${before}
export const tool = defineTool({
  name: "${name}",
  description: "Says something",
  classification: "${classification}",
  category: "${classification}",
  limits: { concurrentCallsMax: 1_000 },
  permissions: { required: ["${permission}"] },
  input: z.strictObject({}),
  target: { system: "greetings", handler: async () => { ${body} } },
  output: z.strictObject({ said: z.string() }),
  outputPolicy: { said: "allow" },
  examples: { accepts: [{}], rejects: [{ x: 1 }] },
});
`;
}

/** A real service whose configuration is a file that tests change. */
export class ReloadService {
  readonly issuers = new LiveIssuers();
  readonly folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-reload-")));
  readonly #written: Record<string, unknown>;
  #service: RunningService | undefined;

  constructor(changes: Readonly<Record<string, unknown>> = {}) {
    this.#written = {
      server: { port: 0 },
      log: { level: "silent" },
      tools: ["./tools"],
      audit: { dir: "./audit", durability: "write" },
      jwt: { issuers: this.issuers.profiles() },
      reload: { perMinuteMax: 6_000 },
      ...changes,
    };
    this.write("tools/hello.ts", manifest());
    this.configure({});
  }

  get running(): RunningService {
    if (this.#service === undefined) throw new Error("the service was not started");
    return this.#service;
  }

  get file(): string {
    return join(this.folder, "stc.yaml");
  }

  async start(): Promise<this> {
    const read = (): Config => readConfigFile(this.file, { PATH: process.env["PATH"] });
    this.#service = await startService(read(), read);
    return this;
  }

  async end(): Promise<void> {
    await this.#service?.drain();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** JSON is YAML, too. */
  configure(changes: Readonly<Record<string, unknown>>): void {
    writeFileSync(this.file, JSON.stringify({ ...this.#written, ...changes }));
  }

  write(path: string, text: string): void {
    mkdirSync(dirname(join(this.folder, path)), { recursive: true });
    writeFileSync(join(this.folder, path), text);
  }

  remove(path: string): void {
    rmSync(join(this.folder, path), { recursive: true });
  }

  agent(permissions: readonly string[] = ["hello:say"]): Promise<string> {
    return this.issuers.token({ kind: "good", sub: "agent-7", permissions });
  }

  operator(permissions: readonly string[] = ["service:reload", "metrics:read", "approvals:decide"]): Promise<string> {
    return this.issuers.token({ kind: "operator", sub: "olga", permissions });
  }

  async call(more: Readonly<Record<string, unknown>> = {}, token?: string): Promise<Reply> {
    return this.send("POST", "/call", {
      token: token ?? (await this.agent()),
      body: { tool: "hello", args: {}, ...more },
    });
  }

  /** What the tool says now, or the code of its refusal. */
  async says(more: Readonly<Record<string, unknown>> = {}, token?: string): Promise<string> {
    const { body } = await this.call(more, token);
    return body.result?.said ?? body.error?.code ?? body.status;
  }

  async reload(token?: string): Promise<Reply> {
    return this.send("POST", "/reload", { token: token ?? (await this.operator()) });
  }

  async send(
    method: string,
    path: string,
    { token, body }: { readonly token: string; readonly body?: unknown },
  ): Promise<Reply> {
    const headers: Record<string, string> = { authorization: `Bearer ${token}` };
    if (body !== undefined) headers["content-type"] = "application/json";
    const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
    const response = await fetch(`${this.running.url}${path}`, init);
    const text = await response.text();
    return { http: response.status, body: text.startsWith("{") ? JSON.parse(text) : text };
  }

  journal(type: string): readonly JournalEntry[] {
    return journalEntries(join(this.folder, "audit")).filter((entry) => entry.type === type);
  }
}
