import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import {
  Client,
  ClientCredentialsProvider,
  discoverAuthorizationServerMetadata,
  exchangeAuthorization,
  type OAuthClientMetadata,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type StoredOAuthClientInformation,
  type StoredOAuthTokens,
  StreamableHTTPClientTransport,
  startAuthorization,
  UnauthorizedError,
} from "@modelcontextprotocol/client";
import { parse } from "yaml";
import type { Loose } from "../support/asking-service.ts";
import { blockNamed } from "../support/documented.ts";
import { OAuthProvider } from "../support/oauth-provider.ts";
import { McpWorld, MODERN, PERMISSIONS } from "./mcp-world.ts";

/** The service and the provider as their clients know them. */
const HOST = "https://tools.example";
const LOGIN = "https://login.example";
const ENDPOINT = `${HOST}/mcp`;
const ELSEWHERE = "https://elsewhere.example/mcp";
const CALLBACK = "http://127.0.0.1:8000/callback";
const METADATA = "/.well-known/oauth-protected-resource";
const LIST = { jsonrpc: "2.0", id: 1, method: "tools/list" };
const ORDER = { order: "ord_1" };
/** What the client requests: the scopes that the metadata lists, and what keeps its user signed in. */
const REQUESTED = [...PERMISSIONS, "offline_access"].join(" ");
const TOOLS = ["orders_find", "orders_refund", "reports_read"];

/** What an MCP client keeps for its user: its registration, tokens, and the address that it opens in the user's browser. */
class Person implements OAuthClientProvider {
  readonly name: string;
  readonly redirectUrl = CALLBACK;
  readonly clientMetadata: OAuthClientMetadata = {
    client_name: "test-client",
    redirect_uris: [CALLBACK],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  };
  opened: URL | undefined;
  #client: StoredOAuthClientInformation | undefined;
  #tokens: StoredOAuthTokens | undefined;
  #verifier = "";
  #discovered: OAuthDiscoveryState | undefined;

  constructor(name: string, client?: StoredOAuthClientInformation) {
    this.name = name;
    this.#client = client;
  }

  clientInformation = () => this.#client;
  tokens = () => this.#tokens;
  codeVerifier = () => this.#verifier;
  discoveryState = () => this.#discovered;
  saveClientInformation(client: StoredOAuthClientInformation) {
    this.#client = client;
  }
  saveTokens(tokens: StoredOAuthTokens) {
    this.#tokens = tokens;
  }
  saveCodeVerifier(verifier: string) {
    this.#verifier = verifier;
  }
  saveDiscoveryState(state: OAuthDiscoveryState) {
    this.#discovered = state;
  }
  redirectToAuthorization(address: URL) {
    this.opened = address;
  }

  get token(): string {
    return this.#tokens?.access_token ?? "";
  }

  /** Signs in at the address that the client opened, and returns what the client gets in its callback. */
  async signIn(): Promise<URLSearchParams> {
    if (this.opened === undefined) throw new Error("the client opened no address");
    const { searchParams } = await login.authorize(this.opened, this.name);
    this.opened = undefined;
    return searchParams;
  }
}

interface Served {
  readonly resource?: string;
  readonly profile?: object;
  readonly sections?: Readonly<Record<string, unknown>>;
}

let login: OAuthProvider;
let world: McpWorld;
/** Paths that the client requested, with the status of each answer. */
let requested: string[] = [];

beforeAll(async () => {
  login = await OAuthProvider.start({
    issuer: LOGIN,
    resources: { [ENDPOINT]: PERMISSIONS, [HOST]: PERMISSIONS, [ELSEWHERE]: PERMISSIONS },
    clients: [
      {
        client_id: "desktop",
        redirect_uris: [CALLBACK],
        grant_types: ["authorization_code", "refresh_token"],
        token_endpoint_auth_method: "none",
        application_type: "native",
      },
      {
        // A client whose name is an audience of the service: the audience of its ID tokens is the client's name.
        client_id: "safe-tool-call",
        redirect_uris: [CALLBACK],
        token_endpoint_auth_method: "none",
        application_type: "native",
      },
      {
        client_id: "nightly-report",
        client_secret: "a-secret-of-the-test",
        redirect_uris: [],
        response_types: [],
        grant_types: ["client_credentials"],
      },
      {
        client_id: "planner",
        client_secret: "a-secret-of-the-test",
        redirect_uris: [],
        response_types: [],
        grant_types: ["urn:ietf:params:oauth:grant-type:token-exchange"],
      },
    ],
    accounts: { alice: PERMISSIONS, bob: ["orders:read"] },
  });
});
afterAll(() => login.close());

