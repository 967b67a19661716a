import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { DECISION_SECONDS, type Tally } from "../approvals/notify/report.ts";
import type { WebhookState } from "../approvals/notify/webhook.ts";
import type { NotifiedApprovals } from "../approvals/notify/webhooks.ts";
import type { EntryDraft } from "../audit/entry.ts";
import type { ExportState } from "../audit/export/exporter.ts";
import type { ConfigurationState } from "../runtime/reload/types.ts";
import { createLoadMetrics, type LoadMetrics } from "./connections/load.ts";

interface AuditBatch {
  readonly entries: number;
  readonly syncMs: number;
}

interface Gauges {
  readonly callsInFlight: () => number;
  /** Returns the open gRPC channels per system. */
  readonly channels: () => Iterable<{ readonly system: string; readonly state: string }>;
  /** Returns when the service's own certificate for each system expires, in milliseconds since 1970. */
  readonly certificates?: () => Iterable<{ readonly system: string; readonly notAfter: number }>;
}

export interface Metrics {
  readonly contentType: string;
  readonly load: LoadMetrics;
  text(): Promise<string>;
  observeCall(entry: EntryDraft): void;
  observeBatch(batch: AuditBatch): void;
  /**
   * Counts descendants of a command that survived the kill of its process group. `command` is a name from the configuration.
   */
  observeSurvivors(survivors: { readonly command: string; readonly count: number }): void;
  /** Registers gauges whose values are read at each scrape. */
  watch(gauges: Gauges): void;
  /** Registers the gauges of the configuration. */
  watchConfiguration(state: () => ConfigurationState | undefined): void;
  /** Registers the gauges of the audit exporters. */
  watchExports(states: () => readonly ExportState[]): void;
  /** Registers the gauges of the revocation list; `state` returns undefined when there is none. */
  watchRevocations(state: () => Revocations | undefined): void;
  /** Registers the metrics of approvals and webhooks. */
  watchApprovals(approvals: () => NotifiedApprovals | undefined): void;
  /** Registers a counter of dropped telemetry per signal: spans, log lines. */
  watchDropped(signals: Readonly<Record<string, () => number>>): void;
}

interface Revocations {
  readonly status: "ok" | "stale";
  readonly entries: number;
}

/** Upper bounds of the buckets for stage times, in seconds. */
const SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const SYNC_SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1];
const BATCH_ENTRIES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/** Creates the Prometheus metrics. Label values come from closed lists: all unknown tools share one. */
export function createMetrics(): Metrics {
  const register = new Registry();
  const registers = [register];
  collectDefaultMetrics({ register });
  /** Tool → refusal code or OK → number of calls. Each code has exactly one decision. */
  const calls = new Map<string, Map<string, { readonly decision: string; count: number }>>();
  new Counter({
    name: "stc_calls_total",
    help: "Calls by tool, decision and refusal code",
    labelNames: ["tool", "decision", "code"],
    registers,
    collect() {
      this.reset();
      for (const [tool, ends] of calls) {
        for (const [code, { decision, count }] of ends) this.inc({ tool, decision, code }, count);
      }
    },
  });
  const stages = new StageTimes();
  register.registerMetric(stages.metric());
  const batchEntries = new Histogram({
    name: "stc_audit_batch_entries",
    help: "Audit lines that shared one sync",
    buckets: BATCH_ENTRIES,
    registers,
  });
  const syncSeconds = new Histogram({
    name: "stc_audit_sync_seconds",
    help: "Time of one audit sync",
    buckets: SYNC_SECONDS,
    registers,
  });
  const survivors = new Counter({
    name: "stc_child_survivors_total",
    help: "Descendants of commands that outlived the kill of their group and were killed one by one",
    labelNames: ["command"],
    registers,
  });
  const secretsSent = new Counter({
    name: "stc_secrets_sent_total",
    help: "Calls whose arguments held a secret",
    labelNames: ["tool"],
    registers,
  });

  return {
    contentType: register.contentType,
    load: createLoadMetrics(registers),
    text: () => register.metrics(),
    observeCall({ tool, decision, request, error, stages: times = {}, count = 1 }) {
      const name = tool.classification === "unknown" ? "unknown" : tool.name;
      const ends = ofKey(calls, name, () => new Map());
      ofKey(ends, error?.code ?? "OK", () => ({ decision, count: 0 })).count += count;
      if (request.secrets !== undefined) secretsSent.inc({ tool: name });
      for (const stage in times) stages.observe(stage, times[stage] ?? 0);
    },
    observeBatch({ entries, syncMs }) {
      batchEntries.observe(entries);
      syncSeconds.observe(syncMs / 1000);
    },
    observeSurvivors: ({ command, count }) => survivors.inc({ command }, count),
    watch: (gauges) => watch(gauges, registers),
    watchConfiguration: (state) => watchConfiguration(state, registers),
    watchExports: (states) => watchExports(states, registers),
    watchRevocations: (state) => watchRevocations(state, registers),
    watchApprovals: (approvals) => watchApprovals(approvals, registers),
    watchDropped: (signals) => watchDropped(signals, registers),
  };
}

