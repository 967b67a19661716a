import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RunningService, startService } from "../../src/cli/service.ts";
import { StartupError } from "../../src/core/errors.ts";
import { journalEntries } from "../support/audit-files.ts";
import { readConfig } from "../support/build.ts";
import { manifest } from "../support/reload-service.ts";
import { auditDirOf, type TenantName, TenantTokens } from "../support/tenant-service.ts";

const tokens = new TenantTokens();
const NAMES = ["acme", "globex"] as const;
const ALL: readonly TenantName[] = [undefined, ...NAMES];

let folder: string;
let service: RunningService | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "stc-tenants-"));
  for (const name of ["own", ...NAMES]) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, "hello.ts"), manifest({ says: name }));
  }
});
afterEach(async () => {
  await service?.drain();
  service = undefined;
  rmSync(folder, { recursive: true, force: true });
});

async function start(sections: Readonly<Record<string, unknown>> = {}): Promise<RunningService> {
  const written = {
    server: { port: 0 },
    log: { level: "silent" },
    tools: ["./own"],
    audit: { dir: "./audit", durability: "write" },
    jwt: { issuers: tokens.profiles() },
    tenants: { acme: { tools: ["./acme"] }, globex: { tools: ["./globex"] } },
    ...sections,
  };
  service = await startService(readConfig(written, { folder, environment: {}, origin: "test" }));
  return service;
}

async function problemsOf(sections: Readonly<Record<string, unknown>>): Promise<readonly string[]> {
  const error = await start(sections).then(
    () => undefined,
    (cause: unknown) => cause,
  );
  if (!(error instanceof StartupError)) throw new Error("the start was not refused", { cause: error });
  return error.problems;
}

function journalOf(tenant: TenantName) {
  return journalEntries(auditDirOf(folder, tenant));
}

async function says(tenant: TenantName): Promise<string> {
  const headers = {
    authorization: `Bearer ${await tokens.agentOf(tenant, ["hello:say"])}`,
    "content-type": "application/json",
    connection: "close",
  };
  const body = JSON.stringify({ tool: "hello", args: {} });
  const answer = await fetch(`${service?.url}/call`, { method: "POST", headers, body });
  const { result, error } = (await answer.json()) as ReturnType<typeof JSON.parse>;
  return result?.said ?? error.code;
}

