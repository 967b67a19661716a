import { lookup } from "node:dns/promises";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { BlockList, isIP, type LookupFunction } from "node:net";
import { errorName } from "../../core/error-text.ts";
import { boundInterimAnswers, isLoopback } from "../../core/network.ts";
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
    return { kind: "later", reason: errorName(error), retryAfterMs: undefined };
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
    throw new ForbiddenAddress("the name resolves to a link-local or metadata address");
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
  if (status >= 200 && status < 300) return { kind: "accepted" };
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

/** Addresses that no notification may go to: link-local, cloud metadata services, unspecified, multicast and reserved. */
const FORBIDDEN = new BlockList();
for (const [network, bits] of [
  ["0.0.0.0", 8],
  ["169.254.0.0", 16],
  ["224.0.0.0", 3],
  // Metadata services with other than link-local addresses: Alibaba Cloud, Oracle Cloud.
  ["100.100.100.200", 32],
  ["192.0.0.192", 32],
] as const) {
  FORBIDDEN.addSubnet(network, bits, "ipv4");
}
for (const [network, bits] of [
  ["::", 128],
  ["fe80::", 10],
  ["ff00::", 8],
  // Metadata services: Amazon, Google.
  ["fd00:ec2::254", 128],
  ["fd20:ce::254", 128],
] as const) {
  FORBIDDEN.addSubnet(network, bits, "ipv6");
}

/** Returns whether sending to this address is forbidden. An IPv4 address embedded in an IPv6 one is checked too. */
export function isForbiddenAddress(address: string): boolean {
  const [plain = ""] = address.split("%", 1);
  const kind = isIP(plain);
  if (kind === 0) return true;
  if (kind === 4) return FORBIDDEN.check(plain, "ipv4");
  // An address that only one of the two parsers accepts is not valid.
  if (!URL.canParse(`http://[${plain}]`)) return true;
  const inner = innerAddress(plain);
  return FORBIDDEN.check(plain, "ipv6") || (inner !== undefined && FORBIDDEN.check(inner, "ipv4"));
}

/** Matches an embedded IPv4 address: mapped, compatible, translated, NAT64 with the well-known and the local prefix; and 6to4. */
const INNER = [
  /^(?:::ffff:|::ffff:0:|::|64:ff9b::|64:ff9b:1:(?:[0-9a-f:]*:)?)([0-9a-f]{1,4}):([0-9a-f]{1,4})$/,
  /^2002:([0-9a-f]{1,4}):([0-9a-f]{1,4}):[0-9a-f:]*$/,
] as const;

function innerAddress(address: string): string | undefined {
  // Normalize the address with the URL parser.
  const text = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [, high, low] = INNER.map((form) => form.exec(text)).find((found) => found !== null) ?? [];
  if (high === undefined || low === undefined) return undefined;
  const bits = Number.parseInt(high, 16) * 0x10000 + Number.parseInt(low, 16);
  return [24, 16, 8, 0].map((shift) => Math.floor(bits / 2 ** shift) % 256).join(".");
}

/** Returns the host of a URL as an address, without brackets; undefined when it is a name. */
function literalAddress(hostname: string): string | undefined {
  const bare = hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
  return isIP(bare) === 0 ? undefined : bare;
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
  return address !== undefined && isForbiddenAddress(address)
    ? "names a link-local, metadata, multicast or empty address"
    : undefined;
}
