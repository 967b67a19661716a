import { isTable } from "../../core/json.ts";
import { BOUNDED_TEXT_LIMITS, parseStrictJson } from "../../core/strict-json.ts";
import { OPERATED_ADDRESSES } from "../../egress/addresses.ts";
import { EgressClient } from "../../egress/client.ts";
import { EgressError } from "../../egress/request.ts";
import { authUnavailable, unauthenticated } from "./refusal.ts";
import type { FetchCredentials } from "./remote-keys.ts";

/**
 * TokenReview of Kubernetes: the API server knows whether the pod, the account and the Secret of a token still exist, which the
 * token's signature does not say.
 */

const PATH = "/apis/authentication.k8s.io/v1/tokenreviews";
const BODY_BYTES_MAX = 1_048_576;
const TIMEOUT_MS = 5_000;
const RETRY_MS = 2_000;

export interface TokenReviewSettings {
  /** URL of the API server. */
  readonly url: string;
  readonly audiences: readonly string[];
  /** "accept": the token's signature and claims are enough while the API server does not answer, or answers 429 or 5xx. */
  readonly whenUnavailable: "refuse" | "accept";
  readonly credentials: FetchCredentials | undefined;
}

/** Rejects with UNAUTHENTICATED unless the API server knows the token as one of this subject, for one of the audiences. */
export async function reviewToken(token: string, subject: string, settings: TokenReviewSettings): Promise<void> {
  const status = await ask(token, settings).catch((cause: unknown) => {
    if (settings.whenUnavailable === "accept" && isAway(cause)) return undefined;
    throw authUnavailable("the API server did not review the token", RETRY_MS, cause);
  });
  if (status === undefined) return;
  if (status["authenticated"] !== true) throw unauthenticated("revoked", "the API server does not accept the token");
  // A server that does not know audiences leaves them out: the token is then only known to be for the server itself.
  const audiences = Array.isArray(status["audiences"]) ? status["audiences"] : [];
  if (!settings.audiences.some((audience) => audiences.includes(audience))) {
    throw unauthenticated("wrongAudience", "the API server names none of the audiences");
  }
  const user = isTable(status["user"]) ? status["user"]["username"] : undefined;
  if (user !== subject) throw unauthenticated("invalid", "the API server names another subject");
}

/** An answer that the API server has refused, such as 403 without the role, is a mistake that lasts until somebody corrects it. */
class NotReviewed extends Error {
  readonly status: number;

  constructor(status: number) {
    super(`the API server answered ${status}`);
    this.status = status;
  }
}

function isAway(cause: unknown): boolean {
  if (cause instanceof NotReviewed) return cause.status === 429 || cause.status >= 500;
  return cause instanceof EgressError;
}

async function ask(token: string, { url, audiences, credentials }: TokenReviewSettings) {
  const { ca, token: own } = credentials?.() ?? {};
  const client = new EgressClient({
    addresses: OPERATED_ADDRESSES,
    // The CA is read for each request.
    keepsConnections: false,
    ...(ca !== undefined && { tls: { rootCert: Buffer.from(ca) } }),
  });
  const review = { apiVersion: "authentication.k8s.io/v1", kind: "TokenReview", spec: { token, audiences } };
  const answer = await client.send({
    method: "POST",
    url: new URL(PATH, url),
    body: JSON.stringify(review),
    timeoutMs: TIMEOUT_MS,
    bodyBytesMax: BODY_BYTES_MAX,
    headers: {
      "content-type": "application/json",
      accept: "application/json",
      ...(own !== undefined && { authorization: `Bearer ${own}` }),
    },
    isRepeatable: true,
    acceptsUnboundedBody: true,
  });
  if (answer.status !== 200 && answer.status !== 201) throw new NotReviewed(answer.status);
  const read = parseStrictJson(new TextDecoder("utf-8", { fatal: true }).decode(answer.body), BOUNDED_TEXT_LIMITS);
  const status = isTable(read) ? read["status"] : undefined;
  if (!isTable(status)) throw new Error("the API server's answer has no status");
  return status;
}
