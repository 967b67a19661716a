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
const HOLDER_CHARACTERS_MAX = 128;

/** The exclusive right to write to a directory, held until `release` or until the process ends, however it ends. */
export interface DirectoryLock {
  /** Throws when the lock file was deleted or replaced, because another process may hold a lock on the new file. */
  check(): void;
  release(): void;
}

/**
 * Locks `.lock` with `flock`. The kernel releases the lock when the process ends, so no stale lock has to be judged by
 * age or process id.
 *
 * @throws AuditLogError when another holder, in this process or another one, has the lock.
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

/** Returns who holds the lock, without taking it: a process id; 0 for a process that is not visible; undefined for nobody. */
export function lockHolder(dir: string): number | undefined {
  const found = fs.statSync(join(dir, LOCK_FILE), { throwIfNoEntry: false });
  if (found === undefined || !fs.existsSync(LOCKS)) return undefined;
  for (const line of fs.readFileSync(LOCKS, "utf8").split("\n")) {
    const [, pid, file] = LOCK_LINE.exec(line) ?? [];
    if (file === lockedFile(found)) return Math.max(0, Number(pid));
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

function hex(part: number): string {
  return part.toString(16).padStart(2, "0");
}

function heldLock(fd: number, path: string, holder: string): DirectoryLock {
  let held = true;
  nameHolder(fd, holder);
  return {
    check() {
      if (!isSameFile(fd, path)) {
        throw new AuditLogError(`${path} was deleted or replaced while the log was open: restart the service`);
      }
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

/**
 * Writes the holder's name, which is only used in other processes' error messages: on a full disk the lock is held
 * without it.
 */
function nameHolder(fd: number, holder: string): void {
  try {
    fs.ftruncateSync(fd, 0);
    fs.writeSync(fd, holder, 0);
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
    throw new AuditLogError(refusalText(errno, fd, dir));
  } catch (error) {
    fs.closeSync(fd);
    throw error;
  }
}

/** Returns the error message. The errno affects only its wording: in every case there is no lock. */
function refusalText(errno: number, fd: number, dir: string): string {
  if (errno !== WOULD_BLOCK) {
    return `${dir} cannot be locked (errno ${errno}): the audit directory must be on a local file system`;
  }
  const start = Buffer.alloc(HOLDER_CHARACTERS_MAX);
  const holder = escapeName(start.toString("utf8", 0, fs.readSync(fd, start, 0, start.length, 0)));
  return `${dir} is already in use (by ${holder || "an unnamed process"}): one audit directory has one writer; stop the other one or set another audit.dir`;
}

function isSameFile(fd: number, path: string): boolean {
  const ours = fs.fstatSync(fd);
  const named = fs.lstatSync(path, { throwIfNoEntry: false });
  return named !== undefined && named.dev === ours.dev && named.ino === ours.ino;
}
