import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Refusal } from "../../../src/core/errors.ts";
import type { Authorized, Verified } from "../../../src/core/evidence.ts";
import type { CallerContext } from "../../../src/core/types.ts";
import { createAdmission } from "../../../src/pipeline/admission.ts";
import { type Rate, RateLimiter } from "../../../src/pipeline/limits/rate-limiter.ts";
import { type RateRules, Rates } from "../../../src/pipeline/limits/rates.ts";
import { type RateTable, SharedRates } from "../../../src/pipeline/limits/rates-shared.ts";

const caller = (subject: string, issuer = "https://idp.test"): CallerContext => ({ issuer, subject }) as CallerContext;
const OFF: RateRules = { caller: "off", service: "off", callerAndTool: "off", tool: "off", tools: {} };

function stand(rules: Partial<RateRules>) {
  let now = 5_000.25;
  const rates = new Rates({ rules: { ...OFF, ...rules }, now: () => now });
  const refusal = (take: () => void): Refusal | undefined => {
    try {
      take();
      return undefined;
    } catch (error) {
      if (error instanceof Refusal) return error;
      throw error;
    }
  };
  return {
    call: (who: CallerContext) => refusal(() => rates.takeCall(who)),
    tool: (who: CallerContext, name: string) => refusal(() => rates.takeTool(who, name)),
    pass: (ms: number) => (now += ms),
  };
}

const THREE: Rate = { calls: 3, seconds: 1 };

describe("which limits apply", () => {
  test.each([
    ["a caller, whatever the tool", { caller: THREE }, "call", "a", "caller"],
    ["everybody together", { service: THREE }, "call", "b", "service"],
    ["a caller and a tool", { callerAndTool: THREE }, "tool", "a", "callerAndTool"],
    ["a tool, whoever calls", { tool: THREE }, "tool", "b", "tool"],
    ["the one tool that is named", { tools: { lookup: { tool: THREE } } }, "tool", "b", "tool"],
    [
      "a caller at the one tool that is named",
      { tools: { lookup: { callerAndTool: THREE } } },
      "tool",
      "a",
      "callerAndTool",
    ],
  ] as const)("%s", (_title, rules, step, fourth, limit) => {
    const { call, tool } = stand(rules);
    const take = (subject: string): Refusal | undefined =>
      step === "call" ? call(caller(subject)) : tool(caller(subject), "lookup");
    for (let made = 0; made < 3; made += 1) expect(take("a")).toBeUndefined();
    const refusal = take(fourth);
    expect(refusal).toMatchObject({ code: "RATE_LIMITED", retryAfterMs: 334, details: { limit } });
    if (limit === "service" || limit === "tool") expect(Object.keys(refusal?.details ?? {})).toEqual(["limit"]);
    else expect(refusal?.message).toContain("3 calls in 1 s");
  });

  test("another caller, the same subject of another issuer and another tool have buckets of their own", () => {
    const { call, tool } = stand({ caller: THREE, callerAndTool: THREE, tool: { calls: 4, seconds: 1 } });
    for (const who of [caller("a"), caller("b"), caller("a", "https://other.test")]) {
      for (let made = 0; made < 3; made += 1) expect(call(who)).toBeUndefined();
    }
    for (let made = 0; made < 3; made += 1) expect(tool(caller("a"), "lookup")).toBeUndefined();
    expect(tool(caller("a"), "lookup")).toBeDefined();
    expect(tool(caller("a"), "other")).toBeUndefined();
    expect(tool(caller("b"), "lookup")).toBeUndefined();
    expect(tool(caller("b"), "lookup")?.details).toEqual({ limit: "tool" });
  });

  test("a named tool may be exempt from the common limit, and properties of an object are not tools", () => {
    const { tool } = stand({ callerAndTool: { calls: 1, seconds: 60 }, tools: { free: { callerAndTool: "off" } } });
    for (let made = 0; made < 10; made += 1) expect(tool(caller("a"), "free")).toBeUndefined();
    expect(tool(caller("a"), "constructor")).toBeUndefined();
    expect(tool(caller("a"), "constructor")).toBeDefined();
  });

  test("a call that one limit refuses is not charged to another", () => {
    const { call, pass } = stand({ caller: { calls: 1, seconds: 60 }, service: { calls: 3, seconds: 60 } });
    expect(call(caller("a"))).toBeUndefined();
    for (let made = 0; made < 50; made += 1) expect(call(caller("a"))?.details).toMatchObject({ limit: "caller" });
    expect(call(caller("b"))).toBeUndefined();
    expect(call(caller("c"))).toBeUndefined();
    expect(call(caller("d"))?.details).toEqual({ limit: "service" });
    pass(20_000);
    expect(call(caller("d"))).toBeUndefined();
  });

  test("two tokens of one caller share its bucket", () => {
    const { call } = stand({ caller: THREE });
    const [first, second] = [caller("a"), caller("a")];
    for (const who of [first, second, first]) expect(call(who)).toBeUndefined();
    expect(call(second)).toBeDefined();
  });
});

