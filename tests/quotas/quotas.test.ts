import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Refusal } from "../../src/core/errors.ts";
import { fillOrders } from "../../src/quotas/operations.ts";
import type { Quotas } from "../../src/quotas/quotas.ts";
import { leaseSize, periodAt, type QuotaRule, readQuota, userOf } from "../../src/quotas/rules.ts";
import { callerOf, type Fault, QuotaWorld, run, toolOf } from "./world.ts";

const NOON = Date.parse("2026-02-16T12:00:00.000Z");
const HOUR_MS = 3_600_000;
const read = toolOf("read_thing");
const other = toolOf("other_thing");
const ann = callerOf("ann");
const bob = callerOf("bob");

let world: QuotaWorld;
beforeEach(() => {
  world = new QuotaWorld(NOON);
});
afterEach(() => world.close());

const daily = (calls: number, more: Partial<QuotaRule> = {}): QuotaRule => ({
  ...{ name: "daily", per: ["caller"], calls, window: "day" },
  ...more,
});

async function times(count: number, act: () => Promise<string>): Promise<Record<string, number>> {
  const ends: Record<string, number> = {};
  for (let index = 0; index < count; index += 1) {
    const end = await act();
    ends[end] = (ends[end] ?? 0) + 1;
  }
  return ends;
}

async function refusalOf(quotas: Quotas, call = { tool: read, caller: ann }): Promise<Refusal> {
  const budget = quotas.open();
  const refusal = await Promise.resolve()
    .then(() => budget?.reserve(call))
    .catch((error: unknown) => error);
  budget?.end();
  if (!(refusal instanceof Refusal)) throw new Error("the call was not refused");
  return refusal;
}

describe("windows", () => {
  test.each([
    ["hour", "2026-02-16T12:59:59.999Z", "2026-02-16T12:00:00.000Z", "2026-02-16T13:00:00.000Z"],
    ["day", "2026-02-28T23:59:59.999Z", "2026-02-28T00:00:00.000Z", "2026-03-01T00:00:00.000Z"],
    ["day", "2026-03-01T00:00:00.000Z", "2026-03-01T00:00:00.000Z", "2026-03-02T00:00:00.000Z"],
    ["month", "2028-02-29T12:00:00.000Z", "2028-02-01T00:00:00.000Z", "2028-03-01T00:00:00.000Z"],
    ["month", "2026-12-31T23:59:59.999Z", "2026-12-01T00:00:00.000Z", "2027-01-01T00:00:00.000Z"],
  ] as const)("the %s of %s begins at %s and ends at %s", (window, at, starts, ends) => {
    const { startsAt, endsAt } = periodAt(window, Date.parse(at));
    expect([new Date(startsAt).toISOString(), new Date(endsAt).toISOString()]).toEqual([starts, ends]);
  });
});

test("a block is at most a hundredth of the limit, and smaller near the end", () => {
  const size = (limit: number, used: number, wanted = 1) =>
    leaseSize({ limit, used, wanted, least: 1, inBlocks: true });
  expect([size(50, 0), size(1_000, 0), size(1_000, 900), size(1_000, 980), size(1_000, 1_000)]).toEqual([
    1, 10, 5, 1, 0,
  ]);
  expect([size(100, 0, 7), size(100, 96, 7), size(100, 200, 7)]).toEqual([7, 4, 0]);
  fc.assert(
    fc.property(fc.nat(100_000), fc.nat(100_000), fc.integer({ min: 1, max: 50 }), (limit, used, wanted) => {
      const taken = leaseSize({ limit, used, wanted, least: 1, inBlocks: true });
      expect(taken).toBeLessThanOrEqual(Math.max(0, limit - used));
      expect(taken).toBeLessThanOrEqual(Math.max(wanted, limit / 100));
      if (used < limit) expect(taken).toBeGreaterThanOrEqual(1);
    }),
  );
});

