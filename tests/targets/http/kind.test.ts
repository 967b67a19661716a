import { afterEach, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type CertificateSet, DEVELOPMENT_SERVER_NAME } from "../../../src/cli/development/certificates.ts";
import { StartupError } from "../../../src/core/errors.ts";
import type { CertificateEvent } from "../../../src/core/target-kind.ts";
import type { EgressTls } from "../../../src/egress/client.ts";
import { entriesOf } from "../../../src/runtime/config/config.ts";
import { httpKind } from "../../../src/targets/http/kind.ts";
import { readConfig } from "../../support/build.ts";
import { contextFor } from "../../support/kinds.ts";
import { RawServer } from "../../support/raw-server.ts";
import { until } from "../../support/until.ts";
import { temporaryDirectory } from "../command/temporary-directory.ts";
import { makeAuthority } from "../grpc/support/authority.ts";
import { apiTool, call, handlerOf, httpSystem, json, refusal } from "./support.ts";

const ISSUER = { issuer: "https://idp.test", jwksFile: "jwks.json" };
const BASE = { baseUrl: "https://orders.test/api" };
const CLIENT = { tokenUrl: "https://idp.test/token", clientId: "stc", clientSecretFile: "secret" };

function read(http: unknown, folder = "/x") {
  const written = {
    tools: ["./tools"],
    audit: { dir: "./audit" },
    jwt: { issuers: [ISSUER] },
    systems: { api: { http } },
  };
  return readConfig(written, { folder, environment: {}, origin: "c" });
}

function problems(http: unknown): string {
  try {
    read(http);
  } catch (error) {
    if (error instanceof StartupError) return error.problems.join("\n");
    throw error;
  }
  return "";
}

describe("a configuration", () => {
  test("has safe defaults", () => {
    expect(read(BASE).systems["api"]).toMatchObject({
      http: { addresses: ["public"], headers: {}, answerBytesMax: 4_194_304, retries: 2, concurrentCallsMax: 256 },
    });
  });

  test.each([
    [{ baseUrl: "http://localhost:8080", addresses: ["loopback"] }],
    [{ baseUrl: "http://orders.test", plaintext: true }],
    [{ baseUrl: "https://10.1.2.3/api/v1/", addresses: ["10.1.0.0/16"] }],
    [{ ...BASE, tls: { rootCert: "a", clientCert: "b", clientKey: "c", serverName: "d" } }],
    [{ ...BASE, auth: { bearerFile: "f", header: "x-api-key" } }],
    [{ ...BASE, auth: { basicFile: "f" } }],
    [{ ...BASE, auth: { clientCredentials: { ...CLIENT, scope: "a b", addresses: ["private"], caFile: "ca" } } }],
    [{ ...BASE, headers: { "accept-language": "en", "x-client": "stc" } }],
  ])("%j is accepted", (http) => {
    expect([...entriesOf(read(http), httpKind).keys()]).toEqual(["api"]);
  });

  test.each([
    [{}, "systems.api.http.baseUrl"],
    [{ baseUrl: "orders.test" }, "baseUrl: must be a URL that begins with https:// or http://"],
    [{ baseUrl: "ftp://orders.test" }, "baseUrl: must be a URL that begins with https://"],
    [{ baseUrl: "https://ann:x@orders.test" }, "baseUrl: holds credentials: set auth"],
    [{ baseUrl: "https://orders.test/?a=b" }, "baseUrl: must not have a query or a fragment"],
    [{ baseUrl: "https://orders.test/a/../b" }, "baseUrl: must have a plain path"],
    [{ baseUrl: "https://orders.test/a%2fb" }, "baseUrl: must have a plain path"],
    [{ baseUrl: "http://orders.test" }, "baseUrl: is not https: set plaintext: true to allow that"],
    [{ ...BASE, plaintext: true }, "plaintext: is only for an http:// URL"],
    [{ baseUrl: "http://localhost", tls: {} }, "tls: is only for an https:// URL"],
    [{ ...BASE, tls: { clientCert: "a" } }, "tls: clientCert and clientKey go together"],
    [{ baseUrl: "https://127.0.0.1" }, "baseUrl: its address is loopback, which addresses does not allow"],
    [{ baseUrl: "https://2130706433" }, "baseUrl: its address is loopback"],
    [{ baseUrl: "https://0x7f.1" }, "baseUrl: its address is loopback"],
    [{ baseUrl: "https://169.254.169.254", addresses: ["private"] }, "baseUrl: its address is metadata"],
    [{ baseUrl: "https://[::ffff:a00:1]", addresses: ["private"] }, "baseUrl: its address is embedded"],
    [{ ...BASE, addresses: [] }, "addresses"],
    [{ ...BASE, addresses: ["privat"] }, 'addresses: "privat" is not public, private, loopback'],
    [{ ...BASE, addresses: ["169.254.0.0/16"] }, "is a range of link-local addresses, which are refused always"],
    [{ ...BASE, auth: {} }, "auth: needs exactly one of bearerFile, basicFile, clientCredentials"],
    [{ ...BASE, auth: { bearerFile: "a", basicFile: "b" } }, "auth: needs exactly one of"],
    [{ ...BASE, auth: { basicFile: "b", header: "x-a" } }, "auth.header: is only for bearerFile"],
    [
      { ...BASE, auth: { clientCredentials: { ...CLIENT, tokenUrl: "https://10.0.0.1/t" } } },
      "auth.clientCredentials.tokenUrl: its address is private",
    ],
    [{ ...BASE, headers: { authorization: "x" } }, "headers.authorization: is set by the proxy itself"],
    [{ ...BASE, headers: { "x-a": "a\nb" } }, "headers.x-a: must be visible ASCII"],
    [{ ...BASE, bseUrl: "x" }, "systems.api.http.bseUrl: is not a known key"],
  ])("%j is refused", (http, problem) => {
    expect(problems(http)).toContain(problem);
  });

  test("files that are missing or hold nothing usable are reported with their field", async () => {
    const folder = temporaryDirectory();
    writeFileSync(join(folder, "two-lines"), "a\nb\n");
    writeFileSync(join(folder, "ca.pem"), "no certificate");
    for (const [http, problem] of [
      [
        { ...BASE, tls: { rootCert: "nowhere.pem" } },
        "systems.api.http.tls.rootCert: nowhere.pem cannot be read (ENOENT)",
      ],
      [{ ...BASE, tls: { rootCert: "ca.pem" } }, "systems.api.http: tls.rootCert holds no PEM certificate"],
      [
        { ...BASE, auth: { bearerFile: "two-lines" } },
        "systems.api.http.auth.bearerFile: two-lines must hold one line",
      ],
      [{ ...BASE, auth: { basicFile: "nowhere" } }, "systems.api.http.auth.basicFile: nowhere cannot be read (ENOENT)"],
      [
        { ...BASE, auth: { clientCredentials: CLIENT } },
        "systems.api.http.auth.clientCredentials.clientSecretFile: secret cannot be read (ENOENT)",
      ],
    ] as const) {
      const found: string[] = [];
      const kind = await httpKind.open(contextFor(read(http, folder), "http", found));
      expect(found.join("\n")).toContain(problem);
      expect(kind.isBroken?.(apiTool())).toBe(true);
      await kind.close();
    }
  });

  test("a tool of a system that is not configured does not load", async () => {
    const kind = await httpKind.open(contextFor(read(BASE), "http"));
    const tool = { ...apiTool(), target: { system: "aip", http: { method: "GET", path: "/" } } } as const;
    expect(() => kind.bind(tool)).toThrow("no HTTP system aip is configured; configured: api");
    await kind.close();
  });
});

