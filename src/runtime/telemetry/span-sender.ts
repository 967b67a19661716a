import {
  DiagLogLevel,
  diag,
  type HrTime,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
} from "@opentelemetry/api";
import { type ExportResult, ExportResultCode } from "@opentelemetry/core";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { type Resource, resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, type ReadableSpan, type SpanExporter } from "@opentelemetry/sdk-trace-base";
import { OutageReporter } from "../../core/retry.ts";
import { endedWithin } from "../../core/time-limits.ts";
import { libraryAgent } from "../../egress/library-agent.ts";
import type { Span } from "./tracer.ts";

export interface SpanSenderOptions {
  /** URL of a collector that accepts OTLP over HTTP, with its path. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Attributes of the service; no others are detected. */
  readonly resource: Readonly<Record<string, string>>;
  readonly sendEveryMs: number;
  /** Returns milliseconds; used to limit reports. */
  readonly clock: () => number;
  /**
   * Writes to the operators' log. If undefined, the messages of OpenTelemetry's packages are ignored, because their logger
   * belongs to the embedding process.
   */
  readonly report?: ((message: string) => void) | undefined;
  readonly queueSpansMax?: number;
  /** Time limit for one batch with all attempts. */
  readonly timeoutMs?: number;
}

const QUEUE_SPANS_MAX = 8_192;
const BATCH_SPANS_MAX = 512;
/** At shutdown, the whole queue is sent at once. */
const REQUESTS_MAX = 32;
/** The exporter's five retries take about 13 s. */
const TIMEOUT_MS = 15_000;
const HIDDEN_VARIABLES = "OTEL_";

/**
 * Sends spans through OpenTelemetry's processor and exporter, without registering them globally. A call adds its spans to a
 * bounded queue and never waits: spans that do not fit are counted and dropped. Loaded only when traces are configured.
 */
export class SpanSender {
  readonly #exporter: CountedExporter;
  readonly #processor: BatchSpanProcessor;
  readonly #resource: Resource;

