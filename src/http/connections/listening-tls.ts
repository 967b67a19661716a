import { createHash, X509Certificate } from "node:crypto";
import type { Socket } from "node:net";
import { createServer, type Server, type TLSSocket, type TlsOptions } from "node:tls";
import type { EpochMs } from "../../core/types.ts";
import type { ClientCertificate } from "../../pipeline/identity/binding.ts";
import type { PeerConnection, ReceivedRequest } from "../messages.ts";
import { type ConnectionTaker, type HandshakeLimits, Handshakes } from "./listening-forwarded.ts";

/** PEM texts: the certificate and key that a listener presents, and the CA certificates that it trusts for clients. */
export interface TlsMaterial {
  readonly cert: string;
  readonly key: string;
  readonly clientCa: string | undefined;
}

export interface TlsSource {
  /** Reads the current material. Throws when it cannot be used. */
  read(): TlsMaterial;
  watch(onChange: () => void): { close(): void };
  /** True when a client without a certificate is rejected before it can send a request. */
  readonly requireCertificates: boolean;
}

/** The TLS server of a listener. */
export interface TlsListener {
  readonly server: Server;
  /** Returns when the certificate that it presents now expires. */
  expiresAt(): EpochMs;
  readonly clientCertificates: "none" | "accepted" | "required";
  close(): void;
}

export interface ListenerTlsOptions {
  /** Configuration key of the listener. */
  readonly field: string;
  readonly source: TlsSource;
  readonly handshakeTimeoutMs: number;
  readonly handshakes: HandshakeLimits;
  readonly logError: (error: unknown) => void;
}

const certificates = new WeakMap<PeerConnection, ClientCertificate>();

/**
 * Returns the certificate of the request's client; undefined when it presented none, or none that the configuration trusts.
 */
export function certificateOf({ socket }: Pick<ReceivedRequest, "socket">): ClientCertificate | undefined {
  return socket.certificate ?? certificates.get(socket);
}

const problems = new WeakMap<PeerConnection, string>();

/** Returns why the certificate that the request's client presented is not trusted; undefined when it presented none, or a trusted one. */
export function certificateProblemOf({ socket }: Pick<ReceivedRequest, "socket">): string | undefined {
  return problems.get(socket);
}

/**
 * Creates a TLS server in front of the HTTP server. Changed certificates apply from the next handshake on. Open connections
 * stay, except when the client CA changes: clients that were trusted under the old one must reconnect.
 */
export function tlsServer(
  forwarded: ConnectionTaker,
  { field, source, handshakeTimeoutMs, handshakes: limits, logError }: ListenerTlsOptions,
): TlsListener {
  let material = source.read();
  const handshakes = new Handshakes(limits);
  const server = createServer({ ...contextOf(material, source), handshakeTimeout: handshakeTimeoutMs }, (socket) => {
    handshakes.end(socket);
    const certificate = verifiedCertificate(socket);
    if (certificate !== undefined) certificates.set(socket, certificate);
    const problem = certificate === undefined ? problemOf(socket) : undefined;
    if (problem !== undefined) problems.set(socket, problem);
    forwarded.take(socket);
  });
  server.on("connection", (socket: Socket) => handshakes.begin(socket));
  // This runtime leaves the socket open after a handshake that fails or never completes.
  server.on("tlsClientError", (_error, socket) => socket.destroy());
  const renew = (): void => {
    try {
      const next = source.read();
      if (JSON.stringify(next) === JSON.stringify(material)) return;
      server.setSecureContext(contextOf(next, source));
      if (next.clientCa !== material.clientCa) forwarded.retireAll();
      material = next;
    } catch (error) {
      logError(new Error(`${field}.tls: the changed files are not used`, { cause: error }));
    }
  };
  const watching = source.watch(renew);
  return {
    server: forwarded.limited(server),
    expiresAt: () => Date.parse(new X509Certificate(material.cert).validTo),
    get clientCertificates() {
      if (material.clientCa === undefined) return "none";
      return source.requireCertificates ? "required" : "accepted";
    },
    close: () => watching.close(),
  };
}

function contextOf({ cert, key, clientCa }: TlsMaterial, { requireCertificates }: TlsSource): TlsOptions {
  const clients =
    clientCa === undefined ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: requireCertificates };
  return { cert, key, minVersion: "TLSv1.2", ALPNProtocols: ["http/1.1"], ...clients };
}

const SPIFFE_ID = /^spiffe:\/\/[a-z0-9._-]{1,255}\/[A-Za-z0-9._/-]{1,1792}$/;
const URI = "URI:";

function verifiedCertificate(socket: TLSSocket): ClientCertificate | undefined {
  if (!socket.authorized) return undefined;
  const raw = socket.getPeerCertificate()?.raw;
  if (raw === undefined) return undefined;
  const { subjectAltName = "", subject, ca, validFrom, validTo } = new X509Certificate(raw);
  return Object.freeze({
    thumbprint: createHash("sha256").update(raw).digest("base64url"),
    // A certificate that can sign others does not identify a workload (X.509-SVID, 4.1).
    spiffeId: ca ? undefined : spiffeIdIn(subjectAltName),
    names: ca ? [] : namesIn(subjectAltName, subject),
    notBeforeMs: Date.parse(validFrom),
    notAfterMs: Date.parse(validTo),
  });
}

/**
 * Returns the SPIFFE ID of a certificate: its only URI name (X.509-SVID, 2). The runtime escapes a comma within a name, so
 * that one name cannot pass for two; tests verify this.
 */
export function spiffeIdIn(subjectAltName: string): string | undefined {
  const uris = subjectAltName.split(", ").filter((name) => name.startsWith(URI));
  const [uri = ""] = uris;
  const id = uri.slice(URI.length);
  return uris.length === 1 && SPIFFE_ID.test(id) ? id : undefined;
}

const DNS_NAME = /^(?!\*)[A-Za-z0-9._-]{1,253}$/;
const PLAIN_URI = /^[a-z][a-z0-9+.-]*:[A-Za-z0-9._~:/-]{1,2048}$/;
const COMMON_NAME = /^CN=(.+)$/m;

/** Returns the URIs and DNS names of a certificate; without any, its common name. Others than plain ones are left out. */
function namesIn(subjectAltName: string, subject: string): readonly string[] {
  const names = subjectAltName.split(", ");
  const withPrefix = (prefix: string, form: RegExp): readonly string[] =>
    names.flatMap((name) => {
      const value = name.slice(prefix.length);
      return name.startsWith(prefix) && form.test(value) ? [value] : [];
    });
  const alternative = [...withPrefix(URI, PLAIN_URI), ...withPrefix("DNS:", DNS_NAME)];
  if (subjectAltName !== "") return alternative;
  const [, commonName = ""] = COMMON_NAME.exec(subject) ?? [];
  return DNS_NAME.test(commonName) ? [commonName] : [];
}

function problemOf(socket: TLSSocket): string | undefined {
  if (socket.authorized || socket.getPeerCertificate()?.raw === undefined) return undefined;
  const error: unknown = socket.authorizationError;
  return error instanceof Error && "code" in error ? String(error.code) : String(error);
}
