import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { jwtVerify } from "jose";
import Provider, {
  type ClientMetadata,
  errors,
  type InteractionResults,
  type ResourceServer,
  type TokenEndpointGrantContext,
} from "oidc-provider";
import { makeSigningKey, type SigningKey } from "./tokens.ts";

interface ProviderSettings {
  /** The name under which clients know the server, such as `https://login.example`; when left out, its loopback address. */
  readonly issuer?: string;
  /** The scopes of each resource that tokens can be requested for (RFC 8707). */
  readonly resources: Readonly<Record<string, readonly string[]>>;
  /** Clients that need no registration. */
  readonly clients?: readonly ClientMetadata[];
  /** The scopes that each account may grant, of those that a client requests. */
  readonly accounts?: Readonly<Record<string, readonly string[]>>;
}

/** Grant type of RFC 8693. */
const TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange";
const EXCHANGE_PARAMETERS = ["subject_token", "subject_token_type", "resource", "scope"] as const;
type ExchangeContext = TokenEndpointGrantContext<Partial<Record<(typeof EXCHANGE_PARAMETERS)[number], string>>>;

const TOKEN_SECONDS = 600;
const ARTIFACTS = ["AccessToken", "ClientCredentials", "Grant", "IdToken", "Interaction", "RefreshToken", "Session"];
const SIGN_IN = /^\/interaction\//;

/**
 * A real OAuth and OpenID authorization server (npm `oidc-provider`) on a loopback port: discovery, dynamic registration, the
 * authorization code with PKCE, client credentials, token exchange, refresh tokens, resource indicators. Access tokens are JWTs
 * (RFC 9068).
 * It prints a warning about the runtime when it is imported, because it knows only Node.
 */
export class OAuthProvider {
  readonly issuer: string;
  /** Where it listens. */
  readonly address: string;
  /** Signs access tokens and ID tokens. */
  readonly key: SigningKey = makeSigningKey("ES256", "provider-1");
  /** What each account may grant; tests change it. */
  readonly accounts: Map<string, readonly string[]>;
  /** Further claims of each account's access tokens; tests change them. */
  readonly claims = new Map<string, Readonly<Record<string, unknown>>>();
  /** The next access token is this many seconds old. */
  nextTokenAgeSeconds = 0;
  /** The next answer of the token endpoint, in place of its own: that of a provider with other habits. */
  nextTokens: object | undefined;
  readonly #server: Server;
  readonly #provider: Provider;
  readonly #resources: ProviderSettings["resources"];

