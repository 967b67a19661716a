import { sha256Hex } from "../core/digest.ts";
import { errorText } from "../core/error-text.ts";
import { Refusal } from "../core/errors.ts";
import { isTable } from "../core/json.ts";
import { BOUNDED_TEXT_LIMITS, parseAnswerJson } from "../core/strict-json.ts";
import { visible } from "../core/terminal-text.ts";
import { unlessAborted } from "../core/time-limits.ts";
import type { RunContext } from "../core/types.ts";
import { readUserAndPassword, SECRET_CHARACTERS_MAX } from "../core/user-and-password.ts";
import type { EgressClient } from "./client.ts";
import { EgressError } from "./request.ts";
import { UNAVAILABLE } from "./resilience.ts";

type CredentialHeader = Readonly<Record<string, string>>;

/** The caller whose own credentials may be needed. */
export type CredentialOwner = Pick<RunContext, "caller" | "callerToken">;

/** A use of credentials: a call, or a request of the service itself, which has no caller. */
export type CredentialUse = Pick<RunContext, "signal"> & Partial<CredentialOwner>;

/** Adds the proxy's own credentials to requests. They are never part of a plan. */
export interface Credentials {
  /** Returns the header with the current credentials. @throws {Refusal} when they cannot be obtained; nothing was sent */
  header(call: CredentialUse): Promise<CredentialHeader>;
  /** Replaces credentials that the service has refused. Returns whether there are others now. */
  renew(refused: CredentialHeader, call: CredentialUse): Promise<boolean>;
  /**
   * Returns the key of what may be shared by requests with these credentials. Undefined when all callers use the same ones.
   * @throws {Refusal} when the caller has no token to exchange
   */
  readonly keyOf?: ((owner: CredentialOwner) => string) | undefined;
  /** Drops credentials that were obtained for callers: one of them may have been revoked. */
  forgetCallers?(): void;
}

/** Returns whether a text can be a token or a password in a header. */
function isSecret(value: string): boolean {
  return value.length <= SECRET_CHARACTERS_MAX && /^[\x21-\x7e]+$/.test(value);
}

/** Reads a secret from a file's text. @throws {Error} that does not quote it */
export function readSecret(bytes: Buffer): string {
  const secret = bytes.toString("utf8").trim();
  if (!isSecret(secret)) throw new Error("must hold one line of visible ASCII");
  return secret;
}