const rate = fc.record({
  calls: fc.integer({ min: 1, max: 100_000 }),
  seconds: fc.integer({ min: 1, max: 3_600 }),
  burst: fc.option(fc.integer({ min: 1, max: 100 }), { nil: undefined }),
});

describe("the bucket", () => {
  test("a caller that waits as long as taken is served, and a millisecond less would not suffice", () => {
    fc.assert(
      fc.property(rate, fc.array(fc.double({ min: 0, max: 5_000, noNaN: true }), { maxLength: 60 }), (limit, gaps) => {
        const limiter = new RateLimiter(limit);
        let now = 1_000.5;
        for (const gap of gaps) {
          now += gap;
          const waitMs = limiter.waitMs("k", now);
          if (waitMs > 0) {
            expect(limiter.waitMs("k", now + waitMs - 1)).toBeGreaterThan(0);
            now += waitMs;
            expect(limiter.waitMs("k", now)).toBe(0);
          }
          limiter.charge("k", now);
        }
      }),
      { numRuns: 300 },
    );
  });

  test("no interval exceeds a burst plus the rate", () => {
    fc.assert(
      fc.property(rate, fc.array(fc.integer({ min: 0, max: 300 }), { minLength: 1, maxLength: 200 }), (limit, gaps) => {
        const limiter = new RateLimiter(limit);
        const burst = limit.burst ?? limit.calls;
        const perMs = limit.calls / (limit.seconds * 1_000);
        let now = 0;
        let served = 0;
        for (const gap of gaps) {
          now += gap;
          if (limiter.waitMs("k", now) > 0) continue;
          limiter.charge("k", now);
          served += 1;
        }
        expect(served).toBeLessThanOrEqual(burst + now * perMs + 0.001);
      }),
      { numRuns: 300 },
    );
  });

  test("a clock that stands still allows no more than the burst", () => {
    const limiter = new RateLimiter({ calls: 1_000, seconds: 1, burst: 5 });
    for (let made = 0; made < 5; made += 1) {
      expect(limiter.waitMs("k", 7)).toBe(0);
      limiter.charge("k", 7);
    }
    expect(limiter.waitMs("k", 7)).toBe(1);
  });

  test("not all of a million callers are remembered, and the current ones are", () => {
    const limiter = new RateLimiter({ calls: 1, seconds: 3_600 });
    for (let made = 0; made < 1_000_000; made += 1) limiter.charge(`caller ${made}`, 0);
    expect(limiter.size).toBeLessThanOrEqual(100_000);
    expect(limiter.waitMs("caller 999999", 0)).toBe(3_600_000);
    expect(limiter.waitMs("caller 950001", 0)).toBe(3_600_000);
    expect(limiter.waitMs("caller 0", 0)).toBe(0);
  });

  test("a caller that keeps calling is remembered, however many others call", () => {
    const limiter = new RateLimiter({ calls: 1_000_000, seconds: 3_600, burst: 500 });
    for (let made = 0; made < 300_000; made += 1) {
      limiter.charge(`passer-by ${made}`, 0);
      if (made % 1_000 === 0) limiter.charge("busy", 0);
    }
    for (let made = 0; made < 200; made += 1) limiter.charge("busy", 0);
    expect(limiter.waitMs("busy", 0)).toBeGreaterThan(0);
  });

  test("expired counts are forgotten over time", () => {
    const limiter = new RateLimiter({ calls: 10, seconds: 1 });
    for (let made = 0; made < 10_000; made += 1) limiter.charge(`caller ${made}`, 0);
    limiter.charge("later", 2_100);
    limiter.charge("later", 4_300);
    expect(limiter.size).toBe(1);
  });
});

