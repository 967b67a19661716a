import { afterEach, expect, test } from "bun:test";
import { diag, trace } from "@opentelemetry/api";
import fc from "fast-check";
import { SpanSender, type SpanSenderOptions } from "../../../src/runtime/telemetry/span-sender.ts";
import type { Span } from "../../../src/runtime/telemetry/tracer.ts";
import { Authority } from "../../support/tls-files.ts";
import { until } from "../../support/until.ts";
import { Collector } from "./collector.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";

function spans(count: number): readonly Span[] {
  return Array.from({ length: count }, (_, index) => ({
    traceId: TRACE,
    spanId: (index + 1).toString(16).padStart(16, "0"),
    parentSpanId: undefined,
    name: `span ${index}`,
    kind: "internal",
    startMs: 1_000,
    endMs: 2_000,
    attributes: {},
  }));
}

interface Far {
  readonly sender: SpanSender;
  readonly collector: Collector;
  readonly reports: string[];
}

type Answer = () => Response | Promise<Response>;

const TAKEN: Answer = () => Response.json({});
/** At once, for a test's sake. */
const LATER: Answer = () => new Response("busy", { status: 503, headers: { "retry-after": "0" } });
const MUCH_LATER: Answer = () => new Response("busy", { status: 503, headers: { "retry-after": "5" } });
const REFUSED: Answer = () => new Response("secret words", { status: 400, statusText: "secret words" });
const HANGS: Answer = () => new Promise(() => {});
const TRICKLES: Answer = () => new Response(new ReadableStream({ start: (body) => body.enqueue("{") }));

const open: Far[] = [];
afterEach(async () => {
  for (const { sender, collector } of open.splice(0)) {
    await collector.close();
    await sender.close(1);
  }
});

/** A sender whose collector answers as it is told, the last answer for ever. */
function sending(answers: readonly Answer[], options: Partial<SpanSenderOptions> = {}, tls?: Bun.TLSOptions): Far {
  const collector = new Collector(tls);
  const reports: string[] = [];
  collector.answer = () => (answers[Math.min(collector.requests.length, answers.length) - 1] ?? TAKEN)();
  const sender = new SpanSender({
    ...{ url: `${collector.url}/v1/traces`, headers: { "x-key": "k" }, resource: { "service.name": "test" } },
    ...{ sendEveryMs: 1, clock: performance.now, report: (message: string) => void reports.push(message) },
    ...options,
  });
  const far = { sender, collector, reports };
  open.push(far);
  return far;
}

function dropped({ sender }: Far, count: number): Promise<true> {
  return until(`${count} dropped spans`, () => (sender.dropped === count ? true : undefined));
}

test("a span in OTLP, to the byte", async () => {
  const { sender, collector } = sending([]);
  sender.add([
    {
      ...{ traceId: TRACE, spanId: "00000000000000aa", parentSpanId: "00000000000000bb", isRemoteParent: true },
      ...{ name: "POST /call", kind: "server", startMs: 1_763_000_000_000.123, endMs: 1_763_000_000_001 },
      attributes: { "http.route": "/call", "http.response.status_code": 503, "error.type": undefined },
      error: "TARGET_FAILED",
    },
    {
      ...{ traceId: TRACE, spanId: "00000000000000cc", parentSpanId: "00000000000000aa" },
      ...{ name: "s/M", kind: "client", startMs: -5, endMs: 0, attributes: {} },
    },
  ]);
  await sender.close(2_000);
  const schemaUrl = "https://opentelemetry.io/schemas/1.41.0";
  const none = { events: [], links: [], droppedAttributesCount: 0, droppedEventsCount: 0, droppedLinksCount: 0 };
  expect(JSON.parse(collector.bodies.join())).toEqual({
    resourceSpans: [
      {
        resource: {
          attributes: [{ key: "service.name", value: { stringValue: "test" } }],
          droppedAttributesCount: 0,
          schemaUrl,
        },
        scopeSpans: [
          {
            scope: { name: "safe-tool-call" },
            spans: [
              {
                ...{
                  traceId: TRACE,
                  spanId: "00000000000000aa",
                  parentSpanId: "00000000000000bb",
                  flags: 0x301,
                  ...none,
                },
                ...{ name: "POST /call", kind: 2, status: { code: 2, message: "TARGET_FAILED" } },
                ...{ startTimeUnixNano: "1763000000000123000", endTimeUnixNano: "1763000000001000000" },
                attributes: [
                  { key: "http.route", value: { stringValue: "/call" } },
                  { key: "http.response.status_code", value: { intValue: 503 } },
                ],
              },
              {
                ...{
                  traceId: TRACE,
                  spanId: "00000000000000cc",
                  parentSpanId: "00000000000000aa",
                  flags: 0x101,
                  ...none,
                },
                ...{ name: "s/M", kind: 3, status: { code: 0 }, startTimeUnixNano: "0", endTimeUnixNano: "0" },
                attributes: [],
              },
            ],
            schemaUrl,
          },
        ],
        schemaUrl,
      },
    ],
  });
  expect(sender.dropped).toBe(0);
});

