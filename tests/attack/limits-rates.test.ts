import { expect, test } from "bun:test";
import { RateLimiter } from "../../src/pipeline/limits/rate-limiter.ts";

/** As many as are remembered for sharing. */
const KEYS_MAX = 50_000;
const STEP_MS = 60_000;

test("a caller whose refusals exceeded the reported ones gets its refusal when it calls again", () => {
  const limiter = new RateLimiter({ calls: 1_000, seconds: 60_000 }, { isShared: true });
  for (let index = 0; index <= KEYS_MAX; index += 1) limiter.charge(`caller ${index}`, 0);
  const last = `caller ${KEYS_MAX}`;
  const taken = limiter.takeUnshared(2 * KEYS_MAX, 0);
  expect(taken).toHaveLength(KEYS_MAX);
  expect(taken.some(({ key }) => key === last)).toBe(false);
  limiter.charge(last, 0);
  expect(limiter.takeUnshared(2 * KEYS_MAX, 0)).toEqual([{ key: last, addedMs: STEP_MS }]);
});
