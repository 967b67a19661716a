import { createPrivateKey, type KeyObject } from "node:crypto";
import { accessSync, constants, lstatSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, delimiter, isAbsolute, join } from "node:path";
import { systemCode } from "../../core/error-text.ts";
import type { IssuerProfile } from "../../pipeline/identity/issuer-profile.ts";
import { inspectRepository } from "../../targets/command/git-repository.ts";
import type { CertificateSource } from "../../targets/grpc/connection/rotation.ts";
import type { ProtoSource } from "../../targets/grpc/contract/contract.ts";
import type { GrpcSystem } from "../../targets/grpc/handler.ts";
import { type Config, type GrpcSystemConfig, isGrpcSystem, pathFrom } from "../config/config.ts";
import { readPlainFile } from "../config/plain-file.ts";
import type { Repository } from "../manifests/loader.ts";
import type { Modules } from "../modules.ts";
import { auditPlaceProblems } from "./own-paths.ts";
import { watchFiles } from "./watched-files.ts";

/** Reads the files that the configuration names. Problems are added to `problems` with their field, and reading continues. */

const HASH_KEY_BYTES_MIN = 16;

/** Maps base commands to absolute paths of binaries, resolved once. */
export function resolveCommands(config: Config, problems: string[]): ReadonlyMap<string, string> {
  const commands = new Map<string, string>();
  for (const [index, allowed] of config.commands.allowed.entries()) {
    const candidates = isAbsolute(allowed)
      ? [allowed]
      : config.searchPath
          .split(delimiter)
          .filter((folder) => isAbsolute(folder))
          .map((folder) => join(folder, allowed));
    const field = `commands.allowed[${index}]`;
    if (!isAbsolute(allowed) && /[\s/]/.test(allowed)) {
      problems.push(`${field}: ${allowed} must be a plain program name such as git, or an absolute path`);
      continue;
    }
    // A shell without confinement runs only if the configuration explicitly permits it.
    if (basename(allowed) === "bash" && config.commands.confinement === "off" && !config.commands.unconfinedBash)
      continue;
    const binary = candidates.find(isExecutable);
    if (binary !== undefined) commands.set(basename(allowed), binary);
    else
      problems.push(`${field}: no program ${allowed} was found${isAbsolute(allowed) ? "" : " on the service's PATH"}`);
  }
  return commands;
}

/** Reads `systems.git.repositories`: each repository is inspected before anything runs in it. */
export function readRepositories(config: Config, problems: string[]): ReadonlyMap<string, Repository> {
  const repositories = new Map<string, Repository>();
  const declared: unknown = config.systems["git"]?.["repositories" as never];
  if (typeof declared !== "object" || declared === null) return repositories;
  if (Array.isArray(declared)) {
    problems.push("systems.git.repositories: must map names to directories: { payments: /srv/git/payments }");
    return repositories;
  }
  for (const [name, path] of Object.entries(declared as Readonly<Record<string, string>>)) {
    const field = `systems.git.repositories.${name}`;
    const directory = realPath(pathFrom(config, path));
    const inspected = directory === undefined ? { fault: "there is no such directory" } : inspectRepository(directory);
    if ("fault" in inspected) problems.push(`${field}: ${path}: ${inspected.fault}`);
    else repositories.set(name, { directory: inspected.workTree ?? inspected.gitDir, gitDirectory: inspected.gitDir });
  }
  return repositories;
}

