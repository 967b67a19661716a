import { expect, test } from "bun:test";
import type { CallTrace, TracedCall } from "../../../src/core/tracing.ts";
import { createTracer, isInShare, type Span } from "../../../src/runtime/telemetry/tracer.ts";

const CALL_ID = "0190b0a0-0000-7000-8000-000000000001";
const OWN_TRACE = CALL_ID.replaceAll("-", "");
const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT = "00f067aa0ba902b7";
const HTTP = { route: "/call", scheme: "http" };

const ALLOWED: TracedCall = {
  caller: { sub: "agent-7" },
  tool: { name: "customer_lookup", classification: "read", targetSystem: "customers" },
  request: { callId: "call_abc123" },
  decision: "ALLOWED",
};

function refused(code: string, stage: string, decision = "DENIED"): TracedCall {
  return { ...ALLOWED, decision, error: { code }, denial: { stage } };
}

interface Walk {
  readonly traceparent?: string;
  /** Null: the library. */
  readonly http?: typeof HTTP | null;
  readonly ratio?: number;
  readonly tenant?: string;
  readonly steps?: readonly (readonly [step: string, at: number])[];
  readonly during?: (trace: CallTrace) => void;
  readonly call?: TracedCall;
  readonly status?: number;
  readonly isHarmless?: (text: string) => boolean;
}

const ROAD = [
  ["REGISTRY", 1],
  ["AUTH", 2],
  ["PLAN", 3],
  ["APPROVAL", 5],
  ["EXECUTION", 6],
] as const;

/** One call from start to end on a clock of its own: 1,000,000 + what `at` says. */
function walk({ traceparent, http = HTTP, ratio = 1, steps = ROAD, ...rest }: Walk) {
  let ids = 0;
  let now = 1_000_000;
  const added: Span[] = [];
  const tracer = createTracer({
    sampleRatio: ratio,
    tenant: rest.tenant,
    clock: () => now,
    monotonic: () => now - 1_000_000,
    newSpanId: () => {
      ids += 1;
      return ids.toString(16).padStart(16, "0");
    },
    isHarmless: rest.isHarmless ?? (() => true),
    add: (spans) => void added.push(...spans),
  });
  const trace = tracer.begin({ callId: CALL_ID, request: { traceparent, http: http ?? undefined }, at: 0 });
  for (const [step, at] of steps) {
    now = 1_000_000 + at;
    trace.enter(step, at);
  }
  rest.during?.(trace);
  trace.enter("AUDIT", 16);
  trace.end({ call: rest.call ?? ALLOWED, http: rest.status ?? 200, at: 20 });
  return { trace, spans: added, named: (name: string) => added.find((span) => span.name === name) };
}

test("a call is a tree: the endpoint, the tool, its stages, and the request below the stage that sent it", () => {
  const { spans, trace } = walk({
    during: (trace) => trace.requests?.begin({ path: "/c.v1.Customers/Get", server: "customers.svc:9090" }).end("OK"),
  });
  const names = new Map(spans.map(({ spanId, name }) => [spanId, name]));
  const tree = spans.map(({ name, kind, parentSpanId, startMs, endMs }) => [
    name,
    kind,
    names.get(parentSpanId ?? "") ?? null,
    startMs - 1_000_000,
    endMs - 1_000_000,
  ]);
  expect(tree).toEqual([
    ["POST /call", "server", null, 0, 20],
    ["execute_tool customer_lookup", "internal", "POST /call", 0, 20],
    ["plan", "internal", "execute_tool customer_lookup", 3, 5],
    ["approval", "internal", "execute_tool customer_lookup", 5, 6],
    ["execute", "internal", "execute_tool customer_lookup", 6, 16],
    ["record", "internal", "execute_tool customer_lookup", 16, 20],
    ["c.v1.Customers/Get", "client", "execute", 6, 6],
  ]);
  expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([OWN_TRACE]));
  expect(new Set(spans.map(({ spanId }) => spanId)).size).toBe(spans.length);
  expect(trace.spanId).toBe(spans[1]?.spanId);
  expect(spans.every(({ error }) => error === undefined)).toBe(true);
});

test("every span of a tenant's call names the tenant, and no other span does", () => {
  const during: Walk["during"] = (trace) => trace.requests?.begin({ path: "/c.v1.C/Get", server: "c:1" }).end("OK");
  const tenantsOf = (walked: ReturnType<typeof walk>) => walked.spans.map(({ attributes }) => attributes["stc.tenant"]);
  expect(tenantsOf(walk({ during, tenant: "acme" }))).toEqual(Array(7).fill("acme"));
  expect(walk({ during }).spans.some(({ attributes }) => "stc.tenant" in attributes)).toBe(false);
});