test("spans are sent in order, in batches, once", async () => {
  const { sender, collector } = sending([]);
  sender.add(spans(1_200));
  await until("all of them", () => (collector.spans.length === 1_200 ? true : undefined));
  expect(collector.requests).toHaveLength(3);
  expect(collector.names).toEqual(spans(1_200).map(({ name }) => name));
  sender.add(spans(1));
  await until("one more", () => (collector.spans.length === 1_201 ? true : undefined));
  await sender.close(1_000);
  expect([sender.dropped, collector.requests.length]).toEqual([0, 4]);
});

test("spans that the collector cannot take now are sent again, refused ones are not", async () => {
  const later = sending([LATER, LATER, TAKEN]);
  later.sender.add(spans(2));
  await until("the third attempt", () => (later.collector.requests.length === 3 ? true : undefined));
  await later.sender.close(1_000);
  expect([later.sender.dropped, later.reports]).toEqual([0, []]);

  const refused = sending([REFUSED]);
  refused.sender.add(spans(2));
  await dropped(refused, 2);
  expect([refused.collector.requests.length, refused.reports]).toEqual([1, ["traces are not accepted: status 400"]]);
});

test("after some attempts a batch is given up, counted, and logged once until one is accepted again", async () => {
  const far = sending([LATER, LATER, LATER, LATER, LATER, LATER, REFUSED, TAKEN, REFUSED]);
  far.sender.add(spans(3));
  await dropped(far, 3);
  expect([far.collector.requests.length, far.reports.length]).toEqual([6, 1]);
  far.sender.add(spans(1));
  await dropped(far, 4);
  far.sender.add(spans(1));
  await until("the one that is taken", () => (far.collector.requests.length === 8 ? true : undefined));
  await far.sender.close(1_000);
  expect([far.sender.dropped, far.reports.length]).toEqual([4, 1]);
});

test.each([
  ["refuses the connection", undefined],
  ["hangs", HANGS],
  ["never ends its answer", TRICKLES],
])("a collector that %s: losses are counted", async (_title, answer) => {
  const far = sending([answer ?? TAKEN], { timeoutMs: 100 });
  if (answer === undefined) await far.collector.close();
  far.sender.add(spans(4));
  await dropped(far, 4);
  expect(far.reports).toHaveLength(1);
});

test("a collector that hangs fills the queue and no more; a call's spans are kept together or not at all", async () => {
  const full = sending([HANGS], { queueSpansMax: 10 });
  for (let call = 0; call < 1_000; call += 1) full.sender.add(spans(4));
  expect(full.sender.dropped).toBe(4_000 - 8);
  await full.sender.close(20);
  expect(full.sender.dropped).toBe(4_000);
  full.sender.add(spans(1));
  expect(full.sender.dropped).toBe(4_001);
});

test("the whole queue is still sent at the end, along with the batch in progress", async () => {
  const { sender, collector } = sending([], { sendEveryMs: 60_000 });
  for (let call = 0; call < 1_024; call += 1) sender.add(spans(8));
  await sender.close(10_000);
  expect([collector.spans.length, sender.dropped]).toEqual([8_192, 0]);
});

test("after its end nothing more is accepted, and nothing is counted twice", async () => {
  const { promise, resolve } = Promise.withResolvers<Response>();
  const far = sending([() => promise]);
  far.sender.add(spans(3));
  const closed = far.sender.close(10_000);
  far.sender.add(spans(2));
  expect(far.sender.dropped).toBe(2);
  await until("the request", () => (far.collector.requests.length === 1 ? true : undefined));
  resolve(Response.json({}));
  await closed;
  expect([far.sender.dropped, far.collector.spans.length]).toEqual([2, 3]);
});

test.each([
  ["hangs", HANGS],
  ["never ends its answer", TRICKLES],
  ["says later", MUCH_LATER],
])("at the end nobody waits longer than the limit for a collector that %s", async (_title, answer) => {
  const far = sending([answer]);
  far.sender.add(spans(5));
  await until("the first attempt", () => (far.collector.requests.length === 1 ? true : undefined));
  await far.sender.close(20);
  expect(far.sender.dropped).toBe(5);
});

test.each([
  ['{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too old"}}', 2],
  ['{"partialSuccess":{"rejectedSpans":2}}', 2],
  ['{"partialSuccess":{"rejectedSpans":1e999}}', 0],
  ['{"partialSuccess":{"rejectedSpans":9e99}}', 3],
  ['{"partialSuccess":{"rejectedSpans":-1}}', 0],
  ['{"partialSuccess":{"rejectedSpans":{}}}', 0],
  ['{"partialSuccess":[2]}', 0],
  ['{"partialSuccess":"2"}', 0],
  ['{"partialSuccess":{}}', 0],
  ['{"partialSuccess":null}', 0],
  ["null", 0],
  ["[]", 0],
  ["", 0],
  ["<html>", 0],
])("an answer of %s: %d of 3 spans are lost", async (answer, lost) => {
  const { sender } = sending([() => new Response(answer)]);
  sender.add(spans(3));
  await sender.close(1_000);
  expect(sender.dropped).toBe(lost);
});

