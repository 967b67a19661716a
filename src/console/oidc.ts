import { createHash, timingSafeEqual } from "node:crypto";
import {
  type AuthorizationServer,
  allowInsecureRequests,
  authorizationCodeGrantRequest,
  type Client,
  type ClientAuth,
  ClientSecretBasic,
  ClientSecretPost,
  type CustomFetchOptions,
  calculatePKCECodeChallenge,
  customFetch,
  discoveryRequest,
  None,
  processAuthorizationCodeResponse,
  processDiscoveryResponse,
  processRefreshTokenResponse,
  ResponseBodyError,
  refreshTokenGrantRequest,
  revocationRequest,
  type TokenEndpointResponse,
  validateAuthResponse,
} from "oauth4webapi";
import { Refusal } from "../core/errors.ts";
import { isLoopback } from "../core/network.ts";
import type { CallerContext, EpochMs } from "../core/types.ts";
import { OPERATED_ADDRESSES } from "../egress/addresses.ts";
import { EgressClient } from "../egress/client.ts";
import { EgressError } from "../egress/request.ts";
import { newSecret, seal, unseal } from "./sealing.ts";
import type { SessionRows } from "./session-rows.ts";
import { hashOf, type OperatorToken, type Refreshing, RotatedToken } from "./sessions.ts";
import type { SharedSecret } from "./shared-secret.ts";

export interface OidcSettings {
  readonly issuer: string;
  readonly clientId: string;
  readonly scopes: readonly string[];
  readonly resource?: string | undefined;
  readonly audience?: string | undefined;
  /** Returns the client's secret; undefined for a public client. Throws when it cannot be read. */
  readonly clientSecret: () => string | undefined;
  /** Root certificates that the provider's must come from (PEM); undefined: the system's. */
  readonly rootCert: Buffer | undefined;
}

interface OidcOptions {
  readonly settings: OidcSettings;
  readonly clock: () => EpochMs;
  /** Verifies an access token for the operators' endpoints. Rejects with a `Refusal`. */
  readonly verify: (token: string) => Promise<CallerContext>;
  /** The rows in which replicas agree on the transactions that were used. */
  readonly rows: SessionRows;
  /** Encrypts transactions for all replicas. */
  readonly secret: SharedSecret;
}

const TRANSACTION_MS = 300_000;
const TRANSACTION_USE = "sign-in";

const METADATA_FRESH_MS = 600_000;
/** Minimum time between attempts to read the provider's metadata. */
const METADATA_RETRY_MS = 2_000;
const TIMEOUT_MS = 10_000;
const ANSWER_BYTES_MAX = 1_048_576;
const RETRY_AFTER_MS = 5_000;
/** One sign-in at the provider, from the request to the answer. Its cookie holds it, encrypted. */
interface Transaction {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  readonly redirectUri: string;
  readonly untilMs: EpochMs;
}

/** Parameters with which the provider returns to the console's page. */
export interface AuthorizationAnswer {
  readonly code: string;
  readonly state: string;
  readonly iss?: string | undefined;
}

/**
 * Sign-in at an OpenID provider: the authorization code with PKCE. The person is judged by the access token; of the ID token, only
 * the nonce and the standard claims are checked.
 */
