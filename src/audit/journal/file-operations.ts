import fs from "node:fs";
import { dirname, resolve } from "node:path";
import { allocate } from "./c-library.ts";

/** Identity and size of a file. */
interface FileFacts {
  readonly dev: number;
  readonly ino: number;
  readonly size: number;
  isFile(): boolean;
}

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
  /** Makes the file names in a directory durable. */
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
  /** Creates a file that only occupies this many bytes of the disk. */
  occupy(path: string, bytes: number): void;
  remove(path: string): void;
}

const { O_APPEND, O_CREAT, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_TRUNC, O_WRONLY } = fs.constants;
/** Without `O_NONBLOCK`, opening a named pipe would wait for its other end. */
const APPEND = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK;
const AFRESH = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK;
const DIRECTORY = O_RDONLY | O_DIRECTORY;
const PRIVATE_FILE_MODE = 0o600;
const PRIVATE_DIRECTORY_MODE = 0o700;

export const diskFiles: FileOperations = {
  openAppend: (path) => fs.openSync(path, APPEND, PRIVATE_FILE_MODE),
  write: (fd, bytes, offset) => fs.writeSync(fd, bytes, offset),
  fdatasync: syncOnPool,
  syncDirectory: syncDirectoryOnPool,
  truncate: (fd, length) => fs.ftruncateSync(fd, length),
  factsOf: (fd) => fs.fstatSync(fd),
  factsAt: (path) => fs.lstatSync(path, { throwIfNoEntry: false }),
  close: (fd) => fs.closeSync(fd),
  replace: replaceFile,
  space(dir) {
    const { bavail, blocks, bsize } = fs.statfsSync(dir);
    return { free: bavail * bsize, total: blocks * bsize };
  },
  occupy(path, bytes) {
    const fd = fs.openSync(path, AFRESH, PRIVATE_FILE_MODE);
    try {
      allocate(fd, bytes);
    } finally {
      fs.closeSync(fd);
    }
  },
  remove: (path) => fs.rmSync(path, { force: true }),
};

function syncOnPool(fd: number): Promise<void> {
  return new Promise((done, failed) => {
    fs.fdatasync(fd, (error) => (error ? failed(error) : done()));
  });
}

async function replaceFile(path: string, bytes: Uint8Array): Promise<void> {
  const fresh = `${path}.new`;
  const fd = fs.openSync(fresh, AFRESH, PRIVATE_FILE_MODE);
  try {
    let written = 0;
    while (written < bytes.length) {
      written += fs.writeSync(fd, bytes, written);
    }
    await syncOnPool(fd);
  } finally {
    fs.closeSync(fd);
  }
  fs.renameSync(fresh, path);
}

/**
 * Creates a directory and its missing parents, durably, with access for this user only. An existing directory is not
 * changed.
 */
export function makeDirectory(path: string): void {
  const first = fs.mkdirSync(path, { recursive: true, mode: PRIVATE_DIRECTORY_MODE });
  if (first === undefined) {
    return;
  }
  const top = dirname(resolve(first));
  let parent = resolve(path);
  while (parent !== top) {
    parent = dirname(parent);
    syncDirectory(parent);
  }
}

/** Syncs a directory synchronously: for startup, where nothing else is waiting. */
export function syncDirectory(path: string): void {
  const fd = fs.openSync(path, DIRECTORY);
  try {
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

function syncDirectoryOnPool(path: string): Promise<void> {
  const fd = fs.openSync(path, DIRECTORY);
  return new Promise<void>((done, failed) => {
    fs.fsync(fd, (error) => (error ? failed(error) : done()));
  }).finally(() => fs.closeSync(fd));
}

const READ = fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK;

/**
 * Returns the text of an auxiliary file that the log can do without; `undefined` when the file is missing, larger than
 * `bytesMax`, or not a regular file. Does not block on a named pipe.
 */
export function readSmallFile(path: string, bytesMax: number): string | undefined {
  let fd: number;
  try {
    fd = fs.openSync(path, READ);
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
