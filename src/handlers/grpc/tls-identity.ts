import { createHash, createPrivateKey, X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import { type ChannelCredentials, credentials } from "@grpc/grpc-js";
import { StartupError } from "../../core/errors.ts";

/** PEM texts, already read, that say who the service must be and who we are. */
export interface GrpcTls {
  readonly rootCert: Buffer;
  readonly clientCert?: Buffer;
  readonly clientKey?: Buffer;
  /** The name that the service's certificate must carry, when it is not the endpoint's host. */
  readonly serverName?: string;
}

/** What binds an approval to the service: its name and the roots that may vouch for it. */
export interface TlsIdentity {
  readonly serverName: string;
  /** Hex SHA-256 of each root certificate (DER), sorted. */
  readonly rootSha256: readonly string[];
}

export interface Reach {
  readonly credentials: ChannelCredentials;
  /** Null on a connection in plain text, which the configuration has asked for by name. */
  readonly tls: TlsIdentity | null;
}

interface ReachOptions {
  readonly endpoint: string;
  readonly tls?: GrpcTls;
  readonly plaintext?: boolean;
}

const PORT_MAX = 65_535;
const PEM_BEGIN = "-----BEGIN CERTIFICATE-----";
const PEM_END = "-----END CERTIFICATE-----";

function splitEndpoint(endpoint: string): { readonly host: string; readonly port: number } | undefined {
  const address = endpoint.startsWith("dns:") ? endpoint.slice("dns:".length).replace(/^\/\/\//, "") : endpoint;
  const colon = address.lastIndexOf(":");
  const host = address.slice(0, colon).replace(/^\[/, "").replace(/\]$/, "");
  const port = Number(address.slice(colon + 1));
  if (colon < 1 || !Number.isInteger(port) || port < 1 || port > PORT_MAX) return undefined;
  // A slash or a second scheme would be read by the resolver as something else than a host.
  if (isIP(host) === 0 && !/^[A-Za-z0-9._-]+$/.test(host)) return undefined;
  return { host, port };
}

function certificatesOf(pem: Buffer): readonly X509Certificate[] {
  const blocks = pem.toString("latin1").split(PEM_BEGIN).slice(1);
  return blocks.map((block) => new X509Certificate(`${PEM_BEGIN}${block.split(PEM_END)[0] ?? ""}${PEM_END}\n`));
}

function rootFingerprints(pem: Buffer): readonly string[] {
  const roots = certificatesOf(pem);
  if (roots.length === 0) throw new Error("tls.rootCert holds no PEM certificate");
  return roots.map((root) => createHash("sha256").update(root.raw).digest("hex")).sort();
}

function checkClient({ clientCert, clientKey }: GrpcTls): void {
  if (clientCert === undefined && clientKey === undefined) return;
  if (clientCert === undefined || clientKey === undefined) {
    throw new Error("tls.clientCert and tls.clientKey belong together; one is missing");
  }
  const [certificate] = certificatesOf(clientCert);
  if (certificate === undefined) throw new Error("tls.clientCert holds no PEM certificate");
  if (!certificate.checkPrivateKey(createPrivateKey(clientKey))) {
    throw new Error("tls.clientKey is not the key of tls.clientCert");
  }
}

function reachByTls(options: ReachOptions, tls: GrpcTls): Reach {
  const host = splitEndpoint(options.endpoint)?.host ?? "";
  if (isIP(host) !== 0 && tls.serverName === undefined) {
    throw new Error(
      `endpoint ${options.endpoint} is an IP address; TLS needs a name: use a DNS name, or set tls.serverName to a name in the service's certificate`,
    );
  }
  const rootSha256 = rootFingerprints(tls.rootCert);
  checkClient(tls);
  return {
    credentials: credentials.createSsl(tls.rootCert, tls.clientKey ?? null, tls.clientCert ?? null),
    tls: { serverName: tls.serverName ?? host, rootSha256 },
  };
}

function reachOf(options: ReachOptions): Reach {
  if (splitEndpoint(options.endpoint) === undefined) {
    throw new Error(`endpoint must be host:port, got ${JSON.stringify(options.endpoint)}`);
  }
  if (options.tls !== undefined && options.plaintext === true) {
    throw new Error("tls and plaintext exclude each other");
  }
  if (options.tls !== undefined) return reachByTls(options, options.tls);
  if (options.plaintext === true) return { credentials: credentials.createInsecure(), tls: null };
  throw new Error("tls is missing; a connection in plain text must be asked for with plaintext: true");
}

/** How a system is reached and recognised. Throws a `StartupError` when its settings cannot work or contradict themselves. */
export function reach(system: string, options: ReachOptions): Reach {
  try {
    return reachOf(options);
  } catch (error) {
    throw new StartupError([`systems.${system}: ${error instanceof Error ? error.message : String(error)}`]);
  }
}
