import { compactVerify } from "jose";
import { StartupError } from "../core/errors.ts";
import { mint, type Verified } from "../core/evidence.ts";
import type { Caller } from "../core/types.ts";
import {
  assertBound,
  type CertificateCaller,
  CertificateCallers,
  type ClientCertificate,
  certificateCallerProblems,
} from "./identity/binding.ts";
import { digestOf, digestsOf, TokenCache } from "./identity/cache.ts";
import { type ClaimRules, readBinding, readCaller, readOrigin } from "./identity/claims.ts";
import { type IssuerKeys, staticKeys } from "./identity/issuer-keys.ts";
import { type IssuerProfile, profileProblems } from "./identity/issuer-profile.ts";
import { PROFILE_RULES } from "./identity/profiles.ts";
import { assertTokenLength, bearerToken, type ReadToken, readToken } from "./identity/reader.ts";
import { authUnavailable, unauthenticated } from "./identity/refusal.ts";
import { type Fetch, type FetchedKeys, RemoteKeys } from "./identity/remote-keys.ts";
import { type Credential, credentialOf, type RevocationList } from "./identity/revocations.ts";

const DEFAULT_PERMISSIONS_CLAIM = "permissions";
const DEFAULT_CACHE_ENTRIES_MAX = 10_000;
const DEFAULT_KEYS_TIMEOUT_MS = 5_000;
/** The longest that a token is believed without looking at the keys again. */
const REVERIFY_AFTER_MS = 300_000;
const VERIFICATIONS_IN_FLIGHT_MAX = 10_000;
const OVERLOAD_RETRY_MS = 1_000;

/** Agents call tools; operators decide, query and configure. A token is good at one of the two. */
export type Audience = "agents" | "operators";

export interface CallerContextOptions {
  readonly issuers: readonly IssuerProfile[];
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  readonly cacheEntriesMax?: number;
  readonly fetch?: Fetch;
  /** For one fetch of a JWKS URL, body included. */
  readonly keysTimeoutMs?: number;
  /** Called with the issuer whose JWKS URL brought other keys. */
  readonly onKeysChanged?: (issuer: string) => void;
  /** What is revoked at the moment; asked at every call, cached tokens included. */
  readonly revocations?: (() => RevocationList) | undefined;
  /** Callers who show a certificate and no token. */
  readonly certificateCallers?: readonly CertificateCaller[] | undefined;
  /** Whose place this one takes: the keys it fetched count until they are fetched anew, which a server that is down delays. */
  readonly former?: Pick<CallerContext, "fetchedKeys"> | undefined;
}

/** Tells who calls, from the token and nothing else. Every no is a Refusal: UNAUTHENTICATED or AUTH_UNAVAILABLE. */
export interface CallerContext {
  /** Takes the raw `Authorization` header, and what the connection's client has proved to hold. */
  verify(
    authorization: string | undefined,
    door: Audience,
    certificate?: ClientCertificate | undefined,
  ): Promise<Verified>;
  /** The same at once, for a token that was verified before and is still remembered; undefined for any other. */
  recall(
    authorization: string | undefined,
    door: Audience,
    certificate?: ClientCertificate | undefined,
  ): Verified | undefined;
  /** Takes the bare token. */
  verifyToken(token: string, door: Audience, certificate?: ClientCertificate | undefined): Promise<Verified>;
  /** Whether this header's token was verified before and is still remembered: then looking at it again costs nothing. */
  knows(authorization: string | undefined): boolean;
  /** Whether a person whom an integration speaks for, without a token, could be an operator now: of an issuer of theirs, and not revoked. */
  assertOperator(person: Pick<Caller, "issuer" | "subject">): void;
  /** Takes other issuers from now on and forgets every token. On a StartupError the old ones stay. */
  reload(issuers: readonly IssuerProfile[]): void;
  /** Forgets every verified token; the next sight of each is a full verification. */
  clear(): void;
  /** What of an issuer's keys was fetched from this URL. */
  fetchedKeys(issuer: string, uri: string): FetchedKeys | undefined;
}

interface Issuer extends ClaimRules {
  readonly operators: boolean;
  readonly algorithms: readonly string[];
  readonly keys: IssuerKeys;
}

/** What was found out about one token, good from `fromMs` to before `untilMs`. */
interface Finding {
  readonly verified: Verified;
  readonly credential: Credential;
  /** The certificate without which the token is no good. */
  readonly boundTo: string | undefined;
  readonly operators: boolean;
  readonly fromMs: number;
  readonly untilMs: number;
}

/** Throws a StartupError that names each field to mend. */
export function createCallerContext(options: CallerContextOptions): CallerContext {
  return new TokenVerifier(options);
}

