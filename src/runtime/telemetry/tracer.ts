import {
  type CallStart,
  type CallTrace,
  type HttpRequestFacts,
  parseTraceparent,
  type TraceContext,
  type TracedCall,
  type TraceEnd,
  type Tracer,
  writeTraceparent,
} from "../../core/tracing.ts";
import type { RequestSpan, RequestTracer, TargetRequest } from "../../core/types.ts";

type AttributeValue = string | number;

export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  /** True when the parent is a span of another process. */
  readonly isRemoteParent?: boolean;
  readonly name: string;
  readonly kind: "internal" | "server" | "client";
  /** Unix milliseconds. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, AttributeValue | undefined>>;
  /** A refusal code or gRPC status; undefined without an error. */
  readonly error?: string | undefined;
}

/** Digits of the trace id that decide: 52 of its 56 random bits, as many as a number holds exactly. */
const RANDOM_FROM = 18;
const RANDOM_TO = 31;
const RANDOM_RANGE = 2 ** 52;

/**
 * Returns whether a trace belongs to the sampled share. The trace id alone decides, so that every service with the same share
 * keeps the same traces.
 */
export function isInShare(traceId: string, share: number): boolean {
  return Number.parseInt(traceId.slice(RANDOM_FROM, RANDOM_TO), 16) >= (1 - share) * RANDOM_RANGE;
}

interface TracerOptions {
  /** The share of traces started here that is recorded, from 0 to 1. */
  readonly sampleRatio: number;
  /** The tenant whose calls are traced; undefined for those of the service itself. */
  readonly tenant?: string | undefined;
  /** Returns Unix milliseconds. */
  readonly clock: () => number;
  /** Returns monotonic milliseconds, which time the stages. */
  readonly monotonic: () => number;
  /** Returns 16 random hex digits, not all zero. */
  readonly newSpanId: () => string;
  /** Returns whether a text from the agent may be sent: it contains no secret and no personal data. */
  readonly isHarmless: (text: string) => boolean;
  /** Takes the spans of one call. Must not throw or block. */
  readonly add: (spans: readonly Span[]) => void;
}

interface RecordedStart {
  readonly start: CallStart;
  readonly parent: TraceContext | undefined;
  readonly traceId: string;
}

/**
 * Maximum number of stages. A call has about ten; a call that waited for an approver, or whose arguments were changed, repeats
 * some of them.
 */
const STEPS_MAX = 64;
const REQUESTS_MAX = 8;

/** The stages with their own span; the others are too short to be visible. */
const STEP_SPANS: Readonly<Record<string, string>> = {
  PLAN: "plan",
  APPROVAL: "approval",
  EXECUTION: "execute",
  AUDIT: "record",
};

interface StepTime {
  readonly step: string;
  readonly at: number;
  /** Set when a request is sent during the stage. */
  spanId: string | undefined;
}

/** Records when the call entered each stage, and creates the spans when the call has ended. */
class RecordedCall implements CallTrace, RequestTracer {
  readonly traceId: string;
  readonly spanId: string;
  readonly #options: TracerOptions;
  readonly #start: CallStart;
  readonly #parent: TraceContext | undefined;
  /** Offset from the monotonic clock to Unix milliseconds. */
  readonly #epochMs: number;
  readonly #steps: StepTime[] = [];
  readonly #requests: SentRequest[] = [];

  constructor(options: TracerOptions, { start, parent, traceId }: RecordedStart) {
    this.#options = options;
    this.#start = start;
    this.#parent = parent;
    this.traceId = traceId;
    this.spanId = options.newSpanId();
    this.#epochMs = options.clock() - start.at;
  }

  get requests(): RequestTracer {
    return this;
  }

  get traceparent(): string {
    return writeTraceparent({ traceId: this.traceId, spanId: this.spanId, sampled: true });
  }