function ofKey<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}

function watchConfiguration(state: () => ConfigurationState | undefined, registers: Registry[]): void {
  new Gauge({
    name: "stc_configuration_generation",
    help: "Which reading of configuration, manifests and keys is in use, counted from 1 at the start",
    registers,
    collect() {
      this.set(state()?.generation ?? 1);
    },
  });
  new Gauge({
    name: "stc_configuration_last_refused",
    help: "When the last reload was refused, in seconds since 1970; 0 when it was not",
    registers,
    collect() {
      const refused = state()?.lastRefused;
      this.set(refused ? Date.parse(refused.at) / 1000 : 0);
    },
  });
}

const EXPORT_GAUGES = [
  ["stc_audit_export_lag_bytes", "Bytes of the audit that an exporter has still to send", "bytesBehind"],
  ["stc_audit_export_lag_seconds", "Age of the oldest line that an exporter has still to send", "secondsBehind"],
  ["stc_audit_export_sent_lines", "Audit lines that the far side took since the start", "sentLines"],
  ["stc_audit_export_dead_lines", "Audit lines that the far side refused for good since the start", "deadLines"],
  ["stc_audit_export_failures", "Requests of an exporter that failed since the start", "failures"],
] as const;

function watchExports(states: () => readonly ExportState[], registers: Registry[]): void {
  for (const [name, help, member] of EXPORT_GAUGES) {
    new Gauge({
      name,
      help,
      labelNames: ["exporter", "stream"],
      registers,
      collect() {
        this.reset();
        for (const { exporter, stream, [member]: value } of states()) this.set({ exporter, stream }, value);
      },
    });
  }
}

function watchDropped(signals: Readonly<Record<string, () => number>>, registers: Registry[]): void {
  new Counter({
    name: "stc_telemetry_dropped_total",
    help: "Spans of traces, and lines of the log, that were dropped: their queue was full, or nobody took them",
    labelNames: ["signal"],
    registers,
    collect() {
      this.reset();
      for (const signal in signals) this.inc({ signal }, signals[signal]?.() ?? 0);
    },
  });
}

function watchRevocations(state: () => Revocations | undefined, registers: Registry[]): void {
  new Gauge({
    name: "stc_revocation_entries",
    help: "Entries of the list of revocations that counts",
    registers,
    collect() {
      this.set(state()?.entries ?? 0);
    },
  });
  new Gauge({
    name: "stc_revocation_list_stale",
    help: "1 while the file of the revocations is broken or gone and the list before it counts",
    registers,
    collect() {
      this.set(state()?.status === "stale" ? 1 : 0);
    },
  });
}

function watch({ callsInFlight, channels, certificates = () => [] }: Gauges, registers: Registry[]): void {
  new Gauge({
    name: "stc_certificate_expiry_timestamp_seconds",
    help: "When our own certificate at a system expires, in seconds since 1970",
    labelNames: ["system"],
    registers,
    collect() {
      this.reset();
      for (const { system, notAfter } of certificates()) this.set({ system }, notAfter / 1000);
    },
  });
  new Gauge({
    name: "stc_calls_in_flight",
    help: "Calls under way",
    registers,
    collect() {
      this.set(callsInFlight());
    },
  });
  new Gauge({
    name: "stc_grpc_channels",
    help: "Open gRPC channels by system and connectivity state",
    labelNames: ["system", "state"],
    registers,
    collect() {
      this.reset();
      for (const { system, state } of channels()) this.inc({ system, state });
    },
  });
}

/**
 * Counts stage times itself and converts them for prom-client at each scrape: ten observations per call through prom-client's
 * general interface cost more than the pipeline.
 */
class StageTimes {
  readonly #stages = new Map<string, { readonly counts: Float64Array; sumMs: number }>();

