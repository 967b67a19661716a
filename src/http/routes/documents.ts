import { RESOURCE_METADATA, resourcePath } from "../answers.ts";
import { type Endpoint, type EndpointAnswer, endpoint, perListener } from "../endpoint.ts";
import { openApiDocument } from "../openapi.ts";

const described = perListener(({ routes }) => JSON.stringify(openApiDocument(routes)));

/** What the service publishes of itself: nothing about its tools. */
export const endpoints: readonly Endpoint[] = [
  endpoint({
    method: "GET",
    path: "/openapi.json",
    summary: "The endpoints of this service, as OpenAPI 3.1.",
    audience: "anybody",
    anyHost: true,
    audited: "no",
    handle: (_visit, services) => published("application/json; charset=utf-8", described(services)),
  }),
  endpoint({
    method: "GET",
    path: RESOURCE_METADATA,
    alsoAt: ({ resource = "" }) => belowWellKnown(resource),
    summary: "Who issues tokens (RFC 9728).",
    audience: "anybody",
    anyHost: true,
    needs: ["resource"],
    audited: "no",
    handle(_visit, { resource, resourceScopes, tls, authorizationServers }) {
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

/** Returns the path that RFC 9728 derives from the resource's own, if it is literal: the router would read others as patterns. */
function belowWellKnown(resource: string): string | undefined {
  const path = resourcePath(resource);
  return path === "" || /[:*()]/.test(path) ? undefined : `${RESOURCE_METADATA}${path}`;
}