describe("a quota of calls", () => {
  test("lets exactly its number of calls through, and says when it is available again", async () => {
    const quotas = world.start([daily(5)]);
    expect(await times(8, () => run(quotas, { tool: read, caller: ann }))).toEqual({ ran: 5, QUOTA_EXCEEDED: 3 });
    const refusal = await refusalOf(quotas);
    expect(refusal.message).toBe(
      "The quota daily of 5 calls is used up for today. It is available again at 2026-02-17T00:00:00.000Z.",
    );
    const resetsAt = "2026-02-17T00:00:00.000Z";
    expect(refusal.details).toEqual({ quota: "daily", limit: 5, unit: "calls", window: "day", resetsAt });
    expect(refusal.retryAfterMs).toBeWithin(12 * HOUR_MS - 1_000, 12 * HOUR_MS + 1);
    expect(refusal.findings).toEqual([
      { point: "quotas", verdict: "deny", reason: "the quota daily is used up", rememberable: false },
    ]);
    expect(quotas.counts()).toEqual([{ quota: "daily", charged: 5, refused: 4 }]);
  });

  test("is each caller's own: a caller is issuer and subject", async () => {
    const quotas = world.start([daily(1)]);
    const callers = [ann, bob, callerOf("ann", "https://other.example"), { ...ann, session: "sid:new" }];
    const ends = [];
    for (const caller of callers) ends.push(await run(quotas, { tool: read, caller }));
    expect(ends).toEqual(["ran", "ran", "ran", "QUOTA_EXCEEDED"]);
  });

  test.each([
    [["tool"], ["ran", "QUOTA_EXCEEDED", "ran"]],
    [
      ["caller", "tool"],
      ["ran", "ran", "ran"],
    ],
    [["system"], ["ran", "QUOTA_EXCEEDED", "QUOTA_EXCEEDED"]],
    [[], ["ran", "QUOTA_EXCEEDED", "QUOTA_EXCEEDED"]],
  ] as const)("per %j: one call of ann's, one of bob's, one of another tool by ann", async (per, expected) => {
    const quotas = world.start([daily(1, { per })]);
    const calls = [
      { tool: read, caller: ann },
      { tool: read, caller: bob },
      { tool: other, caller: ann },
    ];
    const ends = [];
    for (const call of calls) ends.push(await run(quotas, call));
    expect(ends).toEqual([...expected]);
  });

  test("of everybody does not tell a caller its numbers", async () => {
    const quotas = world.start([daily(1, { per: ["tool"] })]);
    await run(quotas, { tool: read, caller: bob });
    const { message, details } = await refusalOf(quotas);
    expect(message).toStartWith("The quota daily is used up for today.");
    expect(details).not.toHaveProperty("limit");
  });

  test.each([
    [{ tools: ["read_*"] }, "QUOTA_EXCEEDED", "ran"],
    [{ tools: ["*"] }, "QUOTA_EXCEEDED", "QUOTA_EXCEEDED"],
    [{ systems: ["nowhere"] }, "ran", "ran"],
    [{ categories: ["read"] }, "QUOTA_EXCEEDED", "QUOTA_EXCEEDED"],
    [{ classifications: ["write"] }, "ran", "ran"],
    [{ callers: [{ issuer: "https://issuer.example", subject: "ann" }] }, "QUOTA_EXCEEDED", "QUOTA_EXCEEDED"],
    [{ callers: [{ issuer: "https://other.example", subject: "ann" }] }, "ran", "ran"],
  ] as const)("when %j", async (when, ofRead, ofOther) => {
    const quotas = world.start([daily(1, { per: [], when })]);
    await run(quotas, { tool: read, caller: ann });
    await run(quotas, { tool: other, caller: ann });
    expect(await run(quotas, { tool: read, caller: ann })).toBe(ofRead);
    expect(await run(quotas, { tool: other, caller: ann })).toBe(ofOther);
  });

  test("is not charged for a call that does not start", async () => {
    const quotas = world.start([daily(2)]);
    expect(await times(5, () => run(quotas, { tool: read, caller: ann }, { starts: false }))).toEqual({ ran: 5 });
    expect(await times(3, () => run(quotas, { tool: read, caller: ann }))).toEqual({ ran: 2, QUOTA_EXCEEDED: 1 });
    expect(quotas.counts()[0]?.charged).toBe(2);
  });

  test("charges a call once, however often the pipeline asks", async () => {
    const quotas = world.start([daily(2)]);
    const budget = quotas.open();
    await budget?.reserve({ tool: read, caller: ann });
    await budget?.reserve({ tool: read, caller: ann });
    budget?.start();
    budget?.end();
    budget?.end();
    expect(await world.used("daily")).toEqual([1]);
  });

  test("takes nothing of one quota when another refuses", async () => {
    const quotas = world.start([daily(1, { name: "narrow" }), daily(10, { name: "wide" })]);
    await times(4, () => run(quotas, { tool: read, caller: ann }));
    await quotas.close();
    expect([await world.used("narrow"), await world.used("wide")]).toEqual([[1], [1]]);
  });

  test("shares one transaction between concurrent calls, and none while a lease is at hand", async () => {
    const quotas = world.start([daily(10_000)]);
    await Promise.all(Array.from({ length: 50 }, () => run(quotas, { tool: read, caller: ann })));
    expect(world.transactions).toBe(1);
    expect(await times(50, () => run(quotas, { tool: read, caller: ann }))).toEqual({ ran: 50 });
    expect(world.transactions).toBe(1);
  });

  test("is not asked of the database again for a second after it was used up", async () => {
    const quotas = world.start([daily(1)]);
    await times(20, () => run(quotas, { tool: read, caller: ann }));
    expect(world.transactions).toBe(2);
    world.advance(1_001);
    await run(quotas, { tool: read, caller: ann });
    expect(world.transactions).toBe(3);
  });

  test("starts again with the next window by the database's clock, whatever the process's clock says", async () => {
    for (const skewMs of [-86_400_000, 0, 7 * HOUR_MS]) {
      const name = `skew${skewMs}`;
      const quotas = world.start([daily(2, { name, window: "hour" })], skewMs);
      expect(await times(3, () => run(quotas, { tool: read, caller: ann }))).toEqual({ ran: 2, QUOTA_EXCEEDED: 1 });
      world.advance(HOUR_MS);
      expect(await times(3, () => run(quotas, { tool: read, caller: ann }))).toEqual({ ran: 2, QUOTA_EXCEEDED: 1 });
    }
  });

  test("uses nothing in a window that was taken in the window before", async () => {
    const quotas = world.start([daily(1_000, { window: "hour" })]);
    await run(quotas, { tool: read, caller: ann });
    world.advance(HOUR_MS - 1);
    // Too close to the end for what is at hand: the database decides.
    await run(quotas, { tool: read, caller: ann });
    expect(world.transactions).toBe(2);
    world.advance(1);
    await run(quotas, { tool: read, caller: ann });
    expect(await world.used("daily")).toEqual([20, 10]);
  });

  test("notices that the machine has slept: the monotonic clock stood still", async () => {
    const quotas = world.start([daily(1_000, { window: "hour" })]);
    await run(quotas, { tool: read, caller: ann });
    world.now += HOUR_MS;
    await run(quotas, { tool: read, caller: ann });
    expect(await world.used("daily")).toEqual([10, 10]);
  });
});

