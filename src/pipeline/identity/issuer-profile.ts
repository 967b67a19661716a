import { subjectProblem } from "./claims.ts";
import { KEY_KINDS, type KeySource } from "./issuer-keys.ts";
import { serviceAccountOf, type TokenProfile } from "./profiles.ts";
import type { IssuerTenants } from "./tenant-claim.ts";

/** The rules for the tokens of one issuer: which are valid, and for which audience. */
export interface IssuerProfile {
  readonly issuer: string;
  readonly audience: string | readonly string[];
  /** Asymmetric JWS algorithms. */
  readonly algorithms: readonly string[];
  /** True when the tokens are valid only for operators; false when they are valid only for agents. */
  readonly operators: boolean;
  /** The kind of the issuer's tokens; `generic` by default. */
  readonly profile?: TokenProfile;
  /** The required `typ` header, for generic tokens only. Without it, `typ` may be absent, `JWT` or `at+jwt`. */
  readonly typ?: string;
  /** The claim that lists permissions; `permissions` by default. */
  readonly permissionsClaim?: string;
  /** Permissions by `sub`, which replace the permissions in the token: a subject that is missing here has none. */
  readonly subjectPermissions?: Readonly<Record<string, readonly string[]>> | undefined;
  /** Maximum `exp - iat`; the profile's own maximum by default. */
  readonly maxLifetimeSeconds?: number | undefined;
  /** How far the issuer's clock may differ from ours; 5 by default. */
  readonly clockToleranceSeconds?: number | undefined;
  /** Names of further claims that decision points read. */
  readonly claims?: readonly string[] | undefined;
  /** Tenants whose callers have the issuer's tokens; undefined: they are callers of the service itself. */
  readonly tenants?: IssuerTenants | undefined;
  readonly keys: KeySource;
  /**
   * Asks whether a token whose signature and claims are valid is still accepted. Rejects with a Refusal when it is not. An answer
   * holds for `REVIEW_FRESH_MS`.
   */
  readonly review?: ((token: string, subject: string) => Promise<void>) | undefined;
  /** Finds out whether tokens can be reviewed. @throws {Error} that says why not */
  readonly probeReview?: (() => Promise<void>) | undefined;
}

/** Returns the profiles of one issuer whose audience is among those of a token: an issuer may serve agents and operators. */
export function selectedBy<Profile extends Pick<IssuerProfile, "audience">>(
  profiles: readonly Profile[],
  aud: unknown,
): readonly Profile[] {
  const audiences: readonly unknown[] = Array.isArray(aud) ? aud : [aud];
  return profiles.filter(({ audience }) => [audience].flat().some((one) => audiences.includes(one)));
}

/** How long a reviewed token is used without another review. */
export const REVIEW_FRESH_MS = 10_000;

const SUBJECT_PERMISSIONS_MAX = 10_000;

/**
 * Returns all problems of the profiles except those of keys, each with the field to fix. `hasRoles` says whether roles are bound to
 * callers of an issuer.
 */
export function profileProblems(
  profiles: readonly IssuerProfile[],
  hasRoles: (profile: Pick<IssuerProfile, "issuer" | "operators" | "tenants">) => boolean = () => false,
): readonly string[] {
  const seen = new Set<string>();
  return profiles.flatMap((profile, index) => {
    const at = `jwt.issuers[${index}]`;
    const problems = [...textProblems(at, profile), ...algorithmProblems(at, profile.algorithms)];
    const kind = JSON.stringify([profile.issuer, profile.operators]);
    if (seen.has(kind))
      problems.push(`${at}.issuer: appears twice; an issuer has one profile for agents and one for operators`);
    seen.add(kind);
    problems.push(...sharedAudienceProblems(at, profile, profiles));
    const lifetime = profile.maxLifetimeSeconds ?? 1;
    if (!Number.isSafeInteger(lifetime) || lifetime < 1) {
      problems.push(`${at}.maxLifetimeSeconds: must be a whole number of seconds above 0`);
    }
    problems.push(...kindProblems(at, profile, hasRoles(profile)), ...subjectProblems(at, profile));
    return problems;
  });
}

/** The audience alone tells the two kinds of tokens of an issuer apart. */
function sharedAudienceProblems(at: string, profile: IssuerProfile, profiles: readonly IssuerProfile[]): string[] {
  const isShared = profiles.some(
    ({ issuer, operators, audience }) =>
      !profile.operators &&
      operators &&
      issuer === profile.issuer &&
      [audience].flat().some((one) => [profile.audience].flat().includes(one)),
  );
  return isShared ? [`${at}.audience: is also that of the issuer's operators`] : [];
}

function textProblems(at: string, profile: IssuerProfile): string[] {
  const texts = {
    issuer: profile.issuer,
    audience: profile.audience,
    typ: profile.typ ?? "JWT",
    permissionsClaim: profile.permissionsClaim ?? "permissions",
  };
  return Object.entries(texts)
    .filter(([, text]) => [text].flat().some((one) => typeof one !== "string" || one === ""))
    .map(([field]) => `${at}.${field}: must be a non-empty text`);
}

function kindProblems(
  at: string,
  { profile = "generic", typ, issuer, subjectPermissions }: IssuerProfile,
  hasRoles: boolean,
): string[] {
  const problems: string[] = [];
  if (profile !== "generic" && typ !== undefined) problems.push(`${at}.typ: the profile ${profile} says it already`);
  if (profile !== "kubernetes") return problems;
  if (subjectPermissions === undefined && !hasRoles) {
    problems.push(
      `${at}.subjectPermissions: is missing, and no role is bound: the tokens of service accounts carry no permissions`,
    );
  }
  // Tokens from Secrets have the issuer kubernetes/serviceaccount: they have neither an expiry time nor an audience.
  if (!/^https:\/\/[^?#]+$/.test(issuer))
    problems.push(`${at}.issuer: must be the https URL that the cluster issues under`);
  return problems;
}

/**
 * Returns the problems of subjects and permissions. Both are compared as written: an entry that can never match, or that looks
 * like a pattern, is a mistake.
 */
function subjectProblems(at: string, { profile, subjectPermissions = {} }: IssuerProfile): string[] {
  const subjects = Object.entries(subjectPermissions);
  if (subjects.length > SUBJECT_PERMISSIONS_MAX) {
    return [`${at}.subjectPermissions: holds more than ${SUBJECT_PERMISSIONS_MAX} subjects`];
  }
  return subjects.flatMap(([subject, permissions]) => {
    const field = `${at}.subjectPermissions[${JSON.stringify(subject)}]`;
    const problem = subjectProblem(subject);
    if (problem !== undefined) return [`${field}: no token may name such a subject: ${problem}`];
    if (subject.includes("*") || permissions.some((permission) => permission.includes("*"))) {
      return [`${field}: * is not a pattern here: write out each subject and permission`];
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
