import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { StartupError } from "../../../src/core/errors.ts";
import { SafeToolCall, type SafeToolCallOptions } from "../../../src/index.ts";
import { MODULES } from "../../../src/modules.ts";
import { checkpointKeyFileOf, configSchema, entriesOf } from "../../../src/runtime/config/config.ts";
import { ownPaths } from "../../../src/runtime/config/own-paths.ts";
import { writtenTenant } from "../../../src/runtime/config/tenant-sections.ts";
import { keepingTenants, problemOf, tenantConfigOf, tenantConfigs } from "../../../src/runtime/config/tenants.ts";
import { PROJECT } from "../../support/world.ts";
import { ISSUER, problemsOf, read } from "./reading.ts";

const OF_TENANTS = { ...ISSUER, issuer: "https://tenants.test", tenants: { names: ["acme", "globex"] } };
const JWT = { issuers: [ISSUER, OF_TENANTS] };
const INSIDE = { acme: { tools: ["./acme"] }, globex: { tools: ["./globex"] } };

function withTenants(tenants: object = {}, service: object = {}) {
  return { jwt: JWT, tenants: { ...INSIDE, ...tenants }, ...service };
}

function acme(own: object, service: object = {}, environment = {}) {
  const config = read(withTenants({ acme: { ...INSIDE.acme, ...own } }, service), environment);
  return tenantConfigOf(config, "acme");
}

describe("a tenant", () => {
  test("has only what it writes of what a tenant may reach", () => {
    const service = {
      systems: { lists: { names: ["one"] } },
      approvals: { store: "sqlite://./a.sqlite", receiptKeyFile: "./receipts.pem" },
      audit: { dir: "./audit", checkpointKeyFile: "./own.key", export: [] },
    };
    const { tools, systems, approvals, audit } = acme({}, service);
    expect([tools, systems, approvals.receiptKeyFile, audit.checkpointKeyFile]).toEqual([
      ["./acme"],
      {},
      undefined,
      undefined,
    ]);
  });

  test("has no problem of its own where the service lacks a whole section", () => {
    expect(problemsOf(withTenants({}, { audit: undefined })).filter((problem) => problem.includes("audit"))).toEqual([
      "audit: is missing; it is a table of keys and values",
    ]);
  });

  test("has what limits it from the service, unless it writes the whole section", () => {
    const service = { limits: { concurrentCallsMax: 7, connectionsMax: 9 }, halts: { whenUnknown: "refuseChanges" } };
    expect(acme({}, service).limits.concurrentCallsMax).toBe(7);
    const own = acme({ limits: { concurrentCallsMax: 3 } }, service);
    expect([own.limits.concurrentCallsMax, own.limits.connectionsMax, own.halts.whenUnknown]).toEqual([
      3,
      50_000,
      "refuseChanges",
    ]);
  });

  test("has each key of approvals and audit from the service, unless it writes that key", () => {
    const service = {
      approvals: { decideBySeconds: 100, coolDownSeconds: 5 },
      audit: { dir: "./audit", retentionDays: 9 },
    };
    const { approvals, audit } = acme({ approvals: { coolDownSeconds: 6 }, audit: { retentionDays: 90 } }, service);
    expect([approvals.decideBySeconds, approvals.coolDownSeconds, audit.retentionDays]).toEqual([100, 6, 90]);
  });

  test("has a log, a key and a deployment of its own, also with variables of the environment", () => {
    const config = acme(
      {},
      { approvals: { deployment: "shop" } },
      { STC_AUDIT_DIR: "./logs", STC_APPROVALS_STORE: "sqlite://./b.sqlite" },
    );
    const { tenant, audit, approvals } = config;
    expect([tenant, audit.dir, approvals.deployment, approvals.store]).toEqual([
      ...["acme", "logs/tenants/acme", "shop/acme", "sqlite://./b.sqlite"],
    ]);
    expect(checkpointKeyFileOf(config)).toBe("logs.acme.key");
    expect(Object.isFrozen(audit)).toBe(true);
  });

  test("has the kinds of its systems", () => {
    const { systems } = acme({ systems: { shop: { http: { baseUrl: "https://shop.test" } } } });
    expect([...entriesOf({ systems }, { name: "http" }).keys()]).toEqual(["shop"]);
  });

  test("has only issuers, certificates and inherited bindings of its own callers", () => {
    const certificate = { spiffeId: "spiffe://x/a", issuer: OF_TENANTS.issuer, subject: "a", tenant: "acme" };
    const other = { ...certificate, spiffeId: "spiffe://x/b", tenant: "globex" };
    const roles = { role: { permissions: ["a:b"] } };
    const bindings = [ISSUER, OF_TENANTS].map(({ issuer }) => ({ role: "role", issuer, subject: "x" }));
    const jwt = { ...JWT, clientCertificates: [other, certificate] };
    const config = acme({}, { jwt, roles, bindings });
    expect(config.jwt.issuers.map(({ issuer, tenants }) => [issuer, tenants?.names])).toEqual([
      [OF_TENANTS.issuer, ["acme"]],
    ]);
    expect(config.jwt.clientCertificates.map(({ spiffeId }) => spiffeId)).toEqual(["spiffe://x/a"]);
    expect(config.bindings.map(({ issuer }) => issuer)).toEqual([OF_TENANTS.issuer]);
  });

  test("may not give its tools what the service or another tenant names", () => {
    const paths = ownPaths(acme({}, { approvals: { store: "sqlite://./a.sqlite" } })).map(({ path }) => path);
    expect(paths).toEqual(
      expect.arrayContaining([
        ...["/srv/tools", "/srv/audit-logs", "/srv/audit-logs.key", "/srv/a.sqlite"],
        ...["/srv/globex", "/srv/audit-logs.globex.key", "/srv/a.globex.sqlite", "/srv/a.acme.sqlite"],
      ]),
    );
  });
});

