import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { calculateJwkThumbprint, type JWK, SignJWT } from "jose";
import type { Requester, Scope } from "../identities.ts";
import type { Approval, Approvals } from "../types.ts";

/** The `typ` of a decision's receipt; no door of ours takes it for a token. */
export const RECEIPT_TYPE = "stc-decision+jwt";

/** A no runs nothing, so that nothing says how long it counts. */
const DENIAL_SECONDS = 600;
const SECOND_MS = 1_000;

/** What a receipt says. Never who decided: the one who asked is not told. */
export interface DecisionReceipt {
  readonly approvalId: string;
  /** Hex SHA-256 of what was decided on. */
  readonly planDigest: string;
  readonly decision: "approve" | "deny";
  /** Of a yes. */
  readonly scope: Scope | undefined;
  /** Milliseconds since 1970. */
  readonly decidedAt: number;
  /** Milliseconds since 1970; never later than the approval's `executeBy`. */
  readonly expiresAt: number;
}

export interface ReceiptSignerOptions {
  /** PEM: P-256 signs ES256, Ed25519 signs EdDSA. A key of its own, which signs nothing else. */
  readonly privateKey: string | Uint8Array;
  /** `approvals.deployment`; the receipts' `iss`. */
  readonly deployment: string;
}

/** Puts a decision that was taken into a compact JWS. Undefined: none was, or what it let happen is over. */
export type ReceiptSigner = (approval: Approval) => Promise<string | undefined>;

/** A store whose decisions can be shown to others. */
export interface ReceiptedApprovals extends Approvals {
  readonly receiptOf?: ReceiptSigner | undefined;
}

export type ReceiptAlgorithm = "ES256" | "EdDSA";

/** Undefined: no key that signs receipts. */
export function receiptAlgorithm({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): ReceiptAlgorithm | undefined {
  if (asymmetricKeyType === "ed25519") return "EdDSA";
  return asymmetricKeyType === "ec" && asymmetricKeyDetails?.namedCurve === "prime256v1" ? "ES256" : undefined;
}

/** Issuer and subject as one URI, which no other pair has. */
export function receiptAudience({ issuer, subject }: Pick<Requester, "issuer" | "subject">): string {
  const [first, second] = [issuer, subject].map((name) => encodeURIComponent(name.toWellFormed()));
  return `urn:stc:caller:${first}:${second}`;
}

/**
 * Signs what was decided, for the one who asked. The same decision has the same `jti` however often it is signed.
 *
 * @throws Error that says what is wrong with the key
 */
export function createReceiptSigner({ privateKey, deployment }: ReceiptSignerOptions): ReceiptSigner {
  const key = readPrivateKey(privateKey);
  const alg = receiptAlgorithm(key);
  if (alg === undefined) throw new Error("must hold a private key on the curve P-256 or Ed25519");
  const kid = calculateJwkThumbprint(createPublicKey(key).export({ format: "jwk" }) as JWK);
  return async (approval) => {
    const receipt = receiptOf(approval);
    if (receipt === undefined) return undefined;
    const { approvalId, planDigest, decision, scope, decidedAt, expiresAt } = receipt;
    return new SignJWT({ approvalId, planDigest, decision, ...(scope !== undefined && { scope }) })
      .setProtectedHeader({ alg, typ: RECEIPT_TYPE, kid: await kid })
      .setIssuer(deployment)
      .setAudience(receiptAudience(approval.requester))
      .setJti(`${approvalId}.${decision}`)
      .setIssuedAt(Math.floor(decidedAt / SECOND_MS))
      .setExpirationTime(Math.floor(expiresAt / SECOND_MS))
      .sign(key);
  };
}

function receiptOf(approval: Approval): DecisionReceipt | undefined {
  const { id: approvalId, planDigest, state, decidedAt, executeBy, scope } = approval;
  if (decidedAt === undefined) return undefined;
  const decided = { approvalId, planDigest, decidedAt };
  if (state === "denied") {
    return { ...decided, decision: "deny", scope: undefined, expiresAt: decidedAt + DENIAL_SECONDS * SECOND_MS };
  }
  if (state !== "approved" || executeBy === undefined || scope === undefined) return undefined;
  return { ...decided, decision: "approve", scope, expiresAt: executeBy };
}

function readPrivateKey(pem: string | Uint8Array): KeyObject {
  try {
    return createPrivateKey(typeof pem === "string" ? pem : Buffer.from(pem));
  } catch {
    throw new Error("holds no private key in PEM");
  }
}
