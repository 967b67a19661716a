import { expect, test } from "bun:test";
import { CALL, callHeaders, issuers, startIdentityService } from "../support/identity-service.ts";
import { AGENTS_ISSUER } from "../support/tokens.ts";

const PAGE = "/.well-known/oauth-protected-resource";

test("without a URL of its own the service publishes nothing about its tokens", async () => {
  const stand = await startIdentityService({});
  expect((await fetch(`${stand.service.url}${PAGE}`)).status).toBe(404);
  const refused = await fetch(`${stand.service.url}/tools`);
  expect(refused.headers.get("www-authenticate")).toBe('Bearer realm="safe-tool-call"');
  await stand.close();
});

test("the page names the resource and the issuers of agents' tokens, to anybody under any name", async () => {
  const cluster = "https://kubernetes.default.svc";
  const keys = { jwks: { keys: [issuers.agents.jwk] } };
  const stand = await startIdentityService({
    server: { resource: "https://tools.example/stc", resourceScopes: ["customer:read"] },
    jwt: {
      issuers: [
        ...issuers.profiles(),
        { issuer: cluster, profile: "kubernetes", subjectPermissions: {}, ...keys },
        { issuer: "not-a-url", ...keys },
      ],
    },
  });
  const want = {
    resource: "https://tools.example/stc",
    authorization_servers: [AGENTS_ISSUER],
    bearer_methods_supported: ["header"],
    scopes_supported: ["customer:read"],
  };
  for (const path of [PAGE, `${PAGE}/stc`]) {
    const page = await fetch(`${stand.service.url}${path}`, { headers: { host: "tools.example" } });
    expect(page.status).toBe(200);
    expect(page.headers.get("content-type")).toStartWith("application/json");
    expect(await page.json()).toEqual(want);
  }
  expect((await fetch(`${stand.service.url}${PAGE}/other`)).status).toBe(404);
  await stand.close();
});

test("a 401 says where to look, and calls a token invalid only when one was sent", async () => {
  const stand = await startIdentityService({ server: { resource: "https://tools.example/" } });
  const { url } = stand.service;
  const where = `resource_metadata="https://tools.example${PAGE}"`;
  const bare = `Bearer realm="safe-tool-call", ${where}`;
  const invalid = `Bearer realm="safe-tool-call", error="invalid_token", ${where}`;
  const rows: readonly (readonly [string, Record<string, string>, string])[] = [
    ["no header", {}, bare],
    ["another scheme", { authorization: "Basic eDp5" }, bare],
    ["no token", { authorization: "Bearer" }, bare],
    ["a token that is none", { authorization: "Bearer x" }, invalid],
    ["another case of the scheme", { authorization: "bEaReR x" }, invalid],
  ];
  for (const [title, headers, want] of rows) {
    for (const [path, init] of [
      ["/tools", {}],
      ["/call", { method: "POST", body: CALL }],
      ["/metrics", {}],
    ] as const) {
      const answer = await fetch(`${url}${path}`, {
        ...init,
        headers: { "content-type": "application/json", ...headers },
      });
      expect([title, path, answer.status, answer.headers.get("www-authenticate")]).toEqual([title, path, 401, want]);
    }
  }
  const poor = await issuers.token({ kind: "good", sub: "agent-7", permissions: [] });
  const denied = await fetch(`${url}/call`, {
    method: "POST",
    headers: { ...(await callHeaders()), authorization: `Bearer ${poor}` },
    body: CALL,
  });
  expect(denied.headers.get("www-authenticate")).toBe(`Bearer error="insufficient_scope", scope="self:read", ${where}`);
  const foreign = await fetch(`${url}/tools`, { headers: { host: "evil.example" } });
  expect([foreign.status, foreign.headers.get("www-authenticate")]).toEqual([403, null]);
  await stand.close();
});

test("a resource that agents could not send tokens to does not start", async () => {
  for (const resource of [
    "http://tools.example/",
    "tools.example",
    "https://t.example/?a=b",
    "https://t.example/#x",
    "https://agent:word@t.example/",
    "https://agent@t.example/",
    "",
  ]) {
    const outcome = await startIdentityService({ server: { resource } }).catch((error: unknown) => error);
    expect(String(outcome)).toContain("server.resource: must");
  }
  const scopes = await startIdentityService({ server: { resourceScopes: ["a"] } }).catch((error: unknown) => error);
  expect(String(scopes)).toContain("server.resourceScopes");
  const quoted = { resource: "https://t.example", resourceScopes: ['a"b'] };
  const outcome = await startIdentityService({ server: quoted }).catch((error: unknown) => error);
  expect(String(outcome)).toContain("must be a scope's name");
});
