import { createPublicKey, type KeyObject } from "node:crypto";
import { errors, type JWK, jwtVerify } from "jose";
import { z } from "zod";
import { APPROVAL_DECISIONS, APPROVAL_SCOPES } from "../../core/types.ts";
import type { Requester } from "../identities.ts";
import {
  type DecisionReceipt,
  RECEIPT_TYPE,
  type ReceiptAlgorithm,
  receiptAlgorithm,
  receiptAudience,
} from "./receipts.ts";

/** Maximum length of a receipt, in UTF-16 units: far longer than any receipt of the service. */
const RECEIPT_CHARACTERS_MAX = 4_096;
const KEYS_MAX = 16;
/** Longest validity of an approval that a configuration allows. */
const LIFETIME_SECONDS_MAX = 86_400;
const SECOND_MS = 1_000;

export type ReceiptFault =
  /** Not a compact JWS, or a JWS whose payload is not a receipt. */
  | "RECEIPT_MALFORMED"
  | "RECEIPT_TYPE"
  /** Not signed, or signed with an algorithm that is not accepted. */
  | "RECEIPT_ALGORITHM"
  | "RECEIPT_SIGNATURE"
  | "RECEIPT_ISSUER"
  | "RECEIPT_AUDIENCE"
  | "RECEIPT_EXPIRED"
  | "RECEIPT_MISMATCH";

export type ReceiptCheck =
  | { readonly valid: true; readonly receipt: DecisionReceipt }
  | { readonly valid: false; readonly code: ReceiptFault; readonly message: string };

export interface ReceiptVerifierOptions {
  /** Public part of the service's receipt key, as PEM or JWK. */
  readonly publicKey?: string | JWK;
  /** Several keys, for key rotation. Each of several keys needs its `kid` (RFC 7638, as the service writes it). */
  readonly jwks?: { readonly keys: readonly JWK[] };
  /** `approvals.deployment` of the service. */
  readonly deployment: string;
  /** Issuer and subject of the agent's token. */
  readonly requester: Pick<Requester, "issuer" | "subject">;
  /** Returns Unix milliseconds. */
  readonly now: () => number;
}

export interface ReceiptVerifier {
  /** Verifies a receipt; never throws for an invalid one. With `approvalId`, the receipt must be for that approval request. */
  verify(receipt: unknown, expected?: { readonly approvalId?: string | undefined }): Promise<ReceiptCheck>;
}

const claims = z
  .strictObject({
    iss: z.string(),
    aud: z.string(),
    jti: z.string().min(1).max(256),
    iat: z.int().min(0),
    exp: z.int().min(0),
    approvalId: z.string().regex(/^[\x21-\x7e]{1,128}$/),
    planDigest: z.string().regex(/^[0-9a-f]{64}$/),
    decision: z.enum(APPROVAL_DECISIONS),
    scope: z.enum(APPROVAL_SCOPES).optional(),
    grant: z.strictObject({ runs: z.int().min(1), minutes: z.int().min(1) }).optional(),
  })
  .refine(({ iat, exp }) => exp > iat && exp - iat <= LIFETIME_SECONDS_MAX)
  .refine(({ decision, scope }) => (decision === "approve") === (scope !== undefined))
  .refine(({ scope, grant }) => (scope === "bounded") === (grant !== undefined));

interface Key {
  readonly kid: string | undefined;
  readonly alg: ReceiptAlgorithm;
  readonly key: KeyObject;
}

/**
 * Creates a verifier of the service's receipts.
 *
 * @throws Error that says what is wrong with the keys
 */
export function createReceiptVerifier(options: ReceiptVerifierOptions): ReceiptVerifier {
  const keys = readKeys(options);
  const { deployment, now } = options;
  const audience = receiptAudience(options.requester);
  const check = async (receipt: string, approvalId: string | undefined): Promise<ReceiptCheck> => {
    const { payload } = await jwtVerify(receipt, (header) => keyFor(keys, header), {
      algorithms: keys.map(({ alg }) => alg),
      typ: RECEIPT_TYPE,
      issuer: deployment,
      audience,
      currentDate: new Date(now()),
    });
    const parsed = claims.safeParse(payload);
    if (!parsed.success) return refuse("RECEIPT_MALFORMED");
    if (approvalId !== undefined && parsed.data.approvalId !== approvalId) return refuse("RECEIPT_MISMATCH");
    const { planDigest, decision, scope, grant, iat, exp } = parsed.data;
    const times = { decidedAt: iat * SECOND_MS, expiresAt: exp * SECOND_MS };
    return {
      valid: true,
      receipt: { approvalId: parsed.data.approvalId, planDigest, decision, scope, grant, ...times },
    };
  };
  return {
    async verify(receipt, { approvalId } = {}) {
      if (typeof receipt !== "string" || receipt.length > RECEIPT_CHARACTERS_MAX) return refuse("RECEIPT_MALFORMED");
      try {
        return await check(receipt, approvalId);
      } catch (error) {
        return refuse(codeOf(error));
      }
    },
  };
}

