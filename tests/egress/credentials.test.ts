import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { RunContext } from "../../src/core/types.ts";
import { EgressClient } from "../../src/egress/client.ts";
import {
  clientCredentialsGrant,
  type GrantOf,
  OAuthTokens,
  readBasic,
  readSecret,
  type TokenEndpoint,
  tokenExchangeGrant,
} from "../../src/egress/credentials.ts";
import { RawServer } from "../support/raw-server.ts";
import { until } from "../support/until.ts";
import { answer, apiTool, call, handlerOf, httpSystem, json, refusal, runContext } from "../targets/http/support.ts";

let tokens: RawServer;
let api: RawServer;
let client: EgressClient;
let now: number;
beforeEach(async () => {
  [tokens, api] = await Promise.all([RawServer.start(), RawServer.start()]);
  client = new EgressClient({ addresses: { classes: ["loopback"] }, resolve: async () => ["127.0.0.1"] });
  now = 1_000_000;
  tokens.answer = () => json({ access_token: `t${tokens.requests.length}`, token_type: "Bearer", expires_in: 100 });
  api.answer = () => json({});
});
afterEach(() => {
  client.close();
  tokens.close();
  api.close();
});

function credentials(more: Partial<TokenEndpoint> = {}, grantOf: GrantOf = clientCredentialsGrant): OAuthTokens {
  const endpoint: TokenEndpoint = {
    url: new URL(`http://idp.test:${tokens.port}/token`),
    clientId: "stc client",
    readSecret: () => "s:e+c",
    clientAuthentication: "basic",
    timeoutMs: 5_000,
    ...more,
  };
  return new OAuthTokens(endpoint, { grantOf, client, now: () => now });
}

const bearer = async (of: OAuthTokens, changes: Partial<RunContext> = {}): Promise<string | undefined> =>
  (await of.header(runContext(changes)))["authorization"];

