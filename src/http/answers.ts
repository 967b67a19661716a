import type { Failure } from "../core/call-result.ts";
import type { Refusal } from "../core/errors.ts";
import { REFUSALS } from "../core/refusals.ts";
import type { Answer } from "../pipeline/answer.ts";
import type { EndpointAnswer } from "./endpoint.ts";

const JSON_HEADERS = { "content-type": "application/json; charset=utf-8", "cache-control": "no-store" } as const;
/** Suggested polling interval for a pending approval; a long poll with `?wait=` is better. */
const POLL_AFTER_SECONDS = "2";

export function json(status: number, value: unknown, more?: Pick<EndpointAnswer, "recorded">): EndpointAnswer {
  return { status, headers: JSON_HEADERS, body: JSON.stringify(value), ...more };
}

export function callAnswer({ http, result }: Answer): EndpointAnswer {
  const answer = json(http, result);
  if (result.status === "success" || result.status === "dryRun") return answer;
  const headers =
    result.status === "pending"
      ? { location: result.approval.statusUrl, "retry-after": POLL_AFTER_SECONDS }
      : headersOf(result.error);
  return { ...answer, headers: { ...JSON_HEADERS, ...headers } };
}

export function refusalAnswer(refusal: Refusal): EndpointAnswer {
  const { stage, decision, http, retryable } = REFUSALS[refusal.code];
  const error = {
    code: refusal.code,
    stage,
    message: refusal.message,
    ...(refusal.details !== undefined && { details: refusal.details }),
    retryable: retryable === true,
    ...(refusal.retryAfterMs !== undefined && { retryAfterMs: refusal.retryAfterMs }),
  };
  const answer = json(http, { status: decision === "DENIED" ? "denied" : "error", error });
  return { ...answer, headers: { ...JSON_HEADERS, ...headersOf(error) } };
}

/** Returns a refusal with a code that only HTTP has: an unknown route, a wrong method, a missing entry. */
export function deniedAnswer(status: number, code: string, message: string, details?: object): EndpointAnswer {
  const error = { code, stage: "REQUEST", message, ...(details !== undefined && { details }), retryable: false };
  return json(status, { status: "denied", error });
}

function headersOf({ code, details, retryAfterMs }: Failure["error"]): Record<string, string> {
  return {
    ...(code === "UNAUTHENTICATED" && { "www-authenticate": `Bearer ${REALM}` }),
    ...(code === "PERMISSION_DENIED" && { "www-authenticate": scopesMissing(details?.["missingPermissions"]) }),
    ...(retryAfterMs !== undefined && { "retry-after": String(Math.ceil(retryAfterMs / 1000)) }),
  };
}

function scopesMissing(missing: unknown): string {
  const scope = Array.isArray(missing) ? missing.join(" ").replace(/["\\]/g, "") : "";
  return `Bearer error="insufficient_scope"${scope === "" ? "" : `, scope="${scope}"`}`;
}

const REALM = 'realm="safe-tool-call"';

export const RESOURCE_METADATA = "/.well-known/oauth-protected-resource";

export function resourcePath(resource: string): string {
  return new URL(resource).pathname.replace(/\/$/, "");
}

interface Challenged {
  readonly status: number;
  readonly authorization: string | undefined;
  readonly wwwAuthenticate: unknown;
}

/**
 * Returns what sets `WWW-Authenticate` on a 401 (RFC 6750, 3): a token that was sent is called invalid; a request without one
 * only learns what is expected. Adds where the metadata is (RFC 9728, 5.1), also to a 403 that names scopes: the well-known path
 * goes between the host and the resource's path (3.1). The function returns undefined when nothing is to be set.
 */
export function challenges(resource: string | undefined): (answer: Challenged) => string | undefined {
  const url = resource && `${new URL(resource).origin}${RESOURCE_METADATA}${resourcePath(resource)}`;
  const metadata = url === undefined ? "" : `, resource_metadata="${url}"`;
  return ({ status, authorization = "", wwwAuthenticate }) => {
    if (status === 401) {
      return `Bearer ${REALM}${/^bearer /i.test(authorization) ? ', error="invalid_token"' : ""}${metadata}`;
    }
    return status === 403 && metadata !== "" && typeof wwwAuthenticate === "string"
      ? `${wwwAuthenticate}${metadata}`
      : undefined;
  };
}

/** Returns a public document, which caches may keep. */
export function published(type: string, body: string): EndpointAnswer {
  return { status: 200, headers: { "content-type": type, "cache-control": "public, max-age=300" }, body };
}
