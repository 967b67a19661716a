import { join } from "node:path";
import { SignJWT } from "jose";
import { z } from "zod";
import { OPERATOR_PERMISSIONS } from "../../src/core/operator-permissions.ts";
import { defineTool } from "../../src/index.ts";
import type { AgentsServer } from "../http/agents-servers.ts";
import { AskingService, type Loose, type Reply, type Sent } from "../support/asking-service.ts";
import { auditEntries, journalEntries } from "../support/audit-files.ts";
import type { TokenOrder } from "../support/live-tokens.ts";
import { auditDirOf } from "../support/tenant-service.ts";
import { AGENTS_AUDIENCE, AGENTS_ISSUER, makeSigningKey } from "../support/tokens.ts";

export const TENANTS = ["acme", "globex"] as const;
export type Tenant = (typeof TENANTS)[number];

const PLATFORM_ISSUER = "https://platform.test";
const ACME_ISSUER = "https://login.acme.test";
const PLATFORM_AUDIENCE = "safe-tool-call-platform";
const ALL = Object.keys(OPERATOR_PERMISSIONS);

export const CALLER = { issuer: AGENTS_ISSUER, subject: "agent-7" } as const;

interface TenantsOptions {
  /** The HTTP server of the agents' listener. */
  readonly http?: AgentsServer;
  /** URL of a PostgreSQL; default: files of SQLite. */
  readonly postgresUrl?: string | undefined;
}

