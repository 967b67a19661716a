import { AggregatorRegistry, type Registry } from "prom-client";

/** The values of all metrics of one process. */
export type MetricValues = Awaited<ReturnType<Registry["getMetricsAsJSON"]>>;

/**
 * Returns the metrics of several processes as one exposition. Counters and histograms are sums, and each gauge says by its
 * `aggregator` how it is combined: what users of servers with several processes expect (Gunicorn, Node's cluster), so that a
 * series outlives the worker that counted, and rules written for one process still hold. Rejected: a label with the worker, which
 * multiplies all series and ends those of a worker that is replaced.
 */
export function exposition(processes: readonly MetricValues[]): Promise<string> {
  return aggregated(processes).metrics();
}

/** Returns what ended processes have counted: without it, sums would fall when a worker ends. Gauges end with their process. */
export function countedBy(processes: readonly MetricValues[]): Promise<MetricValues> {
  return aggregated(processes.map((values) => values.filter(({ type }) => !isGauge(type)))).getMetricsAsJSON();
}

function aggregated(processes: readonly MetricValues[]): Registry {
  return AggregatorRegistry.aggregate(processes.map((values) => [...values]));
}

/** prom-client's types say that a type is a number; its values are words. */
function isGauge(type: unknown): boolean {
  return type === "gauge";
}