  constructor({ url, headers, resource, sendEveryMs, clock, report, ...limits }: SpanSenderOptions) {
    const { queueSpansMax = QUEUE_SPANS_MAX, timeoutMs = TIMEOUT_MS } = limits;
    if (report !== undefined) diagnostics.listen(report);
    const inner = hidingVariables(
      HIDDEN_VARIABLES,
      () =>
        new OTLPTraceExporter({
          url,
          headers: { ...headers },
          timeoutMillis: timeoutMs,
          concurrencyLimit: REQUESTS_MAX,
          httpAgentOptions: (protocol) => libraryAgent(protocol, timeoutMs),
        }),
    );
    this.#exporter = new CountedExporter(inner, {
      spansMax: queueSpansMax,
      timeoutMs,
      outages: new OutageReporter(clock, report ?? (() => {})),
      takeRejected: () => diagnostics.takeRejected(),
    });
    this.#processor = new BatchSpanProcessor(this.#exporter, {
      maxQueueSize: queueSpansMax,
      maxExportBatchSize: Math.min(BATCH_SPANS_MAX, queueSpansMax),
      scheduledDelayMillis: sendEveryMs,
      // Never reached: `CountedExporter` has a shorter deadline.
      exportTimeoutMillis: timeoutMs * 2,
    });
    this.#resource = resourceFromAttributes(resource, { schemaUrl: SCHEMA_URL });
  }

  get dropped(): number {
    return this.#exporter.dropped;
  }

  /** Adds the spans of one call: all of them or none. */
  add(spans: readonly Span[]): void {
    if (!this.#exporter.admit(spans.length)) return;
    for (const span of spans) this.#processor.onEnd(readableSpan(span, this.#resource));
  }

  /** Sends the remaining spans, up to this time. */
  async close(timeoutMs: number): Promise<void> {
    // Passes the remaining spans to the exporter at once. Its promise is not used, because it does not wait for running
    // exports.
    this.#processor.forceFlush().catch(() => {});
    await endedWithin(this.#exporter.finish(), timeoutMs);
    this.#exporter.abandon();
    this.#processor.shutdown().catch(() => {});
  }
}

/**
 * The attribute names are those of semantic conventions 1.41.0. For RPC, the older names are sent too, as `rpc/dup` requires.
 */
const SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0";
const KINDS = { internal: SpanKind.INTERNAL, server: SpanKind.SERVER, client: SpanKind.CLIENT } as const;
const MICROS_PER_SECOND = 1_000_000;
const NANOS_PER_MICRO = 1_000;

/** Members that have the same value in every span. */
const COMMON = {
  instrumentationScope: { name: "safe-tool-call", schemaUrl: SCHEMA_URL },
  ended: true,
  links: [],
  events: [],
  droppedAttributesCount: 0,
  droppedEventsCount: 0,
  droppedLinksCount: 0,
} satisfies Partial<ReadableSpan>;

/** Returns a span in OpenTelemetry's format. Getters compute the values when the span is sent, after the call has ended. */
function readableSpan(span: Span, resource: Resource): ReadableSpan {
  const { traceId, parentSpanId, isRemoteParent = false, startMs, endMs, error } = span;
  const context = (spanId: string): SpanContext => ({ traceId, spanId, traceFlags: TraceFlags.SAMPLED });
  return {
    ...COMMON,
    name: span.name,
    kind: KINDS[span.kind],
    resource,
    ...(parentSpanId !== undefined && {
      parentSpanContext: { ...context(parentSpanId), isRemote: isRemoteParent },
    }),
    spanContext: () => context(span.spanId),
    get startTime() {
      return timeOf(startMs);
    },
    get endTime() {
      return timeOf(endMs);
    },
    get duration() {
      return timeOf(endMs - startMs);
    },
    get attributes() {
      return Object.fromEntries(Object.entries(span.attributes).filter(([, value]) => value !== undefined));
    },
    status: error === undefined ? { code: SpanStatusCode.UNSET } : { code: SpanStatusCode.ERROR, message: error },
  };
}

/** Returns seconds and nanoseconds, rounded to the microsecond: a single number of nanoseconds would not be exact. */
function timeOf(ms: number): HrTime {
  const micros = Math.max(0, Math.round(ms * 1_000));
  return [Math.floor(micros / MICROS_PER_SECOND), (micros % MICROS_PER_SECOND) * NANOS_PER_MICRO];
}

/**
 * Runs `make` with all environment variables of this prefix hidden. The environment is read in one module only, and
 * OpenTelemetry's exporter would add the environment's headers to ours and open files that it names. `make` is synchronous, so
 * that no other code sees them missing.
 */
function hidingVariables<T>(prefix: string, make: () => T): T {
  const hidden = Object.entries(process.env).filter(([name]) => name.startsWith(prefix));
  for (const [name] of hidden) delete process.env[name];
  try {
    return make();
  } finally {
    Object.assign(process.env, Object.fromEntries(hidden));
  }
}

interface CountedExporterOptions {
  readonly spansMax: number;
  /** Time limit for one batch with all attempts. */
  readonly timeoutMs: number;
  readonly outages: OutageReporter;
  /** Returns how many spans of the last successful batch the collector rejected. */
  readonly takeRejected: () => number;
}

type Inner = Pick<SpanExporter, "export" | "shutdown">;

const REASON_CHARACTERS_MAX = 200;

/** An exporter that limits the number of waiting spans and counts lost ones. */
class CountedExporter implements SpanExporter {
  readonly #inner: Inner;
  readonly #options: CountedExporterOptions;
  readonly #deliveries = new Set<Promise<void>>();
  /** Admitted spans whose result is not known yet. */
  #waiting = 0;
  #dropped = 0;
  #isEnding = false;
  #isAbandoned = false;

  constructor(inner: Inner, options: CountedExporterOptions) {
    this.#inner = inner;
    this.#options = options;
  }

  get dropped(): number {
    return this.#dropped;
  }

  /** Returns whether there is room for all of these spans; otherwise they are counted and dropped. */
  admit(count: number): boolean {
    if (this.#isEnding || this.#waiting + count > this.#options.spansMax) {
      this.#dropped += count;
      return false;
    }
    this.#waiting += count;
    return true;
  }

  /**
   * Exports a batch. Always reports success to the processor: failures are counted and reported here, and the processor could
   * only log them again.
   */
  export(spans: ReadableSpan[], done: (result: ExportResult) => void): void {
    const delivery = this.#deliver(spans).then((lost) => {
      this.#deliveries.delete(delivery);
      if (!this.#isAbandoned) {
        this.#waiting -= spans.length;
        this.#dropped += lost;
      }
      done({ code: ExportResultCode.SUCCESS });
    });
    this.#deliveries.add(delivery);
  }

  /** Stops accepting spans. Resolves when all exports have ended. */
  async finish(): Promise<void> {
    this.#isEnding = true;
    await Promise.all(this.#deliveries);
  }

  /** Counts all waiting spans as lost, even if they are still sent. */
  abandon(): void {
    this.#isAbandoned = true;
    this.#dropped += this.#waiting;
    this.#waiting = 0;
  }

  shutdown(): Promise<void> {
    return this.#inner.shutdown();
  }

  /** Returns the number of lost spans. Never rejects. */
  async #deliver(spans: ReadableSpan[]): Promise<number> {
    // Yields first: the call that filled the batch does not wait for its serialization.
    await new Promise((resolve) => setImmediate(resolve));
    const { promise, resolve } = Promise.withResolvers<number>();
    const fail = (reason: string): void => {
      this.#options.outages.failed(`traces are not accepted: ${reason}`);
      resolve(spans.length);
    };
    // The exporter's own deadlines restart with every byte of a response.
    const { timeoutMs } = this.#options;
    const timer = setTimeout(() => fail(`no answer within ${timeoutMs} ms`), timeoutMs);
    timer.unref();
    try {
      this.#inner.export(spans, (result) => {
        if (result.code !== ExportResultCode.SUCCESS) return fail(reasonOf(result.error));
        this.#options.outages.recovered();
        resolve(Math.min(this.#options.takeRejected(), spans.length));
      });
    } catch (error) {
      fail(reasonOf(error));
    }
    return promise.finally(() => clearTimeout(timer));
  }
}

