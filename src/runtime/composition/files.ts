import { createPrivateKey, type KeyObject } from "node:crypto";
import { lstatSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { systemCode } from "../../core/error-text.ts";
import type { IssuerProfile } from "../../pipeline/identity/issuer-profile.ts";
import { type Config, pathFrom } from "../config/config.ts";
import { readPlainFile } from "../config/plain-file.ts";
import type { Modules } from "../modules.ts";

/** Reads the files that the configuration names. Problems are added to `problems` with their field, and reading continues. */

const HASH_KEY_BYTES_MIN = 16;

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
    problems.push(`audit.hashKeyFile: contains fewer than ${HASH_KEY_BYTES_MIN} bytes`);
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

/** Returns why the audit directory cannot be used, as far as inspection shows. */
export function auditPlaceProblems(config: Config): readonly string[] {
  const dir = pathFrom(config, config.audit.dir);
  try {
    const found = statSync(dir, { throwIfNoEntry: false });
    return found === undefined || found.isDirectory() ? [] : [`audit.dir: ${dir} is not a directory`];
  } catch (error) {
    return [`audit.dir: ${dir} cannot be read (${systemCode(error)})`];
  }
}

/**
 * Returns why the socket cannot be created, in the listener's words. Only the service can determine its owner and whether it is
 * in use.
 */
export function socketProblems(config: Config): readonly string[] {
  const { socket } = config.server;
  if (socket === undefined) return [];
  const path = pathFrom(config, socket);
  try {
    const folder = statSync(dirname(path), { throwIfNoEntry: false });
    if (folder?.isDirectory() !== true) return [`server.socket: ${dirname(path)} is not a folder: create it first`];
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found === undefined || found.isSocket()) return [];
    const fault = found.isSymbolicLink() ? "is a symbolic link" : "exists already and is not a socket";
    return [`server.socket: ${path} ${fault}`];
  } catch (error) {
    return [`server.socket: cannot be made (${systemCode(error)})`];
  }
}
