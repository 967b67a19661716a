import type { KeyObject } from "node:crypto";
import { sha256Hex } from "../core/digest.ts";
import { StartupError } from "../core/errors.ts";
import type { EpochMs } from "../core/types.ts";
import { type ArchiveFiles, pathProblem, unpack } from "./archive.ts";
import { assertBundle, BundleError } from "./bundle-error.ts";
import {
  assertSigned,
  type BundleManifest,
  contentOf,
  keyName,
  MANIFEST_FILE,
  readFile,
  type Timestamp,
  type UnverifiedFile,
} from "./metadata.ts";
import { fileProblem, POLICY_FILE, policyProblems } from "./policy.ts";

/** The rules by which a member accepts a bundle, after TUF (theupdateframework.io), each in one line. */

/** Tolerated difference between the clock of a member and that of the signer. */
export const CLOCK_TOLERANCE_MS = 300_000;

/** The part of the acceptance rules that is in a member's own configuration. */
export interface BundleExpectations {
  readonly fleet: string;
  readonly environment: string;
  readonly keys: readonly KeyObject[];
  /** Number of `keys` that must have signed. */
  readonly threshold: number;
  readonly timestampKeys: readonly KeyObject[];
  readonly minVersion: number;
  readonly allowsCode: boolean;
  /** Reads YAML. @throws {StartupError} that says what is wrong */
  readonly readYaml: (text: string, origin: string) => unknown;
}

/** The bundle that was accepted last, remembered across restarts. */
export interface Accepted {
  readonly version: number;
  readonly digest: string;
  /** Names of the keys that were configured then. */
  readonly keys: readonly string[];
  /** The newest timestamp: its bundle may be one that the rollout keeps from this member. */
  readonly timestamp: Pick<Timestamp, "version" | "digest" | "createdAt" | "expires">;
}

export interface Bundle {
  readonly manifest: BundleManifest;
  readonly digest: string;
  readonly files: ArchiveFiles;
  readonly policy: unknown;
}

/**
 * Returns what was accepted last, as far as it still counts. When none of the keys of that time is configured any more, the former
 * ones are lost, and whoever has them may have signed any version: the member begins again from `minVersion`.
 */
export function remembered(
  accepted: Accepted | undefined,
  { keys }: Pick<BundleExpectations, "keys">,
): Accepted | undefined {
  const names = new Set(keys.map(keyName));
  return accepted?.keys.some((name) => names.has(name)) === true ? accepted : undefined;
}

/**
 * Refuses a key that may sign both the content and the timestamp: the server has the timestamp key, and its thief could set the
 * policy. @throws {BundleError}
 */
export function assertSeparateKeys({ keys, timestampKeys }: Pick<BundleExpectations, "keys" | "timestampKeys">): void {
  const names = new Set(keys.map(keyName));
  const isShared = timestampKeys.some((key) => names.has(keyName(key)));
  assertBundle(!isShared, "signature", "a key of the content is also a key of the timestamp: use two different keys");
}

/** @throws {BundleError} */
export function checkTimestamp(
  bytes: Uint8Array,
  expected: BundleExpectations,
  accepted: Accepted | undefined,
  now: EpochMs,
): Timestamp {
  const timestamp = readTimestamp(bytes, expected);
  const { version, createdAt, expires } = timestamp;
  assertBundle(
    Date.parse(createdAt) <= now + CLOCK_TOLERANCE_MS,
    "expired",
    `timestamp.json was signed in the future, at ${createdAt}: check the clock of this machine`,
  );
  assertBundle(!isExpired(timestamp, now), "expired", `timestamp.json has expired at ${expires}`);
  assertBundle(
    version >= expected.minVersion,
    "rollback",
    `version ${version} is below bundle.minVersion, which is ${expected.minVersion}`,
  );
  const known = remembered(accepted, expected);
  if (known !== undefined) assertFollows(timestamp, known);
  return timestamp;
}

/** Checks a timestamp against what was accepted before it. @throws {BundleError} */
export function assertFollows(
  { version, digest, createdAt }: Accepted["timestamp"],
  known: Pick<Accepted, "version" | "digest" | "timestamp">,
): void {
  const newest = known.timestamp;
  // Else a thief of the online key could give the bundle in force a version that no later one reaches.
  const named = [known, newest].find((one) => one.digest === digest);
  assertBundle(
    named === undefined || named.version === version,
    "mixed",
    `timestamp.json names version ${version} for the bundle of version ${named?.version}`,
  );
  assertBundle(
    version >= newest.version,
    "rollback",
    `version ${version} is older than version ${newest.version}, which was seen before`,
  );
  if (version > newest.version) return;
  assertBundle(
    digest === newest.digest,
    "mixed",
    `timestamp.json names another bundle of version ${version} than before`,
  );
  // Compares the times of signing, which a thief of the key cannot set far into the future: the next one is accepted again.
  const isOlder = Date.parse(createdAt) < Date.parse(newest.createdAt);
  assertBundle(!isOlder, "rollback", `timestamp.json of version ${version} is older than the one before`);
}

