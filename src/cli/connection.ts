import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { systemCode } from "../core/error-text.ts";
import { isLoopback } from "../core/network.ts";
import { printable } from "../core/printable.ts";
import type { Environment } from "../runtime/config/config.ts";
import { readPlainFile } from "../runtime/config/plain-file.ts";
import type { OptionValues, TLS } from "./command.ts";
import { CommandError, wrongUsage } from "./output.ts";

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

/** @throws {CommandError} when the text is not a valid service address. The message never contains a password. */
export function checkAddress(address: string): void {
  const { base, unix } = routeTo(address);
  const url = URL.parse(base);
  if (url !== null && (url.username !== "" || url.password !== "")) {
    wrongUsage(
      "the address of the service contains a user name or a password: authenticate with a token, --token-file",
    );
  }
  const isAddress = url !== null && /^https?:$/.test(url.protocol) && url.search === "" && url.hash === "";
  if (!isAddress || unix === "") {
    wrongUsage(`"${printable(address)}" is not the address of a service: expected http://…, https://… or unix:…`);
  }
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

type Paths = Readonly<Record<"ca" | "cert" | "key", string | undefined>>;

/**
 * Reads the TLS files.
 *
 * @throws {CommandError} when a file cannot be read, or when the files do not belong together
 */
export function clientTls(options: TlsFileOptions, environment: Environment): ClientTlsFiles {
  const paths: Paths = {
    ca: options.caFile || environment["STC_CA_FILE"] || undefined,
    cert: options.clientCertFile || environment["STC_CLIENT_CERT_FILE"] || undefined,
    key: options.clientKeyFile || environment["STC_CLIENT_KEY_FILE"] || undefined,
  };
  // The first read uses `readFileSync`: a pipe that a shell created for this command can be read to its end only once.
  let current = readTls(paths, readFileSync);
  return {
    hasCertificate: paths.cert !== undefined,
    read() {
      try {
        current = readTls(paths, readPlainFile);
      } catch (error) {
        if (!(error instanceof CommandError)) throw error;
      }
      return current;
    },
  };
}

function readTls({ ca, cert, key }: Paths, readFile: (path: string) => Buffer): ClientTls {
  if ((cert === undefined) !== (key === undefined)) {
    wrongUsage(
      "a client certificate and its key belong together: give both files (STC_CLIENT_CERT_FILE, STC_CLIENT_KEY_FILE)",
    );
  }
  const read = (path: string): string =>
    orWrongUsage(
      () => readFile(path).toString("utf8"),
      (error) => `${path} cannot be read (${systemCode(error)})`,
    );
  const texts = {
    ...(ca !== undefined && { ca: read(ca) }),
    ...(cert !== undefined && { cert: read(cert) }),
    ...(key !== undefined && { key: read(key) }),
  };
  if (texts.ca !== undefined) certificateIn(texts.ca, ca);
  if (texts.cert !== undefined && texts.key !== undefined) {
    const certificate = certificateIn(texts.cert, cert);
    const pem = texts.key;
    const isPair = orWrongUsage(
      () => certificate.checkPrivateKey(createPrivateKey(pem)),
      () => `${key} does not contain a PEM private key without a passphrase`,
    );
    if (!isPair) wrongUsage(`${key} is not the key of the first certificate in ${cert}`);
  }
  return { rejectUnauthorized: true, ...texts };
}

function certificateIn(pem: string, path: string | undefined): X509Certificate {
  return orWrongUsage(
    () => new X509Certificate(pem),
    () => `${path} does not contain a PEM certificate`,
  );
}

function orWrongUsage<T>(make: () => T, problem: (error: unknown) => string): T {
  try {
    return make();
  } catch (error) {
    return wrongUsage(problem(error));
  }
}