class TokenVerifier implements CallerContext {
  readonly #options: CallerContextOptions;
  readonly #cache: TokenCache<Finding>;
  readonly #certificateCallers: CertificateCallers;
  #inFlight = new Map<string, Promise<Finding>>();
  #issuers: ReadonlyMap<string, Issuer>;
  /** Counts how often everything was forgotten: a verification begun before must not fill the cache after. */
  #epoch = 0;

  constructor(options: CallerContextOptions) {
    this.#options = options;
    this.#cache = new TokenCache(options.cacheEntriesMax ?? DEFAULT_CACHE_ENTRIES_MAX);
    this.#certificateCallers = new CertificateCallers(options.certificateCallers ?? []);
    this.#issuers = this.#join(options.issuers, options.former);
  }

  async verify(
    authorization: string | undefined,
    door: Audience,
    certificate?: ClientCertificate | undefined,
  ): Promise<Verified> {
    const known = authorization === undefined && certificate !== undefined && door === "agents";
    return (
      (known ? this.#verifyCertificate(certificate) : undefined) ??
      this.verifyToken(bearerToken(authorization), door, certificate)
    );
  }

  async verifyToken(token: string, door: Audience, certificate?: ClientCertificate | undefined): Promise<Verified> {
    assertTokenLength(token);
    const digest = digestOf(token);
    return this.#admit(this.#recall(digest) ?? (await this.#verifyOnce(token, digest)), door, certificate);
  }

  recall(authorization: string | undefined, door: Audience, certificate?: ClientCertificate | undefined) {
    const finding = this.#find(authorization);
    return finding && this.#admit(finding, door, certificate);
  }

  knows(authorization: string | undefined): boolean {
    return this.#find(authorization) !== undefined;
  }

  assertOperator({ issuer, subject }: Pick<Caller, "issuer" | "subject">): void {
    if (this.#issuers.get(issuer)?.operators !== true) {
      throw unauthenticated("notMeant", "the person's issuer is not for the operators' door");
    }
    const issuedAtMs = this.#options.clock();
    const caller = { issuer, subject, actors: [], permissions: [], expiresAt: issuedAtMs / 1_000 };
    const credential = credentialOf(caller, { digests: [], jti: undefined, issuedAtMs });
    this.#options.revocations?.().assertGood(credential);
  }

  reload(issuers: readonly IssuerProfile[]): void {
    this.#issuers = this.#join(issuers, this);
    this.clear();
  }

  fetchedKeys(issuer: string, uri: string): FetchedKeys | undefined {
    const keys = this.#issuers.get(issuer)?.keys;
    return keys instanceof RemoteKeys && keys.uri === uri ? keys.fetched() : undefined;
  }

  clear(): void {
    this.#epoch += 1;
    this.#cache.clear();
    this.#inFlight = new Map();
  }

  /** The caller whom the configuration knows by this certificate; undefined where it knows none. */
  #verifyCertificate(certificate: ClientCertificate): Verified | undefined {
    const caller = this.#certificateCallers.find(certificate, this.#options.clock());
    if (caller === undefined) return undefined;
    const origin = { digests: [], jti: undefined, issuedAtMs: certificate.notBeforeMs };
    this.#options.revocations?.().assertGood(credentialOf(caller, origin));
    return mint<Verified>({ caller });
  }

  /** @throws {Refusal} UNAUTHENTICATED for a token that is genuine, but not for this door or client, or revoked */
  #admit(finding: Finding, door: Audience, certificate: ClientCertificate | undefined): Verified {
    if (finding.boundTo !== undefined) assertBound(finding.boundTo, certificate, this.#options.clock());
    this.#options.revocations?.().assertGood(finding.credential);
    // Last: where both doors are tried, whoever is refused for something else hears of that.
    if (finding.operators !== (door === "operators")) {
      throw unauthenticated("notMeant", `the token's issuer is not for the ${door}' door`);
    }
    return finding.verified;
  }

