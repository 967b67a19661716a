import { z } from "zod";
import { isLoopback } from "./export.ts";

/** Whose tokens are good: every key and default of `jwt.issuers`. */

const text = z.string().min(1);
const count = (fallback: number, max: number) => z.int().min(1).max(max).default(fallback);

const ALGORITHMS = [
  ...(["ES256", "ES384", "ES512", "RS256", "RS384", "RS512"] as const),
  ...(["PS256", "PS384", "PS512", "EdDSA", "Ed25519"] as const),
] as const;

const permission = z.string().regex(/^[\x21-\x7e]{1,128}$/, "must be a permission's name: visible ASCII, at most 128");

const issuer = z
  .strictObject({
    issuer: text,
    audience: text.default("safe-tool-call"),
    algorithms: z.array(z.enum(ALGORITHMS)).min(1).default(["ES256", "RS256", "EdDSA"]),
    typ: text.optional(),
    permissionsClaim: text.default("permissions"),
    /** By `sub`, for issuers whose tokens list no permissions; what a token lists then counts for nothing. */
    subjectPermissions: z.record(z.string().min(1).max(256), z.array(permission).max(256)).optional(),
    maxLifetimeSeconds: count(3_600, 86_400),
    operators: z.boolean().default(false),
    jwksUri: z.url({ protocol: /^https?$/, error: "must be a URL that begins with https://" }).optional(),
    jwksFile: text.optional(),
    publicKeyFile: text.optional(),
    /** Values instead of files, for the library. */
    jwks: z.looseObject({ keys: z.array(z.looseObject({})) }).optional(),
    publicKey: text.optional(),
  })
  .superRefine((profile, context) => {
    const given = (["jwksUri", "jwksFile", "publicKeyFile", "jwks", "publicKey"] as const).filter(
      (key) => profile[key] !== undefined,
    );
    if (given.length !== 1) {
      context.addIssue({
        code: "custom",
        message: "needs exactly one of jwksUri, jwksFile, publicKeyFile (or, in the library, jwks, publicKey)",
      });
    }
    if (profile.jwksUri?.startsWith("http:") && !isLoopback(new URL(profile.jwksUri).hostname)) {
      context.addIssue({
        code: "custom",
        path: ["jwksUri"],
        message: "must be https: keys over plain http can be replaced on the way",
      });
    }
  });

export const jwt = z.strictObject({ issuers: z.array(issuer).min(1) }).superRefine(({ issuers }, context) => {
  for (const [index, profile] of issuers.entries()) {
    if (issuers.findIndex((other) => other.issuer === profile.issuer) < index) {
      context.addIssue({
        code: "custom",
        path: ["issuers", index, "issuer"],
        message: "stands twice: an issuer has one profile",
      });
    }
  }
  const audiences = new Set(issuers.filter((profile) => profile.operators).map((profile) => profile.audience));
  for (const [index, profile] of issuers.entries()) {
    if (!profile.operators && audiences.has(profile.audience)) {
      context.addIssue({
        code: "custom",
        path: ["issuers", index, "audience"],
        message: "is also an operators' audience: agents and operators need different ones",
      });
    }
  }
});

export type IssuerConfig = z.output<typeof issuer>;
