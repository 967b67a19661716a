import { compactVerify } from "jose";
import { StartupError } from "../core/errors.ts";
import { mint, type Verified } from "../core/evidence.ts";
import type { CallerContext } from "../core/types.ts";
import {
  assertBound,
  type CertificateCaller,
  CertificateCallers,
  type ClientCertificate,
  certificateCallerProblems,
} from "./identity/binding.ts";
import { digestOf, digestsOf, TokenCache } from "./identity/cache.ts";
import {
  CLOCK_TOLERANCE_SECONDS_DEFAULT,
  type ClaimRules,
  readBinding,
  readCaller,
  readOrigin,
  subjectProblem,
} from "./identity/claims.ts";
import type { FetchedKeys, IssuerKeys } from "./identity/issuer-keys.ts";
import { type IssuerProfile, profileProblems, REVIEW_FRESH_MS, selectedBy } from "./identity/issuer-profile.ts";
import { PROFILE_RULES } from "./identity/profiles.ts";
import { assertTokenLength, bearerToken, type ReadToken, readToken } from "./identity/reader.ts";
import { authUnavailable, unauthenticated } from "./identity/refusal.ts";
import { type Credential, credentialOf, type RevocationList } from "./identity/revocations.ts";
import type { RoleBindings } from "./identity/roles.ts";
import { speaksFor } from "./identity/tenant-claim.ts";
import type { Presented, TenantChoice } from "./identity/tenants.ts";

const DEFAULT_PERMISSIONS_CLAIM = "permissions";
const DEFAULT_CACHE_ENTRIES_MAX = 10_000;
const DEFAULT_KEYS_TIMEOUT_MS = 5_000;
/** Longest time that a token is accepted from the cache before its signature is checked again. */
const REVERIFY_AFTER_MS = 300_000;
const VERIFICATIONS_IN_FLIGHT_MAX = 10_000;
const OVERLOAD_RETRY_MS = 1_000;

/** Agents call tools; operators decide, query and configure. A token is valid for one of the two. */
export type Audience = "agents" | "operators";

export interface CallerVerifierOptions {
  readonly issuers: readonly IssuerProfile[];
  /** The tenant whose callers are identified, and nobody else; undefined: the service itself, which has no tenant's callers. */
  readonly tenant?: string | undefined;
  /**
   * Returns the choice by the issuers that the service uses now: a tenant whose reload was refused still has former ones. A caller who
   * can no longer belong to this tenant is refused. Undefined without tenants.
   */
  readonly choice?: (() => TenantChoice) | undefined;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  readonly cacheEntriesMax?: number;
  /** Body included. */
  readonly keysTimeoutMs?: number;
  /** Called with the issuer whose JWKS URL delivered changed keys. */
  readonly onKeysChanged?: (issuer: string) => void;
  /** Returns the current revocations. Read at every call, for cached tokens too. */
  readonly revocations?: (() => RevocationList) | undefined;
  readonly certificateCallers?: readonly CertificateCaller[] | undefined;
  /** The roles that the configuration binds to callers; undefined when there are none. */
  readonly bindings?: RoleBindings | undefined;
  /**
   * The caller verifier that this one replaces: the keys it fetched stay valid until they are fetched again, because the server
   * may be down.
   */
  readonly former?: Pick<CallerVerifier, "fetchedKeys"> | undefined;
}

/**
 * Identifies the caller by token or client certificate and nothing else. Every failure is a Refusal: UNAUTHENTICATED or
 * AUTH_UNAVAILABLE.
 */
export interface CallerVerifier {
  /** Verifies the raw `Authorization` header and the certificate whose key the connection's client has proved to hold. */
  verify(
    authorization: string | undefined,
    audience: Audience,
    certificate?: ClientCertificate | undefined,
  ): Promise<Verified>;
  /** Returns the same as `verify`, synchronously, for a token that is still in the cache; undefined for any other. */
  recall(
    authorization: string | undefined,
    audience: Audience,
    certificate?: ClientCertificate | undefined,
  ): Verified | undefined;
  verifyToken(token: string, audience: Audience, certificate?: ClientCertificate | undefined): Promise<Verified>;
  /** Returns whether the header's token is in the cache: then checking it again costs nothing. */
  knows(authorization: string | undefined): boolean;
  /**
   * Checks that a person for whom an integration acts without a token could be an operator now: the issuer is an operators'
   * issuer, and the person is not revoked.
   */
  assertOperator(person: Pick<CallerContext, "issuer" | "subject">): void;
  /**
   * Returns an agent as the configuration alone knows it, for questions about a caller whose token is not at hand: with the
   * permissions from the tables and from roles bound to the subject. Without an issuer, the only agents' issuer is meant.
   *
   * @throws {Refusal} UNAUTHENTICATED when no token could identify such a caller, or the subject is revoked
   */
  configuredAgent(agent: { readonly issuer?: string | undefined; readonly subject: string }): CallerContext;
  /** Replaces the issuers and clears the token cache. On a StartupError the old issuers stay. */
  reload(issuers: readonly IssuerProfile[]): void;
  /** The next use of each token is verified in full. */
  clear(): void;
  fetchedKeys(issuer: string, uri: string): FetchedKeys | undefined;
}

