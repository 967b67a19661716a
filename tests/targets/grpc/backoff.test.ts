import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { credentials } from "@grpc/grpc-js";
import { notSent } from "../../../src/egress/grpc/attempt.ts";
import { SystemConnections } from "../../../src/egress/grpc/connections.ts";
import { KEEPALIVE_DEFAULTS } from "../../../src/egress/grpc/settings.ts";
import { type Circuit, RESILIENCE_DEFAULTS, Resilience } from "../../../src/egress/resilience.ts";
import { until } from "../../support/until.ts";

const NAME_REST_MS = 30_000;

const setTimer = globalThis.setTimeout;
const random = Math.random;

/** Delays in milliseconds that the code requested; no timer really waits. */
function record(file: string): number[] {
  const waits: number[] = [];
  globalThis.setTimeout = ((work: () => void, ms: number) => {
    if (!(new Error().stack ?? "").includes(file)) return setTimer(work, ms);
    if (ms > 0) waits.push(ms);
    return setTimer(work, 0);
  }) as typeof setTimeout;
  return waits;
}

afterEach(() => {
  globalThis.setTimeout = setTimer;
  Math.random = random;
});

describe("connecting again", () => {
  let port: number;
  beforeEach(() => {
    const listener = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => {} } });
    port = listener.port;
    listener.stop(true);
  });

  /** Delays between the first attempts to connect to an address without a listener. */
  async function waitsBetween(attempts: number, dice: number): Promise<readonly number[]> {
    const waits = record("backoff-timeout");
    // grpc-js has random numbers of its own.
    Math.random = () => dice;
    const endpoint = {
      endpoints: {
        servers: [{ address: `127.0.0.1:${port}` }],
        credentials: credentials.createInsecure(),
        tls: null,
        clientCertificate: null,
      },
      maxMessageBytes: 1_000,
      keepalive: KEEPALIVE_DEFAULTS,
    };
    const link = new SystemConnections(endpoint);
    try {
      await until(`${attempts} attempts`, async () => {
        await link.connect(new AbortController().signal);
        return waits.length >= attempts ? true : undefined;
      });
    } finally {
      link.close();
    }
    return waits.slice(0, attempts);
  }

  test.each([
    ["the least", 0, 0.8],
    ["the most", 1, 1.2],
    ["in the middle", 0.5, 1],
  ])(
    "waits from 100 ms to 10 s, each time 1.6 times as long, a fifth more or less: %s",
    async (_title, dice, factor) => {
      // Name resolution has a timer of its own, of half a minute; its delays appear between the others.
      const waits = (await waitsBetween(120, dice)).filter((ms) => ms !== NAME_REST_MS);
      expect(Math.max(...waits)).toBeLessThanOrEqual(12_000);
      expect(Math.min(...waits)).toBe(100);
      let wanted = 100;
      for (const ms of waits) if (Math.abs(ms - wanted) < 1e-6) wanted = Math.min(wanted * 1.6, 10_000) * factor;
      expect(wanted).toBeCloseTo(Math.min(10_000, 10_000 * factor * 1.6) * factor, 3);
    },
  );
});

describe("repeating a call", () => {
  const attempting = async (dice: number, limits: Partial<typeof RESILIENCE_DEFAULTS> = {}) => {
    const waits = record("resilience.ts");
    const resilience = new Resilience({ ...RESILIENCE_DEFAULTS, ...limits }, () => dice);
    const { signal } = new AbortController();
    let attempts = 0;
    const attempt = async (): Promise<never> => {
      attempts += 1;
      throw notSent(signal);
    };
    const call = { system: "lab", path: "/a/B", safe: true, signal, attempt, connected: () => false };
    await resilience.run(call).catch(() => {});
    return { waits, attempts };
  };

  test.each([
    ["the least", 0, [50, 200]],
    ["in the middle", 0.5, [75, 300]],
    ["the most", 1, [100, 400]],
  ])("waits twice, the second time four times as long: %s", async (_title, dice, waits) => {
    expect(await attempting(dice)).toEqual({ waits, attempts: 3 });
  });

  test("continues until its limit, and not beyond", async () => {
    const { waits, attempts } = await attempting(0, { retriesMax: 4 });
    expect({ waits, attempts }).toEqual({ waits: [50, 200, 800, 3_200], attempts: 5 });
  });
});

