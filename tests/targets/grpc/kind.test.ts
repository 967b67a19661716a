import { expect, test } from "bun:test";
import { StartupError } from "../../../src/core/errors.ts";
import { entriesOf } from "../../../src/runtime/config/config.ts";
import { grpc } from "../../../src/targets/grpc/kind.ts";
import { readConfig } from "../../support/build.ts";

const ISSUER = { issuer: "https://idp.test", jwksFile: "jwks.json" };
const SYSTEM = { endpoint: "orders:9090", proto: "./proto", plaintext: true };

function read(system: unknown, more: Readonly<Record<string, unknown>> = {}) {
  const written = {
    tools: ["./tools"],
    audit: { dir: "./audit" },
    jwt: { issuers: [ISSUER] },
    systems: { orders: system },
    ...more,
  };
  return readConfig(written, { folder: "/x", environment: {}, origin: "c" });
}

function problems(system: unknown, more: Readonly<Record<string, unknown>> = {}): readonly string[] {
  try {
    read(system, more);
  } catch (error) {
    if (error instanceof StartupError) return error.problems;
    throw error;
  }
  return [];
}

test("a setting that is left out has a safe default", () => {
  const { orders } = read(SYSTEM).systems;
  expect(orders).toMatchObject({
    keepalive: { intervalMs: 310_000, timeoutMs: 20_000, withoutCalls: false },
    retries: 2,
    breaker: { failuresMax: 10, openMs: 2_000 },
    concurrentCallsMax: 256,
  });
  expect(orders?.["health"]).toBeUndefined();
});

test.each([
  ["several endpoints", { ...SYSTEM, endpoint: undefined, endpoints: ["a:1", "[::1]:2"] }],
  ["health of the server", { ...SYSTEM, health: true }],
  ["health of one service", { ...SYSTEM, health: { service: "orders.v1.Orders" } }],
  ["no repeats", { ...SYSTEM, retries: 0 }],
  ["a part of the keepalive", { ...SYSTEM, keepalive: { intervalMs: 10_000 } }],
  ["another breaker", { ...SYSTEM, breaker: { failuresMax: 1, openMs: 60_000 } }],
])("%s is accepted", (_title, system) => {
  expect([...entriesOf(read(system), grpc).keys()]).toEqual(["orders"]);
});

test.each([
  ["no endpoint", { proto: "x", plaintext: true }, "orders.endpoint: is missing"],
  ["endpoint and endpoints", { ...SYSTEM, endpoints: ["a:1"] }, "orders.endpoints: and endpoint exclude each other"],
  ["an empty list", { ...SYSTEM, endpoint: undefined, endpoints: [] }, "orders.endpoints"],
  ["a list with a URL", { ...SYSTEM, endpoint: undefined, endpoints: ["http://a:1"] }, "orders.endpoints[0]: must be"],
  ["more repeats than two", { ...SYSTEM, retries: 3 }, "orders.retries"],
  ["pings that servers punish", { ...SYSTEM, keepalive: { intervalMs: 1_000 } }, "orders.keepalive.intervalMs"],
  ["a misspelt key", { ...SYSTEM, retry: 1 }, "orders.retry: is not a known key"],
  ["a misspelt key inside", { ...SYSTEM, breaker: { failures: 1 } }, "orders.breaker.failures: is not a known key"],
  ["no health", { ...SYSTEM, health: false }, "orders.health"],
  ["no calls at all", { ...SYSTEM, concurrentCallsMax: 0 }, "orders.concurrentCallsMax"],
])("%s is refused", (_title, system, want) => {
  expect(problems(system).join("\n")).toContain(`systems.${want}`);
});

test.each([
  [
    "an assertion by an issuer that our listeners trust",
    { assertion: { issuer: ISSUER.issuer, keyFile: "k" } },
    "assertion.issuer: is also an issuer of callers' tokens",
  ],
  [
    "a listener that accepts our own assertions",
    { jwt: { issuers: [{ ...ISSUER, typ: "application/STC-assertion+jwt" }] } },
    "jwt.issuers[0].typ: is the type of our own caller assertions",
  ],
  ["an assertion without a key", { assertion: { issuer: "x" } }, "assertion.keyFile: is missing"],
])("%s is refused", (_title, more, want) => {
  expect(problems(SYSTEM, more).join("\n")).toContain(want);
});

test("a name that only looks like a gRPC key stays a list's name", () => {
  expect(read({ health: ["a"], retries: ["b"] }).systems["orders"]).toEqual({ health: ["a"], retries: ["b"] });
});
