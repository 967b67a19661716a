import { afterEach, describe, expect, test } from "bun:test";
import { LOOP_MEASURE_EVERY_MS, type Shedder, Shedding } from "../../../src/pipeline/limits/shedding.ts";
import { until } from "../../support/until.ts";
import { AGENTS_SERVERS } from "../agents-servers.ts";
import { type LoadStand, openLoadStand, Wire, wholeCall } from "../load-stand.ts";

describe.each(AGENTS_SERVERS)("with the HTTP server %s", (http) => {
  let open: LoadStand | undefined;
  async function stand(written: Parameters<typeof openLoadStand>[0]): Promise<LoadStand> {
    open = await openLoadStand({ ...written, server: { http, ...written?.server } });
    return open;
  }
  afterEach(async () => {
    await open?.close();
    open = undefined;
  });

  test("a caller that calls too often gets 429, the time to wait and its audit entry; another is served", async () => {
    const { call, token, audited } = await stand({ limits: { rates: { caller: { calls: 2, seconds: 3_600 } } } });
    const [mine, other] = [await token("agent-1"), await token("agent-2")];
    expect([(await call(mine)).status, (await call(mine)).status]).toEqual([200, 200]);
    const refused = await call(mine);
    expect(refused.status).toBe(429);
    expect(refused.error).toMatchObject({
      ...{ code: "RATE_LIMITED", stage: "LIMIT", retryable: true },
      message: "You have called too often: the limit is 2 calls in 3600 s.",
      details: { limit: "caller", calls: 2, seconds: 3_600 },
    });
    const waitMs = Number(refused.error["retryAfterMs"]);
    expect(waitMs).toBeGreaterThan(1_700_000);
    expect(waitMs).toBeLessThanOrEqual(1_800_000);
    expect(refused.headers.get("retry-after")).toBe(String(Math.ceil(waitMs / 1_000)));
    expect((await call(other)).status).toBe(200);
    expect(audited().filter(({ decision }) => decision === "DENIED")).toEqual([
      expect.objectContaining({
        caller: expect.objectContaining({ sub: "agent-1" }),
        error: { code: "RATE_LIMITED" },
        denial: expect.objectContaining({ stage: "LIMIT" }),
      }) as Record<string, unknown>,
    ]);
  });

  test("a caller that waits as long as told is served", async () => {
    const { call, token } = await stand({ limits: { rates: { caller: { calls: 2, seconds: 1, burst: 1 } } } });
    const mine = await token();
    for (let refused = 0; refused < 2; ) {
      // On a slow machine, the time to wait may pass before the next call is there.
      const { status, error } = await call(mine);
      if (status === 200) continue;
      refused += 1;
      await Bun.sleep(Number(error["retryAfterMs"]));
      expect((await call(mine)).status).toBe(200);
    }
  });

  test("a tool's limit is invisible to callers who may not know the tool", async () => {
    const { call, token } = await stand({ limits: { rates: { tool: { calls: 1, seconds: 3_600 } } } });
    const mine = await token();
    const secret = { tool: "load_secret", args: {} };
    const none = { tool: "load_none", args: {} };
    for (let made = 0; made < 3; made += 1) {
      expect((await call(mine, secret)).error).toMatchObject({ code: "PERMISSION_DENIED" });
      expect((await call(mine, none)).error).toMatchObject({ code: "TOOL_NOT_FOUND" });
    }
    expect((await call(mine)).status).toBe(200);
    expect((await call(await token("agent-2"))).error).toMatchObject({
      code: "RATE_LIMITED",
      details: { limit: "tool" },
    });
  });

  test("an invalid token is UNAUTHENTICATED, whatever limit is reached", async () => {
    const { call, token } = await stand({ limits: { rates: { service: { calls: 1, seconds: 3_600 } } } });
    const mine = await token();
    expect((await call(mine)).status).toBe(200);
    expect((await call(mine)).error).toMatchObject({ code: "RATE_LIMITED", details: { limit: "service" } });
    expect((await call(await token("agent-1", "expired"))).status).toBe(401);
  });

  test.each([
    [
      "a tool that is none",
      { rates: { tools: { load_ecko: {} } } },
      "limits.rates.tools.load_ecko: no tool of this name",
    ],
    ["replicas without a database", { shared: true }, "limits.shared: replicas count together in PostgreSQL"],
    ["no calls at all", { rates: { caller: { calls: 0 } } }, "limits.rates.caller"],
    ["a word that is not off", { rates: { service: "none" } }, "limits.rates.service"],
  ])("%s is reported at the start", async (_title, limits, message) => {
    await expect(openLoadStand({ limits })).rejects.toThrow(message);
  });

  test("under the defaults a burst of many callers behind one address is served completely", async () => {
    const { port, token } = await stand({});
    const tokens = await Promise.all(Array.from({ length: 8 }, (_, index) => token(`agent-${index}`)));
    const wires = tokens.flatMap((mine) => Array.from({ length: 100 }, () => new Wire(port).send(wholeCall(mine))));
    for (const wire of wires) await until("an answer", () => wire.statuses[0]);
    expect(new Set(wires.map(({ statuses }) => statuses[0]))).toEqual(new Set([200]));
    for (const wire of wires) wire.end();
  });

  test("connections over the limit of a source get an answer and are closed; the others continue, and closed ones free their slot", async () => {
    const { port, token, metrics } = await stand({ limits: { connectionsPerSourceMax: 3 } });
    const mine = await token();
    const wires = Array.from({ length: 2 }, () => new Wire(port).send(wholeCall(mine)));
    for (const wire of wires) await until("an answer", () => wire.statuses[0]);
    const [first, second] = wires;
    expect(await metrics()).toContain("stc_connections 3\n");
    const over = new Wire(port).send(wholeCall(mine));
    await over.closed;
    expect(over.statuses).toEqual([503]);
    expect(over.received).toContain(
      '"code":"OVERLOADED","stage":"LIMIT","message":"Too many connections from your address."',
    );
    expect(over.received).toContain("retry-after: 1\r\n");
    first?.send(wholeCall(mine));
    await until("the second answer", () => (first?.statuses.length === 2 ? true : undefined));
    second?.end();
    await until("room", async () => {
      const wire = new Wire(port).send(`${wholeCall(mine)}`);
      await until("an answer", () => wire.statuses[0] ?? (wire.isClosed ? 0 : undefined));
      const served = wire.statuses[0] === 200;
      wire.end();
      return served ? true : undefined;
    });
    first?.end();
  });

  test("one source's connections do not affect another", async () => {
    const { port, token } = await stand({ limits: { connectionsPerSourceMax: 1 } });
    const mine = await token();
    const wires = [undefined, "127.0.0.2", "127.0.0.3"].map((localAddress) =>
      new Wire(port, localAddress === undefined ? {} : { localAddress }).send(wholeCall(mine)),
    );
    for (const wire of wires) expect(await until("an answer", () => wire.statuses[0])).toBe(200);
    for (const wire of wires) wire.end();
  });

  test("a connection over the common limit is closed before its request is read", async () => {
    const { port, token, audited } = await stand({ limits: { connectionsMax: 1 } });
    const mine = await token();
    const first = new Wire(port).send(wholeCall(mine));
    await until("an answer", () => first.statuses[0]);
    const over = new Wire(port, { localAddress: "127.0.0.2" }).send(wholeCall(mine));
    await over.closed;
    expect(over.statuses).toEqual([503]);
    expect(over.received).toContain("Too many connections.");
    expect(audited().length).toBe(1);
    first.end();
  });

  /** A loop whose measurements are late as the test says. */
  function loop(delayMsMax = 200) {
    let now = 0;
    const shedding = new Shedding({ delayMsMax, now: () => now });
    const measure = (delayMs: number, times = 1): void => {
      for (let made = 0; made < times; made += 1) {
        now += LOOP_MEASURE_EVERY_MS + delayMs;
        shedding.measure();
      }
    };
    /** Returns how many calls are accepted that come one after another in the same turn and take `callMs` each. */
    const taken = (callMs: number, shedder: Shedder = shedding, calls = 1_000): number => {
      let count = 0;
      for (let made = 0; made < calls; made += 1) {
        if (shedder.refuses()) continue;
        count += 1;
        now += callMs;
      }
      return count;
    };
    measure(0);
    return { measure, taken, another: () => shedding.another() };
  }

  test("an overloaded loop takes what it has time for, until it has been on time for a while", () => {
    const { measure, taken } = loop();
    measure(200, 4);
    expect(taken(2)).toBe(1_000);
    measure(0, 30);
    measure(200, 5);
    expect(taken(2)).toBe(125);
    measure(0, 19);
    expect(taken(2)).toBe(125);
    measure(0, 21);
    expect(taken(2)).toBe(1_000);
  });

  test.each([
    ["one long stop", (measure: (ms: number, times?: number) => void) => measure(60_000)],
    ["a loop that is late, but not by so much", (measure) => measure(199, 1_000)],
    ["late and on time by turns", (measure) => Array.from({ length: 100 }, () => [measure(500, 4), measure(0)])],
    ["a clock that was set back", (measure) => measure(-3_600_000, 10)],
  ])("%s sheds nothing", (_title, happen) => {
    const { measure, taken } = loop();
    happen(measure);
    expect(taken(10)).toBe(1_000);
  });

  test("while shedding, some calls are taken at any delay, and half on time is not on time", () => {
    const { measure, taken } = loop();
    measure(200, 5);
    measure(100, 1_000);
    expect(taken(1_000)).toBe(32);
  });

  test("an occasional caller is not shed", () => {
    const { measure, taken } = loop();
    measure(10_000, 50);
    expect(taken(0)).toBe(1_000);
  });

  describe("services of one process", () => {
    /** Two tenants and the service itself, on a loop that is overloaded. */
    function overloaded() {
      const { measure, taken, another } = loop();
      const [noisy, quiet, third] = [another(), another(), another()];
      measure(200, 5);
      return { measure, taken, noisy, quiet, third };
    }

    test("a tenant that sends little is served, however much another sends and however late the loop is", () => {
      const { measure, taken, noisy, quiet } = overloaded();
      for (let round = 0; round < 100; round += 1) {
        expect(taken(100, noisy)).toBe(32);
        expect(taken(0, quiet, 16)).toBe(16);
        expect(noisy.refuses()).toBe(true);
        measure(3_000);
      }
    });

    test("whoever comes late gets an equal share of what was accepted in time, and no more", () => {
      const { measure, taken, noisy, quiet, third } = overloaded();
      expect(taken(2, noisy)).toBe(125);
      expect([taken(2, quiet), taken(2, third)]).toEqual([63, 42]);
      expect([taken(2, noisy), taken(2, quiet)]).toEqual([0, 0]);
      measure(200);
      // Three are known to call: each has a third from the beginning.
      expect(taken(2, noisy)).toBe(125);
      expect([taken(2, quiet), taken(2, third), taken(2)]).toEqual([42, 42, 32]);
    });

    test("tenants whose calls come by turns are shed alike", () => {
      const { taken, noisy, quiet } = overloaded();
      let [first, second] = [0, 0];
      for (let made = 0; made < 1_000; made += 1) {
        first += taken(2, noisy, 1);
        second += taken(2, quiet, 1);
      }
      expect([first, second]).toEqual([63, 63]);
    });

    test("a tenant whose requests have waited too long for its turn is shed on a loop that is on time; another is not", () => {
      const { taken, another } = loop();
      const [noisy, quiet] = [another(), another()];
      noisy.noteWait(199);
      expect(taken(0, noisy)).toBe(1_000);
      noisy.noteWait(200);
      expect([taken(0, noisy), taken(0, quiet), taken(0)]).toEqual([0, 1_000, 1_000]);
      noisy.noteWait(0);
      expect(taken(0, noisy)).toBe(1_000);
    });

    test("a tenant alone is shed as a service without tenants", () => {
      const { measure, taken, noisy } = overloaded();
      expect(taken(2, noisy)).toBe(125);
      measure(0, 19);
      expect(taken(2, noisy)).toBe(125);
      measure(0, 21);
      expect(taken(2, noisy)).toBe(1_000);
    });
  });
});
