import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { CallerContext } from "../../../src/core/types.ts";
import { Cancellations } from "../../../src/pipeline/admission.ts";
import { RateLimiter } from "../../../src/pipeline/limits/rate-limiter.ts";
import { type RateRules, Rates } from "../../../src/pipeline/limits/rates.ts";

const OFF: RateRules = { caller: "off", service: "off", callerAndTool: "off", tool: "off", tools: {} };
const ANN = { issuer: "https://idp.test", subject: "ann" } as CallerContext;
const NOW = 5_000.25;
const TOOLS = new Set(["read", "write"]);

function charged(limiter: RateLimiter, times: number): RateLimiter {
  for (let made = 0; made < times; made += 1) limiter.charge("k", NOW);
  return limiter;
}

/** How many more calls are served at once. */
function left(limiter: RateLimiter, now = NOW): number {
  let served = 0;
  while (limiter.waitMs("k", now) === 0 && served < 10_000) {
    limiter.charge("k", now);
    served += 1;
  }
  return served;
}

describe("a bucket whose limit changes", () => {
  test.each([
    ["a higher one: what was used stays used", 80, { calls: 1_000, seconds: 60 }, 920, 60],
    ["a lower one that leaves something", 20, { calls: 50, seconds: 60 }, 30, 1_200],
    ["a lower one that was passed already: as if it had just been used up", 80, { calls: 50, seconds: 60 }, 0, 1_200],
    ["one used up: not a second time under a slower one", 100, { calls: 100, seconds: 3_600 }, 0, 36_000],
    ["a smaller burst", 30, { calls: 100, seconds: 60, burst: 10 }, 0, 600],
    ["the same one", 100, { calls: 100, seconds: 60 }, 0, 600],
    ["a key that was never charged", 0, { calls: 3, seconds: 60 }, 3, 20_000],
  ])("%s", (_title, used, rate, more, waitMs) => {
    const limiter = charged(new RateLimiter({ calls: 100, seconds: 60 }), used);
    limiter.change(rate, { now: NOW });
    expect(left(limiter)).toBe(more);
    expect(limiter.waitMs("k", NOW)).toBe(waitMs);
    expect(limiter.waitMs("k", NOW + waitMs)).toBe(0);
    expect(limiter.rate).toEqual(rate);
  });

  const rate = fc.record({
    calls: fc.integer({ min: 1, max: 200 }),
    seconds: fc.integer({ min: 1, max: 3_600 }),
    burst: fc.option(fc.integer({ min: 1, max: 100 }), { nil: undefined }),
  });

  test("however often it changes, nobody gains a call, and nobody waits longer than one call under the last limit takes", () => {
    fc.assert(
      fc.property(fc.array(rate, { minLength: 2, maxLength: 12 }), fc.integer({ min: 0, max: 100 }), (rates, used) => {
        const [first = { calls: 1, seconds: 1, burst: undefined }, ...further] = rates;
        const limiter = new RateLimiter(first);
        const served = Math.min(used, first.burst ?? first.calls);
        charged(limiter, served);
        for (const next of further) limiter.change(next, { now: NOW });
        const last = further.at(-1) ?? first;
        const smallest = Math.min(served, ...further.map(({ calls, burst = calls }) => burst));
        expect(left(limiter)).toBe((last.burst ?? last.calls) - smallest);
        expect(limiter.waitMs("k", NOW)).toBeLessThanOrEqual(Math.ceil((last.seconds * 1_000) / last.calls));
      }),
      { numRuns: 300 },
    );
  });

  test("counts that remain under the new limit are not forgotten", () => {
    const limiter = charged(new RateLimiter({ calls: 2, seconds: 1 }), 2);
    limiter.change({ calls: 2, seconds: 3_600 }, { now: NOW });
    for (let second = 0; second < 60; second += 1) limiter.charge(`passer-by ${second}`, NOW + second * 1_000);
    expect(limiter.waitMs("k", NOW + 60_000)).toBeGreaterThan(1_700_000);
  });

  test("counts not yet shared with replicas are converted to the new limit, and dropped once replicas count alone", () => {
    const limiter = charged(new RateLimiter({ calls: 100, seconds: 60 }, { isShared: true }), 10);
    limiter.change({ calls: 10, seconds: 60 }, { now: NOW, isShared: true });
    expect(limiter.takeUnshared(10, NOW)).toEqual([{ key: "k", addedMs: 60_000 }]);
    limiter.charge("k", NOW);
    limiter.change({ calls: 10, seconds: 60 }, { now: NOW });
    expect(limiter.takeUnshared(10, NOW)).toEqual([]);
  });
});

function standing(rules: Partial<RateRules>) {
  const rates = new Rates({ rules: { ...OFF, ...rules }, now: () => NOW });
  const served = (take: () => void): number => {
    for (let made = 0; made < 1_000; made += 1) {
      try {
        take();
      } catch {
        return made;
      }
    }
    return 1_000;
  };
  return {
    rates,
    change: (next: Partial<RateRules>, tools = TOOLS) => rates.change({ rules: { ...OFF, ...next }, tools }),
    calls: () => served(() => rates.takeCall(ANN)),
    tool: (name: string) => served(() => rates.takeTool(ANN, name)),
  };
}

const of = (calls: number) => ({ calls, seconds: 60 });

describe("limits that change", () => {
  test("a used-up limit stays used up next to others that change, and one that was off begins empty", () => {
    const { change, calls, tool } = standing({ caller: of(5) });
    expect(calls()).toBe(5);
    change({ caller: of(5), tool: of(3) });
    expect(calls()).toBe(0);
    expect(tool("read")).toBe(3);
    change({ caller: of(7), tool: of(3), service: of(4) });
    expect(calls()).toBe(2);
    expect(tool("read")).toBe(0);
    change({});
    expect(calls()).toBe(1_000);
    change({ caller: of(5) });
    expect(calls()).toBe(5);
  });

  test("a tool that gets a limit of its own keeps its counts; so does one that loses it", () => {
    const { change, tool } = standing({ callerAndTool: of(5) });
    expect([tool("read"), tool("write")]).toEqual([5, 5]);
    change({ callerAndTool: of(5), tools: { read: { callerAndTool: of(8) } } });
    expect([tool("read"), tool("write")]).toEqual([3, 0]);
    change({ callerAndTool: of(9) });
    expect([tool("read"), tool("write")]).toEqual([1, 4]);
  });

  test("limits in use are those of existing tools", () => {
    const { rates, change, tool } = standing({ tool: of(5), callerAndTool: of(5) });
    for (const name of TOOLS) tool(name);
    change({ tool: of(5) }, new Set(["write"]));
    expect([...rates.limiters.keys()]).toEqual(["tool write"]);
    expect(tool("read")).toBe(5);
  });
});

test.each([
  ["lower", 1, 60_000],
  ["higher", 1_000, 0],
])("a caller who has disconnected too often, under a %s limit", (_title, next, waitMs) => {
  const limit = { perMinuteMax: 100, clock: () => 1_000 };
  const cancellations = new Cancellations(limit);
  for (let made = 0; made < 300; made += 1) cancellations.count(ANN);
  limit.perMinuteMax = next;
  expect(cancellations.retryAfterMs(ANN)).toBeLessThanOrEqual(waitMs + 1);
  expect(cancellations.retryAfterMs(ANN) > 0).toBe(waitMs > 0);
});
