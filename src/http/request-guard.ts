import type { IncomingHttpHeaders } from "node:http";
import type { z } from "zod";
import { Refusal } from "../core/errors.ts";
import { isLoopback } from "../core/network.ts";
import { parseStrictJson, StrictJsonError } from "../core/strict-json.ts";
import type { WrongTokens } from "./connections/request-limits.ts";
import type { ReceivedRequest } from "./messages.ts";

export interface BodyLimits {
  readonly bodyBytesMax: number;
  readonly bodyDepthMax: number;
  readonly bodyKeysMax: number;
  readonly requestTimeoutMs: number;
}

/** Hosts and origins that are accepted, in addition to loopback names and clients that send no Origin. */
export interface PeerLimits {
  /** Accepts any Host: for listeners that serve only token holders and probes. */
  readonly anyHost?: boolean;
  readonly allowedHosts: readonly string[];
  readonly allowedOrigins: readonly string[];
  /** Refuses loopback names: for listeners that are not on loopback. */
  readonly noLoopbackNames?: boolean | undefined;
  /** Returns whether the origin is that of the listener's own pages. The request's Host is allowed. */
  readonly isOwnOrigin?: ((origin: string, request: ReceivedRequest) => boolean) | undefined;
  /** Tracks sources that sent too many wrong tokens: their tokens are no longer verified. Without it, every token is. */
  readonly wrongTokens?: WrongTokens | undefined;
}

/**
 * Headers that must not be repeated, because two readers could use different ones. Usual spellings only; others match in
 * lower case.
 */
const SINGLE_HEADERS: ReadonlyMap<string, number> = new Map(
  ["Host", "Origin", "Authorization", "Content-Type", "Content-Length", "Content-Encoding", "Idempotency-Key"].flatMap(
    (name, index) => [
      [name, 1 << index],
      [name.toLowerCase(), 1 << index],
    ],
  ),
);

/**
 * Checks Host and Origin. A web page can make its visitor's browser send requests here (DNS rebinding, cross-site forms), but
 * not with the service's name in `Host` or without the page's own `Origin`. A request target that is a whole URL also names a
 * host, which takes precedence over `Host` (RFC 9112, 3.2.2): then both are checked.
 *
 * @throws {Refusal} HOST_NOT_ALLOWED, MALFORMED_REQUEST, RATE_LIMITED
 */
export function checkPeerHeaders(request: ReceivedRequest, options: PeerLimits): void {
  const repeated = repeatedHeader(request.rawHeaders);
  if (repeated !== undefined) throw new Refusal("MALFORMED_REQUEST", `The header ${repeated} appears twice.`);
  const { host, origin, expect, upgrade } = request.headers;
  const { url = "/" } = request;
  if (host === undefined && request.httpVersion === "1.1") {
    throw new Refusal("MALFORMED_REQUEST", "Send the header Host: with the name under which you reach this service.");
  }
  if (expect !== undefined && expect.toLowerCase() !== "100-continue") {
    throw new Refusal("MALFORMED_REQUEST", "Send no Expect header, or Expect: 100-continue.");
  }
  if (upgrade !== undefined && !isUnasked(upgrade)) {
    throw new Refusal("MALFORMED_REQUEST", "This service speaks HTTP/1.1 alone: send no Upgrade header.");
  }
  const isAllowed =
    options.anyHost === true ||
    (isAllowedHost(host ?? "", options) && (url.startsWith("/") || isAllowedHost(authorityOf(url), options)));
  if (!isAllowed) {
    throw new Refusal(
      "HOST_NOT_ALLOWED",
      "The Host header does not name this service: use a name that its operators allow.",
    );
  }
  const isForeign = origin !== undefined && !options.allowedOrigins.includes(origin);
  if (isForeign && options.isOwnOrigin?.(origin, request) !== true) {
    throw new Refusal("HOST_NOT_ALLOWED", "Web pages may not call this service: their Origin is not allowed.");
  }
  options.wrongTokens?.assertRoom(request);
}

/** Protocols that HTTP clients offer with every request: curl and Java's clients. Such an offer is ignored. */
const UNASKED_OFFER = /^\s*(?:h2c|TLS\/1\.[0-3])\s*$/i;

function isUnasked(upgrade: string): boolean {
  return upgrade.split(",").every((protocol) => UNASKED_OFFER.test(protocol));
}

/**
 * Checks what the headers declare about the body, before any of it is read.
 *
 * @throws {Refusal} PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, MALFORMED_REQUEST
 */