describe("a service with two tenants", () => {
  test("starts and ends with them: each has its own tool of the same name, and its own log", async () => {
    await start();
    expect(await Promise.all(ALL.map(says))).toEqual(["own", "acme", "globex"]);
    await service?.drain();
    for (const tenant of ALL) {
      const types = journalOf(tenant).map(({ type }) => type);
      expect([types[0], types.at(-1)]).toEqual(["service.started", "service.stopped"]);
    }
    // Nothing has a lock any more.
    await start();
    expect(await Promise.all(ALL.map(says))).toEqual(["own", "acme", "globex"]);
  });

  test("has one reserve on the disk of its audits, as without tenants", async () => {
    await start();
    const found = readdirSync(join(folder, "audit"), { recursive: true, encoding: "utf8" });
    expect(found.filter((path) => path.endsWith("/reserve"))).toEqual([".state/reserve"]);
  });

  test("reports the problems of the service and of all tenants together, and opens nothing", async () => {
    const problems = await problemsOf({
      tools: ["./none"],
      tenants: { acme: { tools: ["./none"] }, globex: { tools: ["./nothing"] } },
    });
    expect(problems.map((problem) => /^[a-z.]*/.exec(problem)?.[0])).toEqual([
      "tools",
      "tenants.acme.tools",
      "tenants.globex.tools",
    ]);
  });

  test("names the tenant of a problem that only that tenant has", async () => {
    const problems = await problemsOf({ tenants: { acme: { tools: ["./acme"] }, globex: { tools: ["./none"] } } });
    expect(problems).toHaveLength(1);
    expect(problems[0]).toStartWith("tenants.globex");
    // The service and the other tenant were read, and not opened.
    expect(existsSync(join(folder, "audit", "journal"))).toBe(false);
    await start();
    expect(await says("globex")).toBe("globex");
  });

  test("has integrations whose names are unique: the name in a signed message says whose it is", async () => {
    const decisions = { secretFile: "./key", people: { U1: { issuer: "https://tenants.test", subject: "olga" } } };
    const approvals = { webhooks: [{ name: "chat", decisions }] };
    const tenants = { acme: { tools: ["./acme"], approvals }, globex: { tools: ["./globex"], approvals } };
    const refused = "is also the name of another integration, of the service or of a tenant: each needs its own";
    expect(await problemsOf({ tenants })).toEqual(
      NAMES.map((name) => `test: tenants.${name}.approvals.webhooks[0].name: ${refused}`),
    );
  });

  test("counts only their own approvers for the service itself and for each tenant", async () => {
    const approvals = {
      store: "sqlite://./approvals.sqlite",
      rules: [{ name: "ask", when: { tool: "hello" }, verdict: "ask" }],
      policies: [{ name: "p", when: { tools: ["hello"] }, require: { count: 1 } }],
    };
    const profiles = tokens.profiles();
    const [agents, , ofTenants, people] = profiles;
    const nobody =
      "approvals.policies[0] (p): nobody can approve hello: there is no issuer in jwt.issuers with operators: true";
    expect(await problemsOf({ approvals, jwt: { issuers: [agents, ofTenants, people] } })).toEqual([
      `${nobody} and without tenants`,
    ]);
    const acmes = { ...people, tenants: { claim: "tenant", names: ["acme"] } };
    expect(await problemsOf({ approvals, jwt: { issuers: [...profiles.slice(0, 3), acmes] } })).toEqual([
      `${nobody} and globex in tenants.names (for the tenant globex)`,
    ]);
    await start({ approvals });
  });

  test("has no integration of the service itself that decides for a tenant's approver", async () => {
    writeFileSync(join(folder, "key"), `whsec_${Buffer.alloc(32, 1).toString("base64")}`, { mode: 0o600 });
    const deciding = (issuer: string) => ({
      store: "sqlite://./approvals.sqlite",
      webhooks: [{ name: "chat", decisions: { secretFile: "./key", people: { U1: { issuer, subject: "olga" } } } }],
    });
    expect(await problemsOf({ approvals: deciding("https://tenants.test") })).toEqual([
      "approvals.webhooks[0].decisions.people.U1.issuer: https://tenants.test is not an issuer in jwt.issuers with operators: true and without tenants",
    ]);
    await start({ approvals: deciding("https://platform.test") });
  });

  test("closes what was opened when a tenant cannot be opened", async () => {
    mkdirSync(join(folder, "audit", "tenants"), { recursive: true });
    writeFileSync(auditDirOf(folder, "globex"), "");
    const problems = await problemsOf({});
    expect(problems.join()).toContain("globex");
    rmSync(auditDirOf(folder, "globex"));
    await start();
    expect(await Promise.all(ALL.map(says))).toEqual(["own", "acme", "globex"]);
  });

  test("closes its tenants when a listener cannot be opened", async () => {
    const taken = createServer();
    const port = await new Promise<number>((resolve) => {
      taken.listen(0, "127.0.0.1", () => resolve((taken.address() as { readonly port: number }).port));
    });
    try {
      expect(await problemsOf({ server: { port } })).toEqual([`server.port: ${port} is in use`]);
    } finally {
      taken.close();
    }
    expect(journalOf("acme").at(-1)?.type).toBe("service.stopped");
    await start();
  });

  test("is ready while a tenant is; probes without a token are about the service", async () => {
    await start();
    const readiness = async (tenant?: TenantName | "nobody") => {
      const headers =
        tenant === "nobody"
          ? undefined
          : { authorization: `Bearer ${await tokens.operatorOf(tenant, ["metrics:read"])}` };
      const answer = await fetch(`${service?.url}/readyz`, { ...(headers && { headers }) });
      return (await answer.json()) as ReturnType<typeof JSON.parse>;
    };
    expect(await readiness("nobody")).toEqual({ status: "ready" });
    expect((await readiness()).tenantsWithoutAudit).toEqual([]);
    expect(await readiness("acme")).toMatchObject({ status: "ready", audit: { status: "ok" } });
    expect(Object.keys(await readiness("acme"))).not.toContain("tenantsWithoutAudit");
  });
});
