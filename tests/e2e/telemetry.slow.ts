import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { attributesOf, Collector, type ReceivedSpan } from "../runtime/telemetry/collector.ts";
import { LiveIssuers, type TokenKind } from "../support/live-tokens.ts";
import type { HostOrder, HostReport } from "../support/service-host.ts";
import { until } from "../support/until.ts";
import { LAB_PROTO_FOLDER, type Lab, startLab } from "../targets/grpc/support/lab.ts";

const SECRET = "hunter2-Xq91LmZp0Tt";
const PERSON = "someone.private@example.com";

const MANIFESTS = `
import { defineTool, grpcMethod } from "safe-tool-call";
import { z } from "zod";
const shared = { classification: "read", permissions: { required: ["lab:use"] } };
export const inspect = defineTool({
  ...shared, name: "lab_inspect", description: "Inspect",
  input: z.strictObject({ }),
  target: grpcMethod("lab", "lab.v1.Lab", "Inspect"),
  output: z.object({ headers: z.record(z.string(), z.string()) }), outputPolicy: { headers: "allow" }, scan: { headers: "off" },
});
export const list = defineTool({
  ...shared, name: "lab_list", description: "List",
  input: z.strictObject({ items: z.int() }),
  target: grpcMethod("lab", "lab.v1.Lab", "List", { stream: { itemsMax: 3, bytesMax: 1000 } }),
  output: z.object({ items: z.array(z.object({ label: z.string() })), truncated: z.boolean() }),
  outputPolicy: { "items[].label": "allow", truncated: "allow" },
});
export const fail = defineTool({
  ...shared, name: "lab_fail", description: "Fail",
  input: z.strictObject({ code: z.int(), text: z.string() }),
  target: grpcMethod("lab", "lab.v1.Lab", "Fail"),
  output: z.object({}), outputPolicy: {},
});
export const echo = defineTool({
  ...shared, name: "echo", description: "Says it again", category: "read",
  input: z.strictObject({ text: z.string() }),
  target: { system: "inline", handler: async ({ text }) => ({ text }) },
  output: z.strictObject({ text: z.string() }), outputPolicy: { text: "allow" }, inputPolicy: { text: "allow" },
  examples: { accepts: [{ text: "x" }], rejects: [{}] },
});
export const breaks = defineTool({
  ...shared, name: "breaks", description: "Throws", category: "read",
  input: z.strictObject({ text: z.string() }),
  target: { system: "inline", handler: async ({ text }) => {
    throw new Error("connect to postgres://stc:" + text + "@db:5432/x failed", { cause: { headers: { authorization: "Bearer " + text } } });
  } },
  output: z.strictObject({}), outputPolicy: {},
  examples: { accepts: [{ text: "x" }], rejects: [{}] },
});
export const deed = defineTool({
  name: "deed", description: "Does it", classification: "write", category: "network", permissions: { required: ["lab:use"] },
  input: z.strictObject({ }),
  target: { system: "inline", handler: async () => ({ }) },
  output: z.strictObject({}), outputPolicy: {},
  examples: { accepts: [{}], rejects: [{ x: 1 }] },
});
`;

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-telemetry-")));
const logFile = join(folder, "log");
const issuers = new LiveIssuers();
const collector = new Collector();
let lab: Lab;
let host: Bun.Subprocess;
let urls: Readonly<Record<string, string>> = {};

function written(name: string, telemetry: unknown): Record<string, unknown> {
  return {
    server: { port: 0 },
    tools: ["./tools"],
    audit: { dir: `./audit-${name}`, durability: "write" },
    jwt: { issuers: issuers.profiles() },
    systems: { lab: { endpoint: `127.0.0.1:${lab.port}`, proto: LAB_PROTO_FOLDER, plaintext: true } },
    approvals: { store: `sqlite://./approvals-${name}.sqlite` },
    log: { level: "debug" },
    ...(telemetry !== undefined && { telemetry }),
  };
}

beforeAll(async () => {
  mkdirSync(join(folder, "tools"));
  writeFileSync(join(folder, "tools/lab.ts"), MANIFESTS);
  writeFileSync(join(folder, "headers"), `authorization: Bearer ${SECRET}\n`);
  lab = await startLab();
  const traces = { endpoint: collector.url, headersFile: "./headers", sendEveryMs: 20 };
  const start = {
    traced: written("traced", { serviceName: "stc-test", traces }),
    rarely: written("rarely", { traces: { ...traces, sampleRatio: 0 } }),
    untraced: written("untraced", undefined),
  };
  const report = await new Promise<HostReport>((resolve) => {
    host = Bun.spawn([process.execPath, join(import.meta.dir, "../support/service-host.ts")], {
      stdio: ["ignore", openSync(logFile, "a"), "inherit"],
      ipc: resolve,
      onExit: (_child, code) => resolve({ failed: `the host ended with ${code}` }),
    });
    host.send({ start, folder } satisfies HostOrder);
  });
  if ("failed" in report) throw new Error(report.failed);
  urls = report.urls;
});

