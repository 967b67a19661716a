import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { exportJWK, generateKeyPair, SignJWT } from "jose";

/** Makes keys for the bench's servers in `folder` and signs a token that may do what the bench does. */
export async function issueBenchToken(folder: string): Promise<string> {
  const { privateKey, publicKey } = await generateKeyPair("ES256", { extractable: true });
  const jwk = { ...(await exportJWK(publicKey)), alg: "ES256", kid: "bench" };
  writeFileSync(join(folder, "jwks.json"), JSON.stringify({ keys: [jwk] }));
  return new SignJWT({ permissions: ["bench:run", "customer-data:read"] })
    .setProtectedHeader({ alg: "ES256", kid: "bench" })
    .setIssuer("https://bench")
    .setAudience("bench")
    .setSubject("bench")
    .setIssuedAt()
    .setExpirationTime("30m")
    .sign(privateKey);
}