export function checkBodyHeaders(headers: IncomingHttpHeaders, { bodyBytesMax }: BodyLimits): void {
  if (Number(headers["content-length"] ?? 0) > bodyBytesMax) throw tooLarge(bodyBytesMax);
  const coding = headers["transfer-encoding"];
  if (coding !== undefined && coding.toLowerCase() !== "chunked") {
    throw new Refusal(
      "MALFORMED_REQUEST",
      "Send the body with Content-Length, or with Transfer-Encoding: chunked alone.",
    );
  }
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") {
    throw new Refusal("UNSUPPORTED_MEDIA_TYPE", "Send the body without Content-Encoding.");
  }
  if (!isJson(headers["content-type"])) {
    throw new Refusal("UNSUPPORTED_MEDIA_TYPE", "Send Content-Type: application/json.");
  }
}

/**
 * Parses the body strictly: what was checked must be what runs, so ambiguous JSON is refused.
 *
 * @throws {Refusal} MALFORMED_REQUEST
 */
export function parseBody(body: Uint8Array, limits: BodyLimits): unknown {
  try {
    return parseStrictJson(body, {
      depthMax: limits.bodyDepthMax,
      keysMax: limits.bodyKeysMax,
      elementsMax: limits.bodyKeysMax,
    });
  } catch (error) {
    if (!(error instanceof StrictJsonError)) throw error;
    throw new Refusal("MALFORMED_REQUEST", `${error.message}.`);
  }
}

const ISSUES_MAX = 10;
const ISSUE_CHARACTERS_MAX = 200;

/** Returns the schema's issues as refusals show them; `whole` names the value itself. */
export function issuesOf({ issues }: z.core.$ZodError, whole = "(whole)"): readonly object[] {
  return issues.slice(0, ISSUES_MAX).map(({ path, message }) => ({
    path: path.map(String).join(".").slice(0, ISSUE_CHARACTERS_MAX) || whole,
    message: message.slice(0, ISSUE_CHARACTERS_MAX),
  }));
}

function repeatedHeader(rawHeaders: readonly string[]): string | undefined {
  let seen = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const raw = rawHeaders[index] ?? "";
    const bit = SINGLE_HEADERS.get(raw) ?? SINGLE_HEADERS.get(raw.toLowerCase()) ?? 0;
    if ((seen & bit) !== 0) return raw.toLowerCase();
    seen |= bit;
  }
  return undefined;
}

/**
 * Returns true when the host is allowed. Ignores the port, since an attacker's page cannot forge the name, and a trailing
 * dot.
 */
function isAllowedHost(host: string, { allowedHosts, noLoopbackNames }: PeerLimits): boolean {
  const name = host.replace(/:\d{0,5}$/, "").toLowerCase();
  const bare = name.replace(/([^.])\.$/, "$1");
  return (noLoopbackNames !== true && isLoopback(bare)) || allowedHosts.includes(name) || allowedHosts.includes(bare);
}

/** Returns `host:port` of a URL, including any user info, which never matches an allowed name. */
function authorityOf(url: string): string {
  const [, authority = ""] = /^[a-z]{1,8}:\/\/([^/?#]*)/i.exec(url) ?? [];
  return authority;
}

/** The only accepted media type, in the spelling that most clients send. */
const JSON_TYPE = "application/json";
/** Matches `name=value` or `name="value"` (RFC 9110, 5.6.6). */
const PARAMETER = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+)|"([^"\\]*)")$/;

/** Accepts JSON with any parameters, which have no meaning (RFC 8259, 11), except a charset other than UTF-8. */
function isJson(contentType: string | undefined): boolean {
  if (contentType === JSON_TYPE) return true;
  const [type = "", ...parameters] = contentType?.split(";").map(trimmed) ?? [];
  return type.toLowerCase() === JSON_TYPE && parameters.every(isIgnorable);
}

function isIgnorable(parameter: string): boolean {
  if (parameter === "") return true;
  const [whole, name = "", token, quoted = ""] = PARAMETER.exec(parameter) ?? [];
  if (whole === undefined) return false;
  return !/^charset/i.test(name) || /^utf-?8$/i.test(token ?? quoted);
}

/** Removes spaces and tabs, the only whitespace around a header's parts. A regular expression would take quadratic time. */
function trimmed(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isSpaceOrTab(text[start])) start += 1;
  while (end > start && isSpaceOrTab(text[end - 1])) end -= 1;
  return text.slice(start, end);
}

function isSpaceOrTab(character: string | undefined): boolean {
  return character === " " || character === "\t";
}

export function tooLarge(bodyBytesMax: number): Refusal {
  return new Refusal("PAYLOAD_TOO_LARGE", `The body is over ${bodyBytesMax} bytes.`, { details: { bodyBytesMax } });
}
