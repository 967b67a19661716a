import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { refusedReload } from "../../src/cli/call.ts";
import { OTHER_NAMES } from "../../src/runtime/config/tenants.ts";
import { LINGERING_MAX } from "../../src/runtime/reload/snapshots.ts";
import { journalEntries } from "../support/audit-files.ts";
import { manifest, ReloadService } from "../support/reload-service.ts";
import { auditDirOf, type TenantName, TenantTokens } from "../support/tenant-service.ts";
import { until } from "../support/until.ts";

const tokens = new TenantTokens();
const TENANTS = { acme: { tools: ["./acme"] }, globex: { tools: ["./globex"] } };
const ALL: readonly TenantName[] = [undefined, "acme", "globex"];

let service: ReloadService;

beforeEach(async () => {
  service = new ReloadService({ jwt: { issuers: tokens.profiles() }, tenants: TENANTS });
  for (const name of ["acme", "globex"]) service.write(`${name}/hello.ts`, manifest({ says: `${name} 1` }));
  await service.start();
});
afterEach(() => service.end());

async function says(): Promise<readonly string[]> {
  const callers = await Promise.all(ALL.map((tenant) => tokens.agentOf(tenant, ["hello:say"])));
  return Promise.all(callers.map((token) => service.says({}, token)));
}

async function reload(by: TenantName) {
  return service.reload(await tokens.operatorOf(by, ["service:reload"]));
}

/** Changes every tool. A broken one names a classification that there is not. */
function change(broken?: TenantName): void {
  service.write("tools/hello.ts", manifest({ says: "second" }));
  for (const name of ["acme", "globex"]) {
    const text = manifest({ says: `${name} 2` });
    service.write(`${name}/hello.ts`, name === broken ? text.replace('"read"', '"reading"') : text);
  }
}

function journaled(tenant: "acme" | "globex", type: string): number {
  return journalEntries(auditDirOf(service.folder, tenant)).filter((line) => line.type === type).length;
}

describe("a reload of the service", () => {
  test("is one of each tenant", async () => {
    expect(await says()).toEqual(["first", "acme 1", "globex 1"]);
    change();
    const { http, body } = await reload(undefined);
    expect([http, body.status, body.service, body.tenants]).toEqual([
      ...[200, "changed", "changed"],
      { acme: "changed", globex: "changed" },
    ]);
    expect(await says()).toEqual(["second", "acme 2", "globex 2"]);
    expect([journaled("acme", "configuration.changed"), service.journal("configuration.changed").length]).toEqual([
      1, 1,
    ]);
  });

  test("leaves a tenant with a broken tool its former configuration, whole, and names it", async () => {
    change("acme");
    const { http, body } = await reload(undefined);
    expect([http, body.status, body.service, body.tenants]).toEqual([
      ...[422, "refused", "changed"],
      { acme: "refused", globex: "changed" },
    ]);
    expect(body.problems).not.toEqual([]);
    for (const problem of body.problems) expect(problem).toStartWith("tenants.acme");
    expect(refusedReload(body)).toBe(
      "refused in part; the changed configuration is in use for the service itself, globex only:",
    );
    expect(await says()).toEqual(["second", "acme 1", "globex 2"]);
    expect([journaled("acme", "configuration.refused"), journaled("globex", "configuration.refused")]).toEqual([1, 0]);
    change();
    expect((await reload(undefined)).body.tenants).toEqual({ acme: "changed", globex: "changed" });
    expect(await says()).toEqual(["second", "acme 2", "globex 2"]);
  });

  test("leaves a tenant with an unknown setting its former configuration, and the others adopt theirs", async () => {
    change();
    service.configure({ tenants: { ...TENANTS, acme: { ...TENANTS.acme, limits: { oddMax: 1 } } } });
    const { http, body } = await reload(undefined);
    expect([http, body.service, body.tenants]).toEqual([422, "changed", { acme: "refused", globex: "changed" }]);
    expect(body.problems.join()).toContain("tenants.acme.limits");
    expect(await says()).toEqual(["second", "acme 1", "globex 2"]);
  });

  test("that is refused for the service itself leaves the tenants theirs", async () => {
    change();
    service.write("tools/hello.ts", manifest().replace('"read"', '"reading"'));
    const { http, body } = await reload(undefined);
    expect([http, body.service, body.tenants]).toEqual([422, "refused", { acme: "changed", globex: "changed" }]);
    expect(await says()).toEqual(["first", "acme 2", "globex 2"]);
  });

  test("reports a problem of the service itself once, and not again for each tenant", async () => {
    service.configure({ limits: { oddMax: 1 } });
    const { http, body } = await reload(undefined);
    expect([http, body.service, body.tenants]).toEqual([422, "refused", { acme: "refused", globex: "refused" }]);
    expect(body.problems).toHaveLength(1);
    expect(body.problems[0]).toEndWith("limits.oddMax: is not a known key");
  });

  test("is refused with other names of tenants", async () => {
    const { acme } = TENANTS;
    for (const tenants of [{ ...TENANTS, initech: acme }, { acme }]) {
      const names = Object.keys(tenants);
      const issuers = tokens.profiles().map((each) => ("tenants" in each ? { ...each, tenants: { names } } : each));
      service.configure({ tenants, jwt: { issuers } });
      const { http, body } = await reload(undefined);
      expect([http, body.service]).toEqual([422, "refused"]);
      expect(body.problems).toEqual([OTHER_NAMES]);
      expect(await says()).toEqual(["first", "acme 1", "globex 1"]);
    }
  });

  test("by a signal reloads tenants, too", async () => {
    change();
    const reloaded = await service.running.reload?.("signal");
    expect(reloaded).toMatchObject({ outcome: "changed", each: { tenants: { acme: "changed", globex: "changed" } } });
    expect(await says()).toEqual(["second", "acme 2", "globex 2"]);
  });

  test("changes which tenant an issuer's tokens name", async () => {
    const issuers = tokens
      .profiles()
      .map((each) => ("tenants" in each ? { ...each, tenants: { claim: "org", names: ["acme", "globex"] } } : each));
    service.configure({ jwt: { issuers } });
    expect((await reload(undefined)).http).toBe(200);
    expect(await says()).toEqual(["first", "UNAUTHENTICATED", "UNAUTHENTICATED"]);
  });
});

