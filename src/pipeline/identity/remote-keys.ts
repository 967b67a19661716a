import type { CryptoKey } from "jose";
import { errorText } from "../../core/error-text.ts";
import { isLoopback } from "../../core/network.ts";
import { BOUNDED_TEXT_LIMITS, parseStrictJson } from "../../core/strict-json.ts";
import { OPERATED_ADDRESSES } from "../../egress/addresses.ts";
import { EgressClient } from "../../egress/client.ts";
import { EgressError, egressReason } from "../../egress/request.ts";
import {
  type FetchedKeys,
  fitProblem,
  type IssuerKeys,
  type KeyContext,
  type KeySet,
  type KeySource,
  remoteKeySet,
  type WantedKey,
} from "./issuer-keys.ts";
import { authUnavailable } from "./refusal.ts";

/** A key that is withdrawn at the URL stops working within this time. */
const KEYS_FRESH_MS = 300_000;
/** From this age on, the keys are fetched again in the background while the known keys are still valid. */
const KEYS_RENEW_MS = 240_000;
/** Minimum time between fetches for an unknown `kid` or during an outage, while keys are known. */
const REFETCH_COOLDOWN_MS = 30_000;
/** Minimum time between attempts while no key is known. */
const FIRST_KEYS_RETRY_MS = 2_000;
/** How long an outage may last before the last known keys are discarded. */
const KEYS_STALE_MAX_MS = 86_400_000;
const BODY_BYTES_MAX = 1_048_576;

/**
 * Returns the credentials that the key server requires, read again for every fetch.
 * @throws {Error} when they cannot be read
 */
export type FetchCredentials = () => { readonly ca?: string | undefined; readonly token?: string | undefined };

interface RemoteKeysOptions extends Omit<KeyContext, "algorithms" | "known"> {
  readonly uri: string;
  /** Keys fetched from the same URL before: the first use fetches again, and these keys are used when that fails. */
  readonly known: FetchedKeys | undefined;
  readonly credentials: FetchCredentials | undefined;
}

export function jwksUrl(uri: string, credentials?: FetchCredentials): KeySource {
  return {
    open(context) {
      const problem = uriProblem(uri);
      return problem === undefined
        ? new RemoteKeys({ ...context, uri, credentials, known: context.known(uri) })
        : [problem];
    },
    async probe({ algorithms, timeoutMs }) {
      try {
        const { value, servedAtMs } = await fetchJson({ uri, credentials, timeoutMs });
        const problem = fitProblem(remoteKeySet(value).keys, algorithms);
        if (problem !== undefined) throw new Error(problem);
        return servedAtMs;
      } catch (cause) {
        const reason = cause instanceof EgressError ? egressReason(cause) : errorText(cause);
        throw new Error(`the keys of ${addressOf(uri)} cannot be used: ${reason}`, { cause });
      }
    },
  };
}

/** Returns why keys must not be fetched from the URL. */
export function uriProblem(uri: string): string | undefined {
  const url = URL.parse(uri);
  if (url === null) return "must be a URL that begins with https://";
  if (url.username !== "" || url.password !== "") return "must not hold a user name or a password";
  // An attacker who can answer a plain http request for the issuer can make us trust any key.
  const isSafe = url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url.hostname));
  return isSafe ? undefined : "must be https: keys over plain http can be replaced on the way";
}

/**
 * The keys at a JWKS URL. Rejected: jose's createRemoteJWKSet, which reads the wall clock, does not bound the response, and
 * discards known keys when the URL fails after ten minutes.
 */
class RemoteKeys implements IssuerKeys {
  readonly #options: RemoteKeysOptions;
  #set: KeySet | undefined;
  #fetchedAtMs = Number.NEGATIVE_INFINITY;
  #attemptedAtMs = Number.NEGATIVE_INFINITY;
  #failure: Error | undefined;
  #pending: Promise<void> | undefined;

  constructor(options: RemoteKeysOptions) {
    this.#options = options;
    this.#set = options.known?.set;
    this.#fetchedAtMs = options.known?.atMs ?? Number.NEGATIVE_INFINITY;
  }

  fetched(uri: string): FetchedKeys | undefined {
    return uri === this.#options.uri && this.#set ? { set: this.#set, atMs: this.#fetchedAtMs } : undefined;
  }