/** Reads a timestamp whatever the time. @throws {BundleError} */
export function readTimestamp(bytes: Uint8Array, expected: BundleExpectations): Timestamp {
  const file = readFile(bytes, "timestamp");
  assertSigned(file, expected.timestampKeys, 1);
  const timestamp = contentOf(file, "timestamp");
  assertOwn("timestamp.json", timestamp, expected);
  return timestamp;
}

export function isExpired(timestamp: Pick<Timestamp, "expires">, now: EpochMs): boolean {
  return now > lastMoment(timestamp);
}

/** Returns the last moment at which a timestamp counts as not expired. */
export function lastMoment({ expires }: Pick<Timestamp, "expires">): EpochMs {
  return Date.parse(expires) + CLOCK_TOLERANCE_MS;
}

/** Returns the list of files of an archive, unverified. @throws {BundleError} */
export function manifestOf(files: ArchiveFiles): UnverifiedFile {
  const bytes = files.get(MANIFEST_FILE);
  assertBundle(bytes !== undefined, "malformed", `the archive holds no ${MANIFEST_FILE}`);
  return readFile(bytes, "bundle");
}

/** Checks a bundle against the version and digest that the timestamp names. @throws {BundleError} */
export function checkBundle(
  archive: Uint8Array,
  expected: BundleExpectations,
  current: Pick<Timestamp, "version" | "digest">,
  accepted: Accepted | undefined,
): Bundle {
  const files = unpack(archive);
  const file = manifestOf(files);
  assertSigned(file, expected.keys, expected.threshold);
  const manifest = contentOf(file, "bundle");
  const { version, previous } = manifest;
  assertOwn(MANIFEST_FILE, manifest, expected);
  const isCurrent = version === current.version && file.digest === current.digest;
  assertBundle(
    isCurrent,
    "mixed",
    `the bundle of version ${version} is not the one that timestamp.json names (version ${current.version})`,
  );
  const known = remembered(accepted, expected);
  const follows = known === undefined || version !== known.version + 1 || previous === known.digest;
  assertBundle(
    follows,
    "mixed",
    `version ${version} does not follow the version ${known?.version} that is in force: its previous bundle is another one`,
  );
  assertContent(manifest, files);
  return { manifest, digest: file.digest, files, policy: policyOf(files, expected) };
}

/** Checks that a file belongs to the fleet and environment that are expected. @throws {BundleError} */
export function assertOwn(
  file: string,
  { fleet, environment }: Pick<Timestamp, "fleet" | "environment">,
  expected: Pick<Timestamp, "fleet" | "environment">,
): void {
  assertBundle(fleet === expected.fleet, "foreign", `${file} is of the fleet ${fleet}, not ${expected.fleet}`);
  assertBundle(
    environment === expected.environment,
    "foreign",
    `${file} is of the environment ${environment}, not ${expected.environment}`,
  );
}

/** Checks that the archive holds exactly the files of the manifest. @throws {BundleError} */
export function assertContent({ files: listed }: BundleManifest, files: ArchiveFiles): void {
  for (const [path, { sha256, size }] of Object.entries(listed)) {
    assertBundle(
      pathProblem(path) === undefined,
      "malformed",
      "bundle.json lists a path that is not a plain relative path",
    );
    const content = files.get(path);
    assertBundle(content !== undefined, "mixed", `${path} is missing in the archive`);
    const isSame = content.length === size && sha256Hex(content) === sha256;
    assertBundle(isSame, "mixed", `${path} differs from what bundle.json lists`);
  }
  const unlisted = [...files.keys()].find((path) => path !== MANIFEST_FILE && !Object.hasOwn(listed, path));
  assertBundle(unlisted === undefined, "mixed", `${unlisted} is not listed in bundle.json`);
}

/** Returns the bundle's part of the configuration. @throws {BundleError} when the bundle holds what it must not */
export function policyOf(
  files: ArchiveFiles,
  { allowsCode, readYaml }: Pick<BundleExpectations, "allowsCode" | "readYaml">,
): unknown {
  const bytes = files.get(POLICY_FILE);
  assertBundle(bytes !== undefined, "policy", `the bundle holds no ${POLICY_FILE}`);
  const policy = yamlIn(bytes, readYaml);
  const problems = [
    ...[...files.keys()].flatMap((path) => fileProblem(path, allowsCode) ?? []),
    ...policyProblems(policy, files.keys()),
  ];
  assertBundle(problems.length === 0, "policy", problems.join("; "));
  return policy;
}

function yamlIn(bytes: Uint8Array, readYaml: BundleExpectations["readYaml"]): unknown {
  try {
    return readYaml(new TextDecoder("utf-8", { fatal: true }).decode(bytes), POLICY_FILE);
  } catch (error) {
    const problem = error instanceof StartupError ? error.problems.join("; ") : `${POLICY_FILE}: cannot be read`;
    throw new BundleError("policy", problem);
  }
}
