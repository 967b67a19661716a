import { published, RESOURCE_METADATA, resourcePath } from "../answers.ts";
import { type Endpoint, endpointsWith } from "../endpoint.ts";

/** What this endpoint needs of the service. */
export interface ResourcePart {
  /** URL of the service. */
  readonly resource: string;
  readonly resourceScopes: readonly string[] | undefined;
  /** Returns the issuers from which agents may get tokens, as URLs. */
  readonly authorizationServers: () => readonly string[];
  /** Whether tokens may be bound to clients' certificates. */
  readonly bindsCertificates: boolean;
  readonly hasMcp: boolean;
}

const { endpoint } = endpointsWith<ResourcePart>();

export const endpoints: readonly Endpoint<ResourcePart>[] = [
  endpoint({
    method: "GET",
    path: RESOURCE_METADATA,
    alsoAt: ({ resource, hasMcp }) => belowWellKnown(resource, hasMcp ? ["/mcp"] : []),
    summary: "Who issues tokens (RFC 9728).",
    audience: "anybody",
    anyHost: true,
    onlyWith: "`server.resource`, unless `mcp.oauthMetadata` is off",
    audited: "no",
    handle(_request, { resource, resourceScopes, bindsCertificates, authorizationServers }) {
      const servers = authorizationServers();
      const metadata = {
        resource,
        ...(servers.length > 0 && { authorization_servers: servers }),
        bearer_methods_supported: ["header"],
        ...(resourceScopes !== undefined && { scopes_supported: resourceScopes }),
        ...(bindsCertificates && { tls_client_certificate_bound_access_tokens: true }),
      };
      return published("application/json", JSON.stringify(metadata));
    },
  }),
];

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
