import { z } from "zod";
import { FILTER_PARAMS, QUERY_PARAMS } from "../../audit/query/params.ts";
import { envelope } from "../request-guard.ts";
import { reportQuery } from "./approval-report.ts";
import { decisionBody, listQuery, showQuery } from "./approvals.ts";
import { rpcRequest } from "./rpc.ts";
import { modeBody } from "./sessions.ts";
import { FORMATS } from "./tools.ts";
import { decisionMessage } from "./webhooks.ts";

/** Authentication of a request: none, an agent's or an operator's token, either of these, or a signature over the body. */
export type Side = "anybody" | "agents" | "operators" | "either" | "signers";

export interface Operation {
  readonly summary: string;
  readonly side: Side;
  readonly body?: z.ZodType;
  readonly query?: z.ZodObject;
  readonly headers?: readonly string[];
  /** Status of a successful answer; 200 when omitted. */
  readonly success?: 201;
  /** Media type of a successful answer; JSON when omitted. */
  readonly produces?: "text/html" | "text/event-stream" | "text/plain";
  /** True when a successful request may have no answer: 204. */
  readonly empty?: true;
  /** Error code of a 404 that is specific to this route. */
  readonly missing?: "ENTRY_NOT_FOUND";
}

const CALL_HEADERS = ["Idempotency-Key", "Prefer", "traceparent", "tracestate"] as const;
const SIGNED_HEADERS = ["webhook-id", "webhook-timestamp", "webhook-signature"] as const;
const RESUME = ["Last-Event-ID"] as const;
const FORMAT = z.object({ format: z.enum(Object.keys(FORMATS)).optional() });

/** Builds a schema for parameters that are parsed individually elsewhere. */
function named(names: readonly string[]): z.ZodObject {
  return z.object(Object.fromEntries(names.map((name) => [name, z.string().optional()])));
}

/**
 * Descriptions of the routes. A route without an entry appears in the document, too; a test keeps entries and routes in step.
 */
export const OPERATIONS: Readonly<Record<string, Operation>> = {
  "POST /call": { summary: "Call a tool.", side: "agents", body: envelope, headers: CALL_HEADERS },
  "GET /tools": { summary: "The tools that this caller could use.", side: "agents", query: FORMAT },
  "GET /tools/:name": { summary: "One of them.", side: "agents", query: FORMAT },
  "GET /approvals": {
    summary: "Questions: one's own, or all for operators who decide.",
    side: "either",
    query: listQuery,
  },
  "GET /approvals/:id": { summary: "A question; ?wait= holds until it is answered.", side: "either", query: showQuery },
  "GET /approvals/:id/page": {
    summary: "A page that says how to decide; it decides nothing.",
    side: "anybody",
    produces: "text/html",
  },
  "POST /approvals/:id/decisions": { summary: "Approve or deny.", side: "operators", body: decisionBody },
  "POST /approvals/:id/revoke": { summary: "Take a yes back that has not run.", side: "operators" },
  "DELETE /approvals/:id": { summary: "Cancel one's own question.", side: "agents" },
  "GET /approvals/report": { summary: "How questions were answered.", side: "operators", query: reportQuery },
  "POST /webhooks/:name/decisions": {
    summary: "A decision from a signed notification.",
    side: "signers",
    body: decisionMessage,
    headers: SIGNED_HEADERS,
  },
  "POST /sessions": { summary: "Open a session.", side: "agents", success: 201 },
  "GET /sessions": { summary: "Sessions.", side: "operators" },
  "PUT /sessions/:id/mode": { summary: "Set a session's mode.", side: "operators", body: modeBody },
  "DELETE /sessions/:id": { summary: "End a session.", side: "either" },
  "GET /grants": { summary: "Remembered yeses.", side: "either" },
  "DELETE /grants/:id": { summary: "Take one back.", side: "operators" },
  "POST /reload": { summary: "Take over a configuration that has changed.", side: "operators" },
  "POST /rpc": {
    summary: "exec.approve, exec.deny and exec.list over JSON-RPC; 204 to what has no id.",
    side: "operators",
    body: rpcRequest,
    empty: true,
  },
  "GET /events": {
    summary: "What happens to questions, as server-sent events.",
    side: "either",
    headers: RESUME,
    produces: "text/event-stream",
  },
  "GET /audit": { summary: "Entries of the audit.", side: "operators", query: named(QUERY_PARAMS) },
  "GET /audit/stats": {
    summary: "The audit in figures.",
    side: "operators",
    query: named([...FILTER_PARAMS, "compare"]),
  },
  "GET /audit/:traceId": { summary: "Everything about one call.", side: "operators", missing: "ENTRY_NOT_FOUND" },
  "GET /audit/tail": {
    summary: "Entries as they are written, as server-sent events.",
    side: "operators",
    query: named(FILTER_PARAMS),
    headers: RESUME,
    produces: "text/event-stream",
  },
  "GET /audit/verify": { summary: "Whether the log is whole.", side: "operators" },
  "GET /healthz": { summary: "Whether the process lives.", side: "anybody" },
  "GET /readyz": { summary: "Whether calls are taken; details for operators.", side: "anybody" },
  "GET /metrics": { summary: "Prometheus metrics.", side: "operators", produces: "text/plain" },
  "GET /openapi.json": { summary: "This document.", side: "anybody" },
  "GET /.well-known/oauth-protected-resource": { summary: "Who issues tokens (RFC 9728).", side: "anybody" },
};
