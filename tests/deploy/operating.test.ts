import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createMetrics } from "../../src/http/metrics.ts";
import { readConfig } from "../support/build.ts";
import { runStc } from "../support/stc.ts";
import { MEANINGS } from "./configuration-meanings.ts";
import { configurationReference, PAGE, withReference } from "./configuration-reference.ts";
import { alertRules, PROJECT } from "./documents.ts";

const reference = readFileSync(PAGE, "utf8");
const observability = readFileSync(join(PROJECT, "docs/observability.md"), "utf8");
const pages = ["cluster", "install", "operating", "observability"].map((name) =>
  readFileSync(join(PROJECT, `docs/${name}.md`), "utf8"),
);
const rows = [...configurationReference().matchAll(/^\| `([^`]+)` \| (.*) \| (.*) \| (.*) \|$/gm)].map(
  ([, key = "", , fallback = "", says = ""]) => ({ key, fallback, says }),
);

test("the reference of the configuration matches the schema: else run `bun run docs:configuration`", () => {
  expect(reference).toBe(withReference(reference));
});

test("every key has a meaning, and no meaning is left over", () => {
  expect(rows.length).toBeGreaterThan(100);
  expect(rows.filter(({ says }) => says === "").map(({ key }) => key)).toEqual([]);
  const known = new Set(rows.map(({ key }) => key));
  expect(Object.keys(MEANINGS).filter((key) => !known.has(key))).toEqual([]);
});

const TOKENS = { tokenUrl: "https://x", clientId: "x", clientSecretFile: "x" };

test("the defaults in it are the service's defaults", () => {
  const written = {
    tools: ["."],
    audit: { dir: "audit" },
    jwt: {
      issuers: [
        { issuer: "https://x", jwksFile: "x" },
        { issuer: "https://people", jwksFile: "x", audience: "people", operators: true },
        { issuer: "https://cluster", jwksFile: "x", profile: "kubernetes", tokenReview: {} },
        { issuer: "https://tenants", jwksFile: "x", tenants: { names: ["acme"] } },
      ],
      clientCertificates: [{ spiffeId: "spiffe://x/y", issuer: "https://x", subject: "y" }],
    },
    approvals: {
      storeUrlFile: "x",
      webhooks: [{ name: "x", url: "https://x", secretFile: "x" }],
      policies: [{ name: "x", when: { risk: "high" }, require: { stages: [{ name: "x" }] } }],
    },
    tenants: { acme: { tools: ["."] } },
    systems: {
      grpc: { endpoint: "x:1", plaintext: true, proto: "x" },
      http: { http: { baseUrl: "https://x", graphql: { schemaFile: "x" }, auth: { clientCredentials: TOKENS } } },
      exchange: { http: { baseUrl: "https://x", auth: { tokenExchange: TOKENS } } },
      mcp: { mcp: { url: "https://x", auth: { clientCredentials: TOKENS } } },
      mcpExchange: { mcp: { url: "https://x", auth: { tokenExchange: TOKENS } } },
      sql: { sql: { url: "postgres://x/x", read: { user: "x" }, caller: {} } },
      ...{ kubernetes: {}, loki: {}, argocd: {} },
    },
    server: {
      ...{ operator: {}, tls: { certFile: "x", keyFile: "x", clientCaFile: "x" } },
      console: { tls: { certFile: "x", keyFile: "x", clientCaFile: "x" } },
    },
    decisionPoints: [{ name: "x", authzen: { url: "https://x", auth: { clientCredentials: TOKENS } } }],
    console: { oidc: { issuer: "https://x", clientId: "x" } },
    bundle: { url: "https://x", dir: "x", fleet: "x", environment: "x", keysFile: "x", timestampKeysFile: "x" },
    dataFlow: {},
    hub: {
      listen: {},
      tokens: [{ issuer: "https://cluster", audience: "hub", jwksFile: "x" }],
      members: [{ subject: "x" }],
    },
    telemetry: { traces: { endpoint: "http://localhost:4318" } },
    redaction: { rules: [{ id: "X", anchors: ["xyz"], pattern: "xyz", matches: ["xyz"] }] },
  };
  const config = readConfig(written, { folder: "/", environment: {}, origin: "test" });
  const shown = rows.filter(({ fallback }) => fallback.startsWith("`"));
  const wrong = shown.flatMap(({ key, fallback }) => {
    const path = key
      .replace("<http>", key.includes("tokenExchange") ? "exchange" : "http")
      .replace("<mcp>", key.includes("tokenExchange") ? "mcpExchange" : "mcp")
      .replace("<grpc>", "grpc")
      .replace("<sql>", "sql")
      .replace("issuers[].tokenReview", "issuers.2.tokenReview")
      .replace("issuers[].tenants", "issuers.3.tenants")
      .replaceAll("[]", ".0")
      .split(".");
    const real = path.reduce<unknown>((at, part) => (at as Record<string, unknown> | undefined)?.[part], config);
    return JSON.stringify(real) === fallback.slice(1, -1)
      ? []
      : [`${key}: ${fallback}, really ${JSON.stringify(real)}`];
  });
  expect(wrong).toEqual([]);
  expect(shown.length).toBeGreaterThan(50);
});

test("alerts have the form that operators' tools expect", () => {
  const rules = alertRules();
  const faulty = rules.filter(
    ({ alert, annotations, labels }) =>
      !/^SafeToolCall[A-Z][A-Za-z]+$/.test(alert) ||
      !/^(critical|warning)$/.test(labels.severity) ||
      annotations.summary.length < 20,
  );
  expect(faulty).toEqual([]);
});

test("every metric is explained, and no other", async () => {
  const metrics = createMetrics();
  metrics.watch({ dropped: { traces: () => 0, logs: () => 0 } });
  metrics.load.watchConnections(() => 0);
  const ours = [...(await metrics.text()).matchAll(/^# TYPE (stc_\w+)/gm)].map(([, name = ""]) => name);
  expect(ours.length).toBeGreaterThan(30);
  const [, section = ""] = observability.split("\n## Metrics\n");
  const explained = [...section.matchAll(/^\| (`stc_.*?) \|/gm)].flatMap(
    ([, cell = ""]) => cell.match(/stc_\w+/g) ?? [],
  );
  expect(explained.sort()).toEqual(ours.sort());
});

test("commands and files that the pages name exist", async () => {
  const help = async (...args: string[]): Promise<string> => (await runStc([...args, "--help"])).out;
  expect(await help("check")).toContain("--matrix");
  expect(await help("health")).toContain("--ready");
  expect(await help("audit", "keys")).toContain("--new");
  expect(await help("audit", "verify")).toContain("--dir");
  const stats = await help("audit", "stats");
  expect([stats.includes("--decision"), stats.includes("--compare")]).toEqual([true, true]);
  const files = [...pages.join("\n").matchAll(/`(deploy\/[\w./-]+)`/g)].map(([, file = ""]) => file);
  expect(files.length).toBeGreaterThan(3);
  expect(files.filter((file) => !existsSync(join(PROJECT, file)))).toEqual([]);
  const { scripts } = JSON.parse(readFileSync(join(PROJECT, "package.json"), "utf8")) as { scripts: object };
  const named = [...pages.join("\n").matchAll(/bun run ([a-z:]+)/g)].map(([, name = ""]) => name);
  expect(named.filter((name) => !Object.keys(scripts).includes(name))).toEqual([]);
});

test("a page without the section of the reference is an error", () => {
  expect(() => withReference("# A page")).toThrow("the page has no section of docs:");
});