export class OidcSignIn implements Refreshing {
  readonly #options: OidcOptions;
  readonly #client: Client;
  readonly #egress: EgressClient;
  #server: { readonly metadata: Promise<AuthorizationServer>; readonly atMs: EpochMs } | undefined;
  #failedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: OidcOptions) {
    const { clientId, rootCert } = options.settings;
    this.#options = options;
    this.#client = { client_id: clientId };
    this.#egress = new EgressClient({ addresses: OPERATED_ADDRESSES, tls: rootCert && { rootCert } });
  }

  /** Returns the URL of the provider to which the browser goes, and the value of the transaction's cookie. */
  async begin(redirectUri: string): Promise<{ readonly url: string; readonly transaction: string }> {
    const { settings, clock } = this.#options;
    const { authorization_endpoint: endpoint = "" } = await this.#metadata();
    const url = URL.parse(endpoint);
    if (url === null || !isTrusted(url))
      throw unavailable(new Error("the metadata has no usable authorization_endpoint"));
    const [state, nonce, verifier] = [newSecret(), newSecret(), newSecret()];
    const parameters = {
      response_type: "code",
      client_id: settings.clientId,
      redirect_uri: redirectUri,
      scope: settings.scopes.join(" "),
      state,
      nonce,
      code_challenge: await calculatePKCECodeChallenge(verifier),
      code_challenge_method: "S256",
      ...this.#target(),
    };
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
    const untilMs = clock() + TRANSACTION_MS;
    const transaction = JSON.stringify({ state, nonce, verifier, redirectUri, untilMs } satisfies Transaction);
    const key = await this.#shared(this.#options.secret.keyFor(TRANSACTION_USE));
    return { url: url.href, transaction: seal(key, transaction) };
  }

  /** Returns the person's token. The transaction is the cookie's value; it can be used once. Rejects with a `Refusal`. */
  async finish(answer: AuthorizationAnswer, cookie: string | undefined): Promise<OperatorToken> {
    const { nonce, verifier, redirectUri } = await this.#use(answer, cookie);
    const metadata = await this.#metadata();
    const { code, state, iss } = answer;
    const answered = await this.#askedForTokens(async () => {
      const parameters = new URLSearchParams({ code, state, ...(iss !== undefined && { iss }) });
      const validated = validateAuthResponse(metadata, this.#client, parameters, state);
      const auth = this.#authentication(metadata);
      const response = await authorizationCodeGrantRequest(
        ...([metadata, this.#client, auth, validated, redirectUri, verifier] as const),
        { ...this.#requests(), additionalParameters: this.#target() },
      );
      const expected = { expectedNonce: nonce, requireIdToken: true };
      return processAuthorizationCodeResponse(metadata, this.#client, response, expected);
    });
    return this.#tokenIn(answered, undefined);
  }

  /** Rejects with UNAUTHENTICATED unless this browser began the sign-in, in time, and has not finished it at any replica. */
  async #use({ state }: AuthorizationAnswer, cookie: string | undefined): Promise<Transaction> {
    const { rows, secret, clock } = this.#options;
    const opening = cookie && secret.tried(TRANSACTION_USE, (key) => unseal(key, cookie));
    const opened = opening ? await this.#shared(opening) : undefined;
    if (opened === undefined) throw beginAgain("the sign-in has no valid transaction");
    const transaction = JSON.parse(opened) as Transaction;
    if (!isSame(transaction.state, state)) throw beginAgain("the state is that of another sign-in");
    if (clock() >= transaction.untilMs) throw beginAgain("the transaction has expired");
    const isFirst = await this.#shared(rows.useSignIn(hashOf(state), transaction.untilMs));
    if (!isFirst) throw beginAgain("the transaction was used before");
    return transaction;
  }

  async #shared<T>(result: Promise<T>): Promise<T> {
    return result.catch((cause: unknown) => {
      throw unavailable(cause);
    });
  }

  async renew(refreshToken: string): Promise<OperatorToken> {
    const metadata = await this.#metadata();
    const auth = this.#authentication(metadata);
    const parameters = { ...this.#requests(), additionalParameters: this.#target() };
    const answered = await this.#askedForTokens(async () => {
      const response = await refreshTokenGrantRequest(metadata, this.#client, auth, refreshToken, parameters);
      return processRefreshTokenResponse(metadata, this.#client, response);
    });
    return this.#tokenIn(answered, refreshToken).catch((cause: unknown) => {
      // Providers accept a refresh token once: without the next one, the session could not go on.
      throw answered.refresh_token === undefined ? cause : new RotatedToken(answered.refresh_token, cause);
    });
  }

  /** Verifies the access token of an answer. Providers may keep a refresh token instead of replacing it. */
  async #tokenIn(
    { access_token: token, refresh_token: next }: TokenEndpointResponse,
    previous: string | undefined,
  ): Promise<OperatorToken> {
    return { token, caller: await this.#options.verify(token), refreshToken: next ?? previous };
  }

  /** Revokes the refresh token at the provider (RFC 7009), if the provider supports it. */
  async revoke(refreshToken: string): Promise<void> {
    const metadata = await this.#metadata();
    if (metadata.revocation_endpoint === undefined) return;
    await revocationRequest(...([metadata, this.#client, this.#authentication(metadata), refreshToken] as const), {
      ...this.#requests(),
    });
  }

  /** The parameters that name the audience of the access token. */
  #target(): Record<string, string> {
    const { resource, audience } = this.#options.settings;
    return { ...(resource !== undefined && { resource }), ...(audience !== undefined && { audience }) };
  }

  #authentication({ token_endpoint_auth_methods_supported: methods }: AuthorizationServer): ClientAuth {
    const secret = this.#options.settings.clientSecret();
    if (secret === undefined) return None();
    const isPost = methods?.includes("client_secret_post") === true && !methods.includes("client_secret_basic");
    return isPost ? ClientSecretPost(secret) : ClientSecretBasic(secret);
  }

  /** Returns the provider's metadata, read again from time to time. */
  #metadata(): Promise<AuthorizationServer> {
    const now = this.#options.clock();
    if (this.#server !== undefined && Math.abs(now - this.#server.atMs) < METADATA_FRESH_MS)
      return this.#server.metadata;
    // In both directions: the clock may be set back.
    if (Math.abs(now - this.#failedAtMs) < METADATA_RETRY_MS) {
      return Promise.reject(unavailable(new Error("the provider's metadata could not be read just now")));
    }
    const metadata = this.#asked(async () => {
      const issuer = new URL(this.#options.settings.issuer);
      return processDiscoveryResponse(issuer, await discoveryRequest(issuer, this.#requests()));
    });
    const server = { metadata, atMs: now };
    this.#server = server;
    metadata.catch(() => {
      if (this.#server === server) this.#server = undefined;
      this.#failedAtMs = this.#options.clock();
    });
    return metadata;
  }

  /** As `#asked`. The log gets the provider's error, and nothing else of its answer. */
  #askedForTokens<T>(ask: () => Promise<T>): Promise<T> {
    return this.#asked(() => ask().catch(withoutAnswer));
  }

  /** Returns the answer of the provider. Rejects with a `Refusal` that says nothing about the cause. */
  async #asked<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await ask();
    } catch (cause) {
      const isUnreachable = cause instanceof EgressError || cause instanceof ProviderError;
      throw isUnreachable ? unavailable(cause) : beginAgain("the provider's answer is not acceptable", cause);
    }
  }

  #requests() {
    return {
      [allowInsecureRequests]: this.#options.settings.issuer.startsWith("http:"),
      [customFetch]: (url: string, options: CustomFetchOptions<string, URLSearchParams | undefined>) =>
        this.#send(new URL(url), options),
    };
  }

  async #send(
    url: URL,
    { method, headers, body }: CustomFetchOptions<string, URLSearchParams | undefined>,
  ): Promise<Response> {
    if (!isTrusted(url)) throw new Error("the provider's metadata names an endpoint without TLS");
    const answer = await this.#egress.send({
      method,
      url,
      headers,
      body: body?.toString(),
      timeoutMs: TIMEOUT_MS,
      bodyBytesMax: ANSWER_BYTES_MAX,
      isRepeatable: method === "GET",
    });
    if (answer.status >= 500 || answer.status === 429) throw new ProviderError(answer.status);
    const type = answer.headers["content-type"];
    const hasBody = answer.status !== 204 && answer.status !== 304;
    return new Response(hasBody ? answer.body : null, {
      status: answer.status,
      headers: type === undefined ? {} : { "content-type": type },
    });
  }
}