describe("the table of docs/tenants.md", () => {
  const [, table = ""] = readFileSync(join(PROJECT, "docs/tenants.md"), "utf8").split(
    "| in a tenant | sections |\n|---|---|\n",
  );
  const rows = table
    .split("\n\n")[0]
    ?.split("\n")
    .map((row) => [...row.matchAll(/`([a-zA-Z.]+)`/g)].map(([, name = ""]) => name));
  const [own = [], inherited = [], ofService = [], derived = []] = rows ?? [];
  /** Returns a configuration with a value for each of these settings. */
  const sectionsOf = (names: readonly string[], value: string) => {
    const sections: Record<string, unknown> = {};
    for (const [section = "", key] of names.map((name) => name.split(".")))
      sections[section] = key === undefined ? value : { ...(sections[section] as object), [key]: value };
    return sections;
  };
  const writtenAt = (sections: Readonly<Record<string, unknown>>, name: string): unknown =>
    name.split(".").reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], sections);
  const derivedFrom = (service: object, tenant: object) =>
    writtenTenant({ ...service, tenants: { acme: tenant } }, "acme").written;

  test("has every section once", () => {
    const all = [...own, ...inherited, ...ofService, ...derived];
    expect(new Set(all).size).toBe(all.length);
    const whole = new Set(
      all.filter((name) => !["approvals", "audit"].includes(name)).map((name) => name.split(".")[0]),
    );
    expect([...whole, "tenants"].sort()).toEqual(Object.keys(configSchema(MODULES).shape).sort());
  });

  test("says what a tenant has only if it writes it, and what it has from the service otherwise", () => {
    const settings = [...own, ...inherited].filter(
      (name) => name.includes(".") || !["approvals", "audit"].includes(name),
    );
    const service = sectionsOf(settings, "of the service");
    for (const name of settings) {
      const expected = own.includes(name) ? undefined : "of the service";
      expect([name, writtenAt(derivedFrom(service, {}), name)]).toEqual([name, expected]);
      expect(writtenAt(derivedFrom(service, sectionsOf([name], "own")), name)).toBe("own");
    }
  });

  test.each([...ofService, ...derived])("says that a tenant cannot write %s", (name) => {
    const problems = problemsOf(withTenants({ acme: { ...INSIDE.acme, ...sectionsOf([name], "own") } }));
    expect(
      problems.filter((problem) => problem.startsWith(`tenants.acme.${name}: cannot be set for a tenant`)),
    ).toHaveLength(1);
  });
});

