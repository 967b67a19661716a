import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { REFUSALS, type RefusalCode, type Stage } from "../../core/errors.ts";
import { envelope } from "../door.ts";
import { decisionBody } from "./approvals.ts";
import { modeBody } from "./sessions.ts";

/** Who may ask: nobody in particular, agents, operators, either of them with a token of their own, or who signs the body. */
type Side = "anybody" | "agents" | "operators" | "either" | "signers";

interface Operation {
  readonly summary: string;
  readonly side: Side;
  readonly body?: z.ZodType;
  /** What has gone well is answered with; 200 when left out. */
  readonly success?: 201;
}

/** What is said of each door. Every route is described, one that has no row too; a test keeps rows and routes together. */
export const OPERATIONS: Readonly<Record<string, Operation>> = {
  "POST /call": { summary: "Call a tool.", side: "agents", body: envelope },
  "GET /tools": { summary: "The tools that this caller could use.", side: "agents" },
  "GET /tools/:name": { summary: "One of them.", side: "agents" },
  "GET /approvals": { summary: "Questions: one's own, or all for operators who decide.", side: "either" },
  "GET /approvals/:id": { summary: "A question; ?wait= holds until it is answered.", side: "either" },
  "GET /approvals/:id/page": { summary: "A page that says how to decide; it decides nothing.", side: "anybody" },
  "POST /approvals/:id/decisions": { summary: "Approve or deny.", side: "operators", body: decisionBody },
  "POST /approvals/:id/revoke": { summary: "Take a yes back that has not run.", side: "operators" },
  "DELETE /approvals/:id": { summary: "Cancel one's own question.", side: "agents" },
  "GET /approvals/report": { summary: "How questions were answered.", side: "operators" },
  "POST /webhooks/:name/decisions": { summary: "A decision from a signed notification.", side: "signers" },
  "POST /sessions": { summary: "Open a session.", side: "agents", success: 201 },
  "GET /sessions": { summary: "Sessions.", side: "operators" },
  "PUT /sessions/:id/mode": { summary: "Set a session's mode.", side: "operators", body: modeBody },
  "DELETE /sessions/:id": { summary: "End a session.", side: "either" },
  "GET /grants": { summary: "Remembered yeses.", side: "either" },
  "DELETE /grants/:id": { summary: "Take one back.", side: "operators" },
  "POST /reload": { summary: "Take over a configuration that has changed.", side: "operators" },
  "POST /rpc": { summary: "exec.approve, exec.deny and exec.list over JSON-RPC.", side: "operators" },
  "GET /events": { summary: "What happens to questions, as server-sent events.", side: "either" },
  "GET /audit": { summary: "Entries of the audit.", side: "operators" },
  "GET /audit/stats": { summary: "The audit in figures.", side: "operators" },
  "GET /audit/:traceId": { summary: "Everything about one call.", side: "operators" },
  "GET /audit/tail": { summary: "Entries as they are written, as server-sent events.", side: "operators" },
  "GET /audit/verify": { summary: "Whether the log is whole.", side: "operators" },
  "GET /healthz": { summary: "Whether the process lives.", side: "anybody" },
  "GET /readyz": { summary: "Whether calls are taken; details for operators.", side: "anybody" },
  "GET /metrics": { summary: "Prometheus metrics.", side: "operators" },
  "GET /openapi.json": { summary: "This document.", side: "anybody" },
  "GET /.well-known/oauth-protected-resource": { summary: "Who issues tokens (RFC 9728).", side: "anybody" },
};

/** What the doors refuse with: the table's, and two more for what is no route and no entry of the audit. */
const CODES = [...(Object.keys(REFUSALS) as RefusalCode[]), "ROUTE_NOT_FOUND", "ENTRY_NOT_FOUND"] as const;
const STAGES: readonly Stage[] = [...new Set(Object.values(REFUSALS).map(({ stage }) => stage))];
/** Where a request for anything but a call can end. */
const DOOR_STAGES: readonly Stage[] = ["REQUEST", "AUTH", "LIMIT", "REGISTRY", "PERMISSION", "APPROVAL", "AUDIT"];
/** A client that is gone is told nothing. */
const NOT_SENT = 499;

/**
 * `/openapi.json`: the doors of this service as OpenAPI 3.1, made of the routes that are really there and the schemas that they
 * read bodies with. No tool's name and no path of a file stands in it.
 */
export function openapiRoute(app: FastifyInstance): void {
  const routes: Route[] = [];
  app.addHook("onRoute", ({ method, url }) => {
    for (const one of [method].flat()) if (one !== "HEAD") routes.push({ method: one, url });
  });
  let written: string | undefined;
  app.get("/openapi.json", (_request, reply) => {
    written ??= JSON.stringify(describe(routes));
    return reply
      .header("content-type", "application/json; charset=utf-8")
      .header("cache-control", "public, max-age=300")
      .send(written);
  });
}

interface Route {
  readonly method: string;
  readonly url: string;
}