  #find(authorization: string | undefined): Finding | undefined {
    if (authorization === undefined) return undefined;
    try {
      const token = bearerToken(authorization);
      assertTokenLength(token);
      return this.#recall(digestOf(token));
    } catch {
      return undefined;
    }
  }

  #recall(digest: string): Finding | undefined {
    const finding = this.#cache.get(digest);
    if (finding === undefined) return undefined;
    const nowMs = this.#options.clock();
    if (nowMs >= finding.fromMs && nowMs < finding.untilMs) return finding;
    this.#cache.delete(digest);
    return undefined;
  }

  /** All who bring the same new token at once wait for one verification. */
  #verifyOnce(token: string, digest: string): Promise<Finding> {
    const inFlight = this.#inFlight;
    const running = inFlight.get(digest);
    if (running !== undefined) return running;
    if (inFlight.size >= VERIFICATIONS_IN_FLIGHT_MAX) {
      throw authUnavailable("too many tokens are being verified", OVERLOAD_RETRY_MS);
    }
    const verification = this.#verifyFully(token, digest).finally(() => inFlight.delete(digest));
    inFlight.set(digest, verification);
    return verification;
  }

  async #verifyFully(token: string, digest: string): Promise<Finding> {
    const epoch = this.#epoch;
    const read = readToken(token);
    const issuer = this.#issuerOf(read);
    const keys = await issuer.keys.candidates(read);
    await assertSigned(token, keys, issuer.algorithms);
    const nowMs = this.#options.clock();
    const caller = readCaller(read, issuer, nowMs / 1000);
    const untilMs = Math.min(caller.expiresAt * 1000, nowMs + REVERIFY_AFTER_MS, issuer.keys.freshUntilMs());
    const finding: Finding = {
      verified: mint<Verified>({ caller }),
      credential: credentialOf(caller, { digests: digestsOf(token, read.alg), ...readOrigin(read) }),
      boundTo: readBinding(read),
      operators: issuer.operators,
      fromMs: nowMs,
      untilMs,
    };
    if (epoch === this.#epoch && nowMs < untilMs) this.#cache.set(digest, finding);
    return finding;
  }

  /** The unverified `iss` selects whose rules to apply, and does nothing else. */
  #issuerOf(token: ReadToken): Issuer {
    const iss = token.claims.get("iss");
    const issuer = typeof iss === "string" ? this.#issuers.get(iss) : undefined;
    if (issuer === undefined) throw unauthenticated("notMeant", "iss: missing or not a configured issuer");
    if (!issuer.algorithms.includes(token.alg)) throw unauthenticated("invalid", "header: alg is not allowed");
    return issuer;
  }

  #join(profiles: readonly IssuerProfile[], former: CallerContextOptions["former"]): ReadonlyMap<string, Issuer> {
    const problems = [
      ...profileProblems(profiles),
      ...certificateCallerProblems(this.#options.certificateCallers ?? []),
    ];
    const issuers = new Map<string, Issuer>();
    for (const [index, profile] of profiles.entries()) {
      const keys = this.#keysOf(profile, former);
      if ("candidates" in keys) issuers.set(profile.issuer, joinIssuer(profile, keys));
      else problems.push(...keys.map((fault) => `jwt.issuers[${index}].keys: ${fault}`));
    }
    if (problems.length > 0) throw new StartupError(problems);
    return issuers;
  }

  #keysOf(profile: IssuerProfile, former: CallerContextOptions["former"]): IssuerKeys | readonly string[] {
    if (profile.keys.kind !== "jwksUri") return staticKeys(profile.keys, profile.algorithms);
    return new RemoteKeys({
      uri: profile.keys.uri,
      known: former?.fetchedKeys(profile.issuer, profile.keys.uri),
      credentials: profile.keys.credentials,
      clock: this.#options.clock,
      fetch: this.#options.fetch,
      timeoutMs: this.#options.keysTimeoutMs ?? DEFAULT_KEYS_TIMEOUT_MS,
      onChange: () => {
        this.clear();
        this.#options.onKeysChanged?.(profile.issuer);
      },
    });
  }
}

function joinIssuer(profile: IssuerProfile, keys: IssuerKeys): Issuer {
  const kind = profile.profile ?? "generic";
  return {
    issuer: profile.issuer,
    audience: profile.audience,
    algorithms: [...profile.algorithms],
    operators: profile.operators,
    profile: kind,
    typ: profile.typ,
    permissionsClaim: profile.permissionsClaim ?? DEFAULT_PERMISSIONS_CLAIM,
    subjectPermissions: profile.subjectPermissions && new Map(Object.entries(profile.subjectPermissions)),
    maxLifetimeSeconds: profile.maxLifetimeSeconds ?? PROFILE_RULES[kind].maxLifetimeSeconds,
    keys,
  };
}

type SigningKeys = Awaited<ReturnType<IssuerKeys["candidates"]>>;

/** Passes when one of the keys verifies the signature. @throws {Refusal} UNAUTHENTICATED */
async function assertSigned(token: string, keys: SigningKeys, algorithms: readonly string[]): Promise<void> {
  let cause: unknown = new Error("no key of the issuer fits the token's kid and alg");
  for (const key of keys) {
    try {
      await compactVerify(token, key, { algorithms: [...algorithms] });
      return;
    } catch (error) {
      cause = error;
    }
  }
  throw unauthenticated("invalid", "signature: not verified", cause);
}