describe("tokens of client credentials", () => {
  test("are requested as RFC 6749 says", async () => {
    expect(await bearer(credentials({ scope: "a b", audience: "api", resource: "https://api" }))).toBe("Bearer t1");
    await bearer(credentials({ clientAuthentication: "post" }));
    const [[first = "", body], [second = "", posted]] = tokens.requests.map(({ text }) => text.split("\r\n\r\n")) as [
      string[],
      string[],
    ];
    expect(first).toContain("POST /token HTTP/1.1");
    expect(first).toContain(`authorization: Basic ${Buffer.from("stc+client:s%3Ae%2Bc").toString("base64")}`);
    expect(body).toBe("grant_type=client_credentials&scope=a+b&audience=api&resource=https%3A%2F%2Fapi");
    expect(second).not.toContain("authorization");
    expect(posted).toBe("grant_type=client_credentials&client_id=stc+client&client_secret=s%3Ae%2Bc");
  });

  test("are fetched once for all waiting calls, kept, and renewed before they expire", async () => {
    const held = credentials();
    expect(new Set(await Promise.all([1, 2, 3, 4].map(() => bearer(held))))).toEqual(new Set(["Bearer t1"]));
    now += 79_000;
    expect(await bearer(held)).toBe("Bearer t1");
    now += 2_000;
    // Still valid: the next one is fetched meanwhile.
    expect(await bearer(held)).toBe("Bearer t1");
    await until("the next token", async () => ((await bearer(held)) === "Bearer t2" ? true : undefined));
    now += 200_000;
    expect(await bearer(held)).toBe("Bearer t3");
    expect(tokens.requests).toHaveLength(3);
  });

  test.each([0, -5, "0", "-1e9"])(
    "with a lifetime of %j are used by the waiting calls, and not kept",
    async (expires_in) => {
      tokens.answer = () => json({ access_token: `t${tokens.requests.length}`, token_type: "Bearer", expires_in });
      const held = credentials();
      expect(await Promise.all([bearer(held), bearer(held)])).toEqual(["Bearer t1", "Bearer t1"]);
      expect(await bearer(held)).toBe("Bearer t2");
    },
  );

  test.each([1e308, "1e999", "soon", null, undefined, {}])(
    "with a lifetime of %j are kept, and not for ever",
    async (expires_in) => {
      tokens.answer = () => json({ access_token: `t${tokens.requests.length}`, token_type: "Bearer", expires_in });
      const held = credentials();
      await bearer(held);
      expect(await bearer(held)).toBe("Bearer t1");
      now += 86_400_001;
      expect(await bearer(held)).toBe("Bearer t2");
    },
  );

  test("a call that ends does not wait for a token, and others get it", async () => {
    let release = (): void => {};
    tokens.answer = ({ socket }) => {
      release = () => void socket.write(json({ access_token: "late", token_type: "bearer" }));
    };
    const held = credentials();
    const controller = new AbortController();
    const ended = held.header(runContext({ signal: controller.signal })).catch((error: unknown) => error);
    const waiting = bearer(held);
    await until("the request", () => (tokens.requests.length === 1 ? true : undefined));
    controller.abort(new DOMException("late", "TimeoutError"));
    expect(await ended).toMatchObject({ failure: "aborted", sent: false });
    release();
    expect(await waiting).toBe("Bearer late");
  });

  test.each([
    ["a refusal without a reason", answer(401, "no")],
    ["an answer that it is overloaded", answer(429, '{"error":"slow_down"}')],
    ["a failure", answer(503, '{"error":"server_error"}')],
    ["a redirect", answer(302, "", { location: "http://elsewhere/" })],
    ["no JSON", answer(200, "t")],
    ["no token", json({ token_type: "Bearer" })],
    ["another kind of token", json({ access_token: "t", token_type: "mac" })],
    ["a token that breaks a header", json({ access_token: "t\r\nx: y", token_type: "Bearer" })],
    ["an answer without end", answer(200, "x".repeat(70_000))],
  ])("%s: TARGET_UNAVAILABLE, and the API gets nothing", async (_title, text) => {
    tokens.answer = () => text;
    const handler = handlerOf(httpSystem(api.port, { credentials: credentials() }));
    const binding = handler.bind(apiTool({ method: "POST", classification: "write" }));
    const got = await refusal(() => call(binding));
    expect([got.code, got.details, api.requests.length]).toEqual(["TARGET_UNAVAILABLE", { status: "UNAVAILABLE" }, 0]);
    expect(JSON.stringify([got.message, got.details, got.cause])).not.toMatch(/s:e\+c|invalid_client|x: y/);
    await handler.close();
  });

  test("a refusal by the endpoint is no outage: TARGET_FAILED, and only the operator learns why", async () => {
    const long = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2ln";
    const given: readonly (readonly [unknown, string])[] = [
      [{ error: "invalid_client" }, "invalid_client (status 400)"],
      [
        { error: "invalid_scope", error_description: `no \u202escope ${long}` },
        "invalid_scope (status 400): no \\u{202e}scope …",
      ],
      [{ error: "invalid_client", error_description: "s:e+c is wrong" }, "invalid_client (status 400)"],
    ];
    for (const [body, because] of given) {
      tokens.answer = () => json(body, 400);
      const handler = handlerOf(httpSystem(api.port, { credentials: credentials() }));
      const got = await refusal(() => call(handler.bind(apiTool({ method: "POST", classification: "write" }))));
      expect([got.code, got.details, api.requests.length]).toEqual(["TARGET_FAILED", { status: "UNAUTHENTICATED" }, 0]);
      expect(got.cause).toEqual({ hint: "nothing was sent: the token endpoint refused", because });
      expect(got.message).toBe("The service's authorization server gave no token for this call.");
      await handler.close();
    }
  });

  test("a 401 gets one new token for all calls, and a change is sent once more", async () => {
    api.answer = ({ text }) => (text.includes("Bearer t1") ? answer(401) : json({}));
    const handler = handlerOf(httpSystem(api.port, { credentials: credentials() }));
    const binding = handler.bind(apiTool({ method: "POST", classification: "write" }));
    await Promise.all([call(binding), call(binding), call(binding)]);
    expect([tokens.requests.length, api.requests.length]).toEqual([2, 6]);
    await handler.close();
  });

  test("a token that the service refuses is replaced once, not at every call", async () => {
    api.answer = () => answer(401);
    const handler = handlerOf(httpSystem(api.port, { credentials: credentials() }));
    const binding = handler.bind(apiTool());
    const attempt = async () => (await refusal(() => call(binding))).details;
    expect(await attempt()).toEqual({ status: "UNAUTHENTICATED", httpStatus: 401 });
    expect([tokens.requests.length, api.requests.length]).toEqual([2, 2]);
    await attempt();
    expect([tokens.requests.length, api.requests.length]).toEqual([2, 3]);
    now += 10_000;
    await attempt();
    expect([tokens.requests.length, api.requests.length]).toEqual([3, 5]);
    await handler.close();
  });
});

