import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { AGENTS_SERVERS } from "../http/agents-servers.ts";
import { type TenantName, TenantService } from "../support/tenant-service.ts";
import { Authority, type Pair } from "../support/tls-files.ts";

const spiffe = (name: string): string => `spiffe://prod.example/ns/${name}/sa/runner`;
const NAMES = ["acme", "globex", "service", "stranger"] as const;
const ALL: readonly TenantName[] = [undefined, "acme", "globex"];
const ISSUERS = { acme: "https://tenants.test", globex: "https://tenants.test", service: "https://platform.test" };

describe.each(AGENTS_SERVERS)("at a TLS listener of the HTTP server %s, a client certificate", (http) => {
  const service = new TenantService();
  let servers: Authority;
  const certificates = new Map<string, Pair>();

  beforeAll(async () => {
    const clients = await Authority.create("clients");
    servers = await Authority.create("servers");
    for (const name of NAMES) {
      certificates.set(name, await clients.issue(name, { names: [{ type: "url", value: spiffe(name) }] }));
    }
    const server = await servers.issue("server-1");
    for (const [file, text] of Object.entries({
      "server.pem": server.cert,
      "key.pem": server.key,
      "clients.pem": clients.pem,
    }))
      writeFileSync(join(service.folder, file), text);
    const clientCertificates = Object.entries(ISSUERS).map(([name, issuer]) => ({
      spiffeId: spiffe(name),
      issuer,
      subject: `runner-${name}`,
      permissions: ["deeds:do"],
      ...(name !== "service" && { tenant: name }),
    }));
    await service.start({
      server: { port: 0, http, tls: { certFile: "./server.pem", keyFile: "./key.pem", clientCaFile: "./clients.pem" } },
      jwt: { issuers: service.tokens.profiles(), clientCertificates },
    });
  });
  afterAll(() => service.end());

  /** Calls on a connection of its own, with a certificate, a token or both. Returns the answer. */
  async function call(name: string | undefined, token?: string): Promise<string> {
    const certificate = certificates.get(name ?? "");
    const headers = {
      "content-type": "application/json",
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    };
    const tls = { ca: servers.pem, ...(certificate && { cert: certificate.cert, key: certificate.key }) };
    const init = {
      method: "POST",
      headers,
      body: JSON.stringify({ tool: "do_read", args: {} }),
      tls,
      keepalive: false,
    };
    const answer = await fetch(`${service.url}/call`, init);
    const { result, error } = (await answer.json()) as ReturnType<typeof JSON.parse>;
    return result?.by ?? `${answer.status} ${error.code}`;
  }

  test("reaches the tenant that the table names for it, or the service itself", async () => {
    const before = ALL.map((tenant) => service.entriesOf(tenant).length);
    for (const name of ["acme", "globex", "service"]) expect(await call(name)).toBe(name);
    for (const [at, tenant] of ALL.entries()) {
      const entries = service.entriesOf(tenant).slice(before[at]);
      const callers = entries.map((entry) => [entry.caller.sub, entry.tenant]);
      expect(callers).toEqual([[`runner-${tenant ?? "service"}`, tenant]]);
    }
  });

  test("that the table does not know, and none, are refused in the service's own log", async () => {
    const before = ALL.map((tenant) => service.entriesOf(tenant).length);
    for (const name of ["stranger", undefined]) expect(await call(name)).toBe("401 UNAUTHENTICATED");
    const codes = ALL.map((tenant, at) =>
      service
        .entriesOf(tenant)
        .slice(before[at])
        .map(({ error }) => error?.code),
    );
    expect(codes).toEqual([["UNAUTHENTICATED", "UNAUTHENTICATED"], [], []]);
  });

  test("stands back behind a token: the token says whose the call is", async () => {
    const tokens: readonly TenantName[] = ["globex", undefined];
    for (const tenant of tokens) expect(await call("acme", await service.agentOf(tenant))).toBe(tenant ?? "service");
    expect(await call("acme", "nonsense")).toBe("401 UNAUTHENTICATED");
  });
});
