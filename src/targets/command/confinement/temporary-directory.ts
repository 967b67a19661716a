import { closeSync, constants, fstatSync, mkdtempSync, openSync, readdirSync, realpathSync, renameSync } from "node:fs";
import { chmod, lstat, readdir, rename, rmdir, unlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cLibrary } from "./c-library.ts";

const PREFIX = "safe-tool-call-call-";
/** A directory has this name until it is locked: one that nobody has locked yet is not taken for abandoned. */
const PREFIX_UNLOCKED = "safe-tool-call-new-";
const NAME = new RegExp(`^${PREFIX}[A-Za-z0-9]{6}$`);
/** Abandoned directories that one start removes. */
const ABANDONED_MAX = 1_000;
const LOCK_EXCLUSIVE_NOW = 2 | 4;
const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants;

/** The private directory of one call. It is locked until it is removed: the kernel takes the lock away when the service ends. */
export interface TemporaryDirectory {
  readonly path: string;
  /** @param newId names that nothing in it has */
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

/** Removes the directories of calls whose service was killed. Other services' directories are locked, other users' not ours. */
export async function removeAbandoned(newId: () => string): Promise<void> {
  const folder = realpathSync(tmpdir());
  for (const name of readdirSync(folder)
    .filter((other) => NAME.test(other))
    .slice(0, ABANDONED_MAX)) {
    const path = join(folder, name);
    const descriptor = lock(path);
    if (descriptor === undefined) continue;
    // What cannot be removed stays, as it does after a call.
    await removeTree(path, newId).catch(() => {});
    closeSync(descriptor);
  }
}

/** A descriptor with the lock. Undefined for a link, somebody else's directory, and one that is in use. */
function lock(path: string): number | undefined {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    const isOurs = fstatSync(descriptor).uid === process.getuid?.();
    if (isOurs && cLibrary().flock(descriptor, LOCK_EXCLUSIVE_NOW) === 0) return descriptor;
  } catch {
    // Gone meanwhile, or no directory.
  }
  if (descriptor !== undefined) closeSync(descriptor);
  return undefined;
}

/**
 * Removes a directory with all that lies in it, in time of how much that is. What a directory holds is moved to the top before
 * the directory goes: by their own paths those that lie deep take time of their depth, each.
 *
 * @param newId names that nothing in it has
 */
async function removeTree(top: string, newId: () => string): Promise<void> {
  const prefix = newId();
  let moved = 0;
  const lift = async (path: Buffer): Promise<void> => {
    await open(path);
    for (const name of await readdir(path, { encoding: "buffer" })) {
      moved += 1;
      const [from, to] = [below(path, name), join(top, `${prefix}-${moved}`)];
      // A directory is moved only by who may change it.
      await rename(from, to).catch(() => open(from).then(() => rename(from, to)));
    }
    await rmdir(path);
  };
  await open(top);
  for (let names = await namesIn(top); names.length > 0; names = await namesIn(top)) {
    for (const name of names) {
      const path = below(Buffer.from(top), name);
      // A directory is not unlinked.
      await unlink(path).catch(() => lift(path));
    }
  }
  await rmdir(top);
}

/** Not even its owner may look into what was made so. A link would lead the change of mode to somebody else's file. */
async function open(directory: string | Buffer): Promise<void> {
  if (!(await lstat(directory)).isDirectory()) throw new Error("no directory");
  await chmod(directory, 0o700);
}

function namesIn(directory: string): Promise<Buffer[]> {
  return readdir(directory, { encoding: "buffer" });
}

/** As bytes: not every name is a text. */
function below(directory: Buffer, name: Uint8Array): Buffer {
  return Buffer.concat([directory, Buffer.from("/"), name]);
}