describe("a reload of the service, whatever a tenant does,", () => {
  let other: ReloadService;
  async function startWith(changes: Readonly<Record<string, unknown>>): Promise<void> {
    other = new ReloadService({ jwt: { issuers: tokens.profiles() }, tenants: TENANTS, ...changes });
    for (const name of ["acme", "globex"]) other.write(`${name}/hello.ts`, manifest({ says: name }));
    await other.start();
  }
  const reloadAs = async (by: TenantName) => other.reload(await tokens.operatorOf(by, ["service:reload"]));
  afterEach(() => other.end());

  test("reaches one whose operator has used up its reloads", async () => {
    await startWith({ reload: { perMinuteMax: 2 } });
    const own = await Promise.all(Array.from({ length: 2 }, () => reloadAs("acme")));
    expect(own.map(({ http }) => http)).toEqual([200, 200]);
    const { http, body } = await reloadAs("acme");
    expect([http, body.error.code]).toEqual([429, "RATE_LIMITED"]);
    expect((await reloadAs(undefined)).body.tenants).toEqual({ acme: "changed", globex: "changed" });
  });

  test("says that it has not reached one whose calls hold several earlier configurations", async () => {
    await startWith({ server: { port: 0, drainTimeoutMs: 1 } });
    const [agent, platform] = await Promise.all([
      tokens.agentOf("acme", ["hello:say"]),
      tokens.operatorOf(undefined, ["tenants:read"]),
    ]);
    const inFlight = async () =>
      (await other.send("GET", "/tenants", { token: platform })).body.tenants[0].callsInFlight as number;
    const stuck: Promise<unknown>[] = [];
    for (let calls = 1; calls <= LINGERING_MAX + 1; calls += 1) {
      other.write("acme/hello.ts", manifest({ says: `${calls}`, body: "return new Promise(() => {});" }));
      const { http, body } = await reloadAs(undefined);
      expect([http, body.tenants.acme]).toEqual([200, "changed"]);
      stuck.push(other.call({}, agent).catch(() => undefined));
      await until("the call", async () => ((await inFlight()) === calls ? true : undefined));
    }
    const { http, body } = await reloadAs(undefined);
    expect([http, body.status, body.service, body.tenants]).toEqual([
      ...[422, "refused", "changed"],
      { acme: "busy", globex: "changed" },
    ]);
    expect(body.problems).toEqual([
      "tenants.acme: was not read, because its calls still use several earlier configurations: reload again when they have ended",
    ]);
    await other.running.drain();
    await Promise.all(stuck);
  });
});

