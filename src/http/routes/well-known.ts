import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";

/** What the service tells anybody about the tokens that it takes. */
export interface ResourceOptions {
  /** The URL under which agents know the service; without it nothing is told. */
  readonly resource?: string | undefined;
  /** Scopes that are worth asking for. */
  readonly resourceScopes?: readonly string[] | undefined;
  /** Issuers whose tokens agents may get, as URLs. */
  readonly authorizationServers?: (() => readonly string[]) | undefined;
  readonly tls?: { readonly clientCaFile?: string | undefined } | undefined;
}

const WELL_KNOWN = "/.well-known/oauth-protected-resource";
const REALM = 'realm="safe-tool-call"';
/** Some ask for the headers alone. */
const READ = { exposeHeadRoute: true } as const;
const CACHE = "public, max-age=300";

/**
 * The metadata of a protected resource (RFC 9728): where an agent gets a token for this service, and nothing of its tools. It
 * stands at the path that the RFC makes of the resource's own, and at the plain one.
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
  // An exact path, never a pattern: what the router would read as one is not served there.
  if (below !== "" && !/[:*()]/.test(below)) app.get(`${WELL_KNOWN}${below}`, READ, send);
}

/** Where the metadata stands (RFC 9728, 3.1): the well-known path comes between the host and the resource's own path. */
function metadataUrl(resource: string): string {
  return `${new URL(resource).origin}${WELL_KNOWN}${pathOf(resource)}`;
}

function pathOf(resource: string): string {
  return new URL(resource).pathname.replace(/\/$/, "");
}

/**
 * `WWW-Authenticate` of a 401 (RFC 6750, 3): a token that was shown is called invalid; who showed none is only told what is
 * expected. With it, where to learn who issues tokens (RFC 9728, 5.1); a 403 that names scopes says that too.
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
