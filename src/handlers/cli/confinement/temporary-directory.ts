import { mkdtempSync, realpathSync } from "node:fs";
import { chmod, lstat, readdir, rename, rmdir, unlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

export function makeTemporaryDirectory(): string {
  return mkdtempSync(join(realpathSync(tmpdir()), "safe-tool-call-"));
}

/**
 * Removes a directory with all that lies in it, in time of how much that is. What a directory holds is moved to the top before
 * the directory goes: by their own paths those that lie deep take time of their depth, each.
 *
 * @param newId names that nothing in it has
 */
export async function removeTemporaryDirectory(top: string, newId: () => string): Promise<void> {
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
