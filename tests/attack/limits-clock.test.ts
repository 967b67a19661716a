import { expect, test } from "bun:test";
import type { IncomingMessage } from "node:http";
import { Refusal } from "../../src/core/errors.ts";
import type { CallerContext } from "../../src/core/types.ts";
import { RequestRateLimiter, WrongTokens } from "../../src/http/connections/request-limits.ts";
import { Cancellations } from "../../src/pipeline/admission.ts";

const caller: CallerContext = {
  ...{ issuer: "https://idp.test", subject: "agent-7", permissions: [], actors: [] },
  ...{ session: undefined, expiresAt: 2_000_000_000 },
};
const MAX = 10;
const HOUR_MS = 3_600_000;

/** A limit of ten a minute, on a clock that may be set. */
interface Limited {
  take(): void;
  /** How long to wait; 0 when one more is served. */
  waitMs(): number;
}

const RATE = { calls: MAX, seconds: 60 };

function ofRequests(clock: () => number): Limited {
  const pace = new RequestRateLimiter(() => RATE, clock);
  return {
    take: () => pace.take(caller),
    waitMs: () => {
      try {
        pace.take(caller);
        return 0;
      } catch (error) {
        return error instanceof Refusal ? (error.retryAfterMs ?? -1) : -1;
      }
    },
  };
}

function ofWrongTokens(clock: () => number): Limited {
  const limit = new WrongTokens({ perMinuteMax: MAX, knows: () => false, clock });
  const request = {
    headers: { authorization: "Bearer x" },
    socket: { remoteAddress: "192.0.2.1" },
  } as unknown as IncomingMessage;
  return { take: () => limit.count(request), waitMs: () => limit.waitMs(request) };
}

function ofCancellations(clock: () => number): Limited {
  const limit = new Cancellations({ perMinuteMax: MAX, clock });
  return { take: () => limit.count(caller), waitMs: () => limit.retryAfterMs(caller) };
}

const limits = [
  ["requests", ofRequests],
  ["wrong tokens", ofWrongTokens],
  ["cancellations", ofCancellations],
] as const;

test.each(limits)("%s: a caller far below the limit stays below it when the clock is set back", (_title, make) => {
  let now = 10 * HOUR_MS;
  const limit = make(() => now);
  limit.take();
  now -= HOUR_MS;
  expect(limit.waitMs()).toBe(0);
  now -= HOUR_MS;
  expect(limit.waitMs()).toBe(0);
});

test.each(limits)("%s: a caller's wait ends when it was announced, wherever the clock is set", (_title, make) => {
  for (const jumpMs of [-HOUR_MS, -1_000, 0]) {
    let now = 10 * HOUR_MS;
    const limit = make(() => now);
    for (let made = 0; made < MAX; made += 1) limit.take();
    const waitMs = limit.waitMs();
    expect(waitMs).toBeWithin(1, 6_002);
    now += jumpMs;
    expect(limit.waitMs()).toBe(waitMs);
    now += waitMs - 1;
    expect(limit.waitMs()).toBeGreaterThan(0);
    now += 1;
    expect(limit.waitMs()).toBe(0);
  }
});
