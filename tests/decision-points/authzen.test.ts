import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { MODULES } from "../../src/modules.ts";
import { ModuleWorld } from "../modules/module-world.ts";
import type { Reply } from "../support/asking-service.ts";
import { RawServer } from "../support/raw-server.ts";
import { Authority } from "../support/tls-files.ts";
import { answerOf, decision, evaluations, expectUndecided, pointAt } from "./authzen-service.ts";

const world = new ModuleWorld();
let pdp: RawServer;
beforeEach(async () => {
  pdp = await RawServer.start();
  pdp.answer = () => decision(true);
});
afterEach(async () => {
  await world.stop();
  pdp.close();
});
afterAll(() => world.end());

/** Starts the service with this decision point. */
async function serve(more: Readonly<Record<string, unknown>> = {}, sections: object = {}): Promise<void> {
  await world.start(MODULES, { decisionPoints: [pointAt(pdp, more)], ...sections });
}

const pay = (amount = 7, more: Readonly<Record<string, unknown>> = {}): Promise<Reply> =>
  world.call("pay", { amount }, more);

function allowed({ http, body }: Reply): unknown {
  return [http, body.result ?? body.error];
}

describe("the question to a decision point", () => {
  test("follows the default mapping of COAZ-MCP, and its id is the call's", async () => {
    await serve({ arguments: "all", claims: ["department"] });
    const claims = { client_id: "assistant-3", department: "sales", act: { sub: "agent-9" }, secret_claim: "hidden" };
    const token = await world.agent({ permissions: ["money:send"], claims });
    const reply = await world.send("POST", "/call", { token, body: { tool: "pay", args: { amount: 7 } } });
    expect(allowed(reply)).toEqual([200, { paid: 7 }]);
    const [sent] = evaluations(pdp);
    expect(sent?.head.split("\r\n")[0]).toBe("POST /access/v1/evaluation HTTP/1.1");
    expect(sent?.head.toLowerCase()).toContain(`x-request-id: ${reply.body.traceId}`);
    expect(sent?.body).toEqual({
      subject: {
        type: "identity",
        id: "agent-7",
        properties: {
          issuer: "https://idp.test",
          permissions: ["money:send"],
          act: ["agent-9"],
          claims: { department: "sales" },
        },
      },
      action: { name: "tools/call" },
      resource: {
        type: "tool",
        id: "pay",
        properties: { system: "inline", classification: "write", category: "network" },
      },
      context: { agent: "assistant-3", arguments: { amount: 7 } },
    });
    expect(world.entry(reply.body.traceId)).not.toHaveProperty("decisionReasons");
  });

  test.each([
    ["none", undefined],
    ["inputPolicy", { amount: "[not logged]" }],
    [undefined, { amount: "[not logged]" }],
    ["all", { amount: 7 }],
  ])("holds the arguments that `arguments: %s` allows", async (seen, expected) => {
    await serve(seen === undefined ? {} : { arguments: seen });
    await pay();
    expect(evaluations(pdp)[0]?.body.context.arguments).toEqual(expected);
  });

  test("is not asked about tools that `when` leaves out, and not after a built-in denial", async () => {
    await serve({ when: { tools: ["ref*"] } });
    pdp.answer = () => decision(false);
    expect(allowed(await pay())).toEqual([200, { paid: 7 }]);
    expect((await world.call("refund", { amount: 1 })).http).toBe(403);
    const token = await world.agent({ permissions: [] });
    await world.send("POST", "/call", { token, body: { tool: "refund", args: { amount: 1 } } });
    expect(pdp.requests).toHaveLength(1);
  });

  test("carries the bearer token of a file, and a new one when the point refuses it", async () => {
    const file = join(world.folder, "token");
    writeFileSync(file, "first-token-value\n");
    await serve({ authzen: { auth: { bearerFile: "./token" } } });
    pdp.answer = ({ text }) => {
      if (text.includes("Bearer second-token-value")) return decision(true);
      writeFileSync(file, "second-token-value\n");
      return answerOf("{}", { status: "401 Unauthorized" });
    };
    expect((await pay()).http).toBe(200);
    expect(pdp.requests.map(({ text }) => /authorization: (.*)\r/i.exec(text)?.[1])).toEqual([
      "Bearer first-token-value",
      "Bearer second-token-value",
    ]);
  });
});

