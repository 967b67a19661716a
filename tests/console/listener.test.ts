import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startService } from "../../src/cli/service.ts";
import { StartupError } from "../../src/core/errors.ts";
import { readConfig } from "../support/build.ts";
import { issuers, startIdentityService } from "../support/identity-service.ts";
import { sendRaw } from "../support/raw-http.ts";
import { Authority } from "../support/tls-files.ts";
import { ConsoleStand, cookieIn, outcomeOf, PERMISSIONS } from "./console-stand.ts";

let stand: ConsoleStand;

beforeAll(async () => {
  stand = await ConsoleStand.start({ server: { operator: { port: 0 } } });
});

afterAll(() => stand.close());

async function assetsOfPage(): Promise<readonly string[]> {
  const html = await (await fetch(`${stand.url}/console`)).text();
  return [...html.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, path = ""]) => path);
}

describe("the console's listener", () => {
  test("serves the page, also where the OpenID provider sends the browser", async () => {
    const [page, again] = await Promise.all(
      ["/console", "/console/oidc?code=x&state=y"].map((path) => fetch(`${stand.url}${path}`)),
    );
    expect(page?.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(await again?.text()).toBe((await page?.text()) ?? "");
  });

  test("serves scripts and styles that may be kept forever, compressed if the browser accepts gzip", async () => {
    const paths = await assetsOfPage();
    expect(paths.length).toBeGreaterThan(1);
    for (const path of paths) {
      expect(path).toMatch(/^\/console\/assets\/[a-z]+-[a-z0-9]{8}\.(?:js|css)$/);
      const plain = await fetch(`${stand.url}${path}`, { headers: { "accept-encoding": "identity" } });
      expect(plain.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
      expect(plain.headers.get("content-encoding")).toBe(null);
      const zipped = await fetch(`${stand.url}${path}`, { headers: { "accept-encoding": "br, gzip;q=0.5" } });
      expect(zipped.headers.get("content-encoding")).toBe("gzip");
      expect(await zipped.text()).toBe(await plain.text());
    }
  });

  test.each(["gzip;q=0", "br", "x-gzip", "identity, gzip; q=0.000", "gzipped"])(
    "sends nothing compressed for Accept-Encoding: %s",
    async (accepted) => {
      const [path = ""] = await assetsOfPage();
      const response = await fetch(`${stand.url}${path}`, { headers: { "accept-encoding": accepted } });
      expect(response.headers.get("content-encoding")).toBe(null);
    },
  );

  test("compresses no list: its size would tell an agent what others wrote in it", async () => {
    const headers = { authorization: `Bearer ${await stand.operatorToken()}`, "accept-encoding": "gzip" };
    const listed = await fetch(`${stand.url}/audit`, { headers });
    expect(listed.status).toBe(200);
    expect(listed.headers.get("content-encoding")).toBe(null);
  });

  test("marks every answer, refusals included: nothing may be framed, sniffed, kept or read by other sites", async () => {
    const token = await stand.operatorToken();
    const answers = await Promise.all([
      fetch(`${stand.url}/console`),
      fetch(`${stand.url}/console/settings`),
      fetch(`${stand.url}/nothing`),
      fetch(`${stand.url}/audit`),
      fetch(`${stand.url}/audit`, { headers: { authorization: `Bearer ${token}` } }),
      fetch(`${stand.url}/console`, { headers: { host: "evil.example" } }),
    ]);
    for (const { headers } of answers) {
      expect(headers.get("content-security-policy")).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
      );
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("referrer-policy")).toBe("no-referrer");
      expect(headers.get("cross-origin-opener-policy")).toBe("same-origin");
      expect(headers.get("cross-origin-resource-policy")).toBe("same-origin");
      expect(headers.get("permissions-policy")).toContain("camera=()");
      expect(headers.get("cache-control")).toBe("no-store");
      expect(headers.get("access-control-allow-origin")).toBe(null);
      expect(headers.get("strict-transport-security")).toBe(null);
    }
  });

  test("answers operators at the usual paths, with a token", async () => {
    const headers = { authorization: `Bearer ${await stand.operatorToken()}` };
    expect((await fetch(`${stand.url}/audit`, { headers })).status).toBe(200);
    expect((await fetch(`${stand.url}/readyz`)).status).toBe(200);
    expect((await fetch(`${stand.url}/healthz`)).status).toBe(200);
  });

  test.each(["/call", "/mcp", "/tools", "/sessions"])("has no %s for agents", async (path) => {
    const token = await issuers.token({ kind: "good", sub: "bot", permissions: ["self:read"] });
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const response = await fetch(`${stand.url}${path}`, { method: "POST", headers, body: "{}" });
    expect(await outcomeOf(response)).toMatch(/^(?:404 ROUTE_NOT_FOUND|405 METHOD_NOT_ALLOWED)$/);
  });

  test("does not answer agents", async () => {
    const token = await issuers.token({ kind: "good", sub: "bot", permissions: PERMISSIONS });
    const response = await fetch(`${stand.url}/audit`, { headers: { authorization: `Bearer ${token}` } });
    expect(await outcomeOf(response)).toBe("401 UNAUTHENTICATED");
  });

  test.each([
    ...["/console/assets/../../etc/passwd", "/console/assets/..%2f..%2fetc%2fpasswd", "/console/assets/%2e%2e/page.ts"],
    ...["/console/assets/", "/console/assets/__proto__", "/console/assets/constructor", "/console/assets/a%00.js"],
    ...["/console/", "/console//", "/console/app/index.html", "/console/index.html", "//console", "/console/oidc/x"],
    ...["/Console", "/console%2fsettings", "/console/../etc/passwd", "/console;a=b", "/console\\..\\x"],
  ])("%s is unknown", async (path) => {
    const { host } = new URL(stand.url);
    const answer = await sendRaw({
      ...{ url: stand.url, method: "GET", path, headers: [`Host: ${host}`], body: new Uint8Array() },
    });
    expect(answer?.status).toBe(404);
    expect(answer?.body).toContain("ROUTE_NOT_FOUND");
  });

  test.each([
    ["OPTIONS", "/console", "GET, HEAD"],
    ["POST", "/console", "GET, HEAD"],
    ["OPTIONS", "/console/session", "DELETE, GET, POST"],
    ["HEAD", "/console/session", "DELETE, GET, POST"],
    ["PUT", "/console/assets/x.js", "GET, HEAD"],
  ])("%s %s is refused with the methods that exist", async (method, path, allow) => {
    const response = await fetch(`${stand.url}${path}`, { method, headers: { origin: "http://evil.example" } });
    expect(response.status).toBe(405);
    expect(response.headers.get("allow")).toBe(allow);
    expect(response.headers.get("access-control-allow-origin")).toBe(null);
  });

  test("HEAD gets the page's head", async () => {
    const response = await fetch(`${stand.url}/console`, { method: "HEAD" });
    expect(response.status).toBe(200);
    expect(await response.text()).toBe("");
  });

  test.each([
    ["evil.example"],
    ["localhost.evil.example"],
    ["127.0.0.1.evil.example"],
    ["evil.example:8788"],
    ["127.0.0.1@evil.example"],
    ["0.0.0.0"],
    [""],
  ])("refuses the Host %j: a name that somebody has pointed at this address", async (host) => {
    for (const path of ["/console", "/console/settings", "/console/assets/x.js", "/audit"]) {
      const answer = await sendRaw({
        ...{ url: stand.url, method: "GET", path, headers: [`Host: ${host}`], body: new Uint8Array() },
      });
      expect(answer?.status).toBe(403);
      expect(answer?.body).toContain("HOST_NOT_ALLOWED");
    }
  });

  test("refuses a target that names another host than Host", async () => {
    const { host } = new URL(stand.url);
    const answer = await sendRaw({
      ...{ url: stand.url, method: "GET", path: "http://evil.example/console", headers: [`Host: ${host}`] },
      body: new Uint8Array(),
    });
    expect(answer?.status).toBe(403);
  });

  test.each([
    ["two Origins", (origin: string) => [`Origin: ${origin}`, "Origin: http://evil.example"]],
    ["two Hosts", (origin: string) => [`Origin: ${origin}`, "Host: evil.example"]],
    ["two bodies' lengths", (origin: string) => [`Origin: ${origin}`, "Content-Length: 5", "Content-Length: 6"]],
    [
      "a length and chunks",
      (origin: string) => [`Origin: ${origin}`, "Content-Length: 5", "Transfer-Encoding: chunked"],
    ],
  ])("signs nobody in with %s", async (_name, lines) => {
    const { host } = new URL(stand.url);
    const fixed = [`Host: ${host}`, "Content-Type: application/json", "Sec-Fetch-Site: same-origin"];
    const body = new TextEncoder().encode(JSON.stringify({ token: await stand.operatorToken() }));
    const answer = await sendRaw({
      ...{ url: stand.url, method: "POST", path: "/console/session", headers: [...fixed, ...lines(stand.url)], body },
    });
    expect(answer?.status).toBeGreaterThanOrEqual(400);
    expect(answer?.headers["set-cookie"]).toBe(undefined);
  });

  test("refuses cookies that are too large, and goes on", async () => {
    const response = await fetch(`${stand.url}/console`, { headers: { cookie: `a=${"x".repeat(20_000)}` } });
    expect(response.status).toBe(431);
    expect((await fetch(`${stand.url}/console`)).status).toBe(200);
  });
});

