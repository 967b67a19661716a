import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { problemsOf, read } from "./reading.ts";

describe("names and origins that could never match are refused", () => {
  test.each(["stc.example", "STC.Example", "10.0.0.7", "[2001:DB8::1]", "a", "my_service", "xn--bcher-kva.example"])(
    "host %s, compared like the request guard does",
    (name) => {
      expect([...read({ server: { allowedHosts: [name] } }).server.allowedHosts]).toEqual([name.toLowerCase()]);
    },
  );

  test.each([
    "",
    "*",
    "*.example",
    "a:80",
    "http://a",
    "a/b",
    "a b",
    "user@a",
    "2001:db8::1",
    "-a",
    "a-",
    "bücher.example",
  ])("host %j", (name) => {
    const [problem = ""] = problemsOf({ server: { allowedHosts: ["fine", name] } });
    expect(problem).toStartWith("server.allowedHosts[1]: must be a host's name");
  });

  test.each([
    "https://console.example",
    "http://localhost:3000",
    "HTTPS://Console.example",
    "chrome-extension://abcdef",
  ])("origin %s, as browsers write it", (origin) => {
    expect([...read({ server: { allowedOrigins: [origin] } }).server.allowedOrigins]).toEqual([origin.toLowerCase()]);
  });

  test.each([
    "",
    "*",
    "null",
    "console.example",
    "https://*",
    "https://a/",
    "https://a/b",
    "https://a:443",
    "https://u@a",
  ])("origin %j", (origin) => {
    const [problem = ""] = problemsOf({ server: { allowedOrigins: [origin] } });
    expect(problem).toStartWith("server.allowedOrigins[0]: must be an origin");
  });
});

const GRPC = { proto: "./proto", plaintext: true };

test.each([
  ["systems.orders.endpoint", { systems: { orders: { ...GRPC, endpoint: "orders:0" } } }],
  ["systems.orders.endpoint", { systems: { orders: { ...GRPC, endpoint: "orders:65536" } } }],
  ["systems.orders.endpoints[1]", { systems: { orders: { ...GRPC, endpoints: ["[::1]:1", "[::1]:99999"] } } }],
  ["systems.argocd.server", { systems: { argocd: { server: "argocd:70000" } } }],
])("a port that nothing listens on: %s", (field, more) => {
  expect(problemsOf(more)).toEqual([`${field}: must end in a port from 1 to 65535`]);
});

test.each([
  [{ systems: { orders: { ...GRPC, endpoint: "orders:65535" } } }],
  [{ systems: { orders: { ...GRPC, endpoints: ["[::1]:1", "dns:///a:2"] } } }],
  [{ systems: { argocd: { server: "argocd" } } }],
  [{ systems: { argocd: { server: "[::1]" } } }],
])("%j is accepted", (more) => {
  expect(problemsOf(more)).toEqual([]);
});

describe("any value of an address", () => {
  const places: readonly (readonly [string, (text: string) => Readonly<Record<string, unknown>>])[] = [
    ["systems.loki.address", (address) => ({ systems: { loki: { address } } })],
    ["systems.orders.endpoint", (endpoint) => ({ systems: { orders: { ...GRPC, endpoint } } })],
    ["jwt.issuers[0].jwksUri", (jwksUri) => ({ jwt: { issuers: [{ issuer: "https://idp.test", jwksUri }] } })],
    ["telemetry.traces.endpoint", (endpoint) => ({ telemetry: { traces: { endpoint } } })],
    ["audit.export[0].url", (url) => ({ audit: { dir: "./audit", export: [{ type: "otlp", url }] } })],
    ["approvals.publicUrl", (publicUrl) => ({ approvals: { publicUrl } })],
    ["approvals.store", (store) => ({ approvals: { store } })],
    ["server.resource", (resource) => ({ server: { resource } })],
    ["server.allowedOrigins[0]", (origin) => ({ server: { allowedOrigins: [origin] } })],
  ];
  const address = fc.oneof(
    fc.string(),
    fc.webUrl(),
    fc
      .tuple(fc.constantFrom("http://", "https://", "http://[", "https://a:", "//", "sqlite://"), fc.string())
      .map((parts) => parts.join("")),
  );

  test.each(places)("%s is accepted, or refused by its name", (place, written) => {
    fc.assert(
      fc.property(address, (text) => {
        for (const problem of problemsOf(written(text))) expect(problem).toContain(place.replace(/\[0\].*$/, "[0]"));
      }),
      { numRuns: 200 },
    );
  });
});
