import { errorText } from "../../core/error-text.ts";
import { StartupError } from "../../core/errors.ts";
import { readSecret } from "../../egress/credentials.ts";
import { readTls } from "../../egress/settings.ts";
import { type CallerVerifier, createCallerVerifier } from "../../pipeline/caller-context.ts";
import type { ReviewObserver } from "../../pipeline/identity/token-review.ts";
import { type Config, pathFrom } from "../config/config.ts";
import { readPlainFile } from "../config/plain-file.ts";
import { watchFiles } from "../config/watched-files.ts";
import type { Modules } from "../module-types.ts";
import { readIssuers } from "./identity.ts";
import { readListenerTls } from "./listeners.ts";
import { readNamedFile } from "./problems.ts";

/** The files that the section `hub` names, as they were read, and how they are read again. */
export type HubSettings = Awaited<ReturnType<typeof readHub>>;

type Section = NonNullable<Config["hub"]>;

export interface HubReading extends Omit<ReviewObserver, "now"> {
  readonly modules: Pick<Modules, "tokenSources" | "targetKinds">;
  readonly problems: string[];
  readonly now: () => number;
}

/** Reads the section. Problems are added to the list. */
export function readHub(config: Config, section: Section, reading: HubReading) {
  const { listen, url } = section;
  return {
    listen: listen && { ...listen, ...readListen(config, section, reading) },
    member: url === undefined ? undefined : readMember(config, section, reading),
  };
}

function readListen(config: Config, { tls, tokens = [] }: Section, { problems, ...reading }: HubReading) {
  const { certFile, keyFile, clientCaFile } = tls ?? {};
  const files =
    certFile === undefined || keyFile === undefined
      ? undefined
      : { certFile, keyFile, clientCaFile, clientCertificates: "request" as const };
  return {
    tls: files && readListenerTls(config, files, { field: "hub", problems }),
    tokens: tokens.length === 0 ? undefined : readTokens(config, tokens, { problems, ...reading }),
  };
}

/** Returns the verifier of workload tokens; undefined after a problem. */
function readTokens(
  config: Config,
  tokens: NonNullable<Section["tokens"]>,
  { modules, problems, now, ...observer }: HubReading,
): CallerVerifier | undefined {
  const found: string[] = [];
  // An issuer of workload tokens is one of callers who may do nothing.
  const issuers = tokens.map((token) => ({
    ...token,
    operators: false,
    permissionsClaim: "permissions",
    groupsClaim: "groups",
    subjectPermissions: {},
  }));
  try {
    const profiles = readIssuers({ ...config, jwt: { ...config.jwt, issuers } }, modules, found, { now, ...observer });
    return profiles && createCallerVerifier({ issuers: profiles, clock: now });
  } catch (error) {
    if (!(error instanceof StartupError)) throw error;
    found.push(...error.problems);
    return undefined;
  } finally {
    problems.push(...found.map((problem) => problem.replace("jwt.issuers[", "hub.tokens[")));
  }
}

function readMember(config: Config, { tls, tokenFile }: Section, { problems }: HubReading) {
  const readToken = tokenFile === undefined ? undefined : (): string => readSecret(readNamedFile(config, tokenFile));
  try {
    readToken?.();
  } catch (error) {
    problems.push(`hub.tokenFile: ${errorText(error)}`);
  }
  return { readToken, secured: tls && readCertificates(config, tls, problems) };
}

function readCertificates(config: Config, tls: NonNullable<Section["tls"]>, problems: string[]) {
  const found: string[] = [];
  const context = {
    problems: found,
    pathOf: (path: string) => pathFrom(config, path),
    readFile: (path: string) => readPlainFile(pathFrom(config, path)),
    watchFiles: (paths: readonly string[], changed: () => void) => {
      const watching = watchFiles(() => paths, changed);
      return () => watching.close();
    },
  };
  const files = { rootCert: tls.caFile, clientCert: tls.certFile, clientKey: tls.keyFile };
  const secured = readTls(context, files, "hub.tls");
  problems.push(...found.map(ownKey));
  return secured;
}

/** Replaces the keys of a system's certificates. */
function ownKey(problem: string): string {
  return problem
    .replace("tls.rootCert", "tls.caFile")
    .replace("tls.clientCert", "tls.certFile")
    .replace("tls.clientKey", "tls.keyFile");
}
