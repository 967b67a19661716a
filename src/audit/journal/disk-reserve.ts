import { join } from "node:path";
import type { FileOperations } from "./file-operations.ts";

const RESERVE_FILE = "reserve";
/** A small disk is not reserved away: at most this part of it is. */
const DISK_PART = 1 / 16;
/** The part of the reserve that a file holds, so that it is there when the disk is full. */
const FILE_PART = 1 / 4;
/** So much more than the reserve must be free before calls are taken again, or the answer would flutter. */
const HYSTERESIS_PART = 1 / 4;
/** How often, at most, the disk is asked, in milliseconds. */
const LOOK_INTERVAL_MS = 1_000;
const PAGE_BYTES = 4_096;

export interface DiskReserveOptions {
  /** Where the reserve file lies: on the log's disk. */
  readonly dir: string;
  /** With less than this free, new calls are refused; never more than a sixteenth of the disk. */
  readonly bytes: number;
  readonly files: FileOperations;
  /** Milliseconds. */
  readonly monotonic: () => number;
}

/**
 * Room for the lines of refusals when the disk runs full. While less than the reserve is free, no new call is taken; a
 * quarter of the reserve is held by a file, which is given up when a write finds no room at all.
 */
export class DiskReserve {
  readonly #options: DiskReserveOptions;
  readonly #path: string;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #isLow = false;
  #holds = false;

  constructor(options: DiskReserveOptions) {
    this.#options = options;
    this.#path = join(options.dir, RESERVE_FILE);
    // A run that was killed left its own behind, of whatever size.
    this.#remove();
  }

  /** Whether new calls must be refused. Asks the disk at most once a second. */
  isLow(): boolean {
    const now = this.#options.monotonic();
    if (Math.abs(now - this.#lookedAt) >= LOOK_INTERVAL_MS) {
      this.#lookedAt = now;
      this.#isLow = this.#look();
    }
    return this.#isLow;
  }

  /** The disk is full: gives the reserve file up. `false` when there was none: then there is nothing left to give. */
  giveUp(): boolean {
    this.#isLow = true;
    this.#lookedAt = this.#options.monotonic();
    if (!this.#holds) {
      return false;
    }
    this.#holds = false;
    return this.#remove();
  }

  /** Before the process ends: a log that is closed needs no room. */
  close(): void {
    this.giveUp();
  }

  #remove(): boolean {
    try {
      this.#options.files.remove(this.#path);
      return true;
    } catch {
      return false;
    }
  }

  #look(): boolean {
    const { dir, bytes, files } = this.#options;
    let space: ReturnType<FileOperations["space"]>;
    try {
      space = files.space(dir);
    } catch {
      // The next write will tell more than we could.
      return this.#isLow;
    }
    const reserve = Math.min(bytes, Math.floor(space.total * DISK_PART));
    const held = Math.max(PAGE_BYTES, Math.floor(reserve * FILE_PART));
    const needed = reserve + (this.#isLow ? reserve * HYSTERESIS_PART : 0) + (this.#holds ? 0 : held);
    if (space.free < needed) {
      return true;
    }
    this.#holds ||= this.#occupy(held);
    return false;
  }

  /** Where the disk cannot promise room, the limit alone must do. */
  #occupy(bytes: number): boolean {
    try {
      this.#options.files.occupy(this.#path, bytes);
      return true;
    } catch {
      return false;
    }
  }
}
