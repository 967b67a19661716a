import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { emptyFolder } from "../support/identity-service.ts";
import { OAuthProvider } from "../support/oauth-provider.ts";
import { freePorts } from "../support/ports.ts";
import { type Claims, issueToken } from "../support/tokens.ts";
import { until } from "../support/until.ts";
import { ConsoleStand, cookieIn, outcomeOf } from "./console-stand.ts";

const RESOURCE = "https://operators.example";
const ELSEWHERE = "https://elsewhere.example";
const CLIENT = "stc-console";
const SECRET = "a-secret-of-the-test";
const PUBLIC_URL = "https://console.example";
const REDIRECT_TO_NAME = `${PUBLIC_URL}/console/oidc`;
const SCOPES = ["approvals:decide", "audit:read"];

let provider: OAuthProvider;
let stand: ConsoleStand;

/** A person's browser in the middle of a sign-in: what came back from the provider, and the transaction's cookie. */
interface Returned {
  readonly code: string;
  readonly state: string;
  readonly iss: string;
  readonly cookie: string;
}

async function begin(): Promise<{ readonly url: URL; readonly cookie: string }> {
  const response = await stand.send("/console/sign-in", { method: "POST" });
  if (!response.ok) throw new Error(await response.text());
  const { url } = (await response.json()) as { readonly url: string };
  return { url: new URL(url), cookie: cookieIn(response, "stc_console_sign_in") };
}

/** `changed` replaces parameters of the request, as somebody in the browser could. */
async function returned(account = "ann", changed: Readonly<Record<string, string>> = {}): Promise<Returned> {
  const { url, cookie } = await begin();
  for (const [name, value] of Object.entries(changed)) url.searchParams.set(name, value);
  const { searchParams } = await provider.authorize(url, account);
  const [code = "", state = "", iss = ""] = ["code", "state", "iss"].map((name) => searchParams.get(name) ?? "");
  return { code, state, iss, cookie };
}

function finish({ cookie, ...body }: Partial<Returned>): Promise<Response> {
  const headers = cookie === undefined ? {} : { cookie: `stc_console_sign_in=${cookie}` };
  return stand.send("/console/session", { method: "POST", body, headers });
}

beforeAll(async () => {
  const port = freePorts();
  provider = await OAuthProvider.start({
    resources: { [RESOURCE]: SCOPES, [ELSEWHERE]: SCOPES },
    accounts: { ann: SCOPES, bob: ["audit:read"] },
    clients: [
      {
        client_id: CLIENT,
        redirect_uris: [`http://127.0.0.1:${port}/console/oidc`],
        grant_types: ["authorization_code", "refresh_token"],
        token_endpoint_auth_method: "none",
        application_type: "native",
      },
      {
        client_id: "stc-with-secret",
        client_secret: SECRET,
        redirect_uris: [REDIRECT_TO_NAME],
        grant_types: ["authorization_code"],
        token_endpoint_auth_method: "client_secret_basic",
      },
    ],
  });
  stand = await ConsoleStand.start({
    server: { console: { port } },
    jwt: { issuers: [issuerOfOperators()] },
    rest: {
      console: {
        oidc: { issuer: provider.issuer, clientId: CLIENT, scopes: ["openid", ...SCOPES], resource: RESOURCE },
      },
    },
  });
});

function issuerOfOperators(): Record<string, unknown> {
  const tokens = { audience: RESOURCE, profile: "rfc9068", algorithms: ["ES256"] };
  return { issuer: provider.issuer, ...tokens, jwksUri: provider.jwksUri, operators: true };
}

afterAll(async () => {
  await stand.close();
  provider.close();
});

