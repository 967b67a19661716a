import type { Classification, RequestTracer } from "./types.ts";

/** The facts of a finished call that a trace may contain: fields of its audit entry, never its arguments or its result. */
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

/** The traced facts of an HTTP request. */
export interface HttpRequestFacts {
  readonly route: string;
  readonly scheme: string;
}

/** The end of a traced call. */
export interface TraceEnding {
  readonly call: TracedCall;
  /** HTTP status of the response. */
  readonly http: number;
  /** Milliseconds, on the clock that times the stages. */
  readonly at: number;
}

/** Follows one call through the pipeline. It makes no decisions, and nothing that it does can end the call. */
export interface CallTrace {
  /** W3C trace ID of the trace that the call belongs to. */
  readonly traceId: string;
  /** ID of the call's span; undefined when the call is not recorded. */
  readonly spanId: string | undefined;
  /** Undefined when the call is not recorded: its requests to targets then carry `traceparent`. */
  readonly requests: RequestTracer | undefined;
  readonly traceparent: string;
  /** Records that the call enters a pipeline stage at the time `at`. */
  enter(step: string, at: number): void;
  end(ending: TraceEnding): void;
}

export interface CallStart {
  /** The call's own ID, a UUID. */
  readonly callId: string;
  /** `traceparent` as received; `http` is undefined for a library call. */
  readonly request: { readonly traceparent?: string | undefined; readonly http?: HttpRequestFacts | undefined };
  /** Milliseconds, on the clock that times the stages. */
  readonly at: number;
}

export interface Tracer {
  begin(start: CallStart): CallTrace;
}
