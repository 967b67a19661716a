import { createHash, createPrivateKey, X509Certificate } from "node:crypto";
import { systemCode } from "../core/error-text.ts";
import { isTable } from "../core/json.ts";
import type { CertificateExpiry, TargetContext } from "../core/target-kind.ts";
import type { EpochMs, Json } from "../core/types.ts";
import type { EgressTls } from "./client.ts";

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

export interface CertificateValidity {
  readonly notBefore: EpochMs;
  readonly notAfter: EpochMs;
}

const PEM_BEGIN = "-----BEGIN CERTIFICATE-----";
const PEM_END = "-----END CERTIFICATE-----";

function certificatesOf(pem: Buffer): readonly X509Certificate[] {
  const blocks = pem.toString("latin1").split(PEM_BEGIN).slice(1);
  return blocks.map((block) => new X509Certificate(`${PEM_BEGIN}${block.split(PEM_END)[0] ?? ""}${PEM_END}\n`));
}

/** Reads root certificates and serializes them again: grpc-js needs line breaks between them. */
export function readRoots(pem: Buffer): { readonly pem: Buffer; readonly sha256: readonly string[] } {
  const roots = certificatesOf(pem);
  if (roots.length === 0) throw new Error("tls.rootCert holds no PEM certificate");
  return {
    pem: Buffer.from(roots.map((root) => root.toString()).join("\n")),
    sha256: roots.map((root) => createHash("sha256").update(root.raw).digest("hex")).sort(),
  };
}

/** Returns the shortest validity in the client's chain, which is unusable once one of its certificates expires. */
export function clientValidity({
  clientCert,
  clientKey,
}: Pick<EgressTls, "clientCert" | "clientKey">): CertificateValidity | null {
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

/** Reads a configured file; adds a problem when that fails. */
export function readNamed(
  { readFile, problems }: Pick<TargetContext, "readFile" | "problems">,
  path: string,
  field: string,
): Buffer | undefined {
  try {
    return readFile(path);
  } catch (error) {
    problems.push(`${field}: ${path} cannot be read (${systemCode(error)})`);
    return undefined;
  }
}

const EXPIRES_SOON_MS = 14 * 86_400_000;

/** Returns notes about client certificates that have expired or expire soon. */
export function certificateNotes(certificates: readonly CertificateExpiry[], now: EpochMs): readonly string[] {
  return certificates.flatMap(({ system: name, notAfter }) => {
    if (notAfter - now > EXPIRES_SOON_MS) return [];
    const at = new Date(notAfter).toISOString();
    const what = notAfter <= now ? `expired at ${at}` : `expires soon, at ${at}`;
    return [`systems.${name}: its client certificate ${what}`];
  });
}
