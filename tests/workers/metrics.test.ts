import { expect, test } from "bun:test";
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { createMetrics } from "../../src/http/metrics.ts";
import { countedBy, exposition } from "../../src/workers/metrics.ts";

/** The values of one process: a counter by tool, a histogram, and gauges that are added, or of which the least counts. */
function processWith(count: number, { lag = 0, known = 1 } = {}) {
  const registry = new Registry();
  const registers = [registry];
  new Counter({ name: "calls_total", help: "calls", labelNames: ["tool"], registers }).inc({ tool: "a" }, count);
  const times = new Histogram({ name: "seconds", help: "times", buckets: [1, 2], registers });
  for (let at = 0; at < count; at += 1) times.observe(1.5);
  new Gauge({ name: "open", help: "open", registers }).set(count);
  new Gauge({ name: "known", help: "known", aggregator: "min", registers }).set(known);
  new Gauge({ name: "lag", help: "lag", aggregator: "max", registers }).set(lag);
  return registry.getMetricsAsJSON();
}

const linesOf = (text: string): readonly string[] => text.split("\n").filter((line) => /^[a-z]/.test(line));

test("counters, histograms and gauges of several processes are one exposition", async () => {
  const processes = [await processWith(1, { lag: 3 }), await processWith(2, { known: 0, lag: 7 })];
  expect(linesOf(await exposition(processes))).toEqual([
    'calls_total{tool="a"} 3',
    'seconds_bucket{le="1"} 0',
    'seconds_bucket{le="2"} 3',
    'seconds_bucket{le="+Inf"} 3',
    "seconds_sum 4.5",
    "seconds_count 3",
    "open 3",
    "known 0",
    "lag 7",
  ]);
});

test("an ended process keeps its part of counters and histograms, and has none of gauges", async () => {
  let counted = await countedBy([]);
  for (const ended of [await processWith(2, { known: 0 }), await processWith(3)])
    counted = await countedBy([counted, ended]);
  const lines = linesOf(await exposition([await processWith(1), counted]));
  expect(lines).toContain('calls_total{tool="a"} 6');
  expect(lines).toContain("seconds_count 6");
  expect(lines).toContain("open 1");
  expect(lines).toContain("known 1");
});

test("every metric of the service can be combined, and one process alone reads as before", async () => {
  const metrics = createMetrics();
  metrics.watch({ halts: { describe: () => ({ status: "ok", active: 2 }) }, callsInFlight: () => 4 });
  const values = await metrics.values();
  const twice = await exposition([values, values]);
  expect(twice).toContain("\nstc_halts_active 2\n");
  expect(twice).toContain("\nstc_halts_known 1\n");
  expect(twice).toContain("\nstc_calls_in_flight 8\n");
  const stc = (text: string): readonly string[] => linesOf(text).filter((line) => line.startsWith("stc_"));
  expect(stc(await exposition([values]))).toEqual(stc(await metrics.text()));
});
