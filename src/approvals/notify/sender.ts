import { lookup } from "node:dns/promises";
import { isForbiddenAddress, literalAddress } from "./address.ts";
import type { SignatureHeaders } from "./signature.ts";

/** What became of one attempt. */
export type Delivery =
  | { readonly kind: "taken" }
  /** The receiver wants nothing more, ever. */
  | { readonly kind: "gone" }
  | { readonly kind: "later"; readonly reason: string; readonly retryAfterMs: number | undefined };

export interface SendOptions {
  readonly url: string;
  readonly headers: SignatureHeaders;
  /** Milliseconds since 1970. */
  readonly nowMs: number;
  /** Of the whole exchange: name, connection, answer. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

const GONE = 410;
const WAIT_STATUSES = new Set([429, 503]);
const SECOND_MS = 1_000;

/**
 * One POST. Never rejects. No redirect is followed: what is signed goes to the address that was configured and nowhere else.
 * Of the answer only the status counts; its body is not read.
 */
export async function send(body: string, { url, headers, nowMs, timeoutMs, signal }: SendOptions): Promise<Delivery> {
  const ended = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  try {
    await Promise.race([assertReachable(new URL(url).hostname), rejectedBy(ended)]);
    const response = await fetch(url, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json", "user-agent": "safe-tool-call" },
      body,
      redirect: "manual",
      signal: ended,
      // Said outright: a variable of the environment could switch it off.
      tls: { rejectUnauthorized: true },
      decompress: false,
    });
    await response.body?.cancel();
    return deliveryOf(response, nowMs);
  } catch (error) {
    return { kind: "later", reason: faultOf(error), retryAfterMs: undefined };
  }
}

/**
 * The name is looked at before each attempt: it may have been pointed elsewhere. Rejected: connecting to the address found
 * here, for which this runtime's client would need the name in a second place; nothing of an answer is told to anybody.
 */
async function assertReachable(hostname: string): Promise<void> {
  const literal = literalAddress(hostname);
  const addresses = literal === undefined ? await lookup(hostname, { all: true }) : [{ address: literal }];
  if (addresses.some(({ address }) => isForbiddenAddress(address))) {
    throw new ForbiddenAddress("the name stands for a link-local or metadata address");
  }
}

class ForbiddenAddress extends Error {
  override readonly name = "ForbiddenAddress";
}

function rejectedBy(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

function deliveryOf({ status, headers }: Response, nowMs: number): Delivery {
  if (status >= 200 && status < 300) return { kind: "taken" };
  if (status === GONE) return { kind: "gone" };
  const retryAfterMs = WAIT_STATUSES.has(status) ? readRetryAfter(headers.get("retry-after"), nowMs) : undefined;
  return { kind: "later", reason: `status ${status}`, retryAfterMs };
}

/** Seconds, or a date (RFC 9110, 10.2.3). */
export function readRetryAfter(header: string | null, nowMs: number): number | undefined {
  if (header === null || header.length > 64) return undefined;
  if (/^\d{1,9}$/.test(header)) return Number(header) * SECOND_MS;
  const at = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} [\d:]{8} GMT$/.test(header) ? Date.parse(header) : Number.NaN;
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs);
}

/** Never the URL, which may be a secret: the runtime's messages may quote it. */
function faultOf(error: unknown): string {
  if (!(error instanceof Error)) return "failed";
  const code = "code" in error && typeof error.code === "string" ? error.code : undefined;
  return code === undefined ? error.name : `${error.name} ${code}`;
}
