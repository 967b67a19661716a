import { Agent, type ClientRequest } from "node:http";
import { Agent as TlsAgent } from "node:https";
import { DiagLogLevel, diag } from "@opentelemetry/api";
import { type ExportResult, ExportResultCode } from "@opentelemetry/core";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { type Resource, resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, type ReadableSpan, type SpanExporter } from "@opentelemetry/sdk-trace-base";
import { boundInterimAnswers } from "../../core/interim-answers.ts";
import { endedWithin } from "../../core/time-limits.ts";
import { FinishedSpan, SCHEMA_URL } from "./finished-span.ts";
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

/**
 * Runs `make` as if the environment had no variable that begins so: what the environment says is read in one place, and
 * OpenTelemetry's exporter would add headers of the environment to ours, and open files that it names. `make` is synchronous,
 * so that nobody else sees them missing.
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

declare module "node:http" {
  interface Agent {
    /** Where every request that uses the agent passes. */
    addRequest(request: ClientRequest, options: object): void;
  }
}

/**
 * An agent whose requests end in time, whatever the far side does: the exporter's own deadline begins anew with every byte, and
 * a request that never ends keeps its place among those that may be under way.
 */
function boundedAgent(protocol: string, timeoutMs: number): Agent {
  // Said outright: a variable of the environment could switch it off.
  const options = { keepAlive: true, rejectUnauthorized: true };
  const agent = protocol === "https:" ? new TlsAgent(options) : new Agent(options);
  const add = agent.addRequest.bind(agent);
  agent.addRequest = (request, target) => {
    bound(request, timeoutMs);
    add(request, target);
  };
  return agent;
}

function bound(request: ClientRequest, timeoutMs: number): void {
  boundInterimAnswers(request);
  // Nobody asked for another protocol, and the runtime tells of no error.
  request.on("upgrade", (_response, socket) => {
    socket.destroy();
    request.emit("error", new Error("another protocol"));
  });
  const deadline = setTimeout(() => request.destroy(new Error(`no whole answer within ${timeoutMs} ms`)), timeoutMs);
  deadline.unref();
  request.once("close", () => clearTimeout(deadline));
}

interface CountedExporterOptions {
  readonly spansMax: number;
  /** For one batch, with every attempt. */
  readonly timeoutMs: number;
  /** What went wrong, for the operators' log; once for each time that it begins, and once a minute at most. */
  readonly report: (message: string) => void;
  /** Of the batch whose success has just been told: how many spans the collector rejected. */
  readonly takeRejected: () => number;
}

type Inner = Pick<SpanExporter, "export" | "shutdown">;

const REASON_CHARACTERS_MAX = 200;
/** Between two texts for the log: a collector may fail and recover with every batch. */
const REPORT_EVERY_MS = 60_000;

/** An exporter that knows how many spans wait for it, bounds them, and counts those that nobody will see. */
class CountedExporter implements SpanExporter {
  readonly #inner: Inner;
  readonly #options: CountedExporterOptions;
  readonly #underWay = new Set<Promise<void>>();
  /** Spans that were admitted and of which nobody knows yet what became of them. */
  #waiting = 0;
  #dropped = 0;
  /** Whether the operators know that it fails now. */
  #isTold = false;
  #isQuiet = false;
  #isEnding = false;
  #isAbandoned = false;

  constructor(inner: Inner, options: CountedExporterOptions) {
    this.#inner = inner;
    this.#options = options;
  }

  get dropped(): number {
    return this.#dropped;
  }

  /** Whether there is room for all of these; without room they are counted and gone. */
  admit(count: number): boolean {
    if (this.#isEnding || this.#waiting + count > this.#options.spansMax) {
      this.#dropped += count;
      return false;
    }
    this.#waiting += count;
    return true;
  }

