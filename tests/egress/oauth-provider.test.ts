import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createMcpHandler, Server } from "@modelcontextprotocol/server";
import { jwtVerify } from "jose";
import { z } from "zod";
import { defineTool, httpRequest, mcpTool } from "../../src/index.ts";
import { definitionOf } from "../../src/targets/mcp/definitions.ts";
import { AskingService, type Reply } from "../support/asking-service.ts";
import { OAuthProvider } from "../support/oauth-provider.ts";
import { issueToken } from "../support/tokens.ts";
import { until } from "../support/until.ts";

const RESOURCE = "https://api.example";
const SECRET = "a-secret-of-the-test";
const AUDIENCE = "safe-tool-call";
const EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange";
const client = (client_id: string, ...grant_types: string[]) => ({
  ...{ client_id, client_secret: SECRET, redirect_uris: [], response_types: [], grant_types },
});

/** A request that the API or the MCP server got: what it was, and the token's claims. */
interface Seen {
  readonly did: string;
  readonly session: string | null;
  readonly authorization: string;
  readonly claims: Readonly<Record<string, unknown>>;
}

const DEFINITION = { name: "read_pinned", inputSchema: { type: "object" as const } };

let login: OAuthProvider;
beforeAll(async () => {
  login = await OAuthProvider.start({
    resources: { [RESOURCE]: ["tickets:read"] },
    clients: [client("stc", "client_credentials", EXCHANGE), client("exchange-only", EXCHANGE)],
  });
});
afterAll(() => login.close());

/** A service with an HTTP API and an MCP server as targets, which accept tokens of the authorization server only. */
class TokenWorld extends AskingService {
  readonly seen: Seen[] = [];
  /** Values of `jti` that are refused. */
  readonly refused = new Set<unknown>();
  refusesAll = false;
  readonly #mcp = createMcpHandler(
    () => {
      const server = new Server({ name: "tickets", version: "1" }, { capabilities: { tools: {} } });
      server.setRequestHandler("tools/list", () => ({
        tools: [DEFINITION, { ...DEFINITION, name: "read" }],
      }));
      server.setRequestHandler("tools/call", () => ({ content: [{ type: "text", text: "a ticket" }] }));
      return server;
    },
    { legacy: "stateless" },
  );
  readonly #far = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: (request) => this.#answer(request) });

  async start(auth: (endpoint: object) => object, clientId = "stc"): Promise<void> {
    writeFileSync(join(this.folder, "secret"), SECRET);
    writeFileSync(join(this.folder, "revoked.json"), '{"revoked": []}');
    const tokenUrl = `${login.issuer}/token`;
    const endpoint = { tokenUrl, clientId, clientSecretFile: "secret", resource: RESOURCE, scope: "tickets:read" };
    const shared = { plaintext: true, addresses: ["loopback"], auth: auth(endpoint) };
    const url = `http://127.0.0.1:${this.#far.port}`;
    const systems = {
      http: { http: { baseUrl: url, ...shared } },
      mcp: { mcp: { url: `${url}/mcp`, ...shared } },
    };
    const common = {
      classification: "read",
      permissions: { required: ["deeds:do"] },
      input: z.strictObject({}),
    } as const;
    const output = { output: z.object({ text: z.string() }), outputPolicy: { text: "allow" } } as const;
    const read = { description: "Reads a ticket", ...common, ...output };
    const identity = { address: { url: `${url}/mcp` }, tls: null, name: "tickets" };
    const { sha256: definitionSha256 } = definitionOf(DEFINITION, identity);
    const tools = [
      defineTool({ name: "pinned_read", ...read, target: mcpTool("mcp", "read_pinned", { definitionSha256 }) }),
      defineTool({ name: "http_read", ...read, target: httpRequest("http", { method: "GET", path: "/ticket" }) }),
      defineTool({ name: "mcp_read", ...read, target: mcpTool("mcp", "read") }),
    ];
    const own = { issuer: login.issuer, audience: AUDIENCE, algorithms: ["ES256"], typ: "at+jwt" };
    const issuers = [...this.issuers.profiles(), { ...own, jwks: { keys: [login.key.jwk] } }];
    await this.run({ tools, systems, jwt: { issuers, revocationFile: "revoked.json" } });
    this.seen.length = 0;
  }

  /** A token for this service, as the authorization server would sign it. */
  async caller(sub: string, claims: Readonly<Record<string, unknown>> = {}): Promise<string> {
    const now = Math.floor(Date.now() / 1_000);
    const more = { jti: crypto.randomUUID(), permissions: ["deeds:do"], scope: "tickets:read", ...claims };
    const all = { iss: login.issuer, aud: AUDIENCE, sub, iat: now - 1, exp: now + 600, ...more };
    return issueToken(login.key, all, { typ: "at+jwt" });
  }

  read(kind: string, token: string): Promise<Reply> {
    return this.send("POST", "/call", { token, body: { tool: `${kind}_read`, args: {} } });
  }

  revoke(revoked: readonly object[]): void {
    writeFileSync(join(this.folder, "revoked.json"), JSON.stringify({ revoked }));
  }

  /** The tokens of calls, without those of the service's own requests. */
  used(): readonly Seen[] {
    return this.seen.filter(({ did }) => did === "GET /ticket" || did === "tools/call");
  }

  override async end(): Promise<void> {
    await super.end();
    await this.#far.stop(true);
  }

  async #answer(request: Request): Promise<Response> {
    const authorization = request.headers.get("authorization") ?? "";
    const { method, headers } = request;
    const { pathname } = new URL(request.url);
    const options = { issuer: login.issuer, audience: RESOURCE, typ: "at+jwt" };
    const verified = await jwtVerify(authorization.replace("Bearer ", ""), login.key.publicKey, options).catch(
      () => {},
    );
    const text = await request.clone().text();
    const did = pathname === "/mcp" && text !== "" ? JSON.parse(text).method : `${method} ${pathname}`;
    const claims = verified?.payload ?? {};
    this.seen.push({ did, session: headers.get("mcp-session-id"), authorization, claims });
    if (verified === undefined || this.refusesAll || this.refused.has(claims.jti)) {
      return Response.json({ error: "invalid_token" }, { status: 401 });
    }
    return pathname === "/mcp" ? this.#mcp.fetch(request) : Response.json({ text: "a ticket" });
  }
}

