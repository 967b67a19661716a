import { createHash, createPrivateKey, X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import { type ChannelCredentials, credentials } from "@grpc/grpc-js";
import { errorText } from "../../../core/error-text.ts";
import { StartupError } from "../../../core/errors.ts";
import { isTable } from "../../../core/json.ts";
import type { EpochMs, Json } from "../../../core/types.ts";

/** The trusted roots of the service and the proxy's own certificate, as PEM. */
export interface GrpcTls {
  readonly rootCert: Buffer;
  readonly clientCert?: Buffer | undefined;
  readonly clientKey?: Buffer | undefined;
  /** Name in the service's certificate, when it is not the endpoint's host. */
  readonly serverName?: string | undefined;
}

/** Identifies the service in an approval: its name and its trusted root certificates. */
export interface TlsIdentity {
  /** Name in its certificate; names of several endpoints are joined by commas. */
  readonly serverName: string;
  /** Hex SHA-256 of each root certificate (DER), sorted. */
  readonly rootSha256: readonly string[];
}

export function isSameIdentity(planned: Json | undefined, tls: TlsIdentity | null): boolean {
  if (tls === null || !isTable(planned)) return planned === tls;
  const { serverName, rootSha256 } = planned;
  const isSameRoots = Array.isArray(rootSha256) && rootSha256.join() === tls.rootSha256.join();
  return serverName === tls.serverName && isSameRoots;
}

export interface ServerAddress {
  readonly address: string;
  /** Name that its certificate must contain; absent on a plaintext connection. */
  readonly serverName?: string;
}

export interface SystemEndpoints {
  readonly servers: readonly ServerAddress[];
  readonly credentials: ChannelCredentials;
  /** Null on a plaintext connection, which must be configured explicitly. */
  readonly tls: TlsIdentity | null;
  readonly clientCertificate: CertificateValidity | null;
}

export interface CertificateValidity {
  readonly notBefore: EpochMs;
  readonly notAfter: EpochMs;
}

/** Needs exactly one of `endpoint` and `endpoints`, and one of `tls` and `plaintext: true`. */
export interface SystemEndpointsOptions {
  /** `host:port`; the host is a DNS name, or an IP address when `tls.serverName` or `plaintext` is set. */
  readonly endpoint?: string | undefined;
  /** Several endpoints of the same form: calls use each in turn. */
  readonly endpoints?: readonly string[] | undefined;
  readonly tls?: GrpcTls | undefined;
  readonly plaintext?: boolean | undefined;
}

const PORT_MAX = 65_535;
const ENDPOINTS_MAX = 16;
const PEM_BEGIN = "-----BEGIN CERTIFICATE-----";
const PEM_END = "-----END CERTIFICATE-----";

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

function certificatesOf(pem: Buffer): readonly X509Certificate[] {
  const blocks = pem.toString("latin1").split(PEM_BEGIN).slice(1);
  return blocks.map((block) => new X509Certificate(`${PEM_BEGIN}${block.split(PEM_END)[0] ?? ""}${PEM_END}\n`));
}

/** Reads root certificates and serializes them again: grpc-js needs line breaks between them. */
function readRoots(pem: Buffer): { readonly pem: Buffer; readonly sha256: readonly string[] } {
  const roots = certificatesOf(pem);
  if (roots.length === 0) throw new Error("tls.rootCert holds no PEM certificate");
  return {
    pem: Buffer.from(roots.map((root) => root.toString()).join("\n")),
    sha256: roots.map((root) => createHash("sha256").update(root.raw).digest("hex")).sort(),
  };
}

/** Returns the shortest validity in the client's chain, which is unusable once one of its certificates expires. */
function clientValidity({ clientCert, clientKey }: GrpcTls): CertificateValidity | null {
  if (clientCert === undefined && clientKey === undefined) return null;
  if (clientCert === undefined || clientKey === undefined) {
    throw new Error("tls.clientCert and tls.clientKey belong together; one is missing");
  }
  const chain = certificatesOf(clientCert);
  const [leaf] = chain;
  if (leaf === undefined) throw new Error("tls.clientCert holds no PEM certificate");
  if (!leaf.checkPrivateKey(createPrivateKey(clientKey))) {
    throw new Error("tls.clientKey is not the key of tls.clientCert");
  }
  return {
    notBefore: Math.max(...chain.map(({ validFrom }) => Date.parse(validFrom))),
    notAfter: Math.min(...chain.map(({ validTo }) => Date.parse(validTo))),
  };
}

function serverOf(endpoint: string, tls: GrpcTls | undefined): ServerAddress {
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
 * Returns the endpoints of a system, with the credentials and the identity of its connections.
 *
 * @throws {StartupError} when its settings cannot work or contradict each other
 */
export function resolveEndpoints(system: string, options: SystemEndpointsOptions): SystemEndpoints {
  try {
    return endpointsOf(options);
  } catch (error) {
    throw new StartupError([`systems.${system}: ${errorText(error)}`]);
  }
}
