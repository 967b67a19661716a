import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { tenantListing } from "../../src/core/api/tenants.ts";
import { type TenantName, TenantService } from "../support/tenant-service.ts";
import { until } from "../support/until.ts";

const service = new TenantService();
beforeAll(() => service.start({ server: { port: 0, operator: { port: 0 } } }));
afterAll(() => service.end());

const HALTER = ["halts:read", "halts:write"];
const ALL: readonly TenantName[] = [undefined, "acme", "globex"];

async function halt(by: TenantName, body: Readonly<Record<string, unknown>>) {
  const token = await service.operatorOf(by, HALTER);
  return service.send("POST", "/halts", { token, body: { reason: "drill", ...body } });
}

async function haltsOf(tenant: TenantName) {
  const { body } = await service.send("GET", "/halts", { token: await service.operatorOf(tenant, HALTER) });
  return body.halts as readonly { readonly id: string }[];
}

/** How a call to each of them ends. */
async function answers(tool = "do_read") {
  const replies = await Promise.all(ALL.map((tenant) => service.callTo(tenant, tool)));
  return replies.map(({ body }) => body.error?.code ?? body.result?.by ?? body.status);
}

async function tenants(permissions: readonly string[] = ["tenants:read"], by: TenantName = undefined) {
  return service.send("GET", "/tenants", { token: await service.operatorOf(by, permissions) });
}

afterEach(async () => {
  service.finish();
  service.begun.length = 0;
  for (const tenant of ALL) {
    const token = await service.operatorOf(tenant, HALTER);
    for (const { id } of await haltsOf(tenant)) await service.send("DELETE", `/halts/${id}`, { token });
  }
});

describe("GET /tenants", () => {
  test("shows operators of the service each tenant, and is in the service's journal", async () => {
    const running = service.callTo("acme", "slow_read");
    await until("the run", () => (service.begun.length > 0 ? true : undefined));
    await halt("globex", { kind: "all" });
    const { http, body } = await tenants();
    expect(http).toBe(200);
    expect(tenantListing.parse(body)).toEqual(body);
    expect(body.tenants).toEqual([
      { name: "acme", tools: 3, callsInFlight: 1, audit: "ok", halted: false },
      { name: "globex", tools: 3, callsInFlight: 0, audit: "ok", halted: true },
    ]);
    expect(service.journalOf(undefined).at(-1)).toMatchObject({ type: "tenants.read" });
    service.finish();
    expect((await running).http).toBe(200);
  });

  test("needs the permission, and does not exist for operators of a tenant", async () => {
    const without = await tenants(["metrics:read"]);
    expect([without.http, without.body.error.code]).toEqual([403, "PERMISSION_DENIED"]);
    const within = await tenants(["tenants:read"], "acme");
    expect([within.http, within.body.error.code]).toEqual([404, "ROUTE_NOT_FOUND"]);
  });
});

