import { type TraceContext, writeTraceparent } from "../../core/trace-context.ts";
import type { CallStart, CallTrace, HttpRequestFacts, TracedCall, TraceEnding } from "../../core/tracing.ts";
import type { RequestSpan, RequestTracer, TargetRequest } from "../../core/types.ts";
import { isInShare } from "./sampling.ts";
import type { AttributeValue, Span } from "./span.ts";

export interface TracerOptions {
  /** From 0 to 1: of the traces that begin here. */
  readonly sampleRatio: number;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** The clock that the steps are timed with, in milliseconds. */
  readonly monotonic: () => number;
  /** 16 random hex digits, not all zero. */
  readonly newSpanId: () => string;
  /** Whether a text of the agent's may be shown: no secret, no personal data. */
  readonly isHarmless: (text: string) => boolean;
  /** Takes the spans of one call. Must not throw and must not wait. */
  readonly add: (spans: readonly Span[]) => void;
}

interface RecordedStart {
  readonly start: CallStart;
  readonly parent: TraceContext | undefined;
  readonly traceId: string;
}

/** A call takes some ten; one whose arguments were changed on the way, or that waited for a person, takes some of them again. */
const STEPS_MAX = 64;
const REQUESTS_MAX = 8;

/** The steps that get a span of their own; the others are over before they could be seen. */
const STEP_SPANS: Readonly<Record<string, string>> = {
  PLAN: "plan",
  APPROVAL: "approval",
  EXECUTION: "execute",
  AUDIT: "record",
};

interface StepTime {
  readonly step: string;
  readonly at: number;
  /** Made when a request is sent in it. */
  spanId: string | undefined;
}

/** Remembers when the call took which step, and makes the spans when it has ended. */
export class RecordedCall implements CallTrace, RequestTracer {
  readonly traceId: string;
  readonly spanId: string;
  readonly #options: TracerOptions;
  readonly #start: CallStart;
  readonly #parent: TraceContext | undefined;
  /** From the clock of the steps to milliseconds since 1970. */
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