test("the attributes of the spans", () => {
  const { named } = walk({
    during: (trace) => trace.requests?.begin({ path: "/c.v1.Customers/Get", server: "[::1]:9090" }).end("NOT_FOUND"),
    call: { ...refused("TARGET_REFUSED", "EXECUTION", "ERROR"), approval: { id: "a-1" } },
    status: 422,
  });
  const told = {
    "stc.decision": "ERROR",
    "stc.code": "TARGET_REFUSED",
    "stc.stage": "EXECUTION",
    "stc.approval.id": "a-1",
  };
  expect(named("POST /call")?.attributes).toEqual({
    "http.request.method": "POST",
    "http.route": "/call",
    "http.response.status_code": 422,
    "url.path": "/call",
    "url.scheme": "http",
    ...told,
    "error.type": undefined,
  });
  expect(named("execute_tool customer_lookup")?.attributes).toEqual({
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "customer_lookup",
    "gen_ai.tool.type": "function",
    "gen_ai.tool.call.id": "call_abc123",
    "stc.trace_id": CALL_ID,
    "stc.classification": "read",
    "stc.system": "customers",
    ...told,
    "error.type": "TARGET_REFUSED",
  });
  expect(named("c.v1.Customers/Get")?.attributes).toEqual({
    "rpc.system.name": "grpc",
    "rpc.method": "c.v1.Customers/Get",
    "rpc.response.status_code": "NOT_FOUND",
    "rpc.system": "grpc",
    "rpc.service": "c.v1.Customers",
    "server.address": "[::1]",
    "server.port": 9090,
    "error.type": "NOT_FOUND",
  });
});

const FAILURES: readonly (readonly [string, Walk, readonly string[]])[] = [
  ["an answer", {}, []],
  [
    "a question",
    { call: refused("APPROVAL_REQUIRED", "APPROVAL", "PENDING"), steps: ROAD.slice(0, 4), status: 202 },
    [],
  ],
  [
    "a no",
    { call: refused("APPROVAL_DENIED", "APPROVAL"), steps: ROAD.slice(0, 4), status: 403 },
    ["execute_tool customer_lookup", "approval"],
  ],
  [
    "a target that fails",
    { call: refused("TARGET_FAILED", "EXECUTION", "ERROR"), status: 502 },
    ["POST /call", "execute_tool customer_lookup", "execute"],
  ],
  [
    "a token that is none",
    {
      call: { ...refused("UNAUTHENTICATED", "AUTH"), caller: { sub: "anonymous" } },
      steps: ROAD.slice(0, 2),
      status: 401,
    },
    ["execute_tool customer_lookup"],
  ],
  [
    "a line that cannot be written",
    { call: refused("AUDIT_UNAVAILABLE", "AUDIT", "ERROR"), status: 503 },
    ["POST /call", "execute_tool customer_lookup", "record"],
  ],
];

test.each(FAILURES)("%s: the failed spans", (_title, given, want) => {
  const { spans } = walk(given);
  expect(spans.filter(({ error }) => error !== undefined).map(({ name }) => name)).toEqual([...want]);
});

test("a request continues in its trace, below the span that sent it", () => {
  const { spans, named } = walk({ traceparent: `00-${TRACE}-${PARENT}-01`, ratio: 0 });
  expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([TRACE]));
  expect(named("POST /call")).toMatchObject({ parentSpanId: PARENT, isRemoteParent: true });
  expect(spans.filter(({ isRemoteParent }) => isRemoteParent === true)).toHaveLength(1);
});

