import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { type ApproverCounts, DECISION_SECONDS, type Tally } from "../approvals/notify/tally.ts";
import type { WebhookState } from "../approvals/notify/webhook.ts";
import type { NotifiedApprovals } from "../approvals/notify/webhooks.ts";
import type { Backlog } from "../approvals/types.ts";
import type { EntryDraft } from "../audit/entry.ts";
import type { ExportState } from "../audit/export/exporter.ts";
import { POINT_SECONDS, type PointState } from "../core/policy-point.ts";
import type { UpstreamState } from "../core/target-kind.ts";
import { resultWithin } from "../core/time-limits.ts";
import type { EpochMs } from "../core/types.ts";
import type { ReviewResult } from "../pipeline/identity/token-review.ts";
import type { Quotas } from "../quotas/quotas.ts";
import type { ConfigurationState } from "../runtime/reload/types.ts";
import { createLoadMetrics, type LoadMetrics } from "./connections/load.ts";

interface MemberBundles {
  readonly version: number;
  readonly state: string;
  readonly members: number;
}

interface MetricSources {
  /** Whether `/readyz` says so; absent where another process answers it. */
  readonly isReady?: () => boolean;
  readonly auditFreeBytes?: () => number | undefined;
  /** Returns what waits for a decision; undefined without a store of approvals. */
  readonly backlog?: () => Promise<Backlog> | undefined;
  readonly listeners?: () => Iterable<{
    readonly listener: string;
    readonly certificateExpiresAt: EpochMs | undefined;
  }>;
  readonly callsInFlight?: () => number;
  readonly channels?: () => Iterable<{ readonly system: string; readonly state: string }>;
  readonly upstreams?: () => Iterable<UpstreamState>;
  /** Returns when the service's own certificate for each system expires, in milliseconds since 1970. */
  readonly certificates?: () => Iterable<{ readonly system: string; readonly notAfter: number }>;
  readonly configuration?: () => ConfigurationState | undefined;
  readonly exports?: () => readonly ExportState[];
  readonly halts?: { describe(): { readonly status: string; readonly active: number } } | undefined;
  readonly revocations?: () => { readonly status: "ok" | "stale"; readonly entries: number } | undefined;
  readonly approvals?: () => NotifiedApprovals | undefined;
  readonly quotas?: () => Pick<Quotas, "counts" | "failures"> | undefined;
  /** Returns the console's sessions, and its sign-ins by means and result, two words; undefined without a console. */
  readonly console?: () => { readonly sessions: number; readonly signIns: ReadonlyMap<string, number> } | undefined;
  readonly decisionPoints?: () => readonly PointState[];
  /** Returns counts of data flow; undefined while it has never been on. */
  readonly flowCounts?: () => Readonly<Record<string, number>> | undefined;
  readonly dropped?: Readonly<Record<string, () => number>>;
  /** Counts the members of a hub; undefined in a service that is none. */
  readonly hub?: { connected(): number; bundles(): readonly MemberBundles[] } | undefined;
  /** Returns the state of the fleet's bundle; undefined where the configuration has none. */
  readonly bundle?: () => { readonly version: number; readonly state: string; readonly expires: string } | undefined;
  /** Returns counts of the worker processes; undefined when there are none. */
  readonly workers?: () => { readonly ready: number; readonly replaced: number } | undefined;
}

export interface Metrics {
  readonly contentType: string;
  readonly load: LoadMetrics;
  readonly register: Registry;
  text(): Promise<string>;
  /** Returns the values by metric, for a process that adds up those of several. */
  values(): ReturnType<Registry["getMetricsAsJSON"]>;
  observeCall(entry: EntryDraft): void;
  observeBatch(batch: { readonly entries: number; readonly syncMs: number }): void;
  /**
   * Counts descendants of a command that survived the kill of its process group. `command` is a name from the configuration.
   */
  observeSurvivors(survivors: { readonly command: string; readonly count: number }): void;
  /** Counts an answer to another program's question about access. `code` is `OK`, or says why not. */
  observeEvaluation(code: string): void;
  observeTokenReview(result: ReviewResult): void;
  /** Counts a request of a hub's member. `method` comes from the list of those that the hub offers. */
  observeHubRequest(method: string, outcome: string, ms: number): void;
  watch(sources: MetricSources): void;
}

const SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const SYNC_SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1];
const HUB_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];
const BATCH_ENTRIES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

interface MetricsOptions {
  readonly register?: Registry;
  /** The tenant whose metrics these are: they have its name as the label `tenant`, and none is of the process. */
  readonly tenant?: string | undefined;
}

/** Creates the Prometheus metrics. Label values come from closed lists: all unknown tools share one. */
export function createMetrics({ register = new Registry(), tenant }: MetricsOptions = {}): Metrics {
  const registers = [register];
  const ofProcess = tenant === undefined ? registers : [];
  if (tenant === undefined) collectDefaultMetrics({ register });
  else register.setDefaultLabels({ tenant });
  /** Tool → decision and refusal code or OK → number of calls. */
  const calls = new Map<string, Map<string, { readonly decision: string; readonly code: string; count: number }>>();
  new Counter({
    name: "stc_calls_total",
    help: "Calls by tool, decision and refusal code",
    labelNames: ["tool", "decision", "code"],
    registers,
    collect() {
      this.reset();
      for (const [tool, ends] of calls) {
        for (const { decision, code, count } of ends.values()) this.inc({ tool, decision, code }, count);
      }
    },
  });
  /** Protocol and version → decision → number of calls. Versions come from the closed list of the protocol's adapter. */
  const protocols = new Map<string, Map<string, number>>();
  new Counter({
    name: "stc_protocol_calls_total",
    help: "Calls over a protocol other than POST /call, by protocol, version and decision",
    labelNames: ["protocol", "version", "decision"],
    registers,
    collect() {
      this.reset();
      for (const [name, decisions] of protocols) {
        const [protocol = "", version = ""] = name.split(" ");
        for (const [decision, count] of decisions) this.inc({ protocol, version, decision }, count);
      }
    },
  });
  const stages = new StageTimes();
  register.registerMetric(histogramOfCounts(STAGE_SECONDS, () => stages.histograms()));
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
  const evaluations = new Counter({
    name: "stc_access_evaluations_total",
    help: "Questions of other programs about access, by the code of the denial or OK",
    labelNames: ["code"],
    registers,
  });
  const tokenReviews = new Counter({
    name: "stc_token_reviews_total",
    help: "Reviews of tokens by the API server of Kubernetes, and tokens accepted or refused because it was away",
    labelNames: ["result"],
    registers,
  });

  const hubRequests = new Counter({
    name: "stc_hub_requests_total",
    help: "Requests of members to this hub, by method and how they ended",
    labelNames: ["method", "outcome"],
    registers,
  });
  const hubSeconds = new Histogram({
    name: "stc_hub_request_seconds",
    help: "Time of members' requests to this hub, answered ones only",
    labelNames: ["method"],
    buckets: HUB_SECONDS,
    registers,
  });

  return {
    contentType: register.contentType,
    load: createLoadMetrics(registers, ofProcess),
    register,
    text: () => register.metrics(),
    values: () => register.getMetricsAsJSON(),
    observeCall({ tool, decision, request, protocol, error, stages: times = {}, count = 1 }) {
      const name = tool.classification === "unknown" ? "unknown" : tool.name;
      const ends = ofKey(calls, name, () => new Map());
      const code = error?.code ?? "OK";
      ofKey(ends, `${decision} ${code}`, () => ({ decision, code, count: 0 })).count += count;
      if (protocol !== undefined) {
        const decisions = ofKey(protocols, `${protocol.name} ${protocol.version}`, () => new Map<string, number>());
        decisions.set(decision, (decisions.get(decision) ?? 0) + count);
      }
      if (request.secrets !== undefined) secretsSent.inc({ tool: name });
      for (const stage in times) stages.observe(stage, times[stage] ?? 0);
    },
    observeBatch({ entries, syncMs }) {
      batchEntries.observe(entries);
      syncSeconds.observe(syncMs / 1000);
    },
    observeSurvivors: ({ command, count }) => survivors.inc({ command }, count),
    observeEvaluation: (code) => evaluations.inc({ code }),
    observeTokenReview: (result) => tokenReviews.inc({ result }),
    observeHubRequest(method, outcome, ms) {
      hubRequests.inc({ method, outcome });
      if (outcome === "answered") hubSeconds.observe({ method }, ms / 1000);
    },
    watch({ backlog, ...others }) {
      const sources = { ...others, ...(backlog !== undefined && { backlog: askedOnce(backlog) }) };
      for (const { type: Metric, name, help, labels, read } of READ_AT_SCRAPE) {
        new Metric({
          aggregator: AGGREGATORS.get(name) ?? "sum",
          name,
          help,
          labelNames: labels,
          registers,
          async collect() {
            const samples = await read(sources);
            this.reset();
            // prom-client sets a metric without labels to 0, which would be another value than none.
            if (labels.length === 0) this.remove();
            for (const [values, value] of samples) this.inc(values, value);
          },
        });
      }
      register.registerMetric(decisionTimes(sources));
      register.registerMetric(pointTimes(sources));
    },
  };
}