describe("sign-in at an OpenID provider", () => {
  test("is announced to the page", async () => {
    expect(await (await stand.send("/console/settings")).json()).toMatchObject({ oidc: true, development: false });
  });

  test("asks for a code with PKCE, a state and a nonce", async () => {
    const { searchParams } = (await begin()).url;
    expect(Object.fromEntries(searchParams)).toEqual({
      ...{ response_type: "code", client_id: CLIENT, redirect_uri: `${stand.url}/console/oidc`, resource: RESOURCE },
      ...{ scope: "openid approvals:decide audit:read", code_challenge_method: "S256" },
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      state: expect.stringMatching(/^[\w-]{43}$/),
      nonce: expect.stringMatching(/^[\w-]{43}$/),
    });
  });

  test("keeps its transaction in a cookie that says nothing, for five minutes", async () => {
    const response = await stand.send("/console/sign-in", { method: "POST" });
    const [set = ""] = response.headers.getSetCookie();
    expect(set).toMatch(/^stc_console_sign_in=[\w-]+; Path=\/; HttpOnly; SameSite=Lax; Max-Age=300$/);
    const { url } = (await response.json()) as { readonly url: string };
    const decoded = Buffer.from(cookieIn(response, "stc_console_sign_in"), "base64url").toString("latin1");
    expect(decoded).not.toContain(new URL(url).searchParams.get("state") ?? "");
  });

  test("opens a session with the permissions of the access token", async () => {
    const response = await finish(await returned("bob"));
    const { key, ...facts } = (await response.json()) as { readonly key: string };
    expect(facts).toMatchObject({ sub: "bob", iss: provider.issuer, permissions: ["audit:read"] });
    const session = { key, cookie: cookieIn(response, "stc_console") };
    expect(await stand.outcome("/audit", { session })).toBe("200");
    expect(stand.journal().at(-1)).toMatchObject({ type: "console.signedIn", sub: "bob", by: "oidc" });
  });

  test("removes the transaction's cookie", async () => {
    const response = await finish(await returned());
    expect(response.headers.getSetCookie()).toContain(
      "stc_console_sign_in=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0",
    );
  });
});

describe("an answer of the provider is refused", () => {
  let answer: Returned;

  beforeEach(async () => {
    answer = await returned();
  });

  test.each<readonly [string, () => Partial<Returned>]>([
    [
      "in a browser that did not begin the sign-in",
      () => ({ code: answer.code, state: answer.state, iss: answer.iss }),
    ],
    ["with another state", () => ({ ...answer, state: "x".repeat(43) })],
    ["with a changed cookie", () => ({ ...answer, cookie: `${answer.cookie.slice(0, -2)}AA` })],
    ["with a cookie of nonsense", () => ({ ...answer, cookie: "AAAA" })],
    ["with another code", () => ({ ...answer, code: "x".repeat(43) })],
    ["with another issuer", () => ({ ...answer, iss: "https://evil.example" })],
    [
      "without the issuer that the provider announces",
      () => ({ code: answer.code, state: answer.state, cookie: answer.cookie }),
    ],
  ])("%s", async (_name, given) => {
    const response = await finish(given());
    expect(response.headers.getSetCookie()).toEqual([]);
    expect(await outcomeOf(response)).toBe("401 UNAUTHENTICATED");
  });

  test.each([
    ["with an ID token for another nonce", { nonce: "n".repeat(43) }],
    ["with a code for another PKCE verifier", { code_challenge: "c".repeat(43) }],
    ["with a code for another audience", { resource: ELSEWHERE }],
  ])("%s", async (_name, changed) => {
    const response = await finish(await returned("ann", changed));
    expect(response.headers.getSetCookie()).toEqual([]);
    expect(await outcomeOf(response)).toBe("401 UNAUTHENTICATED");
  });

  test("when it belongs to the sign-in of somebody else: nobody is signed in as an attacker", async () => {
    const { cookie } = await begin();
    expect(await outcomeOf(await finish({ ...answer, cookie }))).toBe("401 UNAUTHENTICATED");
  });

  test("a second time", async () => {
    expect(await outcomeOf(await finish(answer))).toBe("200");
    expect(await outcomeOf(await finish(answer))).toBe("401 UNAUTHENTICATED");
  });

  test("when the page of another origin sends it", async () => {
    const { cookie, ...body } = answer;
    const headers = { cookie: `stc_console_sign_in=${cookie}`, origin: "http://evil.example" };
    expect(await stand.outcome("/console/session", { method: "POST", body, headers })).toBe("403 HOST_NOT_ALLOWED");
  });
});

