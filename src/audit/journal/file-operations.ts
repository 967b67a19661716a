import { FFIType } from "bun:ffi";
import fs from "node:fs";
import { dirname, resolve } from "node:path";
import { errorText } from "../../core/error-text.ts";
import { bindCLibrary } from "../../native/c-library.ts";
import { AuditLogError } from "../audit-log-error.ts";

type FileFacts = Pick<fs.Stats, "dev" | "ino" | "size" | "isFile">;

/**
 * File operations of the writer; injected, so that tests can simulate a failing disk. Every operation throws or rejects
 * on failure.
 */
export interface FileOperations {
  /** Opens a file for appending; creates it (mode 0600) when missing; does not follow links. */
  openAppend(path: string): number;
  /** May write fewer bytes than given. Returns the number of bytes written. */
  write(fd: number, bytes: Uint8Array, offset: number): number;
  /** Runs on the thread pool. */
  fdatasync(fd: number): Promise<void>;
  syncDirectory(path: string): Promise<void>;
  truncate(fd: number, length: number): void;
  factsOf(fd: number): FileFacts;
  /** Returns `undefined` when no file has that name. */
  factsAt(path: string): FileFacts | undefined;
  close(fd: number): void;
  /** Atomically replaces the file at `path` with one that holds `bytes`. The bytes are synced before the rename. */
  replace(path: string, bytes: Uint8Array): Promise<void>;
  /** Returns the disk space that is available to this user and the total size of the disk, in bytes. */
  space(dir: string): { readonly free: number; readonly total: number };
  occupy(path: string, bytes: number): void;
  remove(path: string): void;
}

const { O_APPEND, O_CREAT, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY } = fs.constants;
/** Without `O_NONBLOCK`, opening a named pipe in place of a file would wait for its other end. */
export const READ_ONLY = O_RDONLY | O_NOFOLLOW | O_NONBLOCK;
export const READ_WRITE = O_RDWR | O_NOFOLLOW | O_NONBLOCK;
export const READ_APPEND = READ_WRITE | O_APPEND | O_CREAT;
const APPEND = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK;
const NEW = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK;
const PRIVATE_FILE_MODE = 0o600;
const PRIVATE_DIRECTORY_MODE = 0o700;

export const diskFiles: FileOperations = {
  openAppend: (path) => fs.openSync(path, APPEND, PRIVATE_FILE_MODE),
  write: (fd, bytes, offset) => fs.writeSync(fd, bytes, offset),
  fdatasync: (fd) => onPool((done) => fs.fdatasync(fd, done)),
  async syncDirectory(path) {
    const fd = fs.openSync(path, O_RDONLY | O_DIRECTORY);
    await onPool((done) => fs.fsync(fd, done)).finally(() => fs.closeSync(fd));
  },
  truncate: (fd, length) => fs.ftruncateSync(fd, length),
  factsOf: (fd) => fs.fstatSync(fd),
  factsAt: (path) => fs.lstatSync(path, { throwIfNoEntry: false }),
  close: (fd) => fs.closeSync(fd),
  async replace(path, bytes) {
    const fd = fs.openSync(`${path}.new`, NEW, PRIVATE_FILE_MODE);
    try {
      fs.writeFileSync(fd, bytes);
      await onPool((done) => fs.fdatasync(fd, done));
    } finally {
      fs.closeSync(fd);
    }
    fs.renameSync(`${path}.new`, path);
  },
  space(dir) {
    const { bavail, blocks, bsize } = fs.statfsSync(dir);
    return { free: bavail * bsize, total: blocks * bsize };
  },
  occupy: (path, bytes) => withFile(path, NEW, (fd) => allocate(fd, bytes)),
  remove: (path) => fs.rmSync(path, { force: true }),
};

function onPool(run: (done: (error: Error | null) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => run((error) => (error ? reject(error) : resolve())));
}

