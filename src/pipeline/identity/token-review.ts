import { errorText } from "../../core/error-text.ts";
import { Refusal } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import { OutageReporter } from "../../core/retry.ts";
import { BOUNDED_TEXT_LIMITS, parseStrictJson } from "../../core/strict-json.ts";
import { endedWithin } from "../../core/time-limits.ts";
import type { EpochMs } from "../../core/types.ts";
import { OPERATED_ADDRESSES } from "../../egress/addresses.ts";
import { EgressClient } from "../../egress/client.ts";
import { EgressError, egressReason } from "../../egress/request.ts";
import { FailedAttempt, Resilience } from "../../egress/resilience.ts";
import { authUnavailable, unauthenticated } from "./refusal.ts";
import type { FetchCredentials } from "./remote-keys.ts";

/**
 * TokenReview of Kubernetes: the API server knows whether the pod, the account and the Secret of a token still exist, which the
 * token's signature does not say.
 */

const PATH = "/apis/authentication.k8s.io/v1/tokenreviews";
const BODY_BYTES_MAX = 1_048_576;
const TIMEOUT_MS = 5_000;
const WAIT_MS = 5_000;
const RETRY_MS = 2_000;
/** Without repetitions: calls wait for a review. Failures in a row stop the requests; then one tries at a time. */
const LIMITS = { concurrentCallsMax: 32, retriesMax: 0, circuitFailuresMax: 5, circuitOpenMs: RETRY_MS };

/** `accepted`: without a review, by `whenUnavailable`. `unavailable`: refused for the same reason. */
export type ReviewResult = "authenticated" | "refused" | "unavailable" | "accepted";

export interface TokenReviewSettings {
  readonly issuer: string;
  /** URL of the API server; its path, such as that of a proxy, precedes that of the review. */
  readonly url: string;
  readonly audiences: readonly string[];
  /** "accept": the token's signature and claims are enough while the API server does not answer, or answers 429 or 5xx. */
  readonly whenUnavailable: "refuse" | "accept";
  readonly credentials: FetchCredentials | undefined;
  /** Longest time that a review waits until fewer are in flight; 5 s by default. */
  readonly waitMs?: number;
}

/** Receives what the reviews of an issuer show to operators. */
export interface ReviewObserver {
  readonly now: () => EpochMs;
  readonly onTokenReview?: ((result: ReviewResult) => void) | undefined;
  readonly logError?: ((message: string, cause: unknown) => void) | undefined;
}

/** Asks one API server about tokens: a bounded number at once, and not while it keeps failing. */
export class TokenReviewer {
  readonly #settings: TokenReviewSettings;
  readonly #observer: ReviewObserver;
  readonly #resilience = new Resilience(LIMITS, () => 0);
  readonly #slots = new Slots(LIMITS.concurrentCallsMax);
  readonly #outage: OutageReporter;
  #problem: unknown;

  constructor(settings: TokenReviewSettings, observer: ReviewObserver) {
    this.#settings = settings;
    this.#observer = observer;
    this.#outage = new OutageReporter(observer.now, (message) => observer.logError?.(message, this.#problem));
  }

  /** Rejects with UNAUTHENTICATED unless the API server knows the token as one of this subject, for one of the audiences. */
  async review(token: string, subject: string): Promise<void> {
    const { audiences } = this.#settings;
    const result = await this.#ask(token).then(
      (status) => refusalOf(status, subject, audiences) ?? "authenticated",
      (cause: unknown) => this.#withoutReview(cause),
    );
    this.#observer.onTokenReview?.(typeof result === "string" ? result : resultOf(result));
    if (typeof result !== "string") throw result;
    if (result === "authenticated") this.#outage.recovered();
  }

  /** Accepts only while the API server is away: other failures last until somebody corrects a mistake. */
  #withoutReview(cause: unknown): "accepted" | Refusal {
    if (this.#settings.whenUnavailable === "refuse" || !isAway(cause)) {
      return authUnavailable("the API server did not review the token", RETRY_MS, cause);
    }
    this.#problem = cause;
    this.#outage.failed(`tokens of ${this.#settings.issuer} are accepted without a review: the API server is away`);
    return "accepted";
  }

  async #ask(token: string): Promise<Readonly<Record<string, unknown>>> {
    await this.#slots.take(this.#settings.waitMs ?? WAIT_MS);
    try {
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      return await this.#resilience.run({
        system: this.#settings.issuer,
        path: PATH,
        safe: true,
        signal,
        attempt: () => ask(token, this.#settings, signal).catch(asAttempt),
        connected: () => false,
      });
    } finally {
      this.#slots.release();
    }
  }
}

