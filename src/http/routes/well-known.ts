import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";

/** Facts that the service publishes about the tokens that it accepts. */
export interface ResourceOptions {
  /** The URL under which agents know the service; without it, nothing is published. */
  readonly resource?: string | undefined;
  /** Scopes that agents should request. */
  readonly resourceScopes?: readonly string[] | undefined;
  /** Returns the issuers from which agents may get tokens, as URLs. */
  readonly authorizationServers?: (() => readonly string[]) | undefined;
  readonly tls?: { readonly clientCaFile?: string | undefined } | undefined;
}

const WELL_KNOWN = "/.well-known/oauth-protected-resource";
const REALM = 'realm="safe-tool-call"';
/** Some clients send HEAD requests. */
const READ = { exposeHeadRoute: true } as const;
const CACHE = "public, max-age=300";

/**
 * Serves the metadata of a protected resource (RFC 9728): where an agent gets a token for this service, and nothing about its
 * tools. It is served at the path that the RFC derives from the resource's own path, and at the plain one.
 */
export function wellKnownRoute(app: FastifyInstance, options: ResourceOptions): void {
  const { resource, resourceScopes } = options;
  if (resource === undefined) return;
  const send = (_request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const servers = options.authorizationServers?.() ?? [];
    const metadata = {
      resource,
      ...(servers.length > 0 && { authorization_servers: servers }),
      bearer_methods_supported: ["header"],
      ...(resourceScopes !== undefined && { scopes_supported: resourceScopes }),
      ...(options.tls?.clientCaFile !== undefined && { tls_client_certificate_bound_access_tokens: true }),
    };
    return reply
      .header("content-type", "application/json")
      .header("cache-control", CACHE)
      .send(JSON.stringify(metadata));
  };
  app.get(WELL_KNOWN, READ, send);
  const below = pathOf(resource);
  // Only a literal path: one that the router would read as a pattern is not served.
  if (below !== "" && !/[:*()]/.test(below)) app.get(`${WELL_KNOWN}${below}`, READ, send);
}

/** Returns the URL of the metadata: the well-known path goes between the host and the resource's path (RFC 9728, 3.1). */
function metadataUrl(resource: string): string {
  return `${new URL(resource).origin}${WELL_KNOWN}${pathOf(resource)}`;
}

function pathOf(resource: string): string {
  return new URL(resource).pathname.replace(/\/$/, "");
}

/**
 * Sets `WWW-Authenticate` on a 401 (RFC 6750, 3): a token that was sent is called invalid; a request without one only learns
 * what is expected. Adds where the metadata is (RFC 9728, 5.1), also to a 403 that names scopes.
 */
export function challenges({ resource }: ResourceOptions): (request: FastifyRequest, reply: FastifyReply) => void {
  const where = resource === undefined ? "" : `, resource_metadata="${metadataUrl(resource)}"`;
  return ({ headers }, reply) => {
    if (reply.statusCode === 401) {
      const hasToken = /^bearer /i.test(headers.authorization ?? "");
      reply.header("www-authenticate", `Bearer ${REALM}${hasToken ? ', error="invalid_token"' : ""}${where}`);
    } else if (reply.statusCode === 403 && where !== "") {
      const named = reply.getHeader("www-authenticate");
      if (typeof named === "string") reply.header("www-authenticate", `${named}${where}`);
    }
  };
}
