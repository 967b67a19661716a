import { KeyObject } from "node:crypto";
import type { Extension } from "@peculiar/x509";

type X509 = typeof import("@peculiar/x509");

export interface PemPair {
  readonly cert: string;
  readonly key: string;
}

/** PEM texts. The authority's private key is discarded after it has signed. */
export interface CertificateSet {
  readonly rootCert: string;
  readonly server: PemPair;
  readonly client: PemPair;
}

export interface ValidityDates {
  readonly notBefore: Date;
  readonly notAfter: Date;
}

interface Authority extends ValidityDates {
  readonly x509: X509;
  readonly name: string;
  readonly keys: CryptoKeyPair;
}

export const DEVELOPMENT_SERVER_NAME = "customer-master-service.local";

const ECDSA = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;

/**
 * Loads the polyfill first: the library looks for it during evaluation, and Bun evaluates a static import before the importing
 * file's own code.
 */
async function loadX509(): Promise<X509> {
  await import("reflect-metadata");
  return import("@peculiar/x509");
}

function makeKeys(): Promise<CryptoKeyPair> {
  return crypto.subtle.generateKey(ECDSA, true, ["sign", "verify"]) as Promise<CryptoKeyPair>;
}

async function makeRoot({ x509, name, keys, notBefore, notAfter }: Authority): Promise<string> {
  const root = await x509.X509CertificateGenerator.createSelfSigned({
    name,
    keys,
    notBefore,
    notAfter,
    signingAlgorithm: ECDSA,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
    ],
  });
  return root.toString("pem");
}

async function makeLeaf(authority: Authority, subject: string, extensions: readonly Extension[]): Promise<PemPair> {
  const { x509 } = authority;
  const keys = await makeKeys();
  const leaf = await x509.X509CertificateGenerator.create({
    subject,
    issuer: authority.name,
    notBefore: authority.notBefore,
    notAfter: authority.notAfter,
    publicKey: keys.publicKey,
    signingKey: authority.keys.privateKey,
    signingAlgorithm: ECDSA,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      ...extensions,
    ],
  });
  const key = KeyObject.from(keys.privateKey).export({ type: "pkcs8", format: "pem" });
  return { cert: leaf.toString("pem"), key: key.toString() };
}

/** Creates a new authority with one server certificate and one client certificate. */
export async function makeCertificates(validity: ValidityDates): Promise<CertificateSet> {
  const x509 = await loadX509();
  const name = "CN=Safe Tool Call development CA";
  const authority: Authority = { ...validity, x509, name, keys: await makeKeys() };
  const server = await makeLeaf(authority, `CN=${DEVELOPMENT_SERVER_NAME}`, [
    new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
    new x509.SubjectAlternativeNameExtension([
      { type: "dns", value: DEVELOPMENT_SERVER_NAME },
      { type: "dns", value: "localhost" },
    ]),
  ]);
  const client = await makeLeaf(authority, "CN=safe-tool-call", [
    new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.clientAuth]),
    new x509.SubjectAlternativeNameExtension([{ type: "url", value: "spiffe://dev.safe-tool-call.local/proxy" }]),
  ]);
  return { rootCert: await makeRoot(authority), server, client };
}
