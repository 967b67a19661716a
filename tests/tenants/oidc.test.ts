import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { cookieIn, outcomeOf } from "../console/console-stand.ts";
import { OAuthProvider } from "../support/oauth-provider.ts";
import { TenantService } from "../support/tenant-service.ts";
import { until } from "../support/until.ts";

/** Operators of tenants sign in at the console, with an OpenID provider whose access tokens name the tenant. */

const RESOURCE = "https://operators.example";
const CLIENT = "stc-console";
const PERMISSIONS = ["approvals:decide", "metrics:read", "tenants:read"];
const CONSOLE = "https://console.example";

const service = new TenantService();
let provider: OAuthProvider;

beforeAll(async () => {
  provider = await OAuthProvider.start({
    resources: { [RESOURCE]: PERMISSIONS },
    accounts: Object.fromEntries(["ann", "gus", "pat", "eve", "mo"].map((name) => [name, PERMISSIONS])),
    clients: [
      {
        client_id: CLIENT,
        redirect_uris: [`${CONSOLE}/console/oidc`],
        grant_types: ["authorization_code", "refresh_token"],
        token_endpoint_auth_method: "none",
      },
    ],
  });
  const tokensOf = { audience: RESOURCE, profile: "rfc9068", algorithms: ["ES256"], jwksUri: provider.jwksUri };
  const tenants = { claim: "tenant", names: ["acme", "globex"] };
  await service.start({
    server: { port: 0, console: { port: 0, publicUrl: CONSOLE } },
    jwt: {
      issuers: [...service.tokens.profiles(), { issuer: provider.issuer, operators: true, ...tokensOf, tenants }],
    },
    console: {
      oidc: { issuer: provider.issuer, clientId: CLIENT, scopes: ["openid", ...PERMISSIONS], resource: RESOURCE },
    },
  });
});
beforeEach(() => {
  for (const [account, tenant] of Object.entries({ ann: "acme", gus: "globex", eve: "initech", mo: ["acme"] })) {
    provider.claims.set(account, { tenant });
  }
});
afterAll(async () => {
  await service.end();
  provider.close();
});

interface Halves {
  readonly cookie: string;
  readonly key: string;
}

/** Sends a request as the console's page does, behind a proxy that has its name. */
function send(
  path: string,
  { method = "GET", body, cookie, key }: { method?: string; body?: unknown; cookie?: string; key?: string } = {},
) {
  const headers = {
    host: new URL(CONSOLE).host,
    "sec-fetch-site": "same-origin",
    connection: "close",
    ...(method !== "GET" && { origin: CONSOLE }),
    ...(body !== undefined && { "content-type": "application/json" }),
    ...(cookie !== undefined && { cookie }),
    ...(key !== undefined && { "stc-console-key": key }),
  };
  return fetch(`${service.consoleUrl}${path}`, {
    method,
    headers,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
}

async function signIn(account: string): Promise<Response> {
  const begun = await send("/console/sign-in", { method: "POST" });
  const { url } = (await begun.json()) as { readonly url: string };
  const { searchParams } = await provider.authorize(new URL(url), account);
  const body = Object.fromEntries(["code", "state", "iss"].map((name) => [name, searchParams.get(name)]));
  const name = "__Host-stc_console_sign_in";
  return send("/console/session", { method: "POST", body, cookie: `${name}=${cookieIn(begun, name)}` });
}

async function sessionIn(answer: Response): Promise<Halves & { readonly tenant: string | undefined }> {
  const { key, tenant } = (await answer.json()) as { readonly key: string; readonly tenant?: string };
  return { key, tenant, cookie: `__Host-stc_console=${cookieIn(answer, "__Host-stc_console")}` };
}

describe("who signs in with OpenID", () => {
  test("is an operator of the tenant that the access token names, and of no other", async () => {
    const signedIn = () => service.journalOf(undefined).filter(({ type }) => type === "console.signedIn");
    const before = signedIn().length;
    const [ann, gus] = [await sessionIn(await signIn("ann")), await sessionIn(await signIn("gus"))];
    expect([ann.tenant, gus.tenant]).toEqual(["acme", "globex"]);
    const asked = await service.callTo("acme", "do_write", { headers: { prefer: "wait=0" } });
    const path = `/approvals/${asked.body.approval.id}`;
    expect(await outcomeOf(await send(path, ann))).toBe("200");
    expect(await outcomeOf(await send(path, gus))).toStartWith("404");
    const decision = { method: "POST", body: { decision: "approve" } };
    expect(await outcomeOf(await send(`${path}/decisions`, { ...gus, ...decision }))).toStartWith("404");
    expect(await outcomeOf(await send(`${path}/decisions`, { ...ann, ...decision }))).toBe("200");
    expect(await outcomeOf(await send("/tenants", ann))).toBe("404 ROUTE_NOT_FOUND");
    const lines = signedIn().slice(before);
    expect(lines.map(({ sub, by, operatorTenant }) => [sub, by, operatorTenant])).toEqual([
      ["ann", "oidc", "acme"],
      ["gus", "oidc", "globex"],
    ]);
  });

  test.each([
    ["without a tenant", "pat"],
    ["with a tenant that there is not", "eve"],
    ["with a list as tenant", "mo"],
  ])("%s has no session", async (_what, account) => {
    const answer = await signIn(account);
    expect(await outcomeOf(answer)).toBe("401 UNAUTHENTICATED");
    expect(cookieIn(answer, "__Host-stc_console")).toBe("");
  });

  test("keeps the tenant when the token is renewed", async () => {
    provider.nextTokenAgeSeconds = 594;
    const ann = await sessionIn(await signIn("ann"));
    const expiresAt = async () => {
      const answer = await send("/console/session", ann);
      return (await answer.json()) as { readonly expiresAt: string; readonly tenant: string };
    };
    const before = Date.now();
    const renewed = await until("another token", async () => {
      const now = await expiresAt();
      return Date.parse(now.expiresAt) - before > 500_000 ? now : undefined;
    });
    expect(renewed.tenant).toBe("acme");
    expect(await outcomeOf(await send("/approvals", ann))).toBe("200");
  });

  test("and belongs to another tenant when the token is renewed, gets nothing of that tenant by this session", async () => {
    provider.nextTokenAgeSeconds = 594;
    const ann = await sessionIn(await signIn("ann"));
    provider.claims.set("ann", { tenant: "globex" });
    const { body } = await service.callTo("globex", "do_write", { headers: { prefer: "wait=0" } });
    const other = `/approvals/${body.approval.id}`;
    // The next token takes this back.
    provider.nextTokenAgeSeconds = 1;
    const seen = await until("another token", async () => {
      const answers = [await outcomeOf(await send("/approvals", ann)), await outcomeOf(await send(other, ann))];
      return provider.nextTokenAgeSeconds === 0 ? answers : undefined;
    });
    // The token before is valid for some seconds more; without one, the session ends.
    expect(seen[1]).toBe(seen[0] === "200" ? "404 APPROVAL_NOT_FOUND" : "401 UNAUTHENTICATED");
    expect((await sessionIn(await signIn("ann"))).tenant).toBe("globex");
  });
});