describe("tokens that are exchanged for the caller's", () => {
  const caller = { issuer: "https://idp.test", subject: "ann", permissions: [], actors: [], expiresAt: 2_000 };

  test("are requested with the caller's token, and kept for that caller, chain and token only", async () => {
    const held = credentials({ audience: "orders" }, tokenExchangeGrant);
    const as = (changes: Partial<typeof caller>, token = "own") =>
      bearer(held, { caller: { ...caller, ...changes }, callerToken: () => token });
    expect([await as({}), await as({}), await as({ subject: "bob" })]).toEqual(["Bearer t1", "Bearer t1", "Bearer t2"]);
    expect([await as({ actors: ["x"] } as never), await as({ issuer: "https://y" })]).toEqual([
      "Bearer t3",
      "Bearer t4",
    ]);
    expect([await as({}, "another"), await as({})]).toEqual(["Bearer t5", "Bearer t1"]);
    expect(tokens.requests[0]?.text.split("\r\n\r\n")[1]).toBe(
      "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token=own&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token&audience=orders",
    );
  });

  test("are never used after the caller's own token has expired", async () => {
    const held = credentials({}, tokenExchangeGrant);
    const short = { caller: { ...caller, expiresAt: 1_010 }, callerToken: () => "own" };
    expect(await bearer(held, short)).toBe("Bearer t1");
    now += 11_000;
    expect(await bearer(held, short)).toBe("Bearer t2");
  });

  test.each([
    ["the caller's own token", "own.token.x", "TARGET_FAILED"],
    ["the client's secret", "s:e+c", "TARGET_FAILED"],
    ["a token that begins like it", "own.token.xy", undefined],
    ["another token", "other.token.x", undefined],
  ])("that are %s", async (_title, value, code) => {
    tokens.answer = () => json({ access_token: value, token_type: "Bearer", expires_in: 100 });
    const handler = handlerOf(httpSystem(api.port, { credentials: credentials({}, tokenExchangeGrant) }));
    const context = runContext({ caller, callerToken: () => "own.token.x" });
    const run = () => call(handler.bind(apiTool({ method: "POST", classification: "write" })), {}, context);
    if (code === undefined) {
      await run();
      expect(api.requests[0]?.text).toContain(`authorization: Bearer ${value}\r\n`);
    } else {
      for (let attempt = 1; attempt <= 2; attempt += 1) {
        const got = await refusal(run);
        expect([got.code, got.message, got.details]).toEqual([
          ...[code, "The service's authorization server gave no token for this call."],
          { status: "UNAUTHENTICATED" },
        ]);
        expect(JSON.stringify([got, got.cause])).not.toContain(value);
        expect([tokens.requests.length, api.requests.length]).toEqual([attempt, 0]);
      }
    }
    await handler.close();
  });

  test("a caller without a token is refused, and the API gets nothing", async () => {
    const handler = handlerOf(httpSystem(api.port, { credentials: credentials({}, tokenExchangeGrant) }));
    const got = await refusal(() => call(handler.bind(apiTool())));
    expect([got.code, got.details, tokens.requests.length, api.requests.length]).toEqual([
      "TARGET_FAILED",
      { status: "UNAUTHENTICATED" },
      0,
      0,
    ]);
    await handler.close();
  });
});

test("a deadline during the token request: nothing was sent, also for a change", async () => {
  tokens.answer = () => undefined;
  const handler = handlerOf(httpSystem(api.port, { credentials: credentials() }));
  const late = () => runContext({ signal: AbortSignal.timeout(50) });
  expect((await refusal(() => call(handler.bind(apiTool()), {}, late()))).code).toBe("DEADLINE_EXCEEDED");
  const change = apiTool({ method: "POST", classification: "write" });
  expect((await refusal(() => call(handler.bind(change), {}, late()))).code).toBe("TARGET_UNAVAILABLE");
  expect(api.requests).toHaveLength(0);
  await handler.close();
});

test.each([
  ["secret\n", "secret"],
  ["a b", undefined],
  ["a\nb", undefined],
  ["é", undefined],
  ["", undefined],
])("a secret file with %j", (text, secret) => {
  const read = () => readSecret(Buffer.from(text));
  if (secret === undefined) expect(read).toThrow("must hold one line of visible ASCII");
  else expect(read()).toBe(secret);
});

test.each([
  ["ann:pass:word\n", `Basic ${Buffer.from("ann:pass:word").toString("base64")}`],
  ["ann:", undefined],
  [":x", undefined],
  ["ann", undefined],
  ["a\nb:c", undefined],
])("a file for basic authentication with %j", (text, header) => {
  const read = () => readBasic(Buffer.from(text));
  if (header === undefined) expect(read).toThrow("must hold one line, user:password");
  else expect(read()).toBe(header);
});
