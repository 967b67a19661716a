import { expect, test } from "bun:test";
import { createMetrics, withTenants } from "../../src/http/metrics.ts";

test("survivors are counted by command", async () => {
  const metrics = createMetrics();
  metrics.observeSurvivors({ command: "git", count: 2 });
  metrics.observeSurvivors({ command: "git", count: 1 });
  metrics.observeSurvivors({ command: "kubectl", count: 1 });
  const text = await metrics.text();
  expect(text).toContain('stc_child_survivors_total{command="git"} 3\n');
  expect(text).toContain('stc_child_survivors_total{command="kubectl"} 1\n');
});

test("calls whose arguments contained a secret are counted by tool", async () => {
  const metrics = createMetrics();
  const call = (secrets?: readonly string[]) =>
    ({ tool: { name: "keep_note", classification: "write" }, decision: "ALLOWED", request: { secrets } }) as never;
  metrics.observeCall(call(["text", "list[]"]));
  metrics.observeCall(call());
  metrics.observeCall(call(["text"]));
  expect(await metrics.text()).toContain('stc_secrets_sent_total{tool="keep_note"} 2\n');
});

test("certificates are read at every scrape, in seconds", async () => {
  const metrics = createMetrics();
  let certificates = [
    { system: "ledger", notAfter: 1_800_000_000_000 },
    { system: "gone", notAfter: 1 },
  ];
  metrics.watch({ callsInFlight: () => 3, channels: () => [], certificates: () => certificates });
  expect(await metrics.text()).toContain('stc_certificate_expiry_timestamp_seconds{system="ledger"} 1800000000\n');
  certificates = [{ system: "ledger", notAfter: 1_900_000_000_500 }];
  const text = await metrics.text();
  expect(text).toContain('stc_certificate_expiry_timestamp_seconds{system="ledger"} 1900000000.5\n');
  expect(text).not.toContain('system="gone"');
  expect(text).toContain("stc_calls_in_flight 3\n");
});

test("approvals that wait are asked for once per scrape, and a store that is away is reported", async () => {
  const metrics = createMetrics();
  let asked = 0;
  let answer = async () => ({ waiting: 3, oldestMs: 90_500 });
  metrics.watch({
    backlog() {
      asked += 1;
      return answer();
    },
  });
  const samples = async () =>
    [...(await metrics.text()).matchAll(/^(stc_approvals?_(?:waiting|oldest_waiting_seconds|store_up)) (\S+)$/gm)].map(
      ([, name, value]) => [name, value],
    );
  expect(await samples()).toEqual([
    ["stc_approval_store_up", "1"],
    ["stc_approvals_waiting", "3"],
    ["stc_approvals_oldest_waiting_seconds", "90.5"],
  ]);
  expect(asked).toBe(1);
  answer = () => Promise.reject(new Error("connection refused"));
  expect(await samples()).toEqual([["stc_approval_store_up", "0"]]);
  answer = () => new Promise(() => {});
  expect(await samples()).toEqual([["stc_approval_store_up", "0"]]);
  answer = async () => ({ waiting: 0, oldestMs: 0 });
  expect((await samples())[1]).toEqual(["stc_approvals_waiting", "0"]);
});

test("readiness, free disk space and certificates of listeners are read at every scrape", async () => {
  const metrics = createMetrics();
  let isReady = true;
  const listeners = () => [
    { listener: "agents", certificateExpiresAt: undefined },
    { listener: "console", certificateExpiresAt: 1_800_000_000_000 },
  ];
  metrics.watch({ isReady: () => isReady, auditFreeBytes: () => 4_096, listeners });
  expect(await metrics.text()).toContain("stc_ready 1\n");
  isReady = false;
  const text = await metrics.text();
  expect(text).toContain("stc_ready 0\n");
  expect(text).toContain("stc_audit_disk_free_bytes 4096\n");
  expect(text.match(/^stc_listener_certificate_expiry_timestamp_seconds.*$/gm)).toEqual([
    'stc_listener_certificate_expiry_timestamp_seconds{listener="console"} 1800000000',
  ]);
});

test("the time per stage is printed as a histogram", async () => {
  const metrics = createMetrics();
  metrics.observeCall({
    tool: { name: "find", classification: "read" },
    decision: "ALLOWED",
    request: {},
    stages: { AUTH: 0.2, PLAN: 30_000 },
  } as never);
  const text = await metrics.text();
  expect(text).toContain('stc_call_stage_seconds_bucket{stage="AUTH",le="+Inf"} 1\n');
  expect(text).toContain('stc_call_stage_seconds_sum{stage="PLAN"} 30\n');
  expect(text).toContain('stc_call_stage_seconds_count{stage="PLAN"} 1\n');
});

test("metrics of a tenant have its name, and none is of the process", async () => {
  const acme = createMetrics({ tenant: "acme" });
  acme.watch({ callsInFlight: () => 2 });
  acme.observeSurvivors({ command: "git", count: 1 });
  acme.load.shed("requests");
  acme.load.watchConnections(() => 7);
  const samples = (await acme.text()).split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  expect(samples).toContain('stc_calls_in_flight{tenant="acme"} 2');
  expect(samples).toContain('stc_child_survivors_total{command="git",tenant="acme"} 1');
  expect(samples).toContain('stc_shed_total{reason="requests",tenant="acme"} 1');
  expect(samples.filter((line) => !line.includes('tenant="acme"'))).toEqual([]);
  expect(samples.filter((line) => /^(?:process|nodejs|stc_connections|stc_event_loop)/.test(line))).toEqual([]);
});

test("metrics of a service hold those of its tenants: each metric once, with the samples of all", async () => {
  const [service, acme, globex] = [
    createMetrics(),
    createMetrics({ tenant: "acme" }),
    createMetrics({ tenant: "globex" }),
  ];
  for (const [metrics, calls] of [
    [service, 1],
    [acme, 2],
    [globex, 3],
  ] as const) {
    metrics.watch({ callsInFlight: () => calls });
    metrics.observeBatch({ entries: 1, syncMs: calls });
  }
  globex.observeSurvivors({ command: "git", count: 1 });
  const text = await withTenants(service, () => [acme, globex]).text();
  expect(text).toContain(`# TYPE stc_calls_in_flight gauge
stc_calls_in_flight 1
stc_calls_in_flight{tenant="acme"} 2
stc_calls_in_flight{tenant="globex"} 3
`);
  expect(text).toContain('stc_child_survivors_total{command="git",tenant="globex"} 1\n');
  expect(text).toContain('stc_audit_sync_seconds_bucket{le="0.0025",tenant="acme"} 1\n');
  const described = [...text.matchAll(/^# (?:HELP|TYPE) \S+/gm)].map(([line]) => line);
  expect(described).toEqual([...new Set(described)]);
  const without = await service.text();
  expect(text.split("\n").filter((line) => !line.includes("tenant=") && line.startsWith("stc_"))).toEqual(
    without.split("\n").filter((line) => line.startsWith("stc_")),
  );
});
