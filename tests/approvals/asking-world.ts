import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import type { AuditEntry } from "../../src/audit/entry.ts";
import { readConfig } from "../../src/config.ts";
import { defineTool } from "../../src/core/define-tool.ts";
import { type RunningService, startService } from "../../src/main.ts";
import { auditEntries, type JournalEntry, journalEntries } from "../support/audit-files.ts";
import { LiveIssuers, type TokenOrder } from "../support/live-tokens.ts";
import { AGENTS_AUDIENCE } from "../support/tokens.ts";

/** Signed with the agents' key, for tokens of the kind "other issuer": another issuer whose agents may call, too. */
const OTHER_ISSUER = "https://evil.example";
export const PEOPLE = "https://people.test";

/** JSON of which the tests say what they expect. */
type Loose = ReturnType<typeof JSON.parse>;

export interface Reply {
  readonly http: number;
  readonly headers: Headers;
  readonly body: Loose;
}

export interface Extras {
  readonly token?: string;
  readonly session?: string;
  readonly approval?: { readonly id: string };
  readonly reason?: string;
  readonly callId?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

interface AskingOptions {
  readonly tools?: readonly unknown[];
  readonly approvals?: Readonly<Record<string, unknown>>;
  /** Programs that tools may run. */
  readonly commands?: readonly string[];
  /** Where they are looked for. */
  readonly path?: string;
  /** Another service of the same store, issuers and deeds, with an audit of its own. */
  readonly beside?: AskingWorld;
}

const permissions = { required: ["deeds:do"] };
const output = z.object({ done: z.boolean() });
const outputPolicy = { done: "allow" } as const;

/** A tool that writes down what it was given. */
export function recordingTool(name: string, deeds: unknown[], input: z.ZodObject, more: Record<string, unknown> = {}) {
  return defineTool({
    ...({ name, description: "Does it", classification: "write", category: "write" } as const),
    ...{ permissions, input, output, outputPolicy },
    handler: (given: unknown) => {
      deeds.push(given);
      return { done: true };
    },
    ...more,
  } as never);
}

/** A real service whose tools a test brings along. Several may stand on one store. */
export class AskingWorld {
  readonly issuers: LiveIssuers;
  readonly folder: string;
  readonly deeds: unknown[];
  readonly #options: AskingOptions;
  readonly #audit: string;
  #service: RunningService | undefined;

  constructor(options: AskingOptions = {}) {
    const { beside } = options;
    this.issuers = beside?.issuers ?? new LiveIssuers();
    this.folder = beside?.folder ?? mkdtempSync(join(tmpdir(), "stc-attack-"));
    this.deeds = beside?.deeds ?? [];
    this.#audit = beside === undefined ? "audit" : `audit-${crypto.randomUUID()}`;
    this.#options = options;
  }

  async start(changes: Pick<AskingOptions, "tools" | "approvals" | "path"> = {}): Promise<this> {
    const { approvals, tools, beside, commands, path = "" } = { ...this.#options, ...changes };
    const [agents, people] = this.issuers.profiles();
    const store = "sqlite://./approvals.sqlite";
    const written = {
      server: { port: 0 },
      log: { level: "silent" },
      tools: tools ?? beside?.tools ?? this.tools,
      audit: { dir: this.#audit },
      jwt: { issuers: [agents, people, { ...agents, issuer: OTHER_ISSUER, audience: AGENTS_AUDIENCE }] },
      approvals: { store, ...(approvals ?? beside?.approvals) },
      ...(commands !== undefined && { commands: { allowed: commands, confinement: "off" } }),
    };
    this.#service = await startService(
      readConfig(written, { folder: this.folder, environment: { PATH: path }, origin: "test" }),
    );
    return this;
  }

  get tools(): readonly unknown[] {
    return (
      this.#options.tools ?? [
        recordingTool("deed", this.deeds, z.strictObject({ what: z.string().max(100), count: z.int().default(1) })),
      ]
    );
  }

  get approvals(): Readonly<Record<string, unknown>> {
    return this.#options.approvals ?? {};
  }

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
    const held = ["approvals:decide", "grants:manage", "modes:manage"];
    return this.issuers.token({ kind: "operator", sub: "alice", permissions: held, ...order });
  }

  async call(tool: string, args: unknown, { headers, signal, token, ...rest }: Extras = {}): Promise<Reply> {
    return this.send("POST", "/call", {
      token: token ?? (await this.agent()),
      ...(headers !== undefined && { headers }),
      ...(signal !== undefined && { signal }),
      // Text is a body's own spelling of its arguments.
      body: typeof args === "string" ? `{"tool":"${tool}","args":${args}${rawMembers(rest)}}` : { tool, args, ...rest },
    });
  }

  /** Asks, and answers the id of the question. */
  async ask(tool: string, args: unknown, extras: Extras = {}): Promise<string> {
    const asked = await this.call(tool, args, extras);
    if (asked.http !== 202) throw new Error(`not asked: ${asked.http} ${JSON.stringify(asked.body)}`);
    return asked.body.approval.id;
  }

  async decide(id: string, decision: "approve" | "deny", more: Record<string, unknown> = {}): Promise<Reply> {
    const { token = await this.person(), ...rest } = more as { token?: string };
    return this.send("POST", `/approvals/${id}/decisions`, { token, body: { decision, ...rest } });
  }

  async show(id: string): Promise<Loose> {
    const shown = await this.send("GET", `/approvals/${id}`, { token: await this.person() });
    return shown.body.approval;
  }

  async send(
    method: string,
    path: string,
    { token, body, headers = {}, signal }: Pick<Extras, "token" | "headers" | "signal"> & { readonly body?: unknown },
  ): Promise<Reply> {
    const response = await fetch(`${this.#service?.url}${path}`, {
      method,
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
      ...(signal !== undefined && { signal }),
    });
    const text = await response.text();
    return { http: response.status, headers: response.headers, body: text === "" ? undefined : JSON.parse(text) };
  }

  get url(): string {
    return this.#service?.url ?? "";
  }

  entries(): readonly AuditEntry[] {
    return auditEntries(join(this.folder, this.#audit));
  }

  entry(traceId: string): AuditEntry | undefined {
    return this.entries().find((entry) => entry.traceId === traceId);
  }

  journal(): readonly JournalEntry[] {
    return journalEntries(join(this.folder, this.#audit));
  }

  /** What happened to one approval, in order. */
  story(id: string): readonly string[] {
    return this.journal()
      .filter((line) => line["id"] === id)
      .map(({ type }) => type);
  }
}

function rawMembers(members: Readonly<Record<string, unknown>>): string {
  return Object.entries(members)
    .map(([name, value]) => `,${JSON.stringify(name)}:${JSON.stringify(value)}`)
    .join("");
}

export function codeOf({ http, body }: Reply): string {
  return http === 202 ? "PENDING" : (body?.error?.code ?? `HTTP ${http}`);
}