interface Issuer extends ClaimRules {
  readonly algorithms: readonly string[];
  readonly keys: IssuerKeys;
  readonly review: IssuerProfile["review"];
}

/** The result of verifying one token, valid from `fromMs` (inclusive) to `untilMs` (exclusive). */
interface CheckedToken {
  readonly verified: Verified;
  readonly credential: Credential;
  /** Thumbprint of the certificate without which the token is invalid. */
  readonly boundTo: string | undefined;
  readonly operators: boolean;
  /** The choice by which the token named the tenant. After a reload there is another one, and the token is verified again. */
  readonly choice: TenantChoice | undefined;
  readonly fromMs: number;
  readonly untilMs: number;
}

/** @throws {StartupError} naming each field to fix */
export function createCallerVerifier(options: CallerVerifierOptions): CallerVerifier {
  return new TokenVerifier(options);
}

class TokenVerifier implements CallerVerifier {
  readonly #options: CallerVerifierOptions;
  readonly #cache: TokenCache<CheckedToken>;
  readonly #certificateCallers: CertificateCallers;
  #inFlight = new Map<string, Promise<CheckedToken>>();
  /** By name: one for agents, one for operators, or both. */
  #issuers: ReadonlyMap<string, readonly Issuer[]>;
  /** Counts how often the cache was cleared: a verification that started earlier must not fill the cache afterwards. */
  #epoch = 0;

  constructor(options: CallerVerifierOptions) {
    this.#options = options;
    this.#cache = new TokenCache(options.cacheEntriesMax ?? DEFAULT_CACHE_ENTRIES_MAX);
    const { certificateCallers = [], tenant } = options;
    this.#certificateCallers = new CertificateCallers(certificateCallers.filter((caller) => caller.tenant === tenant));
    this.#issuers = this.#openIssuers(options.issuers, options.former);
  }