describe("the other listeners", () => {
  test.each([
    "/console",
    "/console/",
    "/console/oidc",
    "/console/settings",
    "/console/session",
    "/console/assets/x.js",
  ])("answer 404 to %s", async (path) => {
    const { url, operatorUrl } = stand.identity.service;
    const headers = { authorization: `Bearer ${await stand.operatorToken()}` };
    for (const base of [url, operatorUrl]) {
      for (const method of ["GET", "POST", "DELETE"]) {
        expect((await fetch(`${base}${path}`, { method, headers })).status).toBe(404);
      }
    }
  });
});

describe("server.operatorsOnAgentPort: false", () => {
  let apart: ConsoleStand;

  beforeAll(async () => {
    apart = await ConsoleStand.start({
      server: { operatorsOnAgentPort: false },
      rest: { approvals: { store: "sqlite://./approvals.sqlite" } },
    });
  });

  afterAll(() => apart.close());

  test("operators are answered by the console's listener only", async () => {
    const { url } = apart.identity.service;
    const headers = { authorization: `Bearer ${await apart.operatorToken()}` };
    for (const path of ["/audit", "/audit/stats", "/metrics", "/audit/tail"]) {
      expect((await fetch(`${url}${path}`, { headers })).status).toBe(404);
    }
    for (const path of ["/audit", "/audit/stats", "/approvals/report"]) {
      expect((await fetch(`${apart.url}${path}`, { headers })).status).toBe(200);
    }
  });

  test("what both may use is for agents on their port, and for operators on the console's", async () => {
    const { url } = apart.identity.service;
    const operator = { authorization: `Bearer ${await apart.operatorToken()}` };
    const agent = {
      authorization: `Bearer ${await issuers.token({ kind: "good", sub: "bot", permissions: ["self:read"] })}`,
    };
    expect((await fetch(`${url}/approvals`, { headers: agent })).status).toBe(200);
    expect((await fetch(`${url}/approvals`, { headers: operator })).status).toBe(401);
    expect((await fetch(`${apart.url}/approvals`, { headers: operator })).status).toBe(200);
    expect((await fetch(`${apart.url}/approvals`, { headers: agent })).status).toBe(401);
  });

  test("/readyz has no details on the agents' port", async () => {
    const token = await apart.operatorToken(["metrics:read"]);
    const headers = { authorization: `Bearer ${token}` };
    const details = async (base: string) =>
      Object.keys((await (await fetch(`${base}/readyz`, { headers })).json()) as object);
    expect(await details(apart.identity.service.url)).toEqual(["status"]);
    expect(await details(apart.url)).toContain("systems");
  });
});

