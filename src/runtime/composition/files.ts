import { createPrivateKey, type KeyObject } from "node:crypto";
import { lstatSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { systemCode } from "../../core/error-text.ts";
import { staticKeys } from "../../pipeline/identity/issuer-keys.ts";
import type { IssuerProfile, KeySource } from "../../pipeline/identity/issuer-profile.ts";
import { type Config, type IssuerConfig, pathFrom } from "../config/config.ts";
import { readPlainFile } from "../config/plain-file.ts";
import { readKeyCredentials } from "./identity.ts";

/** Reads the files that the configuration names. Problems are added to `problems` with their field, and reading continues. */

const HASH_KEY_BYTES_MIN = 16;

/** Reads the issuers with their keys; returns undefined when a key could not be read. */
export function readIssuers(config: Config, problems: string[]): readonly IssuerProfile[] | undefined {
  const profiles = config.jwt.issuers.map((issuer, index) => {
    const keys = keySource(config, issuer, { field: `jwt.issuers[${index}]`, problems });
    const { issuer: name, audience, algorithms, operators, typ, permissionsClaim, maxLifetimeSeconds } = issuer;
    const { subjectPermissions, profile: kind } = issuer;
    const profile = {
      profile: kind,
      issuer: name,
      audience,
      algorithms,
      operators,
      permissionsClaim,
      maxLifetimeSeconds,
    };
    return keys === undefined ? undefined : { ...profile, subjectPermissions, keys, ...(typ !== undefined && { typ }) };
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

interface KeyPlace {
  readonly field: string;
  readonly problems: string[];
}

function keySource(config: Config, issuer: IssuerConfig, place: KeyPlace): KeySource | undefined {
  if (issuer.jwksUri !== undefined) {
    return { kind: "jwksUri", uri: issuer.jwksUri, credentials: readKeyCredentials(config, issuer, place) };
  }
  if (issuer.jwks !== undefined) return { kind: "jwks", jwks: issuer.jwks };
  if (issuer.publicKey !== undefined) return { kind: "publicKey", key: issuer.publicKey };
  const isPem = issuer.publicKeyFile !== undefined;
  const field = `${place.field}.${isPem ? "publicKeyFile" : "jwksFile"}`;
  const path = issuer.publicKeyFile ?? issuer.jwksFile ?? "";
  const text = readNamed(config, { path, field }, place.problems)?.toString("utf8");
  if (text === undefined) return undefined;
  const source = isPem ? ({ kind: "publicKey", key: text } as const) : jwksOf(text);
  // Checked here too, because only here the file of the keys is known.
  const keys = source === undefined ? [notJwks(text)] : staticKeys(source, issuer.algorithms);
  if (!Array.isArray(keys)) return source;
  place.problems.push(...keys.map((fault) => `${field}: ${path}: ${fault}`));
  return undefined;
}

function jwksOf(text: string): { readonly kind: "jwks"; readonly jwks: unknown } | undefined {
  try {
    return { kind: "jwks", jwks: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

function notJwks(text: string): string {
  return text.includes("-----BEGIN") ? "is PEM, not JSON: name it as publicKeyFile" : "is not JSON";
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
    if (folder?.isDirectory() !== true) return [`server.socket: ${dirname(path)} is no folder: make it first`];
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found === undefined || found.isSocket()) return [];
    const fault = found.isSymbolicLink() ? "is a symbolic link" : "is there already, and is no socket";
    return [`server.socket: ${path} ${fault}`];
  } catch (error) {
    return [`server.socket: cannot be made (${systemCode(error)})`];
  }
}