  end(ending: TraceEnding): void {
    if (this.#isStrangers(ending)) return;
    const { at } = ending;
    const { http } = this.#start.request;
    const spans: Span[] = [];
    // What a door turned away never became the call of a tool.
    const isTool = http === undefined || this.#steps.some(({ step }) => step !== "AUDIT");
    const serverSpanId = isTool ? this.#options.newSpanId() : this.spanId;
    if (http !== undefined) spans.push(this.#serverSpan(ending, http, serverSpanId));
    if (isTool) spans.push(this.#toolSpan(ending, http && serverSpanId));
    this.#steps.forEach((step, index) => {
      const name = STEP_SPANS[step.step];
      if (name === undefined) return;
      const until = this.#steps[index + 1]?.at ?? at;
      spans.push(this.#stepSpan(step, { name, until, error: this.#stepError(ending, index) }));
    });
    for (const request of this.#requests) spans.push(request.span(this.#epochMs + at));
    this.#options.add(spans);
  }

  /** A stranger cannot have itself recorded: without a caller, what the header says about it does not count. */
  #isStrangers({ call }: TraceEnding): boolean {
    if (this.#parent === undefined || call.caller.sub !== "anonymous") return false;
    return !isInShare(this.traceId, this.#options.sampleRatio);
  }

  #serverSpan(ending: TraceEnding, door: HttpRequestFacts, spanId: string): Span {
    return {
      ...this.#above(),
      spanId,
      name: `POST ${door.route}`,
      kind: "server",
      ...this.#whole(ending.at),
      attributes: serverAttributes(ending, door),
      error: ending.http >= 500 ? ending.call.error?.code : undefined,
    };
  }

  #toolSpan(ending: TraceEnding, serverSpanId: string | undefined): Span {
    const { call, at } = ending;
    const attributes = toolAttributes(call, this.#start.callId, this.#options.isHarmless);
    return {
      ...(serverSpanId === undefined ? this.#above() : { traceId: this.traceId, parentSpanId: serverSpanId }),
      spanId: this.spanId,
      name: `execute_tool ${attributes["gen_ai.tool.name"]}`,
      kind: "internal",
      ...this.#whole(at),
      attributes,
      error: call.decision === "PENDING" ? undefined : call.error?.code,
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

  /** A refusal belongs to the step in which it was met: the last, or where the line could not be written, the writing. */
  #stepError({ call }: TraceEnding, index: number): string | undefined {
    if (call.error === undefined || call.decision === "PENDING") return undefined;
    const isRecording = this.#steps[index]?.step === "AUDIT";
    if (call.denial?.stage === "AUDIT") return isRecording ? call.error.code : undefined;
    const isLast = !isRecording && (this.#steps[index + 1]?.step ?? "AUDIT") === "AUDIT";
    return isLast ? call.error.code : undefined;
  }

  /** What the call came from. */
  #above(): Pick<Span, "traceId" | "parentSpanId" | "isRemoteParent"> {
    const parent = this.#parent;
    return { traceId: this.traceId, parentSpanId: parent?.spanId, isRemoteParent: parent !== undefined };
  }

  #whole(at: number): Pick<Span, "startMs" | "endMs"> {
    return { startMs: this.#epochMs + this.#start.at, endMs: this.#epochMs + at };
  }
}

interface RequestPlace {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

class SentRequest implements RequestSpan {
  readonly #request: TargetRequest;
  readonly #place: RequestPlace;
  readonly #startMs: number;
  #ended: { readonly ms: number; readonly status: string } | undefined;

  constructor(request: TargetRequest, place: RequestPlace) {
    this.#request = request;
    this.#place = place;
    this.#startMs = place.now();
  }

  get traceparent(): string {
    return writeTraceparent({ ...this.#place, sampled: true });
  }

  end(status: string): void {
    this.#ended ??= { ms: this.#place.now(), status };
  }

  /** One that has not ended when its call has is left behind. */
  span(callEndMs: number): Span {
    const { traceId, spanId, parentSpanId } = this.#place;
    const { ms, status } = this.#ended ?? { ms: callEndMs, status: "CANCELLED" };
    return {
      traceId,
      spanId,
      parentSpanId,
      name: this.#request.path.slice(1),
      kind: "client",
      startMs: this.#startMs,
      endMs: Math.max(ms, this.#startMs),
      attributes: clientAttributes(this.#request, status),
      error: status === "OK" ? undefined : status,
    };
  }
}

type Attributes = Readonly<Record<string, AttributeValue | undefined>>;

/** An identifier that a model's provider makes; anything else that an agent writes there stays where it is. */
const TOOL_CALL_ID = /^[A-Za-z][A-Za-z0-9_-]{0,127}$/;

/** What every span that stands for a call says of it. */
function callAttributes({ decision, error, denial, approval }: TracedCall): Attributes {
  return {
    "stc.decision": decision,
    "stc.code": error?.code,
    "stc.stage": denial?.stage,
    "stc.approval.id": approval?.id,
    "error.type": decision === "PENDING" ? undefined : error?.code,
  };
}

/** Of the span `execute_tool`: the name of a tool that does not exist is the agent's text, and is not told. */
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

function serverAttributes({ call, http }: TraceEnding, { route, scheme }: HttpRequestFacts): Attributes {
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

/** The current names, and those of before 1.38 that backends still look for. */
function clientAttributes({ path, server }: TargetRequest, status: string): Attributes {
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

/** Of several servers the list as it is: which of them it was, only the connection knows. */
function addressOf(server: string): Attributes {
  const [, address, port] = /^([^,]{1,253}):(\d{1,5})$/.exec(server) ?? [];
  if (address === undefined || port === undefined) return { "server.address": server };
  return { "server.address": address, "server.port": Number(port) };
}