beforeEach(() => {
  requested = [];
});
afterEach(() => world.end());

/** The guide's configuration, with the addresses of this test. `profile` replaces settings of the provider's tokens. */
async function serve({ resource = ENDPOINT, profile = {}, sections = {} }: Served = {}): Promise<void> {
  world = new McpWorld();
  const [, operators] = world.issuers.profiles();
  const { server, jwt } = parse(
    blockNamed("docs/identity.md: # stc.yaml: agents sign in").text.replaceAll(ENDPOINT, resource),
  );
  const [issuer] = jwt.issuers;
  await world.start({
    server: { ...server, port: 0 },
    jwt: { issuers: [{ ...issuer, jwksUri: login.jwksUri, ...profile }, operators] },
    ...sections,
  });
}

/** Reaches both by their names, as DNS and a TLS proxy do. */
async function deployed(input: string | URL, init?: RequestInit): Promise<Response> {
  const url = new URL(input);
  const toService = () => fetch(`${world.url}${url.pathname}${url.search}`, init);
  const response = await (url.origin === HOST ? toService() : login.fetch(url, init));
  requested.push(`${init?.method ?? "GET"} ${url.origin}${url.pathname} ${response.status}`);
  return response;
}

function transportOf(authProvider: OAuthClientProvider): StreamableHTTPClientTransport {
  return new StreamableHTTPClientTransport(new URL(ENDPOINT), { authProvider, fetch: deployed });
}

function clientOf(version = MODERN): Client {
  return new Client(
    { name: "test-client", version: "1" },
    version === MODERN
      ? { versionNegotiation: { mode: { pin: MODERN } } }
      : { versionNegotiation: { mode: "legacy" }, supportedProtocolVersions: [version] },
  );
}

/** Connects with nothing but the endpoint's URL: the first attempt leads to the sign-in, the second has a token. */
async function connect(person: Person, version = MODERN): Promise<Client> {
  const first = transportOf(person);
  await expect(clientOf(version).connect(first)).rejects.toThrow(UnauthorizedError);
  await first.finishAuth(await person.signIn());
  const client = clientOf(version);
  await client.connect(transportOf(person));
  return client;
}

async function toolsOf(client: Client): Promise<readonly string[]> {
  return (await client.listTools()).tools.map(({ name }) => name).toSorted();
}

function claimsOf(token: string): Readonly<Record<string, unknown>> {
  return JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
}

/** The last entry of the audit, in short. */
function audited(): object {
  const { caller, tool, decision, denial, error } = world.last() ?? {};
  return { sub: caller?.sub, tool: tool?.name, decision, code: error?.code, stage: denial?.stage };
}

test.each([
  ["the endpoint", ENDPOINT, `${METADATA}/mcp`, MODERN],
  ["the endpoint, for a client of an earlier version,", ENDPOINT, `${METADATA}/mcp`, "2025-11-25"],
  ["the whole host", HOST, METADATA, MODERN],
])(
  "%s as the resource: a client with only the URL registers, signs its user in and calls",
  async (_title, resource, path, version) => {
    await serve({ resource });
    const alice = new Person("alice");
    const first = transportOf(alice);
    await expect(clientOf(version).connect(first)).rejects.toThrow(UnauthorizedError);
    expect(requested).toEqual([
      `POST ${ENDPOINT} 401`,
      `GET ${HOST}${path} 200`,
      `GET ${LOGIN}/.well-known/oauth-authorization-server 200`,
      `POST ${LOGIN}/reg 201`,
    ]);
    const opened = Object.fromEntries(alice.opened?.searchParams ?? []);
    expect(opened).toMatchObject({ code_challenge_method: "S256", scope: REQUESTED });
    // The same resource, whether or not it is written with the slash of an empty path.
    expect(new URL(opened["resource"] ?? "").href).toBe(new URL(resource).href);
    await first.finishAuth(await alice.signIn());
    expect(claimsOf(alice.token)).toMatchObject({ iss: LOGIN, aud: opened["resource"] });

    const client = clientOf(version);
    await client.connect(transportOf(alice));
    expect(await toolsOf(client)).toEqual(TOOLS);
    const { structuredContent } = await client.callTool({ name: "orders_find", arguments: ORDER });
    expect(structuredContent).toEqual({ order: "ord_1", email: "a**@c********.example", total: 12.5 });
    expect(world.last()).toMatchObject({
      decision: "ALLOWED",
      caller: { sub: "alice", iss: LOGIN, permissions: PERMISSIONS },
      protocol: { name: "mcp", version, client: { name: "test-client" } },
    });
    await client.close();
  },
);

