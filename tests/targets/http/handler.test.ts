import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { gzipSync } from "node:zlib";
import { decodeJwt } from "jose";
import { z } from "zod";
import { Refusal } from "../../../src/core/errors.ts";
import { PartialAnswer } from "../../../src/core/partial-answer.ts";
import type { Binding, RequestTracer } from "../../../src/core/types.ts";
import { assertionSigner } from "../../../src/egress/assertion.ts";
import { RESILIENCE_DEFAULTS } from "../../../src/egress/resilience.ts";
import type { HttpHandler, HttpSystem } from "../../../src/targets/http/handler.ts";
import { RawServer } from "../../support/raw-server.ts";
import {
  type ApiToolOptions,
  answer,
  apiTool,
  call,
  handlerOf,
  httpSystem,
  json,
  refusal,
  runContext,
  TRACE_ID,
} from "./support.ts";

let server: RawServer;
const handlers: HttpHandler[] = [];
beforeEach(async () => {
  server = await RawServer.start();
  server.answer = () => json({ ok: true });
});
afterEach(async () => {
  await Promise.all(handlers.splice(0).map((handler) => handler.close()));
  server.close();
});

function bind(
  tool: ApiToolOptions = {},
  system: Partial<HttpSystem> = {},
  more: Parameters<typeof handlerOf>[1] = {},
): Binding {
  const handler = handlerOf(httpSystem(server.port, system), more);
  handlers.push(handler);
  return handler.bind(apiTool(tool));
}

function headersOf(index: number): Readonly<Record<string, string>> {
  const [, ...lines] = (server.requests[index]?.text.split("\r\n\r\n")[0] ?? "").split("\r\n");
  return Object.fromEntries(lines.map((line) => line.toLowerCase().split(": ") as [string, string]));
}

const ORDER = {
  method: "POST",
  path: "/orders/{order}/items",
  query: { dry: "{dry}", tag: "{tags}", fixed: "a b" },
  headers: { "x-tenant": "{tenant}" },
  body: { name: "{name}", count: "{count}", note: "{note}", source: "agent" },
  classification: "write",
  input: z.strictObject({
    order: z.string().max(20),
    dry: z.boolean().optional(),
    tags: z.array(z.string()).optional(),
    tenant: z.string(),
    name: z.string(),
    count: z.int(),
    note: z.string().optional(),
  }),
} as const satisfies ApiToolOptions;