/** Reads the gRPC systems with their certificates. */
export function readSystems(config: Config, problems: string[]): ReadonlyMap<string, GrpcSystem> {
  const systems = new Map<string, GrpcSystem>();
  for (const [name, system] of Object.entries(config.systems)) {
    if (!isGrpcSystem(system)) continue;
    const { plaintext, metadata, messageBytesMax, tls } = system;
    const file = (key: "rootCert" | "clientCert" | "clientKey") =>
      tls?.[key] === undefined
        ? undefined
        : readNamed(config, { path: tls[key], field: `systems.${name}.tls.${key}` }, problems);
    const rootCert = file("rootCert");
    const clientCert = file("clientCert");
    const clientKey = file("clientKey");
    const contract = contractSource(config, system, { field: `systems.${name}.descriptorSet`, problems });
    if (contract === undefined || (tls !== undefined && rootCert === undefined)) continue;
    systems.set(name, {
      ...connectionSettings(system),
      ...contract,
      metadata,
      maxMessageBytes: messageBytesMax,
      ...(plaintext !== undefined && { plaintext }),
      ...(tls !== undefined &&
        rootCert !== undefined && {
          tls: {
            rootCert,
            ...(clientCert !== undefined && { clientCert }),
            ...(clientKey !== undefined && { clientKey }),
            ...(tls.serverName !== undefined && { serverName: tls.serverName }),
          },
          certificates: certificateFiles({
            rootCert: pathFrom(config, tls.rootCert),
            ...(tls.clientCert !== undefined && { clientCert: pathFrom(config, tls.clientCert) }),
            ...(tls.clientKey !== undefined && { clientKey: pathFrom(config, tls.clientKey) }),
            ...(tls.serverName !== undefined && { serverName: tls.serverName }),
          }),
        }),
    });
  }
  return systems;
}

function connectionSettings(system: GrpcSystemConfig): Omit<GrpcSystem, "maxMessageBytes"> {
  const { endpoint, endpoints, keepalive, retries, breaker, concurrentCallsMax, health } = system;
  return {
    ...(endpoint !== undefined && { endpoint }),
    ...(endpoints !== undefined && { endpoints }),
    keepalive,
    resilience: {
      concurrentCallsMax,
      retriesMax: retries,
      circuitFailuresMax: breaker.failuresMax,
      circuitOpenMs: breaker.openMs,
    },
    ...(health !== undefined && { health: health === true ? { service: "" } : health }),
  };
}

/** Reads the key that signs caller assertions. */
export function readAssertion(
  config: Config,
  problems: string[],
): { readonly issuer: string; readonly privateKey: Buffer } | undefined {
  if (config.assertion === undefined) return undefined;
  const { issuer, keyFile } = config.assertion;
  const privateKey = readNamed(config, { path: keyFile, field: "assertion.keyFile" }, problems);
  return privateKey === undefined ? undefined : { issuer, privateKey };
}

/** Reads the issuers with their keys; returns undefined when a key could not be read. */
export function readIssuers(
  config: Config,
  sources: Modules["tokenSources"],
  problems: string[],
): readonly IssuerProfile[] | undefined {
  const profiles = config.jwt.issuers.map((issuer, index) => {
    const at = `jwt.issuers[${index}]`;
    const source = sources.find(({ key }) => (issuer as Readonly<Record<string, unknown>>)[key] !== undefined);
    const keys = source?.open(issuer, {
      algorithms: issuer.algorithms,
      read: (setting, path) => readNamed(config, { path, field: `${at}.${setting}` }, problems)?.toString("utf8"),
      readAgain: (path) => readPlainFile(pathFrom(config, path)).toString("utf8"),
      problem: (setting, message) => problems.push(`${at}.${setting}: ${message}`),
    });
    const { issuer: name, audience, algorithms, operators, typ, permissionsClaim, maxLifetimeSeconds } = issuer;
    const { subjectPermissions, profile } = issuer;
    const rules = { profile, issuer: name, audience, algorithms, operators, permissionsClaim, maxLifetimeSeconds };
    return keys && { ...rules, subjectPermissions, keys, ...(typ !== undefined && { typ }) };
  });
  return profiles.every((profile) => profile !== undefined) ? profiles : undefined;
}

/** Checks the audit's path and reads the key of its hashes. The directory itself is opened later. */
export function readAuditPlace(config: Config, problems: string[]): Uint8Array | undefined {
  problems.push(...auditPlaceProblems(config));
  if (config.audit.hashKeyFile === undefined) return undefined;
  const key = readNamed(config, { path: config.audit.hashKeyFile, field: "audit.hashKeyFile" }, problems);
  if (key !== undefined && key.length < HASH_KEY_BYTES_MIN) {
    problems.push(`audit.hashKeyFile: holds fewer than ${HASH_KEY_BYTES_MIN} bytes`);
  }
  return key;
}

