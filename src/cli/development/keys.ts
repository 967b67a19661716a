import { createPrivateKey, generateKeyPairSync } from "node:crypto";
import { join } from "node:path";
import { calculateJwkThumbprint, importJWK, type JWK, SignJWT } from "jose";
import { type Files, installFolder } from "./install-folder.ts";

interface DevelopmentTokenOptions {
  readonly directory: string;
  /** True for a token of the operators' endpoints, which is not valid for the agents' endpoints. */
  readonly operator: boolean;
  readonly sub: string;
  readonly permissions: readonly string[];
  /** The claim `sid`: the session for which approvals are remembered. */
  readonly session?: string | undefined;
  /** Further claims. */
  readonly claims?: Readonly<Record<string, string>>;
  readonly ttlSeconds: number;
  readonly nowMs: number;
}

/** Issuers of tokens for use on one machine. */
export const DEVELOPMENT_ISSUERS = {
  agents: { issuer: "https://dev.safe-tool-call.local/agents", audience: "safe-tool-call" },
  operators: { issuer: "https://dev.safe-tool-call.local/people", audience: "safe-tool-call-operators" },
} as const;

type IssuerName = keyof typeof DEVELOPMENT_ISSUERS;

const ALGORITHM = "ES256";
const PRIVATE_FILE = "private.jwk.json";
const PUBLIC_FILE = "jwks.json";

async function makeFiles(): Promise<Files> {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const publicJwk: JWK = { ...(publicKey.export({ format: "jwk" }) as JWK), alg: ALGORITHM, use: "sig" };
  const kid = await calculateJwkThumbprint(publicJwk);
  const privateJwk: JWK = { ...(privateKey.export({ format: "jwk" }) as JWK), alg: ALGORITHM, use: "sig", kid };
  return {
    [PRIVATE_FILE]: `${JSON.stringify(privateJwk, null, 2)}\n`,
    [PUBLIC_FILE]: `${JSON.stringify({ keys: [{ ...publicJwk, kid }] }, null, 2)}\n`,
  };
}

function isJwk(value: unknown): value is JWK & { readonly kid: string } {
  return typeof value === "object" && value !== null && "kty" in value && "kid" in value && "d" in value;
}

function readPrivateJwk(files: Files): (JWK & { readonly kid: string }) | undefined {
  const privateJwk: unknown = JSON.parse(files[PRIVATE_FILE] ?? "");
  const jwks: unknown = JSON.parse(files[PUBLIC_FILE] ?? "");
  const keys = typeof jwks === "object" && jwks !== null && "keys" in jwks && Array.isArray(jwks.keys) ? jwks.keys : [];
  if (!isJwk(privateJwk)) return undefined;
  return keys.some((key: { readonly kid?: unknown } | null) => key?.kid === privateJwk.kid) ? privateJwk : undefined;
}

function folderOf(directory: string, name: IssuerName): string {
  return join(directory, "issuers", name);
}

function privateJwkOf(directory: string, name: IssuerName): Promise<JWK & { readonly kid: string }> {
  return installFolder({
    folder: folderOf(directory, name),
    fileNames: [PRIVATE_FILE, PUBLIC_FILE],
    read: readPrivateJwk,
    make: makeFiles,
  });
}

/**
 * Returns the development issuers. Their key pairs are in `<directory>/issuers`, mode 0600; created on first use and then kept.
 */
export async function developmentKeys(directory: string) {
  await Promise.all([privateJwkOf(directory, "agents"), privateJwkOf(directory, "operators")]);
  const issuer = (name: IssuerName) => ({
    ...DEVELOPMENT_ISSUERS[name],
    jwksFile: join(folderOf(directory, name), PUBLIC_FILE),
  });
  return { agents: issuer("agents"), operators: issuer("operators") };
}

/** Returns the path of a private signing key. The private and public keys are PEM files in `<directory>/<purpose>`. */
export async function developmentSigningKey(directory: string, purpose: "checkpoints" | "receipts"): Promise<string> {
  const folder = join(directory, purpose);
  await installFolder({
    folder,
    fileNames: ["private.pem", "public.pem"],
    read: ({ "private.pem": pem = "" }) => createPrivateKey(pem),
    make: async () => {
      const { privateKey, publicKey } = generateKeyPairSync("ed25519");
      return {
        "private.pem": String(privateKey.export({ type: "pkcs8", format: "pem" })),
        "public.pem": String(publicKey.export({ type: "spki", format: "pem" })),
      };
    },
  });
  return join(folder, "private.pem");
}

/** Signs a token with a development key, for use only with a development environment on the same machine. */
export async function signDevelopmentToken(options: DevelopmentTokenOptions): Promise<string> {
  const name: IssuerName = options.operator ? "operators" : "agents";
  const jwk = await privateJwkOf(options.directory, name);
  const issuedAt = Math.floor(options.nowMs / 1000);
  const { permissions, session, claims } = options;
  return new SignJWT({ ...claims, permissions: [...permissions], ...(session !== undefined && { sid: session }) })
    .setProtectedHeader({ alg: ALGORITHM, kid: jwk.kid, typ: "JWT" })
    .setIssuer(DEVELOPMENT_ISSUERS[name].issuer)
    .setAudience(DEVELOPMENT_ISSUERS[name].audience)
    .setSubject(options.sub)
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + options.ttlSeconds)
    .sign(await importJWK(jwk, ALGORITHM));
}