/** Returns the metrics of a service, whose text holds those of its tenants, too. */
export function withTenants(service: Metrics, tenants: () => Iterable<Metrics>): Metrics {
  return { ...service, text: () => textOf([service, ...tenants()].map(({ register }) => register)) };
}

/** Returns one exposition, in which each metric occurs once, with the samples of all registers. */
async function textOf(registers: readonly Registry[]): Promise<string> {
  const names = new Set(registers.flatMap((register) => register.getMetricsAsArray().map(({ name }) => name)));
  const metrics = await Promise.all(
    [...names].map(async (name) => {
      const having = registers.filter((register) => register.getSingleMetric(name) !== undefined);
      const texts = await Promise.all(having.map((register) => register.getSingleMetricAsString(name)));
      // The first two lines are HELP and TYPE.
      return texts.flatMap((text, at) => text.split("\n").slice(at === 0 ? 0 : 2)).join("\n");
    }),
  );
  return `${metrics.join("\n\n")}\n`;
}

function ofKey<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}

type Sample = readonly [labels: Readonly<Record<string, string>>, value: number];

interface ReadMetric {
  readonly type: typeof Gauge | typeof Counter;
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  readonly read: (sources: MetricSources) => Iterable<Sample> | Promise<Iterable<Sample>>;
}

/** How the values of several processes of one service are combined, where they are not added. */
const AGGREGATORS: ReadonlyMap<string, "min" | "max"> = new Map([
  ["stc_certificate_expiry_timestamp_seconds", "min"],
  ["stc_configuration_generation", "min"],
  ["stc_configuration_last_refused", "max"],
  ["stc_audit_disk_free_bytes", "min"],
  ["stc_audit_export_lag_seconds", "max"],
  ["stc_decision_point_circuit_open", "max"],
  ["stc_halts_active", "max"],
  ["stc_halts_known", "min"],
  ["stc_listener_certificate_expiry_timestamp_seconds", "min"],
  ["stc_mcp_quarantined_tools", "max"],
  ["stc_revocation_entries", "min"],
  ["stc_revocation_list_stale", "max"],
  ["stc_webhook_disabled", "max"],
]);

function row(
  type: ReadMetric["type"],
  [name, help, ...labels]: readonly [string, string, ...string[]],
  read: ReadMetric["read"],
): ReadMetric {
  return { type, name, help, labels, read };
}

const lone = (value: number): readonly Sample[] => [[{}, value]];
const loneOf = (value: number | undefined): readonly Sample[] => (value === undefined ? [] : lone(value));

/** Members say what they like: further versions count as `other`. */
const BUNDLES_MAX = 50;

function memberBundles(counted: readonly MemberBundles[]): readonly Sample[] {
  const sorted = counted.toSorted((one, other) => other.members - one.members);
  const named = sorted
    .slice(0, BUNDLES_MAX)
    .map(({ version, state, members }): Sample => [{ version: String(version), state }, members]);
  const others = Map.groupBy(sorted.slice(BUNDLES_MAX), ({ state }) => state);
  const rest = [...others].map(([state, all]): Sample => {
    const members = all.reduce((sum, one) => sum + one.members, 0);
    return [{ version: "other", state }, members];
  });
  return [...named, ...rest];
}

