import { Refusal } from "../../core/errors.ts";
import type { BusyReason } from "../../runtime/reload/types.ts";
import { json, RESOURCE_METADATA, resourcePath } from "../answers.ts";
import { type Endpoint, type EndpointAnswer, endpoint, perListener } from "../endpoint.ts";
import { openApiDocument } from "../openapi.ts";

const METRICS_PERMISSION = "metrics:read";
/** Probes reach the listeners of the calls and of the console, too. */
const ALL = ["agents", "operators", "console"] as const;
const anyObject = { type: "object" } as const;

/** Limits of one answer; the log has every problem. */
const PROBLEMS_MAX = 100;
const PROBLEM_CHARACTERS_MAX = 1_000;

const BUSY = {
  rate: ["RATE_LIMITED", "The configuration was read too often: reload.perMinuteMax."],
  lingering: ["OVERLOADED", "Calls are still in progress on several earlier configurations."],
  closing: ["SHUTTING_DOWN", "The service is shutting down."],
} as const satisfies Record<BusyReason, readonly [string, string]>;

const state: readonly Endpoint[] = [
  endpoint({
    method: "GET",
    path: "/healthz",
    listeners: ALL,
    summary: "Whether the process is alive.",
    audience: "anybody",
    anyHost: true,
    audited: "no",
    handle: () => json(200, { status: "ok" }),
  }),
  endpoint({
    method: "GET",
    path: "/readyz",
    listeners: ALL,
    summary: "Whether calls are accepted; details for operators.",
    audience: "anybody",
    permission: METRICS_PERMISSION,
    anyHost: true,
    responses: { 200: {}, 503: { description: "Not now.", schema: anyObject } },
    audited: "no",
    async handle({ caller }, services) {
      const reasons = services.notReady();
      const details = caller !== undefined && {
        systems: await services.systems(),
        audit: services.audit?.(),
        ...(services.configuration !== undefined && { configuration: services.configuration() }),
        confinement: services.confinement?.(),
        revocations: services.revocations?.(),
        halts: services.halts?.describe(),
      };
      return reasons.length === 0
        ? json(200, { status: "ready", ...details })
        : json(503, { status: "not_ready", reasons, ...details });
    },
  }),
  endpoint({
    method: "GET",
    path: "/metrics",
    listeners: ["agents", "operators"],
    summary: "Prometheus metrics.",
    audience: "operators",
    permission: METRICS_PERMISSION,
    responses: { 200: { type: "text/plain" } },
    audited: "no",
    async handle(_request, { metrics }) {
      const headers = { "content-type": metrics.contentType, "cache-control": "no-store" };
      return { status: 200, headers, body: await metrics.text() };
    },
  }),
  endpoint({
    method: "POST",
    path: "/reload",
    summary: "Adopt a changed configuration.",
    audience: "operators",
    permission: "service:reload",
    recordsForgeries: true,
    needs: ["reload"],
    responses: { 200: {}, 422: { description: "The configuration is refused.", schema: anyObject } },
    audited: "change",
    async handle({ caller: { issuer, subject } }, { reload }) {
      const reloaded = await reload({ issuer, subject });
      if (reloaded.outcome === "busy") {
        const [code, message] = BUSY[reloaded.reason];
        const limit = code === "RATE_LIMITED" && { details: { limit: "reload" } };
        throw new Refusal(code, message, { ...limit, retryAfterMs: reloaded.retryAfterMs });
      }
      if (reloaded.outcome === "refused") {
        const problems = reloaded.problems.slice(0, PROBLEMS_MAX);
        const shown = problems.map((problem) => problem.slice(0, PROBLEM_CHARACTERS_MAX));
        return json(422, { status: "refused", problems: shown });
      }
      const { generation, sha256, outcome } = reloaded;
      return json(200, { status: outcome, generation, hash: sha256 });
    },
  }),
];

const described = perListener(({ routes }) => JSON.stringify(openApiDocument(routes)));

const documents: readonly Endpoint[] = [
  endpoint({
    method: "GET",
    path: "/openapi.json",
    summary: "The endpoints of this service, as OpenAPI 3.1.",
    audience: "anybody",
    anyHost: true,
    audited: "no",
    handle: (_request, services) => published("application/json; charset=utf-8", described(services)),
  }),
  endpoint({
    method: "GET",
    path: RESOURCE_METADATA,
    alsoAt: ({ resource = "", mcp }) => belowWellKnown(resource, mcp === undefined ? [] : ["/mcp"]),
    summary: "Who issues tokens (RFC 9728).",
    audience: "anybody",
    anyHost: true,
    needs: ["resource"],
    audited: "no",
    handle(_request, { resource, resourceScopes, tls, authorizationServers }) {
      const servers = authorizationServers?.() ?? [];
      const metadata = {
        resource,
        ...(servers.length > 0 && { authorization_servers: servers }),
        bearer_methods_supported: ["header"],
        ...(resourceScopes !== undefined && { scopes_supported: resourceScopes }),
        ...(tls?.clientCaFile !== undefined && { tls_client_certificate_bound_access_tokens: true }),
      };
      return published("application/json", JSON.stringify(metadata));
    },
  }),
];

function published(type: string, body: string): EndpointAnswer {
  return { status: 200, headers: { "content-type": type, "cache-control": "public, max-age=300" }, body };
}

/**
 * Returns the paths that RFC 9728 derives from the resource's own and from those of endpoints below it, if they are literal: the
 * router would read others as patterns.
 */
function belowWellKnown(resource: string, endpointPaths: readonly string[]): readonly string[] {
  const path = resourcePath(resource);
  const paths = [path, ...endpointPaths, ...endpointPaths.map((endpointPath) => `${path}${endpointPath}`)];
  const literal = paths.filter((each) => each !== "" && !/[:*()]/.test(each));
  return [...new Set(literal)].map((each) => `${RESOURCE_METADATA}${each}`);
}

export const endpoints: readonly Endpoint[] = [...documents, ...state];
