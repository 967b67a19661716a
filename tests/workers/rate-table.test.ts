import { expect, test } from "bun:test";
import { Rates } from "../../src/pipeline/limits/rates.ts";
import { SharedRates } from "../../src/pipeline/limits/rates-shared.ts";
import { memoryRateTable } from "../../src/workers/rate-table.ts";

test("buckets fill together and drain with time", async () => {
  let now = 0;
  const table = memoryRateTable(() => now);
  expect(await table.add([{ bucket: "a", addedMs: 100 }])).toEqual([100]);
  expect(
    await table.add([
      { bucket: "a", addedMs: 50 },
      { bucket: "b", addedMs: 10 },
    ]),
  ).toEqual([150, 10]);
  now = 120;
  expect(await table.add([{ bucket: "a", addedMs: 0 }])).toEqual([30]);
  now = 500;
  expect(await table.add([{ bucket: "a", addedMs: 5 }])).toEqual([5]);
});

test("workers that count together allow no more than one limit, but for one exchange", async () => {
  let now = 0;
  const table = memoryRateTable(() => now);
  const rules = { caller: { calls: 10, seconds: 60 }, service: "off", tools: {} } as const;
  const workers = [1, 2, 3].map(() => {
    const rates = new Rates({ rules, now: () => now, shared: true });
    const options = { rates, now: () => now, log: () => {} };
    return {
      rates,
      shared: new SharedRates({ ...options, table: { keeper: "test", add: table.add, close: async () => {} } }),
    };
  });
  const caller = { issuer: "https://idp.test", subject: "agent-7" } as Parameters<Rates["takeCall"]>[0];
  let admitted = 0;
  for (let call = 0; call < 60; call += 1) {
    const worker = workers[call % workers.length];
    try {
      worker?.rates.takeCall(caller);
      admitted += 1;
    } catch {
      // Refused by the limit.
    }
    await Promise.all(workers.map(({ shared }) => shared.share()));
    now += 1;
  }
  await Promise.all(workers.map(({ shared }) => shared.close()));
  // A worker learns of the others' calls when it calls itself: each may admit one call more.
  expect(admitted).toBeGreaterThanOrEqual(10);
  expect(admitted).toBeLessThanOrEqual(12);
});
