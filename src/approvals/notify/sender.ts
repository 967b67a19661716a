import { lookup } from "node:dns/promises";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import type { LookupFunction } from "node:net";
import { boundInterimAnswers } from "../../core/interim-answers.ts";
import { isForbiddenAddress, literalAddress } from "./address.ts";
import type { SignatureHeaders } from "./signature.ts";

/** Result of one attempt. */
export type Delivery =
  | { readonly kind: "taken" }
  /** The receiver permanently refuses notifications. */
  | { readonly kind: "gone" }
  | { readonly kind: "later"; readonly reason: string; readonly retryAfterMs: number | undefined };

export interface SendOptions {
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
const SECOND_MS = 1_000;

/**
 * Sends one POST request. Never rejects. Does not follow redirects: a signed message goes only to the configured address.
 * Reads only the status and the `Retry-After` header of the response, not the body.
 */
export async function send(body: string, { url, headers, nowMs, timeoutMs, signal }: SendOptions): Promise<Delivery> {
  const ended = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  try {
    return deliveryOf(
      await Promise.race([post(body, { url: new URL(url), headers, ended }), rejectedBy(ended)]),
      nowMs,
    );
  } catch (error) {
    return { kind: "later", reason: faultOf(error), retryAfterMs: undefined };
  }
}

interface Post {
  readonly url: URL;
  readonly headers: SignatureHeaders;
  readonly ended: AbortSignal;
}

/**
 * Posts with `node:http(s)`. Rejected: `fetch`, which resolves the name again itself, and lets an environment variable redirect
 * all requests to a proxy, even those to loopback.
 */
function post(body: string, { url, headers, ended }: Post): Promise<IncomingMessage> {
  const literal = literalAddress(url.hostname);
  if (literal !== undefined) assertReachable([literal]);
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const request = url.protocol === "https:" ? requestHttps : requestHttp;
  const sent = request(
    {
      ...{ method: "POST", agent: false, lookup: lookUp, signal: ended, family: 0 },
      ...{ host: literal ?? url.hostname, port: url.port, path: `${url.pathname}${url.search}` },
      headers: {
        ...headers,
        "content-type": "application/json",
        "content-length": Buffer.byteLength(body),
        "user-agent": "safe-tool-call",
      },
      // Set explicitly: an environment variable could disable it.
      rejectUnauthorized: true,
    },
    (response) => {
      response.on("error", () => {});
      response.destroy();
      resolve(response);
    },
  );
  boundInterimAnswers(sent);
  sent.on("upgrade", (response, socket) => {
    socket.destroy();
    resolve(response);
  });
  sent.on("error", reject);
  sent.end(body);
  return promise;
}

/** Resolves the name and checks exactly the addresses that the connection uses, to prevent DNS rebinding. */
const lookUp: LookupFunction = (hostname, { family, hints }, callback) => {
  lookup(hostname, { all: true, ...(family !== undefined && { family }), ...(hints !== undefined && { hints }) })
    .then((addresses) => {
      assertReachable(addresses.map(({ address }) => address));
      callback(null, addresses);
    })
    .catch((error: NodeJS.ErrnoException) => callback(error, []));
};

function assertReachable(addresses: readonly string[]): void {
  if (addresses.some(isForbiddenAddress)) {
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

function deliveryOf({ statusCode: status = 0, headers }: IncomingMessage, nowMs: number): Delivery {
  if (status >= 200 && status < 300) return { kind: "taken" };
  if (status === GONE) return { kind: "gone" };
  const retryAfterMs = WAIT_STATUSES.has(status) ? readRetryAfter(headers["retry-after"], nowMs) : undefined;
  return { kind: "later", reason: `status ${status}`, retryAfterMs };
}

/** Reads `Retry-After`, in seconds or as a date (RFC 9110, 10.2.3). Returns milliseconds. */
export function readRetryAfter(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined || header.length > 64) return undefined;
  if (/^\d{1,9}$/.test(header)) return Number(header) * SECOND_MS;
  const at = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} [\d:]{8} GMT$/.test(header) ? Date.parse(header) : Number.NaN;
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs);
}

/** Returns the error's name and code only: the runtime's messages may quote the URL, which may be a secret. */
function faultOf(error: unknown): string {
  if (!(error instanceof Error)) return "failed";
  const code = "code" in error && typeof error.code === "string" ? error.code : undefined;
  return code === undefined ? error.name : `${error.name} ${code}`;
}