describe("a plan", () => {
  test("is the exact request, without credentials, and the same every time", async () => {
    const credentials = { header: async () => ({ authorization: "Bearer secret" }), renew: async () => false };
    const binding = bind(ORDER, { headers: { "x-client": "stc" }, credentials });
    const input = { order: "a b", dry: true, tags: ["x&y", "ü"], tenant: "t1", name: "nail", count: 3 };
    const plan = await binding.plan(input, runContext());
    expect(plan).toEqual({
      kind: "http",
      system: "api",
      method: "POST",
      url: `http://api.test:${server.port}/v1/orders/a%20b/items?dry=true&tag=x%26y&tag=%C3%BC&fixed=a%20b`,
      headers: {
        accept: "application/json, text/*;q=0.5",
        "content-type": "application/json",
        "x-client": "stc",
        "x-tenant": "t1",
      },
      body: { name: "nail", count: 3, source: "agent" },
      tls: null,
    });
    expect(JSON.stringify(await binding.plan(input, runContext()))).toBe(JSON.stringify(plan));
    expect(binding.preview?.(plan)).toMatchObject({
      addedHeaders: ["(credentials)", "idempotency-key", "traceparent?", "tracestate?"],
    });
    expect(server.requests).toHaveLength(0);
    await binding.run(plan, runContext());
    const [head, body] = server.requests[0]?.text.split("\r\n\r\n") ?? [];
    expect(head?.split("\r\n")[0]).toBe(
      "POST /v1/orders/a%20b/items?dry=true&tag=x%26y&tag=%C3%BC&fixed=a%20b HTTP/1.1",
    );
    expect(body).toBe('{"name":"nail","count":3,"source":"agent"}');
    expect(headersOf(0)).toMatchObject({
      "x-tenant": "t1",
      authorization: "bearer secret",
      "idempotency-key": TRACE_ID,
    });
  });

  test("has no body and no media type when the body is one missing argument", async () => {
    const input = z.strictObject({ note: z.strictObject({ text: z.string() }).optional() });
    const binding = bind({ method: "POST", path: "/notes", body: "{note}", classification: "write", input });
    const plan = await binding.plan({}, runContext());
    expect(plan).not.toHaveProperty("body");
    await binding.run(plan, runContext());
    const [head, body] = server.requests[0]?.text.split("\r\n\r\n") ?? [];
    expect(head).toContain("content-length: 0");
    expect([head?.includes("content-type"), body]).toEqual([false, ""]);
    expect(await binding.plan({ note: { text: "a" } }, runContext())).toHaveProperty("body", { text: "a" });
  });

  test.each([
    ["application/x-www-form-urlencoded", "{*}", "a"],
    ["text/plain", "{a}", "(body)"],
  ])("refuses a value that a body of type %s cannot hold, before anybody is asked", async (contentType, body, path) => {
    const input = z.object({ a: z.unknown() });
    const binding = bind({ method: "POST", classification: "write", contentType, body, input });
    const got = await refusal(() => binding.plan({ a: { b: 1 } }, runContext()));
    expect([got.code, got.details]).toMatchObject(["INVALID_INPUT", { issues: [{ path }] }]);
  });

  test("of another address does not run", async () => {
    const binding = bind();
    const plan = await binding.plan({}, runContext());
    const elsewhere = { ...plan, url: "http://evil.test/v1/x" };
    expect((await refusal(() => binding.run(elsewhere, runContext()))).code).toBe("INTERNAL");
    expect(server.requests).toHaveLength(0);
  });

  test.each([
    ["a form", { contentType: "application/x-www-form-urlencoded", body: { a: "{a}", b: "{b}" } }, "a=x%20%26&b=1&b=2"],
    [
      "a form without a value",
      { contentType: "application/x-www-form-urlencoded", body: { a: null, b: "{b}" } },
      "b=1&b=2",
    ],
    ["a text", { contentType: "text/plain", body: "say {a}" }, "say x &"],
    ["all other arguments", { body: "{*}" }, '{"a":"x &","b":[1,2]}'],
    ["a nested argument", { body: { list: [{ v: "{b}" }], t: "<{a}>" } }, '{"list":[{"v":[1,2]}],"t":"<x &>"}'],
  ] as const)("%s is a body", async (_title, http, sent) => {
    const input = z.object({ a: z.string(), b: z.array(z.int()) });
    await call(bind({ method: "POST", classification: "write", input, ...http }), { a: "x &", b: [1, 2] });
    expect(server.requests[0]?.text.split("\r\n\r\n")[1]).toBe(sent);
  });
});

