import { constants, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { type JWK, SignJWT } from "jose";
import { jwksKeys } from "../../src/pipeline/identity/issuer-keys.ts";
import type { IssuerProfile } from "../../src/pipeline/identity/issuer-profile.ts";

/** The tests' time: seconds since 1970. */
export const NOW_SECONDS = 1_800_000_000;
export const AGENTS_ISSUER = "https://idp.test";
export const AGENTS_AUDIENCE = "safe-tool-call";

export type SigningAlgorithm = "ES256" | "RS256" | "PS256" | "EdDSA";

/** A key pair as an issuer keeps it. `jwk` is public and carries `kid`, `alg` and `use`. */
export interface SigningKey {
  readonly alg: SigningAlgorithm;
  readonly kid: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  readonly jwk: JWK;
}

export function makeSigningKey(alg: SigningAlgorithm, kid: string, rsaBits = 2048): SigningKey {
  const pair = makePair(alg, rsaBits);
  const jwk = { ...(pair.publicKey.export({ format: "jwk" }) as JWK), kid, alg, use: "sig" };
  return { alg, kid, jwk, ...pair };
}

function makePair(alg: SigningAlgorithm, rsaBits: number): { privateKey: KeyObject; publicKey: KeyObject } {
  if (alg === "ES256") return generateKeyPairSync("ec", { namedCurve: "P-256" });
  if (alg === "EdDSA") return generateKeyPairSync("ed25519");
  return generateKeyPairSync("rsa", { modulusLength: rsaBits });
}

export type Claims = Readonly<Record<string, unknown>>;

/** Claims that pass; `changes` replace some, and `undefined` takes one away. */
export function goodClaims(changes: Claims = {}): Claims {
  const claims = {
    iss: AGENTS_ISSUER,
    aud: AGENTS_AUDIENCE,
    sub: "agent-7",
    iat: NOW_SECONDS - 60,
    exp: NOW_SECONDS + 600,
    permissions: ["customer:read"],
    ...changes,
  };
  return Object.fromEntries(Object.entries(claims).filter(([, value]) => value !== undefined));
}

/** A token as an honest issuer makes it, by jose. `header` replaces members of `{alg, kid, typ: "JWT"}`. */
export async function issueToken(key: SigningKey, claims: Claims = goodClaims(), header: Claims = {}): Promise<string> {
  const full = { alg: key.alg, kid: key.kid, typ: "JWT", ...header };
  const present = Object.fromEntries(Object.entries(full).filter(([, value]) => value !== undefined));
  return new SignJWT({ ...claims }).setProtectedHeader({ ...present, alg: key.alg }).sign(key.privateKey);
}

/** A token with any text as its header and payload, and a true signature over them. */
export function forgeToken(key: SigningKey, header: string | Claims, payload: string | Claims): string {
  const text = (part: string | Claims): string => (typeof part === "string" ? part : JSON.stringify(part));
  const input = `${encodePart(text(header))}.${encodePart(text(payload))}`;
  return `${input}.${signInput(key, input)}`;
}

export function encodePart(text: string | Uint8Array): string {
  return Buffer.from(text).toString("base64url");
}

/** The signature that `key` gives to the two encoded parts, as base64url. */
export function signInput(key: SigningKey, input: string): string {
  const bytes = Buffer.from(input);
  if (key.alg === "EdDSA") return sign(null, bytes, key.privateKey).toString("base64url");
  if (key.alg === "ES256") {
    return sign("sha256", bytes, { key: key.privateKey, dsaEncoding: "ieee-p1363" }).toString("base64url");
  }
  if (key.alg === "RS256") return sign("sha256", bytes, key.privateKey).toString("base64url");
  const options = { key: key.privateKey, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 };
  return sign("sha256", bytes, options).toString("base64url");
}

/** A profile for agents whose keys are passed in. */
export function agentsProfile(keys: readonly SigningKey[], changes: Partial<IssuerProfile> = {}): IssuerProfile {
  return {
    issuer: AGENTS_ISSUER,
    audience: AGENTS_AUDIENCE,
    algorithms: ["ES256", "RS256", "PS256", "EdDSA"],
    operators: false,
    keys: jwksKeys({ keys: keys.map((key) => key.jwk) }),
    ...changes,
  };
}

/** The private key as a JWK, for the tests of what must never be accepted. */
export function privateJwk(key: SigningKey): JWK {
  return key.privateKey.export({ format: "jwk" }) as JWK;
}