let world: TokenWorld;
beforeEach(() => {
  world = new TokenWorld();
});
afterEach(() => world.end());

const jtis = (seen: readonly Seen[]): readonly unknown[] => seen.map(({ claims }) => claims["jti"]);

describe.each(["http", "mcp"])("tokens of a real authorization server for a target of kind %s", (kind) => {
  test("client credentials: one token for all callers, none of theirs", async () => {
    await world.start((clientCredentials) => ({ clientCredentials }));
    const tokens = [await world.caller("ann"), await world.caller("bob")];
    for (const token of tokens) expect((await world.read(kind, token)).body.result).toEqual({ text: "a ticket" });
    const used = world.used();
    expect(used.map(({ claims }) => [claims["client_id"], claims["aud"]])).toEqual([
      ["stc", RESOURCE],
      ["stc", RESOURCE],
    ]);
    expect(new Set(jtis(used)).size).toBe(1);
    for (const token of tokens) expect(JSON.stringify(world.seen)).not.toContain(token);
  });

  test("client credentials: a 401 leads to one new token, and no more than that", async () => {
    await world.start((clientCredentials) => ({ clientCredentials }));
    const token = await world.caller("ann");
    await world.read(kind, token);
    const [first] = jtis(world.used());
    world.refused.add(first);
    world.seen.length = 0;
    expect((await world.read(kind, token)).body.result).toEqual({ text: "a ticket" });
    const [again, second] = jtis(world.used());
    expect([world.used().length, again, second === first]).toEqual([2, first, false]);
    world.refusesAll = true;
    world.seen.length = 0;
    const reply = await world.read(kind, token);
    expect(reply.body.error).toMatchObject({ code: "TARGET_FAILED", retryable: false });
    expect(world.used()).toHaveLength(1);
    expect(JSON.stringify(reply.body)).not.toContain("invalid_token");
  });

  test("token exchange: a token belongs to one caller, one chain of actors and one token of theirs", async () => {
    await world.start((tokenExchange) => ({ tokenExchange }));
    const callers = [
      await world.caller("ann"),
      await world.caller("bob"),
      await world.caller("ann", { act: { sub: "helper" } }),
      await world.caller("ann", { act: { sub: "another-helper" } }),
      await world.caller("ann"),
    ];
    for (const token of callers) expect((await world.read(kind, token)).http).toBe(200);
    const used = world.used();
    expect(used.map(({ claims }) => claims["sub"])).toEqual(["ann", "bob", "ann", "ann", "ann"]);
    expect(new Set(jtis(used)).size).toBe(5);
    world.seen.length = 0;
    await Promise.all(callers.map((token) => world.read(kind, token)));
    expect(new Set(jtis(world.used()))).toEqual(new Set(jtis(used)));
    for (const token of callers) expect(JSON.stringify(world.seen)).not.toContain(token);
  });

  test("token exchange: a 401 leads to one new token for that caller only", async () => {
    await world.start((tokenExchange) => ({ tokenExchange }));
    const [ann, bob] = [await world.caller("ann"), await world.caller("bob")];
    for (const token of [ann, bob]) await world.read(kind, token);
    const [anns, bobs] = jtis(world.used());
    world.refused.add(anns);
    world.seen.length = 0;
    for (const token of [ann, bob]) expect((await world.read(kind, token)).http).toBe(200);
    const used = world.used();
    expect(used.map(({ claims }) => claims["sub"])).toEqual(["ann", "ann", "bob"]);
    expect([jtis(used)[0], jtis(used)[2]]).toEqual([anns, bobs]);
    expect(jtis(used)[1]).not.toBe(anns);
  });

  test("token exchange: a changed revocation list drops the tokens of all callers", async () => {
    await world.start((tokenExchange) => ({ tokenExchange }));
    const [ann, bob] = [await world.caller("ann"), await world.caller("bob")];
    for (const token of [ann, bob]) await world.read(kind, token);
    const before = jtis(world.used());
    world.seen.length = 0;
    world.revoke([{ issuer: login.issuer, subject: "bob" }]);
    await until("the revocation", () => world.journal().find(({ type }) => type === "revocations.loaded"));
    expect((await world.read(kind, bob)).body.error.code).toBe("UNAUTHENTICATED");
    expect((await world.read(kind, ann)).http).toBe(200);
    const after = world.used();
    expect(after.map(({ claims }) => claims["sub"])).toEqual(["ann"]);
    expect(before).not.toContain(jtis(after)[0]);
  });

  test("token exchange: a token that the endpoint refuses is no outage, and others are served", async () => {
    await world.start((tokenExchange) => ({ tokenExchange }));
    // The service accepts this issuer, and the authorization server does not.
    const stranger = await world.agent();
    for (let attempt = 0; attempt < 3; attempt += 1) {
      const { http, body } = await world.read(kind, stranger);
      const details = { status: "UNAUTHENTICATED" };
      expect([http, body.error]).toEqual([
        502,
        expect.objectContaining({ code: "TARGET_FAILED", retryable: false, details }),
      ]);
      expect(JSON.stringify(body)).not.toContain("invalid_grant");
      expect(world.entry(body.traceId)).toMatchObject({ decision: "ERROR", error: { code: "TARGET_FAILED" } });
    }
    expect((await world.read(kind, await world.caller("ann"))).http).toBe(200);
    expect(world.used().map(({ claims }) => claims["sub"])).toEqual(["ann"]);
    const { body } = await world.send("GET", "/readyz", {
      token: await world.person({ permissions: ["metrics:read"] }),
    });
    expect(body.systems.mcp.state).not.toBe("failed");
  });
});

test("each caller has a session of its own with an MCP server, and the service's own requests have a token of the client", async () => {
  await world.start((tokenExchange) => ({ tokenExchange }));
  for (const sub of ["ann", "bob"]) await world.read("mcp", await world.caller(sub));
  const starts = world.seen.filter(({ did }) => did === "initialize");
  expect(starts.map(({ claims }) => claims["sub"])).toEqual(["ann", "bob"]);
});

test("a client that may only exchange tokens lists no tools, and callers can use the tools that are pinned", async () => {
  await world.start((tokenExchange) => ({ tokenExchange }), "exchange-only");
  const { body } = await world.send("GET", "/readyz", { token: await world.person({ permissions: ["metrics:read"] }) });
  expect(body.systems.mcp.state).toBe("failed");
  const ann = await world.caller("ann");
  expect((await world.read("mcp", ann)).body.error).toMatchObject({ code: "TARGET_FAILED", retryable: false });
  expect((await world.read("pinned", ann)).body.result).toEqual({ text: "a ticket" });
  expect((await world.read("mcp", ann)).body.result).toEqual({ text: "a ticket" });
});