describe("what is added when a request is sent", () => {
  test("trace context and caller assertion; the idempotency key is the call's id, in every attempt", async () => {
    const { privateKey } = generateKeyPairSync("ed25519");
    const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    const sign = assertionSigner({ issuer: "https://stc.test", privateKey: pem, now: () => 0, newId: () => "id" });
    let count = 0;
    server.answer = () => (++count < 3 ? answer(503) : json({}));
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const binding = bind({ ...ORDER, idempotent: true }, {}, { sign });
    await call(
      binding,
      { order: "7", tenant: "t", name: "n", count: 1 },
      runContext({ traceparent, tracestate: "a=b" }),
    );
    expect(server.requests).toHaveLength(3);
    for (const index of [0, 1, 2]) {
      expect(headersOf(index)).toMatchObject({ traceparent, tracestate: "a=b", "idempotency-key": TRACE_ID });
    }
    const [, token = ""] = /x-caller-assertion: (.*)\r\n/i.exec(server.requests[0]?.text ?? "") ?? [];
    expect(decodeJwt(token)).toMatchObject({
      ...{ iss: "https://stc.test", aud: "api", sub: "agent-7", act: { sub: "helper" }, tool: "api_tool" },
      method: "POST /v1/orders/7/items?fixed=a%20b",
    });
  });

  test("credentials and the caller assertion are removed from an answer that shows the request", async () => {
    const { privateKey } = generateKeyPairSync("ed25519");
    const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    const show = ({ text }: { readonly text: string }, status: number): string =>
      answer(status, JSON.stringify({ ü: "ü", text }), { "content-type": "application/json" });
    const credentials = { header: async () => ({ "x-api-key": "key+$&/-0123" }), renew: async () => false };
    const binding = bind(
      { errors: "filtered" },
      { credentials },
      { sign: assertionSigner({ issuer: "https://stc.test", privateKey: pem, now: () => 0, newId: () => "id" }) },
    );
    server.answer = (request) => show(request, 200);
    const got = JSON.stringify(await call(binding));
    expect(got).toContain('"ü":"ü"');
    expect(got).toContain("x-api-key: [REDACTED]");
    expect(got).toContain("x-caller-assertion: [REDACTED]");
    server.answer = (request) => show(request, 404);
    const text = Refusal.targetTextOf(await refusal(() => call(binding))) ?? "";
    expect(text).toContain("x-api-key: [REDACTED]");
    expect(got + text).not.toMatch(/key\+|eyJ/);
  });

  test("a read has no idempotency key, and a system may get no assertion", async () => {
    const { privateKey } = generateKeyPairSync("ed25519");
    const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    const sign = assertionSigner({ issuer: "https://stc.test", privateKey: pem, now: () => 0, newId: () => "id" });
    await call(bind({}, { isAsserted: false }, { sign }));
    expect(Object.keys(headersOf(0)).sort()).toEqual(["accept", "accept-encoding", "connection", "host", "user-agent"]);
  });

  test("a span of its own for each request", async () => {
    const ended: string[] = [];
    const requests: RequestTracer = {
      begin: (request) => ({
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        end: (status) => ended.push(`${request.method} ${request.path} ${status}`),
      }),
    };
    server.answer = () => answer(404);
    await refusal(() => call(bind(), {}, runContext({ requests })));
    expect(ended).toEqual(["GET /x 404"]);
  });
});

describe("an answer", () => {
  const TEXT = { output: z.strictObject({ text: z.string() }) };

  test.each([
    ["JSON", {}, json({ a: [1, "ü"] }), { a: [1, "ü"] }],
    [
      "a JSON type of one's own",
      {},
      answer(200, "[1]", { "content-type": "application/hal+json; charset=UTF-8" }),
      [1],
    ],
    ["one byte order mark", {}, answer(200, "\ufeff{}", { "content-type": "application/json" }), {}],
    ["text", TEXT, answer(200, "héllo", { "content-type": "text/plain;charset=utf-8" }), { text: "héllo" }],
    ["201", {}, json({ id: 1 }, 201), { id: 1 }],
    ["203", {}, json({ id: 1 }, 203), { id: 1 }],
    [
      "203 for a change, which a proxy on the way has answered with other content",
      { method: "POST", classification: "write" },
      json({ id: 1 }, 203),
      { id: 1 },
    ],
    ["204", {}, "HTTP/1.1 204 X\r\n\r\n", {}],
    ["an empty 200 without a type", {}, answer(200), {}],
    ["202 that means success", { means: { 202: "OK" } }, json({ id: 1 }, 202), { id: 1 }],
    ["404 that means success", { means: { 404: "OK" } }, json({ gone: true }, 404), { gone: true }],
    [
      "Set-Cookie, which is ignored",
      {},
      answer(200, "{}", { "content-type": "application/json", "set-cookie": "a=b" }),
      {},
    ],
    [
      "gzip",
      {},
      `HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: ${gzipSync("[7]").length}\r\n\r\n${gzipSync("[7]").toString("latin1")}`,
      [7],
    ],
  ] as const)("%s", async (_title, tool, text, result) => {
    server.answer = () => text;
    const binding = bind(tool as ApiToolOptions);
    expect(await call(binding)).toEqual(result);
    expect(await call(binding)).toEqual(result);
    expect(headersOf(1)["cookie"]).toBeUndefined();
  });

  test.each([
    ["no content type", answer(200, "{}"), "no content type"],
    ["HTML for a tool with fields", answer(200, "<p>", { "content-type": "text/html" }), "text, but the output"],
    ["bytes", answer(200, "x", { "content-type": "application/octet-stream" }), "neither JSON nor text"],
    ["another charset", answer(200, "{}", { "content-type": "application/json; charset=utf-16" }), "another charset"],
    [
      "two charsets",
      answer(200, "{}", { "content-type": "application/json; charset=utf-8; charset=utf-16" }),
      "another charset",
    ],
    ["no JSON", answer(200, "{", { "content-type": "application/json" }), "not acceptable JSON"],
    ["two marks", answer(200, "\ufeff\ufeff{}", { "content-type": "application/json" }), "byte order mark"],
    ["too deep", answer(200, "[".repeat(200), { "content-type": "application/json" }), "not acceptable JSON"],
    ["an unknown compression", answer(200, "x", { "content-encoding": "zstd" }), "encoding"],
  ])("%s is INVALID_OUTPUT", async (_title, text, because) => {
    server.answer = () => text;
    const got = await refusal(() => call(bind()));
    expect([got.code, JSON.stringify(got.cause)]).toEqual(["INVALID_OUTPUT", expect.stringContaining(because)]);
  });

  test("one that is too large is not read to its end", async () => {
    server.answer = () => json("x".repeat(20_000));
    for (const tool of [{}, ORDER]) {
      const result = await call(bind(tool), { order: "7", tenant: "t", name: "n", count: 1 });
      expect(PartialAnswer.is(result)).toBe(true);
    }
  });
});

