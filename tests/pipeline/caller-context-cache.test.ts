import { describe, expect, test } from "bun:test";
import { Refusal, StartupError } from "../../src/core/errors.ts";
import { createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import { TokenCache } from "../../src/pipeline/identity/cache.ts";
import { agentsProfile, goodClaims, issueToken, makeSigningKey, NOW_SECONDS } from "../support/tokens.ts";

const key = makeSigningKey("ES256", "k1");
const other = makeSigningKey("ES256", "k2");
const profile = agentsProfile([key]);

/** A context whose clock can be moved; `seconds` counts from the tests' time. */
function makeContext(cacheEntriesMax = 100) {
  const time = { seconds: 0 };
  const clock = () => (NOW_SECONDS + time.seconds) * 1000;
  return { time, context: createCallerVerifier({ issuers: [profile], clock, cacheEntriesMax }) };
}

describe("a token that was seen before", () => {
  test("gives the same evidence without a new verification", async () => {
    const { context } = makeContext();
    const token = await issueToken(key);
    expect(await context.verifyToken(token, "agents")).toBe(await context.verify(`bearer ${token}`, "agents"));
  });

  test("is recalled synchronously, and only then", async () => {
    const { context, time } = makeContext();
    const token = await issueToken(key);
    const recall = (text = token) => context.recall(`Bearer ${text}`, "agents");
    expect(recall()).toBeUndefined();
    const verified = await context.verify(`Bearer ${token}`, "agents");
    expect(recall()).toBe(verified);
    expect([recall("x"), recall(`${token}x`), context.recall(undefined, "agents")]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    expect(() => context.recall(`Bearer ${token}`, "operators")).toThrow(Refusal);
    time.seconds = 300;
    expect(recall()).toBeUndefined();
  });

  test("seen twenty times at once is verified once", async () => {
    const { context } = makeContext();
    const token = await issueToken(key);
    const all = await Promise.all(Array.from({ length: 20 }, () => context.verifyToken(token, "agents")));
    expect(new Set(all).size).toBe(1);
  });

  test("is verified again after five minutes, after clear and after reload", async () => {
    const { context, time } = makeContext();
    const token = await issueToken(key, goodClaims({ exp: NOW_SECONDS + 3000 }));
    const seen = [await context.verifyToken(token, "agents")];
    time.seconds = 299;
    expect(await context.verifyToken(token, "agents")).toBe(seen[0] as never);
    time.seconds = 300;
    seen.push(await context.verifyToken(token, "agents"));
    context.clear();
    seen.push(await context.verifyToken(token, "agents"));
    context.reload([profile]);
    seen.push(await context.verifyToken(token, "agents"));
    expect(new Set(seen).size).toBe(4);
  });

  test.each([
    ["expired", 606, "The token has expired: get a new one and call again."],
    [
      "the clock was set back before iat",
      -66,
      "The token is from the future: the clocks of its issuer and of this service differ. Call again in a minute, or tell the service's operators.",
    ],
  ])("is refused when %s", async (_title, seconds, message) => {
    const { context, time } = makeContext();
    const token = await issueToken(key);
    await context.verifyToken(token, "agents");
    time.seconds = 590;
    await context.verifyToken(token, "agents");
    time.seconds = seconds;
    const refusal: unknown = await context.verifyToken(token, "agents").catch((error: unknown) => error);
    expect(refusal).toMatchObject({ code: "UNAUTHENTICATED", message });
  });

  test("is valid to the end of the tolerance and not a second longer", async () => {
    const { context, time } = makeContext();
    const token = await issueToken(key);
    const outcomes: string[] = [];
    for (const seconds of [599, 600, 604, 605]) {
      time.seconds = seconds;
      outcomes.push(
        await context.verifyToken(token, "agents").then(
          () => "ok",
          (error: Refusal) => error.code,
        ),
      );
    }
    expect(outcomes).toEqual(["ok", "ok", "ok", "UNAUTHENTICATED"]);
  });

  test("is refused after a reload that removes its key", async () => {
    const { context } = makeContext();
    const token = await issueToken(key);
    await context.verifyToken(token, "agents");
    context.reload([agentsProfile([other])]);
    await expect(context.verifyToken(token, "agents")).rejects.toBeInstanceOf(Refusal);
  });

  test("a verification begun before a reload does not fill the cache after it", async () => {
    const { context } = makeContext();
    const token = await issueToken(key);
    const begun = context.verifyToken(token, "agents");
    context.reload([agentsProfile([other])]);
    await begun.catch(() => undefined);
    await expect(context.verifyToken(token, "agents")).rejects.toBeInstanceOf(Refusal);
  });

  test("a verification begun before clear does not fill the cache after it", async () => {
    const { context } = makeContext();
    const token = await issueToken(key);
    const begun = context.verifyToken(token, "agents");
    context.clear();
    const before = await begun;
    expect(await context.verifyToken(token, "agents")).not.toBe(before);
  });

  test("a failed reload leaves everything unchanged", async () => {
    const { context } = makeContext();
    const token = await issueToken(key);
    const before = await context.verifyToken(token, "agents");
    expect(() => context.reload([agentsProfile([key], { algorithms: ["HS256"] })])).toThrow(StartupError);
    expect(await context.verifyToken(token, "agents")).toBe(before);
  });

  test("a cache of size zero still verifies", async () => {
    const { context } = makeContext(0);
    const token = await issueToken(key);
    expect(await context.verifyToken(token, "agents")).not.toBe(await context.verifyToken(token, "agents"));
  });
});

describe("TokenCache", () => {
  test("holds at most its maximum, and keeps recently used entries", () => {
    const cache = new TokenCache<number>(10);
    cache.set("kept", -1);
    for (let entry = 0; entry < 1000; entry += 1) {
      cache.set(String(entry), entry);
      expect(cache.size).toBeLessThanOrEqual(10);
      expect(cache.get("kept")).toBe(-1);
      expect(cache.get(String(entry))).toBe(entry);
    }
    expect(cache.get("0")).toBeUndefined();
    cache.delete("kept");
    expect(cache.get("kept")).toBeUndefined();
    cache.clear();
    expect(cache.size).toBe(0);
  });
});