test("two senders in one process: each counts the rejections of its own collector", async () => {
  const some = sending([() => Response.json({ partialSuccess: { rejectedSpans: 1 } })]);
  const all = sending([TAKEN]);
  for (const { sender } of [some, all]) sender.add(spans(3));
  await Promise.all([some.sender.close(1_000), all.sender.close(1_000)]);
  expect([some.sender.dropped, all.sender.dropped]).toEqual([1, 0]);
});

test("no redirect is followed", async () => {
  const far = sending([() => Response.redirect("/elsewhere", 307)]);
  far.sender.add(spans(1));
  await dropped(far, 1);
  expect(far.collector.requests.map(({ url }) => new URL(url).pathname)).toEqual(["/v1/traces"]);
  expect(far.reports).toEqual(["traces are not accepted: status 307"]);
});

const HOSTILE = {
  OTEL_EXPORTER_OTLP_HEADERS: "x-planted=1,x-key=planted",
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: "x-planted-too=1",
  OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9",
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://127.0.0.1:9/planted",
  OTEL_EXPORTER_OTLP_COMPRESSION: "gzip",
  OTEL_EXPORTER_OTLP_TIMEOUT: "1",
  OTEL_EXPORTER_OTLP_CERTIFICATE: "/nowhere/at/all",
  OTEL_BSP_MAX_QUEUE_SIZE: "1",
  OTEL_BSP_SCHEDULE_DELAY: "600000",
  OTEL_RESOURCE_ATTRIBUTES: "planted=1",
  OTEL_SERVICE_NAME: "planted",
};

test("the environment has no effect", async () => {
  Object.assign(process.env, HOSTILE);
  try {
    const { sender, collector, reports } = sending([]);
    sender.add(spans(3));
    await until("the spans", () => (collector.spans.length === 3 ? true : undefined));
    const [request] = collector.requests;
    expect(Object.keys(request?.headers.toJSON() ?? {}).filter((name) => /planted|encoding$/.test(name))).toEqual([
      "transfer-encoding",
    ]);
    expect(request?.headers.get("x-key")).toBe("k");
    expect([...collector.resources]).toEqual(['{"service.name":"test"}']);
    expect(reports).toEqual([]);
    expect(process.env).toMatchObject(HOSTILE);
  } finally {
    for (const name of Object.keys(HOSTILE)) delete process.env[name];
  }
});

test("a certificate from an unknown authority is refused, whatever the environment says", async () => {
  const { cert, key } = await (await Authority.create("stranger")).issue("localhost");
  const before = process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
  process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
  try {
    const far = sending([], {}, { cert, key });
    far.sender.add(spans(2));
    await dropped(far, 2);
    expect(far.collector.requests).toHaveLength(0);
    expect(far.reports).toEqual([expect.stringMatching(/^traces are not accepted: .*certificate/)]);
  } finally {
    if (before === undefined) delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    else process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = before;
  }
});

test("only a fault handler is registered for the process, and it receives no foreign text", () => {
  const { reports } = sending([]);
  expect(trace.getTracer("other").startSpan("other").isRecording()).toBe(false);
  for (let times = 0; times < 2; times += 1) diag.error("Something new broke: what somebody else says");
  diag.createComponentLogger({ namespace: "Part" }).warn("went wrong: secret", "secret", new Error("secret"));
  diag.info("nothing to hear");
  for (let index = 0; index < 100; index += 1) diag.warn(`text ${index} ${"x".repeat(1_000)}`);
  expect(reports.slice(0, 2)).toEqual(["OpenTelemetry: Something new broke", "OpenTelemetry: Part: went wrong"]);
  expect(reports.length).toBeLessThanOrEqual(32);
  expect(reports.every((report) => report.length < 300)).toBe(true);
});

test("messages of OpenTelemetry's packages break nothing", () => {
  const { reports } = sending([]);
  const said = fc.oneof(fc.anything(), fc.constant("Received Partial Success response:"), fc.string());
  const heard = fc.property(fc.array(said, { minLength: 1, maxLength: 4 }), ([first, ...rest]) =>
    diag.warn(first as string, ...rest),
  );
  fc.assert(heard, { numRuns: 300 });
  expect(reports.length).toBeLessThanOrEqual(32);
});

test("without a log reader, OpenTelemetry's diagnostics are left to other code in the process", async () => {
  const heard: string[] = [];
  diag.setLogger(
    {
      ...{ error: (text) => void heard.push(text), warn: (text) => void heard.push(text) },
      ...{ info() {}, debug() {}, verbose() {} },
    },
    { suppressOverrideMessage: true },
  );
  const { sender } = sending([REFUSED], { report: undefined });
  diag.warn("of another");
  sender.add(spans(1));
  await until("the loss", () => (sender.dropped === 1 ? true : undefined));
  expect(heard).toEqual(["of another"]);
});
