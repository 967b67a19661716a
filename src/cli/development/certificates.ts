import { createPrivateKey, KeyObject, X509Certificate } from "node:crypto";
import { join } from "node:path";
import type { JsonGeneralNames } from "@peculiar/x509";
import { type Files, installFolder } from "./install-folder.ts";

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

/** Creates a new authority with one server certificate and one client certificate. */
export async function makeCertificates(validity: ValidityDates): Promise<CertificateSet> {
  const x509 = await loadX509();
  const { ExtendedKeyUsage: Purpose, KeyUsageFlags: Usage } = x509;
  const issuer = "CN=Safe Tool Call development CA";
  const authority = await makeKeys();
  const common = { ...validity, signingAlgorithm: ECDSA };
  const root = await x509.X509CertificateGenerator.createSelfSigned({
    ...common,
    name: issuer,
    keys: authority,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(Usage.keyCertSign | Usage.cRLSign, true),
    ],
  });
  const issue = async (subject: string, purpose: string, names: JsonGeneralNames): Promise<PemPair> => {
    const keys = await makeKeys();
    const leaf = await x509.X509CertificateGenerator.create({
      ...common,
      subject,
      issuer,
      publicKey: keys.publicKey,
      signingKey: authority.privateKey,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(Usage.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([purpose]),
        new x509.SubjectAlternativeNameExtension(names),
      ],
    });
    const key = KeyObject.from(keys.privateKey).export({ type: "pkcs8", format: "pem" });
    return { cert: leaf.toString("pem"), key: key.toString() };
  };
  return {
    rootCert: root.toString("pem"),
    server: await issue(`CN=${DEVELOPMENT_SERVER_NAME}`, Purpose.serverAuth, [
      { type: "dns", value: DEVELOPMENT_SERVER_NAME },
      { type: "dns", value: "localhost" },
    ]),
    client: await issue("CN=safe-tool-call", Purpose.clientAuth, [
      { type: "url", value: "spiffe://dev.safe-tool-call.local/proxy" },
    ]),
  };
}

interface KeyAndCertificate {
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** PEM texts of a private certificate authority and of the certificates that it signed. */
export interface DevelopmentCertificates {
  readonly rootCert: Buffer;
  readonly server: KeyAndCertificate;
  readonly client: KeyAndCertificate;
  readonly paths: Readonly<Record<keyof typeof FILE_NAMES, string>>;
}

const FILE_NAMES = {
  rootCert: "ca.pem",
  serverCert: "server.pem",
  serverKey: "server-key.pem",
  clientCert: "client.pem",
  clientKey: "client-key.pem",
} as const;

const DAY_MS = 86_400_000;
const VALID_MS = 90 * DAY_MS;
const RENEW_BEFORE_MS = DAY_MS;
// A clock that runs slightly slow must not reject the certificates as not yet valid.
const BACKDATE_MS = 3_600_000;

async function makeFiles(now: number): Promise<Files> {
  const validity = { notBefore: new Date(now - BACKDATE_MS), notAfter: new Date(now + VALID_MS) };
  const { rootCert, server, client } = await makeCertificates(validity);
  return {
    [FILE_NAMES.rootCert]: rootCert,
    [FILE_NAMES.serverCert]: server.cert,
    [FILE_NAMES.serverKey]: server.key,
    [FILE_NAMES.clientCert]: client.cert,
    [FILE_NAMES.clientKey]: client.key,
  };
}

function isValidLeaf(pair: KeyAndCertificate, root: X509Certificate, now: number): boolean {
  const leaf = new X509Certificate(pair.cert);
  const inTime = Date.parse(leaf.validFrom) <= now && Date.parse(leaf.validTo) > now + RENEW_BEFORE_MS;
  return inTime && leaf.verify(root.publicKey) && leaf.checkPrivateKey(createPrivateKey(pair.key));
}

function readCertificates(files: Files, folder: string, now: number): DevelopmentCertificates | undefined {
  const text = (name: string): Buffer => Buffer.from(files[name] ?? "");
  const rootCert = text(FILE_NAMES.rootCert);
  const server = { cert: text(FILE_NAMES.serverCert), key: text(FILE_NAMES.serverKey) };
  const client = { cert: text(FILE_NAMES.clientCert), key: text(FILE_NAMES.clientKey) };
  const root = new X509Certificate(rootCert);
  if (!isValidLeaf(server, root, now) || !isValidLeaf(client, root, now)) return undefined;
  const paths = {
    rootCert: join(folder, FILE_NAMES.rootCert),
    serverCert: join(folder, FILE_NAMES.serverCert),
    serverKey: join(folder, FILE_NAMES.serverKey),
    clientCert: join(folder, FILE_NAMES.clientCert),
    clientKey: join(folder, FILE_NAMES.clientKey),
  };
  return { rootCert, server, client, paths };
}

/**
 * Returns the certificates of the development environment, from `<directory>/tls`, mode 0600. Keeps them while they are valid for
 * another day; otherwise creates them again with a new authority. `now` is in milliseconds since the Unix epoch.
 */
export function developmentCertificates(directory: string, now: number): Promise<DevelopmentCertificates> {
  const folder = join(directory, "tls");
  return installFolder({
    folder,
    fileNames: Object.values(FILE_NAMES),
    read: (files) => readCertificates(files, folder, now),
    make: () => makeFiles(now),
  });
}
