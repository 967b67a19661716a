import { join } from "node:path";
import { SignJWT } from "jose";
import { z } from "zod";
import { tenantDirOf } from "../../src/core/tenant-names.ts";
import { defineTool } from "../../src/index.ts";
import type { CallExtras, Reply } from "./asking-service.ts";
import { auditEntries, type JournalEntry, journalEntries } from "./audit-files.ts";
import { HoldingService } from "./holding-service.ts";
import { makeSigningKey } from "./tokens.ts";

/** Tenants of the service; `undefined` is the service itself. */
export type TenantName = "acme" | "globex" | undefined;

const PLATFORM = "https://platform.test";
const TENANTS = "https://tenants.test";
const AUDIENCES = { agents: "safe-tool-call", operators: "safe-tool-call-operators" } as const;

/** The issuers of a service with two tenants, and tokens of theirs. */
export class TenantTokens {
  readonly #key = makeSigningKey("ES256", "tenants-1");

  /** The issuers as a configuration has them. */
  profiles(): readonly Record<string, unknown>[] {
    const tenants = { claim: "tenant", names: ["acme", "globex"] };
    return [
      this.#profile(PLATFORM, "agents"),
      this.#profile(PLATFORM, "operators"),
      { ...this.#profile(TENANTS, "agents"), tenants },
      { ...this.#profile(TENANTS, "operators"), tenants },
    ];
  }

  agentOf(tenant: TenantName, permissions: readonly string[] = ["deeds:do"], sid?: string): Promise<string> {
    return this.#sign(tenant, "agents", permissions, sid);
  }

  operatorOf(tenant: TenantName, permissions: readonly string[]): Promise<string> {
    return this.#sign(tenant, "operators", permissions);
  }

  #profile(issuer: string, audience: keyof typeof AUDIENCES): Record<string, unknown> {
    const jwks = { keys: [this.#key.jwk] };
    const profile = { issuer, audience: AUDIENCES[audience], algorithms: ["ES256"], jwks };
    return audience === "operators" ? { ...profile, operators: true } : profile;
  }

  #sign(
    tenant: TenantName,
    audience: keyof typeof AUDIENCES,
    permissions: readonly string[],
    sid?: string,
  ): Promise<string> {
    const key = this.#key;
    const sub = audience === "operators" ? "olga" : "agent-7";
    const claims = { sub, permissions, ...(tenant && { tenant }), ...(sid && { sid }) };
    return new SignJWT(claims)
      .setProtectedHeader({ alg: key.alg, kid: key.kid, typ: "JWT" })
      .setIssuer(tenant === undefined ? PLATFORM : TENANTS)
      .setAudience(AUDIENCES[audience])
      .setIssuedAt("1 second ago")
      .setExpirationTime("10 minutes")
      .sign(key.privateKey);
  }
}

/** Returns the audit directory in the folder of a service, or that of one of its tenants. */
export function auditDirOf(folder: string, tenant: TenantName): string {
  const dir = join(folder, "audit");
  return tenant === undefined ? dir : tenantDirOf(dir, tenant);
}

/** A service with two tenants. It and they have tools of the same names: a read, a change that asks, and a slow read. */
export class TenantService extends HoldingService {
  readonly tokens = new TenantTokens();
  /** Runs that have begun, in order, each with its tenant. */
  readonly begun: string[] = [];

  /** `ofTenants`: sections of the tenants. */
  async start(
    sections: Readonly<Record<string, unknown>> = {},
    ofTenants: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {},
  ): Promise<this> {
    await this.run({
      tools: this.tools("service"),
      approvals: { store: "sqlite://./approvals.sqlite" },
      jwt: { issuers: this.tokens.profiles() },
      tenants: {
        acme: { tools: this.tools("acme"), ...ofTenants["acme"] },
        globex: { tools: this.tools("globex"), ...ofTenants["globex"] },
      },
      ...sections,
    });
    return this;
  }

  agentOf(tenant: TenantName): Promise<string> {
    return this.tokens.agentOf(tenant);
  }

  operatorOf(tenant: TenantName, permissions: readonly string[]): Promise<string> {
    return this.tokens.operatorOf(tenant, permissions);
  }

  async callTo(tenant: TenantName, tool: string, { headers = {}, signal }: CallExtras = {}): Promise<Reply> {
    const token = await this.agentOf(tenant);
    return this.send("POST", "/call", { token, headers, body: { tool, args: {} }, ...(signal && { signal }) });
  }

  entriesOf(tenant: TenantName) {
    return auditEntries(auditDirOf(this.folder, tenant));
  }

  journalOf(tenant: TenantName): readonly JournalEntry[] {
    return journalEntries(auditDirOf(this.folder, tenant));
  }

  /** Tools of a tenant, or of the service. */
  tools(owner: string) {
    const common = {
      permissions: { required: ["deeds:do"] },
      input: z.strictObject({}),
      output: z.object({ by: z.string() }),
      outputPolicy: { by: "allow" },
    } as const;
    const handler = (name: string) => async () => {
      this.begun.push(`${name} of ${owner}`);
      if (name === "slow_read") {
        await this.hold();
      }
      return { by: owner };
    };
    const tool = (name: string, rest: { classification: "read" } | { classification: "write"; category: "write" }) =>
      defineTool({ ...common, ...rest, name, description: "Does a deed", handler: handler(name) });
    return [
      tool("do_read", { classification: "read" }),
      tool("slow_read", { classification: "read" }),
      tool("do_write", { classification: "write", category: "write" }),
    ];
  }
}
