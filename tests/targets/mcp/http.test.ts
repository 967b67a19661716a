import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { createHash, generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createMcpHandler, Server } from "@modelcontextprotocol/server";
import { jwtVerify } from "jose";
import { type CertificateSet, DEVELOPMENT_SERVER_NAME } from "../../../src/cli/development/certificates.ts";
import { EgressClient } from "../../../src/egress/client.ts";
import { httpChannel } from "../../../src/targets/mcp/http.ts";
import { until } from "../../support/until.ts";
import { makeAuthority } from "../grpc/support/authority.ts";
import { definition, HttpServer } from "./http-server.ts";
import { codeOf, HostileWorld, hostileTool } from "./world.ts";

describe("a server over HTTP", () => {
  const world = new HostileWorld();
  const server = new HttpServer();
  const entryWithoutToken = { url: server.url, plaintext: true, addresses: ["loopback"] };
  const entry = { ...entryWithoutToken, auth: { bearerFile: "upstream-token" } };

  beforeAll(async () => {
    writeFileSync(join(world.folder, "upstream-token"), "token-of-the-service\n");
    const tools = [hostileTool("echo"), hostileTool("echo", { change: true }), hostileTool("missing")];
    await world.startWith(tools, entry);
  });
  beforeEach(() => {
    server.seen.length = 0;
  });
  const usual = server.call;
  afterEach(() => {
    server.call = usual;
  });
  afterAll(async () => {
    await world.end();
    await server.close();
  });

  test("a call carries the service's own token, the session and the tool, and never the caller's token", async () => {
    const token = await world.agent();
    expect((await world.call("echo", "hello", { token })).body.result).toEqual({ text: "hello" });
    const [call] = server.of("tools/call");
    expect(call?.headers).toMatchObject({
      authorization: "Bearer token-of-the-service",
      "mcp-session-id": "session-1",
      "mcp-protocol-version": "2025-11-25",
      "mcp-method": "tools/call",
      "mcp-name": "echo",
    });
    expect(JSON.stringify(server.seen)).not.toContain(token);
    expect(call?.message.params).toMatchObject({ name: "echo", arguments: { text: "hello" } });
  });

  test("a changed token is used for the next request", async () => {
    writeFileSync(join(world.folder, "upstream-token"), "another-token");
    await world.call("echo");
    expect(server.of("tools/call")[0]?.headers["authorization"]).toBe("Bearer another-token");
  });

  test("an answer may be a stream of events, with messages before it", async () => {
    server.call = (id) =>
      server.events(
        { jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: 1, progress: 1 } },
        { jsonrpc: "2.0", id: "s1", method: "sampling/createMessage", params: {} },
        { jsonrpc: "2.0", id: 77_777, result: { content: [{ type: "text", text: "for another" }] } },
        { jsonrpc: "2.0", id, result: { content: [{ type: "text", text: "in the stream" }] } },
      );
    expect((await world.call("echo")).body.result).toEqual({ text: "in the stream" });
    while (!server.seen.some(({ message }) => message?.id === "s1")) await Bun.sleep(5);
    expect(server.seen.find(({ message }) => message?.id === "s1")?.message.error.code).toBe(-32_601);
  });

  const answers: readonly (readonly [string, HttpServer["call"], string, string])[] = [
    [
      "a redirect",
      () => new Response(null, { status: 307, headers: { location: "http://127.0.0.1:1/" } }),
      "TARGET_FAILED",
      "TARGET_FAILED",
    ],
    ["status 401", () => new Response("no", { status: 401 }), "TARGET_FAILED", "TARGET_FAILED"],
    ["status 429", () => new Response("slow down", { status: 429 }), "TARGET_UNAVAILABLE", "TARGET_UNAVAILABLE"],
    [
      "status 429 with an error",
      (id) => server.json({ jsonrpc: "2.0", id, error: { code: -32_000, message: "slow down" } }, { status: 429 }),
      "TARGET_UNAVAILABLE",
      "TARGET_UNAVAILABLE",
    ],
    ["status 500", () => new Response("broken", { status: 500 }), "TARGET_UNAVAILABLE", "OUTCOME_UNKNOWN"],
    ["status 202", () => new Response(null, { status: 202 }), "TARGET_FAILED", "OUTCOME_UNKNOWN"],
    [
      "a page",
      () => new Response("<html>", { headers: { "content-type": "text/html" } }),
      "TARGET_FAILED",
      "OUTCOME_UNKNOWN",
    ],
    [
      "an empty body",
      () => new Response("", { headers: { "content-type": "application/json" } }),
      "TARGET_FAILED",
      "OUTCOME_UNKNOWN",
    ],
    [
      "an answer to another request",
      (id) => server.json({ jsonrpc: "2.0", id: id + 1_000, result: {} }),
      "TARGET_FAILED",
      "OUTCOME_UNKNOWN",
    ],
    [
      "a list of answers",
      (id) => server.json([{ jsonrpc: "2.0", id, result: {} }]),
      "TARGET_FAILED",
      "OUTCOME_UNKNOWN",
    ],
    [
      "a stream without the answer",
      () => server.events({ jsonrpc: "2.0", method: "x" }),
      "TARGET_FAILED",
      "OUTCOME_UNKNOWN",
    ],
    [
      "a compressed answer",
      (id) =>
        new Response(Bun.gzipSync(JSON.stringify({ jsonrpc: "2.0", id, result: {} })), {
          headers: { "content-type": "application/json", "content-encoding": "gzip" },
        }),
      "TARGET_FAILED",
      "OUTCOME_UNKNOWN",
    ],
    [
      "an answer over the limit",
      (id) => server.json({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text: "x".repeat(2_000_000) }] } }),
      "OUTPUT_TOO_LARGE",
      "OUTCOME_UNKNOWN",
    ],
    [
      "an event over the limit",
      (id) =>
        server.events({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text: "x".repeat(2_000_000) }] } }),
      "OUTPUT_TOO_LARGE",
      "OUTCOME_UNKNOWN",
    ],
    [
      "an endless stream of nothing",
      () => new Response(endless(), { headers: { "content-type": "text/event-stream" } }),
      "OUTPUT_TOO_LARGE",
      "OUTCOME_UNKNOWN",
    ],
    [
      "an error of the protocol",
      (id) => server.json({ jsonrpc: "2.0", id, error: { code: -32_603, message: "broken" } }, { status: 400 }),
      "TARGET_FAILED",
      "TARGET_FAILED",
    ],
  ];

  test.each(answers)("%s: a read and a change", async (_what, answer, read, change) => {
    server.call = answer;
    expect(codeOf(await world.call("echo"))).toBe(read);
    expect(codeOf(await world.call("change_echo"))).toBe(change);
    server.call = usual;
    expect((await world.call("echo")).http).toBe(200);
  });

  const written = (id: number, result: string): Response => {
    const headers = { "content-type": "application/json" };
    return new Response(`{"jsonrpc":"2.0","id":${id},"result":${result}}`, { headers });
  };

  test.each([
    [
      "a number of 64 bits in what is not released",
      '{"content":[{"type":"text","text":"fine"}],"n":12345678901234567890}',
    ],
    ["a duplicate key there", '{"content":[{"type":"text","text":"fine"}],"_meta":{"a":1,"a":2}}'],
    ["a key __proto__ there", '{"content":[{"type":"text","text":"fine"}],"__proto__":{"isError":true}}'],
  ])("%s does not withhold the answer", async (_what, result) => {
    server.call = (id) => written(id, result);
    expect((await world.call("echo")).body.result).toEqual({ text: "fine" });
    expect((await world.call("change_echo")).body.result).toEqual({ text: "fine" });
  });

  test.each([429, 503])(
    "status %d with Retry-After is one request, and the agent learns how long to wait",
    async (status) => {
      server.call = () => new Response("slow down", { status, headers: { "retry-after": "30" } });
      const { body } = await world.call("echo");
      expect(body.error).toMatchObject({ code: "TARGET_UNAVAILABLE", retryable: true, retryAfterMs: 30_000 });
      expect(world.entry(body.traceId)).toMatchObject({ decision: "ERROR", error: { code: "TARGET_UNAVAILABLE" } });
      expect(server.of("tools/call")).toHaveLength(1);
    },
  );

  test("half a surrogate pair is U+FFFD in the text that is released", async () => {
    server.call = (id) =>
      written(id, '{"content":[{"type":"text","text":"half \\ud83d of a pair, whole \\ud83d\\ude00"}]}');
    expect((await world.call("echo")).body.result).toEqual({ text: "half \ufffd of a pair, whole \u{1f600}" });
  });

  test.each([
    ["isError", '{"content":[{"type":"text","text":"x"}],"isError":true,"isError":false}'],
    ["content", '{"content":[],"content":[{"type":"text","text":"x"}]}'],
  ])("a result whose %s is there twice is INVALID_OUTPUT", async (_member, result) => {
    server.call = (id) => written(id, result);
    const { body } = await world.call("echo");
    expect(body.error).toMatchObject({ code: "INVALID_OUTPUT", stage: "OUTPUT" });
    expect(world.entry(body.traceId)).toMatchObject({ decision: "ERROR", error: { code: "INVALID_OUTPUT" } });
  });

  test("a definition with a duplicate key, whose last value is the pinned one, quarantines its tool", async () => {
    const usualList = server.list;
    server.list = (id) => {
      const text = JSON.stringify({ jsonrpc: "2.0", id, result: { tools: server.tools } });
      const twice = text.replace('"description":"Does echo"', '"description":"Sends mail","description":"Does echo"');
      return new Response(twice, { headers: { "content-type": "application/json" } });
    };
    const doubled = new HostileWorld();
    try {
      await doubled.startWith([hostileTool("echo")], entryWithoutToken);
      const { body } = await doubled.call("echo");
      expect(body.error).toMatchObject({ code: "TARGET_UNAVAILABLE", stage: "EXECUTION", retryable: false });
      expect(doubled.entry(body.traceId)).toMatchObject({ decision: "ERROR", error: { code: "TARGET_UNAVAILABLE" } });
      expect(server.of("tools/call")).toEqual([]);
    } finally {
      server.list = usualList;
      await doubled.end();
    }
  });

  test("a text with many digits is no number", async () => {
    expect((await world.call("echo", "12345678901234567890")).body.result).toEqual({ text: "12345678901234567890" });
  });

  test("a connection that ends without an answer leaves a change unknown", async () => {
    server.call = () =>
      new Response(new ReadableStream({ pull: (controller) => controller.error(new Error("cut")) }), {
        headers: { "content-type": "application/json" },
      });
    expect(codeOf(await world.call("change_echo"))).toBe("OUTCOME_UNKNOWN");
  });

  const gone = { code: -32_001, message: "Session not found" };
  const withError = (status: number, id?: null) => (asked: number) =>
    server.json({ jsonrpc: "2.0", id: id === null ? id : asked, error: gone }, { status });
  test.each<readonly [string, HttpServer["gone"]]>([
    ["status 404", () => new Response(null, { status: 404 })],
    ["status 404 and an error", withError(404)],
    ["status 400", () => new Response("No valid session ID provided", { status: 400 })],
    ["status 400 and an error without an id", withError(400, null)],
    ["status 400 and an error", withError(400)],
    ["status 200 and an error", withError(200)],
  ])(
    "a session that the server has ended with %s is replaced: a read goes on, a change is not repeated",
    async (_what, answer) => {
      const sessionsOfCalls = () => server.of("tools/call").map(({ headers }) => headers["mcp-session-id"]);
      server.gone = answer;
      for (const [tool, next] of [
        ["echo", "session-2"],
        ["change_echo", "session-3"],
      ] as const) {
        await world.call("echo");
        server.seen.length = 0;
        const former = server.sessionId;
        server.sessionId = next;
        const reply = await world.call(tool);
        if (tool === "echo") {
          expect(reply.body.result).toEqual({ text: "hello" });
          expect(sessionsOfCalls()).toEqual([former, next]);
        } else {
          expect(codeOf(reply)).toBe("TARGET_UNAVAILABLE");
          expect(sessionsOfCalls()).toEqual([former]);
          expect((await world.call(tool)).body.result).toEqual({ text: "hello" });
        }
      }
    },
  );

  test("a session in which the list of tools is refused is replaced before the call, also for a change", async () => {
    server.gone = withError(400, null);
    server.call = (id) =>
      server.events(
        { jsonrpc: "2.0", method: "notifications/tools/list_changed" },
        { jsonrpc: "2.0", id, result: { content: [] } },
      );
    await world.call("echo");
    server.call = usual;
    server.sessionId = "session-after-the-list";
    server.seen.length = 0;
    expect((await world.call("change_echo")).body.result).toEqual({ text: "hello" });
    expect(server.of("tools/call").map(({ headers }) => headers["mcp-session-id"])).toEqual(["session-after-the-list"]);
  });

  test.each<readonly [string, HttpServer["call"], string]>([
    ["status 400", () => new Response("bad", { status: 400 }), "TARGET_FAILED"],
    ["an error", (id) => server.json({ jsonrpc: "2.0", id, error: { code: -32_000, message: "no" } }), "TARGET_FAILED"],
    [
      "an error for the arguments",
      (id) => server.json({ jsonrpc: "2.0", id, error: { code: -32_602, message: "no" } }),
      "TARGET_REFUSED",
    ],
    [
      "status 400, an error for the arguments and a result that is null",
      (id) =>
        server.json({ jsonrpc: "2.0", id, result: null, error: { code: -32_602, message: "no" } }, { status: 400 }),
      "TARGET_REFUSED",
    ],
    [
      "status 400 and an error that is null",
      (id) => server.json({ jsonrpc: "2.0", id, error: null }, { status: 400 }),
      "TARGET_FAILED",
    ],
  ])("a call that a server refuses with %s in a session that it knows is sent once", async (_what, answer, code) => {
    await world.call("echo");
    server.seen.length = 0;
    server.call = answer;
    expect(codeOf(await world.call("echo"))).toBe(code);
    expect(codeOf(await world.call("change_echo"))).toBe(code);
    expect([server.of("tools/call").length, server.of("initialize").length]).toEqual([2, 0]);
  });

  test("only an answer with status 200 is a success", async () => {
    for (const [status, ofRead, ofChange] of [
      [302, "TARGET_FAILED", "TARGET_FAILED"],
      [404, "TARGET_UNAVAILABLE", "TARGET_UNAVAILABLE"],
      [422, "TARGET_FAILED", "TARGET_FAILED"],
      [500, "TARGET_UNAVAILABLE", "OUTCOME_UNKNOWN"],
    ] as const) {
      server.call = (id) =>
        server.json({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text: "x" }] } }, { status });
      expect([status, codeOf(await world.call("echo"))]).toEqual([status, ofRead]);
      expect([status, codeOf(await world.call("change_echo"))]).toEqual([status, ofChange]);
    }
  });

  test("a stream whose answer came in another stream is closed", async () => {
    let send: (text: string) => void = () => {};
    const stream = (start: (controller: ReadableStreamDefaultController<Uint8Array>) => void): Response =>
      new Response(new ReadableStream({ start }), { headers: { "content-type": "text/event-stream" } });
    const listened = Promise.withResolvers<void>();
    const usualListen = server.listen;
    server.listen = () => {
      listened.resolve();
      return stream((controller) => {
        send = (text) => controller.enqueue(Buffer.from(text));
        send(":\n\n");
      });
    };
    const token = await world.agent({ sub: "agent-of-two-streams" });
    await world.call("echo", "x", { token });
    await listened.promise;
    const closed = Promise.withResolvers<void>();
    server.call = (id, _message, signal) => {
      signal.addEventListener("abort", () => closed.resolve(), { once: true });
      send(
        `data: ${JSON.stringify({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text: "there" }] } })}\n\n`,
      );
      return stream((controller) => controller.enqueue(Buffer.from(":\n\n")));
    };
    expect((await world.call("echo", "x", { token })).body.result).toEqual({ text: "there" });
    await closed.promise;
    server.listen = usualListen;
  });

  test("a flood of pings is not answered by a flood of requests", async () => {
    const pings = Array.from({ length: 2_000 }, (_, index) => ({ jsonrpc: "2.0", id: `p${index}`, method: "ping" }));
    server.call = (id) =>
      server.events(...pings, { jsonrpc: "2.0", id, result: { content: [{ type: "text", text: "x" }] } });
    expect((await world.call("echo")).body.result).toEqual({ text: "x" });
    const replies = server.seen.filter(({ message }) => message !== undefined && message.method === undefined);
    expect(replies.length).toBeGreaterThan(0);
    expect(replies.length).toBeLessThan(200);
  });

  test("calls to a tool that the server does not offer start no session each", async () => {
    for (let count = 0; count < 4; count += 1) {
      expect((await world.call("missing")).body.error).toMatchObject({ code: "TARGET_UNAVAILABLE", retryable: false });
    }
    expect(server.of("initialize").length).toBeLessThan(2);
  });

  test("an event of very many lines is too large, although each has no data", async () => {
    server.call = () =>
      new Response(`${"data:\n".repeat(900_000)}\n`, { headers: { "content-type": "text/event-stream" } });
    expect(codeOf(await world.call("echo"))).toBe("OUTPUT_TOO_LARGE");
    expect(codeOf(await world.call("change_echo"))).toBe("OUTCOME_UNKNOWN");
  });

  test("definitions are read again after the news of a change", async () => {
    await world.call("echo");
    const before = server.of("tools/list").length;
    server.call = (id) =>
      server.events(
        { jsonrpc: "2.0", method: "notifications/tools/list_changed" },
        { jsonrpc: "2.0", id, result: { content: [] } },
      );
    await world.call("echo");
    server.call = usual;
    server.tools = [{ ...definition("echo"), description: "Another" }];
    const reply = await world.call("echo");
    expect(server.of("tools/list").length).toBeGreaterThan(before);
    expect(reply.body.error).toMatchObject({ code: "TARGET_UNAVAILABLE", retryable: false });
    server.tools = [definition("echo")];
  });
});