function readKeys({ publicKey, jwks }: ReceiptVerifierOptions): readonly Key[] {
  if ((publicKey === undefined) === (jwks === undefined)) throw new Error("give either publicKey or jwks");
  if (publicKey !== undefined) return [{ ...readKey(publicKey), kid: undefined }];
  const given = jwks?.keys ?? [];
  if (given.length === 0 || given.length > KEYS_MAX) throw new Error(`jwks must hold 1 to ${KEYS_MAX} keys`);
  const keys = given.map((jwk) => ({ ...readKey(jwk), kid: jwk.kid }));
  const named = new Set(keys.map(({ kid }) => kid));
  if (keys.length > 1 && (named.has(undefined) || named.size < keys.length)) {
    throw new Error("jwks: with several keys, each needs its own kid");
  }
  return keys;
}

/** Accepts public keys only: a verifier must not hold a private key or a shared secret, with which it could sign. */
function readKey(given: string | JWK): Omit<Key, "kid"> {
  const isPrivate = typeof given === "string" ? given.includes("PRIVATE KEY") : given.d !== undefined;
  if (isPrivate) throw new Error("the receipt key must be the public one: this one is private");
  const key = attempt(() => createPublicKey(typeof given === "string" ? given : { key: { ...given }, format: "jwk" }));
  const alg = key && receiptAlgorithm(key);
  if (key === undefined || alg === undefined) throw new Error("the receipt key must be a public P-256 or Ed25519 key");
  return { key, alg };
}

function attempt<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}

/** Selects the key. A key is used only with its own algorithm, whatever the header says. */
function keyFor(keys: readonly Key[], { kid, alg }: { readonly kid?: string; readonly alg?: string }): KeyObject {
  const found = keys.find((key) => key.alg === alg && (key.kid === undefined || key.kid === kid));
  if (found === undefined) throw new errors.JWKSNoMatchingKey();
  return found.key;
}

const FAULT_OF_CLAIM: ReadonlyMap<string, ReceiptFault> = new Map([
  ["typ", "RECEIPT_TYPE"],
  ["iss", "RECEIPT_ISSUER"],
  ["aud", "RECEIPT_AUDIENCE"],
]);

function codeOf(error: unknown): ReceiptFault {
  if (error instanceof errors.JWTExpired) return "RECEIPT_EXPIRED";
  if (error instanceof errors.JWTClaimValidationFailed) return FAULT_OF_CLAIM.get(error.claim) ?? "RECEIPT_MALFORMED";
  if (error instanceof errors.JOSEAlgNotAllowed) return "RECEIPT_ALGORITHM";
  if (error instanceof errors.JWSSignatureVerificationFailed) return "RECEIPT_SIGNATURE";
  return error instanceof errors.JWKSNoMatchingKey ? "RECEIPT_SIGNATURE" : "RECEIPT_MALFORMED";
}

const MESSAGES = {
  RECEIPT_MALFORMED: "This is not the receipt of a decision.",
  RECEIPT_TYPE: "This was signed as something other than the receipt of a decision.",
  RECEIPT_ALGORITHM: "This is not signed, or the signature proves nothing.",
  RECEIPT_SIGNATURE: "The service did not sign this.",
  RECEIPT_ISSUER: "This is the receipt of another deployment.",
  RECEIPT_AUDIENCE: "This is the receipt of another caller.",
  RECEIPT_EXPIRED: "This decision has expired.",
  RECEIPT_MISMATCH: "This is the receipt of another approval request.",
} as const satisfies Record<ReceiptFault, string>;

function refuse(code: ReceiptFault): ReceiptCheck {
  return { valid: false, code, message: MESSAGES[code] };
}