describe("without the database", () => {
  test("a call that has a lease passes, and one that needs one is refused and may be repeated", async () => {
    const quotas = world.start([daily(1_000)]);
    await run(quotas, { tool: read, caller: ann });
    world.fault = "before";
    expect(await times(12, () => run(quotas, { tool: read, caller: ann }))).toEqual({
      ran: 9,
      POLICY_STATE_UNAVAILABLE: 3,
    });
    const refusal = await refusalOf(quotas);
    expect(refusal.code).toBe("POLICY_STATE_UNAVAILABLE");
    expect(refusal.retryAfterMs).toBe(1_000);
    expect(refusal.findings?.[0]?.point).toBe("quotas");
    expect(world.log).toEqual(["the use of quotas cannot be written"]);
    world.fault = "none";
    expect(await run(quotas, { tool: read, caller: ann })).toBe("ran");
  });

  test("what a statement without an answer may have taken counts as used, and only little is taken then", async () => {
    const quotas = world.start([daily(1_000)]);
    world.fault = "after";
    await times(3, () => run(quotas, { tool: read, caller: ann }));
    expect(await world.used("daily")).toEqual([12]);
    world.fault = "none";
    expect(await times(1_000, () => run(quotas, { tool: read, caller: ann }))).toEqual({
      ran: 988,
      QUOTA_EXCEEDED: 12,
    });
  });

  test("all calls that wait are refused", async () => {
    const quotas = world.start([daily(10)]);
    world.fault = "before";
    const ends = await Promise.all([ann, bob, ann].map((caller) => run(quotas, { tool: read, caller })));
    expect(ends).toEqual(Array.from({ length: 3 }, () => "POLICY_STATE_UNAVAILABLE"));
  });
});

