import { afterEach, beforeEach, expect, test } from "bun:test";
import { auditEntries, journalEntries } from "../support/audit-files.ts";
import { EndingWorld, type Told } from "../support/ending-world.ts";
import { auditDirOf, type TenantName, TenantTokens } from "../support/tenant-service.ts";
import { until } from "../support/until.ts";

/** A service with tenants in a process of its own, which ends and is killed while calls of all of them are under way. */
const tokens = new TenantTokens();
const ALL: readonly TenantName[] = [undefined, "acme", "globex"];
let world: EndingWorld;

beforeEach(async () => {
  world = new EndingWorld({
    jwt: { issuers: tokens.profiles() },
    tenants: { acme: { tools: ["./tools"] }, globex: { tools: ["./tools"] } },
    server: { port: 0, operator: { port: 0 }, drainTimeoutMs: 3_000 },
  });
  await world.start();
});
afterEach(() => world.remove());

async function call(tenant: TenantName, tool: string, headers: Readonly<Record<string, string>> = {}): Promise<Told> {
  return world.call(tool, await tokens.agentOf(tenant, ["hello:say"]), headers);
}

const logOf = (tenant: TenantName): string => auditDirOf(world.world.folder, tenant);

function changesOf(tenant: TenantName): number {
  return journalEntries(logOf(tenant)).filter(({ type }) => type === "intent").length;
}

/** Resolves when this number of changes runs in the service itself, and in each tenant. */
const running = (count: number) =>
  until("the changes to run", () => (ALL.every((tenant) => changesOf(tenant) >= count) ? true : undefined));

test("SIGTERM: each call is answered and in the log of its tenant, and the service exits with 0", async () => {
  const tools = ["slow_read", "slow_write", "stuck", "stuck_write"];
  const calls = ALL.map((tenant) => Promise.all(tools.map((tool) => call(tenant, tool))));
  await running(2);
  expect((await world.end("SIGTERM")).code).toBe(0);
  for (const [index, tenant] of ALL.entries()) {
    const told = (await calls[index]) ?? [];
    expect(told.map(({ code }) => code)).toEqual(["success", "success", "SHUTTING_DOWN", "OUTCOME_UNKNOWN"]);
    const lines = auditEntries(logOf(tenant)).map(({ traceId }) => traceId);
    expect(lines.sort()).toEqual(told.map(({ traceId }) => traceId ?? "").sort());
    expect(journalEntries(logOf(tenant)).at(-1)?.type).toBe("service.stopped");
  }
});

test("SIGKILL: the next start settles the keys of each tenant from its own log", async () => {
  const key = { "idempotency-key": "the-same-in-each" };
  const calls = ALL.map((tenant) => call(tenant, "stuck_write", key));
  await running(1);
  await world.end("SIGKILL");
  expect((await Promise.all(calls)).map(({ code }) => code)).toEqual(ALL.map(() => "no answer"));
  await world.start();
  // Not as a call that still runs.
  const again = await Promise.all(ALL.map((tenant) => call(tenant, "stuck_write", key)));
  expect(again.map(({ code }) => code)).toEqual(ALL.map(() => "OUTCOME_UNKNOWN"));
  expect(ALL.map(changesOf)).toEqual([1, 1, 1]);
});
