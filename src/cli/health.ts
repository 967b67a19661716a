import { X509Certificate } from "node:crypto";
import { request } from "node:https";
import type { TLSSocket } from "node:tls";
import { StartupError } from "../core/errors.ts";
import type { Environment } from "../runtime/config/config.ts";
import { processEnvironment } from "../runtime/config/environment.ts";
import { type HealthAddress, readHealthAddress } from "../runtime/config/file.ts";
import { readPlainFile } from "../runtime/config/plain-file.ts";
import { defaultUrl, noAnswer } from "./client.ts";
import { type ClientTls, checkAddress, clientTls, fetchService, type TlsFileOptions } from "./connection.ts";
import { CommandError, EXIT, print } from "./output.ts";

const TIMEOUT_MS = 2_000;

interface HealthCommandOptions extends TlsFileOptions {
  readonly url?: string;
  readonly config?: string;
  readonly ready?: boolean;
}

/** `stc health`: checks a service from images that contain no other client. */
export async function health({ url, ready, config, ...files }: HealthCommandOptions): Promise<void> {
  const environment = processEnvironment();
  const tls = clientTls(files, environment);
  const named = url ?? (environment["STC_URL"] || undefined);
  const address = named === undefined ? configuredAddress(config, environment) : { url: named };
  checkAddress(address.url);
  const { status } = await ask(address, ready === true ? "/readyz" : "/healthz", tls.read()).catch((error: unknown) => {
    throw new CommandError(EXIT.unreachable, noAnswer(address.url, error));
  });
  if (status < 200 || status >= 300) throw new CommandError(EXIT.failed, `the service answered ${status}`);
}

/**
 * Returns the service address from the configuration. A file that cannot be read is being changed, and the running service does
 * not use it yet: its problems are printed, and the default address is used.
 */
function configuredAddress(config: string | undefined, environment: Environment): HealthAddress {
  const file = config ?? (environment["STC_CONFIG"] || undefined);
  try {
    const address = file === undefined ? undefined : readHealthAddress(file, environment);
    if (address !== undefined) return address;
  } catch (error) {
    if (!(error instanceof StartupError)) throw error;
    for (const problem of error.problems) print.error(problem);
  }
  return { url: defaultUrl(environment) };
}

export interface HealthAnswer {
  readonly status: number;
  /** The header `Date`, empty when there is none. */
  readonly date: string;
  readonly body: string;
}

/** Asks the service without a token. Rejects when it does not answer within two seconds. */
export async function ask({ url, certFile }: HealthAddress, path: string, tls: ClientTls): Promise<HealthAnswer> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  if (certFile !== undefined && tls.ca === undefined)
    return askByCertificate(new URL(path, url), { certFile, tls, signal });
  const response = await fetchService({ url, tls }, path, { signal });
  return { status: response.status, date: response.headers.get("date") ?? "", body: await response.text() };
}

/**
 * Queries the service without checking its host name or certificate authority: the service must present exactly the certificate
 * that its configuration names.
 */
function askByCertificate(
  address: URL,
  { certFile, tls: { cert, key }, signal }: { certFile: string; tls: ClientTls; signal: AbortSignal },
): Promise<HealthAnswer> {
  const { fingerprint256 } = new X509Certificate(readPlainFile(certFile));
  const { promise, resolve, reject } = Promise.withResolvers<HealthAnswer>();
  const identity = { ...(cert !== undefined && { cert }), ...(key !== undefined && { key }) };
  const probe = request(address, { ...identity, signal, agent: false, rejectUnauthorized: false }, (response) => {
    const peer = (response.socket as TLSSocket).getPeerX509Certificate();
    if (peer?.fingerprint256 !== fingerprint256) {
      response.destroy();
      reject(Object.assign(new Error("another certificate"), { code: "ANOTHER_CERTIFICATE" }));
      return;
    }
    const { statusCode = 0, headers } = response;
    let body = "";
    response.setEncoding("utf8").on("data", (text: string) => {
      body += text;
    });
    response.on("error", reject).on("end", () => resolve({ status: statusCode, date: headers.date ?? "", body }));
  });
  probe.on("error", reject).end();
  return promise;
}
