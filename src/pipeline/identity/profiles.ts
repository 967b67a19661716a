import { unauthenticated } from "./refusal.ts";

/** Kinds of tokens. The rules of each kind are such that no token of another kind satisfies them by accident. */
export const PROFILES = ["generic", "rfc9068", "kubernetes"] as const;

export type TokenProfile = (typeof PROFILES)[number];

interface ProfileRules {
  /** The accepted `typ` headers; `undefined` means that the header is absent. */
  readonly types: readonly (string | undefined)[];
  readonly maxLifetimeSeconds: number;
  /** True when the token lists its subject's permissions; otherwise the configuration's table does. */
  readonly carriesPermissions: boolean;
  /**
   * Checks the claims that only this kind of token must have.
   * @throws {Refusal} UNAUTHENTICATED
   */
  readonly check: (claims: Claims) => void;
}

type Claims = ReadonlyMap<string, unknown>;

const NAME_CHARACTERS_MAX = 256;
/** The name of a token or client: visible characters, with spaces inside. */
const NAME = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;
const UID = /^[A-Za-z0-9-]{1,64}$/;
/** RFC 1123 as Kubernetes uses it: a namespace is a label, the name of any other object is a subdomain. */
const NAMESPACE = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const RESOURCE = /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/;
const SERVICE_ACCOUNT = "system:serviceaccount:";
/** Prefix of claims in tokens from Secrets, which have neither an expiry time nor an audience. */
const LEGACY_CLAIM = "kubernetes.io/serviceaccount/";

export const PROFILE_RULES: Readonly<Record<TokenProfile, ProfileRules>> = {
  generic: {
    types: [undefined, "application/jwt", "application/at+jwt"],
    maxLifetimeSeconds: 3_600,
    carriesPermissions: true,
    check: () => {},
  },
  rfc9068: {
    types: ["application/at+jwt"],
    maxLifetimeSeconds: 3_600,
    carriesPermissions: true,
    check: (claims) => {
      assertName(claims, "client_id");
      assertName(claims, "jti");
    },
  },
  kubernetes: {
    types: [undefined, "application/jwt"],
    // The kubelet requests 3607 seconds unless the pod specifies another lifetime.
    maxLifetimeSeconds: 7_200,
    carriesPermissions: false,
    check: assertServiceAccount,
  },
};

/** Returns the namespace and name of a service account's `sub`; undefined for any other subject. */
export function serviceAccountOf(subject: string): { readonly namespace: string; readonly name: string } | undefined {
  if (!subject.startsWith(SERVICE_ACCOUNT)) return undefined;
  const [namespace = "", name = "", ...rest] = subject.slice(SERVICE_ACCOUNT.length).split(":");
  return rest.length === 0 && NAMESPACE.test(namespace) && RESOURCE.test(name) ? { namespace, name } : undefined;
}

/** Checks that `sub` and the `kubernetes.io` claim name the same account, and that every bound object is complete. */
function assertServiceAccount(claims: Claims): void {
  for (const claim of claims.keys()) {
    if (claim.startsWith(LEGACY_CLAIM)) throw invalid(`${LEGACY_CLAIM}*: a token from a Secret, which never expires`);
  }
  const sub = claims.get("sub");
  const account = typeof sub === "string" ? serviceAccountOf(sub) : undefined;
  if (account === undefined) throw invalid("sub: not the name of a service account");
  const bound = members("kubernetes.io", claims.get("kubernetes.io"));
  const named = members("kubernetes.io.serviceaccount", bound.get("serviceaccount"));
  if (bound.get("namespace") !== account.namespace || named.get("name") !== account.name) {
    throw invalid("kubernetes.io: names another service account than sub");
  }
  assertUid("kubernetes.io.serviceaccount", named);
  for (const object of ["pod", "secret", "node"]) {
    if (!bound.has(object)) continue;
    const named = members(`kubernetes.io.${object}`, bound.get(object));
    const name = named.get("name");
    if (typeof name !== "string" || !RESOURCE.test(name)) throw invalid(`kubernetes.io.${object}.name: not a name`);
    // A pod's node is listed without a uid when the API server could not find the node.
    if (object !== "node" || named.has("uid")) assertUid(`kubernetes.io.${object}`, named);
  }
}

function members(at: string, value: unknown): Claims {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw invalid(`${at}: not an object`);
  return new Map(Object.entries(value));
}

function assertUid(at: string, object: Claims): void {
  const uid = object.get("uid");
  if (typeof uid !== "string" || !UID.test(uid)) throw invalid(`${at}.uid: missing or not an id`);
}

function assertName(claims: Claims, claim: string): void {
  const value = claims.get(claim);
  if (typeof value === "string" && value.length <= NAME_CHARACTERS_MAX && NAME.test(value)) return;
  throw invalid(`${claim}: missing or not a short visible string`);
}

function invalid(reason: string) {
  return unauthenticated("invalid", reason);
}
