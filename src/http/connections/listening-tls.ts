import { createHash, X509Certificate } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { createServer, type Server, type TLSSocket, type TlsOptions } from "node:tls";
import type { ClientCertificate } from "../../pipeline/identity/binding.ts";
import type { CarriedConnections } from "./listening-carried.ts";
import { type HandshakeLimits, Handshakes } from "./listening-handshakes.ts";

/** PEM: what a door shows, and whose clients it believes. */
export interface TlsMaterial {
  readonly cert: string;
  readonly key: string;
  readonly clientCa: string | undefined;
}

/** Where it comes from. */
export interface TlsSource {
  /** As it stands now. Throws when it cannot be used. */
  read(): TlsMaterial;
  watch(onChange: () => void): { close(): void };
  /** Clients without a certificate do not get as far as a request. */
  readonly requireCertificates: boolean;
}

export interface ListenerTlsOptions {
  readonly source: TlsSource;
  readonly handshakeTimeoutMs: number;
  readonly handshakes: HandshakeLimits;
  readonly logError: (error: unknown) => void;
}

/** What the clients of open connections have proved to hold. */
const certificates = new WeakMap<Socket, ClientCertificate>();

/** The certificate of the request's client; undefined where none was shown, or none that the configuration believes. */
export function certificateOf({ socket }: IncomingMessage): ClientCertificate | undefined {
  return certificates.get(socket);
}

/**
 * TLS in front of the HTTP server. Certificates that change are shown from the next handshake on; connections that are open
 * stay, but for a change of the clients' roots: who was believed under the old ones comes again.
 */
export function tlsServer(
  carried: CarriedConnections,
  { source, handshakeTimeoutMs, handshakes: limits, logError }: ListenerTlsOptions,
): { readonly server: Server; close(): void } {
  let material = source.read();
  const handshakes = new Handshakes(limits);
  const server = createServer({ ...contextOf(material, source), handshakeTimeout: handshakeTimeoutMs }, (socket) => {
    handshakes.end(socket);
    const certificate = provenBy(socket);
    if (certificate !== undefined) certificates.set(socket, certificate);
    carried.take(socket);
  });
  server.on("connection", (socket: Socket) => handshakes.begin(socket));
  // A handshake that fails or never ends leaves its socket open on this runtime.
  server.on("tlsClientError", (_error, socket) => socket.destroy());
  const renew = (): void => {
    try {
      const next = source.read();
      if (JSON.stringify(next) === JSON.stringify(material)) return;
      server.setSecureContext(contextOf(next, source));
      if (next.clientCa !== material.clientCa) carried.retireAll();
      material = next;
    } catch (error) {
      logError(new Error("server.tls: the changed files are not used", { cause: error }));
    }
  };
  const watching = source.watch(renew);
  return { server: carried.bounded(server), close: () => watching.close() };
}

function contextOf({ cert, key, clientCa }: TlsMaterial, { requireCertificates }: TlsSource): TlsOptions {
  const clients =
    clientCa === undefined ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: requireCertificates };
  return { cert, key, minVersion: "TLSv1.2", ALPNProtocols: ["http/1.1"], ...clients };
}

const SPIFFE_ID = /^spiffe:\/\/[a-z0-9._-]{1,255}\/[A-Za-z0-9._/-]{1,1792}$/;
const URI = "URI:";

function provenBy(socket: TLSSocket): ClientCertificate | undefined {
  if (!socket.authorized) return undefined;
  const raw = socket.getPeerCertificate()?.raw;
  if (raw === undefined) return undefined;
  const { subjectAltName = "", ca, validFrom, validTo } = new X509Certificate(raw);
  return Object.freeze({
    thumbprint: createHash("sha256").update(raw).digest("base64url"),
    // One that may sign others is nobody's own (X.509-SVID, 4.1).
    spiffeId: ca ? undefined : spiffeIdIn(subjectAltName),
    notBeforeMs: Date.parse(validFrom),
    notAfterMs: Date.parse(validTo),
  });
}

/**
 * The SPIFFE ID among a certificate's names: its one URI (X.509-SVID, 2). The runtime writes a comma inside a name as an escape,
 * so that no name can pass for two; tests hold it to that.
 */
export function spiffeIdIn(subjectAltName: string): string | undefined {
  const uris = subjectAltName.split(", ").filter((name) => name.startsWith(URI));
  const [uri = ""] = uris;
  const id = uri.slice(URI.length);
  return uris.length === 1 && SPIFFE_ID.test(id) ? id : undefined;
}
