import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { exportJWK, generateKeyPair, SignJWT } from "jose";

interface BenchTokens {
  /** May do what the bench does. */
  readonly agent: string;
  /** Of an operators' program that asks whether an agent may call a tool. */
  readonly operator: string;
  /** Signs the token of an agent of this tenant. */
  agentOf(tenant: string, subject: string): Promise<string>;
}

/** Makes keys for the bench's servers in `folder`, and signs the tokens of a run. */
export async function issueBenchTokens(folder: string): Promise<BenchTokens> {
  const { privateKey, publicKey } = await generateKeyPair("ES256", { extractable: true });
  const jwk = { ...(await exportJWK(publicKey)), alg: "ES256", kid: "bench" };
  writeFileSync(join(folder, "jwks.json"), JSON.stringify({ keys: [jwk] }));
  const sign = async (subject: string, audience: string, claims: Readonly<Record<string, unknown>>): Promise<string> =>
    await new SignJWT(claims)
      .setProtectedHeader({ alg: "ES256", kid: "bench" })
      .setIssuer("https://bench")
      .setAudience(audience)
      .setSubject(subject)
      .setIssuedAt()
      .setExpirationTime("30m")
      .sign(privateKey);
  const permissions = ["bench:run", "customer-data:read"];
  return {
    agent: await sign("bench", "bench", { permissions }),
    agentOf: (tenant, subject) => sign(subject, "bench", { permissions, tenant }),
    operator: await sign("gateway", "bench-operators", {}),
  };
}
