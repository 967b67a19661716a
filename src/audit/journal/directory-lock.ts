import fs from "node:fs";
import { join } from "node:path";
import { AuditLogError } from "../audit-log-error.ts";
import { escapeName } from "../escape.ts";
import { flock, WOULD_BLOCK } from "./file-operations.ts";

const LOCK_FILE = ".lock";
const LOCK_FILE_MODE = 0o600;
const LOCK_EX_NB = 2 | 4;
const LOCK_UN = 8;
/** A lock file that is replaced this often while it is being locked indicates an attack, not bad luck. */
const ATTEMPTS_MAX = 8;
const HOLDER_BYTES_MAX = 512;
/** Follows the holder's name in the lock file when the holder is ending. */
const ENDING = "\nending";

/** The exclusive right to write to a directory, held until `release` or until the process ends, however it ends. */
export interface DirectoryLock {
  /** Throws when the lock file was deleted or replaced, because another process may hold a lock on the new file. */
  check(): void;
  /** Tells processes that find the directory locked that this one is ending: they may wait for it. */
  noteEnding(): void;
  release(): void;
}

/** The process that holds a directory's lock, as far as its lock file tells. */
export interface LockHolder {
  readonly name: string;
  /** True when it has begun to end: it drains, or will. */
  readonly isEnding: boolean;
}

/** Another process writes the directory. */
export class DirectoryInUse extends AuditLogError {
  readonly holder: LockHolder;

  constructor(dir: string, holder: LockHolder) {
    const { name, isEnding } = holder;
    super(
      isEnding
        ? `${dir} is still in use (by ${name}): that process is ending, and has not ended in time; start again when it has ended`
        : `${dir} is already in use (by ${name}): one audit directory has one writer; stop the other one or set another audit.dir`,
    );
    this.holder = holder;
  }
}

/**
 * Locks `.lock` with `flock`. The kernel releases the lock when the process ends, so no stale lock has to be judged by
 * age or process id.
 *
 * @throws DirectoryInUse when another holder, in this process or another one, has the lock
 */
export function lockDirectory(dir: string, holder: string): DirectoryLock {
  const path = join(dir, LOCK_FILE);
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
    const fd = openAndLock(path, dir);
    if (isSameFile(fd, path)) return heldLock(fd, path, holder);
    fs.closeSync(fd);
  }
  throw new AuditLogError(`${path} keeps being replaced: stop whatever deletes files in ${dir}`);
}

/**
 * Returns the id of the process that holds the lock, without taking it; 0 for one of another machine; undefined when none is visible:
 * the kernel hides processes of other containers.
 */
export function lockHolder(dir: string): number | undefined {
  const found = fs.statSync(join(dir, LOCK_FILE), { throwIfNoEntry: false });
  if (found === undefined) return undefined;
  const locked = lockedFile(found);
  for (const line of kernelLocks()) {
    const [, pid, file] = LOCK_LINE.exec(line) ?? [];
    if (file === locked) return Math.max(0, Number(pid));
  }
  return undefined;
}

/** Returns a file as the kernel's list of locks writes it: `major:minor:inode`, the first two in hex. */
function lockedFile({ dev, ino }: fs.Stats): string {
  const major = (dev >>> 8) & 0xfff;
  const minor = (dev & 0xff) | ((dev >>> 12) & 0xfff00);
  return `${hex(major)}:${hex(minor)}:${ino}`;
}

/** The kernel's list of locks. */
const LOCKS = "/proc/locks";
const LOCK_LINE = /^\d+: FLOCK +\S+ +WRITE +(-?\d+) ([0-9a-f]+:[0-9a-f]+:\d+) /;

/** Sandboxes may have no such file, or not let it be read. */
function kernelLocks(): readonly string[] {
  try {
    return fs.readFileSync(LOCKS, "utf8").split("\n");
  } catch {
    return [];
  }
}

function hex(part: number): string {
  return part.toString(16).padStart(2, "0");
}

function heldLock(fd: number, path: string, holder: string): DirectoryLock {
  let held = true;
  writeName(fd, holder, 0);
  return {
    check() {
      if (!isSameFile(fd, path)) {
        throw new AuditLogError(`${path} was deleted or replaced while the log was open: restart the service`);
      }
    },
    noteEnding() {
      if (held) writeName(fd, ENDING, Buffer.byteLength(holder));
    },
    release() {
      if (held) {
        held = false;
        // Closing is not enough: a child process that is just starting still has a copy of the descriptor.
        flock(fd, LOCK_UN);
        fs.closeSync(fd);
      }
    },
  };
}

/** Writes a part of the holder's name, which only tells other processes: on a full disk the lock is held without it. */
function writeName(fd: number, part: string, at: number): void {
  try {
    if (at === 0) fs.ftruncateSync(fd);
    fs.writeSync(fd, part, at);
  } catch {
    // The error message will not name the holder.
  }
}

function openAndLock(path: string, dir: string): number {
  const { O_CREAT, O_NOFOLLOW, O_RDWR } = fs.constants;
  const fd = fs.openSync(path, O_RDWR | O_CREAT | O_NOFOLLOW, LOCK_FILE_MODE);
  try {
    const errno = flock(fd, LOCK_EX_NB);
    if (errno === undefined) return fd;
    if (errno === WOULD_BLOCK) throw new DirectoryInUse(dir, readHolder(fd));
    throw new AuditLogError(
      `${dir} cannot be locked (errno ${errno}): the audit directory must be on a local file system`,
    );
  } catch (error) {
    fs.closeSync(fd);
    throw error;
  }
}

function readHolder(fd: number): LockHolder {
  const start = Buffer.alloc(HOLDER_BYTES_MAX);
  const text = start.toString("utf8", 0, fs.readSync(fd, start, 0, start.length, 0));
  const name = escapeName(text.endsWith(ENDING) ? text.slice(0, -ENDING.length) : text);
  return { name: name || "an unnamed process", isEnding: text.endsWith(ENDING) };
}

function isSameFile(fd: number, path: string): boolean {
  const ours = fs.fstatSync(fd);
  const named = fs.lstatSync(path, { throwIfNoEntry: false });
  return named !== undefined && named.dev === ours.dev && named.ino === ours.ino;
}
