import { gunzipSync } from "node:zlib";
import type { CryptoKey } from "jose";
import { type IssuerKeys, type KeySet, remoteKeySet, type WantedKey } from "./issuer-keys.ts";
import type { FetchCredentials } from "./issuer-profile.ts";
import { authUnavailable } from "./refusal.ts";

/** A key withdrawn at the URL stops working within this time. */
const KEYS_FRESH_MS = 300_000;
/** They are fetched anew from then on, while nobody has to wait for it. */
const KEYS_RENEW_MS = 240_000;
/** Between fetches that an unknown `kid` or an outage asks for, while keys are known. */
const REFETCH_COOLDOWN_MS = 30_000;
/** Between attempts while no key is known. */
const FIRST_KEYS_RETRY_MS = 2_000;
/** How long an outage may last before the last known keys are given up. */
const KEYS_STALE_MAX_MS = 86_400_000;
const BODY_BYTES_MAX = 1_048_576;

export type Fetch = (url: string, init: BunFetchRequestInit) => Promise<Response>;

/** What a URL published, and when it was fetched in milliseconds since 1970. */
export interface FetchedKeys {
  readonly set: KeySet;
  readonly atMs: number;
}

export interface RemoteKeysOptions {
  readonly uri: string;
  /** What was fetched from the same URL before: the first use fetches anew, and these count when that fails. */
  readonly known?: FetchedKeys | undefined;
  readonly credentials?: FetchCredentials | undefined;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** The platform's own by default. */
  readonly fetch: Fetch | undefined;
  readonly timeoutMs: number;
  /** Called when a fetch brought other keys than the one before. */
  readonly onChange: () => void;
}

/**
 * The keys behind a JWKS URL. jose's own createRemoteJWKSet was not taken: it reads the wall clock, does not bound
 * the answer, and gives known keys up when the URL fails after ten minutes.
 */
export class RemoteKeys implements IssuerKeys {
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

  get uri(): string {
    return this.#options.uri;
  }

  /** For whoever takes its place. */
  fetched(): FetchedKeys | undefined {
    return this.#set && { set: this.#set, atMs: this.#fetchedAtMs };
  }

  async candidates(wanted: WantedKey): Promise<readonly CryptoKey[]> {
    if (this.#isDue(this.#refreshIntervalMs())) {
      const refreshing = this.#refresh();
      // Known keys count while they are fresh, and in an outage: nobody has to wait for a server that may be hanging.
      const isOld = this.#failure === undefined && this.#isDue(KEYS_FRESH_MS);
      if (isOld || !this.#isKnown()) await refreshing;
    }
    const known = await this.#knownKeys().select(wanted);
    if (known.length > 0) return known;
    if (this.#isDue(REFETCH_COOLDOWN_MS)) await this.#refresh();
    const found = await this.#knownKeys().select(wanted);
    // While the URL fails nobody can say whether the key is wrong or only new.
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

  /** A clock that was set back makes a fetch due: else the keys would never age until it has caught up. */
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

  /** One fetch at a time, shared by all who wait. Never throws: the outcome is in the fields. */
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
      const set = remoteKeySet(await fetchJson(this.#options));
      hasChanged = before !== undefined && JSON.stringify(before.keys) !== JSON.stringify(set.keys);
      this.#set = set;
      this.#fetchedAtMs = this.#options.clock();
      this.#failure = undefined;
    } catch (cause) {
      this.#failure = new Error(`JWKS fetch failed: ${placeOf(this.#options.uri)}`, { cause });
    }
    this.#attemptedAtMs = this.#options.clock();
    if (hasChanged) this.#options.onChange();
  }
}

/** For operators who have several issuers; without what may be a secret in it. */
function placeOf(uri: string): string {
  const { origin, pathname } = new URL(uri);
  return `${origin}${pathname}`;
}

async function fetchJson(options: RemoteKeysOptions): Promise<unknown> {
  const fetchUrl = options.fetch ?? fetch;
  const { ca, token } = options.credentials?.() ?? {};
  const accept = "application/jwk-set+json, application/json";
  const response = await fetchUrl(options.uri, {
    headers: {
      accept,
      "accept-encoding": "identity",
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    },
    // A small answer may inflate to gigabytes, before anybody counts them.
    decompress: false,
    // A pooled connection would be minutes old, and dead.
    keepalive: false,
    redirect: "manual",
    signal: AbortSignal.timeout(options.timeoutMs),
    // Said outright: a variable of the environment could switch it off.
    tls: { rejectUnauthorized: true, ...(ca !== undefined && { ca }) },
  });
  if (response.status !== 200) {
    await response.body?.cancel();
    throw new Error(`the JWKS URL answered with status ${response.status}`);
  }
  const read = await readBounded(response);
  const isPacked = response.headers.get("content-encoding")?.toLowerCase() === "gzip";
  const bytes = isPacked ? gunzipSync(read, { maxOutputLength: BODY_BYTES_MAX }) : read;
  return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
}

async function readBounded(response: Response): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    length += chunk.byteLength;
    // Leaving the loop cancels the body.
    if (length > BODY_BYTES_MAX) throw new Error(`the JWKS URL answered with more than ${BODY_BYTES_MAX} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