describe("a reload of a tenant", () => {
  test("by its operator is one of its own configuration alone", async () => {
    change();
    const { http, body } = await reload("acme");
    expect([http, body.status, body.tenants]).toEqual([200, "changed", undefined]);
    expect(await says()).toEqual(["first", "acme 2", "globex 1"]);
    expect([journaled("acme", "configuration.changed"), journaled("globex", "configuration.changed")]).toEqual([1, 0]);
    expect(service.journal("configuration.changed")).toEqual([]);
  });

  test("says nothing about problems of others", async () => {
    service.configure({ tenants: { ...TENANTS, globex: { ...TENANTS.globex, limits: { oddMax: 1 } } } });
    change();
    const { http, body } = await reload("acme");
    expect([http, body.status, JSON.stringify(body).includes("globex")]).toEqual([200, "changed", false]);
    expect(await says()).toEqual(["first", "acme 2", "globex 1"]);
  });

  const odd = { limits: { oddMax: 1 } };
  const issuers = tokens
    .profiles()
    .map((each) => ("tenants" in each ? { ...each, tenants: { names: ["acme", "globex", "initech"] } } : each));
  test.each<[string, Readonly<Record<string, unknown>>]>([
    ["of the service", { systems: { payroll: { http: { baseUrl: "nowhere" } } } }],
    [
      "of the service and of another tenant",
      { ...odd, tenants: { ...TENANTS, globex: { ...TENANTS.globex, ...odd } } },
    ],
    ["of a tenant that there is not", { jwt: { issuers } }],
    ["of a name", { tenants: { ...TENANTS, "Globex-2": {} } }],
  ])("shows its operator none of the problems %s", async (_, changes) => {
    service.configure(changes);
    const { http, body } = await reload("acme");
    expect([http, body.problems]).toEqual([
      422,
      ["the configuration has problems outside of this tenant's section: operators of the service are shown them"],
    ]);
    const token = await tokens.operatorOf("acme", ["configuration:read"]);
    const shown = await service.send("GET", "/configuration", { token });
    expect(shown.body.problems).toEqual(body.problems);
    expect((await reload(undefined)).body.problems.join()).toMatch(/payroll|tenants.globex|initech|Globex-2/);
  });

  test("names no file of another tenant where its workspace holds one", async () => {
    service.write("globex/key.pem", "a key");
    const assertion = { issuer: "https://globex.test", keyFile: "./globex/key.pem" };
    const workspace = { project: "./globex" };
    const tenants = { acme: { ...TENANTS.acme, workspace }, globex: { ...TENANTS.globex, assertion } };
    service.configure({ tenants });
    const { http, body } = await reload("acme");
    expect([http, body.problems.join()]).toEqual([
      422,
      expect.stringContaining("a path of the service or of another tenant"),
    ]);
    expect(JSON.stringify(body)).not.toMatch(/globex.key|tenants\.globex|stc-reload/);
    expect((await reload(undefined)).body.problems.join()).toContain("/globex/key.pem overlap");
  });

  test("shows its operator its own problems, whatever else is wrong", async () => {
    service.configure({ ...odd, tenants: { ...TENANTS, acme: { ...TENANTS.acme, dataFlow: 1 } } });
    const { body } = await reload("acme");
    expect(body.problems).toHaveLength(2);
    expect(body.problems[0]).toContain("tenants.acme.dataFlow");
  });
});

test("a service without tenants refuses a configuration with some: it needs a restart", async () => {
  const plain = new ReloadService();
  await plain.start();
  try {
    plain.configure({ jwt: { issuers: [...plain.issuers.profiles(), ...tokens.profiles()] }, tenants: TENANTS });
    for (const name of ["acme", "globex"]) plain.write(`${name}/hello.ts`, manifest());
    const { http, body } = await plain.reload();
    expect([http, body.problems]).toEqual([422, [OTHER_NAMES]]);
  } finally {
    await plain.end();
  }
});
