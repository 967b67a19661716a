import { json, published } from "../answers.ts";
import { type Endpoint, endpointsWith, type NotReady, perListener } from "../endpoint.ts";
import { openApiDocument } from "../openapi.ts";

/** What these endpoints need of the service. */
export interface ServicePart {
  readonly notReady: () => readonly NotReady[];
  /** Returns the states of the service's parts, for operators: JSON without secrets and paths. */
  readonly readiness: () => Promise<object>;
}

const { endpoint } = endpointsWith<ServicePart>();

const METRICS_PERMISSION = "metrics:read";
/** Probes reach the listeners of the calls and of the console, too. */
const ALL = ["agents", "operators", "console"] as const;
const anyObject = { type: "object" } as const;

const state: readonly Endpoint<ServicePart>[] = [
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
      const details = caller !== undefined && (await services.readiness());
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
];

const described = perListener(({ routes }) => JSON.stringify(openApiDocument(routes)));

const documents: readonly Endpoint<ServicePart>[] = [
  endpoint({
    method: "GET",
    path: "/openapi.json",
    summary: "The endpoints of this service, as OpenAPI 3.1.",
    audience: "anybody",
    anyHost: true,
    audited: "no",
    handle: (_request, services) => published("application/json; charset=utf-8", described(services)),
  }),
];

export const endpoints: readonly Endpoint<ServicePart>[] = [...documents, ...state];
