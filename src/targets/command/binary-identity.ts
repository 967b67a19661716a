import { createHash } from "node:crypto";
import { closeSync, openSync, readSync, statSync } from "node:fs";

const CHUNK_BYTES = 1_048_576;

interface Known {
  /** State of the file when it was hashed. */
  readonly stamp: string;
  readonly sha256: string;
}

const known = new Map<string, Known>();

/**
 * Returns the hex SHA-256 of a program, so that a plan names the exact binary that will run. Hashes again only when the file has
 * changed: by device, inode, size, mtime and ctime, of which nobody can set the last. Empty when the file cannot be read; then it
 * cannot run either.
 */
export function binarySha256(path: string): string {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
    const stamp = [dev, ino, size, mtimeNs, ctimeNs].join(":");
    const before = known.get(path);
    if (before?.stamp === stamp) return before.sha256;
    const sha256 = hashFile(path);
    known.set(path, { stamp, sha256 });
    return sha256;
  } catch {
    return "";
  }
}

function hashFile(path: string): string {
  const descriptor = openSync(path, "r");
  try {
    const hash = createHash("sha256");
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    for (let read = readSync(descriptor, chunk); read > 0; read = readSync(descriptor, chunk)) {
      hash.update(chunk.subarray(0, read));
    }
    return hash.digest("hex");
  } finally {
    closeSync(descriptor);
  }
}