describe("the circuit counts consecutive failures", () => {
  const { signal } = new AbortController();
  const outcome = (resilience: Resilience, fails: boolean): Promise<unknown> => {
    const attempt = async (): Promise<string> => {
      if (fails) throw notSent(signal);
      return "answer";
    };
    const call = { system: "lab", path: "/a/B", safe: false, signal, attempt, connected: () => true };
    return resilience.run(call).catch((error: unknown) => error);
  };
  const circuitOf = () => new Resilience({ ...RESILIENCE_DEFAULTS, circuitFailuresMax: 3 }, () => 0);

  test("an answer between failures resets the count", async () => {
    const resilience = circuitOf();
    for (let round = 0; round < 5; round += 1) {
      for (const fails of [true, true, false]) await outcome(resilience, fails);
      expect(resilience.circuit).toBe("closed");
    }
    for (const fails of [true, true, true]) await outcome(resilience, fails);
    expect(resilience.circuit).toBe("open");
    expect(await outcome(resilience, false)).toMatchObject({ code: "TARGET_UNAVAILABLE", retryAfterMs: 2_000 });
  });

  test("concurrent failures count each, and an answer among them resets too", async () => {
    const together = circuitOf();
    await Promise.all([true, true, true].map((fails) => outcome(together, fails)));
    expect(together.circuit).toBe("open");
    const mixed = circuitOf();
    await Promise.all([true, true, false, true, true].map((fails) => outcome(mixed, fails)));
    expect(mixed.circuit).toBe("closed");
  });

  test.each([
    ["a caller disconnects, which says nothing about the service", "AbortError", "closed"],
    ["a deadline passes", "TimeoutError", "open"],
  ])("when %s", async (_title, reason, circuit) => {
    const resilience = circuitOf();
    for (let round = 0; round < 3; round += 1) {
      const ending = new AbortController();
      const attempt = async (): Promise<never> => {
        ending.abort(new DOMException("", reason));
        throw notSent(signal);
      };
      const call = { system: "lab", path: "/a/B", safe: false, attempt, connected: () => true };
      await resilience.run({ ...call, signal: ending.signal }).catch(() => {});
    }
    expect(resilience.circuit).toBe(circuit as Circuit);
  });

  test("a probe whose caller disconnects leaves the circuit open, and the next call probes", async () => {
    record("resilience.ts");
    const resilience = circuitOf();
    for (const fails of [true, true, true]) await outcome(resilience, fails);
    await new Promise((resolve) => setTimer(resolve, 10));
    const leaving = new AbortController();
    const attempt = async (): Promise<never> => {
      expect(resilience.circuit).toBe("half-open");
      leaving.abort();
      throw notSent(leaving.signal);
    };
    const call = { system: "lab", path: "/a/B", safe: false, attempt, connected: () => true };
    await resilience.run({ ...call, signal: leaving.signal }).catch(() => {});
    expect(resilience.circuit).toBe("open");
    expect(await outcome(resilience, false)).toBe("answer");
    expect(resilience.circuit).toBe("closed");
  });
});

test("as many calls as there are slots; one more must be retried later", async () => {
  const resilience = new Resilience({ ...RESILIENCE_DEFAULTS, concurrentCallsMax: 2 }, () => 0);
  const { signal } = new AbortController();
  const { promise, resolve } = Promise.withResolvers<string>();
  const call = { system: "lab", path: "/a/B", safe: true, signal, attempt: () => promise, connected: () => true };
  const under = [resilience.run(call), resilience.run(call)];
  expect(await resilience.run(call).catch((error: unknown) => error)).toMatchObject({
    code: "OVERLOADED",
    retryAfterMs: 1_000,
  });
  resolve("answer");
  expect(await Promise.all(under)).toEqual(["answer", "answer"]);
  expect(await resilience.run(call)).toBe("answer");
});
