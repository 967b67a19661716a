import { expect, test } from "bun:test";
import fc from "fast-check";
import { entriesOf, withPartOfSystems } from "../../../src/runtime/config/config.ts";
import { workerLimits } from "../../../src/runtime/config/workers.ts";
import { problemsOf, read } from "./reading.ts";

const STORE = { approvals: { store: "sqlite://./approvals.sqlite" } };
const two = (more: object = {}) => ({ ...STORE, server: { workers: 2 }, ...more });

test("one worker is the default, and needs nothing", () => {
  expect(read({}).server.workers).toBe(1);
  expect(problemsOf({ server: { workers: 1, socket: "/run/stc.sock" } })).toEqual([]);
});

test.each([
  ["with a store", two()],
  ["with PostgreSQL", two({ approvals: { storeUrlFile: "./url" } })],
  ["as many as the machine has cores", two({ server: { workers: 32 } })],
  [
    "with limits that can be divided",
    two({ limits: { concurrentCallsMax: 2, rates: { requests: { calls: 2, seconds: 1 } } } }),
  ],
  ["without a limit on requests", two({ limits: { rates: { requests: "off" } } })],
])("several workers %s", (_name, sections) => {
  expect(problemsOf(sections)).toEqual([]);
});

test.each([
  ["no store", { server: { workers: 2 } }, "server.workers: needs approvals.store"],
  ["a Unix socket", two({ server: { workers: 2, socket: "/run/stc.sock" } }), "server.socket: cannot be listened at"],
  [
    "only a Unix socket",
    two({ server: { workers: 2, port: "off", socket: "/run/stc.sock" } }),
    "server.socket: cannot be listened at",
  ],
  [
    "a limit below their number",
    two({ limits: { concurrentCallsMax: 1 } }),
    "limits.concurrentCallsMax: 1 cannot be divided",
  ],
  [
    "a burst below their number",
    two({ limits: { rates: { requests: { calls: 60, seconds: 60, burst: 1 } } } }),
    "limits.rates.requests.burst: 1 cannot be divided among 2 workers",
  ],
  ["none", two({ server: { workers: 0 } }), "server.workers"],
  ["too many", two({ server: { workers: 33 } }), "server.workers"],
])("several workers are refused with %s", (_name, sections, problem) => {
  expect(problemsOf(sections)).toEqual([expect.stringContaining(problem)]);
});

const ordersWith = (max: number) => ({ http: { baseUrl: "https://orders.test", concurrentCallsMax: max } });

test("a worker gets its part of a system's limit, and the system stays one of its kind", () => {
  const sections = two({ systems: { orders: ordersWith(9) } });
  const [whole, worker] = [read(sections), read(sections, { STC_WORKER: "1" })];
  const maxOf = (config: typeof whole): unknown =>
    entriesOf(withPartOfSystems(config), { name: "http" }).get("orders")?.["http"];
  expect([maxOf(whole), maxOf(worker)]).toMatchObject([{ concurrentCallsMax: 9 }, { concurrentCallsMax: 4 }]);
  expect(problemsOf(two({ systems: { orders: ordersWith(1) } }))).toEqual([
    expect.stringContaining("systems.orders.http.concurrentCallsMax: 1 cannot be divided among 2 workers"),
  ]);
});

test("the parts of all workers together never exceed a limit", () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 32 }), fc.integer({ min: 64, max: 100_000 }), (workers, limit) => {
      const { limits } = read({
        limits: {
          concurrentCallsMax: limit,
          connectionsPerSourceMax: limit,
          rates: { requests: { calls: limit, seconds: 60 } },
        },
      });
      const part = workerLimits(limits, workers);
      const requests = part.rates.requests === "off" ? 0 : part.rates.requests.calls;
      for (const each of [part.concurrentCallsMax, part.connectionsPerSourceMax, requests]) {
        expect(each).toBeGreaterThan(0);
        expect(each * workers).toBeLessThanOrEqual(limit);
      }
      expect(part.loopDelayMsMax).toBe(limits.loopDelayMsMax);
      expect(part.rates.caller).toEqual(limits.rates.caller);
    }),
  );
});