describe("at admission", () => {
  const admission = (rules: Partial<RateRules>) =>
    createAdmission({
      concurrentCallsMax: 10,
      concurrentCallsPerCallerMax: 1,
      auditReady: () => true,
      rates: new Rates({ rules: { ...OFF, ...rules }, now: () => 0 }),
    });
  const verified = { caller: caller("a") } as Verified;

  test("a call that is refused for another reason is charged nothing", () => {
    const { admit, leave } = admission({ caller: { calls: 2, seconds: 60 } });
    const admitted = admit(verified);
    for (let made = 0; made < 5; made += 1) expect(() => admit(verified)).toThrow("in progress at once");
    leave(admitted);
    leave(admit(verified));
    expect(() => admit(verified)).toThrow("called too often");
  });

  test("a refused call takes no slot", () => {
    const { admit, leave, inFlight } = admission({ caller: { calls: 1, seconds: 60 } });
    leave(admit(verified));
    expect(() => admit(verified)).toThrow("called too often");
    expect(inFlight()).toBe(0);
  });

  test("a tool's own limits are checked once the caller may use it", () => {
    const { limitRate } = admission({ callerAndTool: { calls: 1, seconds: 60 } });
    const authorized = { caller: caller("a"), tool: { name: "lookup" } } as Authorized;
    expect(limitRate(authorized) as object).toBe(authorized);
    expect(() => limitRate(authorized)).toThrow("called this tool too often");
  });
});

/** Several replicas over one table, which keeps the buckets as the database does. */
function fleet(count: number, rules: Partial<RateRules>) {
  let now = 0;
  const emptyAt = new Map<string, number>();
  const world = { isUnavailable: false, asked: 0, logged: [] as string[] };
  const table: RateTable = {
    keeper: "the database",
    async add(charges) {
      world.asked += 1;
      if (world.isUnavailable) throw new Error("away");
      return charges.map(({ bucket, addedMs }) => {
        const until = Math.max(emptyAt.get(bucket) ?? 0, now) + addedMs;
        emptyAt.set(bucket, until);
        return until - now;
      });
    },
    close: async () => {},
  };
  const replicas = Array.from({ length: count }, () => {
    const rates = new Rates({ rules: { ...OFF, ...rules }, now: () => now, shared: true });
    return { rates, shared: new SharedRates({ rates, table, now: () => now, log: (line) => world.logged.push(line) }) };
  });
  const take = (index: number, who = caller("a")): boolean => {
    try {
      replicas[index]?.rates.takeCall(who);
      return true;
    } catch {
      return false;
    }
  };
  return {
    ...{ world, take, buckets: emptyAt, pass: (ms: number) => (now += ms) },
    share: async () => {
      for (const { shared } of replicas) await shared.share();
    },
    close: () => Promise.all(replicas.map(({ shared }) => shared.close())),
  };
}