  private constructor(server: Server, { issuer, resources, clients = [], accounts = {} }: ProviderSettings) {
    this.#server = server;
    this.address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    this.issuer = issuer ?? this.address;
    this.#resources = resources;
    this.accounts = new Map(Object.entries(accounts));
    const signing = { ...this.key.privateKey.export({ format: "jwk" }), ...this.key.jwk };
    this.#provider = new Provider(this.issuer, {
      clients: [...clients],
      jwks: { keys: [signing] },
      scopes: ["openid", "offline_access", ...new Set(Object.values(resources).flat())],
      clientDefaults: { id_token_signed_response_alg: "ES256" },
      enabledJWA: { idTokenSigningAlgValues: ["ES256"] },
      extraTokenClaims: (context, token) => ({
        ...("accountId" in token && this.claims.get(token.accountId)),
        ...(context.oidc.params?.["grant_type"] === TOKEN_EXCHANGE && { act: { sub: context.oidc.client?.clientId } }),
      }),
      findAccount: (_context, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
      issueRefreshToken: (_context, client) => client.grantTypeAllowed("refresh_token"),
      features: {
        devInteractions: { enabled: false },
        registration: { enabled: true },
        clientCredentials: { enabled: true },
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo: (_context, resource) => resourceServer(resource, resources[resource]),
          useGrantedResource: () => true,
        },
      },
      interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
      formats: {
        customizers: {
          jwt: (_context, _token, { payload }) => {
            for (const claim of ["iat", "exp"] as const) {
              if (payload?.[claim] !== undefined) payload[claim] = Number(payload[claim]) - this.nextTokenAgeSeconds;
            }
            this.nextTokenAgeSeconds = 0;
          },
        },
      },
      ttl: Object.fromEntries(ARTIFACTS.map((name) => [name, TOKEN_SECONDS])),
    });
    this.#provider.proxy = true;
    this.#provider.registerGrantType(
      TOKEN_EXCHANGE,
      (context: ExchangeContext) => this.#exchange(context),
      EXCHANGE_PARAMETERS,
    );
    const answer = this.#provider.callback();
    const { host, protocol } = new URL(this.issuer);
    server.on("request", (request, response) => {
      if (this.nextTokens !== undefined && request.url === "/token") {
        response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(this.nextTokens));
        this.nextTokens = undefined;
        return;
      }
      // What the proxy of a deployed server adds.
      Object.assign(request.headers, { "x-forwarded-host": host, "x-forwarded-proto": protocol.slice(0, -1) });
      const answered = SIGN_IN.test(request.url ?? "") ? this.#signIn(request, response) : answer(request, response);
      answered.catch((error: unknown) => response.writeHead(500).end(String(error)));
    });
  }

  static async start(settings: ProviderSettings): Promise<OAuthProvider> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new OAuthProvider(server, settings);
  }

  get jwksUri(): string {
    return `${this.address}/jwks`;
  }

  /** Sends a request for the issuer to the server, as DNS and a TLS proxy do. */
  fetch(url: URL, init?: RequestInit): Promise<Response> {
    return fetch(`${this.address}${url.pathname}${url.search}`, init);
  }

  /**
   * Opens an authorization request in a new browser, where the account signs in and grants the scopes that it may grant. Returns
   * the address of the client to which the browser is sent in the end, with the code or the error.
   */
  async authorize(request: URL, account: string): Promise<URL> {
    const cookies = new Map<string, string>();
    let next = new URL(request);
    next.searchParams.set("login_hint", account);
    while (next.origin === this.issuer) {
      const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
      const response = await this.fetch(next, { redirect: "manual", headers: { cookie } });
      for (const set of response.headers.getSetCookie()) {
        const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(set) ?? [];
        cookies.set(name, value);
      }
      const location = response.headers.get("location");
      if (location === null) throw new Error(`${next.pathname}: ${response.status} ${await response.text()}`);
      next = new URL(location, next);
    }
    return next;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** Gives a client a token for another resource, for the subject of an access token of this server, with at most its scopes. */
  async #exchange(context: ExchangeContext): Promise<void> {
    const { client, params } = context.oidc;
    const { subject_token: given = "", resource = "" } = params;
    const { payload } = await jwtVerify(given, this.key.publicKey, { issuer: this.issuer, typ: "at+jwt" }).catch(() => {
      throw new errors.InvalidGrant("subject_token is not an access token of this server");
    });
    const server = resourceServer(resource, this.#resources[resource]);
    const held = String(payload["scope"] ?? "").split(" ");
    const requested = params.scope?.split(" ") ?? held;
    const { AccessToken, ResourceServer } = this.#provider;
    const token = new AccessToken({ accountId: String(payload.sub), client, grantId: "", gty: "token_exchange" });
    token.resourceServer = new ResourceServer(resource, server);
    token.scope = requested
      .filter((scope) => held.includes(scope) && server.scope.split(" ").includes(scope))
      .join(" ");
    const issued = "urn:ietf:params:oauth:token-type:access_token";
    const answer = { token_type: "Bearer", expires_in: TOKEN_SECONDS, scope: token.scope, issued_token_type: issued };
    context.body = { access_token: await token.save(), ...answer };
  }

  /** The pages on which a person signs in and grants scopes, without the person. */
  async #signIn(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { prompt, params, session, grantId } = await this.#provider.interactionDetails(request, response);
    const finish = (result: InteractionResults) =>
      this.#provider.interactionFinished(request, response, result, { mergeWithLastSubmission: true });
    if (prompt.name === "login") return finish({ login: { accountId: String(params["login_hint"]) } });
    const accountId = session?.accountId ?? "";
    const { Grant } = this.#provider;
    const known = grantId === undefined ? undefined : await Grant.find(grantId);
    const grant = known ?? new Grant({ accountId, clientId: String(params["client_id"]) });
    const { missingOIDCScope = [], missingResourceScopes = {} } = prompt.details as {
      readonly missingOIDCScope?: readonly string[];
      readonly missingResourceScopes?: Readonly<Record<string, readonly string[]>>;
    };
    grant.addOIDCScope(missingOIDCScope.join(" "));
    const mayGrant = this.accounts.get(accountId) ?? [];
    for (const [resource, requested] of Object.entries(missingResourceScopes)) {
      grant.addResourceScope(resource, requested.filter((scope) => mayGrant.includes(scope)).join(" "));
      grant.rejectResourceScope(resource, requested.filter((scope) => !mayGrant.includes(scope)).join(" "));
    }
    return finish({ consent: { grantId: await grant.save() } });
  }
}

function resourceServer(resource: string, scopes: readonly string[] | undefined): ResourceServer {
  if (scopes === undefined) throw new errors.InvalidTarget();
  return {
    scope: scopes.join(" "),
    audience: resource,
    accessTokenFormat: "jwt",
    accessTokenTTL: TOKEN_SECONDS,
    jwt: { sign: { alg: "ES256" } },
  };
}
