import type { KeyObject } from "node:crypto";
import { isLoopback } from "../../core/loopback.ts";
import { subjectFault } from "./claims.ts";
import { serviceAccountOf, type TokenProfile } from "./profiles.ts";

/** Where an issuer's public keys come from. Files are read by the caller; only the URL is fetched here. */
export type KeySource =
  | { readonly kind: "jwksUri"; readonly uri: string; readonly credentials?: FetchCredentials | undefined }
  /** A parsed JSON Web Key Set. */
  | { readonly kind: "jwks"; readonly jwks: unknown }
  /** A public key or certificate; a string is PEM. It verifies whatever `kid` a token names. */
  | { readonly kind: "publicKey"; readonly key: KeyObject | string };

/** Which tokens of one issuer are good, and at which door. */
export interface IssuerProfile {
  readonly issuer: string;
  readonly audience: string;
  /** Asymmetric JWS algorithms. */
  readonly algorithms: readonly string[];
  /** `true`: good at the operators' door alone; `false`: at the agents' alone. */
  readonly operators: boolean;
  /** The kind of its tokens; `generic` by default. */
  readonly profile?: TokenProfile;
  /** The `typ` header that is demanded, of generic tokens alone. Without it: absent, `JWT` or `at+jwt`. */
  readonly typ?: string;
  /** The claim that lists permissions; `permissions` by default. */
  readonly permissionsClaim?: string;
  /** By `sub`, in place of what the token says: a subject that is not here has none. */
  readonly subjectPermissions?: Readonly<Record<string, readonly string[]>> | undefined;
  /** The longest `exp - iat`; the profile's own by default. */
  readonly maxLifetimeSeconds?: number | undefined;
  readonly keys: KeySource;
}

/** Which keys an algorithm works with. HMAC is not here, and so can never be configured. */
export const KEY_KINDS: Readonly<Record<string, { readonly kty: string; readonly crv?: string }>> = {
  RS256: { kty: "RSA" },
  RS384: { kty: "RSA" },
  RS512: { kty: "RSA" },
  PS256: { kty: "RSA" },
  PS384: { kty: "RSA" },
  PS512: { kty: "RSA" },
  ES256: { kty: "EC", crv: "P-256" },
  ES384: { kty: "EC", crv: "P-384" },
  ES512: { kty: "EC", crv: "P-521" },
  EdDSA: { kty: "OKP", crv: "Ed25519" },
  Ed25519: { kty: "OKP", crv: "Ed25519" },
};

const SUBJECT_PERMISSIONS_MAX = 10_000;

/** All that is wrong with the profiles, keys apart, each with the field to mend. */
export function profileProblems(profiles: readonly IssuerProfile[]): readonly string[] {
  const seen = new Set<string>();
  return profiles.flatMap((profile, index) => {
    const at = `jwt.issuers[${index}]`;
    const problems = [...textProblems(at, profile), ...algorithmProblems(at, profile.algorithms)];
    if (seen.has(profile.issuer)) problems.push(`${at}.issuer: stands twice; give each door an issuer of its own`);
    seen.add(profile.issuer);
    const lifetime = profile.maxLifetimeSeconds ?? 1;
    if (!Number.isSafeInteger(lifetime) || lifetime < 1) {
      problems.push(`${at}.maxLifetimeSeconds: must be a whole number of seconds above 0`);
    }
    problems.push(...kindProblems(at, profile), ...subjectProblems(at, profile));
    if (profile.keys.kind === "jwksUri") problems.push(...uriProblems(at, profile.keys.uri));
    return problems;
  });
}

function textProblems(at: string, profile: IssuerProfile): string[] {
  const texts = {
    issuer: profile.issuer,
    audience: profile.audience,
    typ: profile.typ ?? "JWT",
    permissionsClaim: profile.permissionsClaim ?? "permissions",
  };
  return Object.entries(texts)
    .filter(([, text]) => typeof text !== "string" || text === "")
    .map(([field]) => `${at}.${field}: must be a text that is not empty`);
}

/** What contradicts the kind of tokens. */
function kindProblems(at: string, { profile = "generic", typ, issuer, subjectPermissions }: IssuerProfile): string[] {
  const problems: string[] = [];
  if (profile !== "generic" && typ !== undefined) problems.push(`${at}.typ: the profile ${profile} says it already`);
  if (profile !== "kubernetes") return problems;
  if (subjectPermissions === undefined) {
    problems.push(`${at}.subjectPermissions: is missing: the tokens of service accounts carry no permissions`);
  }
  // The issuer of tokens from Secrets is called kubernetes/serviceaccount: they have neither an end nor an audience.
  if (!/^https:\/\/[^?#]+$/.test(issuer))
    problems.push(`${at}.issuer: must be the https URL that the cluster issues under`);
  return problems;
}

/** Subjects and permissions are compared as written: what could never be met, or looks like a pattern, is a mistake. */
function subjectProblems(at: string, { profile, subjectPermissions = {} }: IssuerProfile): string[] {
  const subjects = Object.entries(subjectPermissions);
  if (subjects.length > SUBJECT_PERMISSIONS_MAX) {
    return [`${at}.subjectPermissions: holds more than ${SUBJECT_PERMISSIONS_MAX} subjects`];
  }
  return subjects.flatMap(([subject, permissions]) => {
    const field = `${at}.subjectPermissions[${JSON.stringify(subject)}]`;
    const fault = subjectFault(subject);
    if (fault !== undefined) return [`${field}: no token may name such a subject: ${fault}`];
    if (subject.includes("*") || permissions.some((permission) => permission.includes("*"))) {
      return [`${field}: * is no pattern here: write each subject and permission out`];
    }
    const isAccount = profile !== "kubernetes" || serviceAccountOf(subject) !== undefined;
    return isAccount ? [] : [`${field}: must be system:serviceaccount:<namespace>:<name>`];
  });
}

function algorithmProblems(at: string, algorithms: readonly string[]): string[] {
  if (algorithms.length === 0) return [`${at}.algorithms: name at least one, such as ES256`];
  const unknown = algorithms.filter((algorithm) => !Object.hasOwn(KEY_KINDS, algorithm));
  if (unknown.length === 0) return [];
  return [`${at}.algorithms: ${unknown.join(", ")} not among ${Object.keys(KEY_KINDS).join(", ")}`];
}

function uriProblems(at: string, uri: string): string[] {
  const url = URL.parse(uri);
  if (url === null) return [`${at}.jwksUri: not a URL`];
  if (url.username !== "" || url.password !== "") return [`${at}.jwksUri: must not hold a user name or a password`];
  if (url.protocol === "https:") return [];
  // Whoever can answer a plain http request in our stead can make us trust any key.
  if (url.protocol === "http:" && isLoopback(url.hostname)) return [];
  return [`${at}.jwksUri: must be https (http is for the loopback interface alone)`];
}

/** What the server of the keys asks for, read anew for every fetch. Throws when it cannot be read. */
export type FetchCredentials = () => { readonly ca?: string | undefined; readonly token?: string | undefined };