  async verify(
    authorization: string | undefined,
    audience: Audience,
    certificate?: ClientCertificate | undefined,
  ): Promise<Verified> {
    const known = authorization === undefined && certificate !== undefined && audience === "agents";
    return (
      (known ? this.#verifyCertificate(certificate) : undefined) ??
      this.verifyToken(bearerToken(authorization), audience, certificate)
    );
  }

  async verifyToken(token: string, audience: Audience, certificate?: ClientCertificate | undefined): Promise<Verified> {
    assertTokenLength(token);
    const digest = digestOf(token);
    return this.#admit(this.#recall(digest) ?? (await this.#verifyOnce(token, digest)), audience, certificate);
  }

  recall(authorization: string | undefined, audience: Audience, certificate?: ClientCertificate | undefined) {
    const checked = this.#findCached(authorization);
    return checked && this.#admit(checked, audience, certificate);
  }

  knows(authorization: string | undefined): boolean {
    return this.#findCached(authorization) !== undefined;
  }

  assertOperator({ issuer, subject }: Pick<CallerContext, "issuer" | "subject">): void {
    if (this.#issuers.get(issuer)?.some((one) => one.operators && this.#isKnown(one)) !== true) {
      throw unauthenticated("wrongAudience", "the person's issuer is not for operators");
    }
    const issuedAtMs = this.#options.clock();
    const caller = { issuer, subject, actors: [], permissions: [], expiresAt: issuedAtMs / 1_000 };
    const credential = credentialOf(caller, { digests: [], jti: undefined, issuedAtMs });
    this.#options.revocations?.().assertNotRevoked(credential);
  }

  configuredAgent({
    issuer,
    subject,
  }: {
    readonly issuer?: string | undefined;
    readonly subject: string;
  }): CallerContext {
    const nowMs = this.#options.clock();
    const agents = [...this.#issuers.values()].flat().filter((one) => !one.operators && this.#isKnown(one));
    const name = issuer ?? (agents.length === 1 ? agents[0]?.issuer : undefined);
    const known = agents.find((one) => one.issuer === name);
    const certified = this.#certificateCallers.permissionsOf({ issuer: name, subject });
    if (name === undefined || (known === undefined && certified === undefined)) {
      throw unauthenticated("wrongAudience", "the subject's issuer is missing or is not an agents' issuer");
    }
    const problem = subjectProblem(subject);
    if (problem !== undefined) throw unauthenticated("invalid", `subject: ${problem}`);
    const permissions = [...(known?.subjectPermissions?.get(subject) ?? []), ...(certified ?? [])];
    const { tenant } = this.#options;
    const agent = {
      issuer: name,
      subject,
      permissions,
      actors: [],
      session: undefined,
      expiresAt: nowMs / 1_000,
      ...(tenant !== undefined && { tenant }),
    };
    const credential = credentialOf(agent, { digests: [], jti: undefined, issuedAtMs: nowMs });
    this.#options.revocations?.().assertNotRevoked(credential);
    return this.#withRoles(agent, AGENT_WITHOUT_TOKEN, nowMs).caller;
  }

  reload(issuers: readonly IssuerProfile[]): void {
    this.#issuers = this.#openIssuers(issuers, this);
    this.clear();
  }

  fetchedKeys(issuer: string, uri: string): FetchedKeys | undefined {
    const fetched = this.#issuers.get(issuer)?.map(({ keys }) => keys.fetched?.(uri));
    return fetched?.find((keys) => keys !== undefined);
  }

  clear(): void {
    this.#epoch += 1;
    this.#cache.clear();
    this.#inFlight = new Map();
  }

  /** Returns whether callers here can have tokens of the issuer. */
  #isFor(issuer: Pick<IssuerProfile, "tenants">): boolean {
    return speaksFor(issuer, this.#options.tenant);
  }

  /** Returns `#isFor` for a caller without a token at hand, who must also belong to the tenant by the issuers in use now. */
  #isKnown(issuer: Issuer): boolean {
    return this.#isFor(issuer) && this.#options.choice?.().hasIssuer(issuer, this.#options.tenant) !== false;
  }

  #verifyCertificate(certificate: ClientCertificate): Verified | undefined {
    const nowMs = this.#options.clock();
    const caller = this.#certificateCallers.find(certificate, nowMs);
    if (caller === undefined) return undefined;
    this.#assertNamedBy(this.#options.choice?.(), { certificate });
    const origin = { digests: [], jti: undefined, issuedAtMs: certificate.notBeforeMs };
    this.#options.revocations?.().assertNotRevoked(credentialOf(caller, origin));
    return mint<Verified>({ caller: this.#withRoles(caller, AGENT_WITHOUT_TOKEN, nowMs).caller });
  }

  #withRoles(caller: CallerContext, holder: Parameters<RoleBindings["withRoles"]>[1], nowMs: number) {
    const { bindings } = this.#options;
    return bindings?.withRoles(caller, holder, nowMs) ?? { caller, untilMs: Number.POSITIVE_INFINITY };
  }

  /** @throws {Refusal} UNAUTHENTICATED for a genuine token that is for another audience or client, or is revoked */
  #admit(checked: CheckedToken, audience: Audience, certificate: ClientCertificate | undefined): Verified {
    if (checked.boundTo !== undefined) assertBound(checked.boundTo, certificate, this.#options.clock());
    this.#options.revocations?.().assertNotRevoked(checked.credential);
    // This comes last: when both audiences are tried, a token that fails another check gets that error.
    if (checked.operators !== (audience === "operators")) {
      throw unauthenticated("wrongAudience", `the token's issuer is not for ${audience}`);
    }
    return checked.verified;
  }

  #findCached(authorization: string | undefined): CheckedToken | undefined {
    if (authorization === undefined) return undefined;
    try {
      const token = bearerToken(authorization);
      assertTokenLength(token);
      return this.#recall(digestOf(token));
    } catch {
      return undefined;
    }
  }

  #recall(digest: string): CheckedToken | undefined {
    const checked = this.#cache.get(digest);
    if (checked === undefined) return undefined;
    const nowMs = this.#options.clock();
    const isFresh = nowMs >= checked.fromMs && nowMs < checked.untilMs;
    if (isFresh && checked.choice === this.#options.choice?.()) return checked;
    this.#cache.delete(digest);
    return undefined;
  }

  /** Verifies a token once for all concurrent calls that present it. */
  #verifyOnce(token: string, digest: string): Promise<CheckedToken> {
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

