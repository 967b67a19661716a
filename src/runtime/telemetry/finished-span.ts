import {
  type Attributes,
  type HrTime,
  type SpanContext,
  SpanKind,
  type SpanStatus,
  SpanStatusCode,
  TraceFlags,
} from "@opentelemetry/api";
import type { Resource } from "@opentelemetry/resources";
import type { ReadableSpan } from "@opentelemetry/sdk-trace-base";
import type { Span } from "./tracer.ts";

/** The attribute names are those of semantic conventions 1.41.0; for RPC the older names are sent too, as its `rpc/dup` asks. */
export const SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0";
const SCOPE = { name: "safe-tool-call", schemaUrl: SCHEMA_URL };
const KINDS = { internal: SpanKind.INTERNAL, server: SpanKind.SERVER, client: SpanKind.CLIENT } as const;
const MICROS_PER_SECOND = 1_000_000;
const NANOS_PER_MICRO = 1_000;
const NONE: never[] = [];

/** A finished span in OpenTelemetry's format. Its values are computed when it is sent, after the call has ended. */
export class FinishedSpan implements ReadableSpan {
  readonly resource: Resource;
  readonly parentSpanContext?: SpanContext;
  readonly #span: Span;

  constructor(span: Span, resource: Resource) {
    const { traceId, parentSpanId, isRemoteParent = false } = span;
    this.#span = span;
    this.resource = resource;
    if (parentSpanId === undefined) return;
    this.parentSpanContext = { ...contextOf(traceId, parentSpanId), isRemote: isRemoteParent };
  }

  get name(): string {
    return this.#span.name;
  }

  get kind(): SpanKind {
    return KINDS[this.#span.kind];
  }

  get startTime(): HrTime {
    return timeOf(this.#span.startMs);
  }

  get endTime(): HrTime {
    return timeOf(this.#span.endMs);
  }

  get duration(): HrTime {
    return timeOf(this.#span.endMs - this.#span.startMs);
  }

  get status(): SpanStatus {
    const { error } = this.#span;
    if (error === undefined) return { code: SpanStatusCode.UNSET };
    return { code: SpanStatusCode.ERROR, message: error };
  }

  get attributes(): Attributes {
    return Object.fromEntries(Object.entries(this.#span.attributes).filter(([, value]) => value !== undefined));
  }

  get instrumentationScope(): typeof SCOPE {
    return SCOPE;
  }

  get ended(): true {
    return true;
  }

  get links(): never[] {
    return NONE;
  }

  get events(): never[] {
    return NONE;
  }

  get droppedAttributesCount(): 0 {
    return 0;
  }

  get droppedEventsCount(): 0 {
    return 0;
  }

  get droppedLinksCount(): 0 {
    return 0;
  }

  spanContext(): SpanContext {
    return contextOf(this.#span.traceId, this.#span.spanId);
  }
}

function contextOf(traceId: string, spanId: string): SpanContext {
  return { traceId, spanId, traceFlags: TraceFlags.SAMPLED };
}

/** Returns seconds and nanoseconds, rounded to the microsecond: a single number of nanoseconds would not be exact. */
function timeOf(ms: number): HrTime {
  const micros = Math.max(0, Math.round(ms * 1_000));
  return [Math.floor(micros / MICROS_PER_SECOND), (micros % MICROS_PER_SECOND) * NANOS_PER_MICRO];
}
