import { isIP } from "node:net";
import { type ChannelCredentials, credentials } from "@grpc/grpc-js";
import { errorText } from "../../core/error-text.ts";
import { StartupError } from "../../core/errors.ts";
import { clientValidity, readRoots } from "../certificates.ts";
import type { EgressTls } from "../client.ts";
import type { SecuredConnections } from "../rotation.ts";
import { ENDPOINTS_MAX } from "./settings.ts";

export interface ServerAddress {
  readonly address: string;
  /** Name that its certificate must contain; absent on a plaintext connection. */
  readonly serverName?: string;
}

/** `tls` is null on a plaintext connection, which must be configured explicitly. */
export interface SystemEndpoints extends SecuredConnections {
  readonly servers: readonly ServerAddress[];
  readonly credentials: ChannelCredentials;
}

/** Needs exactly one of `endpoint` and `endpoints`, and one of `tls` and `plaintext: true`. */
export interface SystemEndpointsOptions {
  /** `host:port`; the host is a DNS name, or an IP address when `tls.serverName` or `plaintext` is set. */
  readonly endpoint?: string | undefined;
  /** Several endpoints of the same form: calls use each in turn. */
  readonly endpoints?: readonly string[] | undefined;
  readonly tls?: EgressTls | undefined;
  readonly plaintext?: boolean | undefined;
}

const PORT_MAX = 65_535;

/** Returns undefined when the endpoint is not `host:port`. */
function hostOf(endpoint: string): string | undefined {
  const address = endpoint.startsWith("dns:") ? endpoint.slice("dns:".length).replace(/^\/\/\//, "") : endpoint;
  const colon = address.lastIndexOf(":");
  const host = address.slice(0, colon).replace(/^\[/, "").replace(/\]$/, "");
  const port = Number(address.slice(colon + 1));
  if (colon < 1 || !Number.isInteger(port) || port < 1 || port > PORT_MAX) return undefined;
  // The resolver reads names with a slash or a second scheme differently.
  if (isIP(host) === 0 && !/^[A-Za-z0-9._-]+$/.test(host)) return undefined;
  return host;
}

function serverOf(endpoint: string, tls: EgressTls | undefined): ServerAddress {
  const host = hostOf(endpoint);
  if (host === undefined) throw new Error(`endpoint must be host:port, got ${JSON.stringify(endpoint)}`);
  if (tls === undefined) return { address: endpoint };
  if (isIP(host) !== 0 && tls.serverName === undefined) {
    throw new Error(
      `endpoint ${endpoint} is an IP address; TLS needs a name: use a DNS name, or set tls.serverName to a name in the service's certificate`,
    );
  }
  return { address: endpoint, serverName: tls.serverName ?? host };
}

function serversOf({ endpoint, endpoints, tls }: SystemEndpointsOptions): readonly ServerAddress[] {
  if (endpoint !== undefined && endpoints !== undefined) throw new Error("endpoint and endpoints exclude each other");
  const all = endpoints ?? (endpoint === undefined ? [] : [endpoint]);
  if (all.length === 0) throw new Error("endpoint is missing: host:port, or endpoints with several");
  if (all.length > ENDPOINTS_MAX) throw new Error(`endpoints: more than ${ENDPOINTS_MAX}`);
  if (new Set(all).size < all.length) throw new Error("endpoints: one of them appears twice");
  return all.map((each) => serverOf(each, tls));
}

function endpointsOf(options: SystemEndpointsOptions): SystemEndpoints {
  const { tls, plaintext } = options;
  const servers = serversOf(options);
  if (tls !== undefined && plaintext === true) throw new Error("tls and plaintext exclude each other");
  if (tls !== undefined) {
    if (tls.rootCert === undefined) throw new Error("tls.rootCert is missing");
    const roots = readRoots(tls.rootCert);
    const clientCertificate = clientValidity(tls);
    const names = new Set(servers.map(({ serverName = "" }) => serverName));
    return {
      servers,
      credentials: credentials.createSsl(roots.pem, tls.clientKey ?? null, tls.clientCert ?? null),
      tls: { serverName: [...names].join(","), rootSha256: roots.sha256 },
      clientCertificate,
    };
  }
  if (plaintext !== true) {
    throw new Error("tls is missing; a plaintext connection must be requested with plaintext: true");
  }
  return { servers, credentials: credentials.createInsecure(), tls: null, clientCertificate: null };
}

/**
 * Returns the endpoints of a system, with the credentials and the identity of its connections. `field`: where its settings are.
 *
 * @throws {StartupError} when the settings cannot work or contradict each other
 */
export function resolveEndpoints(field: string, options: SystemEndpointsOptions): SystemEndpoints {
  try {
    return endpointsOf(options);
  } catch (error) {
    throw new StartupError([`${field}: ${errorText(error)}`]);
  }
}