describe("several replicas", () => {
  test("an answer that comes after the limit has changed is no level of the new limit", async () => {
    const rules = (calls: number): RateRules => ({ ...OFF, caller: { calls, seconds: 86_400 } });
    const rates = new Rates({ rules: rules(15), shared: true, now: () => 0 });
    const answer = Promise.withResolvers<readonly number[]>();
    const table: RateTable = { keeper: "a test", add: () => answer.promise, close: async () => {} };
    const shared = new SharedRates({ rates, table, now: () => 0, log: () => {} });
    for (let made = 0; made < 10; made += 1) rates.takeCall(caller("a"));
    const sharing = shared.share();
    rates.change({ rules: rules(30), shared: false, tools: new Set() });
    // Fourteen calls under the former limit; as a time, twenty-eight under the new one.
    answer.resolve([(14 * 86_400_000) / 15]);
    await sharing;
    await shared.close();
    for (let made = 10; made < 30; made += 1) rates.takeCall(caller("a"));
    expect(() => rates.takeCall(caller("a"))).toThrow(Refusal);
  });

  test("count together: the excess is at most what comes between two rounds", async () => {
    const { take, share, close } = fleet(3, { caller: { calls: 30, seconds: 3_600 } });
    let served = 0;
    for (let round = 0; round < 40; round += 1) {
      for (const replica of [0, 1, 2]) served += Number(take(replica));
      await share();
    }
    expect(served).toBeGreaterThanOrEqual(30);
    expect(served).toBeLessThanOrEqual(33);
    await close();
  });

  test("continue with their own count while the table is unavailable, and log it once", async () => {
    const { take, share, world, close } = fleet(2, { caller: { calls: 3, seconds: 60 } });
    world.isUnavailable = true;
    for (let round = 0; round < 5; round += 1) {
      await share();
      expect([take(0), take(1)]).toEqual([round < 3, round < 3]);
    }
    expect(world.logged).toEqual(
      Array.from({ length: 2 }, () => expect.stringContaining("database is unavailable") as string),
    );
    await close();
  });

  test("charges wait until the table is open", async () => {
    const rates = new Rates({ rules: { ...OFF, caller: { calls: 10, seconds: 3_600 } }, shared: true, now: () => 0 });
    const added: number[] = [];
    let openings = 0;
    const table: RateTable = {
      keeper: "a test",
      async open() {
        openings += 1;
        if (openings < 3) throw new Error("away");
      },
      async add(charges) {
        added.push(...charges.map(({ addedMs }) => addedMs));
        return charges.map(({ addedMs }) => addedMs);
      },
      close: async () => {},
    };
    const shared = new SharedRates({ rates, table, now: () => 0, log: () => {} });
    for (let round = 0; round < 3; round += 1) {
      rates.takeCall(caller("a"));
      await shared.share();
    }
    await shared.close();
    expect(added).toEqual([3 * 360_000]);
  });

  test("nothing is counted twice when the table is back", async () => {
    const { take, share, world, pass, close } = fleet(1, { caller: { calls: 60, seconds: 60 } });
    world.isUnavailable = true;
    for (let made = 0; made < 30; made += 1) take(0);
    await share();
    world.isUnavailable = false;
    expect(take(0)).toBe(true);
    await share();
    pass(1_000);
    let served = 0;
    while (take(0)) served += 1;
    expect(served).toBe(30);
    await close();
  });

  test("the table is not used when nobody called, and stores no names", async () => {
    const { take, share, world, buckets, close } = fleet(1, { caller: THREE });
    await share();
    expect(world.asked).toBe(0);
    take(0, caller("jane@example.org"));
    await share();
    expect([...buckets.keys()]).toEqual([expect.stringMatching(/^[\w-]{43}$/)]);
    await close();
  });

  test("a bucket that another replica filled with another rule blocks nobody for longer than two bursts", async () => {
    const { take, share, buckets, pass, close } = fleet(1, { caller: { calls: 10, seconds: 10 } });
    take(0);
    await share();
    for (const bucket of buckets.keys()) buckets.set(bucket, 86_400_000);
    take(0);
    await share();
    expect(take(0)).toBe(false);
    pass(11_001);
    expect(take(0)).toBe(true);
    await close();
  });
});