/** A store that does not answer within this time counts as away, so that a scrape does not wait for it. */
const BACKLOG_MS = 2_000;

/** The metrics of one scrape share one question to the store. */
function askedOnce(ask: () => Promise<Backlog> | undefined): () => Promise<Backlog> | undefined {
  let asking: Promise<Backlog> | undefined;
  return () => {
    asking ??= ask();
    if (asking === undefined) return undefined;
    return resultWithin(asking, BACKLOG_MS, () => new Error("the store does not answer")).finally(() => {
      asking = undefined;
    });
  };
}

/** Returns one sample of what waits; none while the store does not answer. */
async function waitingSample(
  { backlog }: MetricSources,
  read: (backlog: Backlog) => number,
): Promise<readonly Sample[]> {
  const seen = await backlog?.()?.catch(() => undefined);
  return loneOf(seen && read(seen));
}

const EXPORTS = [
  ["stc_audit_export_lag_bytes", "Bytes of the audit that an exporter has not sent yet", "bytesBehind"],
  ["stc_audit_export_lag_seconds", "Age of the oldest line that an exporter has not sent yet", "secondsBehind"],
  ["stc_audit_export_sent_lines", "Audit lines that the receiver accepted since the start", "sentLines"],
  ["stc_audit_export_dead_lines", "Audit lines that the receiver rejected permanently since the start", "deadLines"],
  ["stc_audit_export_failures", "Requests of an exporter that failed since the start", "failures"],
  ["stc_audit_export_conflicts", "Failures since the start for which an archive holds other content", "conflicts"],
] as const;

const WEBHOOKS: readonly (readonly [string, string, (state: WebhookState) => number])[] = [
  ["stc_webhook_sent", "Notifications that the receiver accepted since the start", ({ sent }) => sent],
  ["stc_webhook_failures", "Attempts that failed since the start", ({ failures }) => failures],
  ["stc_webhook_dead", "Notifications that were abandoned since the start", ({ dead }) => dead],
  ["stc_webhook_stale", "Notifications whose approval request ended before they could be sent", ({ stale }) => stale],
  [
    "stc_webhook_disabled",
    "1 when the receiver has answered that it no longer exists",
    ({ isDisabled }) => Number(isDisabled),
  ],
];

