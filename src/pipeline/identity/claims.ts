import { canonical, NotJsonError } from "../../core/digest.ts";
import type { CallerContext, Json } from "../../core/types.ts";
import { PROFILE_RULES, type TokenProfile } from "./profiles.ts";
import type { ReadToken } from "./reader.ts";
import { unauthenticated } from "./refusal.ts";
import type { TokenOrigin } from "./revocations.ts";
import { type IssuerTenants, readTenant } from "./tenant-claim.ts";

export const CLOCK_TOLERANCE_SECONDS_DEFAULT = 5;
const SUBJECT_CHARACTERS_MAX = 256;
const PERMISSIONS_MAX = 256;
const ACTORS_MAX = 10;
const AUDIENCES_MAX = 64;
const ISSUER_CHARACTERS_MAX = 512;

/** Prefix of sessions that tokens name. */
export const SID = "sid:";
const SESSION = /^[\x21-\x7e]{1,128}$/;
/** Claims that only ID tokens have (OpenID Connect Core 1.0, 2 and 3.3): they say who somebody is to one client. */
const ID_TOKEN_CLAIMS = ["at_hash", "c_hash", "s_hash"];
/** Some providers, such as Keycloak before 24, write `nonce` into access tokens, too: it excludes operators' tokens alone. */
const OPERATORS_ID_TOKEN_CLAIMS = ["nonce", ...ID_TOKEN_CLAIMS];
const THUMBPRINT = /^[A-Za-z0-9_-]{43}$/;
const PERMISSION = /^[\x21-\x7e]{1,128}$/;
/**
 * Controls, format characters (bidi, tags, zero width), lone surrogates, separators, invisible letters, spaces other than U+0020.
 */
const UNPRINTABLE =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]/u;
/** The audit's name for a caller without a valid token. */
const RESERVED_SUBJECT = "anonymous";

/** The rules for one issuer's tokens, without keys. */
export interface ClaimRules {
  readonly issuer: string;
  readonly operators: boolean;
  /** A token must be for one of these. */
  readonly audience: string | readonly string[];
  readonly profile: TokenProfile;
  /** Replaces the types that the profile accepts. */
  readonly typ: string | undefined;
  readonly permissionsClaim: string;
  /** Replaces the permissions claim. */
  readonly subjectPermissions: ReadonlyMap<string, readonly string[]> | undefined;
  readonly maxLifetimeSeconds: number;
  /** How far the issuer's clock may differ. */
  readonly clockToleranceSeconds: number;
  /** Names of further claims to keep, for decision points. */
  readonly claims?: readonly string[] | undefined;
  /** Tenants whose callers have the issuer's tokens. */
  readonly tenants?: IssuerTenants | undefined;
  /** The tenant whose callers are identified; undefined: the service itself. */
  readonly tenant?: string | undefined;
}

/**
 * Returns the caller named by a token whose signature is valid.
 * @throws {Refusal} UNAUTHENTICATED
 */
export function readCaller(token: ReadToken, rules: ClaimRules, nowSeconds: number): CallerContext {
  const { claims } = token;
  assertType(token.typ, rules);
  assertNoIdToken(claims, rules);
  assertAudience(claims.get("aud"), rules.audience);
  const expiresAt = assertTimes(claims, rules, nowSeconds);
  const subject = readSubject("sub", claims.get("sub"));
  PROFILE_RULES[rules.profile].check(claims);
  const tenant = readTenant(claims, rules);
  const caller: CallerContext = {
    issuer: rules.issuer,
    subject,
    permissions: Object.freeze(
      rules.subjectPermissions === undefined && PROFILE_RULES[rules.profile].carriesPermissions
        ? readPermissions(claims, rules.permissionsClaim)
        : [...(rules.subjectPermissions?.get(subject) ?? [])],
    ),
    ...readActors(claims),
    session: readSession(claims),
    expiresAt,
    ...(tenant !== undefined && { tenant }),
    ...(rules.claims !== undefined && rules.claims.length > 0 && { claims: readFurther(claims, rules.claims) }),
  };
  return Object.freeze(caller);
}

const CLAIM_LIMITS = { depthMax: 8, nodesMax: 1_000, bytesMax: 16_384 } as const;