function endless(): ReadableStream<Uint8Array> {
  const chunk = Buffer.from(`: ${"x".repeat(65_000)}\n`);
  return new ReadableStream({
    pull(controller) {
      controller.enqueue(chunk);
    },
  });
}

const CLIENT = { tokenUrl: "https://login.example/token", clientId: "stc", clientSecretFile: "nowhere" };

describe("reaching a server over HTTP", () => {
  const world = new HostileWorld();
  const server = new HttpServer();
  afterEach(() => world.stop());
  afterAll(async () => {
    await world.end();
    await server.close();
  });

  test("an address that the configuration does not allow is never connected to", async () => {
    await expect(world.startWith([hostileTool("echo")], { url: server.url, plaintext: true })).rejects.toThrow(
      "systems.hostile.mcp.url: its address is loopback, which addresses does not allow",
    );
    const url = server.url.replace("127.0.0.1", "localhost");
    await world.startWith([hostileTool("echo")], { url, plaintext: true });
    expect(codeOf(await world.call("echo"))).toBe("TARGET_UNAVAILABLE");
    expect(server.seen).toEqual([]);
  });

  test("the stream of the server's own messages brings the news of other definitions, and the session is ended at the close", async () => {
    let news: ReadableStreamDefaultController<Uint8Array> | undefined;
    const setNews = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
      news = controller;
    };
    server.listen = () =>
      new Response(new ReadableStream({ start: setNews }), {
        headers: { "content-type": "text/event-stream" },
      });
    await world.startWith([hostileTool("echo")], { url: server.url, plaintext: true, addresses: ["loopback"] });
    expect((await world.call("echo")).http).toBe(200);
    while (news === undefined) await Bun.sleep(5);
    server.tools = [{ ...definition("echo"), description: "Another" }];
    const message = JSON.stringify({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
    news.enqueue(Buffer.from(`data: ${message}\n\n`));
    while ((await world.health()).body.systems.hostile.quarantined.length === 0) await Bun.sleep(20);
    expect((await world.call("echo")).body.error).toMatchObject({ code: "TARGET_UNAVAILABLE", retryable: false });
    expect(await world.metric("stc_mcp_quarantined_tools")).toEqual(['{system="hostile"} 1']);
    expect(await world.metric("stc_mcp_upstreams")).toEqual(['{system="hostile",state="connected"} 1']);
    server.tools = [definition("echo")];
    news.enqueue(Buffer.from(`data: ${message}\n\n`));
    while ((await world.health()).body.systems.hostile.quarantined.length > 0) await Bun.sleep(20);
    expect(await world.metric("stc_mcp_quarantined_tools")).toEqual(['{system="hostile"} 0']);
    const lines = world.journal().filter(({ type }) => type.startsWith("upstream."));
    expect(lines).toEqual([
      expect.objectContaining({
        ...{ type: "upstream.quarantined", system: "hostile", tool: "echo" },
        changes: expect.arrayContaining(['description: "Does echo" → "Another"']),
      }),
      expect.objectContaining({ type: "upstream.restored", system: "hostile", tool: "echo" }),
    ]);
    await world.stop();
    expect(server.of("DELETE").map(({ headers }) => headers["mcp-session-id"])).toContain("session-1");
  });

  test("changed certificates are used, those that cannot connect are refused, and `/metrics` has their expiry", async () => {
    const [own, other] = await Promise.all([makeAuthority("own"), makeAuthority("other")]);
    const [first, second, strange] = await Promise.all([own.set(), own.set(), other.set()]);
    const { cert, key } = first.server;
    const tls = { cert, key, ca: first.rootCert, requestCert: true, rejectUnauthorized: true };
    const secured = new HttpServer(tls);
    const write = (set: CertificateSet): void => {
      writeFileSync(join(world.folder, "ca.pem"), first.rootCert);
      writeFileSync(join(world.folder, "client.pem"), set.client.cert);
      writeFileSync(join(world.folder, "client-key.pem"), set.client.key);
    };
    const event = (type: string) =>
      until(type, () => world.journal().find((each) => each["type"] === type && each["system"] === "hostile"));
    write(first);
    const files = { rootCert: "ca.pem", clientCert: "client.pem", clientKey: "client-key.pem" };
    await world.startWith([hostileTool("echo")], {
      ...{ url: secured.url, addresses: ["loopback"] },
      tls: { ...files, serverName: DEVELOPMENT_SERVER_NAME },
    });
    expect((await world.call("echo")).http).toBe(200);
    write(second);
    await event("certificates.changed");
    expect((await world.call("echo")).http).toBe(200);
    write(strange);
    await event("certificates.refused");
    expect((await world.call("echo")).http).toBe(200);
    const token = await world.person({ permissions: ["metrics:read"] });
    const metrics = await fetch(`${world.url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
    expect(await metrics.text()).toContain('stc_certificate_expiry_timestamp_seconds{system="hostile"} 4102444800');
    await world.stop();
    await secured.close();
  });

  test("the end of a connection ends its requests in progress", async () => {
    const silent = new HttpServer();
    silent.sessionId = undefined;
    const given: AbortSignal[] = [];
    silent.call = (_id, _message, signal) => {
      given.push(signal);
      return new Promise<Response>(() => {});
    };
    const client = new EgressClient({ addresses: { classes: ["loopback"] } });
    const lost: number[] = [];
    const channel = httpChannel({
      ...{ system: "silent", url: new URL(silent.url), client: () => client, messageBytesMax: 10_000 },
      ...{ credentials: undefined, sign: undefined, now: Date.now },
    })({
      ...{ message: () => true, isWaiting: () => true, tooLarge: () => {}, log: () => {} },
      lost: (id) => lost.push(id),
    });
    for (const id of [1, 2]) await channel.send({ id, method: "tools/call", params: { name: "echo" } });
    while (given.length < 2) await Bun.sleep(5);
    await channel.close();
    while (lost.length < 2 || !given.every(({ aborted }) => aborted)) await Bun.sleep(5);
    expect(lost.sort()).toEqual([1, 2]);
    await silent.close();
  });

  test("calls carry the caller assertion where it is set, and nothing else does", async () => {
    const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    writeFileSync(join(world.folder, "assertion.pem"), privateKey.export({ type: "pkcs8", format: "pem" }));
    const assertion = { issuer: "https://stc.test", keyFile: "assertion.pem" };
    const entry = { url: server.url, plaintext: true, addresses: ["loopback"] };
    const asserted = async (): Promise<readonly (readonly [string, string | undefined])[]> => {
      server.seen.length = 0;
      expect((await world.call("echo")).http).toBe(200);
      return server.seen.map(({ headers, message }) => [message?.method, headers["x-caller-assertion"]]);
    };
    await world.startWith([hostileTool("echo")], { ...entry, assertion: true }, { assertion });
    const sent = await asserted();
    expect(sent.flatMap(([method, token]) => (token === undefined ? [] : [method]))).toEqual(["tools/call"]);
    const [call] = server.of("tools/call");
    const token = call?.headers["x-caller-assertion"] ?? "";
    const { payload } = await jwtVerify(token, publicKey, { issuer: "https://stc.test", audience: "hostile" });
    expect(payload).toMatchObject({ sub: "agent-7", tool: "echo", method: "POST /mcp" });
    expect(payload["messageSha256"]).toBe(createHash("sha256").update(JSON.stringify(call?.message)).digest("hex"));
    await world.stop();
    await world.startWith([hostileTool("echo")], entry, { assertion });
    expect((await asserted()).every(([, none]) => none === undefined)).toBe(true);
  });

  test("a server that refuses the credentials for its list of tools has failed, and is not unavailable", async () => {
    const strict = new HttpServer();
    strict.list = () => new Response("no", { status: 401 });
    await world.startWith([hostileTool("echo")], { url: strict.url, plaintext: true, addresses: ["loopback"] });
    expect(codeOf(await world.call("echo"))).toBe("TARGET_FAILED");
    await world.stop();
    await strict.close();
  });

  test("a server that cannot be reached is a metric, and its tools are not quarantined", async () => {
    const closed = new HttpServer();
    await closed.close();
    await world.startWith([hostileTool("echo")], { url: closed.url, plaintext: true, addresses: ["loopback"] });
    expect(codeOf(await world.call("echo"))).toBe("TARGET_UNAVAILABLE");
    expect(await world.metric("stc_mcp_upstreams")).toEqual(['{system="hostile",state="failed"} 1']);
    expect(await world.metric("stc_mcp_quarantined_tools")).toEqual(['{system="hostile"} 0']);
  });

  test.each([
    ["the official server, for the versions with initialize", "stateless"],
    ["the official server, for 2026-07-28 only", "reject"],
  ] as const)("%s", async (_what, legacy) => {
    const handler = createMcpHandler(
      () => {
        const official = new Server({ name: "official", version: "1" }, { capabilities: { tools: {} } });
        official.setRequestHandler("tools/list", () => ({ tools: [definition("echo")] }));
        official.setRequestHandler("tools/call", ({ params }) => ({
          content: [{ type: "text", text: String(params.arguments?.["text"]) }],
        }));
        return official;
      },
      { legacy },
    );
    const http = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: (request) => handler.fetch(request) });
    const url = `http://127.0.0.1:${http.port}/mcp`;
    await world.startWith([hostileTool("echo")], { url, plaintext: true, addresses: ["loopback"] });
    const reply = await world.call("echo", "to the official server");
    expect(reply.body.result).toEqual({ text: "to the official server" });
    await world.stop();
    await http.stop(true);
  });

  test.each([
    [{ url: "http://x.example/mcp" }, "systems.hostile.mcp.url: is not https"],
    [{ url: "ftp://x.example" }, "systems.hostile.mcp.url"],
    [{ url: "http://127.0.0.1/mcp" }, "systems.hostile.mcp.url: its address is loopback"],
    [{ url: "https://user:password@x.example/mcp" }, "systems.hostile.mcp.url"],
    [{ url: "https://x.example", command: "node" }, "systems.hostile.mcp.command: and url exclude each other"],
    [{ url: "https://x.example", addresses: ["169.254.169.254/32"] }, "addresses"],
    [{ url: "https://x.example", tls: { clientCert: "x" } }, "clientCert and clientKey go together"],
    [{ command: "node", auth: { bearerFile: "x" } }, "systems.hostile.mcp.auth: needs url"],
    [{ command: "node", assertion: true }, "systems.hostile.mcp.assertion: needs url"],
    [{ url: "https://x.example", auth: {} }, "systems.hostile.mcp.auth: needs exactly one of bearerFile, basicFile"],
    [
      { url: "https://x.example", auth: { bearerFile: "nowhere" } },
      "systems.hostile.mcp.auth.bearerFile: nowhere cannot be read (ENOENT)",
    ],
    [
      { url: "https://x.example", stateless: true, auth: { tokenExchange: CLIENT } },
      "systems.hostile.mcp.stateless: shares one session, and auth.tokenExchange needs one for each caller",
    ],
    [{}, "systems.hostile.mcp.url: is missing"],
  ])("%o is an error with its field", async (entry, message) => {
    await expect(world.startWith([hostileTool("echo")], entry)).rejects.toThrow(message);
  });
});