/** Returns why the API server's answer refuses the token. */
function refusalOf(
  status: Readonly<Record<string, unknown>>,
  subject: string,
  expected: readonly string[],
): Refusal | undefined {
  if (status["authenticated"] !== true) return unauthenticated("revoked", "the API server does not accept the token");
  // A server that does not know audiences leaves them out: the token is then only known to be for the server itself.
  const audiences = Array.isArray(status["audiences"]) ? status["audiences"] : [];
  if (!expected.some((audience) => audiences.includes(audience))) {
    return unauthenticated("wrongAudience", "the API server names none of the audiences");
  }
  const user = isTable(status["user"]) ? status["user"]["username"] : undefined;
  return user === subject ? undefined : unauthenticated("invalid", "the API server names another subject");
}

function resultOf({ code }: Refusal): ReviewResult {
  return code === "UNAUTHENTICATED" ? "refused" : "unavailable";
}

/**
 * Asks the API server about a token that it never accepts, which shows whether it would review others. Changes nothing.
 *
 * @throws {Error} that says why no token could be reviewed
 */
export async function probeReview(settings: TokenReviewSettings): Promise<void> {
  try {
    await ask("stc-doctor", settings, AbortSignal.timeout(TIMEOUT_MS));
  } catch (cause) {
    const reason = cause instanceof EgressError ? egressReason(cause) : errorText(cause);
    const isForbidden = cause instanceof NotReviewed && cause.status === 403;
    throw new Error(isForbidden ? `${reason}: the service's account needs the role system:auth-delegator` : reason, {
      cause,
    });
  }
}

/** An answer that the API server has refused, such as 403 without the role, is a mistake that lasts until somebody corrects it. */
class NotReviewed extends Error {
  readonly status: number;

  constructor(status: number) {
    super(`the API server answered ${status}`);
    this.status = status;
  }
}

/** Lets the circuit count an API server that is away, and nothing that a token could cause. */
function asAttempt(cause: unknown): never {
  const isOverloaded = cause instanceof NotReviewed && (cause.status === 429 || cause.status >= 500);
  if (!isOverloaded && !(cause instanceof EgressError)) throw cause;
  const message = cause instanceof NotReviewed ? cause.message : `${cause.message} (${egressReason(cause)})`;
  throw new FailedAttempt(message, { origin: "transport", isUnavailable: true, answerStarted: false, sent: true });
}

function isAway(cause: unknown): boolean {
  return cause instanceof FailedAttempt || (cause instanceof Refusal && cause.code === "TARGET_UNAVAILABLE");
}

/** Bounds what runs at once; the rest waits in order. */
class Slots {
  readonly #waiting = new Set<() => void>();
  #free: number;

  constructor(max: number) {
    this.#free = max;
  }

  /** Too many reviews do not mean that the API server is away: otherwise many tokens could let one pass without a review. */
  async take(withinMs: number): Promise<void> {
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    const isTaken = await endedWithin(promise, withinMs);
    if (!isTaken && this.#waiting.delete(resolve)) throw new Error("too many tokens are being reviewed");
  }

  release(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#free += 1;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}

async function ask(token: string, { url, audiences, credentials }: TokenReviewSettings, signal: AbortSignal) {
  const { ca, token: own } = credentials?.() ?? {};
  const client = new EgressClient({
    addresses: OPERATED_ADDRESSES,
    // The CA is read for each request.
    keepsConnections: false,
    ...(ca !== undefined && { tls: { rootCert: Buffer.from(ca) } }),
  });
  const { origin, pathname } = new URL(url);
  const review = { apiVersion: "authentication.k8s.io/v1", kind: "TokenReview", spec: { token, audiences } };
  const answer = await client.send({
    method: "POST",
    url: new URL(`${origin}${pathname.replace(/\/$/, "")}${PATH}`),
    body: JSON.stringify(review),
    signal,
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