/** A service with two tenants that have everything in common but their name: issuers, callers, tools, rules. */
export class TenantsWorld extends AskingService {
  /** Texts with which the tools of each tenant ran, in order. */
  readonly done: Record<Tenant, string[]> = { acme: [], globex: [] };
  /** Messages to each tenant's webhook. */
  readonly notified: Record<Tenant, string[]> = { acme: [], globex: [] };
  readonly #platform = makeSigningKey("ES256", "platform-1");
  readonly #receiver = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      const name = new URL(request.url).pathname.slice(1) as Tenant;
      this.notified[name].push(await request.text());
      return new Response("no", { status: 500 });
    },
  });

  async start({ http = "built-in", postgresUrl }: TenantsOptions = {}): Promise<this> {
    const tenants = { claim: "tenant", names: [...TENANTS] };
    await Bun.write(join(this.folder, "store-url"), postgresUrl ?? "");
    await Bun.write(join(this.folder, "sending"), `whsec_${Buffer.alloc(32, 1).toString("base64")}`);
    await Bun.write(join(this.folder, "deciding"), `whsec_${Buffer.alloc(32, 2).toString("base64")}`);
    await this.run({
      server: { port: 0, http, console: { port: 0 } },
      tools: this.#tools(undefined),
      approvals: postgresUrl === undefined ? { store: "sqlite://./approvals.sqlite" } : { storeUrlFile: "./store-url" },
      mcp: { enabled: true },
      dataFlow: { default: "on" },
      limits: {
        quotas: [{ name: "daily", per: ["caller"], window: "day", calls: 40 }],
        strangerLinesPerMinute: 100_000,
      },
      jwt: {
        issuers: [
          ...this.issuers.profiles().map((profile) => ({ ...profile, tenants })),
          {
            issuer: PLATFORM_ISSUER,
            audience: PLATFORM_AUDIENCE,
            algorithms: ["ES256"],
            jwks: { keys: [this.#platform.jwk] },
            operators: true,
          },
          {
            issuer: ACME_ISSUER,
            audience: AGENTS_AUDIENCE,
            algorithms: ["ES256"],
            jwks: { keys: [this.#platform.jwk] },
            tenants: { claim: "tenant", names: ["acme"] },
          },
        ],
      },
      tenants: Object.fromEntries(TENANTS.map((tenant) => [tenant, this.#sectionOf(tenant)])),
    });
    return this;
  }

  override async end(): Promise<void> {
    await super.end();
    await this.#receiver.stop(true);
  }

  agentOf(tenant: unknown, order: Partial<TokenOrder> = {}): Promise<string> {
    return this.agent({ claims: { tenant }, ...order });
  }

  /** An operator with every permission. */
  operatorOf(tenant: unknown, order: Partial<TokenOrder> = {}): Promise<string> {
    return this.person({ sub: "olga", permissions: ALL, claims: { tenant }, ...order });
  }

  /** An operator of the service itself. */
  platformOperator(): Promise<string> {
    return this.#signed({ sub: "paula", permissions: ALL }, PLATFORM_ISSUER, PLATFORM_AUDIENCE);
  }

  /** An agent's token by an issuer that speaks for acme alone. */
  acmesOwn(tenant: string): Promise<string> {
    return this.#signed({ sub: "agent-7", permissions: ["deeds:do"], tenant }, ACME_ISSUER, AGENTS_AUDIENCE);
  }

  #signed(claims: Loose, issuer: string, audience: string): Promise<string> {
    return new SignJWT(claims)
      .setProtectedHeader({ alg: "ES256", kid: "platform-1", typ: "JWT" })
      .setIssuer(issuer)
      .setAudience(audience)
      .setIssuedAt("1 second ago")
      .setExpirationTime("10 minutes")
      .sign(this.#platform.privateKey);
  }

  async asAgent(tenant: Tenant, method: string, path: string, more: Asked = {}): Promise<Reply> {
    return this.send(method, path, { ...more, token: await this.agentOf(tenant) });
  }

  async asOperator(tenant: Tenant, method: string, path: string, more: Asked = {}): Promise<Reply> {
    return this.send(method, path, { ...more, token: await this.operatorOf(tenant) });
  }

  call(tenant: Tenant, tool: string, text: string, { headers = {}, ...more }: Loose = {}): Promise<Reply> {
    return this.asAgent(tenant, "POST", "/call", { headers, body: { tool, args: { text }, ...more } });
  }

  /** Keeps answers that are not JSON as they are. A path can be a whole URL: of the console. */
  override async send(method: string, path: string, sent: Sent): Promise<Reply> {
    const { response, text } = await this.exchange(method, new URL(path, this.url).href, sent);
    const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
    return { http: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
  }

  /** The folder of a log: the tenant's, or the service's own. */
  logOf(tenant: Tenant | undefined): string {
    return auditDirOf(this.folder, tenant);
  }

  entriesOf(tenant: Tenant | undefined) {
    return auditEntries(this.logOf(tenant));
  }

  journalOf(tenant: Tenant | undefined) {
    return journalEntries(this.logOf(tenant));
  }

  #sectionOf(tenant: Tenant) {
    return {
      tools: this.#tools(tenant),
      approvals: {
        webhooks: [
          {
            name: `${tenant}-chat`,
            url: `http://127.0.0.1:${this.#receiver.port}/${tenant}`,
            secretFile: "./sending",
            decisions: {
              secretFile: "./deciding",
              people: { U1: { issuer: "https://people.test", subject: "wanda" } },
            },
          },
        ],
      },
    };
  }

  #tools(tenant: Tenant | undefined) {
    const common = {
      permissions: { required: ["deeds:do"] },
      input: z.strictObject({ text: z.string().max(200) }),
      output: z.object({ text: z.string() }),
      outputPolicy: { text: "allow" } as const,
      handler: ({ text }: { readonly text: string }) => {
        if (tenant !== undefined) this.done[tenant].push(text);
        return { text };
      },
    };
    return [
      defineTool({
        ...common,
        name: "notes_read",
        description: "Reads a note",
        classification: "read",
        dataFlow: { reads: ["untrusted"] },
      }),
      defineTool({
        ...common,
        name: "notes_write",
        description: "Writes a note",
        classification: "write",
        category: "write",
        dataFlow: { reads: [], sends: [] },
        approval: { grants: { runs: 5, minutes: 30, arguments: { text: "any" } } },
      }),
      defineTool({
        ...common,
        name: "notes_send",
        description: "Sends a note",
        classification: "write",
        category: "network",
      }),
    ];
  }
}

interface Asked {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}
