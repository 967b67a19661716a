import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { systemCode } from "../core/error-text.ts";
import { isLoopback } from "../core/network.ts";
import type { Environment } from "../runtime/config/config.ts";
import { readPlainFile } from "../runtime/config/plain-file.ts";
import type { OptionValues, TLS } from "./command.ts";
import { printable } from "./printable.ts";

const SOCKET = "unix:";

/**
 * Bypasses the proxies from the environment: without TLS, a proxy could read the token, and no proxy can access services on this
 * machine.
 */
const DIRECT = { proxy: false } as const satisfies BunFetchRequestInit;

/** Splits a service URL; `unix:<path>` names a Unix socket. */
function routeTo(url: string): { readonly base: string; readonly unix?: string } {
  return url.startsWith(SOCKET) ? { base: "http://localhost", unix: url.slice(SOCKET.length) } : { base: url };
}

/** Sends a request to a path below the URL of a service, which a gateway may offer under a path of its own. */
export function fetchService(
  { url, tls }: { readonly url: string; readonly tls: ClientTls },
  path: string,
  init: BunFetchRequestInit,
): Promise<Response> {
  const { base, unix } = routeTo(url);
  const { origin, pathname, protocol, hostname } = new URL(base);
  const isDirect = protocol !== "https:" || isLoopback(hostname);
  return fetch(new URL(`${pathname.replace(/\/$/, "")}${path}`, origin), {
    ...init,
    ...(unix !== undefined && { unix }),
    ...(protocol === "https:" && { tls: { ...tls } }),
    ...(isDirect && DIRECT),
    redirect: "error",
  });
}

/** Returns why the text is not a valid service address, or undefined when it is valid. Never repeats a password. */
export function addressProblem(named: string): string | undefined {
  const { base, unix } = routeTo(named);
  const url = URL.parse(base);
  if (url !== null && (url.username !== "" || url.password !== "")) {
    return "the address of the service contains a user name or a password: authenticate with a token, --token-file";
  }
  const isAddress = url !== null && /^https?:$/.test(url.protocol) && url.search === "" && url.hash === "";
  if (isAddress && unix !== "") return undefined;
  return `"${printable(named)}" is not the address of a service: expected http://…, https://… or unix:…`;
}

/** PEM files. Defaults: `STC_CA_FILE`, `STC_CLIENT_CERT_FILE` and `STC_CLIENT_KEY_FILE`. */
export type TlsFileOptions = OptionValues<typeof TLS>;

export interface ClientTls {
  /** Always set explicitly, because the environment can turn verification off for clients that do not set it. */
  readonly rejectUnauthorized: true;
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
  return problemOf(texts, paths) ?? { rejectUnauthorized: true, ...texts };
}

function problemOf(
  { ca, cert, key }: { readonly [part in Part]?: string },
  paths: Readonly<Record<Part, string | undefined>>,
): string | undefined {
  if (ca !== undefined && certificateIn(ca) === undefined) return `${paths.ca} does not contain a PEM certificate`;
  if (cert === undefined || key === undefined) return undefined;
  const certificate = certificateIn(cert);
  if (certificate === undefined) return `${paths.cert} does not contain a PEM certificate`;
  try {
    if (certificate.checkPrivateKey(createPrivateKey(key))) return undefined;
  } catch {
    return `${paths.key} does not contain a PEM private key without a passphrase`;
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
