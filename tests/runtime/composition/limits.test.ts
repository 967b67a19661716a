import { expect, test } from "bun:test";
import { Capacity } from "../../../src/core/capacity.ts";
import type { Verified } from "../../../src/core/evidence.ts";
import { limitProblems, openLimits } from "../../../src/runtime/composition/limits.ts";
import type { Config } from "../../../src/runtime/config/config.ts";
import { tenantConfigs } from "../../../src/runtime/config/tenants.ts";
import { readConfig } from "../../support/build.ts";

const TENANTS = ["acme", "globex", "initech"];

function configOf(limits: object, tenants: readonly string[] = TENANTS): Config {
  const issuer = { publicKeyFile: "./a.pem", audience: "agents" };
  const own = { issuer: "https://tenants.example", ...issuer, tenants: { claim: "tenant", names: tenants } };
  const written = {
    ...{ tools: ["./tools"], audit: { dir: "./audit" }, limits },
    jwt: { issuers: [{ issuer: "https://agents.example", ...issuer }, ...(tenants.length > 0 ? [own] : [])] },
    ...(tenants.length > 0 && { tenants: Object.fromEntries(tenants.map((name) => [name, { tools: ["./tools"] }])) }),
  };
  return readConfig(written, { folder: "/srv", environment: {}, origin: "test" });
}

const problemsOf = (config: Config): readonly string[] => limitProblems(config, { tools: [], notRegistered: [] });

test("a maximum that leaves a tenant no share of its own is a problem", () => {
  expect(problemsOf(configOf({ concurrentCallsMax: 7 }))).toEqual([
    "limits.concurrentCallsMax: half of it is divided among the service itself and its tenants, 4 in all: write at least 8",
  ]);
  expect(problemsOf(configOf({ concurrentCallsMax: 8 }))).toEqual([]);
  expect(problemsOf(configOf({ concurrentCallsMax: 1 }, []))).toEqual([]);
});

test("the service's maximum is the capacity that its tenants share; after a reload, its new maximum is", () => {
  const config = configOf({ concurrentCallsMax: 80 });
  const capacity = new Capacity(config.limits.concurrentCallsMax);
  const open = (each: Config) =>
    openLimits(each, {
      ...{ clock: () => 0, monotonic: () => 0, capacity },
      audit: { auditReady: () => true },
    });
  const service = open(config);
  const [acme, globex] = tenantConfigs(config).map(open);
  const fill = (limits: ReturnType<typeof open> | undefined): number => {
    const before = limits?.admission.inFlight() ?? 0;
    try {
      for (let at = 0; ; at += 1) limits?.admission.admit({ caller: { issuer: "i", subject: `${at}` } } as Verified);
    } catch (error) {
      expect(error).toMatchObject({ code: "OVERLOADED" });
    }
    return (limits?.admission.inFlight() ?? 0) - before;
  };
  // 10 for each of the four, and 40 for everybody.
  expect(fill(acme)).toBe(50);
  for (const own of tenantConfigs(configOf({ concurrentCallsMax: 4_000 })).slice(0, 1)) acme?.change(own, []);
  expect(fill(acme)).toBe(0);
  service.change(configOf({ concurrentCallsMax: 160 }), []);
  expect([fill(acme), fill(globex), fill(service)]).toEqual([50, 20, 20]);
});