describe("behind a reverse proxy, with a client that has a secret", () => {
  const folder = emptyFolder();
  let proxied: ConsoleStand;

  beforeAll(async () => {
    writeFileSync(join(folder, "secret"), `${SECRET}\n`, { mode: 0o600 });
    const oidc = { issuer: provider.issuer, clientId: "stc-with-secret", clientSecretFile: "./secret" };
    proxied = await ConsoleStand.start({
      folder,
      server: { console: { socket: "./console.sock", publicUrl: PUBLIC_URL, allowedHosts: ["internal.example"] } },
      jwt: { issuers: [issuerOfOperators()] },
      rest: { console: { oidc: { ...oidc, scopes: ["openid", ...SCOPES], resource: RESOURCE } } },
    });
  });

  afterAll(() => proxied.close());

  const page = { host: "console.example", origin: PUBLIC_URL, "sec-fetch-site": "same-origin" };
  const post = (path: string, headers: Readonly<Record<string, string>>, body: object = {}) =>
    fetch(`http://localhost${path}`, {
      ...{ method: "POST", unix: join(folder, "console.sock"), body: JSON.stringify(body) },
      headers: { "content-type": "application/json", ...headers },
    });

  test("the provider returns to the public address, with cookies for this host alone", async () => {
    const begun = await post("/console/sign-in", page);
    const [set = ""] = begun.headers.getSetCookie();
    expect(set).toMatch(/^__Host-stc_console_sign_in=[\w-]+; Path=\/; HttpOnly; SameSite=Lax; Secure; Max-Age=300$/);
    const { url } = (await begun.json()) as { readonly url: string };
    const answer = await provider.authorize(new URL(url), "ann");
    expect(`${answer.origin}${answer.pathname}`).toBe(REDIRECT_TO_NAME);
    const headers = { ...page, cookie: set.split(";")[0] ?? "" };
    const response = await post("/console/session", headers, Object.fromEntries(answer.searchParams));
    expect(await outcomeOf(response)).toBe("200");
    expect(response.headers.getSetCookie()[0]).toMatch(/^__Host-stc_console=[\w-]{86}; .*; Secure$/);
  });

  test("nobody begins a sign-in under another name: its cookie would not come back", async () => {
    const other = { ...page, host: "internal.example", origin: "https://internal.example" };
    expect(await outcomeOf(await post("/console/sign-in", other))).toBe("403 HOST_NOT_ALLOWED");
  });
});

describe("an issuer whose ID tokens name the operators' audience", () => {
  const ID_TOKEN = { aud: [CLIENT, RESOURCE], scope: SCOPES.join(" "), azp: CLIENT };
  const tokenOf = (claims: Claims, typ: string | undefined = "JWT") => {
    const nowSeconds = Math.floor(Date.now() / 1_000);
    const all = { iss: provider.issuer, sub: "ann", iat: nowSeconds, exp: nowSeconds + 300, ...ID_TOKEN, ...claims };
    return issueToken(provider.key, all, { typ });
  };

  function standOf(settings: object, oidc: object): Promise<ConsoleStand> {
    return ConsoleStand.start({
      jwt: { issuers: [{ ...issuerOfOperators(), profile: "generic", ...settings }] },
      rest: { console: { oidc: { issuer: provider.issuer, clientId: CLIENT, ...oidc } } },
    });
  }

  async function paste(settings: object, oidc: object, tokens: readonly Promise<string>[]): Promise<readonly string[]> {
    const own = await standOf(settings, oidc);
    const outcomes: string[] = [];
    for (const token of tokens) {
      outcomes.push(await own.outcome("/console/session", { method: "POST", body: { token: await token } }));
      outcomes.push(await own.outcome("/audit", { headers: { authorization: `Bearer ${await token}` } }));
    }
    await own.close();
    return outcomes;
  }

  const idTokens = () => [tokenOf({ nonce: "n" }), tokenOf({ at_hash: "h" }), tokenOf({ nonce: "n" }, "at+jwt")];

  test("cannot sign operators in with them; access tokens have the type at+jwt", async () => {
    const untyped = [tokenOf({}), tokenOf({}, "at+jwt")];
    const outcomes = await paste({}, {}, [...idTokens(), ...untyped]);
    expect(outcomes).toEqual([...Array.from({ length: 8 }, () => "401 UNAUTHENTICATED"), "200", "200"]);
  });

  test.each([
    ["console.oidc.requireAtJwt", {}, { requireAtJwt: false }],
    ["jwt.issuers[].typ", { typ: "JWT" }, {}],
  ])("has access tokens of another type where %s says so, and still no ID tokens", async (_key, settings, oidc) => {
    const outcomes = await paste(settings, oidc, [...idTokens(), tokenOf({})]);
    expect(outcomes).toEqual([...Array.from({ length: 6 }, () => "401 UNAUTHENTICATED"), "200", "200"]);
  });

  test("refuses an ID token that the provider returns as access token", async () => {
    const lax = await standOf({}, { requireAtJwt: false });
    const outcomes: string[] = [];
    for (const isIdToken of [true, false]) {
      const begun = await lax.send("/console/sign-in", { method: "POST" });
      const { searchParams } = new URL(((await begun.json()) as { readonly url: string }).url);
      const [state = "", nonce = ""] = ["state", "nonce"].map((name) => searchParams.get(name) ?? "");
      const id_token = await tokenOf({ nonce });
      const access_token = isIdToken ? id_token : await tokenOf({});
      provider.nextTokens = { id_token, access_token, token_type: "Bearer", expires_in: 300 };
      const headers = { cookie: `stc_console_sign_in=${cookieIn(begun, "stc_console_sign_in")}` };
      const body = { code: "any", state, iss: provider.issuer };
      outcomes.push(await lax.outcome("/console/session", { method: "POST", body, headers }));
    }
    await lax.close();
    expect(outcomes).toEqual(["401 UNAUTHENTICATED", "200"]);
  });
});

