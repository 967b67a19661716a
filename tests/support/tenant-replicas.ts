import { expect } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { cookieIn, type Halves, outcomeOf } from "../console/console-stand.ts";
import { auditEntries, journalEntries } from "./audit-files.ts";
import { EndingWorld } from "./ending-world.ts";
import { manifest } from "./reload-service.ts";
import { ReplicaLoad } from "./replica-load.ts";
import { recording } from "./replicas-world.ts";
import { runStc, SIGNATURES_NOT_CHECKED } from "./stc.ts";
import { auditDirOf, type TenantName, TenantTokens } from "./tenant-service.ts";
import { until } from "./until.ts";

export const TENANTS = ["acme", "globex"] as const;
export type Tenant = (typeof TENANTS)[number];

/** Calls of `counted` in a month, and of `limited` at once. */
export const QUOTA = 6;
export const RATE = 20;

const CONSOLE = "https://console.example";
const COOKIE = "__Host-stc_console";
/** Each tenant has a load of its own; few enough calls for a busy machine. */
const CALLS_PER_SECOND = 40;
/** Begins the keys of a load, whose changes take so long that a kill interrupts some. */
export const LOAD = "load";
const SLOWLY = "await new Promise((resolve) => setTimeout(resolve, 200));";
const PERMISSIONS = [
  ...["approvals:decide", "grants:manage", "halts:read", "halts:write"],
  ...["quotas:read", "quotas:write", "audit:read"],
];

/** Output of a verification of the service's own log about those of its tenants. */
const NOTED = TENANTS.map((tenant) => `not verified: the tenant ${tenant}: add --tenant ${tenant}\n`).join("");

const LIMITS = {
  shared: true,
  rates: { tools: { limited: { tool: { calls: RATE, seconds: 600 } } } },
  quotas: [{ name: "few", per: ["caller"], calls: QUOTA, window: "month", when: { tools: ["counted"] } }],
};

/** JSON of which the tests say what they expect. */
type Loose = ReturnType<typeof JSON.parse>;

interface Reply {
  readonly http: number;
  readonly body: Loose;
}

interface CallOptions {
  readonly key?: string;
  readonly approval?: string;
  /** Claim of the token. */
  readonly sid?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The status of an answer, with the code of its error. */
export const outcome = ({ http, body }: Reply): string => `${http} ${body?.error?.code ?? body?.status}`;

/**
 * Two services in processes of their own on one PostgreSQL, each with the same two tenants, which differ in their names only: they have
 * the same callers, operators, tools and limits. The runs of a tenant's tools are recorded in a file of the tenant.
 */
export class TenantReplicas {
  readonly tokens = new TenantTokens();
  readonly replicas: readonly [EndingWorld, EndingWorld];
  /** Trace ids of the answers to each tenant's calls. */
  readonly #traces: Record<Tenant, string[]> = { acme: [], globex: [] };

  constructor(databaseUrl: string) {
    const changes = {
      server: { port: 0, console: { port: 0, publicUrl: CONSOLE }, drainTimeoutMs: 5_000 },
      tools: [],
      approvals: { storeUrlFile: "./url" },
      ...this.#sections(TENANTS),
    };
    this.replicas = [new EndingWorld(changes), new EndingWorld(changes)];
    for (const { world } of this.replicas) {
      world.write("url", `${databaseUrl}\n`);
      for (const tenant of TENANTS) this.#writeTools(tenant, (name, text) => world.write(`${tenant}/${name}.ts`, text));
    }
  }

  /** Returns the sections that name the tenants. */
  #sections(names: readonly Tenant[]) {
    const tenants = { claim: "tenant", names };
    const issuers = this.tokens.profiles().map((profile) => ("tenants" in profile ? { ...profile, tenants } : profile));
    const sections = names.map((name) => [name, { tools: [`./${name}`], limits: LIMITS }] as const);
    return { jwt: { issuers }, tenants: Object.fromEntries(sections) };
  }