/** Returns the reason of a failure, without the text that the server sends with a status. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return "unknown";
  if ("code" in error && typeof error.code === "number") return `status ${error.code}`;
  return error.message.slice(0, REASON_CHARACTERS_MAX);
}

const PARTIAL_SUCCESS = "Received Partial Success response:";
const TEXT_CHARACTERS_MAX = 200;
const TEXTS_MAX = 32;

/**
 * Receives the diagnostic messages of OpenTelemetry's packages. There is one logger per process, and only the logger is
 * notified when a collector accepts a request but rejects some of its spans.
 */
class Diagnostics {
  #rejected = 0;
  readonly #reported = new Set<string>();
  #report: (message: string) => void = () => {};

  /** Starts listening. `report` receives each warning once, without the text after a colon, which may come from the server. */
  listen(report: (message: string) => void): void {
    this.#report = report;
    const [silent, warn] = [() => {}, (...args: unknown[]) => this.#receive(args)];
    diag.setLogger(
      { error: warn, warn, info: silent, debug: silent, verbose: silent },
      { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
    );
  }

  /** Returns how many spans the collector rejected in the request that is about to be reported as successful. */
  takeRejected(): number {
    const rejected = this.#rejected;
    this.#rejected = 0;
    return rejected;
  }

  #receive(args: readonly unknown[]): void {
    const [first, second] = args;
    if (first === PARTIAL_SUCCESS) {
      this.#rejected = rejectedSpans(second);
      return;
    }
    const words = args.slice(0, 2).filter((text) => typeof text === "string");
    const text = words.map((each) => each.split(":", 1)[0]?.slice(0, TEXT_CHARACTERS_MAX)).join(": ");
    if (text === "" || this.#reported.has(text) || this.#reported.size === TEXTS_MAX) return;
    this.#reported.add(text);
    this.#report(`OpenTelemetry: ${text}`);
  }
}

const diagnostics = new Diagnostics();

function rejectedSpans(partialSuccess: unknown): number {
  try {
    const parsed = JSON.parse(String(partialSuccess)) as { readonly rejectedSpans?: unknown } | null;
    const rejected = Number(parsed?.rejectedSpans ?? 0);
    return rejected > 0 ? Math.trunc(rejected) : 0;
  } catch {
    return 0;
  }
}