describe("tokens", () => {
  test("the ID token of a sign-in does not open a session when it is pasted", async () => {
    const { url, cookie } = await begin();
    const verifier = "v".repeat(43);
    const challenge = new Bun.CryptoHasher("sha256").update(verifier).digest("base64url");
    url.searchParams.set("code_challenge", challenge);
    const code = (await provider.authorize(url, "ann")).searchParams.get("code") ?? "";
    expect(cookie).not.toBe("");
    const form = new URLSearchParams({
      ...{ grant_type: "authorization_code", code, code_verifier: verifier, client_id: CLIENT },
      redirect_uri: `${stand.url}/console/oidc`,
    });
    const tokens = (await (await fetch(`${provider.address}/token`, { method: "POST", body: form })).json()) as {
      readonly id_token: string;
      readonly access_token: string;
    };
    const paste = (token: string) => stand.outcome("/console/session", { method: "POST", body: { token } });
    expect(await paste(tokens.id_token)).toBe("401 UNAUTHENTICATED");
    expect(await paste(tokens.access_token)).toBe("200");
  });

  test("an access token that is about to expire is renewed, and the session goes on", async () => {
    provider.nextTokenAgeSeconds = 594;
    const response = await finish(await returned());
    const { key, expiresAt, endsAt } = (await response.json()) as Readonly<
      Record<"key" | "expiresAt" | "endsAt", string>
    >;
    expect(Date.parse(endsAt) - Date.parse(expiresAt)).toBeGreaterThan(7 * 3_600_000);
    const session = { key, cookie: cookieIn(response, "stc_console") };
    await until("another token", async () => {
      const renewed = (await (await stand.send("/console/session", { session })).json()) as {
        readonly expiresAt: string;
      };
      return Date.parse(renewed.expiresAt) - Date.parse(expiresAt) > 500_000 ? true : undefined;
    });
  });

  test("a provider that cannot be reached is reported as such; a session goes on while its token is valid", async () => {
    const answer = await returned();
    provider.nextTokenAgeSeconds = 570;
    const signedIn = await finish(await returned());
    const { key } = (await signedIn.json()) as { readonly key: string };
    provider.close();
    expect(await outcomeOf(await finish(answer))).toBe("503 AUTH_UNAVAILABLE");
    const session = { key, cookie: cookieIn(signedIn, "stc_console") };
    expect(await stand.outcome("/audit", { session })).toBe("200");
  });
});

describe("a provider that does not answer", () => {
  let held: (() => void)[] = [];
  let slow: Bun.Server<undefined>;
  let waiting: ConsoleStand;

  beforeAll(async () => {
    slow = Bun.serve({
      ...{ port: 0, hostname: "127.0.0.1" },
      async fetch({ url }) {
        const issuer = `http://127.0.0.1:${slow.port}`;
        if (url.endsWith("/.well-known/openid-configuration")) {
          return Response.json({ issuer, authorization_endpoint: `${issuer}/a`, token_endpoint: `${issuer}/t` });
        }
        await new Promise<void>((resolve) => held.push(resolve));
        return new Response(null, { status: 400 });
      },
    });
    const oidc = { issuer: `http://127.0.0.1:${slow.port}`, clientId: CLIENT };
    waiting = await ConsoleStand.start({ rest: { console: { oidc } } });
  });

  afterAll(async () => {
    await waiting.close();
    await slow.stop(true);
  });

  test("is asked for a bounded number of sign-ins at once", async () => {
    const outcomes = Array.from({ length: 40 }, async () => {
      const begun = await waiting.send("/console/sign-in", { method: "POST" });
      const { url } = (await begun.json()) as { readonly url: string };
      const headers = { cookie: `stc_console_sign_in=${cookieIn(begun, "stc_console_sign_in")}` };
      const body = { code: "x", state: new URL(url).searchParams.get("state") };
      return waiting.outcome("/console/session", { method: "POST", body, headers });
    });
    let refused = 0;
    for (const outcome of outcomes) {
      void outcome.then((code) => {
        refused += Number(code === "429 RATE_LIMITED");
      });
    }
    await until("the sign-ins beyond the bound to be refused", () =>
      refused === 24 && held.length === 16 ? true : undefined,
    );
    expect(held).toHaveLength(16);
    for (const answer of held) answer();
    held = [];
    expect((await Promise.all(outcomes)).filter((code) => code === "401 UNAUTHENTICATED")).toHaveLength(16);
  });
});
