import { parseTraceparent, writeTraceparent } from "../../core/trace-context.ts";
import type { CallTrace, Tracer } from "../../core/tracing.ts";
import { RecordedCall, type TracerOptions } from "./recorded-call.ts";
import { isInShare } from "./sampling.ts";

/**
 * Follows calls. A request that belongs to a trace goes on in it, and is recorded where that one is; else its own id, whose
 * digits are a trace id as they are, begins one.
 */
export function createTracer(options: TracerOptions): Tracer {
  const { sampleRatio, newSpanId } = options;
  return {
    begin(start) {
      const parent = parseTraceparent(start.request.traceparent);
      const traceId = parent?.traceId ?? start.callId.replaceAll("-", "");
      const isRecorded = parent === undefined ? isInShare(traceId, sampleRatio) : parent.sampled;
      return isRecorded ? new RecordedCall(options, { start, parent, traceId }) : new PassedCall(traceId, newSpanId);
    },
  };
}

/** A call that nobody records: its targets learn of the trace, and that they need not record it either. */
class PassedCall implements CallTrace {
  readonly traceId: string;
  readonly spanId = undefined;
  readonly requests = undefined;
  readonly #newSpanId: () => string;

  constructor(traceId: string, newSpanId: () => string) {
    this.traceId = traceId;
    this.#newSpanId = newSpanId;
  }

  get traceparent(): string {
    return writeTraceparent({ traceId: this.traceId, spanId: this.#newSpanId(), sampled: false });
  }

  enter(): void {}
  end(): void {}
}
