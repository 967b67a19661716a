import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { calculateJwkThumbprint, type JWK, SignJWT } from "jose";
import type { ApprovalDecision, ApprovalScope } from "../../core/types.ts";
import type { GrantTerms } from "../grants.ts";
import type { Requester } from "../identities.ts";
import type { Approval, Approvals } from "../types.ts";

/** The `typ` of a decision receipt; no endpoint of the service accepts it as a token. */
export const RECEIPT_TYPE = "stc-decision+jwt";

/** Lifetime of a denial's receipt: a denial has no execution deadline of its own. */
const DENIAL_SECONDS = 600;
const SECOND_MS = 1_000;

/** Contents of a receipt. Does not name the approver: the requester must not learn it. */
export interface DecisionReceipt {
  readonly approvalId: string;
  /** Hex SHA-256 of the plan that was decided. */
  readonly planDigest: string;
  readonly decision: ApprovalDecision;
  /** Set for an approval. */
  readonly scope: ApprovalScope | undefined;
  /** Set for scope `bounded`: how many runs, this call included, and for how long. */
  readonly grant?: Pick<GrantTerms, "runs" | "minutes"> | undefined;
  /** Unix milliseconds. */
  readonly decidedAt: number;
  /** Unix milliseconds; for an approval, never later than its `executeBy`. */
  readonly expiresAt: number;
}

export interface ReceiptSignerOptions {
  /** PEM: P-256 signs ES256, Ed25519 signs EdDSA. Use a dedicated key that signs nothing else. */
  readonly privateKey: string | Uint8Array;
  /** `approvals.deployment`, the `iss` of receipts. */
  readonly deployment: string;
}

/** Signs a decision as a compact JWS. Returns undefined when the request is undecided, or its approval is no longer usable. */
export type ReceiptSigner = (approval: Approval) => Promise<string | undefined>;

/** Approvals whose decisions can be proven to others. */
export interface ReceiptedApprovals extends Approvals {
  readonly receiptOf?: ReceiptSigner | undefined;
}

export type ReceiptAlgorithm = "ES256" | "EdDSA";

/** Returns the algorithm for a key; undefined when the key cannot sign receipts. */
export function receiptAlgorithm({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): ReceiptAlgorithm | undefined {
  if (asymmetricKeyType === "ed25519") return "EdDSA";
  return asymmetricKeyType === "ec" && asymmetricKeyDetails?.namedCurve === "prime256v1" ? "ES256" : undefined;
}

/** Returns issuer and subject as one URI, unique for the pair. */
export function receiptAudience({ issuer, subject }: Pick<Requester, "issuer" | "subject">): string {
  const [first, second] = [issuer, subject].map((name) => encodeURIComponent(name.toWellFormed()));
  return `urn:stc:caller:${first}:${second}`;
}

/**
 * Creates a signer of decisions for the requester. The same decision has the same `jti` however often it is signed.
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
    const { approvalId, planDigest, decision, scope, grant, decidedAt, expiresAt } = receipt;
    const given = { ...(scope !== undefined && { scope }), ...(grant !== undefined && { grant }) };
    return new SignJWT({ approvalId, planDigest, decision, ...given })
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
  const { runs, minutes } = approval.granted ?? {};
  const grant = runs === undefined || minutes === undefined ? undefined : { runs, minutes };
  return { ...decided, decision: "approve", scope, grant, expiresAt: executeBy };
}

function readPrivateKey(pem: string | Uint8Array): KeyObject {
  try {
    return createPrivateKey(typeof pem === "string" ? pem : Buffer.from(pem));
  } catch {
    throw new Error("holds no private key in PEM");
  }
}