describe("what is unused", () => {
  test("is given back when the process ends", async () => {
    const quotas = world.start([daily(1_000)]);
    await times(3, () => run(quotas, { tool: read, caller: ann }));
    expect(await world.used("daily")).toEqual([10]);
    await quotas.close();
    expect(await world.used("daily")).toEqual([3]);
  });

  test("is given back after a while, and forgotten later", async () => {
    const quotas = world.start([daily(1_000)]);
    await run(quotas, { tool: read, caller: ann });
    await quotas.tidy();
    expect(await world.used("daily")).toEqual([10]);
    world.advance(10_000);
    await quotas.tidy();
    expect(await world.used("daily")).toEqual([1]);
    expect(await run(quotas, { tool: read, caller: ann })).toBe("ran");
    expect(await world.used("daily")).toEqual([11]);
    world.advance(60_000);
    await quotas.tidy();
    expect(await run(quotas, { tool: read, caller: ann })).toBe("ran");
    expect(await world.used("daily")).toEqual([12]);
  });

  test("is not given back twice when the answer is lost", async () => {
    const quotas = world.start([daily(1_000)]);
    await run(quotas, { tool: read, caller: ann });
    world.fault = "after";
    world.advance(10_000);
    await quotas.tidy();
    world.fault = "none";
    await quotas.tidy();
    await quotas.close();
    expect(await world.used("daily")).toEqual([1]);
  });

  test("of an earlier window is not given back to the present one", async () => {
    const quotas = world.start([daily(1_000, { window: "hour" })]);
    await run(quotas, { tool: read, caller: ann });
    const quota = readQuota(daily(1_000, { window: "hour" }));
    const { name, unit, window, limit } = quota;
    const counted = { name, unit, window, limit };
    const user = userOf(quota, ann, read);
    const order = { quota: counted, user, owed: 0, wanted: 0, least: 0, inBlocks: true, knownUse: 0 };
    const giveBack = (startsAt: number) =>
      world.operations.run(fillOrders, { orders: [{ ...order, givenBack: { amount: 4, startsAt, epoch: 0 } }] });
    await giveBack(NOON - HOUR_MS);
    expect(await world.used("daily")).toEqual([10]);
    await giveBack(NOON);
    expect(await world.used("daily")).toEqual([6]);
  });

  test("of a window that is over is worthless", async () => {
    const quotas = world.start([daily(1_000, { window: "hour" })]);
    await run(quotas, { tool: read, caller: ann });
    const budget = quotas.open();
    await budget?.reserve({ tool: read, caller: ann });
    world.advance(HOUR_MS);
    await run(quotas, { tool: read, caller: ann });
    budget?.end();
    await quotas.close();
    expect(await world.used("daily")).toEqual([10, 1]);
  });
});

describe("a reset", () => {
  test("sets the rows to zero, and what was taken before is not given back", async () => {
    const quotas = world.start([daily(1_000)]);
    const elsewhere = world.start([daily(1_000)]);
    await run(quotas, { tool: read, caller: ann });
    await run(elsewhere, { tool: read, caller: ann });
    expect(await quotas.reset({ quota: "daily" })).toBe(1);
    await Promise.all([quotas.close(), elsewhere.close()]);
    expect(await world.used("daily")).toEqual([0]);
  });

  test("what was taken before it does not count against what is used after it", async () => {
    const quotas = world.start([daily(1_000)]);
    const elsewhere = world.start([daily(1_000)]);
    await run(elsewhere, { tool: read, caller: ann });
    await quotas.reset({ quota: "daily" });
    await times(10, () => run(quotas, { tool: read, caller: ann }));
    await elsewhere.close();
    expect(await world.used("daily")).toEqual([10]);
  });

  test("lets a caller that had used everything call again at once", async () => {
    const quotas = world.start([daily(2)]);
    for (const caller of [ann, bob]) await times(3, () => run(quotas, { tool: read, caller }));
    expect(await quotas.reset({ quota: "daily", issuer: ann.issuer, subject: "ann" })).toBe(1);
    expect(await times(3, () => run(quotas, { tool: read, caller: ann }))).toEqual({ ran: 2, QUOTA_EXCEEDED: 1 });
    expect(await run(quotas, { tool: read, caller: bob })).toBe("QUOTA_EXCEEDED");
  });

  test("a call that was taken before a reset and did not start is not available after it", async () => {
    const quotas = world.start([daily(2)]);
    const budget = quotas.open();
    await budget?.reserve({ tool: read, caller: ann });
    await quotas.reset({ quota: "daily" });
    budget?.end();
    expect(await times(4, () => run(quotas, { tool: read, caller: ann }))).toEqual({ ran: 2, QUOTA_EXCEEDED: 2 });
  });

  test("reaches more rows than one statement changes", async () => {
    const quotas = world.start([daily(2)]);
    await Promise.all(
      Array.from({ length: 250 }, (_, index) => run(quotas, { tool: read, caller: callerOf(`${index}`) })),
    );
    expect(await quotas.reset({ quota: "daily" })).toBe(250);
    expect((await world.used("daily")).every((used) => used === 0)).toBe(true);
  });
});

