import { readConfig } from "../../support/build.ts";

/** A configuration in this folder whose audit has these settings. */
export function signingConfig(folder: string, audit: Readonly<Record<string, string>> = { dir: "audit" }) {
  const issuer = { issuer: "https://idp.example", jwksUri: "https://idp.example/jwks.json" };
  return readConfig(
    { tools: ["./tools"], audit, jwt: { issuers: [issuer] } },
    { folder, environment: {}, origin: "test" },
  );
}