test.each([
  ["its trace is not recorded", { traceparent: `00-${TRACE}-${PARENT}-00` }, TRACE],
  ["it is not in the share", { ratio: 0 }, OWN_TRACE],
])("not sampled since %s: nothing is kept, and targets get the trace with that flag", (_title, given, traceId) => {
  const { spans, trace } = walk(given);
  expect(spans).toEqual([]);
  expect([trace.requests, trace.spanId]).toEqual([undefined, undefined]);
  expect(trace.traceparent).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`));
});

test("an unauthenticated client cannot have itself sampled", () => {
  const call = { ...refused("UNAUTHENTICATED", "AUTH"), caller: { sub: "anonymous" } };
  const traceparent = `00-${TRACE}-${PARENT}-01`;
  expect(walk({ call, traceparent, ratio: 0 }).spans).toEqual([]);
  expect(walk({ call, traceparent, ratio: 1 }).spans.length).toBeGreaterThan(0);
});

test.each([["x"], [`00-${"0".repeat(32)}-${PARENT}-01`], [`00-${TRACE}-${PARENT}-01-x`], ["00-\r\n"]])(
  "a malformed traceparent begins a new trace: %j",
  (traceparent) => {
    expect(walk({ traceparent }).trace.traceId).toBe(OWN_TRACE);
  },
);

test("each request has a span of its own, and carries its id", () => {
  const { trace, spans } = walk({
    during: ({ requests }) => {
      for (const status of ["UNAVAILABLE", "OK"]) {
        const request = requests?.begin({ path: "/s/M", server: "a:1,b:2" });
        expect(request?.traceparent).toMatch(new RegExp(`^00-${OWN_TRACE}-[0-9a-f]{16}-01$`));
        request?.end(status);
        request?.end("INTERNAL");
      }
    },
  });
  const clients = spans.filter(({ kind }) => kind === "client");
  expect(clients.map(({ error }) => error)).toEqual(["UNAVAILABLE", undefined]);
  expect(clients[0]?.attributes["server.address"]).toBe("a:1,b:2");
  expect(new Set([...clients.map(({ spanId }) => spanId), trace.spanId]).size).toBe(3);
});

test("an abandoned request ends with its call", () => {
  const { spans } = walk({ during: ({ requests }) => void requests?.begin({ path: "/s/M", server: "a:1" }) });
  expect(spans.find(({ kind }) => kind === "client")).toMatchObject({ endMs: 1_000_020, error: "CANCELLED" });
});

test("endless repetitions are limited", () => {
  const steps = Array.from({ length: 500 }, (_, at) => ["PLAN", at] as const);
  const { spans } = walk({
    steps,
    during: ({ requests }) => {
      for (let sent = 0; sent < 500; sent += 1) requests?.begin({ path: "/s/M", server: "a:1" }).end("OK");
    },
  });
  expect(spans.length).toBeLessThan(100);
});

test.each([
  ["an e-mail address", "someone@example.com"],
  ["a number", "123-45-6789"],
  ["a sentence", "what I asked for"],
  ["nothing", ""],
  ["something long", `c${"x".repeat(200)}`],
])("a call id of the agent that is %s is not exported", (_title, callId) => {
  const { named } = walk({ call: { ...ALLOWED, request: { callId } } });
  expect(named("execute_tool customer_lookup")?.attributes["gen_ai.tool.call.id"]).toBeUndefined();
});

test("a call id that contains something sensitive is not exported", () => {
  const { named } = walk({ isHarmless: (text) => text !== "call_abc123" });
  expect(named("execute_tool customer_lookup")?.attributes["gen_ai.tool.call.id"]).toBeUndefined();
});

test("the name of a tool that does not exist is the agent's text", () => {
  const tool = { name: "someone@example.com", classification: "unknown", targetSystem: "unknown" } as const;
  const { spans } = walk({ call: { ...refused("TOOL_NOT_FOUND", "REGISTRY"), tool }, steps: ROAD.slice(0, 2) });
  expect(JSON.stringify(spans)).not.toContain("example.com");
  expect(spans[1]?.name).toBe("execute_tool unknown");
});

test("a rejected request is not a call of a tool", () => {
  const { spans } = walk({ steps: [], call: refused("MALFORMED_REQUEST", "REQUEST"), status: 400 });
  expect(spans.map(({ name }) => name)).toEqual(["POST /call", "record"]);
  expect(spans[1]?.parentSpanId).toBe(spans[0]?.spanId);
});

test("a call of the library has no endpoint span", () => {
  const { spans } = walk({ http: null, traceparent: `00-${TRACE}-${PARENT}-01` });
  expect(spans[0]).toMatchObject({ name: "execute_tool customer_lookup", parentSpanId: PARENT, isRemoteParent: true });
  expect(spans.some(({ kind }) => kind === "server")).toBe(false);
});

test("the sampling ratio holds, and selects the same traces for everybody", () => {
  const ids = Array.from({ length: 4_000 }, () => Bun.randomUUIDv7().replaceAll("-", ""));
  const share = (ratio: number) => ids.filter((id) => isInShare(id, ratio)).length / ids.length;
  expect([share(0), share(1)]).toEqual([0, 1]);
  expect(Math.abs(share(0.1) - 0.1)).toBeLessThan(0.04);
  expect(ids.filter((id) => isInShare(id, 0.1) && !isInShare(id, 0.5))).toEqual([]);
});
