import { createPublicKey, KeyObject } from "node:crypto";
import { type CryptoKey, createLocalJWKSet, errors, type JWK } from "jose";
import type { EpochMs } from "../../core/types.ts";

/** The key type for each algorithm. HMAC is missing, so it can never be configured. */
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

/** Maximum number of keys to try for a token without `kid`: several may match during a rotation. */
const CANDIDATES_MAX = 4;
const RSA_BITS_MIN = 2048;
const RSA_EXPONENT_MIN = 3n;
const KEYS_MAX = 256;
const PRIVATE_MEMBERS = ["d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"];

/** The members of a token's header by which its key is selected. */
export interface WantedKey {
  readonly alg: string;
  readonly kid: string | undefined;
}

/** The public keys of one issuer. */
export interface IssuerKeys {
  /**
   * Returns the keys that may have signed the token; empty when the issuer has none.
   * @throws {Refusal} AUTH_UNAVAILABLE
   */
  candidates(wanted: WantedKey): Promise<readonly CryptoKey[]>;
  /** Returns the time until which the result of `candidates` stays valid. Milliseconds since 1970. */
  freshUntilMs(): number;
  /** Returns the keys that this object has fetched, for the object that replaces it. */
  fetched?(uri: string): FetchedKeys | undefined;
}

/** A set of keys that only verify, with selection by header. */
export interface KeySet {
  readonly keys: readonly JWK[];
  select(wanted: WantedKey): Promise<readonly CryptoKey[]>;
}

/** The keys that a URL published. `atMs` is the time of the fetch in milliseconds since 1970. */
export interface FetchedKeys {
  readonly set: KeySet;
  readonly atMs: number;
}

/** Settings and clock that a caller verifier passes to the keys of one issuer. */
export interface KeyContext {
  readonly algorithms: readonly string[];
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Time limit of one fetch, body included. */
  readonly timeoutMs: number;
  /** Returns keys that the replaced caller verifier fetched for this issuer from the same URL. */
  readonly known: (uri: string) => FetchedKeys | undefined;
  /** Called when a fetch returned other keys than the previous one. */
  readonly onChange: () => void;
}

/** The keys that an issuer's profile names, before they are opened. */
export interface KeySource {
  /** Opens the keys; otherwise returns the problems that make them unusable. */
  open(context: KeyContext): IssuerKeys | readonly string[];
  /**
   * Fetches the keys once, to check a configuration. Returns the time in the answer's `Date`, if it has one. Left out: `open` needs
   * no fetch.
   *
   * @throws {Error} that says why no token could be verified
   */
  probe?(context: Pick<KeyContext, "algorithms" | "timeoutMs">): Promise<EpochMs | undefined>;
}

/** Keys that are opened without a clock, files or the network. */
export interface FixedKeySource extends KeySource {
  open(context: Pick<KeyContext, "algorithms">): IssuerKeys | readonly string[];
}

export function jwksKeys(jwks: unknown): FixedKeySource {
  return { open: ({ algorithms }) => fixedKeys(readJwks(jwks), { algorithms, anyKid: false }) };
}

/** Returns a public key or the key of a certificate; a string is PEM. It verifies tokens with any `kid`. */
export function publicKey(key: KeyObject | string): FixedKeySource {
  return { open: ({ algorithms }) => fixedKeys(readPublicKey(key), { algorithms, anyKid: true }) };
}

function fixedKeys(
  read: readonly JWK[] | string,
  { algorithms, anyKid }: { readonly algorithms: readonly string[]; readonly anyKid: boolean },
): IssuerKeys | readonly string[] {
  if (typeof read === "string") return [read];
  const problems = read.flatMap((jwk, index) => {
    const problem = keyProblem(jwk);
    return problem === undefined ? [] : [read.length === 1 ? problem : `keys[${index}]: ${problem}`];
  });
  if (problems.length > 0) return problems;
  const problem = fitProblem(read, algorithms);
  if (problem !== undefined) return [problem];
  const set = keySet(read);
  return {
    candidates: (wanted) => set.select(anyKid ? { alg: wanted.alg, kid: undefined } : wanted),
    freshUntilMs: () => Number.POSITIVE_INFINITY,
  };
}

