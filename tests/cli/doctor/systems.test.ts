import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { makeCertificates } from "../../../src/cli/development/certificates.ts";
import { sqliteStore } from "../../../src/database/sqlite.ts";
import { DoctorStand, nextIn, seenIn } from "../../support/doctor.ts";

const stand = new DoctorStand();
let clockOffMs = 0;
let keys: () => Response;
let receiver: () => Response;
const server = Bun.serve({
  ...{ hostname: "127.0.0.1", port: 0 },
  fetch({ url }) {
    const response = new URL(url).pathname === "/keys" ? keys() : receiver();
    response.headers.set("date", new Date(Date.now() + clockOffMs).toUTCString());
    return response;
  },
});
const url = `http://127.0.0.1:${server.port}`;
const nobody = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() });
const away = `http://127.0.0.1:${nobody.port}`;
await nobody.stop(true);

afterAll(async () => {
  await server.stop(true);
  stand.end();
});
beforeEach(() => {
  clockOffMs = 0;
  keys = () => Response.json({ keys: [stand.issuers.agents.jwk] });
  receiver = () => Response.json({});
  stand.configure();
});

describe("issuers", () => {
  test("none whose keys are fetched: the check does not apply", async () => {
    expect(await stand.check("issuers")).toMatchObject({ status: "not applicable" });
  });

  test("one that publishes its keys is ok", async () => {
    stand.configure({ jwt: stand.fetchedIssuer(`${url}/keys`) });
    expect(await stand.check("issuers")).toMatchObject({ status: "ok" });
  });

  test("one that is away, or publishes other keys, fails, and the text hides the query", async () => {
    stand.configure({ jwt: stand.fetchedIssuer(`${away}/keys?key=hidden-in-query`) });
    const result = await stand.check("issuers");
    expect([result.status, nextIn(result)]).toEqual([
      "failed",
      expect.stringContaining("#safetoolcallkeysunavailable"),
    ]);
    expect(seenIn(result)).not.toContain("hidden-in-query");
    keys = () => Response.json({ keys: [stand.issuers.rsa.jwk] });
    stand.configure({ jwt: stand.fetchedIssuer(`${url}/keys`) });
    expect(seenIn(await stand.check("issuers"))).toContain("no key fits ES256");
  });
});

describe("clocks", () => {
  test("without another clock, the check does not apply", async () => {
    expect(await stand.check("clocks")).toMatchObject({ status: "not applicable" });
  });

  test.each([
    ["the same", 0, "ok"],
    ["a second ahead, as whole seconds may look", 1_000, "ok"],
    ["four seconds ahead", 4_000, "warning"],
    ["four seconds behind", -4_000, "warning"],
    ["a minute ahead", 60_000, "failed"],
    ["a minute behind", -60_000, "failed"],
  ] as const)("an issuer whose clock is %s", async (_, offMs, status) => {
    clockOffMs = offMs;
    stand.configure({ jwt: stand.fetchedIssuer(`${url}/keys`) });
    const result = await stand.check("clocks");
    expect([result.status, seenIn(result)]).toEqual([status, expect.stringContaining("https://")]);
    if (status === "failed") expect(seenIn(result)).toContain("clockToleranceSeconds allows 5");
  });

  test("an issuer that allows more may differ more", async () => {
    clockOffMs = 20_000;
    const { issuers } = stand.fetchedIssuer(`${url}/keys`) as { readonly issuers: readonly object[] };
    stand.configure({ jwt: { issuers: issuers.map((issuer) => ({ ...issuer, clockToleranceSeconds: 60 })) } });
    expect(await stand.check("clocks")).toMatchObject({ status: "ok" });
  });
});

describe("exporters", () => {
  const exportTo = (address: string): void =>
    stand.configure({ audit: { dir: "./audit", export: [{ type: "otlp", name: "lines", url: address }] } });

  test("none: neither check applies", async () => {
    expect(await stand.check("exporters")).toMatchObject({ status: "not applicable" });
    expect(await stand.check("export backlog")).toMatchObject({ status: "not applicable" });
  });

  test("one that answers is ok, and gets no line", async () => {
    exportTo(`${url}/otlp`);
    expect(await stand.check("exporters")).toMatchObject({ status: "ok" });
    expect(await stand.check("export backlog")).toMatchObject({ status: "ok" });
  });

  test("one that is away, or refuses the credentials, fails", async () => {
    exportTo(away);
    const result = await stand.check("exporters");
    expect([result.status, nextIn(result)]).toEqual(["failed", expect.stringContaining("#safetoolcallexportbehind")]);
    receiver = () => new Response("", { status: 401 });
    exportTo(`${url}/otlp`);
    expect(seenIn(await stand.check("exporters"))).toContain("status 401");
  });
});

describe("token review", () => {
  test("without it, the check does not apply", async () => {
    expect(await stand.check("token review")).toMatchObject({ status: "not applicable" });
  });

  test.each([
    ["reviews tokens", () => Response.json({ status: { authenticated: false } }, { status: 201 }), "ok", "answers"],
    [
      "does not know the account",
      () => new Response("", { status: 403 }),
      "failed",
      "needs the role system:auth-delegator",
    ],
    ["answers with something else", () => Response.json({}), "failed", "has no status"],
  ] as const)("an API server that %s", async (_, answer, status, seen) => {
    const day = 86_400_000;
    const { rootCert, server: pair } = await makeCertificates({
      notBefore: new Date(Date.now() - day),
      notAfter: new Date(Date.now() + day),
    });
    await using api = Bun.serve({ hostname: "127.0.0.1", port: 0, tls: pair, fetch: () => answer() });
    const files = { caFile: stand.file("ca.crt", rootCert), tokenFile: stand.file("token", "own-token") };
    const { issuers } = stand.fetchedIssuer(`${url}/keys`) as { readonly issuers: readonly object[] };
    const tokenReview = { url: `https://localhost:${api.port}`, ...files };
    stand.configure({ jwt: { issuers: issuers.map((issuer) => ({ ...issuer, profile: "kubernetes", tokenReview })) } });
    const result = await stand.check("token review");
    expect([result.status, seenIn(result)]).toEqual([status, expect.stringContaining(seen)]);
  });
});