describe("a reload", () => {
  test("with a higher limit lets more calls through, with what is used", async () => {
    const quotas = world.start([daily(2)]);
    await times(3, () => run(quotas, { tool: read, caller: ann }));
    quotas.change([daily(5)]);
    expect(await times(5, () => run(quotas, { tool: read, caller: ann }))).toEqual({ ran: 3, QUOTA_EXCEEDED: 2 });
  });

  test("with a lower limit gives back what is held, so that it applies to all that follows", async () => {
    const quotas = world.start([daily(1_000)]);
    await times(3, () => run(quotas, { tool: read, caller: ann }));
    quotas.change([daily(5)]);
    expect(await times(5, () => run(quotas, { tool: read, caller: ann }))).toEqual({ ran: 2, QUOTA_EXCEEDED: 3 });
  });

  test("that changes nothing of a quota keeps what is held", async () => {
    const quotas = world.start([daily(1_000)]);
    await run(quotas, { tool: read, caller: ann });
    quotas.change([daily(1_000), daily(3, { name: "another" })]);
    await run(quotas, { tool: read, caller: ann });
    expect(await world.used("daily")).toEqual([10]);
  });

  test.each([
    ["a new name", { name: "renamed" }],
    ["another window", { window: "hour" }],
    ["other keys", { per: ["caller", "tool"] }],
    ["another unit", { calls: undefined, bytes: 2 }],
  ] as const)("%s starts from zero", async (_title, more) => {
    const quotas = world.start([daily(2)]);
    await times(3, () => run(quotas, { tool: read, caller: ann }));
    quotas.change([daily(2, more)]);
    expect(await run(quotas, { tool: read, caller: ann })).toBe("ran");
  });

  test("without quotas applies none", async () => {
    const quotas = world.start([daily(1)]);
    quotas.change([]);
    expect(quotas.open()).toBeUndefined();
  });

  test("a call that began before a change gives back what it has taken", async () => {
    const quotas = world.start([daily(5)]);
    const budget = quotas.open();
    await budget?.reserve({ tool: read, caller: ann });
    quotas.change([daily(6)]);
    budget?.end();
    await quotas.close();
    expect(await world.used("daily")).toEqual([0]);
  });
});

describe("a quota of cost", () => {
  const cheap = toolOf("cheap", { cost: 0.1 });
  const dear = toolOf("dear", { cost: 0.7 });
  const costs: QuotaRule = { name: "budget", per: ["caller"], cost: 1, window: "month" };

  test("adds the tools' costs exactly, and a smaller call may still fit", async () => {
    const quotas = world.start([costs]);
    expect(await run(quotas, { tool: dear, caller: ann })).toBe("ran");
    expect(await run(quotas, { tool: dear, caller: ann })).toBe("QUOTA_EXCEEDED");
    expect(await times(4, () => run(quotas, { tool: cheap, caller: ann }))).toEqual({ ran: 3, QUOTA_EXCEEDED: 1 });
    expect((await refusalOf(quotas, { tool: cheap, caller: ann })).message).toStartWith(
      "The quota budget of 1 in cost is used up for this month.",
    );
    const { uses } = await quotas.list({ filter: {}, limit: 10 });
    expect(uses).toMatchObject([{ quota: "budget", unit: "cost", used: 1, limit: 1, subject: "ann", window: "month" }]);
  });

  test("does not concern a tool that costs nothing", async () => {
    const quotas = world.start([costs]);
    await run(quotas, { tool: read, caller: ann });
    expect(await world.used("budget")).toEqual([]);
  });

  test("concurrent calls of different costs never exceed it", async () => {
    const quotas = world.start([{ ...costs, cost: 3 }]);
    const calls = Array.from({ length: 30 }, (_, index) => (index % 3 === 0 ? dear : cheap));
    const ends = await Promise.all(
      calls.map(async (tool) => ((await run(quotas, { tool, caller: ann })) === "ran" ? Number(tool.cost) : 0)),
    );
    const sum = ends.reduce((total, cost) => total + Math.round(cost * 10), 0);
    expect(sum).toBeLessThanOrEqual(30);
    expect(sum).toBeGreaterThan(23);
  });
});

