import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import type { AuditEntry } from "../../src/audit/entry.ts";
import { readConfig } from "../../src/config.ts";
import { defineTool } from "../../src/core/define-tool.ts";
import { type RunningService, startService } from "../../src/main.ts";
import { auditEntries, type JournalEntry, journalEntries } from "./audit-files.ts";
import { LiveIssuers, type TokenOrder } from "./live-tokens.ts";

/** What the tools did, in order. */
export type Deeds = string[];

const output = z.object({ done: z.string() });
const outputPolicy = { done: "allow" } as const;
const permissions = { required: ["deeds:do"] };

function tools(deeds: Deeds) {
  const handler = ({ what }: { readonly what: string }) => {
    deeds.push(what);
    if (what === "fails") throw new Error("as it was told");
    return { done: what };
  };
  const input = z.strictObject({ what: z.enum(["a", "b", "c", "fails"]) });
  const common = { permissions, input, output, outputPolicy, handler };
  return [
    defineTool({ ...common, name: "do_write", description: "Writes", classification: "write", category: "write" }),
    defineTool({ ...common, name: "do_read", description: "Reads", classification: "read" }),
    defineTool({ ...common, name: "do_network", description: "Sends", classification: "write", category: "network" }),
    defineTool({
      ...common,
      name: "do_destroy",
      description: "Destroys",
      classification: "destructive",
      category: "write",
      approval: { message: "Nothing brings it back." },
    }),
    defineTool({
      ...common,
      name: "do_once",
      description: "Writes; each time asked",
      classification: "write",
      category: "write",
      approval: { scopes: ["once"] },
    }),
  ];
}

/** JSON of which the tests say what they expect. */
export type Loose = ReturnType<typeof JSON.parse>;

export interface Reply {
  readonly http: number;
  readonly headers: Headers;
  readonly body: Loose;
}

export interface CallExtras {
  readonly token?: string;
  readonly session?: string;
  readonly approval?: { readonly id: string };
  readonly reason?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** A real service with a store, agents and people. */
export class ApprovalService {
  readonly issuers = new LiveIssuers();
  readonly deeds: Deeds = [];
  readonly folder = mkdtempSync(join(tmpdir(), "stc-asking-"));
  readonly #extra: Readonly<Record<string, unknown>>;
  #service: RunningService | undefined;

  constructor(extra: Readonly<Record<string, unknown>> = {}) {
    this.#extra = extra;
  }

  async start(changes: Readonly<Record<string, unknown>> = {}): Promise<this> {
    const written = {
      server: { port: 0 },
      log: { level: "silent" },
      tools: tools(this.deeds),
      audit: { dir: "audit" },
      jwt: { issuers: this.issuers.profiles() },
      approvals: { store: "sqlite://./approvals.sqlite", ...this.#extra, ...changes },
    };
    const environment = { PATH: "" };
    this.#service = await startService(readConfig(written, { folder: this.folder, environment, origin: "test" }));
    return this;
  }

  /** A clean stop; the files stay. */
  async stop(): Promise<void> {
    await this.#service?.drain();
    this.#service = undefined;
  }

  async end(): Promise<void> {
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  agent(order: Partial<TokenOrder> = {}): Promise<string> {
    return this.issuers.token({ kind: "good", sub: "agent-7", permissions: ["deeds:do"], ...order });
  }

  person(order: Partial<TokenOrder> = {}): Promise<string> {
    const permissions = ["approvals:decide", "grants:manage", "modes:manage"];
    return this.issuers.token({ kind: "operator", sub: "alice", permissions, ...order });
  }

  async call(tool: string, what: unknown, extras: CallExtras = {}): Promise<Reply> {
    const { token = await this.agent(), headers = {}, signal, ...rest } = extras;
    return this.send("POST", "/call", { token, headers, signal, body: { tool, args: { what }, ...rest } });
  }

  async decide(id: string, decision: "approve" | "deny", more: Record<string, unknown> = {}): Promise<Reply> {
    const { token = await this.person(), ...rest } = more as { token?: string };
    return this.send("POST", `/approvals/${id}/decisions`, { token, body: { decision, ...rest } });
  }

  async send(
    method: string,
    path: string,
    {
      token,
      body,
      headers = {},
      signal,
    }: {
      readonly token?: string;
      readonly body?: unknown;
      readonly headers?: Readonly<Record<string, string>>;
      readonly signal?: AbortSignal | undefined;
    },
  ): Promise<Reply> {
    const response = await fetch(`${this.#service?.url}${path}`, {
      method,
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal !== undefined && { signal }),
    });
    const text = await response.text();
    return { http: response.status, headers: response.headers, body: text === "" ? undefined : JSON.parse(text) };
  }

  get url(): string {
    return this.#service?.url ?? "";
  }

  entries(): readonly AuditEntry[] {
    return auditEntries(join(this.folder, "audit"));
  }

  /** Of one call. */
  entry(traceId: string): AuditEntry | undefined {
    return this.entries().find((entry) => entry.traceId === traceId);
  }

  journal(): readonly JournalEntry[] {
    return journalEntries(join(this.folder, "audit"));
  }
}