  observe(stage: string, ms: number): void {
    let times = this.#stages.get(stage);
    if (times === undefined) {
      times = { counts: new Float64Array(SECONDS.length + 1), sumMs: 0 };
      this.#stages.set(stage, times);
    }
    times.sumMs += ms;
    let bucket = 0;
    while (bucket < SECONDS.length && ms > (SECONDS[bucket] ?? 0) * 1000) bucket += 1;
    times.counts[bucket] = (times.counts[bucket] ?? 0) + 1;
  }

  metric(): Histogram {
    const stages = this.#stages;
    const name = "stc_call_stage_seconds";
    const metric = new Histogram({
      name,
      help: "Time per stage of the road",
      labelNames: ["stage"],
      buckets: SECONDS,
      registers: [],
    });
    const get = async () => ({
      name,
      help: "Time per stage of the road",
      type: "histogram",
      aggregator: "sum",
      values: [...stages].flatMap(([stage, times]) => samples(name, stage, times)),
    });
    // prom-client calls `getForPromString` when it prints the metrics.
    return Object.assign(metric, { get, getForPromString: get });
  }
}

function samples(
  name: string,
  stage: string,
  { counts, sumMs }: { readonly counts: Float64Array; readonly sumMs: number },
) {
  let cumulated = 0;
  const buckets = Array.from(counts, (count, index) => {
    cumulated += count;
    return { metricName: `${name}_bucket`, labels: { stage, le: SECONDS[index] ?? "+Inf" }, value: cumulated };
  });
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels: { stage }, value: sumMs / 1000 },
    { metricName: `${name}_count`, labels: { stage }, value: cumulated },
  ];
}

/** Registers metrics of decisions and of webhook deliveries, whose values are read at each scrape. */
function watchApprovals(approvals: () => NotifiedApprovals | undefined, registers: Registry[]): void {
  new Counter({
    name: "stc_approvals_ended_total",
    help: "Questions that were approved, denied, cancelled, revoked or have expired, through this process",
    labelNames: ["outcome"],
    registers,
    collect() {
      this.reset();
      for (const [outcome, count] of approvals()?.tally?.ended ?? []) this.inc({ outcome }, count);
    },
  });
  for (const register of registers) register.registerMetric(decisionTimes(() => approvals()?.tally));
  for (const [name, help, read] of WEBHOOK_GAUGES) {
    new Gauge({
      name,
      help,
      labelNames: ["webhook"],
      registers,
      collect() {
        this.reset();
        for (const state of approvals()?.webhooks?.states() ?? []) this.set({ webhook: state.webhook }, read(state));
      },
    });
  }
}

const WEBHOOK_GAUGES: readonly (readonly [string, string, (state: WebhookState) => number])[] = [
  ["stc_webhook_sent", "Notifications that the far side took since the start", ({ sent }) => sent],
  ["stc_webhook_failures", "Attempts that failed since the start", ({ failures }) => failures],
  ["stc_webhook_dead", "Notifications that were given up since the start", ({ dead }) => dead],
  ["stc_webhook_stale", "Questions that were over before they could be sent", ({ stale }) => stale],
  ["stc_webhook_disabled", "1 when the far side has said that it is gone", ({ isDisabled }) => Number(isDisabled)],
];

const NAME = "stc_approval_decision_seconds";
const HELP = "Time from the question to the decision";

/** Returns a histogram that the tally counts and prom-client only prints. */
function decisionTimes(tally: () => Tally | undefined): Histogram {
  const metric = new Histogram({ name: NAME, help: HELP, buckets: [...DECISION_SECONDS], registers: [] });
  const get = async () => ({
    name: NAME,
    help: HELP,
    type: "histogram",
    aggregator: "sum",
    values: decisionSamples(tally()),
  });
  // prom-client calls `getForPromString` when it prints the metrics.
  return Object.assign(metric, { get, getForPromString: get });
}

function decisionSamples(tally: Tally | undefined) {
  let cumulated = 0;
  const buckets = [...DECISION_SECONDS, "+Inf"].map((le, index) => {
    cumulated += tally?.decisionCounts[index] ?? 0;
    return { metricName: `${NAME}_bucket`, labels: { le }, value: cumulated };
  });
  return [
    ...buckets,
    { metricName: `${NAME}_sum`, labels: {}, value: tally?.decisionSecondsSum ?? 0 },
    { metricName: `${NAME}_count`, labels: {}, value: cumulated },
  ];
}
