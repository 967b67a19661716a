import { createPrivateKey, X509Certificate } from "node:crypto";
import { join } from "node:path";
import { type Files, installFolder } from "./install-folder.ts";
import { makeCertificates } from "./make-certificates.ts";

export interface KeyAndCertificate {
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
