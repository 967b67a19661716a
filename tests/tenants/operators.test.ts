import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { haltListing } from "../../src/core/api/halts.ts";
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
  expect(haltListing.parse(body)).toEqual(body);
  expect(body.state.active).toBe(body.halts.length);
  return body.halts as readonly { readonly id: string }[];
}

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

/** Active halts, as the tenant's readiness and metrics count them. */
async function countedBy(tenant: TenantName): Promise<readonly unknown[]> {
  const token = await service.operatorOf(tenant, ["metrics:read"]);
  const { body } = await service.send("GET", "/readyz", { token });
  const own = `stc_halts_active${tenant === undefined ? "" : `{tenant="${tenant}"}`} `;
  const line = (await metricsOf(tenant)).find((each) => each.startsWith(own));
  return [body.halts.active, line?.slice(own.length)];
}

/** Returns how a call to the service itself and to each tenant ends. */
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

  test("of the service for a tenant is seen by the tenant's operators alone, with its reason and without who set it", async () => {
    const until = "2099-01-01T00:00:00.000Z";
    const caller = { kind: "caller", issuer: "https://tenants.test", subject: "agent-7" };
    const { id, setAt } = (await halt(undefined, { ...caller, tenant: "acme", until, cancelRunning: true })).body.halt;
    expect(await answers()).toEqual(["service", "HALTED", "globex"]);
    const seen = [{ id, ...caller, reason: "drill", cancelRunning: true, setAt, until, ofService: true }];
    expect((await haltsOf("acme")) as unknown).toEqual(seen);
    expect(await haltsOf("globex")).toEqual([]);
    expect((await haltsOf(undefined)) as unknown).toEqual([
      { ...seen[0], tenant: "acme", setBy: { issuer: "https://platform.test", subject: "olga" }, ofService: undefined },
    ]);
    expect([await countedBy("acme"), await countedBy("globex"), await countedBy(undefined)]).toEqual([
      [1, "1"],
      [0, "0"],
      [1, "1"],
    ]);
    await halt("acme", { kind: "tool", tool: "do_write" });
    expect([await countedBy("acme"), await countedBy("globex")]).toEqual([
      [2, "2"],
      [0, "0"],
    ]);
  });

  test("of the service is lifted by its operators alone, and does not exist in a tenant that it does not stop", async () => {
    const { id } = (await halt(undefined, { kind: "all", tenant: "acme" })).body.halt;
    const lift = async (by: TenantName) =>
      service.send("DELETE", `/halts/${id}`, { token: await service.operatorOf(by, HALTER) });
    const refused = await lift("acme");
    const { code, message } = refused.body.error;
    expect([refused.http, code, message]).toEqual([
      ...[403, "HALT_OF_SERVICE"],
      "The service's operators have set this halt for its tenants: only they can lift it.",
    ]);
    const unknown = await lift("globex");
    expect([unknown.http, unknown.body.error.code]).toEqual([404, "HALT_NOT_FOUND"]);
    expect(service.journalOf("acme").some(({ type, id: lifted }) => type === "halt.lifted" && lifted === id)).toBe(
      false,
    );
    expect(await answers()).toEqual(["service", "HALTED", "globex"]);
    expect((await lift(undefined)).http).toBe(200);
    expect(await haltsOf("acme")).toEqual([]);
    expect(await answers()).toEqual(["service", "acme", "globex"]);
  });

  test("of the service for all tenants is seen in each without its reason, and without names that may be another's", async () => {
    const shown = { cancelRunning: false, ofService: true };
    const rows: readonly (readonly [body: Readonly<Record<string, unknown>>, seen: unknown])[] = [
      [{ kind: "all" }, { kind: "all" }],
      [
        { kind: "tool", tool: "do_read" },
        { kind: "tool", tool: "do_read" },
      ],
      [{ kind: "caller", issuer: "https://tenants.test", subject: "agent-of-globex" }, { kind: "caller" }],
      [{ kind: "session", session: "session-of-globex" }, { kind: "session" }],
      // Tools and systems that this tenant does not have.
      [{ kind: "tool", tool: "only_in_globex" }, undefined],
      [{ kind: "system", system: "only-in-globex" }, undefined],
    ];
    for (const [body, seen] of rows) {
      const { id, setAt } = (await halt(undefined, { ...body, reason: "globex has leaked" })).body.halt;
      const listed: unknown = await haltsOf("acme");
      expect(listed).toEqual(seen === undefined ? [] : [{ id, setAt, ...shown, ...(seen as object) }]);
      expect(await countedBy("acme")).toEqual(seen === undefined ? [0, "0"] : [1, "1"]);
      const token = await service.operatorOf(undefined, HALTER);
      expect((await service.send("DELETE", `/halts/${id}`, { token })).http).toBe(200);
    }
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

test("a call is explained of callers alone that the service itself, or the tenant, can have", async () => {
  const codes = await Promise.all(
    ALL.flatMap((tenant) =>
      ["https://platform.test", "https://tenants.test"].map(async (iss) => {
        const token = await service.operatorOf(tenant, ["policy:explain"]);
        const body = { tool: "do_read", args: {}, iss, sub: "agent-7", permissions: ["deeds:do"] };
        const { body: answer } = await service.send("POST", "/explain", { token, body });
        return answer.verdict ?? answer.error.message;
      }),
    ),
  );
  const refused = (iss: string) => `iss: ${iss} is not an issuer of agents' tokens here.`;
  const ofTenant = [refused("https://platform.test"), "allow"];
  expect(codes).toEqual(["allow", refused("https://tenants.test"), ...ofTenant, ...ofTenant]);
});

describe("metrics", () => {
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
