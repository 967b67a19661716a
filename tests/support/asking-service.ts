import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AuditEntry } from "../../src/audit/entry.ts";
import { type RunningService, startService } from "../../src/cli/service.ts";
import { type BuildModules, MODULES } from "../../src/modules.ts";
import { auditEntries, type JournalEntry, journalEntries } from "./audit-files.ts";
import { readConfig } from "./build.ts";
import { LiveIssuers, type TokenOrder } from "./live-tokens.ts";

/** JSON of which the tests say what they expect. */
export type Loose = ReturnType<typeof JSON.parse>;

export interface Reply {
  readonly http: number;
  readonly headers: Headers;
  readonly body: Loose;
}

/** What a call says beside its tool and arguments. */
export interface CallExtras {
  readonly token?: string;
  readonly session?: string;
  readonly approval?: { readonly id: string } | "new";
  readonly reason?: string;
  readonly callId?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

export interface Sent extends Pick<CallExtras, "token" | "headers" | "signal"> {
  /** Text is sent as it is. */
  readonly body?: unknown;
}

interface Grounds {
  readonly issuers?: LiveIssuers | undefined;
  readonly folder?: string | undefined;
  /** Within the folder. */
  readonly audit?: string;
}

/** A real service with a store, and agents and people who have tokens for it; what it offers is for those who extend it. */
export class AskingService {
  readonly issuers: LiveIssuers;
  readonly folder: string;
  readonly #audit: string;
  #service: RunningService | undefined;

  constructor({ issuers, folder, audit = "audit" }: Grounds = {}) {
    this.issuers = issuers ?? new LiveIssuers();
    this.folder = folder ?? mkdtempSync(join(tmpdir(), "stc-asking-"));
    this.#audit = audit;
  }

  protected async run(
    sections: Readonly<Record<string, unknown>>,
    path = "",
    modules: BuildModules = MODULES,
  ): Promise<void> {
    const written = {
      server: { port: 0 },
      log: { level: "silent" },
      audit: { dir: this.#audit },
      jwt: { issuers: this.issuers.profiles() },
      ...sections,
    };
    const environment = { PATH: path };
    const config = readConfig(written, { folder: this.folder, environment, origin: "test" }, modules);
    this.#service = await startService(config, undefined, { modules });
  }

  /** Serves for `server.shutdownDelayMs`, until `stop` ends the delay. */
  shutDown(): void {
    void this.#service?.shutDown();
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

  async decide(id: string, decision: "approve" | "deny", more: Record<string, unknown> = {}): Promise<Reply> {
    const { token = await this.person(), ...rest } = more as { token?: string };
    return this.send("POST", `/approvals/${id}/decisions`, { token, body: { decision, ...rest } });
  }

  async send(method: string, path: string, sent: Sent): Promise<Reply> {
    const { response, text } = await this.exchange(method, `${this.url}${path}`, sent);
    return { http: response.status, headers: response.headers, body: text === "" ? undefined : JSON.parse(text) };
  }

  /** Sends a request to a URL, and reads the whole answer. */
  protected async exchange(method: string, url: string, { token, body, headers = {}, signal }: Sent) {
    const response = await fetch(url, {
      method,
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
      ...(signal !== undefined && { signal }),
    });
    return { response, text: await response.text() };
  }

  get url(): string {
    return this.#service?.url ?? "";
  }

  /** The URL at which members connect; empty for a service that is not a hub. */
  get hubUrl(): string {
    return this.#service?.hubUrl ?? "";
  }

  /** The URL of the console; empty without one. */
  get consoleUrl(): string {
    return this.#service?.consoleUrl ?? "";
  }

  entries(): readonly AuditEntry[] {
    return auditEntries(join(this.folder, this.#audit));
  }

  /** Of one call. */
  entry(traceId: string): AuditEntry | undefined {
    return this.entries().find((entry) => entry.traceId === traceId);
  }

  journal(): readonly JournalEntry[] {
    return journalEntries(join(this.folder, this.#audit));
  }
}