const READ_AT_SCRAPE: readonly ReadMetric[] = [
  row(Gauge, ["stc_ready", "1 while calls are accepted, as /readyz reports it"], ({ isReady }) =>
    loneOf(isReady && Number(isReady())),
  ),
  row(Gauge, ["stc_audit_disk_free_bytes", "Free space on the disk of the audit"], ({ auditFreeBytes }) =>
    loneOf(auditFreeBytes?.()),
  ),
  row(
    Gauge,
    [
      "stc_listener_certificate_expiry_timestamp_seconds",
      "When the certificate of a listener expires, in seconds since 1970",
      "listener",
    ],
    ({ listeners }) =>
      [...(listeners?.() ?? [])].flatMap(({ listener, certificateExpiresAt: at }) =>
        at === undefined ? [] : [[{ listener }, at / 1000]],
      ),
  ),
  row(Gauge, ["stc_approval_store_up", "1 while the store of approvals answers"], async ({ backlog }) => {
    const asked = backlog?.();
    return asked === undefined
      ? []
      : asked.then(
          () => lone(1),
          () => lone(0),
        );
  }),
  row(Gauge, ["stc_approvals_waiting", "Approval requests that wait for a decision, in the whole store"], (sources) =>
    waitingSample(sources, ({ waiting }) => waiting),
  ),
  row(
    Gauge,
    ["stc_approvals_oldest_waiting_seconds", "Age of the oldest approval request that waits; 0 when none waits"],
    (sources) => waitingSample(sources, ({ oldestMs }) => oldestMs / 1000),
  ),
  row(Gauge, ["stc_hub_members_connected", "Instances of members whose stream from this hub is open"], ({ hub }) =>
    hub === undefined ? [] : lone(hub.connected()),
  ),
  row(
    Gauge,
    [
      "stc_hub_member_bundles",
      "Connected instances of members, by the version and the state of their bundle",
      "version",
      "state",
    ],
    ({ hub }) => memberBundles(hub?.bundles() ?? []),
  ),
  row(Gauge, ["stc_workers_ready", "Worker processes that accept calls"], ({ workers }) => {
    const counts = workers?.();
    return counts === undefined ? [] : lone(counts.ready);
  }),
  row(
    Counter,
    ["stc_workers_replaced_total", "Worker processes that were started in place of one that had ended"],
    ({ workers }) => {
      const counts = workers?.();
      return counts === undefined ? [] : lone(counts.replaced);
    },
  ),
  row(Gauge, ["stc_bundle_version", "Version of the fleet's bundle in force, by its state", "state"], ({ bundle }) => {
    const status = bundle?.();
    return status === undefined ? [] : [[{ state: status.state }, status.version]];
  }),
  row(
    Gauge,
    ["stc_bundle_expiry_timestamp_seconds", "When the bundle's timestamp expires, in seconds since 1970"],
    ({ bundle }) => {
      const status = bundle?.();
      return status === undefined ? [] : lone(Date.parse(status.expires) / 1000);
    },
  ),
  row(
    Gauge,
    [
      "stc_certificate_expiry_timestamp_seconds",
      "When our own certificate at a system expires, in seconds since 1970",
      "system",
    ],
    ({ certificates }) => [...(certificates?.() ?? [])].map(({ system, notAfter }) => [{ system }, notAfter / 1000]),
  ),
  row(Gauge, ["stc_calls_in_flight", "Calls in progress"], ({ callsInFlight }) => lone(callsInFlight?.() ?? 0)),
  row(
    Gauge,
    ["stc_grpc_channels", "Open gRPC channels by system and connectivity state", "system", "state"],
    ({ channels }) => [...(channels?.() ?? [])].map(({ system, state }) => [{ system, state }, 1]),
  ),
  row(Gauge, ["stc_mcp_upstreams", "MCP servers by system and state", "system", "state"], ({ upstreams }) =>
    [...(upstreams?.() ?? [])].map(({ system, state }) => [{ system, state }, 1]),
  ),
  row(
    Gauge,
    ["stc_mcp_quarantined_tools", "Tools of an MCP server whose definition is not the pinned one", "system"],
    ({ upstreams }) => [...(upstreams?.() ?? [])].map(({ system, quarantined }) => [{ system }, quarantined.length]),
  ),
  row(
    Gauge,
    ["stc_configuration_generation", "Number of the configuration snapshot in use, counted from 1 at the start"],
    ({ configuration }) => lone(configuration?.()?.generation ?? 1),
  ),
  row(
    Gauge,
    ["stc_configuration_last_refused", "When the last reload was refused, in seconds since 1970; 0 when it was not"],
    ({ configuration }) => lone(Date.parse(configuration?.()?.lastRefused?.at ?? "1970-01-01") / 1000),
  ),
  ...EXPORTS.map(([name, help, member]) =>
    row(Gauge, [name, help, "exporter", "stream"], ({ exports }) =>
      (exports?.() ?? []).map(({ exporter, stream, [member]: value }) => [{ exporter, stream }, value]),
    ),
  ),
  row(
    Gauge,
    [
      "stc_audit_export_upkeep_failures",
      "Attempts since the start to delete old days in an audit store, or to prepare the next, that failed",
      "exporter",
    ],
    ({ exports }) =>
      (exports?.() ?? []).flatMap(({ exporter, upkeepFailures }) =>
        upkeepFailures === undefined ? [] : [[{ exporter }, upkeepFailures] as const],
      ),
  ),
  row(
    Counter,
    [
      "stc_telemetry_dropped_total",
      "Trace spans and log lines that were dropped because their queue was full or nothing accepted them",
      "signal",
    ],
    ({ dropped = {} }) => Object.entries(dropped).map(([signal, count]) => [{ signal }, count()]),
  ),
  row(Gauge, ["stc_halts_active", "Halts in force that this process knows"], ({ halts }) =>
    lone(halts?.describe().active ?? 0),
  ),
  row(Gauge, ["stc_halts_known", "1 while the halts are known, 0 while they cannot be read"], ({ halts }) =>
    lone(Number(halts === undefined || halts.describe().status === "ok")),
  ),
  row(
    Counter,
    [
      "stc_data_flow_total",
      "Calls judged by what their callers have read, by verdict, and answers withheld because they could not be remembered",
      "result",
    ],
    ({ flowCounts }) => Object.entries(flowCounts?.() ?? {}).map(([result, count]) => [{ result }, count]),
  ),
  row(Gauge, ["stc_console_sessions", "Sessions of the console that have not ended"], ({ console }) => {
    const tally = console?.();
    return tally === undefined ? [] : lone(tally.sessions);
  }),
  row(
    Counter,
    ["stc_console_sign_ins_total", "Sign-ins to the console by means and result", "by", "result"],
    ({ console }) =>
      [...(console?.()?.signIns ?? [])].map(([key, count]) => {
        const [by = "", result = ""] = key.split(" ");
        return [{ by, result }, count];
      }),
  ),
  row(
    Counter,
    ["stc_decision_point_verdicts_total", "Verdicts of decision points", "point", "verdict"],
    ({ decisionPoints }) =>
      (decisionPoints?.() ?? []).flatMap(({ name: point, verdicts }) =>
        Object.entries(verdicts).map(([verdict, count]) => [{ point, verdict }, count] as const),
      ),
  ),
  row(
    Counter,
    ["stc_decision_point_errors_total", "Calls denied because a decision point could not decide", "point"],
    ({ decisionPoints }) => (decisionPoints?.() ?? []).map(({ name: point, errors }) => [{ point }, errors]),
  ),
  row(
    Counter,
    ["stc_decision_point_cached_total", "Calls allowed by a kept answer of a decision point", "point"],
    ({ decisionPoints }) => (decisionPoints?.() ?? []).map(({ name: point, cached }) => [{ point }, cached]),
  ),
  row(
    Gauge,
    ["stc_decision_point_circuit_open", "1 while a decision point is not asked because it keeps failing", "point"],
    ({ decisionPoints }) =>
      (decisionPoints?.() ?? []).map(({ name: point, circuit }) => [{ point }, circuit === "open" ? 1 : 0]),
  ),
  row(Gauge, ["stc_revocation_entries", "Entries of the revocation list in use"], ({ revocations }) =>
    lone(revocations?.()?.entries ?? 0),
  ),
  row(
    Gauge,
    ["stc_revocation_list_stale", "1 while the revocation file is invalid or missing and the previous list is in use"],
    ({ revocations }) => lone(revocations?.()?.status === "stale" ? 1 : 0),
  ),
  row(
    Counter,
    [
      "stc_approvals_ended_total",
      "Approval requests that were approved, denied, cancelled, revoked or have expired, through this process",
      "outcome",
    ],
    ({ approvals }) => [...(approvals?.()?.tally?.ended ?? [])].map(([outcome, count]) => [{ outcome }, count]),
  ),
  row(Counter, ["stc_approvals_requested_total", "Approval requests that this process made"], ({ approvals }) =>
    lone(approvals?.()?.tally?.asked ?? 0),
  ),
  row(
    Counter,
    [
      "stc_approver_decisions_total",
      "Decisions that people made through this process; after the first 100 approvers, the others share one name",
      ...["issuer", "approver", "decision"],
    ],
    ({ approvals }) =>
      approverSamples(approvals?.()?.tally, ({ approve, deny }) => [
        [{ decision: "approve" }, approve],
        [{ decision: "deny" }, deny],
      ]),
  ),
  row(
    Counter,
    [
      "stc_approver_quick_approvals_total",
      "Approvals within three seconds of the request, through this process",
      ...["issuer", "approver"],
    ],
    ({ approvals }) => approverSamples(approvals?.()?.tally, ({ quick }) => [[{}, quick]]),
  ),
  row(
    Counter,
    ["stc_approvals_escalated_total", "Escalation steps of approval policies that this process has taken", "policy"],
    ({ approvals }) => [...(approvals?.()?.tally?.escalated ?? [])].map(([policy, count]) => [{ policy }, count]),
  ),
  row(
    Counter,
    ["stc_quota_charged_total", "Calls, bytes or cost that this process has charged to a quota", "quota"],
    ({ quotas }) => (quotas?.()?.counts() ?? []).map(({ quota, charged }) => [{ quota }, charged]),
  ),
  row(
    Counter,
    ["stc_quota_refused_total", "Calls that this process has refused because a quota was used up", "quota"],
    ({ quotas }) => (quotas?.()?.counts() ?? []).map(({ quota, refused }) => [{ quota }, refused]),
  ),
  row(
    Counter,
    ["stc_quota_failures_total", "Transactions on the use of quotas that failed or got no answer, in this process"],
    ({ quotas }) => {
      const inUse = quotas?.();
      return inUse === undefined ? [] : lone(inUse.failures);
    },
  ),
  row(
    Counter,
    ["stc_grants_total", "Grants that were created or revoked, and runs of bounded grants, in this process", "change"],
    ({ approvals }) => [...(approvals?.()?.tally?.grants ?? [])].map(([change, count]) => [{ change }, count]),
  ),
  ...WEBHOOKS.map(([name, help, read]) =>
    row(Gauge, [name, help, "webhook"], ({ approvals }) =>
      (approvals?.()?.webhooks?.states() ?? []).map((state) => [{ webhook: state.webhook }, read(state)]),
    ),
  ),
];