test("the configuration of the service holds the names of its tenants only", () => {
  const config = read(withTenants({ acme: { tools: ["./acme"], limits: { connectionsMax: 5 } } }));
  expect([config.tenants, config.tenant]).toEqual([{ acme: {}, globex: {} }, undefined]);
  expect(tenantConfigs({ ...config }).map(({ tenant }) => tenant)).toEqual(["acme", "globex"]);
  expect(tenantConfigs(read({}))).toEqual([]);
});

const OF_SERVICE = "cannot be set for a tenant: the service's own setting applies to all tenants";

test.each<readonly [string, object, readonly string[]]>([
  [
    "an unknown key",
    { acme: { tools: ["x"], limts: {} } },
    ["tenants.acme.limts: is not a known key; did you mean limits?"],
  ],
  [
    "a key of a section",
    { acme: { tools: ["x"], limits: { odd: 1 } } },
    ["tenants.acme.limits.odd: is not a known key"],
  ],
  ["a section of the service", { acme: { tools: ["x"], server: {} } }, [`tenants.acme.server: ${OF_SERVICE}`]],
  [
    "a key of the service",
    { acme: { tools: ["x"], audit: { queueEntriesMax: 5 } } },
    [`tenants.acme.audit.queueEntriesMax: ${OF_SERVICE}`],
  ],
  ["a number in place of a section", { acme: 3 }, ["tenants.acme: must be a table of keys and values"]],
])("%s in a tenant is a problem at the field where it is written", (_what, tenants, problems) => {
  const found = problemsOf(withTenants(tenants));
  expect(found.filter((problem) => problem.startsWith("tenants.acme"))).toEqual(expect.arrayContaining([...problems]));
  expect(found.filter((problem) => problem.includes("globex"))).toEqual([]);
});

test("all problems are reported at once, and those of an inherited section once", () => {
  const service = { limits: { odd: 1 } };
  const tenants = { acme: { tools: ["x"], limits: { other: 1 } }, globex: { tools: ["x"], roles: 3 } };
  expect(problemsOf(withTenants(tenants, service))).toEqual([
    "limits.odd: is not a known key",
    "tenants.acme.limits.other: is not a known key",
    "tenants.globex.roles: must be a table of keys and values",
  ]);
});

test("a problem that only a tenant has in an inherited section names the tenant", () => {
  const issuers = [ISSUER, { ...OF_TENANTS, operators: true, audience: "people" }];
  const service = { jwt: { issuers }, roles: { role: { tools: ["*"] } }, bindings: [{ role: "role", subject: "x" }] };
  expect(problemsOf(withTenants({}, service))).toEqual([]);
  const bindings = [{ role: "role", subject: "x" }];
  expect(problemsOf(withTenants({ acme: { ...INSIDE.acme, bindings } }, service))).toEqual([
    "tenants.acme.bindings[0].issuer: is missing, and jwt.issuers does not have exactly one issuer of agents: name one of https://tenants.test",
  ]);
  const long = { approvals: { deployment: "x".repeat(125) } };
  expect(problemsOf(withTenants({}, long))).toEqual([
    "approvals.deployment: must have at most 128 characters (for the tenant acme)",
    "approvals.deployment: must have at most 128 characters (for the tenant globex)",
  ]);
});

test.each(["Acme", "acme-", "-acme", "a_b", "a.b", "", "a".repeat(41), "ácme", "a\u0000b", "constructor!"])(
  "%j cannot be the name of a tenant",
  (name) => {
    const [problem] = problemsOf({ jwt: JWT, tenants: { ...INSIDE, [name]: { tools: ["x"] } } });
    expect(problem).toContain("is not a usable key");
  },
);

const certificate = { spiffeId: "spiffe://x/a", issuer: OF_TENANTS.issuer, subject: "a" };

