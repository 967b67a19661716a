import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { DECISION_SECONDS, type Tally } from "../approvals/notify/tally.ts";
import type { WebhookState } from "../approvals/notify/webhook.ts";
import type { NotifiedApprovals } from "../approvals/notify/webhooks.ts";

/** How people answer, and how those who are told of questions take it: asked for when somebody scrapes. */
export function watchApprovals(approvals: () => NotifiedApprovals | undefined, registers: Registry[]): void {
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

/** Counted by the tally; prom-client only prints it. */
function decisionTimes(tally: () => Tally | undefined): Histogram {
  const metric = new Histogram({ name: NAME, help: HELP, buckets: [...DECISION_SECONDS], registers: [] });
  const get = async () => ({ name: NAME, help: HELP, type: "histogram", aggregator: "sum", values: samples(tally()) });
  // Whoever prints them asks for this one.
  return Object.assign(metric, { get, getForPromString: get });
}

function samples(tally: Tally | undefined) {
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