describe("a status", () => {
  const READ: ApiToolOptions = {};
  const CHANGE: ApiToolOptions = { method: "POST", classification: "write" };
  const REPEATABLE: ApiToolOptions = { ...CHANGE, idempotent: true };

  test.each([
    [400, READ, "TARGET_REFUSED", "INVALID_ARGUMENT", 1],
    [404, READ, "TARGET_REFUSED", "NOT_FOUND", 1],
    [404, CHANGE, "TARGET_REFUSED", "NOT_FOUND", 1],
    [409, CHANGE, "TARGET_REFUSED", "ALREADY_EXISTS", 1],
    [412, CHANGE, "TARGET_REFUSED", "FAILED_PRECONDITION", 1],
    [422, CHANGE, "TARGET_REFUSED", "INVALID_ARGUMENT", 1],
    [401, CHANGE, "TARGET_FAILED", "UNAUTHENTICATED", 1],
    [403, CHANGE, "TARGET_FAILED", "PERMISSION_DENIED", 1],
    [405, READ, "TARGET_FAILED", "UNKNOWN", 1],
    [301, READ, "TARGET_FAILED", "UNKNOWN", 1],
    [307, CHANGE, "TARGET_FAILED", "UNKNOWN", 1],
    [202, READ, "TARGET_FAILED", "UNKNOWN", 1],
    [202, CHANGE, "OUTCOME_UNKNOWN", "UNKNOWN", 1],
    [205, CHANGE, "OUTCOME_UNKNOWN", "UNKNOWN", 1],
    [206, READ, "TARGET_FAILED", "UNKNOWN", 1],
    [207, CHANGE, "OUTCOME_UNKNOWN", "UNKNOWN", 1],
    [429, READ, "TARGET_UNAVAILABLE", "RESOURCE_EXHAUSTED", 3],
    [429, CHANGE, "TARGET_UNAVAILABLE", "RESOURCE_EXHAUSTED", 1],
    [500, READ, "TARGET_UNAVAILABLE", "UNAVAILABLE", 3],
    [503, REPEATABLE, "TARGET_UNAVAILABLE", "UNAVAILABLE", 3],
    [503, CHANGE, "OUTCOME_UNKNOWN", "UNAVAILABLE", 1],
    [500, CHANGE, "OUTCOME_UNKNOWN", "UNAVAILABLE", 1],
  ] as const)("%d for %j is %s", async (status, tool, code, name, requests) => {
    server.answer = () => answer(status, "secret text", { location: "/elsewhere" });
    const got = await refusal(() => call(bind(tool)));
    expect([got.code, got.details, server.requests.length]).toEqual([
      code,
      { status: name, httpStatus: status },
      requests,
    ]);
    expect(JSON.stringify([got.message, got.details, got.cause])).not.toContain("secret text");
  });

  test("means what the manifest says", async () => {
    server.answer = () => answer(410);
    expect(await refusal(() => call(bind({ means: { 410: "NOT_FOUND" } })))).toMatchObject({
      ...{ code: "TARGET_REFUSED", details: { status: "NOT_FOUND", httpStatus: 410 } },
    });
  });

  test("keeps its meaning when its body is unusable", async () => {
    server.answer = () => `HTTP/1.1 404 X\r\n\r\nuntil the end`;
    expect((await refusal(() => call(bind()))).details).toEqual({ status: "NOT_FOUND", httpStatus: 404 });
    server.answer = () => answer(409, "x".repeat(20_000));
    expect((await refusal(() => call(bind(CHANGE)))).details).toEqual({ status: "ALREADY_EXISTS", httpStatus: 409 });
  });

  test.each([
    [429, READ, "30", "TARGET_UNAVAILABLE", 30_000],
    [429, CHANGE, "30", "TARGET_UNAVAILABLE", 30_000],
    [503, READ, "86400", "TARGET_UNAVAILABLE", 3_600_000],
    [503, REPEATABLE, "30", "TARGET_UNAVAILABLE", 30_000],
    [503, CHANGE, "30", "OUTCOME_UNKNOWN", undefined],
    [404, READ, "30", "TARGET_REFUSED", undefined],
    [403, READ, "30", "TARGET_FAILED", undefined],
  ] as const)("%d for %j with Retry-After: %s is one request and %s", async (status, tool, header, code, ms) => {
    server.answer = () => answer(status, "", { "retry-after": header });
    const got = await refusal(() => call(bind(tool)));
    expect([got.code, got.retryAfterMs, server.requests.length]).toEqual([code, ms, 1]);
  });

  test("Retry-After may be a date", async () => {
    const headers = { date: "Fri, 06 Nov 2026 08:49:37 GMT", "retry-after": "Fri, 06 Nov 2026 08:50:37 GMT" };
    server.answer = () => answer(429, "", headers);
    expect((await refusal(() => call(bind()))).retryAfterMs).toBe(60_000);
  });

  test("an unreadable Retry-After counts as absent", async () => {
    server.answer = () => answer(429, "", { "retry-after": "soon" });
    expect((await refusal(() => call(bind()))).retryAfterMs).toBeUndefined();
    expect(server.requests.length).toBe(3);
  });

  test("a short Retry-After is kept to", async () => {
    let count = 0;
    server.answer = () => (++count === 1 ? answer(503, "", { "retry-after": "1" }) : json({}));
    const before = performance.now();
    await call(bind());
    expect(performance.now() - before).toBeGreaterThan(900);
  });

  test("is a refusal whose text is released only if the manifest allows it", async () => {
    server.answer = () => answer(409, '{"detail":"taken"}', { "content-type": "application/problem+json" });
    const open = await refusal(() => call(bind({ ...CHANGE, errors: "filtered" })));
    expect(Refusal.targetTextOf(open)).toBe('{"detail":"taken"}');
    expect(Refusal.targetTextOf(await refusal(() => call(bind(CHANGE))))).toBeUndefined();
  });
});

