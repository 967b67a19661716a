import { afterAll, afterEach, beforeEach, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { BundleServer } from "../../src/bundles/server.ts";
import type { TenantShown } from "../../src/core/api/tenants.ts";
import { BundleFleet, helloTool } from "../support/bundle-fleet.ts";
import { FleetMember, serveFleet } from "../support/bundle-member.ts";
import { type TenantName, TenantTokens } from "../support/tenant-service.ts";
import { until } from "../support/until.ts";

/**
 * A member of a fleet whose own file has tenants. What limits the service is the bundle's, also for the tenants that do not write such a
 * section themselves; what a tenant may reach is in the member's file alone.
 */

const tokens = new TenantTokens();
const ROLE = { greeter: { permissions: ["hello:say"] } };
const BINDINGS = [{ role: "greeter", subject: "agent-7" }];

let fleet: BundleFleet;
let server: BundleServer;
let member: FleetMember;
let previous: string;
const greetings = Bun.serve({
  ...{ port: 0, hostname: "127.0.0.1" },
  fetch: ({ url }) => Response.json({ said: new URL(url).pathname.slice(1) }),
});

function policy(roles: object = ROLE): string {
  return JSON.stringify({ tools: ["./tools"], roles });
}

beforeEach(async () => {
  fleet = new BundleFleet();
  server = serveFleet(fleet);
  const systems = { greetings: { http: { baseUrl: greetings.url.origin, addresses: ["loopback"] } } };
  member = new FleetMember(fleet, "member", {
    jwt: { issuers: tokens.profiles() },
    tenants: {
      acme: { tools: ["./acme"], systems, bindings: BINDINGS },
      globex: { tools: ["./globex"], systems, bindings: BINDINGS, roles: ROLE },
    },
  });
  for (const name of ["acme", "globex"]) {
    mkdirSync(join(member.folder, name));
    writeFileSync(join(member.folder, name, "hello.tool.yaml"), helloTool(name));
  }
  member.configure(server.url);
  previous = fleet.publish({ version: 1, policy: policy() }).digest;
  await member.start();
});
afterEach(async () => {
  await member.end();
  await server.close();
  fleet.end();
});

afterAll(() => greetings.stop(true));

/** Agents of tenants have their permissions from the role, those of the service itself from their token. */
async function says(tenant: TenantName): Promise<string> {
  const token = await tokens.agentOf(tenant, tenant === undefined ? ["hello:say"] : []);
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const body = JSON.stringify({ tool: "hello", args: {} });
  const answer = await (await fetch(`${member.running.url}/call`, { method: "POST", headers, body })).json();
  const { result, error } = answer as ReturnType<typeof JSON.parse>;
  return result?.said ?? error.code;
}

async function all(): Promise<readonly string[]> {
  return [await says(undefined), await says("acme"), await says("globex")];
}

/** Publishes the next version, and returns the states of the tenants when the member has taken it over. */
async function publish(version: number, roles?: object): Promise<readonly TenantShown[]> {
  previous = fleet.publish({ version, previous, policy: policy(roles) }).digest;
  const token = await tokens.operatorOf(undefined, ["metrics:read", "tenants:read"]);
  const headers = { authorization: `Bearer ${token}` };
  await until(`version ${version}`, async () => {
    const { bundle } = (await (await fetch(`${member.running.operatorUrl}/readyz`, { headers })).json()) as ReturnType<
      typeof JSON.parse
    >;
    return bundle.version === version && bundle.state === "current" ? true : undefined;
  });
  const { tenants } = (await (await fetch(`${member.running.url}/tenants`, { headers })).json()) as ReturnType<
    typeof JSON.parse
  >;
  return tenants;
}

/** Returns the number of problems with which each tenant has refused the newest configuration. */
function problemsOf(tenants: readonly TenantShown[]) {
  return Object.fromEntries(tenants.map(({ name, configuration }) => [name, configuration?.problems]));
}

test("a bundle's roles are those of the tenants that write none, from one version to the next", async () => {
  expect(await all()).toEqual(["v1", "acme", "globex"]);
  await publish(2, { greeter: { permissions: ["hello:wave"] } });
  expect(await all()).toEqual(["v2", "PERMISSION_DENIED", "globex"]);
  expect(await member.running.reload?.("signal")).toMatchObject({ outcome: "changed" });
  expect(await all()).toEqual(["v2", "PERMISSION_DENIED", "globex"]);
});

test("a version with which one tenant has problems is adopted by the others; the tenant keeps what it has, and is named", async () => {
  expect(problemsOf(await publish(2, {}))).toEqual({ acme: 1, globex: 0 });
  expect(await all()).toEqual(["v2", "acme", "globex"]);
  expect(problemsOf(await publish(3))).toEqual({ acme: 0, globex: 0 });
  expect(await all()).toEqual(["v3", "acme", "globex"]);
});

test("a bundle has no tenants", () => {
  expect(() =>
    fleet.make({ version: 2, policy: JSON.stringify({ tools: ["./tools"], tenants: { acme: {} } }) }),
  ).toThrow("tenants");
});
