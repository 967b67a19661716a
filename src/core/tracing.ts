import type { RequestTracer, ToolClassification } from "./types.ts";

/** W3C Trace Context: the headers that join the spans of many services. Agents write them, so they are not trusted. */
export interface TraceContext {
  /** 32 hex digits, not all zero. */
  readonly traceId: string;
  /** 16 hex digits, not all zero. */
  readonly spanId: string;
  /** True when the sender records its trace. */
  readonly sampled: boolean;
}

/** Version 00 has exactly these four parts; later versions may add parts after a dash. */
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]*)?$/;
const TRACEPARENT_CHARACTERS_MAX = 256;
const NO_TRACE = "0".repeat(32);
const NO_SPAN = "0".repeat(16);
const SAMPLED = 1;

/** Parses a `traceparent` header. Returns undefined for a malformed one: the specification requires ignoring it. */
export function parseTraceparent(header: string | undefined): TraceContext | undefined {
  if (header === undefined || header.length > TRACEPARENT_CHARACTERS_MAX) return undefined;
  const [, version = "ff", traceId = NO_TRACE, spanId = NO_SPAN, flags = "", more] = TRACEPARENT.exec(header) ?? [];
  if (version === "ff" || (version === "00" && more !== undefined)) return undefined;
  if (traceId === NO_TRACE || spanId === NO_SPAN) return undefined;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & SAMPLED) !== 0 };
}

export function writeTraceparent({ traceId, spanId, sampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${sampled ? "01" : "00"}`;
}

const TRACESTATE_CHARACTERS_MAX = 512;
const TRACESTATE_MEMBERS_MAX = 32;
const TRACESTATE_KEY = /^(?:[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})$/;
/** Printable ASCII without comma and equals sign, not ending in a space. */
const TRACESTATE_VALUE = /^[ !-+\--<>-~]{0,255}[!-+\--<>-~]$/;

/** Returns the `tracestate` members to forward; undefined for a header that is malformed or too long. */
export function parseTracestate(header: string | undefined): string | undefined {
  if (header === undefined || header.length > TRACESTATE_CHARACTERS_MAX) return undefined;
  const keys = new Set<string>();
  const members: string[] = [];
  for (const part of header.split(",")) {
    const member = part.trim();
    if (member === "") continue;
    const equals = member.indexOf("=");
    const key = member.slice(0, Math.max(0, equals));
    if (!TRACESTATE_KEY.test(key) || !TRACESTATE_VALUE.test(member.slice(equals + 1)) || keys.has(key))
      return undefined;
    keys.add(key);
    members.push(member);
  }
  return members.length === 0 || members.length > TRACESTATE_MEMBERS_MAX ? undefined : members.join(",");
}

/** The fields of a call's audit entry that a trace may contain: never its arguments or its result. */
export interface TracedCall {
  readonly caller: { readonly sub: string };
  readonly tool: {
    readonly name: string;
    readonly classification: ToolClassification | "unknown";
    readonly targetSystem: string;
  };
  readonly request: { readonly callId?: string | undefined };
  readonly decision: string;
  readonly denial?: { readonly stage: string } | undefined;
  readonly error?: { readonly code: string } | undefined;
  readonly approval?: { readonly id?: string | undefined } | undefined;
}

export interface HttpRequestFacts {
  readonly route: string;
  readonly scheme: string;
}

export interface TraceEnd {
  readonly call: TracedCall;
  /** Status of the response. */
  readonly http: number;
  /** Milliseconds, on the clock that times the stages. */
  readonly at: number;
}

/** Follows one call through the pipeline. It makes no decisions and cannot end the call. */
export interface CallTrace {
  /** W3C trace ID of the trace that the call belongs to. */
  readonly traceId: string;
  /** ID of the call's span; undefined when the call is not recorded. */
  readonly spanId: string | undefined;
  /** Traces the requests to targets; undefined when the call is not recorded. */
  readonly requests: RequestTracer | undefined;
  readonly traceparent: string;
  /** Records that the call enters a pipeline stage at the time `at`. */
  enter(step: string, at: number): void;
  end(ending: TraceEnd): void;
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