test("a client that the provider knows needs no registration", async () => {
  await serve();
  const client = await connect(new Person("alice", { client_id: "desktop", issuer: LOGIN }));
  expect(requested.filter((line) => line.includes("/reg"))).toEqual([]);
  expect(await toolsOf(client)).toEqual(TOOLS);
  await client.close();
});

test("a workload with client credentials gets its token from the URL alone", async () => {
  await serve();
  const client = clientOf();
  const provider = new ClientCredentialsProvider({
    clientId: "nightly-report",
    clientSecret: "a-secret-of-the-test",
    expectedIssuer: LOGIN,
  });
  await client.connect(transportOf(provider));
  await client.callTool({ name: "orders_find", arguments: ORDER });
  expect(audited()).toEqual({ sub: "nightly-report", tool: "orders_find", decision: "ALLOWED" });
  await client.close();
});

test("an agent that exchanges its user's token calls for the user, and the audit names both", async () => {
  await serve();
  const { access_token: theirs } = await tokensFor("desktop", ELSEWHERE);
  const answer = await login.fetch(new URL("/token", LOGIN), {
    method: "POST",
    headers: { authorization: `Basic ${btoa("planner:a-secret-of-the-test")}` },
    body: new URLSearchParams({
      grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
      subject_token_type: "urn:ietf:params:oauth:token-type:access_token",
      subject_token: theirs,
      resource: ENDPOINT,
      scope: "orders:read",
    }),
  });
  const { access_token: token } = (await answer.json()) as Loose;
  const client = await world.client(MODERN, token);
  expect(await toolsOf(client)).toEqual(["orders_find", "reports_read"]);
  await client.callTool({ name: "orders_find", arguments: ORDER });
  expect(world.last()).toMatchObject({
    decision: "ALLOWED",
    caller: { sub: "alice", act: ["planner"], permissions: ["orders:read"] },
  });
});

test.each([
  ["rfc9068, also when its audience is one of the service's", {}, "safe-tool-call"],
  ["generic, whose only audience is the resource", { profile: "generic", audience: ENDPOINT }, "desktop"],
])("a token for another resource is refused, and so is an ID token: profile %s", async (_title, profile, id) => {
  await serve({ profile });
  const refused = async (token: string) => {
    const { http, headers } = await world.call("orders_find", ORDER, { token });
    expect([http, headers.get("www-authenticate")]).toEqual([
      401,
      `Bearer realm="safe-tool-call", error="invalid_token", resource_metadata="${HOST}${METADATA}/mcp"`,
    ]);
    expect(audited()).toEqual({
      sub: "anonymous",
      tool: "orders_find",
      decision: "DENIED",
      code: "UNAUTHENTICATED",
      stage: "AUTH",
    });
  };
  const elsewhere = await tokensFor("desktop", ELSEWHERE);
  expect(claimsOf(elsewhere.access_token)).toMatchObject({ aud: ELSEWHERE, scope: PERMISSIONS.join(" ") });
  await refused(elsewhere.access_token);

  const both = await tokensFor(id, ENDPOINT);
  expect(claimsOf(both.id_token ?? "")).toMatchObject({ iss: LOGIN, sub: "alice", aud: id });
  await refused(both.id_token ?? "");
  expect((await world.call("orders_find", ORDER, { token: both.access_token })).http).toBe(200);
});