describe("a halt", () => {
  test("of the service stops calls of the service and of every tenant", async () => {
    expect(await answers()).toEqual(["service", "acme", "globex"]);
    const { body } = await halt(undefined, { kind: "tool", tool: "do_read" });
    expect(body.notes).toEqual([]);
    expect(await answers()).toEqual(["HALTED", "HALTED", "HALTED"]);
    const found = (tenant: TenantName) => JSON.stringify(service.entriesOf(tenant).at(-1)?.decisionReasons);
    expect(service.entriesOf("acme").at(-1)).toMatchObject({ decision: "DENIED", error: { code: "HALTED" } });
    expect(found("acme")).toContain(`halt ${body.halt.id} of the service`);
    expect(found(undefined)).toContain(`halt ${body.halt.id}`);
    // The tenant's operators neither see it nor lift it.
    expect(await haltsOf("acme")).toEqual([]);
    const token = await service.operatorOf("acme", HALTER);
    expect((await service.send("DELETE", `/halts/${body.halt.id}`, { token })).http).toBe(404);
  });

  test("of the service that names a tenant stops calls of that tenant alone; the service's journal says so", async () => {
    const { http, body } = await halt(undefined, { kind: "all", tenant: "acme" });
    expect([http, body.halt.tenant, body.notes]).toEqual([201, "acme", []]);
    expect(await answers()).toEqual(["service", "HALTED", "globex"]);
    expect(service.journalOf(undefined).findLast(({ type }) => type === "halt.set")).toMatchObject({
      ...{ kind: "all", haltedTenant: "acme", reason: "drill" },
      setBy: { subject: "olga" },
    });
    expect(service.journalOf("acme").some(({ type }) => type === "halt.set")).toBe(false);
    const shown = (await tenants()).body.tenants.map((each: { halted: boolean }) => each.halted);
    expect(shown).toEqual([true, false]);
  });

  test("that names a tenant that there is not is in force, with a note", async () => {
    const { http, body } = await halt(undefined, { kind: "all", tenant: "acne" });
    expect([http, body.notes]).toEqual([
      201,
      ["no tenant of this service is called acne; did you mean acme?: the halt is in force all the same"],
    ]);
    expect(await answers()).toEqual(["service", "acme", "globex"]);
  });

  test("of a tenant stops its calls alone, and cannot name a tenant", async () => {
    expect((await halt("acme", { kind: "all" })).http).toBe(201);
    expect(await answers()).toEqual(["service", "HALTED", "globex"]);
    for (const tenant of ["acme", "globex"]) {
      const refused = await halt("acme", { kind: "all", tenant });
      expect([refused.http, refused.body.error.code]).toEqual([400, "MALFORMED_REQUEST"]);
      expect(refused.body.error.message).toContain("only operators of a service that has tenants");
    }
    expect(await haltsOf(undefined)).toEqual([]);
    expect(await haltsOf("globex")).toEqual([]);
  });

  test("of the service ends waiting and running calls of the tenant that it names, and no others", async () => {
    const waiting = service.callTo("acme", "do_write", { headers: { prefer: "wait=60" } });
    const running = [service.callTo("acme", "slow_read"), service.callTo("globex", "slow_read")];
    await until("both runs", () => (service.begun.length === 2 ? true : undefined));
    await until("the question", () =>
      service.journalOf("acme").some(({ type }) => type === "approval.asked") ? true : undefined,
    );
    await halt(undefined, { kind: "all", tenant: "acme", cancelRunning: true });
    expect((await waiting).body.error.code).toBe("HALTED");
    expect((await running[0])?.body.error.code).toBe("HALTED");
    service.finish();
    expect((await running[1])?.body.result).toEqual({ by: "globex" });
    const codes = service.entriesOf("acme").map(({ error }) => error?.code);
    expect(codes.filter((code) => code === "HALTED").length).toBeGreaterThanOrEqual(2);
  });

  test("of the service is in force in its tenants after a restart, for the first call", async () => {
    await halt(undefined, { kind: "all", tenant: "globex" });
    await service.stop();
    await service.start({ server: { port: 0, operator: { port: 0 } } });
    expect(await answers()).toEqual(["service", "acme", "HALTED"]);
  });
});

describe("metrics", () => {
  type Listener = "agents" | "operators";

  async function metricsOf(tenant: TenantName, at: Listener = "agents"): Promise<readonly string[]> {
    const { body } = await service.send("GET", "/systems", {
      token: await service.operatorOf(undefined, ["metrics:read"]),
    });
    const { addresses } = body.listeners.find(({ listener }: { listener: string }) => listener === at);
    const authorization = `Bearer ${await service.operatorOf(tenant, ["metrics:read"])}`;
    const answer = await fetch(`${addresses[0]}/metrics`, { headers: { authorization } });
    return (await answer.text()).split("\n").filter((line) => line !== "");
  }

  const tenantsIn = (lines: readonly string[]) =>
    new Set(lines.filter((line) => !line.startsWith("#")).map((line) => /\btenant="([^"]*)"/.exec(line)?.[1]));

  test.each<[Listener]>([["agents"], ["operators"]])(
    "of a tenant are its own only, at the listener for %s",
    async (at) => {
      await answers();
      const lines = await metricsOf("acme", at);
      expect(tenantsIn(lines)).toEqual(new Set(["acme"]));
      expect(lines).toContain('stc_calls_in_flight{tenant="acme"} 0');
      expect(lines.some((line) => line.startsWith('stc_calls_total{tool="do_read"'))).toBe(true);
    },
  );

  test.each<[Listener]>([["agents"], ["operators"]])(
    "of the service are its own, and those of each tenant with its name, at the listener for %s",
    async (at) => {
      await answers();
      const lines = await metricsOf(undefined, at);
      expect(tenantsIn(lines)).toEqual(new Set([undefined, "acme", "globex"]));
      for (const name of ["stc_connections", "process_cpu_seconds_total"]) {
        expect(lines.filter((line) => line.startsWith(`${name} `))).toHaveLength(1);
      }
      const described = lines.filter((line) => line.startsWith("# TYPE"));
      expect(new Set(described).size).toBe(described.length);
    },
  );
});
