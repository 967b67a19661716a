import type { KeyObject } from "node:crypto";
import { readdirSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { sha256Hex } from "../core/digest.ts";
import { readPlainFile } from "../runtime/config/plain-file.ts";
import { type ArchiveFiles, FILES_MAX, pack, pathProblem, unpack } from "./archive.ts";
import { assertBundle, BundleError } from "./bundle-error.ts";
import { assertContent, assertFollows, assertOwn, manifestOf, policyOf } from "./checks.ts";
import {
  assertSigned,
  type BundleManifest,
  contentOf,
  fileOf,
  MANIFEST_FILE,
  READER,
  type Rollout,
  readFile,
  type Timestamp,
  type UnverifiedFile,
  withSignature,
} from "./metadata.ts";
import { OWN_FILES } from "./policy.ts";

export interface BuildOptions
  extends Pick<BundleManifest, "fleet" | "environment" | "version" | "previous" | "createdAt"> {
  readonly rollout: Rollout | undefined;
  readonly allowsCode: boolean;
  readonly readYaml: (text: string, origin: string) => unknown;
}

/** Returns the archive of a folder, unsigned. The same folder and options give the same bytes. @throws {BundleError} */
export function build(folder: string, { rollout, allowsCode, readYaml, ...signed }: BuildOptions): Buffer {
  const content = filesBelow(folder);
  policyOf(content, { allowsCode, readYaml });
  const roots = [...new Set([...content.keys()].map((path) => path.split("/")[0]))].sort();
  const manifest = { revision: String(signed.version), roots };
  const files = new Map([...content, [".manifest", Buffer.from(`${JSON.stringify(manifest)}\n`)]]);
  const listed = [...files].map(([path, bytes]) => [path, { sha256: sha256Hex(bytes), size: bytes.length }]);
  const bundle = fileOf({
    type: "bundle",
    ...signed,
    minReader: READER,
    ...(rollout !== undefined && { rollout }),
    files: Object.fromEntries(listed),
  });
  return pack(new Map([...files, [MANIFEST_FILE, Buffer.from(bundle)]]));
}

/** Returns the archive with another `bundle.json`, such as one with a further signature. */
export function withManifest(archive: Uint8Array, bundle: string): Buffer {
  return pack(new Map([...unpack(archive), [MANIFEST_FILE, Buffer.from(bundle)]]));
}

/** Returns the `bundle.json` of an archive, unverified. @throws {BundleError} */
export function manifestIn(archive: Uint8Array): UnverifiedFile {
  return manifestOf(unpack(archive));
}

export interface SigningKey {
  readonly key: KeyObject;
  readonly publicKey: KeyObject;
}

/** `former` is the `timestamp.json` that this one replaces. */
interface TimestampOptions extends Pick<Timestamp, "createdAt" | "expires"> {
  readonly former: Uint8Array | undefined;
}

/**
 * Returns a signed `timestamp.json`, which names an archive as the current one, and its content. The signatures of the archive are not
 * verified: that takes the offline key's public half.
 *
 * @throws {BundleError} when the archive does not hold what it lists, or does not follow the former timestamp
 */
export function timestampOf(
  archive: Uint8Array,
  { former, ...times }: TimestampOptions,
  { key, publicKey }: SigningKey,
): { readonly signed: Timestamp; readonly text: string } {
  const files = unpack(archive);
  const file = manifestOf(files);
  const manifest = contentOf(file, "bundle");
  assertContent(manifest, files);
  const { fleet, environment, version } = manifest;
  const signed: Timestamp = { type: "timestamp", fleet, environment, version, digest: file.digest, ...times };
  const known = former && signedWith(former, publicKey);
  if (known !== undefined) {
    assertOwn(MANIFEST_FILE, manifest, known);
    assertFollows(signed, { ...known, timestamp: known });
  }
  return { signed, text: withSignature(readFile(Buffer.from(fileOf(signed)), "timestamp"), key, publicKey) };
}

/** Returns a timestamp that the key has signed; undefined for any other, which somebody else may have put there. */
function signedWith(bytes: Uint8Array, publicKey: KeyObject): Timestamp | undefined {
  try {
    const file = readFile(bytes, "timestamp");
    assertSigned(file, [publicKey], 1);
    return contentOf(file, "timestamp");
  } catch (error) {
    if (error instanceof BundleError) return undefined;
    throw error;
  }
}

function filesBelow(folder: string): ArchiveFiles {
  const files = new Map<string, Uint8Array>();
  const visit = (at: string): void => {
    for (const entry of readdirSync(at, { withFileTypes: true })) {
      const path = join(at, entry.name);
      const inside = relative(folder, path).split(sep).join("/");
      // Written by the build itself.
      if (OWN_FILES.has(inside)) continue;
      const problem = pathProblem(inside);
      assertBundle(problem === undefined, "malformed", `${inside}: its path ${problem}`);
      if (entry.isDirectory()) {
        visit(path);
        continue;
      }
      assertBundle(entry.isFile(), "malformed", `${inside}: is not a regular file`);
      assertBundle(files.size < FILES_MAX, "malformed", `the folder holds more than ${FILES_MAX} files`);
      files.set(inside, readPlainFile(path));
    }
  };
  visit(folder);
  return files;
}