describe("a denial", () => {
  test("reaches the agent without the point's texts, and the operators with them, bounded and without secrets", async () => {
    await serve({ authzen: { auth: { bearerFile: "./token" } } });
    const secret = `ghp_${"a1B2".repeat(9)}`;
    writeFileSync(join(world.folder, "token"), "the-token-of-the-service");
    const reasons = { reason_admin: { en: `limit of team blue\nfor ${secret}`, de: "the-token-of-the-service" } };
    pdp.answer = () => decision(false, { ...reasons, reason_user: { "en-403": "ask your admin ".repeat(50) } });
    const { http, body } = await pay();
    expect([http, body.error.code, body.error.message]).toEqual([
      ...[403, "POLICY_DENIED", "A policy of the service's operators forbids this call."],
    ]);
    expect(JSON.stringify(body)).not.toMatch(/blue|admin|token/);
    const recorded = world.entry(body.traceId)?.decisionReasons ?? [];
    expect(recorded.map(({ point, verdict }) => [point, verdict])).toEqual(Array(3).fill(["pdp", "deny"]));
    expect(recorded[0]?.reason).toMatch(/^limit of team blue for \[REDACTED/);
    expect(recorded[1]?.reason).toBe("[REDACTED]");
    expect(recorded[2]?.reason).toHaveLength(200);
  });
});

describe("only the JSON value true in a JSON answer with status 200 allows a call", () => {
  const big = JSON.stringify({ decision: true, context: { fill: "x".repeat(70_000) } });
  const deep = `{"decision":true,"context":${"[".repeat(40)}${"]".repeat(40)}}`;
  const location = "location: /other\r\n";
  const rows: readonly (readonly [string, string, RegExp])[] = [
    ["the text true", answerOf('{"decision":"true"}'), /no decision/],
    ["the number 1", answerOf('{"decision":1}'), /no decision/],
    ["null", answerOf('{"decision":null}'), /no decision/],
    ["no decision", answerOf('{"Decision":true}'), /no decision/],
    ["a list", answerOf('[{"decision":true}]'), /no decision/],
    ["true alone", answerOf("true"), /no decision/],
    ["a decision that is inherited", answerOf('{"__proto__":{"decision":true}}'), /__proto__/],
    ["two decisions", answerOf('{"decision":false,"decision":true}'), /duplicate key/],
    [
      "two decisions, one spelled with an escape",
      answerOf('{"decision":false,"\\u0064ecision":true}'),
      /duplicate key/,
    ],
    ["text after the value", answerOf('{"decision":true} {"decision":false}'), /unexpected text/],
    ["a byte order mark", answerOf('\ufeff{"decision":true}'), /byte order mark/],
    ["nothing", answerOf(""), /empty/],
    ["HTML", answerOf('{"decision":true}', { type: "text/html" }), /media type/],
    ["no media type", 'HTTP/1.1 200 OK\r\ncontent-length: 17\r\n\r\n{"decision":true}', /media type/],
    ["plain text", answerOf('{"decision":true}', { type: "text/plain; a=application/json" }), /media type/],
    ["deep nesting", answerOf(deep), /deeper/],
    ["a huge body", answerOf(big), /too large/],
    ["a compressed body that is huge", answerOf("x", { more: "content-encoding: gzip\r\n" }), /compressed/],
    ["a redirect", answerOf('{"decision":true}', { status: "302 Found", more: location }), /status 302/],
    [
      "a redirect that repeats the body",
      answerOf("", { status: "307 Temporary Redirect", more: location }),
      /status 307/,
    ],
    ["status 201", answerOf('{"decision":true}', { status: "201 Created" }), /status 201/],
    ["status 206", answerOf('{"decision":true}', { status: "206 Partial Content" }), /status 206/],
    ["status 403", answerOf('{"decision":true}', { status: "403 Forbidden" }), /status 403/],
    ["status 503", answerOf('{"decision":true}', { status: "503 Service Unavailable" }), /status 503/],
    [
      "a body that ends early",
      'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{"decision":true}',
      /connection bounds/,
    ],
    ["no HTTP", "decision: true\r\n\r\n", /no usable answer/],
  ];

  test("of the other answers, none does", async () => {
    await serve({ timeoutMs: 20_000, authzen: { breaker: { failuresMax: 1_000 } } });
    for (const [title, answer, reason] of rows) {
      pdp.answer = () => answer;
      const reply = await pay();
      expect([title, reply.http]).toEqual([title, 403]);
      expectUndecided(world, reply, reason);
    }
    expect(pdp.requests).toHaveLength(rows.length);
    pdp.answer = () => answerOf('{"decision":true}', { type: "Application/JSON; charset=UTF-8" });
    expect((await pay()).http).toBe(200);
  });

  test("and an answer that does not come in time denies: silence, a body without an end, a stream of chunks", async () => {
    await serve({ timeoutMs: 300, authzen: { breaker: { failuresMax: 1_000 } } });
    const head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    const timers: ReturnType<typeof setInterval>[] = [];
    const answers = [
      () => undefined,
      () => `${head}content-length: 100\r\n\r\n{"decision":true`,
      ({ socket }: { readonly socket: { write(text: string): void } }) => {
        socket.write(`${head}transfer-encoding: chunked\r\n\r\n11\r\n{"decision":true}\r\n`);
        timers.push(setInterval(() => socket.write("1\r\n \r\n"), 20));
        return undefined;
      },
    ];
    for (const answer of answers) {
      pdp.answer = answer as typeof pdp.answer;
      expectUndecided(world, await pay(), /no answer within 300 ms/);
    }
    for (const timer of timers) clearInterval(timer);
  });

  test("and a connection that is reset, or that there is none to, denies", async () => {
    await serve({ timeoutMs: 20_000, authzen: { breaker: { failuresMax: 1_000 } } });
    pdp.answer = ({ socket }) => void socket.resetAndDestroy();
    expectUndecided(world, await pay(), /no usable answer: the connection ended/);
    pdp.close();
    expectUndecided(world, await pay(), /no usable answer: no connection/);
  });

  test("and a claim with a number that has lost digits denies, and is not sent", async () => {
    await serve({ claims: ["account", "ids"] });
    const payWith = async (claims: Readonly<Record<string, unknown>>): Promise<Reply> => {
      const token = await world.agent({ permissions: ["money:send"], claims });
      return world.send("POST", "/call", { token, body: { tool: "pay", args: { amount: 7 } } });
    };
    for (const claims of [{ account: 2 ** 53 }, { account: 7, ids: [1, { of: -1e300 }] }]) {
      expectUndecided(world, await payWith(claims), /claim \w+ has a number beyond 2\^53: issue it as a string/);
    }
    expect(pdp.requests).toHaveLength(0);
    expect(allowed(await payWith({ account: Number.MAX_SAFE_INTEGER, other: 2 ** 53 }))).toEqual([200, { paid: 7 }]);
  });

  test("and an address that is not allowed is never asked", async () => {
    const url = `http://localhost:${pdp.port}`;
    await world.start(MODULES, { decisionPoints: [{ name: "pdp", authzen: { url, addresses: ["public"] } }] });
    expectUndecided(world, await pay(), /loopback address/);
    expect(pdp.requests).toHaveLength(0);
  });

  test("and a point that keeps failing opens its circuit: it is not asked any more", async () => {
    await serve({ authzen: { breaker: { failuresMax: 2, openMs: 600_000 } } });
    pdp.answer = ({ socket }) => void socket.resetAndDestroy();
    await pay();
    await pay();
    expectUndecided(world, await pay(), /circuit is open/);
    expect(pdp.requests).toHaveLength(2);
  });
});

describe("TLS", () => {
  test("a certificate of another name or of another authority denies, the right one with a client certificate allows", async () => {
    const authority = await Authority.create("The company");
    const [right, wrong, client] = await Promise.all([
      authority.issue("pdp"),
      authority.issue("other", { names: [{ type: "dns", value: "other.test" }] }),
      authority.issue("stc"),
    ]);
    const other = await (await Authority.create("Another company")).issue("pdp");
    for (const [name, text] of [
      ["ca.pem", authority.pem],
      ["client.pem", client.cert],
      ["client.key", client.key],
    ] as const)
      writeFileSync(join(world.folder, name), text, { mode: 0o600 });
    const tls = { rootCert: "./ca.pem", clientCert: "./client.pem", clientKey: "./client.key" };
    const outcomes: unknown[] = [];
    for (const pair of [wrong, other, right]) {
      const secured = await RawServer.start({
        ...{ cert: pair.cert, key: pair.key, ca: authority.pem, requestCert: true, rejectUnauthorized: true },
      });
      secured.answer = () => decision(true);
      const authzen = { url: `https://127.0.0.1:${secured.port}`, addresses: ["loopback"], tls, retries: 0 };
      await world.start(MODULES, { decisionPoints: [{ name: "pdp", timeoutMs: 20_000, authzen }] });
      outcomes.push([(await pay()).http, secured.requests.length]);
      await world.stop();
      secured.close();
    }
    expect(outcomes).toEqual([
      [403, 0],
      [403, 0],
      [200, 1],
    ]);
  });
});

describe("an answer is kept", () => {
  test("only where `cacheSeconds` says so, only if it allows, and only for the same caller, tool and arguments", async () => {
    await serve({ arguments: "all", cacheSeconds: 60 });
    await pay(1);
    await pay(1);
    expect(pdp.requests).toHaveLength(1);
    await pay(2);
    await world.call("refund", { amount: 1 });
    const token = await world.agent({ permissions: ["money:send"], sub: "agent-8" });
    await world.send("POST", "/call", { token, body: { tool: "pay", args: { amount: 1 } } });
    expect(pdp.requests).toHaveLength(4);
    pdp.answer = () => decision(false);
    await pay(9);
    expect((await pay(9)).http).toBe(403);
    expect(pdp.requests).toHaveLength(6);
  });

  test("and without it, every call is asked about", async () => {
    await serve();
    await pay(1);
    await pay(1);
    expect(pdp.requests).toHaveLength(2);
  });
});