afterAll(async () => {
  host.disconnect();
  await host.exited;
  await collector.close();
  lab.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Asking {
  readonly headers?: Readonly<Record<string, string>>;
  readonly to?: "traced" | "rarely" | "untraced";
  readonly kind?: TokenKind;
  readonly more?: Readonly<Record<string, unknown>>;
}

interface Answered {
  readonly traceId: string;
  readonly result?: { readonly headers?: Readonly<Record<string, string>> };
}

async function call(
  tool: string,
  args: unknown,
  { headers = {}, to = "traced", kind = "good", more = {} }: Asking = {},
) {
  const authorization = await issuers.authorization({ kind, sub: PERSON, permissions: ["lab:use"] });
  const response = await fetch(`${urls[to]}/call`, {
    method: "POST",
    headers: { ...(authorization !== undefined && { authorization }), "content-type": "application/json", ...headers },
    body: JSON.stringify({ tool, args, ...more }),
  });
  return { status: response.status, answer: (await response.json()) as Answered };
}

const wire = (traceId: string): string => traceId.replaceAll("-", "");

function received(traceId: string): Promise<readonly ReceivedSpan[]> {
  return until(`the spans of ${traceId}`, () => {
    const spans = collector.trace(traceId);
    return spans.length > 0 ? spans : undefined;
  });
}

/** Each span with the name of the one above it. */
function tree(spans: readonly ReceivedSpan[]): readonly (readonly [string, string | undefined])[] {
  const names = new Map(spans.map(({ spanId, name }) => [spanId, name]));
  return spans.map(({ name, parentSpanId }) => [
    name,
    parentSpanId === undefined ? undefined : names.get(parentSpanId),
  ]);
}

const ROAD = [
  ["POST /call", undefined],
  ["execute_tool lab_inspect", "POST /call"],
  ["plan", "execute_tool lab_inspect"],
  ["approval", "execute_tool lab_inspect"],
  ["execute", "execute_tool lab_inspect"],
  ["record", "execute_tool lab_inspect"],
  ["lab.v1.Lab/Inspect", "execute"],
] as const;

function sent(answer: Answered): Readonly<Record<string, string>> {
  return answer.result?.headers ?? {};
}

test("a call is a trace with the answer's id, and it continues in the called service", async () => {
  const { answer } = await call("lab_inspect", {});
  const spans = await received(wire(answer.traceId));
  expect(tree(spans)).toEqual([...ROAD]);
  const client = spans.find(({ kind }) => kind === 3);
  expect(sent(answer)["traceparent"]).toBe(`00-${wire(answer.traceId)}-${client?.spanId}-01`);
  expect([...collector.resources]).toEqual([expect.stringContaining('"service.name":"stc-test"')]);
  const [request] = collector.requests;
  expect([new URL(request?.url ?? "").pathname, request?.headers.get("authorization")]).toEqual([
    "/v1/traces",
    `Bearer ${SECRET}`,
  ]);
});

test("times of parent and child spans contain each other", async () => {
  const { answer } = await call("lab_inspect", {});
  const spans = await received(wire(answer.traceId));
  const [server] = spans;
  for (const { startTimeUnixNano, endTimeUnixNano } of spans) {
    expect(BigInt(endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(startTimeUnixNano));
  }
  for (const { startTimeUnixNano, endTimeUnixNano, kind } of spans) {
    expect([kind, BigInt(startTimeUnixNano) >= BigInt(server?.startTimeUnixNano ?? 0)]).toEqual([kind, true]);
    expect(BigInt(endTimeUnixNano)).toBeLessThanOrEqual(BigInt(server?.endTimeUnixNano ?? 0));
  }
});

let traces = 0;
function newTrace(flags = "01"): { readonly id: string; readonly traceparent: string } {
  traces += 1;
  const id = `4bf92f3577b34da6a3ce929d${traces.toString(16).padStart(8, "0")}`;
  return { id, traceparent: `00-${id}-00f067aa0ba902b7-${flags}` };
}

test("a request with a trace continues it, even where none begins; its state is forwarded, its baggage is not", async () => {
  const { id, traceparent } = newTrace();
  const headers = { traceparent, tracestate: "vendor=x, other=y", baggage: `person=${PERSON}` };
  const { answer } = await call("lab_inspect", {}, { headers, to: "rarely" });
  const spans = await received(id);
  expect(tree(spans)).toEqual([...ROAD]);
  expect(spans[0]?.parentSpanId).toBe("00f067aa0ba902b7");
  const client = spans.find(({ kind }) => kind === 3);
  expect(sent(answer)).toMatchObject({ traceparent: `00-${id}-${client?.spanId}-01`, tracestate: "vendor=x,other=y" });
  expect(sent(answer)).not.toHaveProperty("baggage");
  expect(sent(answer)["x-trace-id"]).toBe(answer.traceId);
  const tool = spans.find(({ name }) => name.startsWith("execute_tool"));
  expect(attributesOf(tool ?? { attributes: [] })["stc.trace_id"]).toBe(answer.traceId);
});

test("where it is not sampled, the called service gets that decision, and nothing is exported", async () => {
  const { id, traceparent } = newTrace("00");
  const belongs = await call("lab_inspect", {}, { headers: { traceparent } });
  expect(sent(belongs.answer)["traceparent"]).toMatch(new RegExp(`^00-${id}-[0-9a-f]{16}-00$`));
  const begins = await call("lab_inspect", {}, { to: "rarely" });
  expect(sent(begins.answer)["traceparent"]).toMatch(new RegExp(`^00-${wire(begins.answer.traceId)}-[0-9a-f]{16}-00$`));
  const last = await call("lab_inspect", {});
  await received(wire(last.answer.traceId));
  expect([collector.trace(id), collector.trace(wire(begins.answer.traceId))]).toEqual([[], []]);
});

test("without `telemetry.traces` the header is forwarded unchanged, and no call is exported", async () => {
  const { traceparent } = newTrace();
  const { answer } = await call("lab_inspect", {}, { headers: { traceparent, tracestate: "a=1" }, to: "untraced" });
  expect(sent(answer)).toMatchObject({ traceparent, tracestate: "a=1" });
  const plain = await call("lab_inspect", {}, { to: "untraced" });
  expect(sent(plain.answer)).not.toHaveProperty("traceparent");
  expect(collector.trace(wire(plain.answer.traceId))).toEqual([]);
});

test.each([
  ["a malformed traceparent", { traceparent: "00-x-y-01", tracestate: "a=1" }],
  ["one whose ids are zero", { traceparent: `00-${"0".repeat(32)}-00f067aa0ba902b7-01` }],
  ["one with a line of its own", { traceparent: `00-${"a".repeat(32)}-00f067aa0ba902b7-01, x` }],
])("%s begins a new trace", async (_title, headers) => {
  const { answer } = await call("lab_inspect", {}, { headers });
  const [server] = await received(wire(answer.traceId));
  expect(server?.parentSpanId).toBeUndefined();
  expect(sent(answer)).not.toHaveProperty("tracestate");
});

test("a stream has one span, too", async () => {
  const { answer } = await call("lab_list", { items: 2 });
  const spans = await received(wire(answer.traceId));
  expect(spans.filter(({ kind }) => kind === 3).map(({ name }) => name)).toEqual(["lab.v1.Lab/List"]);
});

test("refusals: the code, and the failed spans", async () => {
  const failed = (spans: readonly ReceivedSpan[]) =>
    spans.filter(({ status }) => status.code === 2).map(({ name }) => name);
  const refusing = await call("lab_fail", { code: 5, text: `no such person: ${PERSON}` });
  const spans = await received(wire(refusing.answer.traceId));
  expect(failed(spans)).toEqual(["execute_tool lab_fail", "execute", "lab.v1.Lab/Fail"]);
  const [server, tool] = spans;
  expect(attributesOf(server ?? { attributes: [] })["http.response.status_code"]).toBe(422);
  expect(attributesOf(tool ?? { attributes: [] })).toMatchObject({
    "error.type": "TARGET_REFUSED",
    "stc.stage": "EXECUTION",
  });

  const asking = await call("deed", {});
  expect(asking.status).toBe(202);
  const asked = await received(wire(asking.answer.traceId));
  expect(failed(asked)).toEqual([]);
  expect(attributesOf(asked[1] ?? { attributes: [] })).toMatchObject({
    "stc.decision": "PENDING",
    "stc.approval.id": expect.stringMatching(/./),
  });

  const nobody = await call("echo", { text: "x" }, { kind: "none" });
  expect(failed(await received(wire(nobody.answer.traceId)))).toEqual(["execute_tool echo"]);
});

test("an unauthenticated client cannot have itself sampled", async () => {
  const { id, traceparent } = newTrace();
  const { status } = await call("echo", { text: "x" }, { kind: "other key", headers: { traceparent }, to: "rarely" });
  expect(status).toBe(401);
  const last = await call("echo", { text: "x" });
  await received(wire(last.answer.traceId));
  expect(collector.trace(id)).toEqual([]);
});

/** Every attribute that may leave. */
const ATTRIBUTES = new Set([
  ...["http.request.method", "http.route", "http.response.status_code", "url.path", "url.scheme"],
  ...["gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.type", "gen_ai.tool.call.id", "error.type"],
  ...["stc.trace_id", "stc.classification", "stc.system", "stc.decision", "stc.code", "stc.stage", "stc.approval.id"],
  ...[
    "rpc.system.name",
    "rpc.method",
    "rpc.response.status_code",
    "rpc.system",
    "rpc.service",
    "server.address",
    "server.port",
  ],
]);

test("no text of an agent or a target is in a trace or the log; and the log names the call", async () => {
  const more = { reason: `for ${PERSON}, password=${SECRET}`, session: "s-4111111111111111", callId: PERSON };
  const headers = { tracestate: `v=${SECRET}`, traceparent: newTrace().traceparent };
  await call("echo", { text: `${PERSON} password=${SECRET}` }, { more, headers });
  await call(`${PERSON}`, { password: SECRET }, { more });
  await call("lab_fail", { code: 13, text: `password=${SECRET} of ${PERSON}` }, { more });
  await call("echo", { [PERSON]: SECRET }, { more });
  const { status, answer } = await call("breaks", { text: SECRET }, { more });
  expect(status).toBe(502);
  await received(wire(answer.traceId));

  const told = collector.bodies.join("\n");
  expect([
    told.includes(SECRET),
    told.includes(PERSON),
    told.includes("example.com"),
    told.includes("411111111"),
  ]).toEqual([...[false, false, false, false]]);
  const strange = collector.spans.flatMap((span) =>
    Object.keys(attributesOf(span)).filter((key) => !ATTRIBUTES.has(key)),
  );
  expect(strange).toEqual([]);

  const log = await until("its line in the log", () => {
    const text = readFileSync(logFile, "utf8");
    return text.includes(answer.traceId) && text.endsWith("\n") ? text : undefined;
  });
  expect(log).not.toContain(SECRET);
  const lines = log
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  const line = lines.find((each) => each["traceId"] === answer.traceId);
  const tool = collector.trace(wire(answer.traceId)).find(({ name }) => name === "execute_tool breaks");
  expect(line).toMatchObject({
    severity: "ERROR",
    code: "TARGET_FAILED",
    trace_id: wire(answer.traceId),
    span_id: tool?.spanId,
  });
  expect(line?.["cause"]).toContain("[REDACTED]@db:5432");
});

test("the audit entry names the span", async () => {
  const { id, traceparent } = newTrace();
  await call("echo", { text: "x" }, { headers: { traceparent } });
  const spans = await received(id);
  const day = readdirSync(join(folder, "audit-traced")).find((name) => name.endsWith(".jsonl")) ?? "";
  const lines = readFileSync(join(folder, "audit-traced", day), "utf8")
    .trimEnd()
    .split("\n");
  const line = lines
    .map((each) => JSON.parse(each) as { trace?: unknown })
    .find((each) => JSON.stringify(each).includes(id));
  const tool = spans.find(({ name }) => name === "execute_tool echo");
  expect(line?.trace).toEqual({ traceId: id, spanId: tool?.spanId, parentSpanId: "00f067aa0ba902b7" });
});

async function droppedSpans(): Promise<number> {
  const authorization = await issuers.authorization({ kind: "operator", sub: "o", permissions: ["metrics:read"] });
  const response = await fetch(`${urls["traced"]}/metrics`, { headers: { authorization: authorization ?? "" } });
  const [, count] = /^stc_telemetry_dropped_total\{signal="traces"\} (\d+)$/m.exec(await response.text()) ?? [];
  return Number(count);
}

test("a collector that refuses, redirects or hangs delays no call; losses are counted", async () => {
  expect(await droppedSpans()).toBe(0);
  collector.answer = () => new Response("no", { status: 400 });
  await call("echo", { text: "x" });
  await until("the loss", async () => ((await droppedSpans()) === 6 ? true : undefined));

  let elsewhere = 0;
  collector.answer = () => {
    elsewhere += 1;
    return Response.redirect(`${collector.url}/elsewhere`, 307);
  };
  await call("echo", { text: "x" });
  await until("the attempt", () => (elsewhere > 0 ? true : undefined));

  let hanging = 0;
  collector.answer = () => {
    hanging += 1;
    return new Promise(() => {});
  };
  await call("echo", { text: "x" });
  await until("a request that hangs", () => (hanging > 0 ? true : undefined));
  const calls = await Promise.all(Array.from({ length: 60 }, () => call("echo", { text: "x" })));
  expect(calls.every(({ status }) => status === 200)).toBe(true);
  host.send({ drain: "traced" } satisfies HostOrder);
  expect([...new Set(collector.requests.map(({ url }) => new URL(url).pathname))]).toEqual(["/v1/traces"]);
  await until("its end", () => (readFileSync(logFile, "utf8").includes('"msg":"stopped"') ? true : undefined));
});
