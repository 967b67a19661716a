import { type CallTrace, parseTraceparent, type Tracer, writeTraceparent } from "../../core/tracing.ts";
import { RecordedCall, type TracerOptions } from "./recorded-call.ts";
import { isInShare } from "./sampling.ts";

/**
 * Creates a tracer. A request that belongs to a trace continues it, and is recorded if that trace is. Any other request starts a
 * trace whose id is the call's own id.
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

/** A call that is not recorded: its targets receive the trace id and the flag that they need not record it either. */
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
