import { expect, test } from "bun:test";
import { createMetrics } from "../../src/http/metrics.ts";

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
