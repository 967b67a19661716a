import type { Classification, RequestTracer } from "./types.ts";

/** What a trace may know of a call that has ended: facts of its line in the audit, never its arguments or its answer. */
export interface TracedCall {
  readonly caller: { readonly sub: string };
  readonly tool: {
    readonly name: string;
    readonly classification: Classification | "unknown";
    readonly targetSystem: string;
  };
  readonly request: { readonly callId?: string | undefined };
  readonly decision: string;
  readonly denial?: { readonly stage: string } | undefined;
  readonly error?: { readonly code: string } | undefined;
  readonly approval?: { readonly id?: string | undefined } | undefined;
}

/** A door over HTTP. */
export interface HttpRequestFacts {
  readonly route: string;
  readonly scheme: string;
}

/** How it ended at the door. */
export interface TraceEnding {
  readonly call: TracedCall;
  /** The HTTP status of the answer. */
  readonly http: number;
  /** Milliseconds on the clock that the steps are timed with. */
  readonly at: number;
}

/** Follows one call along the road. It decides nothing, and nothing that it does can end the call. */
export interface CallTrace {
  /** W3C: of the trace that the call belongs to. */
  readonly traceId: string;
  /** Of the span that stands for the call; undefined when it is not recorded. */
  readonly spanId: string | undefined;
  /** Undefined when the call is not recorded: its requests then carry `traceparent`. */
  readonly requests: RequestTracer | undefined;
  readonly traceparent: string;
  /** The call takes a step of the road, `at` that time. */
  enter(step: string, at: number): void;
  end(ending: TraceEnding): void;
}

export interface CallStart {
  /** The call's own id, a UUID. */
  readonly callId: string;
  /** `traceparent` as it came; `http` is undefined for a call of the library. */
  readonly request: { readonly traceparent?: string | undefined; readonly http?: HttpRequestFacts | undefined };
  /** Milliseconds on the clock that the steps are timed with. */
  readonly at: number;
}

export interface Tracer {
  begin(start: CallStart): CallTrace;
}
