import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { mkdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { diskFiles } from "../audit/journal/file-operations.ts";
import { build, manifestIn, type SigningKey, timestampOf, withManifest } from "../bundles/build.ts";
import { BundleError } from "../bundles/bundle-error.ts";
import { assertSeparateKeys, checkBundle, checkTimestamp } from "../bundles/checks.ts";
import { TIMESTAMP_FILE } from "../bundles/client.ts";
import { contentOf, readKeys, withSignature } from "../bundles/metadata.ts";
import { BUNDLE_FILE, BundleServer } from "../bundles/server.ts";
import { errorText, systemCode } from "../core/error-text.ts";
import { parseYaml } from "../runtime/config/file.ts";
import { CommandError, EXIT, print, reportChange, wrongUsage } from "./output.ts";

const DAY_SECONDS = 86_400;
const SECOND_MS = 1_000;

interface BuildOptions {
  readonly out: string;
  readonly fleet: string;
  readonly environment: string;
  readonly version: number;
  readonly previous?: string | undefined;
  readonly createdAt?: string | undefined;
  readonly label: readonly (readonly [string, string])[];
  readonly percent?: number | undefined;
  readonly allowCode?: boolean | undefined;
}

export async function bundleBuild(folder: string, options: BuildOptions): Promise<void> {
  const { out, fleet, environment, version, previous, createdAt, label, percent, allowCode } = options;
  const labels = label.length === 0 ? undefined : Object.fromEntries(label);
  const hasRollout = labels !== undefined || percent !== undefined;
  await guarded(async () => {
    if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true)
      throw new CommandError(EXIT.noInput, `${folder} cannot be read (ENOENT)`);
    const former = previousOf(previous, join(out, BUNDLE_FILE));
    if (former !== undefined && version < former.version)
      wrongUsage(`--version must be higher than ${former.version}, the version of the bundle before it`);
    // The same version is built again.
    const isAgain = former?.version === version;
    const archive = build(folder, {
      fleet,
      environment,
      version,
      previous: (isAgain ? former.previous : former?.digest) ?? null,
      createdAt: new Date(createdAt ?? now()).toISOString(),
      rollout: hasRollout ? { ...(labels && { labels }), ...(percent !== undefined && { percent }) } : undefined,
      allowsCode: allowCode === true,
      readYaml: parseYaml,
    });
    await write(out, BUNDLE_FILE, archive);
    reportChange(() => print.line(`${join(out, BUNDLE_FILE)}: version ${version}, not signed yet`));
  });
}

function previousOf(given: string | undefined, usual: string) {
  const archive = given === undefined ? readIfThere(usual) : read(given);
  if (archive === undefined) return undefined;
  const file = manifestIn(archive);
  const { version, previous } = contentOf(file, "bundle");
  return { version, previous, digest: file.digest };
}

interface SignOptions {
  readonly key: string;
  readonly timestamp?: boolean | undefined;
  readonly expires?: number | undefined;
}

export async function bundleSign(folder: string, { key: path, timestamp, expires }: SignOptions): Promise<void> {
  if (timestamp !== true && expires !== undefined) wrongUsage("--expires is for --timestamp");
  await guarded(async () => {
    const signing = privateKeyIn(path);
    const archive = read(join(folder, BUNDLE_FILE));
    if (timestamp !== true) {
      const file = manifestIn(archive);
      const { version } = contentOf(file, "bundle");
      await write(folder, BUNDLE_FILE, withManifest(archive, withSignature(file, signing.key, signing.publicKey)));
      reportChange(() => print.line(`${join(folder, BUNDLE_FILE)}: version ${version} is signed`));
      return;
    }
    const nowMs = now();
    const { signed, text } = timestampOf(
      archive,
      {
        former: readIfThere(join(folder, TIMESTAMP_FILE)),
        createdAt: new Date(nowMs).toISOString(),
        expires: new Date(nowMs + (expires ?? DAY_SECONDS) * SECOND_MS).toISOString(),
      },
      signing,
    );
    await write(folder, TIMESTAMP_FILE, Buffer.from(text));
    reportChange(() =>
      print.line(`${join(folder, TIMESTAMP_FILE)}: version ${signed.version} is current until ${signed.expires}`),
    );
  });
}

interface VerifyOptions {
  readonly key: readonly string[];
  readonly timestampKey: readonly string[];
  readonly threshold: number;
  readonly fleet: string;
  readonly environment: string;
  readonly minVersion: number;
  readonly allowCode?: boolean | undefined;
  readonly json?: boolean | undefined;
}