describe("certificates", () => {
  const servers: RawServer[] = [];
  afterEach(() => {
    for (const server of servers.splice(0)) server.close();
  });
  async function secured(set: CertificateSet, trusted: string): Promise<RawServer> {
    const server = await RawServer.start({ ...set.server, ca: trusted, requestCert: true, rejectUnauthorized: true });
    server.answer = () => json({});
    servers.push(server);
    return server;
  }

  const tlsOf = (root: CertificateSet, own: CertificateSet): EgressTls => ({
    rootCert: Buffer.from(root.rootCert),
    clientCert: Buffer.from(own.client.cert),
    clientKey: Buffer.from(own.client.key),
    serverName: DEVELOPMENT_SERVER_NAME,
  });

  test("are replaced without interruption; a set that cannot connect is refused and reported", async () => {
    const [own, strange] = await Promise.all([makeAuthority("own"), makeAuthority("other")]);
    const [one, two, other] = await Promise.all([own.set(), own.set(), strange.set()]);
    const server = await secured(one, one.rootCert);
    let current = tlsOf(one, one);
    let changed = (): void => {};
    const certificates = {
      read: () => current,
      watch: (report: () => void) => {
        changed = report;
        return () => {};
      },
    };
    const system = { baseUrl: new URL(`https://api.test:${server.port}/`), tls: current, certificates };
    const handler = handlerOf(httpSystem(server.port, system));
    const events: CertificateEvent[] = [];
    handler.watch({ now: () => Date.now(), report: (event) => events.push(event) });
    const binding = handler.bind(apiTool());
    const planned = await binding.plan({}, { signal: AbortSignal.timeout(9_000) });
    expect(planned["tls"]).toMatchObject({
      serverName: DEVELOPMENT_SERVER_NAME,
      rootSha256: [expect.stringMatching(/^[0-9a-f]{64}$/)],
    });
    await call(binding);
    expect(handler.certificates()).toEqual([{ system: "api", notAfter: 4_102_444_800_000 }]);

    current = tlsOf(one, two);
    changed();
    await until("the new certificate", () => events.find(({ type }) => type === "certificates.changed"));
    await call(binding);
    expect(server.requests.map(({ connection }) => connection)).toEqual([1, 3]);

    for (const unusable of [tlsOf(other, two), tlsOf(one, other)]) {
      current = unusable;
      changed();
      const refused = await until("the refusal", () => events.find(({ type }) => type === "certificates.refused"));
      expect(refused.reason).toBe("no connection could be made with it");
      await call(binding);
      events.length = 0;
    }
    await handler.close();
  });

  test("an approval for another identity of the service does not run", async () => {
    const [own, strange] = await Promise.all([makeAuthority("own"), makeAuthority("other")]);
    const [one, two] = await Promise.all([own.set(), strange.set()]);
    const server = await secured(one, one.rootCert);
    const bindingOf = (tls: EgressTls) =>
      handlerOf(httpSystem(server.port, { baseUrl: new URL(`https://api.test:${server.port}/`), tls })).bind(apiTool());
    const plan = await bindingOf(tlsOf(two, two)).plan({}, { signal: AbortSignal.timeout(9_000) });
    const context = { signal: AbortSignal.timeout(9_000), deadline: 0, traceId: "t", caller: {} as never };
    const got = await refusal(() => bindingOf(tlsOf(one, one)).run(plan, context));
    expect([got.code, server.requests.length]).toEqual(["TARGET_UNAVAILABLE", 0]);
  });
});
