import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { type Resource, resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { endedWithin } from "../../core/patience.ts";
import { boundedAgent } from "./bounded-agent.ts";
import { CountedExporter } from "./counted-exporter.ts";
import { diagnostics } from "./diagnostics.ts";
import { FinishedSpan, SCHEMA_URL } from "./finished-span.ts";
import { hidingVariables } from "./hidden-variables.ts";
import type { Span } from "./span.ts";

export interface SpanSenderOptions {
  /** Of a collector that takes OTLP over HTTP, with its path. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** What is told of the service; nothing is found out besides. */
  readonly resource: Readonly<Record<string, string>>;
  readonly sendEveryMs: number;
  /** For the operators' log. Without it OpenTelemetry's packages are not listened to, whose process this is not. */
  readonly report?: ((message: string) => void) | undefined;
  readonly queueSpansMax?: number;
  /** For one batch, with every attempt. */
  readonly timeoutMs?: number;
}

const QUEUE_SPANS_MAX = 8_192;
const BATCH_SPANS_MAX = 512;
/** At the end the whole queue is sent at once. */
const REQUESTS_MAX = 32;
/** The five further attempts that the exporter makes take some 13 s. */
const TIMEOUT_MS = 15_000;
const VARIABLES = "OTEL_";

/**
 * Sends spans on through OpenTelemetry's processor and exporter, which nothing is registered with. A call adds its spans to a
 * bounded queue and never waits: what finds it full is counted and gone. Loaded only where traces are configured.
 */
export class SpanSender {
  readonly #exporter: CountedExporter;
  readonly #processor: BatchSpanProcessor;
  readonly #resource: Resource;

  constructor({ url, headers, resource, sendEveryMs, report, ...limits }: SpanSenderOptions) {
    const { queueSpansMax = QUEUE_SPANS_MAX, timeoutMs = TIMEOUT_MS } = limits;
    if (report !== undefined) diagnostics.listen(report);
    const inner = hidingVariables(
      VARIABLES,
      () =>
        new OTLPTraceExporter({
          ...{ url, headers: { ...headers }, timeoutMillis: timeoutMs, concurrencyLimit: REQUESTS_MAX },
          httpAgentOptions: (protocol) => boundedAgent(protocol, timeoutMs),
        }),
    );
    this.#exporter = new CountedExporter(inner, {
      ...{ spansMax: queueSpansMax, timeoutMs, report: report ?? (() => {}) },
      takeRejected: () => diagnostics.takeRejected(),
    });
    this.#processor = new BatchSpanProcessor(this.#exporter, {
      maxQueueSize: queueSpansMax,
      maxExportBatchSize: Math.min(BATCH_SPANS_MAX, queueSpansMax),
      scheduledDelayMillis: sendEveryMs,
      // Never comes: the exporter above has ended by then.
      exportTimeoutMillis: timeoutMs * 2,
    });
    this.#resource = resourceFromAttributes(resource, { schemaUrl: SCHEMA_URL });
  }

  /** Spans that nobody will see, since the start. */
  get dropped(): number {
    return this.#exporter.dropped;
  }

  /** The spans of one call: all of them, or none. */
  add(spans: readonly Span[]): void {
    if (!this.#exporter.admit(spans.length)) return;
    for (const span of spans) this.#processor.onEnd(new FinishedSpan(span, this.#resource));
  }

  /** Sends what is left, for at most this long. */
  async close(timeoutMs: number): Promise<void> {
    // What is left is handed over before this returns; its promise would not wait for what is under way.
    this.#processor.forceFlush().catch(() => {});
    await endedWithin(this.#exporter.settle(), timeoutMs);
    this.#exporter.abandon();
    this.#processor.shutdown().catch(() => {});
  }
}