describe("with TLS", () => {
  test("the cookie is Secure and for this host alone, and browsers are told to stay with TLS", async () => {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-console-")));
    try {
      const authority = await Authority.create("console-test");
      const { cert, key } = await authority.issue("console");
      writeFileSync(join(folder, "cert.pem"), cert);
      writeFileSync(join(folder, "key.pem"), key, { mode: 0o600 });
      const tls = { certFile: "./cert.pem", keyFile: "./key.pem" };
      const secured = new ConsoleStand(await startIdentityService({ folder, server: { console: { port: 0, tls } } }));
      try {
        expect(secured.url).toStartWith("https://");
        const headers = { "content-type": "application/json", origin: secured.url, "sec-fetch-site": "same-origin" };
        const body = JSON.stringify({ token: await secured.operatorToken() });
        const init = { method: "POST", headers, body, tls: { ca: authority.pem } };
        const response = await fetch(`${secured.url}/console/session`, init);
        expect(response.headers.getSetCookie()).toEqual([
          expect.stringMatching(/^__Host-stc_console=[\w-]{86}; Path=\/; HttpOnly; SameSite=Strict; Secure$/),
        ]);
        expect(response.headers.get("strict-transport-security")).toBe("max-age=31536000");
        const { key: half } = (await response.json()) as { readonly key: string };
        const cookie = cookieIn(response, "__Host-stc_console");
        const asked = async (name: string) => {
          const own = { "sec-fetch-site": "same-origin", "stc-console-key": half, cookie: `${name}=${cookie}` };
          return (await fetch(`${secured.url}/console/session`, { headers: own, tls: { ca: authority.pem } })).status;
        };
        expect(await asked("__Host-stc_console")).toBe(200);
        expect(await asked("stc_console")).toBe(401);
        expect(await asked("__Secure-stc_console")).toBe(401);
      } finally {
        await secured.close();
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

describe("behind a reverse proxy", () => {
  test("the socket accepts only the public name, and pages of the public origin", async () => {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-console-")));
    mkdirSync(join(folder, "run"));
    const console = { socket: "./run/console.sock", publicUrl: "https://console.example" };
    const proxied = new ConsoleStand(await startIdentityService({ folder, server: { console } }));
    try {
      expect(proxied.url).toBe(`unix:${join(folder, "run/console.sock")}`);
      const unix = join(folder, "run/console.sock");
      const signIn = async (headers: Readonly<Record<string, string>>) => {
        const all = { "content-type": "application/json", "sec-fetch-site": "same-origin", ...headers };
        const body = JSON.stringify({ token: await proxied.operatorToken() });
        return fetch("http://localhost/console/session", { method: "POST", unix, headers: all, body });
      };
      const good = await signIn({ host: "console.example", origin: "https://console.example" });
      expect(good.headers.getSetCookie()[0]).toStartWith("__Host-stc_console=");
      for (const [host, origin] of [
        ["localhost", "http://localhost"],
        ["console.example", "http://console.example"],
        ["console.example", "https://console.example:8443"],
        ["evil.example", "https://console.example"],
      ] as const) {
        expect(await outcomeOf(await signIn({ host, origin }))).toBe("403 HOST_NOT_ALLOWED");
      }
    } finally {
      await proxied.close();
    }
  });
});

test("a console whose port is taken prevents the start, and leaves no listener behind", async () => {
  const taken = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() });
  const own = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() });
  const port = own.port ?? 0;
  await own.stop(true);
  try {
    const started = startIdentityService({ server: { port, console: { port: taken.port } } });
    expect(started).rejects.toThrow(`server.console.port: ${taken.port} is in use`);
    await started.catch(() => {});
    // The port for calls is free again.
    const again = await startIdentityService({ server: { port } });
    expect(again.service.consoleUrl).toBe(undefined);
    await again.close();
  } finally {
    await taken.stop(true);
  }
});

describe("the service does not start with a console", () => {
  const folder = tmpdir();
  const startWith = async (server: object, more: object = {}) => {
    const written = {
      server: { port: 0, ...server },
      ...{ tools: [join(folder, "none")], audit: { dir: "./audit" }, jwt: { issuers: issuers.profiles() }, ...more },
    };
    try {
      await startService(readConfig(written, { folder, environment: {}, origin: "stc.yaml" }));
    } catch (error) {
      return error instanceof StartupError ? error.problems.join("\n") : String(error);
    }
    return "started";
  };

  test.each(["0.0.0.0", "::", "192.0.2.7", "console.example", "127.0.0.1.example"])(
    "in plain text on %s",
    async (host) => {
      expect(await startWith({ console: { host, publicUrl: "https://console.example" } })).toBe(
        `stc.yaml: server.console.tls: is missing: without TLS, the console listens on loopback only, not on ${host}`,
      );
    },
  );

  test.each([
    [{ console: { socket: "./x.sock" } }, {}, "server.console.publicUrl: is missing: browsers reach the socket"],
    [{ console: { publicUrl: "http://console.example" } }, {}, "server.console.publicUrl: must be https"],
    [
      { console: { publicUrl: "https://console.example/stc" } },
      {},
      "server.console.publicUrl: must end after the host",
    ],
    [{ console: { publicUrl: "https://a:b@console.example" } }, {}, "server.console.publicUrl: must not hold a user"],
    [{ operatorsOnAgentPort: false }, {}, "server.operatorsOnAgentPort: is false, and there is no server.console"],
    [{}, { console: { oidc: { issuer: "https://a.example", clientId: "x" } } }, "console.oidc: is for the sign-in at"],
    [
      { console: {} },
      { console: { oidc: { issuer: "http://a.example", clientId: "x" } } },
      "console.oidc.issuer: must be https",
    ],
    [
      { console: { host: "0.0.0.0", tls: { certFile: "c", keyFile: "k" } } },
      {},
      "server.console.publicUrl: is missing: with the host 0.0.0.0, no name is known",
    ],
  ])("with %j and %j", async (server, more, problem) => {
    expect(await startWith(server, more)).toContain(`stc.yaml: ${problem}`);
  });
});
