import { createPrivateKey, X509Certificate } from "node:crypto";
import type { AuditLog } from "../../audit/audit-log.ts";
import { errorText, systemCode } from "../../core/error-text.ts";
import type { CallerContextOptions } from "../../pipeline/caller-context.ts";
import { type Config, pathFrom } from "../config/config.ts";
import { readPlainFile } from "../config/plain-file.ts";
import { watchFiles } from "../config/watched-files.ts";
import { type RevocationEvent, RevocationFile } from "./revocation-file.ts";

/** The callers and credentials defined outside the issuers' profiles. */
export interface IdentityParts {
  readonly callers: Pick<CallerContextOptions, "revocations" | "certificateCallers">;
  readonly revocations: RevocationFile | undefined;
  /** OAuth servers from which agents may get tokens: the list in the protected resource's metadata. */
  readonly authorizationServers: readonly string[];
}

interface Listeners {
  readonly journal: AuditLog["journal"];
  readonly onRevocations?: (event: RevocationEvent) => void;
}

/** Starts watching the revocation list: from now on a change takes effect and is reported. */
export function watchRevocations({ revocations }: IdentityParts, { journal, onRevocations }: Listeners): void {
  revocations?.watch((event) => {
    journal({ ...event }).catch(() => {});
    onRevocations?.(event);
  });
}

/** Reads the revocation list and the table of certificates. Problems are added to `problems`. */
export function readIdentity(config: Config, problems: string[]): IdentityParts {
  const { revocationFile, clientCertificates } = config.jwt;
  if (clientCertificates.length > 0 && config.server.tls?.clientCaFile === undefined) {
    problems.push("jwt.clientCertificates: needs server.tls.clientCaFile, which is missing");
  }
  const callers = { certificateCallers: clientCertificates };
  const known = { callers, revocations: undefined, authorizationServers: authorizationServers(config) };
  if (revocationFile === undefined) return known;
  const revocations = RevocationFile.open(pathFrom(config, revocationFile));
  if (typeof revocations !== "string") {
    return { ...known, callers: { ...callers, revocations: () => revocations.list() }, revocations };
  }
  problems.push(`jwt.revocationFile: ${revocationFile} ${revocations}`);
  return known;
}

function authorizationServers({ jwt }: Config): readonly string[] {
  return jwt.issuers
    .filter(({ operators, profile, issuer }) => !operators && profile !== "kubernetes" && issuer.startsWith("https://"))
    .map(({ issuer }) => issuer);
}

/** The certificate and key that a TLS listener presents, and the CA that it trusts. PEM. */
interface TlsMaterial {
  readonly cert: string;
  readonly key: string;
  readonly clientCa: string | undefined;
}

/** Reads the settings of the listeners, with the files that they need. */
export function readDoors(config: Config, problems: string[]) {
  const { host, port, socket, socketMode, operator } = config.server;
  return {
    ...{ host, port, operator },
    ...(socket !== undefined && {
      socket: { path: pathFrom(config, socket), mode: Number.parseInt(socketMode, 8) },
    }),
    ...(config.server.tls !== undefined && { tls: readTls(config, config.server.tls, problems) }),
  };
}

function readTls(config: Config, tls: NonNullable<Config["server"]["tls"]>, problems: string[]) {
  const paths = {
    cert: pathFrom(config, tls.certFile),
    key: pathFrom(config, tls.keyFile),
    clientCa: tls.clientCaFile === undefined ? undefined : pathFrom(config, tls.clientCaFile),
  };
  const read = (): TlsMaterial => readMaterial(paths);
  try {
    read();
  } catch (error) {
    problems.push(`server.tls: ${errorText(error)}`);
  }
  const files = Object.values(paths).filter((path) => path !== undefined);
  return {
    read,
    watch: (onChange: () => void) => watchFiles(() => files, onChange),
    requireCertificates: tls.clientCertificates === "require",
  };
}

/** @throws {Error} when a file cannot be read, or when the three files do not belong together */
function readMaterial(paths: {
  readonly cert: string;
  readonly key: string;
  readonly clientCa: string | undefined;
}): TlsMaterial {
  const cert = readPem(paths.cert);
  const key = readPem(paths.key);
  const clientCa = paths.clientCa === undefined ? undefined : readPem(paths.clientCa);
  if (!certificateIn(paths.cert, cert).checkPrivateKey(privateKeyIn(paths.key, key))) {
    throw new Error("keyFile is not the key of the first certificate in certFile");
  }
  if (paths.clientCa !== undefined && clientCa !== undefined) certificateIn(paths.clientCa, clientCa);
  return { cert, key, clientCa };
}

function certificateIn(path: string, pem: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch {
    throw new Error(`${path} holds no certificate in PEM`);
  }
}

/** Parses the private key. The error never quotes the file's content. */
function privateKeyIn(path: string, pem: string): ReturnType<typeof createPrivateKey> {
  try {
    return createPrivateKey(pem);
  } catch {
    throw new Error(`${path} holds no private key in PEM`);
  }
}

function readPem(path: string): string {
  try {
    return readPlainFile(path).toString("utf8");
  } catch (error) {
    throw new Error(`${path} cannot be read (${systemCode(error)})`);
  }
}