  /** Starts a replica again, with these tenants. */
  async restart(at: EndingWorld, names: readonly Tenant[]): Promise<void> {
    await at.end("SIGTERM");
    at.world.configure(this.#sections(names));
    await at.start();
  }

  #writeTools(tenant: Tenant, write: (name: string, text: string) => void): void {
    for (const name of ["hello", "counted", "limited"]) write(name, manifest({ name, says: tenant }));
    for (const [prefix, end] of [
      ["", `if (key.startsWith("${LOAD}")) ${SLOWLY} return { key };`],
      ["stuck_", "return new Promise(() => {});"],
    ] as const) {
      for (const [name, asks] of [
        ["record", false],
        ["approved", true],
      ] as const) {
        const text = recording(`${prefix}${name}`, this.#runsFile(tenant), asks);
        const logged = text.replace("  output:", '  inputPolicy: { key: "allow" },\n  output:');
        write(`${prefix}${name}`, logged.replace("return { key };", end));
      }
    }
  }

  #runsFile(tenant: Tenant): string {
    return join(this.replicas[0].world.folder, `runs-${tenant}`);
  }

  /** Returns the keys of the runs of a tenant's changes at both replicas, in order. */
  runs(tenant: Tenant): readonly string[] {
    const file = this.#runsFile(tenant);
    return existsSync(file) ? readFileSync(file, "utf8").split("\n").filter(Boolean) : [];
  }

  /** Returns how often a change with this key ran in each tenant. */
  runsOf(key: string): Readonly<Record<Tenant, number>> {
    const count = (tenant: Tenant) => this.runs(tenant).filter((each) => each === key).length;
    return { acme: count("acme"), globex: count("globex") };
  }

  async start(): Promise<this> {
    await Promise.all(this.replicas.map((each) => each.start()));
    return this;
  }

  async end(): Promise<void> {
    await Promise.all(this.replicas.map((each) => each.remove()));
  }

