import {
  closeSync,
  constants,
  existsSync,
  fchownSync,
  fstatSync,
  lstatSync,
  openSync,
  readSync,
  type Stats,
} from "node:fs";
import { systemCode } from "../../../core/error-text.ts";

/**
 * The files of a database: itself, and next to it its journal, or in WAL mode its log and the index of the log. The service opens none
 * of them while it holds a lock on one: it has no locks.
 */

const HEADER_BYTES = 100;
const WAL_VERSION = 2;
/** Offset of the counter that each commit changes, without WAL. */
const COUNTER = [24, 28] as const;
/** Offset of the data that identifies the last commit in the index of the log: its number of frames, size, checksums, salts. */
const LAST_COMMIT = [16, 40] as const;
const OTHERS = 0o077;

/** Returns what is wrong with a database's file; undefined for one that may be used. */
export function fileProblem(path: string): string | undefined {
  try {
    const found = lstatSync(path);
    if (found.isSymbolicLink()) return `${path} is a symbolic link`;
    if (!found.isFile()) return `${path} is not a file`;
    if (found.nlink > 1) return `${path} has another name as well (a hard link)`;
    const user = process.getuid?.() ?? 0;
    return user === 0 || found.uid === user || found.uid === 0 ? undefined : `${path} is another user's file`;
  } catch (error) {
    return `${path} cannot be used (${systemCode(error)})`;
  }
}

/** Returns the identity of the file at a path, which changes when another file replaces it; undefined for an unusable file. */
export function identityOf(path: string): string | undefined {
  if (fileProblem(path) !== undefined) return undefined;
  const { dev, ino } = lstatSync(path);
  return `${dev} ${ino}`;
}

/** The files that a process may use, by kind of access. */
interface DatabaseFiles {
  readonly reads: readonly string[];
  readonly writes: readonly string[];
}

/**
 * Returns the files of a database for a process, and creates those that SQLite would create: a process may not create files in the directory.
 * @throws {Error} when one of them cannot be used
 */
export function filesFor(path: string, mayChange: boolean): DatabaseFiles {
  const [log, index, journal] = [`${path}-wal`, `${path}-shm`, `${path}-journal`];
  const isWal = isInWalMode(path);
  for (const each of isWal ? [log, index] : []) makeLike(path, each);
  if (mayChange && !isWal) makeLike(path, journal);
  const found = [log, index, journal].filter((each) => existsSync(each));
  for (const each of found) {
    const problem = fileProblem(each);
    if (problem !== undefined) throw new Error(problem);
  }
  // In WAL mode, readers write their marks to the index of the log.
  return mayChange
    ? { reads: [], writes: [path, ...found] }
    : { reads: [path, ...found.filter((each) => each !== index)], writes: found.filter((each) => each === index) };
}

/** Creates a missing file with the owner and the mode of another one, as SQLite does. */
function makeLike(path: string, missing: string): void {
  const like: Stats = lstatSync(path);
  try {
    const { O_CREAT, O_EXCL, O_RDWR, O_NOFOLLOW } = constants;
    const made = openSync(missing, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW, like.mode & (OTHERS | 0o700));
    try {
      if (fstatSync(made).uid !== like.uid) fchownSync(made, like.uid, like.gid);
    } finally {
      closeSync(made);
    }
  } catch (error) {
    if (systemCode(error) !== "EEXIST") throw new Error(`${missing} cannot be created (${systemCode(error)})`);
  }
}

/** Returns whether a database writes changes to a log first, and not a journal of former contents. @throws {Error} with a `code` */
export function isInWalMode(path: string): boolean {
  return readPart(path, 18, 19)[0] === WAL_VERSION;
}

/**
 * Returns a marker of a database's last commit. Every commit, by any process, changes the marker.
 * @throws {Error} with a `code`
 */
export function lastCommit(path: string): string {
  const isWal = isInWalMode(path);
  const part = isWal ? readPart(`${path}-shm`, ...LAST_COMMIT) : readPart(path, ...COUNTER);
  return `${isWal ? "wal" : "counter"} ${part.toString("hex")}`;
}

function readPart(path: string, from: number, to: number): Buffer {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const bytes = Buffer.alloc(HEADER_BYTES);
    const count = readSync(file, bytes, 0, HEADER_BYTES, 0);
    return bytes.subarray(Math.min(from, count), Math.min(to, count));
  } finally {
    closeSync(file);
  }
}
