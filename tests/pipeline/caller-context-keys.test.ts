import { afterAll, afterEach, describe, expect, test } from "bun:test";
import type { ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { Refusal } from "../../src/core/errors.ts";
import { type CallerVerifier, createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import { jwksUrl } from "../../src/pipeline/identity/remote-keys.ts";
import { type JwksServer, publish, startJwksServer } from "../support/jwks-server.ts";
import { agentsProfile, goodClaims, issueToken, makeSigningKey, NOW_SECONDS, privateJwk } from "../support/tokens.ts";
import { until } from "../support/until.ts";

const first = makeSigningKey("ES256", "k1");
const second = makeSigningKey("ES256", "k2");
const stranger = makeSigningKey("ES256", "k1");
const COOLDOWN_MS = 30_000;
const FRESH_MS = 300_000;
const RENEW_MS = 240_000;

interface World {
  readonly server: JwksServer;
  readonly context: CallerVerifier;
  readonly changed: string[];
  /** Milliseconds past the tests' time. */
  elapsedMs: number;
}

const servers: JwksServer[] = [];
async function makeWorld(keysTimeoutMs = 2_000): Promise<World> {
  const server = await startJwksServer(first);
  servers.push(server);
  const changed: string[] = [];
  const profile = agentsProfile([], { algorithms: ["ES256"], keys: jwksUrl(server.url) });
  const context = createCallerVerifier({
    issuers: [profile],
    clock: () => NOW_SECONDS * 1000 + world.elapsedMs,
    keysTimeoutMs,
    onKeysChanged: (issuer) => changed.push(issuer),
  });
  const world: World = { server, context, changed, elapsedMs: 0 };
  return world;
}
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

let serial = 0;
/** A token that was never seen before, valid for an hour from the world's beginning. */
function fresh(key = first, kid: string | undefined = key.kid): Promise<string> {
  serial += 1;
  const claims = goodClaims({ jti: String(serial), iat: NOW_SECONDS, exp: NOW_SECONDS + 3600 });
  return issueToken(key, claims, { kid });
}

/** `"ok"`, or the refusal's code. */
async function outcome(world: World, token: string): Promise<string> {
  try {
    await world.context.verifyToken(token, "agents");
    return "ok";
  } catch (error) {
    return error instanceof Refusal ? error.code : String(error);
  }
}

describe("a working JWKS URL", () => {
  test("is fetched once for many tokens", async () => {
    const world = await makeWorld();
    const tokens = await Promise.all(Array.from({ length: 20 }, () => fresh()));
    expect(await Promise.all(tokens.map((token) => outcome(world, token)))).toEqual(Array(20).fill("ok"));
    expect(await outcome(world, await fresh(stranger))).toBe("UNAUTHENTICATED");
    expect(world.server.requests).toBe(1);
  });

  test("50 unknown kids cause no fetch during the cool-down, and one after", async () => {
    const world = await makeWorld();
    await outcome(world, await fresh());
    const flood = () =>
      Promise.all(Array.from({ length: 50 }, async (_, i) => outcome(world, await fresh(stranger, `x${i}`))));
    expect(await flood()).toEqual(Array(50).fill("UNAUTHENTICATED"));
    expect(world.server.requests).toBe(1);
    world.elapsedMs += COOLDOWN_MS;
    expect(await flood()).toEqual(Array(50).fill("UNAUTHENTICATED"));
    expect(world.server.requests).toBe(2);
  });

  test("a new key is found once the cool-down is over", async () => {
    const world = await makeWorld();
    await outcome(world, await fresh());
    world.server.answer = publish(first, second);
    expect(await outcome(world, await fresh(second))).toBe("UNAUTHENTICATED");
    world.elapsedMs += COOLDOWN_MS;
    const rotated = await fresh(second);
    expect(await outcome(world, rotated)).toBe("ok");
    expect(await outcome(world, rotated)).toBe("ok");
    expect(world.changed).toEqual(["https://idp.test"]);
    expect(world.server.requests).toBe(2);
  });

  test("a withdrawn key stops working within five minutes, for tokens seen before too", async () => {
    const world = await makeWorld();
    const seen = await fresh();
    expect(await outcome(world, seen)).toBe("ok");
    world.elapsedMs += RENEW_MS - 1;
    const seenLater = await fresh();
    expect(await outcome(world, seenLater)).toBe("ok");
    world.server.answer = publish(second);
    expect(await outcome(world, seen)).toBe("ok");
    world.elapsedMs += FRESH_MS - RENEW_MS + 1;
    expect([await outcome(world, seenLater), await outcome(world, seen)]).toEqual([
      "UNAUTHENTICATED",
      "UNAUTHENTICATED",
    ]);
    expect(await outcome(world, await fresh(second))).toBe("ok");
  });

  test("a compressed answer is accepted, although none was requested", async () => {
    const world = await makeWorld();
    const packed = gzipSync(JSON.stringify({ keys: [first.jwk] }));
    world.server.answer = (response) => response.setHeader("content-encoding", "gzip").end(packed);
    expect(await outcome(world, await fresh())).toBe("ok");
  });

  test("a server that begins to hang delays nobody whose key is known and fresh", async () => {
    const world = await makeWorld(3_600_000);
    const seen = await fresh();
    expect(await outcome(world, seen)).toBe("ok");
    world.server.answer = () => {};
    world.elapsedMs += RENEW_MS;
    expect([await outcome(world, seen), await outcome(world, await fresh())]).toEqual(["ok", "ok"]);
    world.elapsedMs += FRESH_MS - RENEW_MS - 1;
    expect([await outcome(world, seen), await outcome(world, await fresh())]).toEqual(["ok", "ok"]);
    await until("the fetch", () => (world.server.requests === 2 ? true : undefined));
  });

  test("a withdrawal that is noticed earlier counts at once, for tokens seen before too", async () => {
    const world = await makeWorld();
    const seen = await fresh();
    await outcome(world, seen);
    world.server.answer = publish(second);
    world.elapsedMs += COOLDOWN_MS;
    expect(await outcome(world, seen)).toBe("ok");
    expect(await outcome(world, await fresh(second))).toBe("ok");
    expect(await outcome(world, seen)).toBe("UNAUTHENTICATED");
  });

  test("tokens that no key could verify cause no fetch", async () => {
    const world = await makeWorld();
    const rsa = makeSigningKey("RS256", "k1");
    expect(await outcome(world, await fresh(rsa))).toBe("UNAUTHENTICATED");
    expect(await outcome(world, "a.b.c")).toBe("UNAUTHENTICATED");
    expect(await outcome(world, await issueToken(first, goodClaims({ iss: "x" })))).toBe("UNAUTHENTICATED");
    expect(world.server.requests).toBe(0);
  });

  test("an emptied set withdraws every key", async () => {
    const world = await makeWorld();
    await outcome(world, await fresh());
    world.server.answer = publish();
    world.elapsedMs += FRESH_MS;
    expect(await outcome(world, await fresh())).toBe("UNAUTHENTICATED");
  });

  test("the same keys again change nothing", async () => {
    const world = await makeWorld();
    await outcome(world, await fresh());
    world.elapsedMs += FRESH_MS;
    expect(await outcome(world, await fresh())).toBe("ok");
    expect([world.server.requests, world.changed]).toEqual([2, []]);
  });

  test("a clock that is set back does not stop the refresh of keys", async () => {
    const world = await makeWorld();
    world.elapsedMs = 4_000;
    await outcome(world, await fresh());
    world.elapsedMs = 0;
    expect(await outcome(world, await fresh())).toBe("ok");
    expect(world.server.requests).toBe(2);
  });

  const weak = makeSigningKey("RS256", "weak", 1024);
  test.each([
    ["private keys", { ...privateJwk(first), kid: "k1" }],
    ["keys for encryption", { ...first.jwk, use: "enc" }],
    ["keys for another operation", { ...first.jwk, use: undefined, key_ops: ["sign"] }],
    ["keys of another algorithm", { ...first.jwk, alg: "ES384" }],
    ["symmetric keys", { kty: "oct", k: "c2VjcmV0", kid: "k1" }],
    ["weak keys", weak.jwk],
    ["malformed keys", { ...first.jwk, x: "AA" }],
  ])("%s are left out, the others work", async (_title, jwk) => {
    const world = await makeWorld();
    world.server.answer = (response) => response.end(JSON.stringify({ keys: [jwk, second.jwk] }));
    expect(await outcome(world, await fresh(first))).toBe("UNAUTHENTICATED");
    expect(await outcome(world, await fresh(second))).toBe("ok");
  });
});

const elsewhere = await startJwksServer(first);
afterAll(() => elsewhere.close());

const OUTAGES: readonly (readonly [string, (response: ServerResponse) => void])[] = [
  ["500", (response) => response.writeHead(500).end("{}")],
  ["404", (response) => response.writeHead(404).end("{}")],
  ["204", (response) => response.writeHead(204).end()],
  ["302 to a good set", (response) => response.writeHead(302, { location: elsewhere.url }).end()],
  ["307 to a good set", (response) => response.writeHead(307, { location: elsewhere.url }).end()],
  ["reset", (response) => response.destroy()],
  ["cut off", (response) => response.writeHead(200, { "content-length": 9999 }).write("{", () => response.destroy())],
  ["empty", (response) => response.end()],
  ["HTML", (response) => response.end("<html>sign in</html>")],
  ["invalid UTF-8", (response) => response.end(Buffer.from([0xff, 0xfe]))],
  ["null", (response) => response.end("null")],
  ["array", (response) => response.end("[]")],
  ["no keys member", (response) => response.end("{}")],
  ["keys is an object", (response) => response.end('{"keys":{"0":{}}}')],
  ["keys holds null", (response) => response.end('{"keys":[null]}')],
  ["257 keys", (response) => response.end(JSON.stringify({ keys: Array(257).fill(first.jwk) }))],
  ["2 MiB of white space", (response) => response.end(`${" ".repeat(2_097_152)}{"keys":[]}`)],
  ["no answer", () => undefined],
  ["headers, then nothing", (response) => response.writeHead(200).write("{")],
];

describe.each(OUTAGES.map((row) => [...row] as const))("a JWKS URL that answers: %s", (_title, answer) => {
  test("at first: AUTH_UNAVAILABLE, one fetch at a time, and recovery afterwards", async () => {
    const world = await makeWorld(150);
    world.server.answer = answer;
    const tokens = await Promise.all(Array.from({ length: 5 }, () => fresh()));
    expect(await Promise.all(tokens.map((token) => outcome(world, token)))).toEqual(Array(5).fill("AUTH_UNAVAILABLE"));
    expect(await outcome(world, await fresh())).toBe("AUTH_UNAVAILABLE");
    expect(world.server.requests).toBe(1);
    world.server.answer = publish(first);
    world.elapsedMs += 2_000;
    expect(await outcome(world, await fresh())).toBe("ok");
    expect(elsewhere.requests).toBe(0);
  });

  test("later: known kids keep working, unknown ones are AUTH_UNAVAILABLE", async () => {
    const world = await makeWorld(150);
    const seen = await fresh();
    await outcome(world, seen);
    world.server.answer = answer;
    world.elapsedMs += FRESH_MS;
    expect([await outcome(world, seen), await outcome(world, await fresh())]).toEqual(["ok", "ok"]);
    expect(await outcome(world, await fresh(second))).toBe("AUTH_UNAVAILABLE");
    expect(await outcome(world, await fresh(stranger))).toBe("UNAUTHENTICATED");
    expect(world.server.requests).toBe(2);
  });
});

test("in an outage a token with a known key does not wait for the next try; one with another key does", async () => {
  const world = await makeWorld(60_000);
  const seen = await fresh();
  await outcome(world, seen);
  world.server.answer = (response) => response.writeHead(503).end();
  world.elapsedMs += FRESH_MS;
  expect(await outcome(world, seen)).toBe("ok");
  const { promise: asked, resolve } = Promise.withResolvers<ServerResponse>();
  world.server.answer = resolve;
  world.elapsedMs += COOLDOWN_MS;
  expect([await outcome(world, seen), await outcome(world, await fresh())]).toEqual(["ok", "ok"]);
  const rotated = outcome(world, await fresh(second));
  publish(second)(await asked);
  expect(await rotated).toBe("ok");
  expect([await outcome(world, seen), await outcome(world, await fresh())]).toEqual(Array(2).fill("UNAUTHENTICATED"));
  expect(world.server.requests).toBe(3);
});

test("keys are discarded when an outage lasts a day", async () => {
  const world = await makeWorld();
  await outcome(world, await fresh());
  world.server.answer = (response) => response.writeHead(503).end();
  world.elapsedMs += 86_400_001;
  const now = NOW_SECONDS + 86_401;
  const token = await issueToken(first, goodClaims({ iat: now - 5, exp: now + 60 }));
  expect(await outcome(world, token)).toBe("AUTH_UNAVAILABLE");
});

test("the refusal says when to come back, and nothing about the keys", async () => {
  const world = await makeWorld();
  world.server.answer = (response) => response.writeHead(500).end();
  const refusal: unknown = await world.context.verifyToken(await fresh(), "agents").catch((error: unknown) => error);
  expect(refusal).toMatchObject({
    code: "AUTH_UNAVAILABLE",
    message: "The token cannot be verified at the moment: wait and call again with the same token.",
    retryAfterMs: 2_000,
    details: undefined,
  });
});

describe("keys that a former verifier fetched", () => {
  async function successor(world: World, { issuer = goodClaims()["iss"], elapsedMs = 0 } = {}): Promise<World> {
    const keys = jwksUrl(world.server.url);
    const context = createCallerVerifier({
      issuers: [agentsProfile([], { algorithms: ["ES256"], keys, issuer: String(issuer) })],
      clock: () => NOW_SECONDS * 1000 + elapsedMs,
      former: world.context,
    });
    return { ...world, context };
  }

  test("count while nothing can be fetched, for a day since they were, and for their issuer alone", async () => {
    const world = await makeWorld();
    expect(await outcome(world, await fresh())).toBe("ok");
    world.server.answer = (response) => response.writeHead(500).end();
    const next = await successor(world);
    expect(await outcome(next, await fresh())).toBe("ok");
    expect(await outcome(await successor(next, { elapsedMs: 3_500_000 }), await fresh())).toBe("ok");
    const late = await successor(next, { elapsedMs: 86_400_001 });
    expect(await outcome(late, await fresh())).toBe("AUTH_UNAVAILABLE");
    expect(next.context.fetchedKeys("https://another.test", world.server.url)).toBeUndefined();
    expect(next.context.fetchedKeys(String(goodClaims()["iss"]), `${world.server.url}?`)).toBeUndefined();
  });

  test("are fetched again at the first use: a withdrawn one ends there", async () => {
    const world = await makeWorld();
    expect(await outcome(world, await fresh())).toBe("ok");
    world.server.answer = publish(second);
    expect(await outcome(await successor(world), await fresh())).toBe("UNAUTHENTICATED");
    expect(world.server.requests).toBe(2);
  });
});
