import { afterEach, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { SignJWT } from "jose";
import { cookieIn } from "../console/console-stand.ts";
import { AGENTS_SERVERS } from "../http/agents-servers.ts";
import type { Reply } from "../support/asking-service.ts";
import { publish, startJwksServer } from "../support/jwks-server.ts";
import { sendRaw } from "../support/raw-http.ts";
import { type TenantName, TenantService, TenantTokens } from "../support/tenant-service.ts";
import { forgeToken, makeSigningKey, type SigningKey } from "../support/tokens.ts";

/** Tokens that say one thing to what chooses the tenant, and another to what verifies them. */

const ISSUER = "https://people.acme.test";
const AUDIENCES = { agents: "safe-tool-call", operators: "safe-tool-call-operators" } as const;
const CALL = { tool: "do_read", args: {} };
/** Routes at which a tenant's answer can differ from the service's own. */
const OTHER_ROUTES = ["/healthz", "/openapi.json", "/nothing"];

const key = makeSigningKey("ES256", "people-1");
const stranger = makeSigningKey("ES256", "people-1");

let service: TenantService;
afterEach(() => service.end());

function profile(audience: keyof typeof AUDIENCES, names: readonly string[]) {
  return {
    ...{ issuer: ISSUER, audience: AUDIENCES[audience], algorithms: ["ES256"], jwks: { keys: [key.jwk] } },
    ...{ operators: audience === "operators", tenants: { names } },
  };
}

function signed(tenant: string | undefined, { privateKey }: SigningKey, aud: string | string[]): Promise<string> {
  return new SignJWT({ sub: "agent-7", permissions: ["deeds:do"], ...(tenant !== undefined && { tenant }) })
    .setProtectedHeader({ alg: "ES256", kid: "people-1", typ: "JWT" })
    .setIssuer(ISSUER)
    .setAudience(aud)
    .setIssuedAt("1 second ago")
    .setExpirationTime("10 minutes")
    .sign(privateKey);
}

async function start(limits: Readonly<Record<string, unknown>> = {}): Promise<void> {
  service = new TenantService();
  const issuers = [...service.tokens.profiles(), profile("agents", ["acme", "globex"]), profile("operators", ["acme"])];
  await service.start({ jwt: { issuers }, limits });
}

function call(token: string): Promise<Reply> {
  return service.send("POST", "/call", { token, body: CALL });
}

describe("an issuer that speaks for other tenants with its operators' tokens than with its agents'", () => {
  test("a token for both audiences is valid in no tenant, and all tenants answer it in the same words", async () => {
    await start();
    for (const signer of [key, stranger]) {
      const answers = await Promise.all(
        ["acme", "globex", "initech", undefined].map(async (tenant) => {
          const { http, body } = await call(await signed(tenant, signer, Object.values(AUDIENCES)));
          return JSON.stringify([http, body.error]);
        }),
      );
      expect(answers[0]).toStartWith("[401,");
      expect(new Set(answers).size).toBe(1);
    }
    expect(service.begun).toEqual([]);
    expect((await call(await signed("globex", key, AUDIENCES.agents))).http).toBe(200);
  });
});

test("a genuine token that says two tenants is valid in neither", async () => {
  await start();
  const claims = JSON.parse(
    Buffer.from((await signed("acme", key, AUDIENCES.agents)).split(".")[1] ?? "", "base64url").toString(),
  );
  const rest = JSON.stringify({ ...claims, tenant: undefined }).slice(1, -1);
  const header = { alg: "ES256", kid: "people-1", typ: "JWT" };
  expect((await call(forgeToken(key, header, `{${rest},"tenant":"acme"}`))).http).toBe(200);
  for (const said of [
    '"tenant":"acme","tenant":"globex"',
    '"tenant":"globex","\\u0074enant":"acme"',
    '"__proto__":{"tenant":"acme"}',
    '"tenant":"acme","__proto__":1,"__proto__":{"tenant":"globex"}',
    '"Tenant":"acme","TENANT":"globex"',
    '"tenant":{"tenant":"acme"}',
  ]) {
    const { http, body } = await call(forgeToken(key, header, `{${rest},${said}}`));
    expect([said, http, body.error.code]).toEqual([said, 401, "UNAUTHENTICATED"]);
  }
  expect(service.begun).toEqual(["do_read of acme"]);
});

test.each(AGENTS_SERVERS)(
  "requests of two tenants on one connection are each answered by their own tenant: %s",
  async (http) => {
    service = await new TenantService().start({ server: { port: 0, http } });
    const { host, hostname, port } = new URL(service.url);
    const order: readonly TenantName[] = ["acme", "globex", undefined, "globex", "acme"];
    const requests = await Promise.all(
      order.map(async (tenant, at) => {
        const body = JSON.stringify(CALL);
        const lines = [
          ...["POST /call HTTP/1.1", `Host: ${host}`, `Authorization: Bearer ${await service.agentOf(tenant)}`],
          ...["Content-Type: application/json", `Content-Length: ${body.length}`],
          ...(at === order.length - 1 ? ["Connection: close"] : []),
        ];
        return `${lines.join("\r\n")}\r\n\r\n${body}`;
      }),
    );
    const socket = connect(Number(port), hostname);
    socket.write(requests.join(""));
    let received = "";
    for await (const chunk of socket) received += String(chunk);
    expect([...received.matchAll(/"by":"([a-z]+)"/g)].map(([, by]) => by)).toEqual(
      order.map((tenant) => tenant ?? "service"),
    );
  },
);

test.each(AGENTS_SERVERS)("two tokens in one request are refused: %s", async (http) => {
  service = await new TenantService().start({ server: { port: 0, http } });
  const [acme, globex] = await Promise.all([service.agentOf("acme"), service.agentOf("globex")]);
  const body = new TextEncoder().encode(JSON.stringify(CALL));
  for (const [one, other] of [
    [acme, globex],
    [globex, acme],
  ]) {
    const answer = await sendRaw({
      ...{ url: service.url, method: "POST", path: "/call", body },
      headers: [
        ...[`Host: ${new URL(service.url).host}`, `Authorization: Bearer ${one}`, `authorization: Bearer ${other}`],
        ...["Content-Type: application/json", `Content-Length: ${body.length}`],
      ],
    });
    expect([answer?.status, JSON.parse(answer?.body ?? "").error.code]).toEqual([400, "MALFORMED_REQUEST"]);
    expect((await service.send("POST", "/call", { token: `${one}, Bearer ${other}`, body: CALL })).http).toBe(401);
  }
  expect(service.begun).toEqual([]);
});

test.each(AGENTS_SERVERS)(
  "a route of the service alone is unknown in a tenant, whatever the media type of the request: %s",
  async (http) => {
    service = await new TenantService().start({ server: { port: 0, http } });
    for (const [tenant, status] of [
      ["acme", 404],
      [undefined, 405],
    ] as const) {
      const token = await service.operatorOf(tenant, ["tenants:read"]);
      for (const type of ["application/json", "x", ";"]) {
        const asked = { token, body: "{}", headers: { "content-type": type } };
        expect([type, (await service.send("PUT", "/tenants", asked)).http]).toEqual([type, status]);
      }
    }
  },
);

test("a session of the console goes on while the tenant cannot verify its token, whatever the service itself can", async () => {
  const people = await startJwksServer(key);
  try {
    const { jwks: _, ...operators } = profile("operators", ["acme"]);
    const issuers = [...new TenantTokens().profiles(), { ...operators, jwksUri: people.url }];
    const sections = { server: { port: 0, console: { port: 0 } }, jwt: { issuers } };
    service = await new TenantService().start(sections);
    const token = await signed("acme", key, AUDIENCES.operators);
    const page = { origin: service.consoleUrl, "sec-fetch-site": "same-origin" };
    const signedIn = await fetch(`${service.consoleUrl}/console/session`, {
      ...{ method: "POST", headers: { ...page, "content-type": "application/json" }, body: JSON.stringify({ token }) },
    });
    const { key: half } = (await signedIn.json()) as { readonly key: string };
    const cookie = `stc_console=${cookieIn(signedIn, "stc_console")}`;
    await service.stop();
    // The tenant asks first, and gets no keys.
    people.answer = (response) => {
      people.answer = publish(key);
      response.writeHead(503).end();
    };
    await service.start(sections);
    const origin = service.consoleUrl;
    const probed = await fetch(`${origin}/readyz`, {
      headers: { ...page, origin, cookie, "stc-console-key": half, connection: "close" },
    });
    expect([signedIn.status, probed.status, people.requests]).toEqual([200, 200, 2]);
    expect(service.journalOf(undefined).filter(({ type }) => type === "console.signedOut")).toEqual([]);
  } finally {
    people.close();
  }
});

describe("tokens that nobody has signed, at routes that everybody may ask", () => {
  test.each([
    ["acme", "acme"],
    ["a tenant that is not there", "initech"],
    ["no tenant", undefined],
  ])("count as wrong tokens of their source: %s", async (_title, tenant) => {
    await start({ wrongTokensPerMinuteMax: OTHER_ROUTES.length });
    const forged = await signed(tenant, stranger, AUDIENCES.agents);
    const answers: number[] = [];
    for (const path of [...OTHER_ROUTES, ...OTHER_ROUTES]) {
      const response = await fetch(`${service.url}${path}`, { headers: { authorization: `Bearer ${forged}` } });
      await response.arrayBuffer();
      answers.push(response.status);
    }
    // Those that are not verified any more are answered, too.
    expect(answers).toEqual([200, 200, 404, 200, 200, 404]);
    const { http, body } = await call(forged);
    expect([http, body.error.code, body.error.details]).toEqual([429, "RATE_LIMITED", { limit: "wrongTokens" }]);
  });

  test.each<[string, TenantName]>([
    ["acme", "acme"],
    ["the service itself", undefined],
  ])("genuine ones do not count: %s", async (_title, tenant) => {
    await start({ wrongTokensPerMinuteMax: 1 });
    const headers = { authorization: `Bearer ${await service.agentOf(tenant)}` };
    for (const path of OTHER_ROUTES) await (await fetch(`${service.url}${path}`, { headers })).arrayBuffer();
    expect((await call(await signed("acme", stranger, AUDIENCES.agents))).http).toBe(401);
  });
});