/** Returns the problem of keys none of which verifies tokens with one of the algorithms. */
export function fitProblem(keys: readonly JWK[], algorithms: readonly string[]): string | undefined {
  const fitting = keys.some((jwk) => algorithms.some((algorithm) => fits(jwk, algorithm)));
  return fitting ? undefined : `no key fits ${algorithms.join(", ")}`;
}

/**
 * Returns the key set in a parsed JWKS document without the forbidden and unusable keys.
 * @throws {Error} on a document of another shape
 */
export function remoteKeySet(document: unknown): KeySet {
  const read = readJwks(document);
  if (typeof read === "string") throw new Error(read);
  return keySet(read.filter((jwk) => keyProblem(jwk) === undefined));
}

function keySet(keys: readonly JWK[]): KeySet {
  const local = createLocalJWKSet({ keys: [...keys] });
  const select = async ({ alg, kid }: WantedKey): Promise<readonly CryptoKey[]> => {
    try {
      return [await local(kid === undefined ? { alg } : { alg, kid })];
    } catch (error) {
      return error instanceof errors.JWKSMultipleMatchingKeys ? firstOf(error) : [];
    }
  };
  return { keys, select };
}

async function firstOf(several: AsyncIterable<CryptoKey>): Promise<readonly CryptoKey[]> {
  const keys: CryptoKey[] = [];
  for await (const key of several) {
    keys.push(key);
    if (keys.length === CANDIDATES_MAX) break;
  }
  return keys;
}

function readJwks(document: unknown): readonly JWK[] | string {
  if (typeof document !== "object" || document === null || !("keys" in document) || !Array.isArray(document.keys)) {
    return "not a JSON Web Key Set: an object with an array `keys` is expected";
  }
  if (document.keys.length > KEYS_MAX) return `more than ${KEYS_MAX} keys`;
  const keys: readonly unknown[] = document.keys;
  return keys.every(isJwk) ? keys : "an element of `keys` is not a key";
}

function isJwk(value: unknown): value is JWK {
  return typeof value === "object" && value !== null && "kty" in value && typeof value.kty === "string";
}

function readPublicKey(key: KeyObject | string): readonly JWK[] | string {
  const isSecret = typeof key === "string" ? key.includes("PRIVATE KEY") : key.type !== "public";
  if (isSecret) return "a private or secret key: give only the public key";
  try {
    const publicKey = key instanceof KeyObject ? key : createPublicKey(key);
    return [publicKey.export({ format: "jwk" }) as JWK];
  } catch {
    return "not a public key or certificate in PEM";
  }
}

/** Returns why a key must not be in an issuer's set. A key for another purpose or of an unknown kind is not a problem. */
function keyProblem(jwk: JWK): string | undefined {
  if (jwk.kty === "oct") return "a symmetric key: whoever can verify with it could sign";
  if (PRIVATE_MEMBERS.some((member) => Object.hasOwn(jwk, member)))
    return "a private key: publish only the public part";
  if (!Object.keys(KEY_KINDS).some((algorithm) => fits(jwk, algorithm))) return undefined;
  return publicKeyProblem(jwk);
}

function publicKeyProblem(jwk: JWK): string | undefined {
  try {
    const details = createPublicKey({ key: { ...jwk }, format: "jwk" }).asymmetricKeyDetails;
    if ((details?.modulusLength ?? RSA_BITS_MIN) < RSA_BITS_MIN) return `an RSA key below ${RSA_BITS_MIN} bits`;
    if ((details?.publicExponent ?? RSA_EXPONENT_MIN) < RSA_EXPONENT_MIN) return "an RSA key with the exponent 1";
    return undefined;
  } catch {
    return "a malformed key";
  }
}

function fits(jwk: JWK, algorithm: string): boolean {
  const kind = KEY_KINDS[algorithm];
  if (kind === undefined || jwk.kty !== kind.kty) return false;
  if (jwk.use !== undefined && jwk.use !== "sig") return false;
  if (jwk.alg !== undefined && jwk.alg !== algorithm) return false;
  return kind.crv === undefined || jwk.crv === kind.crv;
}