function approverSamples(
  tally: Tally | undefined,
  read: (counts: ApproverCounts) => readonly Sample[],
): readonly Sample[] {
  return [...(tally?.approvers() ?? [])].flatMap((counts) => {
    const { issuer, subject } = counts.approver;
    return read(counts).map(([labels, value]) => [{ issuer, approver: subject, ...labels }, value] as const);
  });
}

interface CountedHistogram {
  readonly labels: Readonly<Record<string, string>>;
  /** Observations per bucket, not cumulative; the last is for everything above the upper bounds. */
  readonly counts: ArrayLike<number>;
  readonly sumSeconds: number;
}

interface HistogramKind {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  /** Upper bounds in seconds. */
  readonly buckets: readonly number[];
}

function histogramOfCounts(kind: HistogramKind, read: () => readonly CountedHistogram[]): Histogram {
  const { name, help, buckets } = kind;
  const metric = new Histogram({ ...kind, buckets: [...buckets], registers: [] });
  const samples = ({ labels, counts, sumSeconds }: CountedHistogram) => {
    let cumulated = 0;
    const values = [...buckets, "+Inf"].map((le, index) => {
      cumulated += counts[index] ?? 0;
      return { metricName: `${name}_bucket`, labels: { ...labels, le }, value: cumulated };
    });
    return [
      ...values,
      { metricName: `${name}_sum`, labels, value: sumSeconds },
      { metricName: `${name}_count`, labels, value: cumulated },
    ];
  };
  const get = async () => ({ name, help, type: "histogram", aggregator: "sum", values: read().flatMap(samples) });
  // prom-client calls `getForPromString` when it prints the metrics.
  return Object.assign(metric, { get, getForPromString: get });
}

