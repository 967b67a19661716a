import { closeSync, constants, fstatSync, mkdtempSync, openSync, readdirSync, realpathSync, renameSync } from "node:fs";
import { chmod, lstat, readdir, rename, rmdir, unlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cLibrary } from "./c-library.ts";

const PREFIX = "safe-tool-call-call-";
/** Name prefix until the directory is locked: `removeAbandoned` ignores it. */
const PREFIX_UNLOCKED = "safe-tool-call-new-";
const NAME = new RegExp(`^${PREFIX}[A-Za-z0-9]{6}$`);
/** Maximum number of abandoned directories that one start removes. */
const ABANDONED_MAX = 1_000;
const LOCK_EXCLUSIVE_NOW = 2 | 4;
const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants;

/** Private directory of one call, locked until it is removed. The kernel ends the lock with the service. */
export interface TemporaryDirectory {
  readonly path: string;
  /** @param newId returns names that no entry of the directory has */
  remove(newId: () => string): Promise<void>;
}

export function makeTemporaryDirectory(): TemporaryDirectory {
  const made = mkdtempSync(join(realpathSync(tmpdir()), PREFIX_UNLOCKED));
  const descriptor = lock(made);
  if (descriptor === undefined) throw new Error("the temporary directory cannot be locked");
  const path = made.replace(PREFIX_UNLOCKED, PREFIX);
  renameSync(made, path);
  return {
    path,
    async remove(newId) {
      try {
        await removeTree(path, newId);
      } finally {
        closeSync(descriptor);
      }
    },
  };
}

/** Removes the directories of a killed service. Skips those that are locked or belong to other users. */
export async function removeAbandoned(newId: () => string): Promise<void> {
  const folder = realpathSync(tmpdir());
  for (const name of readdirSync(folder)
    .filter((other) => NAME.test(other))
    .slice(0, ABANDONED_MAX)) {
    const path = join(folder, name);
    const descriptor = lock(path);
    if (descriptor === undefined) continue;
    // Ignores files that cannot be removed, as after a call.
    await removeTree(path, newId).catch(() => {});
    closeSync(descriptor);
  }
}

/** Returns a descriptor with the lock; `undefined` for links, directories of other users, and directories in use. */
function lock(path: string): number | undefined {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    const isOurs = fstatSync(descriptor).uid === process.getuid?.();
    if (isOurs && cLibrary().flock(descriptor, LOCK_EXCLUSIVE_NOW) === 0) return descriptor;
  } catch {
    // Removed meanwhile, or not a directory.
  }
  if (descriptor !== undefined) closeSync(descriptor);
  return undefined;
}

/**
 * Removes a directory tree in time proportional to its number of entries. Entries of subdirectories are first moved to
 * the top, because using a path takes time proportional to its depth.
 *
 * @param newId returns names that no entry of the directory has
 */
async function removeTree(top: string, newId: () => string): Promise<void> {
  const prefix = newId();
  let moved = 0;
  const moveEntriesUp = async (path: Buffer): Promise<void> => {
    await open(path);
    for (const name of await readdir(path, { encoding: "buffer" })) {
      moved += 1;
      const [from, to] = [below(path, name), join(top, `${prefix}-${moved}`)];
      // Moving a directory requires permission to change it.
      await rename(from, to).catch(() => open(from).then(() => rename(from, to)));
    }
    await rmdir(path);
  };
  await open(top);
  for (let names = await namesIn(top); names.length > 0; names = await namesIn(top)) {
    for (const name of names) {
      const path = below(Buffer.from(top), name);
      // `unlink` fails on a directory.
      await unlink(path).catch(() => moveEntriesUp(path));
    }
  }
  await rmdir(top);
}

/** Makes a directory accessible to its owner. Throws for a link, because `chmod` would change its target. */
async function open(directory: string | Buffer): Promise<void> {
  if (!(await lstat(directory)).isDirectory()) throw new Error("not a directory");
  await chmod(directory, 0o700);
}

function namesIn(directory: string): Promise<Buffer[]> {
  return readdir(directory, { encoding: "buffer" });
}

/** Joins a path as bytes: not every name is valid text. */
function below(directory: Buffer, name: Uint8Array): Buffer {
  return Buffer.concat([directory, Buffer.from("/"), name]);
}
