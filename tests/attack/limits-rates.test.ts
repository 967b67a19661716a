import { expect, test } from "bun:test";
import { RateLimiter } from "../../src/pipeline/limits/rate-limiter.ts";

/** As many as are remembered for telling. */
const KEYS_MAX = 50_000;
const STEP_MS = 60_000;

test("a caller whose refusals exceeded the reported ones gets its refusal when it calls again", () => {
  const pace = new RateLimiter({ calls: 1_000, seconds: 60_000 }, { tells: true });
  for (let index = 0; index <= KEYS_MAX; index += 1) pace.charge(`caller ${index}`, 0);
  const last = `caller ${KEYS_MAX}`;
  const told = pace.takeUntold(2 * KEYS_MAX, 0);
  expect(told).toHaveLength(KEYS_MAX);
  expect(told.some(({ key }) => key === last)).toBe(false);
  pace.charge(last, 0);
  expect(pace.takeUntold(2 * KEYS_MAX, 0)).toEqual([{ key: last, addedMs: STEP_MS }]);
});
