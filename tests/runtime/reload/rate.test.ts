import { expect, test } from "bun:test";
import fc from "fast-check";
import { ReloadRate } from "../../../src/runtime/reload/reload.ts";

const MINUTE_MS = 60_000;

test("a number of reloads a minute, and then the exact time to wait", () => {
  const rate = new ReloadRate({ perMinuteMax: 2 });
  expect([0, 10, 20].map((now) => rate.take(now))).toEqual([0, 0, MINUTE_MS - 20]);
  expect(rate.take(MINUTE_MS - 1)).toBe(1);
  expect(rate.take(MINUTE_MS)).toBe(0);
});

test("for any clock, no minute contains more", () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 0, max: 200_000 }), { maxLength: 200 }),
      fc.integer({ min: 1, max: 5 }),
      (steps, max) => {
        const rate = new ReloadRate({ perMinuteMax: max });
        const taken: number[] = [];
        for (const now of [...steps].sort((a, b) => a - b)) if (rate.take(now) === 0) taken.push(now);
        const crowded = taken.some((at) => taken.filter((other) => other >= at && other < at + MINUTE_MS).length > max);
        expect(crowded).toBe(false);
      },
    ),
  );
});