describe("database", () => {
  const file = stand.path("store/approvals.sqlite");
  const withStore = (): void => stand.configure({ approvals: { store: "sqlite://./store/approvals.sqlite" } });
  const folder = (): readonly string[] =>
    existsSync(stand.path("store")) ? readdirSync(stand.path("store")).sort() : [];

  beforeEach(() => {
    rmSync(stand.path("store"), { recursive: true, force: true });
    withStore();
  });

  async function openStore() {
    return sqliteStore.open(`sqlite://${file}`, { now: () => 0, log: () => {} });
  }

  test("none: the check does not apply", async () => {
    stand.configure();
    expect(await stand.check("database")).toMatchObject({ status: "not applicable" });
  });

  test("before the first start nothing is there, and nothing is made", async () => {
    const result = await stand.check("database");
    expect([result.status, seenIn(result)]).toEqual(["ok", expect.stringContaining("no tables yet")]);
    expect(folder()).toEqual([]);
  });

  test("a file that nobody uses stays without a write-ahead log", async () => {
    await (await openStore()).close();
    expect(folder()).toEqual(["approvals.sqlite"]);
    const result = await stand.check("database");
    expect([result.status, seenIn(result)]).toEqual(["ok", expect.stringContaining("found no damage")]);
    expect(folder()).toEqual(["approvals.sqlite"]);
  });

  test("next to a service that writes, what it wrote is read and no write waits", async () => {
    const store = await openStore();
    await store.begin("write", async (sql) => sql`UPDATE approval_counters SET value = 7 WHERE name = 'events'`);
    expect(folder()).toContain("approvals.sqlite-wal");
    const checking = stand.check("database");
    await store.begin("write", async (sql) => sql`UPDATE approval_counters SET value = 8 WHERE name = 'events'`);
    expect(await checking).toMatchObject({ status: "ok" });
    await store.close();
  });

  test("a damaged file, or that of another program, fails", async () => {
    await (await openStore()).close();
    writeFileSync(file, "not a database at all, but long enough to have a header");
    expect(await stand.check("database")).toMatchObject({ status: "failed" });
    rmSync(file);
    const { Database } = await import("bun:sqlite");
    const other = new Database(file);
    other.run("CREATE TABLE others (a)");
    other.close();
    const result = await stand.check("database");
    expect([result.status, seenIn(result)]).toEqual(["failed", expect.stringContaining("of another program")]);
  });

  test("tables of a later release fail when they need it, and are a warning otherwise", async () => {
    const store = await openStore();
    await store.begin("write", async (sql) => sql`UPDATE approval_schema SET version = 900`);
    expect(await stand.check("database")).toMatchObject({ status: "warning" });
    await store.begin("write", async (sql) => sql`UPDATE approval_schema SET min_reader = 900`);
    const result = await stand.check("database");
    expect([result.status, seenIn(result)]).toEqual([
      "failed",
      expect.stringContaining("newer version of this service"),
    ]);
    await store.close();
  });
});

describe("configuration and tools", () => {
  test("all problems are reported at once, and the other checks run", async () => {
    stand.configure({ audit: { dir: "./audit", hashKeyFile: "./gone.key" }, tools: ["./gone.tool.yaml"] });
    const result = await stand.check("configuration");
    expect(result.status).toBe("failed");
    expect(seenIn(result)).toMatch(/gone\.key[\s\S]*gone\.tool|gone\.tool[\s\S]*gone\.key/);
    expect(await stand.check("tools")).toMatchObject({ status: "not applicable" });
    expect(await stand.check("storage")).toMatchObject({ status: "ok" });
  });

  test("a file that cannot be read at all: the checks that need it do not apply", async () => {
    stand.file("stc.yaml", "tools: [");
    expect(await stand.check("configuration")).toMatchObject({ status: "failed" });
    expect(await stand.check("storage")).toMatchObject({ status: "not applicable" });
  });

  test("one that loads is ok", async () => {
    expect(await stand.check("configuration")).toMatchObject({ status: "ok" });
    const result = await stand.check("tools");
    expect([result.status, seenIn(result)]).toEqual(["ok", "offered: 1"]);
    expect(await stand.check("confinement")).toMatchObject({ status: "not applicable" });
  });

  test("the environment is described", async () => {
    const result = await stand.check("environment");
    expect(["ok", "warning"]).toContain(result.status);
    expect(seenIn(result)).toContain(`Bun ${Bun.version}`);
  });

  test("more connections than files may be open are a warning", async () => {
    stand.configure({ limits: { connectionsMax: 1_000_000, connectionsPerSourceMax: 1 } });
    const limit = /^Max open files\s+\S+\s+(\d+)/m.exec(await Bun.file("/proc/self/limits").text());
    const isLower = Number(limit?.[1] ?? Number.POSITIVE_INFINITY) < 1_000_000;
    const result = await stand.check("environment");
    expect(seenIn(result).includes("limits.connectionsMax is 1000000")).toBe(isLower);
  });
});
