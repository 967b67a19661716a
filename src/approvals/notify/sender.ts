import { isLoopback } from "../../core/network.ts";
import { addressProblem, literalAddress, RECEIVER_ADDRESSES } from "../../egress/addresses.ts";
import { EgressClient } from "../../egress/client.ts";
import { type EgressStream, egressReason } from "../../egress/request.ts";
import { retryAfterMs } from "../../egress/retry-after.ts";
import type { SignatureHeaders } from "./signature.ts";

export type Delivery =
  | { readonly kind: "accepted" }
  /** The receiver permanently refuses notifications. */
  | { readonly kind: "gone" }
  | { readonly kind: "later"; readonly reason: string; readonly retryAfterMs: number | undefined };

interface SendOptions {
  readonly url: string;
  readonly headers: SignatureHeaders;
  /** Unix milliseconds. */
  readonly nowMs: number;
  /** Limit for the whole exchange: name lookup, connection and response. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

const GONE = 410;
const WAIT_STATUSES = new Set([429, 503]);
/** Limit for `Retry-After`: a longer wait, perhaps set by mistake, would lose notifications. */
const RETRY_AFTER_MS_MAX = 6 * 3_600_000;

/**
 * Sends one POST request. Never rejects. Does not follow redirects: a signed message goes only to the configured address.
 * Reads only the status and the `Retry-After` header of the response, not the body.
 */
export async function send(body: string, { url, headers, nowMs, timeoutMs, signal }: SendOptions): Promise<Delivery> {
  try {
    const answer = await client.open({
      method: "POST",
      url: new URL(url),
      body,
      signal,
      timeoutMs,
      headers: { ...headers, "content-type": "application/json" },
      bodyBytesMax: 0,
      isRepeatable: false,
      acceptsUnboundedBody: true,
    });
    answer.close();
    return deliveryOf(answer, nowMs);
  } catch (error) {
    return { kind: "later", reason: egressReason(error), retryAfterMs: undefined };
  }
}

const client = new EgressClient({ addresses: RECEIVER_ADDRESSES, keepsConnections: false });

function deliveryOf({ status, headers }: EgressStream, nowMs: number): Delivery {
  if (status >= 200 && status < 300) return { kind: "accepted" };
  if (status === GONE) return { kind: "gone" };
  const asked = { now: () => nowMs, msMax: RETRY_AFTER_MS_MAX };
  const waitMs = WAIT_STATUSES.has(status) ? retryAfterMs(headers, asked) : undefined;
  return { kind: "later", reason: `status ${status}`, retryAfterMs: waitMs };
}

const URL_CHARACTERS_MAX = 2_048;

/** Returns why notifications may not go to the URL; undefined when they may. Does not quote the URL, which may be a secret. */
export function urlProblem(text: string): string | undefined {
  if (text.length > URL_CHARACTERS_MAX || !URL.canParse(text)) return "must be a URL that begins with https://";
  const { protocol, hostname, username, password } = new URL(text);
  if (protocol !== "https:" && !(protocol === "http:" && isLoopback(hostname))) {
    return "must begin with https:// (http:// is for loopback only)";
  }
  if (username !== "" || password !== "") return "contains credentials: messages are signed and need none";
  const address = literalAddress(hostname);
  return address !== undefined && addressProblem(address, RECEIVER_ADDRESSES) !== undefined
    ? "names a link-local, metadata, multicast or empty address"
    : undefined;
}