  /** Always tells the processor of a success: what fails is counted and told here, and the processor could only log it again. */
  export(spans: ReadableSpan[], done: (result: ExportResult) => void): void {
    const delivery = this.#deliver(spans).then((lost) => {
      this.#underWay.delete(delivery);
      if (!this.#isAbandoned) {
        this.#waiting -= spans.length;
        this.#dropped += lost;
      }
      done({ code: ExportResultCode.SUCCESS });
    });
    this.#underWay.add(delivery);
  }

  /** From now on nothing is admitted. Ends when everything that was handed over by now has gone or is lost. */
  async settle(): Promise<void> {
    this.#isEnding = true;
    await Promise.all(this.#underWay);
  }

  /** What still waits is lost, whatever becomes of it. */
  abandon(): void {
    this.#isAbandoned = true;
    this.#dropped += this.#waiting;
    this.#waiting = 0;
  }

  shutdown(): Promise<void> {
    return this.#inner.shutdown();
  }

  /** How many were lost. Never rejects. */
  async #deliver(spans: ReadableSpan[]): Promise<number> {
    // The call that filled the batch does not wait until it is written.
    await new Promise((resolve) => setImmediate(resolve));
    const { promise, resolve } = Promise.withResolvers<number>();
    const fail = (reason: string): void => {
      this.#fail(reason);
      resolve(spans.length);
    };
    // The exporter's own deadlines begin anew with every byte of an answer.
    const { timeoutMs } = this.#options;
    const timer = setTimeout(() => fail(`no answer within ${timeoutMs} ms`), timeoutMs);
    timer.unref();
    try {
      this.#inner.export(spans, (result) => {
        if (result.code !== ExportResultCode.SUCCESS) return fail(reasonOf(result.error));
        this.#isTold = false;
        resolve(Math.min(this.#options.takeRejected(), spans.length));
      });
    } catch (error) {
      fail(reasonOf(error));
    }
    return promise.finally(() => clearTimeout(timer));
  }

  #fail(reason: string): void {
    if (this.#isTold || this.#isQuiet) return;
    this.#isTold = true;
    this.#isQuiet = true;
    const silence = setTimeout(() => {
      this.#isQuiet = false;
    }, REPORT_EVERY_MS);
    silence.unref();
    this.#options.report(`traces are not taken: ${reason}`);
  }
}

/** The words beside a status are the far side's. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return "unknown";
  if ("code" in error && typeof error.code === "number") return `status ${error.code}`;
  return error.message.slice(0, REASON_CHARACTERS_MAX);
}

const PARTIAL_SUCCESS = "Received Partial Success response:";
const TEXT_CHARACTERS_MAX = 200;
const TEXTS_MAX = 32;

/**
 * What OpenTelemetry's packages say about themselves. They have one place a process to say it, and say only there that a
 * collector took a request but not all of its spans.
 */
class Diagnostics {
  #rejected = 0;
  readonly #told = new Set<string>();
  #report: (message: string) => void = () => {};

  /** `report` gets each warning once, without what stands behind a colon: those are texts of others. */
  listen(report: (message: string) => void): void {
    this.#report = report;
    const [silent, warn] = [() => {}, (...said: unknown[]) => this.#hear(said)];
    diag.setLogger(
      { error: warn, warn, info: silent, debug: silent, verbose: silent },
      { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
    );
  }

  /** Of the request whose success is told next: how many of its spans were rejected. */
  takeRejected(): number {
    const rejected = this.#rejected;
    this.#rejected = 0;
    return rejected;
  }

  #hear(said: readonly unknown[]): void {
    const [first, second] = said;
    if (first === PARTIAL_SUCCESS) {
      this.#rejected = rejectedSpans(second);
      return;
    }
    const words = said.slice(0, 2).filter((text) => typeof text === "string");
    const text = words.map((each) => each.split(":", 1)[0]?.slice(0, TEXT_CHARACTERS_MAX)).join(": ");
    if (text === "" || this.#told.has(text) || this.#told.size === TEXTS_MAX) return;
    this.#told.add(text);
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