/** Returns the named claims that the token has. One beyond the limits is left out, and a rule that reads it cannot be decided. */
function readFurther(claims: ReadonlyMap<string, unknown>, names: readonly string[]): Readonly<Record<string, Json>> {
  const found = names.flatMap((name): [string, Json][] => {
    try {
      return claims.has(name) ? [[name, canonical(claims.get(name), CLAIM_LIMITS).value]] : [];
    } catch (error) {
      if (error instanceof NotJsonError) return [];
      throw error;
    }
  });
  return Object.freeze(Object.fromEntries(found));
}

function invalid(reason: string) {
  return unauthenticated("invalid", reason);
}

/** Checks the media type. Media types are case-insensitive, and `application/` may be omitted (RFC 7515, 4.1.9). */
function assertType(typ: string | undefined, { typ: required, profile }: ClaimRules): void {
  const accepted = required === undefined ? PROFILE_RULES[profile].types : [fullType(required)];
  if (!accepted.includes(typ === undefined ? undefined : fullType(typ))) {
    throw invalid(`header: typ is not the expected one${required === undefined ? "" : ` (${required})`}`);
  }
}

function assertNoIdToken(claims: ReadonlyMap<string, unknown>, { operators }: ClaimRules): void {
  const found = (operators ? OPERATORS_ID_TOKEN_CLAIMS : ID_TOKEN_CLAIMS).find((claim) => claims.has(claim));
  if (found !== undefined) throw invalid(`${found}: an ID token's claim, and only access tokens are accepted`);
}

function fullType(typ: string): string {
  const lower = typ.toLowerCase();
  return lower.includes("/") ? lower : `application/${lower}`;
}

function assertAudience(aud: unknown, ours: string | readonly string[]): void {
  const audiences: readonly unknown[] = Array.isArray(aud) ? aud : [aud];
  if (audiences.length > AUDIENCES_MAX) throw invalid("aud: too many members");
  if (!audiences.every((audience) => typeof audience === "string")) {
    throw invalid("aud: neither a string nor an array of strings");
  }
  const isOurs = typeof ours === "string" ? audiences.includes(ours) : ours.some((one) => audiences.includes(one));
  if (!isOurs) throw unauthenticated("wrongAudience", "aud: our audience is not in it");
}

/** Checks `exp`, `iat` and `nbf`; returns `exp`. Times in milliseconds fail these checks: they are far in the future. */
function assertTimes(claims: ReadonlyMap<string, unknown>, rules: ClaimRules, nowSeconds: number): number {
  const { clockToleranceSeconds: tolerance } = rules;
  const expiresAt = readTime(claims, "exp");
  const issuedAt = readTime(claims, "iat");
  if (expiresAt <= issuedAt) throw invalid("exp: not after iat");
  if (expiresAt - issuedAt > rules.maxLifetimeSeconds) throw invalid("exp: the lifetime is over the maximum");
  if (issuedAt > nowSeconds + tolerance) throw unauthenticated("future", "iat: in the future");
  if (claims.has("nbf") && readTime(claims, "nbf") > nowSeconds + tolerance) {
    throw unauthenticated("future", "nbf: in the future");
  }
  if (expiresAt <= nowSeconds - tolerance) throw unauthenticated("expired", "exp: in the past");
  return expiresAt;
}

function readTime(claims: ReadonlyMap<string, unknown>, name: string): number {
  const value = claims.get(name);
  if (typeof value !== "number" || !Number.isFinite(value) || value < 0) {
    throw invalid(`${name}: missing or not a time in seconds`);
  }
  return value;
}

function readSubject(name: string, value: unknown): string {
  if (typeof value !== "string") throw invalid(`${name}: missing or not a string`);
  const problem = subjectProblem(value);
  if (problem !== undefined) throw invalid(`${name}: ${problem}`);
  return value;
}

/** Returns why no token may name this subject. Subjects are compared as written, code unit by code unit. */
export function subjectProblem(subject: string): string | undefined {
  if (Array.from(subject).length > SUBJECT_CHARACTERS_MAX) return "too long";
  return visibilityProblem(subject) ?? (subject.toLowerCase() === RESERVED_SUBJECT ? "reserved" : undefined);
}