const STAGE_SECONDS: HistogramKind = {
  name: "stc_call_stage_seconds",
  help: "Time per stage of the pipeline",
  labelNames: ["stage"],
  buckets: SECONDS,
};

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

  histograms(): readonly CountedHistogram[] {
    return [...this.#stages].map(([stage, { counts, sumMs }]) => ({
      labels: { stage },
      counts,
      sumSeconds: sumMs / 1000,
    }));
  }
}

function pointTimes({ decisionPoints }: MetricSources): Histogram {
  const kind = {
    name: "stc_decision_point_seconds",
    help: "Time that a decision point took",
    labelNames: ["point"],
    buckets: POINT_SECONDS,
  };
  return histogramOfCounts(kind, () =>
    (decisionPoints?.() ?? []).map(({ name: point, seconds: { counts, sum } }) => ({
      labels: { point },
      counts,
      sumSeconds: sum,
    })),
  );
}

function decisionTimes({ approvals }: MetricSources): Histogram {
  const kind = {
    name: "stc_approval_decision_seconds",
    help: "Time from the approval request to the decision",
    labelNames: [],
    buckets: DECISION_SECONDS,
  };
  return histogramOfCounts(kind, () => {
    const { decisionCounts = [], decisionSecondsSum = 0 } = approvals?.()?.tally ?? {};
    return [{ labels: {}, counts: decisionCounts, sumSeconds: decisionSecondsSum }];
  });
}