  async candidates(wanted: WantedKey): Promise<readonly CryptoKey[]> {
    if (this.#isDue(this.#refreshIntervalMs())) {
      const refreshing = this.#refresh();
      // Known keys are used while they are fresh and during an outage: no call waits for a server that may hang.
      const isOld = this.#failure === undefined && this.#isDue(KEYS_FRESH_MS);
      if (isOld || !this.#isKnown()) await refreshing;
    }
    const known = await this.#knownKeys().select(wanted);
    if (known.length > 0) return known;
    if (this.#isDue(REFETCH_COOLDOWN_MS)) await this.#refresh();
    const found = await this.#knownKeys().select(wanted);
    // While the URL fails, it is unknown whether the key is wrong or just new.
    if (found.length === 0 && this.#failure !== undefined) throw this.#unavailable();
    return found;
  }

  freshUntilMs(): number {
    const isRenewing = this.#pending !== undefined && this.#failure === undefined;
    return this.#attemptedAtMs + (isRenewing ? KEYS_FRESH_MS : this.#refreshIntervalMs());
  }

  #refreshIntervalMs(): number {
    if (this.#failure === undefined) return KEYS_RENEW_MS;
    return this.#set === undefined ? FIRST_KEYS_RETRY_MS : REFETCH_COOLDOWN_MS;
  }

  /**
   * Returns whether the interval has passed. A clock that was set back makes a fetch due: otherwise the keys would not age until
   * the clock has caught up.
   */
  #isDue(intervalMs: number): boolean {
    const ageMs = this.#options.clock() - this.#attemptedAtMs;
    return ageMs < 0 || ageMs >= intervalMs;
  }

  #isKnown(): boolean {
    return this.#set !== undefined && this.#options.clock() - this.#fetchedAtMs <= KEYS_STALE_MAX_MS;
  }

  #knownKeys(): KeySet {
    if (this.#set === undefined || !this.#isKnown()) throw this.#unavailable();
    return this.#set;
  }

  #unavailable() {
    const waitMs = this.freshUntilMs() - this.#options.clock();
    const retryAfterMs = Math.min(Math.max(waitMs, 1), REFETCH_COOLDOWN_MS);
    return authUnavailable("the issuer's keys could not be fetched", retryAfterMs, this.#failure);
  }

  /** Runs one fetch at a time, shared by all waiting calls. Never throws: the result is in the fields. */
  async #refresh(): Promise<void> {
    this.#pending ??= this.#load().finally(() => {
      this.#pending = undefined;
    });
    await this.#pending;
  }

  async #load(): Promise<void> {
    const before = this.#set;
    let hasChanged = false;
    try {
      const set = remoteKeySet((await fetchJson(this.#options)).value);
      hasChanged = before !== undefined && JSON.stringify(before.keys) !== JSON.stringify(set.keys);
      this.#set = set;
      this.#fetchedAtMs = this.#options.clock();
      this.#failure = undefined;
    } catch (cause) {
      this.#failure = new Error(`JWKS fetch failed: ${addressOf(this.#options.uri)}`, { cause });
    }
    this.#attemptedAtMs = this.#options.clock();
    if (hasChanged) this.#options.onChange();
  }
}

/** Returns the URL without parts that may be secret, so that operators can tell issuers apart. */
function addressOf(uri: string): string {
  const { origin, pathname } = new URL(uri);
  return `${origin}${pathname}`;
}

type Fetched = Pick<RemoteKeysOptions, "uri" | "credentials" | "timeoutMs">;

async function fetchJson({ uri, credentials, timeoutMs }: Fetched) {
  const { ca, token } = credentials?.() ?? {};
  // A kept connection would be minutes old and closed.
  const client = new EgressClient({
    addresses: OPERATED_ADDRESSES,
    keepsConnections: false,
    ...(ca !== undefined && { tls: { rootCert: Buffer.from(ca) } }),
  });
  const { status, headers, body } = await client.send({
    method: "GET",
    url: new URL(uri),
    timeoutMs,
    bodyBytesMax: BODY_BYTES_MAX,
    headers: {
      accept: "application/jwk-set+json, application/json",
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    },
    isRepeatable: true,
    acceptsUnboundedBody: true,
  });
  if (status !== 200) throw new Error(`the JWKS URL answered with status ${status}`);
  const value = parseStrictJson(new TextDecoder("utf-8", { fatal: true }).decode(body), BOUNDED_TEXT_LIMITS);
  const servedAtMs = Date.parse(headers.date ?? "");
  return { value, servedAtMs: Number.isNaN(servedAtMs) ? undefined : servedAtMs };
}