test.each<readonly [string, object, string]>([
  [
    "several workers",
    { server: { workers: 2 }, approvals: { store: "sqlite://./a" } },
    "server.workers: must be 1 where there are tenants: for more processors, run replicas with PostgreSQL",
  ],
  [
    "a name without a section",
    { jwt: { issuers: [ISSUER, { ...OF_TENANTS, tenants: { names: ["acme", "globex", "acmee"] } }] } },
    "jwt.issuers[1].tenants.names[2]: acmee is not in tenants",
  ],
  [
    "a tenant that no issuer names",
    { jwt: { issuers: [{ ...OF_TENANTS, tenants: { names: ["acme"] } }] } },
    "tenants.globex: no issuer in jwt.issuers names this tenant in tenants.names",
  ],
  [
    "a certificate without a tenant",
    { jwt: { ...JWT, clientCertificates: [certificate] } },
    "jwt.clientCertificates[0].tenant: is missing: the issuer https://tenants.test has tenants",
  ],
  [
    "a certificate of another issuer's tenant",
    { jwt: { ...JWT, clientCertificates: [{ ...certificate, issuer: ISSUER.issuer, tenant: "acme" }] } },
    "jwt.clientCertificates[0].tenant: the issuer https://idp.test does not name acme in its tenants",
  ],
])("%s cannot be combined with tenants", (_what, service, problem) => {
  expect(problemsOf(withTenants({}, service)).some((found) => found.startsWith(problem))).toBe(true);
});

test("the library has no tenants", () => {
  const options = {
    tools: ["./tools"],
    audit: { dir: "./audit" },
    jwt: ISSUER,
    tenants: INSIDE,
  } as SafeToolCallOptions;
  expect(() => SafeToolCall.create(options)).toThrow(
    "SafeToolCall.create: tenants: only the service has tenants: create one SafeToolCall for each",
  );
});

test("a member of a hub has no tenants; its other problems are reported at once", () => {
  const hub = { url: "https://hub.test", tokenFile: "./token" };
  expect(problemsOf(withTenants({}, { hub, approvals: { store: "sqlite://./approvals.sqlite" } }))).toEqual([
    "hub.url: cannot be combined with tenants: a member of a hub belongs to one tenant, set by hub.tenant here and by hub.members[].tenant at the hub",
    "approvals.store: must be left out: a member of a hub shares the hub's database",
  ]);
});

test("a tenant with problems keeps the others from nothing when the configuration is read again", async () => {
  const config = await keepingTenants(async () => read(withTenants({ acme: { tools: ["x"], limits: { odd: 1 } } })));
  expect(tenantConfigOf(config, "globex").tools).toEqual(["./globex"]);
  expect(() => tenantConfigOf(config, "acme")).toThrow("tenants.acme.limits.odd: is not a known key");
  expect(() => tenantConfigOf(config, "initech")).toThrow(StartupError);
  await expect(keepingTenants(async () => read(withTenants({}, { limits: { odd: 1 } })))).rejects.toThrow("limits.odd");
});

test("problems that are found later are named by the field where they are written", () => {
  const bindings = [ISSUER, OF_TENANTS].map(({ issuer }) => ({ role: "role", issuer, subject: "x" }));
  const config = acme({ systems: {} }, { roles: { role: { permissions: ["a:b"] } }, bindings });
  for (const [found, named] of [
    ["systems.a-b.proto: x", "tenants.acme.systems.a-b.proto: x"],
    ["approvals.webhooks[0].url: x", "tenants.acme.approvals.webhooks[0].url: x"],
    ["approvals.policies[0]: x", "approvals.policies[0]: x (for the tenant acme)"],
    ["jwt.issuers[0].keys: x", "jwt.issuers[1].keys: x (for the tenant acme)"],
    ["bindings[0].subject: x", "bindings[1].subject: x (for the tenant acme)"],
    ["/srv/acme/a.ts: tool a: x", "tenants.acme: /srv/acme/a.ts: tool a: x"],
  ] as const) {
    expect([problemOf(config, found), problemOf(config, named)]).toEqual([named, named]);
  }
  expect(problemOf(read(withTenants()), "systems.a: x")).toBe("systems.a: x");
});