describe("a quota of bytes", () => {
  const bytes = (limit: number): QuotaRule => ({ name: "volume", per: ["caller"], bytes: limit, window: "day" });

  test("charges answers afterwards and blocks the next call", async () => {
    const quotas = world.start([bytes(1_000)]);
    const call = { tool: read, caller: ann };
    expect(await run(quotas, call, { bytes: 990 })).toBe("ran");
    expect(await run(quotas, call, { bytes: 500 })).toBe("ran");
    expect(await run(quotas, call, { bytes: 1 })).toBe("QUOTA_EXCEEDED");
    expect(quotas.counts()).toEqual([{ quota: "volume", charged: 1_490, refused: 1 }]);
    await quotas.close();
    expect(await world.used("volume")).toEqual([1_490]);
  });

  test("an answer's charge is in the row before the answer is sent", async () => {
    const quotas = world.start([bytes(1_000)]);
    await run(quotas, { tool: read, caller: ann }, { bytes: 600 });
    expect(await world.used("volume")).toEqual([600]);
  });

  test("keeps the charge while the database is away, and lets no call of that caller pass before it is written", async () => {
    const quotas = world.start([bytes(1_000)]);
    const budget = quotas.open();
    await budget?.reserve({ tool: read, caller: ann });
    budget?.start();
    world.fault = "before";
    await budget?.charge("x".repeat(598));
    budget?.end();
    expect(await run(quotas, { tool: read, caller: ann })).toBe("POLICY_STATE_UNAVAILABLE");
    world.fault = "none";
    await quotas.tidy();
    await quotas.close();
    expect(await world.used("volume")).toEqual([600]);
  });

  test("a charge survives a reload that changes the limit", async () => {
    const quotas = world.start([bytes(1_000)]);
    const budget = quotas.open();
    await budget?.reserve({ tool: read, caller: ann });
    budget?.start();
    quotas.change([bytes(500)]);
    await budget?.charge("x".repeat(598));
    budget?.end();
    expect(await run(quotas, { tool: read, caller: ann })).toBe("QUOTA_EXCEEDED");
  });

  test("a replayed answer, or a call that did not start, is not charged", async () => {
    const quotas = world.start([bytes(1_000)]);
    await run(quotas, { tool: read, caller: ann }, { bytes: 900, starts: false });
    await quotas.close();
    expect(await world.used("volume")).toEqual([0]);
  });
});

describe("operators", () => {
  test("see who used what, the largest first, in pages", async () => {
    const quotas = world.start([daily(100), daily(100, { name: "all", per: [] })]);
    for (const [index, subject] of ["ann", "bob", "eve"].entries())
      await times(index + 1, () => run(quotas, { tool: read, caller: callerOf(subject) }));
    const first = await quotas.list({ filter: {}, limit: 2 });
    expect(first.uses.map(({ quota, subject, used }) => [quota, subject, used])).toEqual([
      ["all", "", 6],
      ["daily", "eve", 3],
    ]);
    const second = await quotas.list({ filter: {}, limit: 2, after: first.next });
    expect(second.uses.map(({ subject, used }) => [subject, used])).toEqual([
      ["bob", 2],
      ["ann", 1],
    ]);
    expect(second.next).toBeUndefined();
    const ofBob = await quotas.list({ filter: { subject: "bob", quota: "daily" }, limit: 2 });
    expect(ofBob.uses).toHaveLength(1);
  });

  test("learn what a call would get, which charges nothing", async () => {
    const quotas = world.start([daily(1)]);
    expect(await quotas.judge({ tool: read, caller: ann })).toBeUndefined();
    await run(quotas, { tool: read, caller: ann });
    expect((await quotas.judge({ tool: read, caller: ann }))?.code).toBe("QUOTA_EXCEEDED");
    expect(await quotas.judge({ tool: read, caller: bob })).toBeUndefined();
    world.fault = "before";
    expect((await quotas.judge({ tool: read, caller: ann }))?.code).toBe("POLICY_STATE_UNAVAILABLE");
  });

  test("rows of windows that ended a day ago are deleted", async () => {
    const quotas = world.start([daily(1, { window: "hour" })]);
    await Promise.all(
      Array.from({ length: 150 }, (_, index) => run(quotas, { tool: read, caller: callerOf(`${index}`) })),
    );
    world.advance(24 * HOUR_MS);
    await run(quotas, { tool: read, caller: ann });
    await world.sweep(quotas);
    expect(await world.used("daily")).toHaveLength(151);
    world.advance(HOUR_MS);
    await world.sweep(quotas);
    expect(await world.used("daily")).toHaveLength(1);
  });
});

