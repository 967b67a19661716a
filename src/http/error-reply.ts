import type { FastifyReply } from "fastify";
import type { Failure } from "../core/call-result.ts";
import { REFUSALS, type Refusal } from "../core/errors.ts";
import type { Answer } from "../pipeline/answer.ts";

/** Suggested polling interval for a pending approval; a long poll with `?wait=` is better. */
const POLL_AFTER_SECONDS = "2";

/** Sends an answer of the pipeline, with the headers that its code requires. */
export function sendAnswer(reply: FastifyReply, { http, result }: Answer): FastifyReply {
  if (result.status === "pending") {
    reply.header("location", result.approval.statusUrl).header("retry-after", POLL_AFTER_SECONDS);
  } else if (result.status !== "success") {
    addHeaders(reply, result.error);
  }
  return sendJson(reply, http, result);
}

/** Sends a refusal outside of a call: listings, metrics, unknown routes. */
export function sendRefusal(reply: FastifyReply, refusal: Refusal): FastifyReply {
  const { stage, decision, http, retryable } = REFUSALS[refusal.code];
  const error = {
    code: refusal.code,
    stage,
    message: refusal.message,
    ...(refusal.details !== undefined && { details: refusal.details }),
    retryable: retryable === true,
    ...(refusal.retryAfterMs !== undefined && { retryAfterMs: refusal.retryAfterMs }),
  };
  addHeaders(reply, error);
  return sendJson(reply, http, { status: decision === "DENIED" ? "denied" : "error", error });
}

export function sendJson(reply: FastifyReply, status: number, body: unknown): FastifyReply {
  return reply
    .code(status)
    .header("content-type", "application/json; charset=utf-8")
    .header("cache-control", "no-store")
    .header("x-content-type-options", "nosniff")
    .send(JSON.stringify(body));
}

type ReplyError = Failure["error"];

function addHeaders(reply: FastifyReply, { code, details, retryAfterMs }: ReplyError): void {
  if (code === "UNAUTHENTICATED") reply.header("www-authenticate", 'Bearer realm="safe-tool-call"');
  if (code === "PERMISSION_DENIED") {
    const missing = details?.["missingPermissions"];
    const scope = Array.isArray(missing) ? missing.join(" ") : "";
    reply.header("www-authenticate", `Bearer error="insufficient_scope", scope="${scope.replace(/["\\]/g, "")}"`);
  }
  if (retryAfterMs !== undefined) reply.header("retry-after", String(Math.ceil(retryAfterMs / 1000)));
}