  enter(step: string, at: number): void {
    if (this.#steps.length < STEPS_MAX) this.#steps.push({ step, at, spanId: undefined });
  }

  begin(request: TargetRequest): RequestSpan {
    const { newSpanId, monotonic } = this.#options;
    const now = (): number => this.#epochMs + monotonic();
    const step = this.#steps.at(-1);
    if (step !== undefined) step.spanId ??= newSpanId();
    const parentSpanId = step?.spanId ?? this.spanId;
    const sent = new SentRequest(request, { traceId: this.traceId, spanId: newSpanId(), parentSpanId, now });
    if (this.#requests.length < REQUESTS_MAX) this.#requests.push(sent);
    return sent;
  }

  end(ended: TraceEnd): void {
    if (this.#isUnsampled(ended)) return;
    const { at } = ended;
    const { http } = this.#start.request;
    const spans: Span[] = [];
    // A request that an endpoint rejected never became a tool call.
    const isTool = http === undefined || this.#steps.some(({ step }) => step !== "AUDIT");
    const serverSpanId = isTool ? this.#options.newSpanId() : this.spanId;
    if (http !== undefined) spans.push(this.#serverSpan(ended, http, serverSpanId));
    if (isTool) spans.push(this.#toolSpan(ended, http && serverSpanId));
    this.#steps.forEach((step, index) => {
      const name = STEP_SPANS[step.step];
      if (name === undefined) return;
      const until = this.#steps[index + 1]?.at ?? at;
      spans.push(this.#stepSpan(step, { name, until, error: this.#stepError(ended, index) }));
    });
    for (const request of this.#requests) spans.push(request.span(this.#epochMs + at));
    this.#options.add(ofTenant(spans, this.#options.tenant));
  }

  /**
   * Returns whether to drop the trace of an unauthenticated client: it cannot force recording, because the sampling flag in its
   * header does not count.
   */
  #isUnsampled({ call }: TraceEnd): boolean {
    if (this.#parent === undefined || call.caller.sub !== "anonymous") return false;
    return !isInShare(this.traceId, this.#options.sampleRatio);
  }

  #serverSpan(ended: TraceEnd, http: HttpRequestFacts, spanId: string): Span {
    return {
      ...this.#parentFields(),
      spanId,
      name: `POST ${http.route}`,
      kind: "server",
      ...this.#callTimes(ended.at),
      attributes: serverAttributes(ended, http),
      error: ended.http >= 500 ? ended.call.error?.code : undefined,
    };
  }

  #toolSpan(ended: TraceEnd, serverSpanId: string | undefined): Span {
    const { call, at } = ended;
    const attributes = toolAttributes(call, this.#start.callId, this.#options.isHarmless);
    return {
      ...(serverSpanId === undefined ? this.#parentFields() : { traceId: this.traceId, parentSpanId: serverSpanId }),
      spanId: this.spanId,
      name: `execute_tool ${attributes["gen_ai.tool.name"]}`,
      kind: "internal",
      ...this.#callTimes(at),
      attributes,
      error: isAnswer(call) ? undefined : call.error?.code,
    };
  }

  #stepSpan(step: StepTime, { name, until, error }: { name: string; until: number; error: string | undefined }): Span {
    return {
      traceId: this.traceId,
      spanId: step.spanId ?? this.#options.newSpanId(),
      parentSpanId: this.spanId,
      name,
      kind: "internal",
      startMs: this.#epochMs + step.at,
      endMs: this.#epochMs + until,
      attributes: { "error.type": error },
      error,
    };
  }

  /**
   * Returns the error of a stage. A refusal belongs to the stage that raised it: the last one, or AUDIT when the entry could not
   * be written.
   */
  #stepError({ call }: TraceEnd, index: number): string | undefined {
    if (call.error === undefined || isAnswer(call)) return undefined;
    const isRecording = this.#steps[index]?.step === "AUDIT";
    if (call.denial?.stage === "AUDIT") return isRecording ? call.error.code : undefined;
    const isLast = !isRecording && (this.#steps[index + 1]?.step ?? "AUDIT") === "AUDIT";
    return isLast ? call.error.code : undefined;
  }

  #parentFields(): Pick<Span, "traceId" | "parentSpanId" | "isRemoteParent"> {
    const parent = this.#parent;
    return { traceId: this.traceId, parentSpanId: parent?.spanId, isRemoteParent: parent !== undefined };
  }

  #callTimes(at: number): Pick<Span, "startMs" | "endMs"> {
    return { startMs: this.#epochMs + this.#start.at, endMs: this.#epochMs + at };
  }
}

interface RequestContext {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  /** Returns Unix milliseconds. */
  readonly now: () => number;
}

class SentRequest implements RequestSpan {
  readonly #request: TargetRequest;
  readonly #context: RequestContext;
  readonly #startMs: number;
  #ended: { readonly ms: number; readonly status: string } | undefined;

  constructor(request: TargetRequest, context: RequestContext) {
    this.#request = request;
    this.#context = context;
    this.#startMs = context.now();
  }

  get traceparent(): string {
    return writeTraceparent({ ...this.#context, sampled: true });
  }

  end(status: string): void {
    this.#ended ??= { ms: this.#context.now(), status };
  }

  /** Returns the span of the request. A request still running when its call has ended counts as cancelled. */
  span(callEndMs: number): Span {
    const { traceId, spanId, parentSpanId } = this.#context;
    const { method, path } = this.#request;
    const { ms, status } = this.#ended ?? { ms: callEndMs, status: "CANCELLED" };
    return {
      traceId,
      spanId,
      parentSpanId,
      name: method === undefined ? path.slice(1) : `${method} ${path}`,
      kind: "client",
      startMs: this.#startMs,
      endMs: Math.max(ms, this.#startMs),
      attributes: clientAttributes(this.#request, status),
      error: hasFailed(status) ? status : undefined,
    };
  }
}

function ofTenant(spans: readonly Span[], tenant: string | undefined): readonly Span[] {
  if (tenant === undefined) return spans;
  return spans.map((span) => ({ ...span, attributes: { ...span.attributes, "stc.tenant": tenant } }));
}

function hasFailed(status: string): boolean {
  return /^\d{3}$/.test(status) ? Number(status) >= 400 : status !== "OK";
}

type Attributes = Readonly<Record<string, AttributeValue | undefined>>;

/** The form of ids that model providers generate. Any other text from the agent in that field is not sent. */
const TOOL_CALL_ID = /^[A-Za-z][A-Za-z0-9_-]{0,127}$/;

/** Returns whether the refusal in the entry is an answer that was asked for, and not an error of the call. */
function isAnswer({ decision }: Pick<TracedCall, "decision">): boolean {
  return decision === "PENDING" || decision === "DRY_RUN";
}

function callAttributes(call: TracedCall): Attributes {
  const { decision, error, denial, approval } = call;
  return {
    "stc.decision": decision,
    "stc.code": error?.code,
    "stc.stage": denial?.stage,
    "stc.approval.id": approval?.id,
    "error.type": isAnswer(call) ? undefined : error?.code,
  };
}

/** Returns the attributes of the span `execute_tool`. The name of an unknown tool is the agent's text and is not sent. */
function toolAttributes(
  call: TracedCall,
  traceId: string,
  isHarmless: (text: string) => boolean,
): Attributes & { readonly "gen_ai.tool.name": string } {
  const { tool, request } = call;
  const { callId } = request;
  const isKnown = tool.classification !== "unknown";
  const isShown = callId !== undefined && TOOL_CALL_ID.test(callId) && isHarmless(callId);
  return {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": isKnown ? tool.name : "unknown",
    "gen_ai.tool.type": "function",
    "gen_ai.tool.call.id": isShown ? callId : undefined,
    "stc.trace_id": traceId,
    "stc.classification": tool.classification,
    "stc.system": isKnown ? tool.targetSystem : undefined,
    ...callAttributes(call),
  };
}

function serverAttributes({ call, http }: TraceEnd, { route, scheme }: HttpRequestFacts): Attributes {
  return {
    "http.request.method": "POST",
    "http.route": route,
    "http.response.status_code": http,
    "url.path": route,
    "url.scheme": scheme,
    ...callAttributes(call),
    "error.type": http >= 500 ? call.error?.code : undefined,
  };
}

/** Returns the current attribute names and those from before 1.38, which some backends still query. */
function clientAttributes({ method, path, server }: TargetRequest, status: string): Attributes {
  if (method !== undefined) {
    return {
      "http.request.method": method,
      "http.response.status_code": /^\d{3}$/.test(status) ? Number(status) : undefined,
      "url.template": path,
      ...addressOf(server),
      "error.type": hasFailed(status) ? status : undefined,
    };
  }
  const [, service = ""] = path.split("/");
  return {
    "rpc.system.name": "grpc",
    "rpc.method": path.slice(1),
    "rpc.response.status_code": status,
    "rpc.system": "grpc",
    "rpc.service": service,
    ...addressOf(server),
    "error.type": status === "OK" ? undefined : status,
  };
}

/** Returns the server's address. A list of several servers is sent unchanged: only the connection knows which one was used. */
function addressOf(server: string): Attributes {
  const [, address, port] = /^([^,]{1,253}):(\d{1,5})$/.exec(server) ?? [];
  if (address === undefined || port === undefined) return { "server.address": server };
  return { "server.address": address, "server.port": Number(port) };
}

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
      return isRecorded ? new RecordedCall(options, { start, parent, traceId }) : unrecordedCall(traceId, newSpanId);
    },
  };
}

/** Returns a call that is not recorded: its targets receive the trace id and the flag that they need not record it either. */
function unrecordedCall(traceId: string, newSpanId: () => string): CallTrace {
  return {
    traceId,
    spanId: undefined,
    requests: undefined,
    get traceparent() {
      return writeTraceparent({ traceId, spanId: newSpanId(), sampled: false });
    },
    enter() {},
    end() {},
  };
}