test("an expired token is refreshed without the user", async () => {
  await serve();
  login.nextTokenAgeSeconds = 900;
  const alice = new Person("alice");
  const first = transportOf(alice);
  await expect(clientOf().connect(first)).rejects.toThrow(UnauthorizedError);
  await first.finishAuth(await alice.signIn());
  const expired = alice.token;
  expect((await world.call("orders_find", ORDER, { token: expired })).http).toBe(401);
  expect(audited()).toMatchObject({ sub: "anonymous", decision: "DENIED", code: "UNAUTHENTICATED" });

  requested = [];
  const client = clientOf();
  await client.connect(transportOf(alice));
  expect(requested).toEqual([`POST ${ENDPOINT} 401`, `POST ${LOGIN}/token 200`, `POST ${ENDPOINT} 200`]);
  await client.callTool({ name: "orders_find", arguments: ORDER });
  expect(audited()).toMatchObject({ sub: "alice", decision: "ALLOWED" });
  expect([alice.opened, alice.token === expired]).toEqual([undefined, false]);
  await client.close();
});

test("a token without a useful scope is 403 at the list, and the client asks its user for the scopes that are missing", async () => {
  await serve();
  login.accounts.set("carol", []);
  const carol = new Person("carol");
  const client = await connect(carol);
  requested = [];
  await expect(client.listTools()).rejects.toThrow(UnauthorizedError);
  expect(requested).toEqual([`POST ${ENDPOINT} 403`]);
  expect(carol.opened?.searchParams.get("scope")).toBe(REQUESTED);

  login.accounts.set("carol", PERMISSIONS);
  await transportOf(carol).finishAuth(await carol.signIn());
  expect(await toolsOf(client)).toEqual(TOOLS);
  await client.close();
});

test("a tool beyond the scopes that the user granted is unknown to the client, and PERMISSION_DENIED in the audit", async () => {
  await serve();
  const client = await connect(new Person("bob"));
  expect(await toolsOf(client)).toEqual(["orders_find", "reports_read"]);
  await expect(client.callTool({ name: "orders_refund", arguments: { ...ORDER, cents: 5 } })).rejects.toThrow(
    "Unknown tool",
  );
  expect(audited()).toEqual({
    sub: "bob",
    tool: "orders_refund",
    decision: "DENIED",
    code: "PERMISSION_DENIED",
    stage: "PERMISSION",
  });
  await client.close();
});

test("with mcp.oauthMetadata off nothing leads to the provider, and its tokens are valid", async () => {
  await serve({ sections: { mcp: { oauthMetadata: false } } });
  for (const path of [METADATA, `${METADATA}/mcp`]) expect((await world.send("GET", path, {})).http).toBe(404);
  const { http, headers } = await world.send("POST", "/mcp", { body: LIST });
  expect([http, headers.get("www-authenticate")]).toEqual([401, 'Bearer realm="safe-tool-call"']);
  await expect(clientOf().connect(transportOf(new Person("alice")))).rejects.toThrow();
  expect(requested.filter((line) => line.includes(LOGIN))).toEqual([]);

  const client = await world.client(MODERN, (await tokensFor("desktop", ENDPOINT)).access_token);
  expect(await toolsOf(client)).toEqual(TOOLS);
});

/** Alice's tokens, an ID token included, from one of the provider's own clients. */
async function tokensFor(id: string, resource: string) {
  const metadata = await discoverAuthorizationServerMetadata(LOGIN, { fetchFn: deployed });
  if (metadata === undefined) throw new Error("the provider has no metadata");
  const common = { metadata, clientInformation: { client_id: id }, resource };
  const scope = ["openid", ...PERMISSIONS].join(" ");
  const { authorizationUrl, codeVerifier } = await startAuthorization(LOGIN, {
    ...common,
    redirectUrl: CALLBACK,
    scope,
  });
  const { code = "", iss = "" } = Object.fromEntries((await login.authorize(authorizationUrl, "alice")).searchParams);
  const exchanged = { codeVerifier, authorizationCode: code, iss, redirectUri: CALLBACK, fetchFn: deployed };
  return exchangeAuthorization(LOGIN, { ...common, ...exchanged });
}