/** One step of two processes on one database. */
type Step =
  | { readonly kind: "calls"; readonly at: number; readonly count: number; readonly starts: boolean }
  | { readonly kind: "kill" | "close" | "tidy"; readonly at: number }
  | { readonly kind: "fault"; readonly fault: Fault }
  | { readonly kind: "wait"; readonly ms: number };

const at = fc.nat(2);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("calls" as const),
      at,
      count: fc.integer({ min: 1, max: 12 }),
      starts: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constantFrom("kill" as const, "close" as const, "tidy" as const), at }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("fault" as const),
      fault: fc.constantFrom<Fault>("none", "none", "before", "after"),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("wait" as const),
      ms: fc.constantFrom(1, 500, 10_000, 1_799_990, HOUR_MS),
    }),
  },
);

test("no interleaving, crash, lost answer or clock lets more calls through than the quota", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 5, maxLength: 40 }),
      fc.constantFrom(1, 3, 20, 150, 700),
      fc.tuple(fc.integer({ min: -HOUR_MS, max: HOUR_MS }), fc.integer({ min: -5_000, max: 5_000 })),
      async (steps, limit, [skew, otherSkew]) => {
        const tried = new QuotaWorld(NOON);
        const rules = [daily(limit, { window: "hour" })];
        const begin = (index: number) => tried.start(rules, [skew, otherSkew, 0][index]);
        const processes = [begin(0), begin(1), begin(2)];
        const ran = new Map<number, number>();
        try {
          for (const each of steps) {
            if (each.kind === "wait") tried.advance(each.ms);
            else if (each.kind === "fault") tried.fault = each.fault;
            else {
              const quotas = processes[each.at] as Quotas;
              if (each.kind === "calls") {
                const window = Math.floor(tried.now / HOUR_MS);
                const ends = await Promise.all(
                  Array.from({ length: each.count }, () => run(quotas, { tool: read, caller: ann }, each)),
                );
                const count = each.starts ? ends.filter((end) => end === "ran").length : 0;
                ran.set(window, (ran.get(window) ?? 0) + count);
              } else if (each.kind === "tidy") await quotas.tidy();
              else {
                if (each.kind === "close") await quotas.close();
                processes[each.at] = begin(each.at);
              }
            }
          }
          const used = await tried.usedFrom("daily");
          // Whatever has run is in its window's row, and no row exceeds the limit.
          for (const [window, count] of ran) expect(count).toBeLessThanOrEqual(used.get(window * HOUR_MS) ?? 0);
          for (const amount of used.values()) expect(amount).toBeWithin(0, limit + 1);
        } finally {
          await tried.close();
        }
      },
    ),
    { numRuns: 150 },
  );
});

test("without crashes and lost answers, all processes together use the whole quota", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 400 }),
      fc.array(at, { minLength: 5, maxLength: 30 }),
      async (limit, order) => {
        const tried = new QuotaWorld(NOON);
        const processes = [0, 1, 2].map(() => tried.start([daily(limit)]));
        let ran = 0;
        try {
          const calls = async (quotas: Quotas | undefined, count: number) => {
            const ends = await Promise.all(
              Array.from({ length: count }, () =>
                quotas === undefined ? "" : run(quotas, { tool: read, caller: ann }),
              ),
            );
            ran += ends.filter((end) => end === "ran").length;
          };
          for (const index of order) await calls(processes[index], 7);
          // What others hold unused comes back when it is idle.
          tried.advance(10_000);
          for (const quotas of processes) await quotas.tidy();
          await calls(processes[0], limit);
          expect(ran).toBe(limit);
        } finally {
          await tried.close();
        }
      },
    ),
    { numRuns: 40 },
  );
});
