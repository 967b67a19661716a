import { afterEach, beforeEach, expect, test } from "bun:test";
import { journalEntries } from "../support/audit-files.ts";
import { manifest, ReloadService } from "../support/reload-service.ts";
import { auditDirOf, type TenantName, TenantTokens } from "../support/tenant-service.ts";
import { until } from "../support/until.ts";

/** Slow: files are noticed by the operating system, in its own time. */

const tokens = new TenantTokens();
const TENANTS = { acme: { tools: ["./acme"] }, globex: { tools: ["./globex"] } };
const NAMES = ["acme", "globex"] as const;
const ALL: readonly TenantName[] = [undefined, ...NAMES];

let service: ReloadService;
beforeEach(async () => {
  service = new ReloadService({
    reload: { trigger: "watch", perMinuteMax: 6_000 },
    jwt: { issuers: tokens.profiles() },
    tenants: TENANTS,
  });
  for (const name of NAMES) service.write(`${name}/hello.ts`, manifest({ says: `${name} 1` }));
  await service.start();
});
afterEach(() => service.end());

async function says(): Promise<readonly string[]> {
  const callers = await Promise.all(ALL.map((tenant) => tokens.agentOf(tenant, ["hello:say"])));
  return Promise.all(callers.map((token) => service.says({}, token)));
}

function saying(...wanted: readonly string[]): Promise<true> {
  return until(wanted.join(), async () => (Bun.deepEquals(await says(), wanted) ? true : undefined));
}

/** Returns who has caused each change of a kind, in the log of the service or of a tenant. */
function causes(tenant: TenantName, type: string): readonly unknown[] {
  return journalEntries(auditDirOf(service.folder, tenant)).flatMap((line) => (line.type === type ? [line["by"]] : []));
}

test("a changed file of one tenant is adopted by that tenant alone, and one that all have by all", async () => {
  service.write("acme/hello.ts", manifest({ says: "acme 2" }));
  await saying("first", "acme 2", "globex 1");
  service.write("tools/hello.ts", manifest({ says: "second" }));
  await saying("second", "acme 2", "globex 1");
  expect(ALL.map((tenant) => causes(tenant, "configuration.changed"))).toEqual([["watch"], ["watch"], []]);
  service.configure({ tenants: { acme: { tools: ["./tools"] }, globex: { tools: ["./tools"] } } });
  await saying("second", "second", "second");
  service.write("tools/hello.ts", manifest({ says: "third" }));
  await saying("third", "third", "third");
});

test("a broken file of one tenant is refused for that tenant, once, and the others go on", async () => {
  service.write("acme/hello.ts", manifest({ says: "acme 2" }).replace('"read"', '"reading"'));
  await until("the refusal", () => (causes("acme", "configuration.refused").length > 0 ? true : undefined));
  service.write("globex/hello.ts", manifest({ says: "globex 2" }));
  service.write("tools/hello.ts", manifest({ says: "second" }));
  await saying("second", "acme 1", "globex 2");
  expect(ALL.map((tenant) => causes(tenant, "configuration.refused"))).toEqual([[], ["watch"], []]);
  service.write("acme/hello.ts", manifest({ says: "acme 3" }));
  await saying("second", "acme 3", "globex 2");
});

test("a section of one tenant with a problem keeps no other from what is written for it", async () => {
  service.configure({
    tenants: { acme: { tools: ["./acme"], limits: { oddMax: 1 } }, globex: { tools: ["./tools"] } },
  });
  await saying("first", "acme 1", "first");
  await until("the refusal", () => (causes("acme", "configuration.refused").length > 0 ? true : undefined));
  service.configure({ tenants: { acme: { tools: ["./tools"] }, globex: { tools: ["./tools"] } } });
  await saying("first", "first", "first");
});

test("other names of tenants are refused by the service and by the tenants that are gone", async () => {
  const issuers = tokens
    .profiles()
    .map((each) => ("tenants" in each ? { ...each, tenants: { claim: "tenant", names: ["acme"] } } : each));
  service.configure({ tenants: { acme: TENANTS.acme }, jwt: { issuers } });
  await until("the refusal", () => (causes(undefined, "configuration.refused").length > 0 ? true : undefined));
  await until("the tenant's", () => (causes("globex", "configuration.refused").length > 0 ? true : undefined));
  await saying("first", "acme 1", "globex 1");
});