describe("a broken connection", () => {
  const CHANGE: ApiToolOptions = { method: "POST", classification: "write" };

  test.each([
    ["before the answer", ({ socket }: { socket: { destroy(): unknown } }) => socket.destroy(), 3],
    ["within the head", ({ socket }: { socket: { end(text: string): unknown } }) => socket.end("HTTP/1.1 200"), 3],
  ] as const)("%s: reads are repeated, a change is OUTCOME_UNKNOWN", async (_title, reply, attempts) => {
    server.answer = (request) => void reply(request as never);
    expect((await refusal(() => call(bind()))).code).toBe("TARGET_UNAVAILABLE");
    expect(server.requests).toHaveLength(attempts);
    expect((await refusal(() => call(bind(CHANGE)))).code).toBe("OUTCOME_UNKNOWN");
    expect(server.requests).toHaveLength(attempts + 1);
  });

  test("a body that only the end of the connection bounds is TARGET_FAILED", async () => {
    server.answer = ({ socket }) => void socket.end("HTTP/1.1 200 X\r\ncontent-type: application/json\r\n\r\n{}");
    expect((await refusal(() => call(bind()))).code).toBe("TARGET_FAILED");
    expect((await refusal(() => call(bind(CHANGE)))).code).toBe("OUTCOME_UNKNOWN");
  });

  test("no server: nothing was sent, also for a change", async () => {
    server.close();
    for (const tool of [{}, CHANGE]) {
      const got = await refusal(() => call(bind(tool)));
      expect([got.code, got.details]).toEqual(["TARGET_UNAVAILABLE", { status: "UNAVAILABLE" }]);
    }
  });

  test.each([
    ["private", "10.0.0.1"],
    ["metadata", "169.254.169.254"],
    ["embedded", "64:ff9b::7f00:1"],
  ])("one %s address among the answers: nothing is sent, and nothing is repeated", async (name, address) => {
    let lookups = 0;
    const resolve = async (): Promise<readonly string[]> => {
      lookups += 1;
      return ["127.0.0.1", address];
    };
    const got = await refusal(() => call(bind({}, {}, { resolve })));
    expect([got.code, lookups, server.connections]).toEqual(["TARGET_UNAVAILABLE", 1, 0]);
    expect(JSON.stringify(got.cause)).toContain(`the host has a ${name} address`);
    expect(JSON.stringify([got.message, got.details])).not.toContain(name);
  });

  test("a call that has ended before its connection is there sends nothing", async () => {
    const begin = () => {
      throw new Refusal("DEADLINE_EXCEEDED", "over");
    };
    for (const kept of [false, true]) {
      if (kept) await call(bind());
      const before = server.requests.length;
      await refusal(() => call(bind(CHANGE), {}, runContext({ begin })));
      expect(server.requests).toHaveLength(before);
    }
    const begun: string[] = [];
    await call(bind(CHANGE), {}, runContext({ begin: () => void begun.push("begun") }));
    expect([begun.length, bind(CHANGE).callsBegin]).toEqual([1, true]);
  });

  test("a deadline ends a slow answer: a read is late, the outcome of a change unknown", async () => {
    // The deadline comes when the request is there and the answer has begun.
    let deadline = new AbortController();
    server.answer = () => {
      setTimeout(() => deadline.abort(new DOMException("", "TimeoutError")), 20);
      return "HTTP/1.1 200 X\r\ncontent-length: 5\r\n\r\n1";
    };
    const late = () => {
      deadline = new AbortController();
      return runContext({ signal: deadline.signal });
    };
    expect((await refusal(() => call(bind(), {}, late()))).code).toBe("DEADLINE_EXCEEDED");
    expect((await refusal(() => call(bind(CHANGE), {}, late()))).code).toBe("OUTCOME_UNKNOWN");
    const cancelled = runContext({ signal: AbortSignal.abort() });
    expect((await refusal(() => call(bind(), {}, cancelled))).code).toBe("CANCELLED");
  });

  test("after many failures the circuit opens, and closes with the next success", async () => {
    const resilience = { ...RESILIENCE_DEFAULTS, circuitFailuresMax: 2, circuitOpenMs: 1_000, retriesMax: 0 };
    server.answer = ({ socket }) => void socket.destroy();
    const handler = handlerOf(httpSystem(server.port, { resilience }));
    handlers.push(handler);
    const binding = handler.bind(apiTool());
    for (const _ of [1, 2, 3]) expect((await refusal(() => call(binding))).code).toBe("TARGET_UNAVAILABLE");
    expect([server.requests.length, handler.status()["api"]?.circuit]).toEqual([2, "open"]);
    server.answer = () => json({});
    await Bun.sleep(1_010);
    expect(await call(binding)).toEqual({});
    expect(handler.status()["api"]).toEqual({
      ...{ circuit: "closed", connections: 1, certificateExpiresAt: null },
      calls: { inFlight: 0, max: 256 },
    });
  });

  test("more concurrent calls than allowed are refused", async () => {
    const resilience = { ...RESILIENCE_DEFAULTS, concurrentCallsMax: 1 };
    server.answer = () => undefined;
    const binding = bind({}, { resilience });
    const signal = AbortSignal.timeout(100);
    const first = refusal(() => call(binding, {}, runContext({ signal })));
    expect((await refusal(() => call(binding))).code).toBe("OVERLOADED");
    await first;
  });
});

test.each([
  ["read", "POST", "is read, but the request is a POST"],
  ["read", "GET", undefined],
  ["write", "POST", undefined],
] as const)("a tool classified as %s with the method %s", (classification, method, doubt) => {
  expect(bind({ classification, method }).classificationDoubt?.()).toBe(doubt);
});