  async #send(at: EndingWorld, line: string, token: string, { body, headers = {} }: Loose = {}): Promise<Reply> {
    const [method = "", path = ""] = line.split(" ");
    const hasBody = body !== undefined;
    const response = await fetch(`${at.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(hasBody && { "content-type": "application/json" }),
        ...headers,
      },
      ...(hasBody && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { http: response.status, body: text === "" ? undefined : JSON.parse(text) };
  }

  async call(at: EndingWorld, tenant: Tenant, tool: string, options: CallOptions = {}): Promise<Reply> {
    const { key, approval, sid, headers } = options;
    const body = {
      ...{ tool, args: key === undefined ? {} : { key } },
      ...(approval !== undefined && { approval: { id: approval } }),
    };
    const token = await this.tokens.agentOf(tenant, ["hello:say"], sid);
    const reply = await this.#send(at, "POST /call", token, { body, headers });
    this.#traces[tenant].push(reply.body.traceId);
    return reply;
  }

  /** Sends a change with an `Idempotency-Key`. */
  keyed(at: EndingWorld, tenant: Tenant, tool: string, key: string): Promise<Reply> {
    return this.call(at, tenant, tool, { key, headers: { "idempotency-key": key } });
  }

  /** Asks for approval of a change, and returns the id of the request. */
  async ask(at: EndingWorld, tenant: Tenant, key: string, options: CallOptions = {}): Promise<string> {
    const reply = await this.call(at, tenant, "approved", { ...options, key });
    expect(outcome(reply)).toBe("202 pending");
    return reply.body.approval.id;
  }

  async asOperator(at: EndingWorld, tenant: TenantName, line: string, body?: unknown): Promise<Reply> {
    return this.#send(at, line, await this.tokens.operatorOf(tenant, PERMISSIONS), { body });
  }

  decide(at: EndingWorld, tenant: Tenant, id: string, scope = "once"): Promise<Reply> {
    return this.asOperator(at, tenant, `POST /approvals/${id}/decisions`, { decision: "approve", scope });
  }

  /** Sends a request as the console's page does. */
  async console(at: EndingWorld, line: string, { session, body }: { session?: Halves; body?: unknown } = {}) {
    const [method = "", path = ""] = line.split(" ");
    const [, url] = /"consoleUrl":"([^"]+)"/.exec(at.log()) ?? [];
    return fetch(`${url}${path}`, {
      method,
      headers: {
        ...{ "sec-fetch-site": "same-origin", origin: CONSOLE },
        ...(body !== undefined && { "content-type": "application/json" }),
        ...(session && { cookie: `${COOKIE}=${session.cookie}`, "stc-console-key": session.key }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  }

  async signIn(at: EndingWorld, tenant: TenantName): Promise<Halves> {
    const token = await this.tokens.operatorOf(tenant, PERMISSIONS);
    const answer = await this.console(at, "POST /console/session", { body: { token } });
    expect(answer.status).toBe(200);
    const { key } = (await answer.json()) as { readonly key: string };
    return { key, cookie: cookieIn(answer, COOKIE) };
  }

  async seen(at: EndingWorld, line: string, session: Halves): Promise<string> {
    return outcomeOf(await this.console(at, line, { session }));
  }

  /** Begins a load of a tenant at both replicas, with the same keys in every tenant. */
  async load(tenant: Tenant): Promise<ReplicaLoad> {
    let turn = 0;
    const url = (): string => {
      turn += 1;
      return (this.replicas[turn % 2] as EndingWorld).url;
    };
    return new ReplicaLoad({
      url,
      agent: `Bearer ${await this.tokens.agentOf(tenant, ["hello:say"])}`,
      operator: `Bearer ${await this.tokens.operatorOf(tenant, PERMISSIONS)}`,
      ...{ file: this.#runsFile(tenant), callsPerSecond: CALLS_PER_SECOND, keys: LOAD, triesAgain: true },
    });
  }

  /** Resolves when a change of each tenant runs at the replica without an approval. */
  async changing({ world }: EndingWorld): Promise<void> {
    await until("changes of each tenant", () => {
      const isChanging = TENANTS.every((tenant) => {
        const dir = auditDirOf(world.folder, tenant);
        const ended = new Set(auditEntries(dir).map(({ traceId }) => traceId));
        return journalEntries(dir).some(
          ({ type, tool, traceId = "" }) => type === "intent" && tool === "record" && !ended.has(traceId),
        );
      });
      return isChanging ? true : undefined;
    });
  }

  /** Returns the lines of a tenant's calls at both replicas. */
  entries(tenant: TenantName) {
    return this.replicas.flatMap(({ world }) => auditEntries(auditDirOf(world.folder, tenant)));
  }

  journals(tenant: TenantName) {
    return this.replicas.flatMap(({ world }) => journalEntries(auditDirOf(world.folder, tenant)));
  }

  /** Each log verifies, every call is in the log of its tenant alone, and every change that has begun has an end there. */
  async expectWhole(): Promise<void> {
    for (const tenant of [undefined, ...TENANTS]) {
      for (const { world } of this.replicas) {
        const { code, err } = await runStc(["audit", "verify", "--dir", auditDirOf(world.folder, tenant)]);
        expect({ tenant, code, err }).toEqual({ tenant, code: SIGNATURES_NOT_CHECKED, err: tenant ? "" : NOTED });
      }
    }
    expect(this.entries(undefined)).toEqual([]);
    for (const tenant of TENANTS) {
      const entries = this.entries(tenant);
      expect([...new Set(entries.map((entry) => entry.tenant))]).toEqual([tenant]);
      const traces = new Set(entries.map(({ traceId }) => traceId));
      expect(this.#traces[tenant].filter((traceId) => !traces.has(traceId))).toEqual([]);
      const others = TENANTS.filter((each) => each !== tenant).flatMap((each) => this.#traces[each]);
      expect(others.filter((traceId) => traces.has(traceId))).toEqual([]);
      const begun = this.journals(tenant).filter(({ type }) => type === "intent");
      expect(begun.filter(({ traceId = "" }) => !traces.has(traceId))).toEqual([]);
    }
  }
}