/** Opens a file, passes it to `use` and closes it. A file that the flags create is private to this user. */
export function withFile<T>(path: string, flags: number, use: (fd: number, facts: fs.Stats) => T): T {
  const fd = fs.openSync(path, flags, PRIVATE_FILE_MODE);
  try {
    return use(fd, fs.fstatSync(fd));
  } finally {
    fs.closeSync(fd);
  }
}

/** Does the same as `withFile`; throws an AuditLogError when the file is not a regular file. */
export function withRegularFile<T>(path: string, flags: number, use: (fd: number, facts: fs.Stats) => T): T {
  return withFile(path, flags, (fd, facts) => {
    if (!facts.isFile()) throw new AuditLogError(`${path} is not a regular file: move it away`);
    return use(fd, facts);
  });
}

/**
 * Returns the text of an auxiliary file that the log can do without; `undefined` when the file is missing, larger than
 * `bytesMax`, or not a regular file. Does not block on a named pipe.
 */
export function readSmallFile(path: string, bytesMax: number): string | undefined {
  let fd: number;
  try {
    fd = fs.openSync(path, READ_ONLY);
  } catch {
    return undefined;
  }
  try {
    const facts = fs.fstatSync(fd);
    return facts.isFile() && facts.size <= bytesMax ? fs.readFileSync(fd, "utf8") : undefined;
  } finally {
    fs.closeSync(fd);
  }
}

/**
 * Creates a directory and its missing parents, durably, with access for this user only. An existing directory is not
 * changed.
 */
export function makeDirectory(path: string): void {
  const first = fs.mkdirSync(path, { recursive: true, mode: PRIVATE_DIRECTORY_MODE });
  if (first === undefined) return;
  const top = dirname(resolve(first));
  let parent = resolve(path);
  while (parent !== top) {
    parent = dirname(parent);
    syncDirectory(parent);
  }
}

/** Syncs a directory synchronously: for startup, where nothing else is waiting. */
export function syncDirectory(path: string): void {
  withFile(path, O_RDONLY | O_DIRECTORY, (fd) => fs.fsyncSync(fd));
}

const isMac = process.platform === "darwin";
/** The errno that `flock` sets when another process holds the lock. */
export const WOULD_BLOCK = isMac ? 35 : 11;

const FLOCK = { args: [FFIType.i32, FFIType.i32], returns: FFIType.i32 } as const;
const ALLOCATE = { args: [FFIType.i32, FFIType.i64, FFIType.i64], returns: FFIType.i32 } as const;

interface LockFunctions {
  /** Returns `undefined` on success, otherwise the errno. */
  flock(fd: number, operation: number): number | undefined;
  /** `undefined` on systems without this function. */
  readonly allocate: ((fd: number, bytes: number) => number) | undefined;
}

let loaded: LockFunctions | undefined;

/**
 * Calls `flock(2)`. Returns `undefined` on success, otherwise the errno. The first call opens the C library, which
 * stays open.
 */
export function flock(fd: number, operation: number): number | undefined {
  loaded ??= load();
  return loaded.flock(fd, operation);
}

/** Calls `posix_fallocate(3)`: reserves this many bytes of disk space for the file without writing them. */
function allocate(fd: number, bytes: number): void {
  loaded ??= load();
  const errno = loaded.allocate?.(fd, bytes);
  if (errno !== 0) {
    throw new AuditLogError(errno === undefined ? "space cannot be reserved on this system" : `errno ${errno}`);
  }
}

function load(): LockFunctions {
  try {
    const { functions, bind, errno } = bindCLibrary({ flock: FLOCK });
    const fallocate = isMac ? undefined : bind({ posix_fallocate: ALLOCATE }).posix_fallocate;
    return {
      flock(fd, operation) {
        const result = functions.flock(fd, operation);
        const code = errno();
        return result === 0 ? undefined : code;
      },
      allocate: fallocate && ((fd, bytes) => fallocate(fd, 0, bytes)),
    };
  } catch (error) {
    throw new AuditLogError(`the audit directory cannot be locked: ${errorText(error)}`);
  }
}
