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
  const status = await requestStatus(address, ready === true ? "/readyz" : "/healthz", tls.read()).catch(
    (error: unknown) => {
      throw new CommandError(EXIT.unreachable, noAnswer(address.url, error));
    },
  );
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

async function requestStatus({ url, certFile }: HealthAddress, path: string, tls: ClientTls): Promise<number> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  if (certFile !== undefined && tls.ca === undefined)
    return requestStatusByCertificate(new URL(path, url), { certFile, tls, signal });
  const response = await fetchService({ url, tls }, path, { signal });
  await response.body?.cancel();
  return response.status;
}

/**
 * Queries the service without checking its host name or certificate authority: the service must present exactly the certificate
 * that its configuration names.
 */
function requestStatusByCertificate(
  address: URL,
  { certFile, tls: { cert, key }, signal }: { certFile: string; tls: ClientTls; signal: AbortSignal },
): Promise<number> {
  const { fingerprint256 } = new X509Certificate(readPlainFile(certFile));
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const identity = { ...(cert !== undefined && { cert }), ...(key !== undefined && { key }) };
  const probe = request(address, { ...identity, signal, agent: false, rejectUnauthorized: false }, (response) => {
    const peer = (response.socket as TLSSocket).getPeerX509Certificate();
    response.destroy();
    if (peer?.fingerprint256 === fingerprint256) resolve(response.statusCode ?? 0);
    else reject(Object.assign(new Error("another certificate"), { code: "ANOTHER_CERTIFICATE" }));
  });
  probe.on("error", reject).end();
  return promise;
}
