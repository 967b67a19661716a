import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { systemCode } from "../core/error-text.ts";
import type { Environment } from "../runtime/config/config.ts";
import { readPlainFile } from "../runtime/config/plain-file.ts";

/** PEM files. Defaults: `STC_CA_FILE`, `STC_CLIENT_CERT_FILE` and `STC_CLIENT_KEY_FILE`. */
export interface TlsFileOptions {
  readonly caFile?: string;
  readonly clientCertFile?: string;
  readonly clientKeyFile?: string;
}

/** Certificate authorities to trust and the client certificate to present for a service behind TLS. PEM. */
export interface ClientTls {
  /** Always set explicitly, because the environment can turn verification off for clients that do not set it. */
  readonly rejectUnauthorized: true;
  /** Replaces the system's certificate authorities. */
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

interface ClientTlsFiles {
  readonly hasCertificate: boolean;
  /** Returns the current content of the files, or the last valid content while the files do not match. */
  read(): ClientTls;
}

type Part = "ca" | "cert" | "key";
type Read = (path: string) => Buffer;

/** Reads the TLS files. A returned string describes the error. */
export function clientTls(options: TlsFileOptions, environment: Environment): ClientTlsFiles | string {
  const paths: Readonly<Record<Part, string | undefined>> = {
    ca: options.caFile || environment["STC_CA_FILE"] || undefined,
    cert: options.clientCertFile || environment["STC_CLIENT_CERT_FILE"] || undefined,
    key: options.clientKeyFile || environment["STC_CLIENT_KEY_FILE"] || undefined,
  };
  // The first read uses `readFileSync`: a pipe that a shell created for this command can be read to its end only once.
  const first = readTls(paths, readFileSync);
  if (typeof first === "string") return first;
  let current = first;
  return {
    hasCertificate: paths.cert !== undefined,
    read() {
      const now = readTls(paths, readPlainFile);
      if (typeof now !== "string") current = now;
      return current;
    },
  };
}

function readTls(paths: Readonly<Record<Part, string | undefined>>, read: Read): ClientTls | string {
  if ((paths.cert === undefined) !== (paths.key === undefined)) {
    return "a client certificate and its key belong together: give both files (STC_CLIENT_CERT_FILE, STC_CLIENT_KEY_FILE)";
  }
  const texts: { [part in Part]?: string } = {};
  for (const part of ["ca", "cert", "key"] as const) {
    const path = paths[part];
    if (path === undefined) continue;
    try {
      texts[part] = read(path).toString("utf8");
    } catch (error) {
      return `${path} cannot be read (${systemCode(error)})`;
    }
  }
  const fault = faultOf(texts, paths);
  return fault ?? { rejectUnauthorized: true, ...texts };
}

function faultOf(
  { ca, cert, key }: { readonly [part in Part]?: string },
  paths: Readonly<Record<Part, string | undefined>>,
): string | undefined {
  if (ca !== undefined && certificateIn(ca) === undefined) return `${paths.ca} holds no certificate in PEM`;
  if (cert === undefined || key === undefined) return undefined;
  const certificate = certificateIn(cert);
  if (certificate === undefined) return `${paths.cert} holds no certificate in PEM`;
  try {
    if (certificate.checkPrivateKey(createPrivateKey(key))) return undefined;
  } catch {
    return `${paths.key} holds no private key in PEM that needs no passphrase`;
  }
  return `${paths.key} is not the key of the first certificate in ${paths.cert}`;
}

function certificateIn(pem: string): X509Certificate | undefined {
  try {
    return new X509Certificate(pem);
  } catch {
    return undefined;
  }
}
