import { createPrivateKey, X509Certificate } from "node:crypto";
import { lstatSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { errorText, systemCode } from "../../core/error-text.ts";
import { type Config, pathFrom } from "../config/config.ts";
import { watchFiles } from "../config/watched-files.ts";
import { readNamedFile } from "./problems.ts";

/** The certificate and key that a TLS listener presents, and the CA that it trusts. PEM. */
export interface ListenerMaterial {
  readonly cert: string;
  readonly key: string;
  readonly clientCa: string | undefined;
}

export function readListeners(config: Config, problems: string[]) {
  const { server } = config;
  return {
    ...readServed(config, server, { field: "server", problems }),
    operator: server.operator,
    console: server.console && readServed(config, server.console, { field: "server.console", problems }),
    oidc: config.console?.oidc && readOidc(config, config.console.oidc, problems),
  };
}

type Oidc = NonNullable<NonNullable<Config["console"]>["oidc"]>;

/** Reads the files of the sign-in. The client's secret is read again whenever it is sent. */
function readOidc(config: Config, { clientSecretFile, caFile, ...settings }: Oidc, problems: string[]) {
  const clientSecret = (): string | undefined => {
    if (clientSecretFile === undefined) return undefined;
    const secret = readNamedFile(config, clientSecretFile).toString("utf8").trim();
    if (secret === "") throw new Error(`${clientSecretFile} is empty`);
    return secret;
  };
  try {
    clientSecret();
  } catch (error) {
    problems.push(`console.oidc.clientSecretFile: ${errorText(error)}`);
  }
  let rootCert: Buffer | undefined;
  try {
    if (caFile !== undefined) {
      const read = readNamedFile(config, caFile);
      parsed(caFile, "certificate", () => new X509Certificate(read));
      rootCert = read;
    }
  } catch (error) {
    problems.push(`console.oidc.caFile: ${errorText(error)}`);
  }
  return { ...settings, clientSecret, rootCert };
}

type Served = Pick<Config["server"], "host" | "port" | "tls" | "socket" | "socketMode">;

interface Found {
  /** Configuration key of the listener. */
  readonly field: string;
  readonly problems: string[];
}

function readServed(config: Config, { host, port, tls, socket, socketMode }: Served, found: Found) {
  found.problems.push(...socketProblems(config, socket, found.field));
  return {
    host,
    // The console's socket replaces its port; the agents' port can be turned off.
    port: found.field === "server.console" && socket !== undefined ? ("off" as const) : port,
    ...(socket !== undefined && {
      socket: { path: pathFrom(config, socket), mode: Number.parseInt(socketMode, 8) },
    }),
    ...(tls !== undefined && { tls: readListenerTls(config, tls, found) }),
  };
}

export function readListenerTls(config: Config, tls: NonNullable<Config["server"]["tls"]>, { field, problems }: Found) {
  const { certFile, keyFile, clientCaFile } = tls;
  const files = [certFile, keyFile, ...(clientCaFile === undefined ? [] : [clientCaFile])].map((path) =>
    pathFrom(config, path),
  );
  const read = (): ListenerMaterial => readMaterial(config, files);
  try {
    read();
  } catch (error) {
    problems.push(`${field}.tls: ${errorText(error)}`);
  }
  return {
    read,
    watch: (onChange: () => void) => watchFiles(() => files, onChange),
    requireCertificates: tls.clientCertificates === "require",
  };
}

/** @throws {Error} when a file cannot be read, or when the three files do not belong together */
function readMaterial(
  config: Config,
  [certFile = "", keyFile = "", clientCaFile]: readonly string[],
): ListenerMaterial {
  const read = (path: string): string => readNamedFile(config, path).toString("utf8");
  const cert = read(certFile);
  const key = read(keyFile);
  const certificate = parsed(certFile, "certificate", () => new X509Certificate(cert));
  if (!certificate.checkPrivateKey(parsed(keyFile, "private key", () => createPrivateKey(key)))) {
    throw new Error("keyFile is not the key of the first certificate in certFile");
  }
  if (clientCaFile === undefined) return { cert, key, clientCa: undefined };
  const clientCa = read(clientCaFile);
  parsed(clientCaFile, "certificate", () => new X509Certificate(clientCa));
  return { cert, key, clientCa };
}

/** Parses PEM. The error never quotes the file's content. */
function parsed<T>(path: string, kind: string, parse: () => T): T {
  try {
    return parse();
  } catch {
    throw new Error(`${path} holds no ${kind} in PEM`);
  }
}

/** Returns the problems of the socket's path that are visible without opening the socket. */
export function socketProblems(config: Config, socket = config.server.socket, field = "server"): readonly string[] {
  if (socket === undefined) return [];
  const path = pathFrom(config, socket);
  try {
    const folder = statSync(dirname(path), { throwIfNoEntry: false });
    if (folder?.isDirectory() !== true) return [`${field}.socket: ${dirname(path)} is not a folder: create it first`];
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found === undefined || found.isSocket()) return [];
    const problem = found.isSymbolicLink() ? "is a symbolic link" : "exists already and is not a socket";
    return [`${field}.socket: ${path} ${problem}`];
  } catch (error) {
    return [`${field}.socket: cannot be made (${systemCode(error)})`];
  }
}
