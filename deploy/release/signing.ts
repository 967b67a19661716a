import { createHash, type KeyObject } from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { type Digested, sealed, statementOf } from "./provenance.ts";
import { run } from "./run.ts";
import { MANIFEST, type Source } from "./source.ts";
import { privateKeyOf } from "./ssh-key.ts";

/** Separates these signatures from others that the same key makes. */
export const NAMESPACE = "safe-tool-call-release";
export const SUMS = "SHA256SUMS";
export const SIGNATURE = `${SUMS}.sig`;

export interface Signer {
  /** Path of the private key. */
  readonly file: string;
  readonly key: KeyObject;
}

/**
 * Returns the signer whose private key is in a file.
 * @throws {Error} when the key is unusable, or the source differs from its commit: a signature says where the files come from
 */
export function signerOf(file: string, source: Source): Signer {
  if (source.changed) throw new Error("commit your changes first: a signed release is built from a commit");
  if (!existsSync(file)) throw new Error(`there is no key ${file}`);
  return { file, key: privateKeyOf(readFileSync(file, "utf8")) };
}

/** Writes the provenance of the files, `SHA256SUMS` over all of them, and its signature. Without a signer, only `SHA256SUMS`. */
export async function seal(paths: readonly string[], source: Source, signer?: Signer): Promise<readonly string[]> {
  const folder = folderOf(paths);
  const provenance = join(folder, `${MANIFEST.name}-${source.version}.intoto.json`);
  const [sums, signature] = [join(folder, SUMS), join(folder, SIGNATURE)];
  // Those of an earlier release.
  for (const path of [provenance, sums, signature]) rmSync(path, { force: true });
  if (signer === undefined) {
    writeSums(sums, paths.map(digested));
    return [sums];
  }
  const envelope = sealed(await statementOf(paths.map(digested), source), signer.key);
  writeFileSync(provenance, `${JSON.stringify(envelope)}\n`);
  writeSums(sums, [...paths, provenance].map(digested));
  await run(["ssh-keygen", "-q", "-Y", "sign", "-f", signer.file, "-n", NAMESPACE, sums]);
  return [provenance, sums, signature];
}

function folderOf(paths: readonly string[]): string {
  const folders = new Set(paths.map((path) => join(path, "..")));
  const [folder] = folders;
  if (folder === undefined || folders.size > 1) throw new Error("the files of a release lie in one folder");
  return folder;
}

export function digested(path: string): Digested {
  return { name: basename(path), sha256: createHash("sha256").update(readFileSync(path)).digest("hex") };
}

/** In the format of `sha256sum`. */
function writeSums(path: string, files: readonly Digested[]): void {
  const sorted = files.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  writeFileSync(path, sorted.map(({ name, sha256 }) => `${sha256}  ${name}\n`).join(""));
}
