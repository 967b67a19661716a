import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

export type Files = Readonly<Record<string, string>>;

interface InstallOptions<Value> {
  readonly folder: string;
  readonly fileNames: readonly string[];
  /** Returns the value that these files contain, or undefined when they must be created again. */
  read(files: Files): Value | undefined;
  make(): Promise<Files>;
}

const ATTEMPTS_MAX = 10;
const PRIVATE_FILE = 0o600;
const PRIVATE_FOLDER = 0o700;

function isErrno(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && "code" in error && codes.includes(String(error.code));
}

async function readFiles(folder: string, fileNames: readonly string[]): Promise<Files | undefined> {
  try {
    const texts = await Promise.all(fileNames.map((name) => readFile(join(folder, name), "utf8")));
    return Object.fromEntries(fileNames.map((name, index) => [name, texts[index] ?? ""]));
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return undefined;
    throw error;
  }
}

async function readValue<Value>({ folder, fileNames, read }: InstallOptions<Value>): Promise<Value | undefined> {
  const files = await readFiles(folder, fileNames);
  if (files === undefined) return undefined;
  try {
    return read(files);
  } catch {
    return undefined;
  }
}

async function renameIfFree(from: string, to: string): Promise<boolean> {
  try {
    await rename(from, to);
    return true;
  } catch (error) {
    if (isErrno(error, "ENOTEMPTY", "EEXIST", "ENOENT", "ENOTDIR")) return false;
    throw error;
  }
}

/**
 * Returns the value that the files of a folder contain together. Creates the files when they are missing or no longer valid. A
 * new folder is renamed into place as a whole, so that concurrent processes read the same files.
 */
export async function installFolder<Value>(options: InstallOptions<Value>): Promise<Value> {
  const { folder } = options;
  const parent = dirname(folder);
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
    const value = await readValue(options);
    if (value !== undefined) return value;
    await mkdir(parent, { recursive: true, mode: PRIVATE_FOLDER });
    const fresh = await mkdtemp(join(parent, `.${basename(folder)}-`));
    const replaced = `${fresh}-replaced`;
    try {
      for (const [name, text] of Object.entries(await options.make())) {
        await writeFile(join(fresh, name), text, { mode: PRIVATE_FILE });
      }
      if (await renameIfFree(fresh, folder)) continue;
      // Reads again: another process may have installed valid files in the meantime.
      const winner = await readValue(options);
      if (winner !== undefined) return winner;
      await renameIfFree(folder, replaced);
      await renameIfFree(fresh, folder);
    } finally {
      await rm(fresh, { recursive: true, force: true });
      await rm(replaced, { recursive: true, force: true });
    }
  }
  throw new Error(`${folder} cannot be made or read`);
}