function describe(routes: readonly Route[]): unknown {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const { method, url } of routes) {
    const path = url.replace(/:([A-Za-z]+)/g, "{$1}");
    paths[path] = { ...paths[path], [method.toLowerCase()]: operationOf({ method, url }) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Safe Tool Call",
      version: "1",
      description: "A governed tool-call proxy. Which tools there are, GET /tools tells a caller.",
    },
    paths,
    components: {
      securitySchemes: {
        agents: { type: "http", scheme: "bearer", bearerFormat: "JWT" },
        operators: { type: "http", scheme: "bearer", bearerFormat: "JWT" },
      },
      schemas: { Refusal: refusalSchema(), Success: SUCCESS, Pending: PENDING },
    },
  };
}

function operationOf({ method, url }: Route): unknown {
  const row = OPERATIONS[`${method} ${url}`];
  const names = [...url.matchAll(/:([A-Za-z]+)/g)].map(([, name]) => name);
  const isCall = url === "/call";
  return {
    operationId: `${method.toLowerCase()}${url.replace(/[^A-Za-z]+([A-Za-z])?/g, (_, next = "") => String(next).toUpperCase())}`,
    ...(row !== undefined && { summary: row.summary }),
    ...securityOf(row?.side),
    ...(names.length > 0 && {
      parameters: names.map((name) => ({ name, in: "path", required: true, schema: { type: "string" } })),
    }),
    ...(row?.body !== undefined && { requestBody: { required: true, content: json(bodyOf(row.body)) } }),
    responses: {
      [row?.success ?? 200]: { description: "As asked.", ...(isCall && { content: json(reference("Success")) }) },
      ...(url === "/readyz" && { 503: { description: "Not now." } }),
      ...(isCall && { 202: { description: "A person is asked.", content: json(reference("Pending")) } }),
      ...(row?.side !== "anybody" && refusalsOf(isCall ? STAGES : DOOR_STAGES)),
      default: { description: "Refused.", content: json(reference("Refusal")) },
    },
  };
}

function securityOf(side: Side = "either"): { readonly security?: readonly Record<string, readonly string[]>[] } {
  if (side === "anybody" || side === "signers") return { security: [] };
  return { security: (side === "either" ? ["agents", "operators"] : [side]).map((scheme) => ({ [scheme]: [] })) };
}

/** One answer for each HTTP status, with the codes that come with it. */
function refusalsOf(stages: readonly Stage[]): Record<string, unknown> {
  const byStatus = new Map<number, string[]>();
  for (const [code, { http, decision, stage }] of Object.entries(REFUSALS)) {
    if (decision === "PENDING" || http === NOT_SENT || !stages.includes(stage)) continue;
    byStatus.set(http, [...(byStatus.get(http) ?? []), code]);
  }
  return Object.fromEntries(
    [...byStatus].map(([http, codes]) => [
      http,
      { description: codes.join(", "), content: json(reference("Refusal")) },
    ]),
  );
}

function bodyOf(schema: z.ZodType): unknown {
  const { $schema: _, ...shape } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  return shape;
}

function reference(name: string): { readonly $ref: string } {
  return { $ref: `#/components/schemas/${name}` };
}

function json(schema: unknown): unknown {
  return { "application/json": { schema } };
}

const text = { type: "string" } as const;

const SECRETS_SENT = { type: "array", items: text, description: "Arguments in which a secret stood." } as const;

const SUCCESS = {
  type: "object",
  required: ["status", "tool", "untrusted", "result", "filteredFields", "traceId", "durationMs"],
  properties: {
    status: { const: "success" },
    tool: text,
    untrusted: { const: true, description: "What a target says is data, and nobody's instruction." },
    result: {},
    filteredFields: { type: "array", items: text },
    traceId: text,
    durationMs: { type: "number" },
    secretsSent: SECRETS_SENT,
  },
} as const;

const PENDING = {
  type: "object",
  required: ["status", "approval", "traceId"],
  properties: {
    status: { const: "pending" },
    approval: {
      type: "object",
      required: ["id", "decideBy", "statusUrl", "options", "message"],
      properties: {
        id: text,
        decideBy: { type: "string", format: "date-time" },
        statusUrl: text,
        options: { type: "array", items: { enum: ["cancel", "once", "session"] } },
        message: text,
      },
    },
    traceId: text,
    secretsSent: SECRETS_SENT,
  },
} as const;

function refusalSchema(): unknown {
  return {
    type: "object",
    required: ["status", "error"],
    properties: {
      status: { enum: ["denied", "error"] },
      error: {
        type: "object",
        required: ["code", "stage", "message", "retryable"],
        properties: {
          code: { enum: CODES },
          stage: { enum: STAGES },
          message: text,
          details: { type: "object" },
          retryable: { type: "boolean" },
          retryAfterMs: { type: "number" },
        },
      },
      traceId: text,
      secretsSent: SECRETS_SENT,
    },
  };
}