/** Reads `user:password` as the value of a header for basic authentication. @throws {Error} */
export function readBasic(text: Buffer): string {
  const { username, password } = readUserAndPassword(text);
  return `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
}

/** Credentials in a file, which is read again at every request: a mounted secret may change at any time. */
export function fileCredentials(name: string, read: () => string): Credentials {
  return {
    async header() {
      try {
        return { [name]: read() };
      } catch (error) {
        throw unavailable("the file with the credentials cannot be read", error);
      }
    },
    async renew(refused) {
      try {
        return read() !== refused[name];
      } catch {
        return false;
      }
    },
  };
}

export interface TokenEndpoint {
  readonly url: URL;
  readonly clientId: string;
  readonly readSecret: () => string;
  /** `post` sends the secret in the body instead of a header. */
  readonly clientAuthentication: "basic" | "post";
  readonly scope?: string | undefined;
  readonly audience?: string | undefined;
  readonly resource?: string | undefined;
  readonly timeoutMs: number;
}

interface Token {
  readonly value: string;
  /** Time from which on a new token is fetched before use, and the time of expiry. Milliseconds of the given clock. */
  readonly renewAtMs: number;
  readonly expiresAtMs: number;
}

const ANSWER_BYTES_MAX = 65_536;
/** Lifetime of a token whose answer does not say it. */
const LIFETIME_DEFAULT_SECONDS = 60;
const LIFETIME_MAX_SECONDS = 86_400;
/** A token is renewed after this part of its lifetime. */
const RENEW_AFTER = 0.8;
/** Minimum time between two tokens that replace refused ones: a service may refuse every token. */
const RENEWAL_COOLDOWN_MS = 2_000;

/** A token request: the form to send, and how long and for whom the token is kept. */
interface Grant {
  /** Identifies the token in the cache. */
  readonly key: string;
  readonly form: Readonly<Record<string, string>>;
  /** Time after which the token must not be used, whatever its own lifetime. */
  readonly expiresAtMs: number;
}

/** Returns the token request for a call. @throws {Refusal} */
export type GrantOf = (call: CredentialUse) => Grant;

/** Key of the token that belongs to no caller. */
const OWN_KEY = "";

/** OAuth client credentials (RFC 6749, 4.4): one token for all callers. */
export const clientCredentialsGrant: GrantOf = () => ({
  key: OWN_KEY,
  form: { grant_type: "client_credentials" },
  expiresAtMs: Number.POSITIVE_INFINITY,
});

/**
 * Token exchange (RFC 8693): a token for each caller, for the caller's own token and no longer valid than it. The service's own
 * requests get a token of the client.
 */
export const tokenExchangeGrant: GrantOf = ({ signal, caller, callerToken }) => {
  if (caller === undefined) return clientCredentialsGrant({ signal });
  const token = callerToken?.();
  if (token === undefined) {
    throw new Refusal("TARGET_FAILED", "The service needs the caller's own token, and this caller has none.", {
      details: { status: "UNAUTHENTICATED" },
    });
  }
  return {
    key: JSON.stringify([caller.issuer, caller.subject, caller.actors, sha256Hex(token)]),
    form: {
      grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
      subject_token: token,
      subject_token_type: "urn:ietf:params:oauth:token-type:access_token",
    },
    expiresAtMs: caller.expiresAt * 1_000,
  };
};

interface Held {
  token: Token | undefined;
  /** One request at a time, shared by all waiting calls. */
  pending: Promise<Token> | undefined;
  renewedAtMs: number;
}

const NEVER = new AbortController().signal;

/** Maximum callers whose tokens are kept; the one that was unused for the longest time is dropped first. */
const TOKENS_MAX = 10_000;

/** Tokens of an OAuth server: cached, fetched once for all waiting calls, and renewed before they expire. */
export class OAuthTokens implements Credentials {
  readonly keyOf: Credentials["keyOf"];
  readonly #endpoint: TokenEndpoint;
  readonly #grantOf: GrantOf;
  readonly #client: EgressClient;
  readonly #now: () => number;
  readonly #held = new Map<string, Held>();

  constructor(
    endpoint: TokenEndpoint,
    parts: { readonly grantOf: GrantOf; readonly client: EgressClient; readonly now: () => number },
  ) {
    this.#endpoint = endpoint;
    this.#grantOf = parts.grantOf;
    this.#client = parts.client;
    this.#now = parts.now;
    const isPerCaller = parts.grantOf === tokenExchangeGrant;
    this.keyOf = isPerCaller ? (owner) => this.#grantOf({ ...owner, signal: NEVER }).key : undefined;
  }

  forgetCallers(): void {
    for (const key of [...this.#held.keys()]) if (key !== OWN_KEY) this.#held.delete(key);
  }

  async header(call: CredentialUse): Promise<CredentialHeader> {
    const grant = this.#grantOf(call);
    const { value } = await this.#current(this.#entry(grant.key), grant, call.signal);
    return { authorization: `Bearer ${value}` };
  }

  async renew({ authorization }: CredentialHeader, call: CredentialUse): Promise<boolean> {
    const held = this.#entry(this.#grantOf(call).key);
    const isCurrent = held.token !== undefined && `Bearer ${held.token.value}` === authorization;
    if (isCurrent && Math.abs(this.#now() - held.renewedAtMs) < RENEWAL_COOLDOWN_MS) return false;
    if (isCurrent) {
      held.token = undefined;
      held.renewedAtMs = this.#now();
    }
    return (await this.header(call))["authorization"] !== authorization;
  }

  #entry(key: string): Held {
    const held = this.#held.get(key) ?? {
      token: undefined,
      pending: undefined,
      renewedAtMs: Number.NEGATIVE_INFINITY,
    };
    this.#held.delete(key);
    this.#held.set(key, held);
    const [oldest] = this.#held.keys();
    if (this.#held.size > TOKENS_MAX && oldest !== undefined) this.#held.delete(oldest);
    return held;
  }

  async #current(held: Held, grant: Grant, signal: AbortSignal): Promise<Token> {
    const { token } = held;
    const nowMs = this.#now();
    if (token !== undefined && nowMs < token.renewAtMs) return token;
    held.pending ??= this.#request(held, grant).finally(() => {
      held.pending = undefined;
    });
    // A token that is still valid is used while another is fetched.
    if (token !== undefined && nowMs < token.expiresAtMs) {
      held.pending.catch(() => {});
      return token;
    }
    const aborted = () => new EgressError("aborted", "the request was aborted", { sent: false, cause: signal.reason });
    return unlessAborted(held.pending, signal, aborted);
  }

  async #request(held: Held, { form: granted, expiresAtMs }: Grant): Promise<Token> {
    const { url, clientId, clientAuthentication, scope, audience, resource, timeoutMs } = this.#endpoint;
    const secret = this.#secret();
    const form = new URLSearchParams(granted);
    for (const [name, value] of Object.entries({ scope, audience, resource })) {
      if (value !== undefined) form.set(name, value);
    }
    if (clientAuthentication === "post") {
      form.set("client_id", clientId);
      form.set("client_secret", secret);
    }
    const sent = [secret, granted["subject_token"] ?? secret];
    const pair = `${formEncoded(clientId)}:${formEncoded(secret)}`;
    try {
      const { status, body } = await this.#client.send({
        method: "POST",
        url,
        body: form.toString(),
        timeoutMs,
        bodyBytesMax: ANSWER_BYTES_MAX,
        isRepeatable: false,
        headers: {
          accept: "application/json",
          "content-type": "application/x-www-form-urlencoded",
          ...(clientAuthentication === "basic" && { authorization: `Basic ${Buffer.from(pair).toString("base64")}` }),
        },
      });
      if (status !== 200) throw refusedToken(status, body, sent);
      const token = tokenIn(body, this.#now(), expiresAtMs);
      if (sent.includes(token.value)) throw returnedToken();
      held.token = token;
      return token;
    } catch (error) {
      throw error instanceof Refusal ? error : unavailable("no token could be obtained", error);
    }
  }

  #secret(): string {
    try {
      return this.#endpoint.readSecret();
    } catch (error) {
      throw unavailable("the file with the client's secret cannot be read", error);
    }
  }
}

/** Reads a token endpoint's answer. @throws {Error} that does not quote it */
function tokenIn(body: Buffer, nowMs: number, untilMs: number): Token {
  const answer = jsonIn(body);
  if (answer === undefined) throw new Error("the token endpoint's answer is not JSON");
  const { access_token: value, token_type: type, expires_in: lifetime } = isTable(answer) ? answer : {};
  if (typeof value !== "string" || !isSecret(value)) {
    throw new Error("the token endpoint's answer holds no token");
  }
  if (typeof type !== "string" || type.toLowerCase() !== "bearer") throw new Error("the token is not a bearer token");
  const given = typeof lifetime === "string" ? Number(lifetime) : lifetime;
  // A token whose answer says that it has expired is used by the calls that wait for it, and not kept.
  const seconds = typeof given === "number" && !Number.isNaN(given) ? Math.max(given, 0) : LIFETIME_DEFAULT_SECONDS;
  const lifetimeMs = Math.min(Math.min(seconds, LIFETIME_MAX_SECONDS) * 1_000, untilMs - nowMs);
  return { value, renewAtMs: nowMs + lifetimeMs * RENEW_AFTER, expiresAtMs: nowMs + lifetimeMs };
}

const OAUTH_ERROR = /^[a-z][a-z0-9_.-]{0,63}$/;
const DESCRIPTION_CHARACTERS_MAX = 256;
/** A run of characters that may be a token. */
const TOKEN_LIKE = /[\w.~+/=-]{24,}/g;

/**
 * Returns the error for a status other than 200. With an error code of OAuth, the endpoint works and has refused the client or the
 * caller's token: the same request would be refused again.
 */
function refusedToken(status: number, body: Buffer, secrets: readonly string[]): Error {
  const answer = isClientError(status) ? jsonIn(body) : undefined;
  const { error: code, error_description: text } = isTable(answer) ? answer : {};
  if (typeof code !== "string" || !OAUTH_ERROR.test(code)) {
    return new Error(`the token endpoint answered with status ${status}`);
  }
  const isSafe = typeof text === "string" && !secrets.some((secret) => text.includes(secret));
  const described = isSafe ? visible(text.slice(0, DESCRIPTION_CHARACTERS_MAX).replace(TOKEN_LIKE, "…")) : "";
  return new Refusal("TARGET_FAILED", "The service's authorization server gave no token for this call.", {
    details: { status: "UNAUTHENTICATED" },
    cause: {
      hint: "nothing was sent: the token endpoint refused",
      because: `${code} (status ${status})${described === "" ? "" : `: ${described}`}`,
    },
  });
}

/** The caller's own token is valid here, and the client's secret at the token endpoint: no service gets them. */
function returnedToken(): Refusal {
  return new Refusal("TARGET_FAILED", "The service's authorization server gave no token for this call.", {
    details: { status: "UNAUTHENTICATED" },
    cause: {
      hint: "nothing was sent: the token endpoint returned what it was sent",
      because: "access_token is the caller's own token or the client's secret",
    },
  });
}

function isClientError(status: number): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 429;
}

/** Returns undefined for bytes that are not JSON. */
function jsonIn(body: Buffer): unknown {
  try {
    return parseAnswerJson(new TextDecoder("utf-8", { fatal: true }).decode(body), BOUNDED_TEXT_LIMITS);
  } catch {
    return undefined;
  }
}

/** Encodes as RFC 6749, 2.3.1 requires before base64. */
function formEncoded(text: string): string {
  return new URLSearchParams([["", text]]).toString().slice(1);
}

function unavailable(because: string, error: unknown): Refusal {
  return new Refusal("TARGET_UNAVAILABLE", UNAVAILABLE, {
    details: { status: "UNAVAILABLE" },
    cause: { hint: `nothing was sent: ${because}`, because: errorText(error) },
  });
}
