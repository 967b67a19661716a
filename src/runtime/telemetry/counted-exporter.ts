import { type ExportResult, ExportResultCode } from "@opentelemetry/core";
import type { ReadableSpan, SpanExporter } from "@opentelemetry/sdk-trace-base";

export interface CountedExporterOptions {
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
export class CountedExporter implements SpanExporter {
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
