import { join } from "node:path";
import type { FileOperations } from "./file-operations.ts";

const RESERVE_FILE = "reserve";
/** Maximum part of the disk that is reserved, so that a small disk stays usable. */
const DISK_PART = 1 / 16;
/** The part of the reserve that a file occupies, so that it is available when the disk is full. */
const FILE_PART = 1 / 4;
/**
 * Hysteresis: this much more than the reserve must be free before calls are accepted again. It avoids flipping between
 * accepting and refusing.
 */
const HYSTERESIS_PART = 1 / 4;
/** Minimum time between two queries of the free space, in milliseconds. */
const CHECK_INTERVAL_MS = 1_000;
const PAGE_BYTES = 4_096;

interface DiskReserveOptions {
  readonly dir: string;
  /** Folder whose reserve this one uses as well if it is on the same disk: the reserve is of a disk, not of a log. */
  readonly sharedDir?: string | undefined;
  /** New calls are refused when fewer bytes than this are free. Never more than a sixteenth of the disk. */
  readonly bytes: number;
  readonly files: FileOperations;
  /** Milliseconds. */
  readonly monotonic: () => number;
}

/** Returns how much of a disk is kept free, and how much more the reserve's file occupies, in bytes. */
export function reserveOf(bytes: number, total: number): { readonly reserve: number; readonly held: number } {
  const reserve = Math.min(bytes, Math.floor(total * DISK_PART));
  return { reserve, held: Math.max(PAGE_BYTES, Math.floor(reserve * FILE_PART)) };
}

/**
 * Keeps room for the log lines of refusals when the disk fills up. While less than the reserve is free, no new call is
 * accepted. A file occupies a quarter of the reserve; it is removed when a write finds no room at all. Logs of one process share the
 * file: together, they have no more calls to end than one log would have.
 */
export class DiskReserve {
  readonly #options: DiskReserveOptions;
  readonly #path: string;
  readonly #isShared: boolean;
  #checkedAt = Number.NEGATIVE_INFINITY;
  #isLow = false;
  #freeBytes: number | undefined;
  /** True when this log has not used the file up. */
  #holds = false;

  constructor(options: DiskReserveOptions) {
    const { dir, sharedDir = dir, files } = options;
    this.#options = options;
    this.#isShared = sharedDir !== dir && files.factsAt(sharedDir)?.dev === files.factsAt(dir)?.dev;
    this.#path = join(this.#isShared ? sharedDir : dir, RESERVE_FILE);
    // A run that was killed left its reserve file, whatever its size.
    this.#isDone(() => files.remove(join(dir, RESERVE_FILE)));
  }

  /** Returns true when new calls must be refused. Queries the disk at most once a second. */
  isLow(now: number = this.#options.monotonic()): boolean {
    if (Math.abs(now - this.#checkedAt) >= CHECK_INTERVAL_MS) {
      this.#checkedAt = now;
      this.#isLow = this.#check();
    }
    return this.#isLow;
  }

  /** Returns the free space, at most a second old; undefined while the disk does not tell. */
  freeBytes(): number | undefined {
    this.isLow();
    return this.#freeBytes;
  }

  /**
   * Removes the reserve file because the disk is full. Returns `false` when this log had none. One that another log has just removed
   * made room for this one, too.
   */
  giveUp(): boolean {
    this.#isLow = true;
    this.#checkedAt = this.#options.monotonic();
    if (!this.#holds) return false;
    this.#holds = false;
    return this.#isDone(() => this.#options.files.remove(this.#path));
  }

  /** Removes its own reserve file before the process ends: a closed log needs no room. */
  close(): void {
    if (!this.#isShared) this.giveUp();
  }

  #check(): boolean {
    const { dir, bytes, files } = this.#options;
    let space: ReturnType<FileOperations["space"]>;
    try {
      space = files.space(dir);
    } catch {
      // The next write will report a more precise error.
      this.#freeBytes = undefined;
      return this.#isLow;
    }
    this.#freeBytes = space.free;
    const { reserve, held } = reserveOf(bytes, space.total);
    const isHeld = files.factsAt(this.#path)?.size === held;
    const needed = reserve + (this.#isLow ? reserve * HYSTERESIS_PART : 0) + (isHeld ? 0 : held);
    if (space.free < needed) return true;
    // Where the file system cannot reserve space, only the limit on free space applies.
    this.#holds = isHeld || this.#isDone(() => files.occupy(this.#path, held));
    return false;
  }

  /** Returns `false` when the operation failed. */
  #isDone(operation: () => void): boolean {
    try {
      operation();
      return true;
    } catch {
      return false;
    }
  }
}