/** Returns why a text cannot be told from another by its looks: it is empty, or has characters that cannot be seen. */
export function visibilityProblem(text: string): string | undefined {
  if (text === "") return "empty";
  const isHidden = UNPRINTABLE.test(text) || text.startsWith(" ") || text.endsWith(" ");
  return isHidden ? "has characters that cannot be seen" : undefined;
}

/** Returns the OpenID Connect session id with a prefix, so that a session named in a request cannot be mistaken for it. */
function readSession(claims: ReadonlyMap<string, unknown>): string | undefined {
  const sid = claims.get("sid");
  if (sid === undefined) return undefined;
  if (typeof sid === "string" && SESSION.test(sid)) return `${SID}${sid}`;
  throw invalid("sid: not a short visible string");
}

/** Claims that list permissions where the configured one is missing, the first that the token has. */
const SCOPE_CLAIMS = ["scope", "scp"] as const;

function readPermissions(claims: ReadonlyMap<string, unknown>, configured: string): string[] {
  const claim = [configured, ...SCOPE_CLAIMS].find((name) => claims.has(name));
  return claim === undefined ? [] : checkPermissions(claim, claims.get(claim));
}

/** Accepts a list of names, and a text of names between spaces (RFC 6749, 3.3). */
function checkPermissions(claim: string, value: unknown): string[] {
  const names: unknown = typeof value === "string" ? value.split(" ").filter((name) => name !== "") : value;
  if (!Array.isArray(names) || names.length > PERMISSIONS_MAX) {
    throw invalid(`${claim}: neither a short list nor a text of names between spaces`);
  }
  return names.map((permission: unknown) => {
    if (typeof permission === "string" && PERMISSION.test(permission)) return permission;
    throw invalid(`${claim}: contains something other than a permission's name`);
  });
}

/** Reads the RFC 8693 `act` chain, outermost first. Each actor may name its own issuer. */
function readActors(claims: ReadonlyMap<string, unknown>): Pick<CallerContext, "actors" | "actorIssuers"> {
  const actors: string[] = [];
  const issuers: (string | undefined)[] = [];
  let actor = claims;
  while (actor.has("act")) {
    const act = actor.get("act");
    if (typeof act !== "object" || act === null || Array.isArray(act)) throw invalid("act: not an object");
    if (actors.length === ACTORS_MAX) throw invalid("act: the chain is too long");
    actor = new Map<string, unknown>(Object.entries(act));
    actors.push(readSubject("act.sub", actor.get("sub")));
    issuers.push(actor.has("iss") ? readIssuer(actor.get("iss")) : undefined);
  }
  const isNamed = issuers.some((issuer) => issuer !== undefined);
  return { actors: Object.freeze(actors), ...(isNamed && { actorIssuers: Object.freeze(issuers) }) };
}

function readIssuer(iss: unknown): string {
  if (typeof iss !== "string" || iss === "" || iss.length > ISSUER_CHARACTERS_MAX) throw invalid("act.iss: not a name");
  return iss;
}

/**
 * Returns the SHA-256 thumbprint (base64url) of the certificate to which a token is bound (RFC 8705, 3.1); undefined for a bearer
 * token. A binding of another kind cannot be checked here, so it is refused.
 */
export function readBinding({ claims }: ReadToken): string | undefined {
  if (!claims.has("cnf")) return undefined;
  const cnf = claims.get("cnf");
  const members = typeof cnf === "object" && cnf !== null && !Array.isArray(cnf) ? Object.entries(cnf) : [];
  const [[name, thumbprint] = [], ...others] = members;
  if (name !== "x5t#S256" || others.length > 0) throw invalid("cnf: not bound by x5t#S256 alone");
  if (typeof thumbprint !== "string" || !THUMBPRINT.test(thumbprint)) throw invalid("cnf: not a SHA-256 thumbprint");
  return thumbprint;
}

/** Returns the values that distinguish one token of a caller from another. */
export function readOrigin({ claims }: ReadToken): Omit<TokenOrigin, "digests"> {
  const jti = claims.get("jti");
  const act = claims.get("act");
  const iss = typeof act === "object" && act !== null && "iss" in act ? act.iss : undefined;
  return {
    jti: typeof jti === "string" ? jti : undefined,
    issuedAtMs: readTime(claims, "iat") * 1000,
    actorIssuer: typeof iss === "string" ? iss : undefined,
  };
}
