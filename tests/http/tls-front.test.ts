import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { connect as connectPlain } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ConnectionOptions, connect } from "node:tls";
import { StartupError } from "../../src/core/errors.ts";
import { spiffeIdIn } from "../../src/http/connections/listening-tls.ts";
import { auditEntries } from "../support/audit-files.ts";
import { CALL, callHeaders, type IdentityStand, startIdentityService } from "../support/identity-service.ts";
import { Authority, hence, type Pair, replaceFile } from "../support/tls-files.ts";
import { AGENTS_ISSUER } from "../support/tokens.ts";
import { until } from "../support/until.ts";
import { AGENTS_SERVERS } from "./agents-servers.ts";

const SPIFFE = "spiffe://prod.example/ns/agents/sa/runner";
const uri = (value: string) => ({ names: [{ type: "url", value }] }) as const;

describe.each(AGENTS_SERVERS)("with the HTTP server %s", (http) => {
  let folder: string;
  let stand: IdentityStand;
  let servers: Authority;
  let clients: Authority;
  let strangers: Authority;
  let runner: Pair;

  beforeAll(async () => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-tls-")));
    [servers, clients, strangers] = (await Promise.all(
      ["servers", "clients", "strangers"].map((name) => Authority.create(name)),
    )) as [Authority, Authority, Authority];
    runner = await clients.issue("runner", uri(SPIFFE));
    const server = await servers.issue("server-1");
    writeFileSync(join(folder, "server.pem"), server.cert);
    writeFileSync(join(folder, "server-key.pem"), server.key);
    writeFileSync(join(folder, "clients.pem"), clients.pem);
    stand = await startIdentityService({
      folder,
      server: {
        http,
        headersTimeoutMs: 400,
        tls: { certFile: "./server.pem", keyFile: "./server-key.pem", clientCaFile: "./clients.pem" },
      },
      jwt: {
        clientCertificates: [
          { spiffeId: SPIFFE, issuer: AGENTS_ISSUER, subject: "runner", permissions: ["self:read"] },
        ],
      },
    });
  });

  afterAll(() => stand.close());

  interface Shown {
    readonly certificate?: Pair | undefined;
    readonly headers?: Readonly<Record<string, string>>;
  }

  /** The status of a call, on a connection of its own. */
  async function call({ certificate, headers = {} }: Shown): Promise<number | string> {
    const tls = { ca: servers.pem, ...(certificate && { cert: certificate.cert, key: certificate.key }) };
    const init = { method: "POST", headers: { "content-type": "application/json", ...headers }, body: CALL };
    return fetch(`${stand.service.url}/call`, { ...init, tls, keepalive: false }).then(
      ({ status }) => status,
      () => "no connection",
    );
  }

  async function shake(options: ConnectionOptions): Promise<string> {
    const { hostname, port } = new URL(stand.service.url);
    return new Promise((resolve) => {
      const socket = connect({ host: hostname, port: Number(port), ca: servers.pem, ...options }, () => {
        resolve(`${socket.getProtocol()} ${socket.getPeerCertificate().subject.CN}`);
        socket.destroy();
      });
      socket.on("error", () => resolve("refused"));
    });
  }

  test("TLS 1.2 and 1.3, nothing older, and no plain HTTP", async () => {
    expect(stand.service.url).toStartWith("https://127.0.0.1:");
    expect(await shake({ maxVersion: "TLSv1.2" })).toBe("TLSv1.2 server-1");
    expect(await shake({})).toBe("TLSv1.3 server-1");
    expect(await shake({ minVersion: "TLSv1", maxVersion: "TLSv1.1" })).toBe("refused");
    const plain = await fetch(`${stand.service.url.replace("https", "http")}/healthz`).catch(() => "refused");
    expect(plain).toBe("refused");
  });

  describe("who calls", () => {
    const rows: readonly (readonly [string, () => Promise<Shown>, number])[] = [
      ["a token, and no certificate", async () => ({ headers: await callHeaders() }), 200],
      ["neither", async () => ({}), 401],
      ["a certificate that the table knows", async () => ({ certificate: runner }), 200],
      [
        "a certificate of the same roots that it does not know",
        async () => ({ certificate: await clients.issue("other", uri(`${SPIFFE}-2`)) }),
        401,
      ],
      [
        "the known name, of a certificate that may sign others (X.509-SVID, 4.1)",
        async () => ({ certificate: await clients.issue("runner", { ...uri(SPIFFE), isAuthority: true }) }),
        401,
      ],
      [
        "the known name, of a certificate for servers alone",
        async () => ({ certificate: await clients.issue("runner", { ...uri(SPIFFE), usages: ["1.3.6.1.5.5.7.3.1"] }) }),
        401,
      ],
      [
        "the known name, of a certificate for clients",
        async () => ({ certificate: await clients.issue("runner", { ...uri(SPIFFE), usages: ["1.3.6.1.5.5.7.3.2"] }) }),
        200,
      ],
      [
        "the known name from other roots",
        async () => ({ certificate: await strangers.issue("runner", uri(SPIFFE)) }),
        401,
      ],
      [
        "the known name, but the certificate has ended",
        async () => ({ certificate: await clients.issue("runner", { ...uri(SPIFFE), notAfter: hence(-1_000) }) }),
        401,
      ],
      [
        "the known name, but not yet",
        async () => ({ certificate: await clients.issue("runner", { ...uri(SPIFFE), notBefore: hence(60_000) }) }),
        401,
      ],
      [
        "the known name beside another",
        async () => ({
          certificate: await clients.issue("runner", {
            names: [
              { type: "url", value: SPIFFE },
              { type: "url", value: "spiffe://prod.example/other" },
            ],
          }),
        }),
        401,
      ],
      [
        "the known name inside a host's name",
        async () => ({
          certificate: await clients.issue("x", { names: [{ type: "dns", value: `x, URI:${SPIFFE}` }] }),
        }),
        401,
      ],
      [
        "the known name as common name",
        async () => ({ certificate: await clients.issue("runner", { names: [] }) }),
        401,
      ],
      [
        "a token bound to the certificate",
        async () => ({ certificate: runner, headers: await callHeaders({ cnf: { "x5t#S256": runner.thumbprint } }) }),
        200,
      ],
      [
        "a token bound to it, stolen",
        async () => ({ headers: await callHeaders({ cnf: { "x5t#S256": runner.thumbprint } }) }),
        401,
      ],
      [
        "a token bound to it, on a thief's certificate",
        async () => ({
          certificate: await clients.issue("thief"),
          headers: await callHeaders({ cnf: { "x5t#S256": runner.thumbprint } }),
        }),
        401,
      ],
      [
        "a token bound to a certificate of other roots, and that one shown",
        async () => {
          const other = await strangers.issue("other");
          return { certificate: other, headers: await callHeaders({ cnf: { "x5t#S256": other.thumbprint } }) };
        },
        401,
      ],
      [
        "a certificate in a header",
        async () => ({
          headers: {
            ...(await callHeaders({ cnf: { "x5t#S256": runner.thumbprint } })),
            "x-forwarded-client-cert": `Hash=x;URI=${SPIFFE}`,
            "client-cert": `:${runner.cert.replace(/-----[^-]+-----|\s/g, "")}:`,
          },
        }),
        401,
      ],
    ];
    test.each(rows.map((row) => [...row] as const))("%s", async (_title, shown, want) => {
      expect(await call(await shown())).toBe(want);
    });
  });

  test("a request that is not a call is attributed to its certificate in the audit", async () => {
    const response = await fetch(`${stand.service.url}/call`, {
      ...{ method: "POST", headers: { "content-type": "application/json" }, body: '{"tool":' },
      ...{ tls: { ca: servers.pem, cert: runner.cert, key: runner.key }, keepalive: false },
    });
    const { traceId, error } = (await response.json()) as { traceId: string; error: { code: string } };
    expect(error.code).toBe("MALFORMED_REQUEST");
    const line = auditEntries(join(folder, "audit")).find((entry) => entry.traceId === traceId);
    expect(line?.caller).toMatchObject({ sub: "runner", iss: AGENTS_ISSUER });
  });

  test("silent, slow and garbled clients are disconnected, and occupy nobody's slot", async () => {
    const { hostname, port } = new URL(stand.service.url);
    const at = { host: hostname, port: Number(port) };
    const tls = () => connect({ ...at, ca: servers.pem });
    const slow = "GET /healthz HTTP/1.1\r\nHost: local";
    const sockets = [
      connectPlain(at),
      connectPlain(at, () => sockets[1]?.write("GET / HTTP/1.1\r\n\r\n")),
      tls(),
      tls().once("secureConnect", () => sockets[3]?.write(slow)),
      tls().once("secureConnect", () => sockets[4]?.write("\0\r\n\r\n")),
    ];
    const closed = new Set<number>();
    for (const [index, socket] of sockets.entries()) {
      socket.on("error", () => {});
      socket.on("close", () => closed.add(index));
      socket.resume();
    }
    await until("five clients to be cut off", () => closed.size === sockets.length || undefined);
    expect(await call({ headers: await callHeaders() })).toBe(200);
  });

  test("answers come in order on one connection, and a large header is refused", async () => {
    const { hostname, port } = new URL(stand.service.url);
    const ask = (text: string): Promise<string> =>
      new Promise((resolve) => {
        let answer = "";
        const socket = connect({ host: hostname, port: Number(port), ca: servers.pem }, () => socket.write(text));
        socket.on("data", (chunk) => {
          answer += chunk;
        });
        socket.on("error", () => {});
        socket.on("close", () => resolve(answer));
      });
    const two = await ask(
      "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    );
    expect(two.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 404"]);
    const large = await ask(`GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ${"x".repeat(20_000)}\r\n\r\n`);
    expect(large).not.toContain("200 OK");
    const foreign = await ask(`GET /tools HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n`);
    expect(foreign).toStartWith("HTTP/1.1 403");
  });

  test("changed files are used from the next handshake on; open connections stay; broken ones change nothing", async () => {
    const open = { ca: servers.pem, cert: runner.cert, key: runner.key };
    const kept = await keptConnection(open);
    const next = await servers.issue("server-2");
    replaceFile(folder, "server.pem", "not a certificate");
    replaceFile(folder, "server-key.pem", next.key);
    expect(await shake({})).toContain("server-1");
    replaceFile(folder, "server.pem", next.cert);
    await until("the new certificate", async () => ((await shake({})).includes("server-2") ? true : undefined));
    expect(await kept.ask()).toBe("HTTP/1.1 200");
    // Other roots: who was believed under the old ones comes again, and is not.
    replaceFile(folder, "clients.pem", strangers.pem);
    await until("the new roots", async () => ((await call({ certificate: runner })) === 401 ? true : undefined));
    expect(await kept.closed).toBe(true);
    replaceFile(folder, "clients.pem", clients.pem);
    await until("the old roots", async () => ((await call({ certificate: runner })) === 200 ? true : undefined));
  });

  /** A connection that stays open between requests. */
  async function keptConnection(options: ConnectionOptions) {
    const { hostname, port } = new URL(stand.service.url);
    const socket = connect({ host: hostname, port: Number(port), ...options });
    socket.on("error", () => {});
    const closed = new Promise<boolean>((resolve) => socket.on("close", () => resolve(true)));
    const ask = (): Promise<string> =>
      new Promise((resolve) => {
        socket.once("data", (chunk) => resolve(String(chunk).split(" ").slice(0, 2).join(" ")));
        socket.write("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
      });
    expect(await ask()).toBe("HTTP/1.1 200");
    return { ask, closed };
  }

  test("where certificates are required nobody connects without one", async () => {
    const server = await servers.issue("server-1");
    const other = realpathSync(mkdtempSync(join(tmpdir(), "stc-tls-")));
    for (const [name, text] of [
      ["server.pem", server.cert],
      ["key.pem", server.key],
      ["clients.pem", clients.pem],
    ] as const) {
      writeFileSync(join(other, name), text);
    }
    const tls = { certFile: "./server.pem", keyFile: "./key.pem", clientCaFile: "./clients.pem" };
    const strict = await startIdentityService({
      folder: other,
      server: { tls: { ...tls, clientCertificates: "require" } },
    });
    const get = (pair?: Pair): Promise<number | string> =>
      fetch(`${strict.service.url}/healthz`, {
        tls: { ca: servers.pem, ...(pair && { cert: pair.cert, key: pair.key }) },
        keepalive: false,
      }).then(
        ({ status }) => status,
        () => "no connection",
      );
    expect(await get(runner)).toBe(200);
    expect(await get()).toBe("no connection");
    expect(await get(await strangers.issue("x"))).toBe("no connection");
    expect(await get(await clients.issue("x", { notAfter: hence(-1_000) }))).toBe("no connection");
    await strict.close();
  });

  test("files that do not match do not start", async () => {
    const [one, two] = await Promise.all([servers.issue("one"), servers.issue("two")]);
    const at = realpathSync(mkdtempSync(join(tmpdir(), "stc-tls-")));
    const files = { "one.pem": one.cert, "one-key.pem": one.key, "two-key.pem": two.key, "text.pem": "hello" };
    for (const [name, text] of Object.entries(files)) writeFileSync(join(at, name), text);
    const rows = [
      [{ certFile: "./one.pem", keyFile: "./two-key.pem" }, "is not the key of"],
      [{ certFile: "./text.pem", keyFile: "./one-key.pem" }, "holds no certificate"],
      [{ certFile: "./one.pem", keyFile: "./text.pem" }, "holds no private key"],
      [{ certFile: "./one.pem", keyFile: "./missing.pem" }, "cannot be read (ENOENT)"],
      [{ certFile: "./one.pem", keyFile: "./one-key.pem", clientCaFile: "./text.pem" }, "holds no certificate"],
      [{ certFile: "./one.pem", keyFile: "./one-key.pem", clientCertificates: "require" }, "clientCaFile: is missing"],
    ] as const;
    for (const [tls, says] of rows) {
      const outcome = await startIdentityService({ folder: at, server: { tls } }).catch((error: unknown) => error);
      expect(outcome).toBeInstanceOf(StartupError);
      expect(String(outcome)).toContain(says);
    }
    const known = [{ spiffeId: SPIFFE, issuer: AGENTS_ISSUER, subject: "runner" }];
    const outcome = await startIdentityService({ jwt: { clientCertificates: known } }).catch((error: unknown) => error);
    expect(String(outcome)).toContain("server.tls.clientCaFile, which is missing");
    rmSync(at, { recursive: true, force: true });
  });

  test("the runtime writes names unambiguously", async () => {
    const hostile = [
      [{ type: "dns", value: `x, URI:${SPIFFE}` }],
      [{ type: "dns", value: `x", URI:${SPIFFE}` }],
      [{ type: "email", value: `a@b, URI:${SPIFFE}` }],
      [{ type: "url", value: `${SPIFFE}, URI:spiffe://prod.example/b` }],
      [{ type: "url", value: `urn:x, URI:${SPIFFE}` }],
      [{ type: "dn", value: `CN=x\\, URI:${SPIFFE}` }],
      [{ type: "url", value: "https://prod.example/x" }],
      [{ type: "url", value: "spiffe://prod.example" }],
      [{ type: "url", value: "spiffe://Prod.example/x" }],
    ] as const;
    for (const names of hostile) {
      const { cert } = await clients.issue("x", { names: [...names] });
      expect(spiffeIdIn(new X509Certificate(cert).subjectAltName ?? "")).toBeUndefined();
    }
    const { cert } = await clients.issue("x", { names: [{ type: "dns", value: "a" }, ...uri(SPIFFE).names] });
    expect(spiffeIdIn(new X509Certificate(cert).subjectAltName ?? "")).toBe(SPIFFE);
  });
});