/** The library attaches the answer, with tokens or a person's claims, to the error about one of its members. */
function withoutAnswer(error: unknown): never {
  if (error instanceof Error && !(error instanceof ResponseBodyError) && !(error.cause instanceof Error)) {
    error.cause = undefined;
  }
  throw error;
}

class ProviderError extends Error {
  override readonly name = "ProviderError";
  readonly status: number;

  constructor(status: number) {
    super(`the provider answered ${status}`);
    this.status = status;
  }
}

function isTrusted({ protocol, hostname }: URL): boolean {
  return protocol === "https:" || (protocol === "http:" && isLoopback(hostname));
}

function isSame(one: string, other: string): boolean {
  const [first, second] = [one, other].map((text) => createHash("sha256").update(text).digest());
  return first !== undefined && second !== undefined && timingSafeEqual(first, second);
}

function beginAgain(reason: string, cause?: unknown): Refusal {
  return new Refusal(
    "UNAUTHENTICATED",
    "The sign-in was not begun in this browser, has expired, or was not accepted by the OpenID provider: begin again.",
    { cause: cause === undefined ? new Error(reason) : new Error(reason, { cause }) },
  );
}

function unavailable(cause: unknown): Refusal {
  return new Refusal("AUTH_UNAVAILABLE", "The OpenID provider cannot be reached at the moment: try again.", {
    retryAfterMs: RETRY_AFTER_MS,
    cause,
  });
}