export async function bundleVerify(folder: string, options: VerifyOptions): Promise<void> {
  const { key, timestampKey, allowCode, json, ...accepted } = options;
  if (key.length === 0 || timestampKey.length === 0) wrongUsage("--key and --timestamp-key are needed");
  await guarded(async () => {
    const expected = {
      ...accepted,
      keys: key.flatMap(publicKeysIn),
      timestampKeys: timestampKey.flatMap(publicKeysIn),
      allowsCode: allowCode === true,
      readYaml: parseYaml,
    };
    assertSeparateKeys(expected);
    const timestamp = checkTimestamp(read(join(folder, TIMESTAMP_FILE)), expected, undefined, now());
    const { manifest, digest, policy } = checkBundle(read(join(folder, BUNDLE_FILE)), expected, timestamp, undefined);
    if (json === true) return print.json({ digest, expires: timestamp.expires, ...manifest });
    const { fleet, environment, version, previous, createdAt, files, rollout } = manifest;
    print.line(`version ${version} of ${fleet}, ${environment}, made at ${createdAt}`);
    print.line(`digest ${digest}, previous ${previous ?? "none"}`);
    print.line(`current until ${timestamp.expires}`);
    if (rollout !== undefined) print.line(`for members with ${JSON.stringify(rollout)}`);
    print.line(`sets ${Object.keys(policy as object).join(", ")}`);
    print.line(`${Object.keys(files).length} files, all as listed and signed`);
  });
}

interface ServeOptions {
  readonly host: string;
  readonly port: number;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  readonly clientCaFile?: string | undefined;
  readonly tokenFile?: string | undefined;
}

export async function bundleServe(folder: string, options: ServeOptions): Promise<void> {
  const { host, port, certFile, keyFile, clientCaFile, tokenFile } = options;
  if ((certFile === undefined) !== (keyFile === undefined)) wrongUsage("--cert-file and --key-file go together");
  if (clientCaFile !== undefined && certFile === undefined) wrongUsage("--client-ca-file needs --cert-file");
  await guarded(async () => {
    read(join(folder, BUNDLE_FILE));
    const ca = clientCaFile === undefined ? undefined : read(clientCaFile);
    const tls =
      certFile === undefined || keyFile === undefined ? undefined : { cert: read(certFile), key: read(keyFile), ca };
    const token = tokenFile === undefined ? undefined : read(tokenFile).toString().trim();
    const server = new BundleServer({ folder, host, port, tls, token });
    print.line(`serving ${folder} at ${server.url}${BUNDLE_FILE}`);
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => end());
    await ended;
    await server.close();
  });
}

const now = (): number => Date.now();

/** Ends with the reason when a bundle is refused. */
async function guarded(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (error instanceof CommandError) throw error;
    if (error instanceof BundleError) throw new CommandError(EXIT.failed, error.message);
    throw error instanceof Error && "code" in error ? new CommandError(EXIT.failed, errorText(error)) : error;
  }
}

/** @throws {CommandError} */
function read(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new CommandError(EXIT.noInput, `${path} cannot be read (${systemCode(error)})`);
  }
}

function readIfThere(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw new CommandError(EXIT.noInput, `${path} cannot be read (${systemCode(error)})`);
  }
}

/** Replaces a file in one step: a server may be reading it. @throws {CommandError} */
async function write(folder: string, name: string, bytes: Uint8Array): Promise<void> {
  try {
    mkdirSync(folder, { recursive: true });
    await diskFiles.replace(join(folder, name), bytes);
  } catch (error) {
    throw new CommandError(EXIT.cannotWrite, `${join(folder, name)} cannot be written (${systemCode(error)})`);
  }
}

/** @throws {CommandError} */
function privateKeyIn(path: string): SigningKey {
  const pem = read(path);
  try {
    const key = createPrivateKey(pem);
    if (key.asymmetricKeyType === "ed25519") return { key, publicKey: createPublicKey(key) };
  } catch {
    // Reported below.
  }
  throw new CommandError(EXIT.noInput, `${path} does not contain an Ed25519 private key in PEM`);
}

/** @throws {CommandError} */
function publicKeysIn(path: string): readonly KeyObject[] {
  const text = read(path).toString();
  try {
    return readKeys(text);
  } catch (error) {
    throw new CommandError(EXIT.noInput, `${path}: ${errorText(error)}`);
  }
}
