import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readConfigFile } from "../../support/build.ts";
import { ISSUER, problemsOf, read } from "./reading.ts";

const GRPC = { endpoint: "orders.svc:9090", proto: "./proto" };

const rows: readonly (readonly [string, Record<string, unknown>, string])[] = [
  ["an unknown key", { aduit: {} }, "aduit"],
  ["an unknown nested key", { server: { prot: 1 } }, "server.prot"],
  ["no tools", { tools: [] }, "tools"],
  ["a port that is none", { server: { port: 70_000 } }, "server.port"],
  ["an audit that is switched off", { audit: { dir: "./a", enabled: false } }, "audit.enabled"],
  ["a key without its issuer", { jwt: { publicKey: "x" } }, "jwt.issuers[0].issuer"],
  ["no issuer", { jwt: { issuers: [] } }, "jwt.issuers"],
  ["an issuer without keys", { jwt: { issuers: [{ issuer: "x" }] } }, "jwt.issuers[0]"],
  ["an issuer with two sources of keys", { jwt: { issuers: [{ ...ISSUER, jwksFile: "x" }] } }, "jwt.issuers[0]"],
  [
    "keys over plain http",
    { jwt: { issuers: [{ ...ISSUER, jwksUri: "http://idp.example/jwks" }] } },
    "jwt.issuers[0].jwksUri",
  ],
  [
    "a symmetric algorithm",
    { jwt: { issuers: [{ ...ISSUER, algorithms: ["HS256"] }] } },
    "jwt.issuers[0].algorithms[0]",
  ],
  ["the algorithm none", { jwt: { issuers: [{ ...ISSUER, algorithms: ["none"] }] } }, "jwt.issuers[0].algorithms[0]"],
  [
    "a clock that differs by more than a minute",
    { jwt: { issuers: [{ ...ISSUER, clockToleranceSeconds: 61 }] } },
    "jwt.issuers[0].clockToleranceSeconds",
  ],
  ["no algorithm", { jwt: { issuers: [{ ...ISSUER, algorithms: [] }] } }, "jwt.issuers[0].algorithms"],
  ["an issuer twice", { jwt: { issuers: [ISSUER, ISSUER] } }, "jwt.issuers[1].issuer"],
  [
    "an issuer twice for operators",
    { jwt: { issuers: ["a", "b"].map((audience) => ({ ...ISSUER, audience, operators: true })) } },
    "jwt.issuers[1].issuer",
  ],
  [
    "an issuer of agents and operators with one audience",
    { jwt: { issuers: [ISSUER, { ...ISSUER, operators: true }] } },
    "jwt.issuers[0].audience",
  ],
  [
    "agents and operators with one audience",
    { jwt: { issuers: [ISSUER, { ...ISSUER, issuer: "https://people", operators: true }] } },
    "jwt.issuers[0].audience",
  ],
  ["a service without TLS by omission", { systems: { orders: GRPC } }, "systems.orders"],
  [
    "a service with and without TLS",
    { systems: { orders: { ...GRPC, plaintext: true, tls: { rootCert: "ca" } } } },
    "systems.orders",
  ],
  [
    "plaintext: false is no answer either",
    { systems: { orders: { ...GRPC, plaintext: false } } },
    "systems.orders.plaintext",
  ],
  [
    "a certificate without its key",
    { systems: { orders: { ...GRPC, tls: { rootCert: "ca", clientCert: "c" } } } },
    "systems.orders.tls",
  ],
  [
    "an endpoint that is a URL",
    { systems: { orders: { ...GRPC, endpoint: "https://orders" } } },
    "systems.orders.endpoint",
  ],
];

test("one issuer may be written without the list, and is reported by name", () => {
  const both = [ISSUER, { ...ISSUER, operators: true, audience: "operators" }];
  expect(problemsOf({ jwt: { issuers: both } })).toEqual([]);
  expect(problemsOf({ jwt: { issuer: "https://idp.example", publicKeyFile: "./issuer.pem" } })).toEqual([]);
  expect(problemsOf({ jwt: { publicKeyFile: "./issuer.pem" } })).toEqual([
    "jwt.issuers[0].issuer: is missing: name the issuer (`iss`) of the tokens next to its key: { issuer, publicKey }",
  ]);
  expect(problemsOf({ jwt: { revocationFile: "./revoked.json" } })[0]).toContain("jwt.issuers: ");
});

test.each(rows)("%s is refused, with its field", (_title, changes, field) => {
  const problems = problemsOf(changes);
  expect(problems.map((problem) => problem.split(": ")[0])).toContain(field);
});

test("everything is reported at once", () => {
  const problems = problemsOf({ server: { port: -1 }, tools: [], limits: { concurrentCallsMax: 0 } });
  expect(problems).toHaveLength(3);
});

test("the environment overrides settings, and is named when it is wrong", () => {
  const config = read({}, { STC_PORT: "9000", STC_AUDIT_DIR: "/var/a" });
  expect([config.server.port, config.audit.dir]).toEqual([9000, "/var/a"]);
  expect(problemsOf({}, { STC_PORT: "lots" })[0]).toContain("set by STC_PORT");
});

test("the configuration is frozen", () => {
  const config = read({});
  expect(Object.isFrozen(config) && Object.isFrozen(config.server) && Object.isFrozen(config.jwt.issuers[0])).toBe(
    true,
  );
});

const files: readonly (readonly [string, string, RegExp])[] = [
  ["a key twice", "tools: [a]\ntools: [b]\n", /has the key tools twice/],
  ["broken YAML", "tools: [a\n", /config\.yaml/],
  [
    "an alias bomb",
    `a: &a [x]\n${Array.from({ length: 200 }, (_, n) => `k${n}: *a`).join("\n")}\n`,
    /config\.yaml|alias/i,
  ],
  ["an empty file", "", /config\.yaml/],
  ["a list", "- a\n", /config\.yaml/],
];

test.each(files)("a file with %s is refused", (_title, text, message) => {
  const folder = mkdtempSync(join(tmpdir(), "stc-config-"));
  try {
    writeFileSync(join(folder, "config.yaml"), text);
    expect(() => readConfigFile(join(folder, "config.yaml"), {})).toThrow(message);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("a missing file is named", () => {
  expect(() => readConfigFile("/nonexistent/config.yaml", {})).toThrow(
    /\/nonexistent\/config\.yaml: cannot be read \(ENOENT\)/,
  );
});
