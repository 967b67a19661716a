import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { z } from "zod";
import { Refusal } from "../core/errors.ts";
import { isTable } from "../core/json.ts";
import { isLoopback } from "../core/loopback.ts";
import { parseTracestate } from "../core/tracing.ts";
import type { WrongTokens } from "./connections/wrong-tokens.ts";
import { parseStrictJson, StrictJsonError } from "./strict-json.ts";

/** Limits on a request's body and duration. */
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
  /** Tracks sources that sent too many wrong tokens: their tokens are no longer verified. Without it, every token is. */
  readonly wrongTokens?: WrongTokens | undefined;
}

export interface RequestGuardOptions extends BodyLimits, PeerLimits {}

const TOOL_CHARACTERS_MAX = 256;

/** The body of `POST /call`. Unknown fields are refused, so that nobody believes that they had an effect. */
export const envelope = z.strictObject({
  tool: z.string().min(1).max(TOOL_CHARACTERS_MAX),
  args: z.custom<Readonly<Record<string, unknown>>>(isTable, "must be an object").meta({ type: "object" }).default({}),
  session: z
    .string()
    .regex(/^[\x21-\x7e]{1,128}$/)
    .optional(),
  callId: z
    .string()
    .regex(/^[\x21-\x7e]{1,128}$/)
    .optional(),
  reason: z.string().max(1_000).optional(),
  approval: z.strictObject({ id: z.string().regex(/^[\x21-\x7e]{1,128}$/) }).optional(),
});

export type Envelope = z.output<typeof envelope>;

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
export function checkPeerHeaders(request: IncomingMessage, options: PeerLimits): void {
  const twice = repeatedHeader(request.rawHeaders);
  if (twice !== undefined) throw new Refusal("MALFORMED_REQUEST", `The header ${twice} stands twice.`);
  const { host, origin, expect } = request.headers;
  const { url = "/" } = request;
  if (host === undefined && request.httpVersion === "1.1") {
    throw new Refusal("MALFORMED_REQUEST", "Send the header Host: with the name under which you reach this service.");
  }
  if (expect !== undefined && expect.toLowerCase() !== "100-continue") {
    throw new Refusal("MALFORMED_REQUEST", "Send no Expect header, or Expect: 100-continue.");
  }
  const isOurs =
    options.anyHost === true ||
    (namesUs(host ?? "", options) && (url.startsWith("/") || namesUs(authorityOf(url), options)));
  if (!isOurs) {
    throw new Refusal(
      "HOST_NOT_ALLOWED",
      "The Host header does not name this service: use a name that its operators allow.",
    );
  }
  if (origin !== undefined && !options.allowedOrigins.includes(origin)) {
    throw new Refusal("HOST_NOT_ALLOWED", "Web pages may not call this service: their Origin is not allowed.");
  }
  options.wrongTokens?.assertRoom(request);
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

const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/;

/**
 * Reads the caller's idempotency key: the same key with the same arguments is the same call.
 *
 * @throws {Refusal} MALFORMED_REQUEST
 */
export function readIdempotencyKey({ "idempotency-key": header }: IncomingHttpHeaders): string | undefined {
  if (header === undefined) return undefined;
  if (typeof header === "string" && IDEMPOTENCY_KEY.test(header)) return header;
  throw new Refusal("MALFORMED_REQUEST", "Idempotency-Key must have 1 to 255 visible ASCII characters.");
}

const WAIT_SECONDS_MAX = 55;
const PREFER_CHARACTERS_MAX = 256;

/** Reads `Prefer: wait=N` (RFC 7240) in milliseconds, at most 55 s. Ignores anything else, as the RFC requires. */
export function readWaitMs({ prefer }: IncomingHttpHeaders): number {
  if (typeof prefer !== "string" || prefer.length > PREFER_CHARACTERS_MAX) return 0;
  for (const wish of prefer.split(/[,;]/)) {
    const [, seconds] = /^wait="?(\d{1,6})"?$/i.exec(wish.trim()) ?? [];
    if (seconds !== undefined) return Math.min(Number(seconds), WAIT_SECONDS_MAX) * 1_000;
  }
  return 0;
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

/** @throws {Refusal} MALFORMED_REQUEST naming the field */
export function parseEnvelope(body: unknown): Envelope {
  if (isPlainEnvelope(body)) return body;
  const parsed = envelope.safeParse(body);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.slice(0, 10).map((issue) => ({
    path: issue.path.map(String).join(".") || "(body)",
    message: issue.message.slice(0, 200),
  }));
  throw new Refusal("MALFORMED_REQUEST", "The body must be {tool, args, session?, callId?, reason?, approval?}.", {
    details: { issues },
  });
}

/** Recognizes `{tool, args}` without further fields, the form of most calls, which the schema would not change. */
function isPlainEnvelope(body: unknown): body is Envelope {
  if (!isTable(body)) return false;
  const { tool, args } = body;
  const isNamed = typeof tool === "string" && tool.length > 0 && tool.length <= TOOL_CHARACTERS_MAX;
  return isNamed && isTable(args) && Object.keys(body).length === 2;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$/;

/** Reads the W3C trace context; ignores a malformed one, as its specification requires. */
export function readTraceparent(header: string | string[] | undefined): string | undefined {
  if (typeof header !== "string") return undefined;
  const [, version, traceId, parentId] = TRACEPARENT.exec(header) ?? [];
  if (version === undefined || version === "ff" || /^0+$/.test(traceId ?? "") || /^0+$/.test(parentId ?? ""))
    return undefined;
  return header;
}

export function readTracestate(header: string | string[] | undefined): string | undefined {
  return typeof header === "string" ? parseTracestate(header) : undefined;
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
function namesUs(host: string, { allowedHosts }: PeerLimits): boolean {
  const name = host.replace(/:\d{0,5}$/, "").toLowerCase();
  const bare = name.replace(/([^.])\.$/, "$1");
  return isLoopback(bare) || allowedHosts.includes(name) || allowedHosts.includes(bare);
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
  const [type = "", ...parameters] = contentType?.split(";").map(withoutBlanks) ?? [];
  return type.toLowerCase() === JSON_TYPE && parameters.every(meansNothing);
}

function meansNothing(parameter: string): boolean {
  if (parameter === "") return true;
  const [whole, name = "", token, quoted = ""] = PARAMETER.exec(parameter) ?? [];
  if (whole === undefined) return false;
  return !/^charset/i.test(name) || /^utf-?8$/i.test(token ?? quoted);
}

/** Removes spaces and tabs, the only whitespace around a header's parts. A regular expression would take quadratic time. */
function withoutBlanks(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isBlank(text[start])) start += 1;
  while (end > start && isBlank(text[end - 1])) end -= 1;
  return text.slice(start, end);
}

function isBlank(character: string | undefined): boolean {
  return character === " " || character === "\t";
}

export function tooLarge(bodyBytesMax: number): Refusal {
  return new Refusal("PAYLOAD_TOO_LARGE", `The body is over ${bodyBytesMax} bytes.`, { details: { bodyBytesMax } });
}