  async #verifyFully(token: string, digest: string): Promise<CheckedToken> {
    const epoch = this.#epoch;
    const choice = this.#options.choice?.();
    const read = readToken(token);
    const issuer = this.#issuerOf(read);
    const keys = await issuer.keys.candidates(read);
    await assertSigned(token, keys, issuer.algorithms);
    const nowMs = this.#options.clock();
    const { caller, untilMs: rolesUntilMs } = this.#withRoles(
      readCaller(read, issuer, nowMs / 1000),
      { claims: read.claims, operators: issuer.operators },
      nowMs,
    );
    this.#assertNamedBy(choice, { authorization: `Bearer ${token}` });
    if (issuer.review !== undefined) {
      await issuer.review(token, caller.subject);
      // It may have expired meanwhile.
      readCaller(read, issuer, this.#options.clock() / 1000);
    }
    const expiresAtMs = caller.expiresAt * 1000;
    const freshMs = issuer.review === undefined ? REVERIFY_AFTER_MS : REVIEW_FRESH_MS;
    const untilMs = Math.min(expiresAtMs, nowMs + freshMs, issuer.keys.freshUntilMs(), rolesUntilMs);
    const checked: CheckedToken = {
      verified: mint<Verified>({ caller }),
      credential: credentialOf(caller, { digests: digestsOf(token, read.alg), ...readOrigin(read) }),
      boundTo: readBinding(read),
      operators: issuer.operators,
      choice,
      fromMs: nowMs,
      untilMs,
    };
    if (epoch === this.#epoch && nowMs < untilMs) this.#cache.set(digest, checked);
    return checked;
  }

  #assertNamedBy(choice: TenantChoice | undefined, presented: Presented): void {
    if (choice === undefined || choice.of(presented) === this.#options.tenant) return;
    throw unauthenticated("wrongAudience", "tenant: the service's issuers no longer speak for it with such tokens");
  }

  /** Selects the issuer's rules by the unverified `iss` and `aud`, which are verified by these rules afterwards. */
  #issuerOf(token: ReadToken): Issuer {
    const iss = token.claims.get("iss");
    const kinds = typeof iss === "string" ? this.#issuers.get(iss) : undefined;
    const issuer = kinds && kindOf(kinds, token.claims.get("aud"));
    if (issuer === undefined) throw unauthenticated("wrongAudience", "iss: missing or not a configured issuer");
    if (!issuer.algorithms.includes(token.alg)) throw unauthenticated("invalid", "header: alg is not allowed");
    return issuer;
  }

  #openIssuers(
    profiles: readonly IssuerProfile[],
    former: CallerVerifierOptions["former"],
  ): ReadonlyMap<string, readonly Issuer[]> {
    const problems = [
      ...profileProblems(profiles, (profile) => this.#options.bindings?.has(profile) === true || !this.#isFor(profile)),
      ...certificateCallerProblems(this.#options.certificateCallers ?? []),
    ];
    const issuers = new Map<string, readonly Issuer[]>();
    for (const [index, profile] of profiles.entries()) {
      const keys = this.#keysOf(profile, former);
      const { issuer } = profile;
      if ("candidates" in keys) {
        const { tenant } = this.#options;
        issuers.set(issuer, [...(issuers.get(issuer) ?? []), { ...issuerOf(profile, keys), tenant }]);
      } else problems.push(...keys.map((problem) => `jwt.issuers[${index}].keys: ${problem}`));
    }
    if (problems.length > 0) throw new StartupError(problems);
    return issuers;
  }

  #keysOf(profile: IssuerProfile, former: CallerVerifierOptions["former"]): IssuerKeys | readonly string[] {
    const { clock, keysTimeoutMs = DEFAULT_KEYS_TIMEOUT_MS, onKeysChanged } = this.#options;
    return profile.keys.open({
      algorithms: profile.algorithms,
      clock,
      timeoutMs: keysTimeoutMs,
      known: (uri) => former?.fetchedKeys(profile.issuer, uri),
      onChange: () => {
        this.clear();
        onKeysChanged?.(profile.issuer);
      },
    });
  }
}

const AGENT_WITHOUT_TOKEN = { claims: undefined, operators: false } as const;

/**
 * Returns the rules for a token of an issuer that may serve agents and operators: its audience says for whom it is.
 * @throws {Refusal} UNAUTHENTICATED for a token that is for both
 */
function kindOf(kinds: readonly Issuer[], aud: unknown): Issuer | undefined {
  const meant = selectedBy(kinds, aud);
  if (meant.length > 1)
    throw unauthenticated("wrongAudience", "aud: names agents and operators, and is valid for none");
  return meant[0] ?? kinds[0];
}

function issuerOf(profile: IssuerProfile, keys: IssuerKeys): Omit<Issuer, "tenant"> {
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
    clockToleranceSeconds: profile.clockToleranceSeconds ?? CLOCK_TOLERANCE_SECONDS_DEFAULT,
    claims: profile.claims ?? [],
    tenants: profile.tenants,
    keys,
    review: profile.review,
  };
}

type SigningKeys = Awaited<ReturnType<IssuerKeys["candidates"]>>;

/**
 * Returns when one of the keys verifies the signature.
 * @throws {Refusal} UNAUTHENTICATED
 */
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