/** Reads the key that signs the audit's checkpoints. */
export function readCheckpointKey(config: Config, problems: string[]): KeyObject | undefined {
  const path = config.audit.checkpointKeyFile;
  const field = "audit.checkpointKeyFile";
  const pem = path === undefined ? undefined : readNamed(config, { path, field }, problems);
  if (pem === undefined) return undefined;
  try {
    const key = createPrivateKey(pem);
    if (key.asymmetricKeyType === "ed25519") return key;
  } catch {
    // Reported below, without the error: it must not reveal the file's content.
  }
  problems.push(`${field}: ${path} holds no Ed25519 private key (PEM, PKCS8): make one with stc audit keys --new FILE`);
  return undefined;
}

/**
 * Returns the working directory and home of commands: private, empty, and the same at every start, so that plans are the same
 * too. If another user has created that path first, another directory is used.
 */
export function privateEmptyDirectory(): string {
  // Not userInfo(): in a container, the user may have no name.
  const uid = process.getuid?.();
  const path = join(realpathSync(tmpdir()), `safe-tool-call-${uid}-empty`);
  try {
    mkdirSync(path, { mode: 0o500 });
  } catch {
    const found = lstatSync(path);
    const isOurs = found.isDirectory() && found.uid === uid && (found.mode & 0o077) === 0;
    if (!isOurs || readdirSync(path).length > 0) return mkdtempSync(`${path}-`);
  }
  return path;
}

interface KeyPlace {
  readonly field: string;
  readonly problems: string[];
}

function contractSource(
  config: Config,
  system: GrpcSystemConfig,
  { field, problems }: KeyPlace,
): ProtoSource | undefined {
  const { proto, descriptorSet, reflection, contractSha256, anyTypes } = system;
  const held = { anyTypes, ...(contractSha256 !== undefined && { contractSha256 }) };
  if (proto !== undefined) return { ...protoSource(pathFrom(config, proto)), ...held };
  if (descriptorSet === undefined) return { ...(reflection === true && { reflection }), ...held };
  const bytes = readNamed(config, { path: descriptorSet, field }, problems);
  return bytes && { descriptorSet: { bytes, path: descriptorSet }, ...held };
}

function protoSource(path: string): Pick<GrpcSystem, "protoDirs" | "protoFiles"> {
  // A path that cannot be inspected is reported when it is read.
  const isFile = realPath(path) !== undefined && statSync(path, { throwIfNoEntry: false })?.isFile() === true;
  return isFile ? { protoDirs: [join(path, "..")], protoFiles: [path] } : { protoDirs: [path] };
}

interface NamedFile {
  readonly path: string;
  readonly field: string;
}

/** Reads a file. If it cannot be read, returns undefined and adds a problem with field and file. */
export function readNamed(config: Config, { path, field }: NamedFile, problems: string[]): Buffer | undefined {
  try {
    return readPlainFile(pathFrom(config, path));
  } catch (error) {
    problems.push(`${field}: ${path} cannot be read (${systemCode(error)})`);
    return undefined;
  }
}

function realPath(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** Absolute paths of PEM files. */
interface CertificatePaths {
  readonly rootCert: string;
  readonly clientCert?: string;
  readonly clientKey?: string;
  readonly serverName?: string;
}

/** Returns a source that reads the certificate files each time: a mounted secret may be replaced at any time. */
export function certificateFiles({ rootCert, clientCert, clientKey, serverName }: CertificatePaths): CertificateSource {
  const paths = [rootCert, clientCert, clientKey].filter((path) => path !== undefined);
  return {
    read: () => ({
      rootCert: readPlainFile(rootCert),
      ...(clientCert !== undefined && { clientCert: readPlainFile(clientCert) }),
      ...(clientKey !== undefined && { clientKey: readPlainFile(clientKey) }),
      ...(serverName !== undefined && { serverName }),
    }),
    watch(changed) {
      const watching = watchFiles(() => paths, changed);
      return () => watching.close();
    },
  };
}
