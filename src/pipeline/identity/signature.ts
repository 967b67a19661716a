import { compactVerify } from "jose";
import type { IssuerKeys } from "./issuer-keys.ts";
import { unauthenticated } from "./refusal.ts";

type SigningKeys = Awaited<ReturnType<IssuerKeys["candidates"]>>;

/** Passes when one of the keys verifies the signature. @throws {Refusal} UNAUTHENTICATED */
export async function assertSigned(token: string, keys: SigningKeys, algorithms: readonly string[]): Promise<void> {
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
