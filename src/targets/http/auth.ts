import { Refusal } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import { type EgressClient, EgressError } from "../../egress/client.ts";
import { UNAVAILABLE } from "../../egress/resilience.ts";

type CredentialHeader = Readonly<Record<string, string>>;

/** Adds the proxy's own credentials to requests. They are never part of a plan. */
export interface Credentials {
  /** Returns the header with the current credentials. @throws {Refusal} when they cannot be obtained; nothing was sent */
  header(signal: AbortSignal): Promise<CredentialHeader>;
  /** Replaces credentials that the service has refused. Returns whether there are others now. */
  renew(refused: CredentialHeader, signal: AbortSignal): Promise<boolean>;
}

const SECRET_CHARACTERS_MAX = 16_384;
const SECRET = /^[\x21-\x7e]+$/;

/** Reads a secret from a file's text. @throws {Error} that does not quote it */
export function readSecret(text: Buffer): string {
  const secret = text.toString("utf8").trim();
  if (secret.length > SECRET_CHARACTERS_MAX || !SECRET.test(secret))
    throw new Error("must hold one line of visible ASCII");
  return secret;
}

/** Reads `user:password` as the value of a header for basic authentication. @throws {Error} */
export function readBasic(text: Buffer): string {
  const pair = text.toString("utf8").replace(/\r?\n$/, "");
  const isSound = /^[^:\p{Cc}]+:\P{Cc}+$/u.test(pair) && pair.length <= SECRET_CHARACTERS_MAX;
  if (!isSound) throw new Error("must hold one line, user:password");
  return `Basic ${Buffer.from(pair).toString("base64")}`;
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

/** Tokens of OAuth client credentials (RFC 6749, 4.4): cached, fetched once for all waiting calls, and renewed before they expire. */
export class ClientCredentials implements Credentials {
  readonly #endpoint: TokenEndpoint;
  readonly #client: EgressClient;
  readonly #now: () => number;
  #token: Token | undefined;
  #pending: Promise<Token> | undefined;
  #renewedAtMs = Number.NEGATIVE_INFINITY;

  constructor(endpoint: TokenEndpoint, client: EgressClient, now: () => number) {
    this.#endpoint = endpoint;
    this.#client = client;
    this.#now = now;
  }

  async header(signal: AbortSignal): Promise<CredentialHeader> {
    const { value } = await this.#current(signal);
    return { authorization: `Bearer ${value}` };
  }

  async renew({ authorization }: CredentialHeader, signal: AbortSignal): Promise<boolean> {
    const isCurrent = this.#token !== undefined && `Bearer ${this.#token.value}` === authorization;
    if (isCurrent && Math.abs(this.#now() - this.#renewedAtMs) < RENEWAL_COOLDOWN_MS) return false;
    if (isCurrent) {
      this.#token = undefined;
      this.#renewedAtMs = this.#now();
    }
    return (await this.header(signal))["authorization"] !== authorization;
  }

  async #current(signal: AbortSignal): Promise<Token> {
    const token = this.#token;
    const nowMs = this.#now();
    if (token !== undefined && nowMs < token.renewAtMs) return token;
    const fetching = this.#obtain();
    // A token that is still valid is used while another is fetched.
    if (token !== undefined && nowMs < token.expiresAtMs) {
      fetching.catch(() => {});
      return token;
    }
    return endedBy(fetching, signal);
  }

  /** Runs one request at a time, shared by all waiting calls. */
  #obtain(): Promise<Token> {
    this.#pending ??= this.#request().finally(() => {
      this.#pending = undefined;
    });
    return this.#pending;
  }

  async #request(): Promise<Token> {
    const { url, clientId, clientAuthentication, scope, audience, resource, timeoutMs } = this.#endpoint;
    const secret = this.#secret();
    const form = new URLSearchParams({ grant_type: "client_credentials" });
    for (const [name, value] of Object.entries({ scope, audience, resource })) {
      if (value !== undefined) form.set(name, value);
    }
    if (clientAuthentication === "post") {
      form.set("client_id", clientId);
      form.set("client_secret", secret);
    }
    const pair = `${formEncoded(clientId)}:${formEncoded(secret)}`;
    try {
      const { status, body } = await this.#client.send({
        ...{
          method: "POST",
          url,
          body: form.toString(),
          timeoutMs,
          bodyBytesMax: ANSWER_BYTES_MAX,
          isRepeatable: false,
        },
        headers: {
          accept: "application/json",
          "content-type": "application/x-www-form-urlencoded",
          ...(clientAuthentication === "basic" && { authorization: `Basic ${Buffer.from(pair).toString("base64")}` }),
        },
      });
      if (status !== 200) throw new Error(`the token endpoint answered with status ${status}`);
      this.#token = tokenIn(body, this.#now());
      return this.#token;
    } catch (error) {
      throw unavailable("no token could be obtained", error);
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
function tokenIn(body: Buffer, nowMs: number): Token {
  const answer = jsonIn(body);
  const { access_token: value, token_type: type, expires_in: lifetime } = isTable(answer) ? answer : {};
  if (typeof value !== "string" || value.length > SECRET_CHARACTERS_MAX || !SECRET.test(value)) {
    throw new Error("the token endpoint's answer holds no token");
  }
  if (typeof type !== "string" || type.toLowerCase() !== "bearer") throw new Error("the token is not a bearer token");
  const given = typeof lifetime === "string" ? Number(lifetime) : lifetime;
  const seconds = typeof given === "number" && given > 0 ? given : LIFETIME_DEFAULT_SECONDS;
  const lifetimeMs = Math.min(seconds, LIFETIME_MAX_SECONDS) * 1_000;
  return { value, renewAtMs: nowMs + lifetimeMs * RENEW_AFTER, expiresAtMs: nowMs + lifetimeMs };
}

function jsonIn(body: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    throw new Error("the token endpoint's answer is not JSON");
  }
}

/** Encodes as RFC 6749, 2.3.1 requires before base64. */
function formEncoded(text: string): string {
  return new URLSearchParams([["", text]]).toString().slice(1);
}

function endedBy<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void =>
      reject(new EgressError("aborted", "the request was aborted", { sent: false, cause: signal.reason }));
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

function unavailable(because: string, error: unknown): Refusal {
  const reason = error instanceof Error ? error.message : "";
  return new Refusal("TARGET_UNAVAILABLE", UNAVAILABLE, {
    details: { status: "UNAVAILABLE" },
    cause: { hint: `nothing was sent: ${because}`, because: reason },
  });
}
