import { join } from "node:path";
import { AuditError, reasonOf } from "./audit-error.ts";
import { LINE_BYTES_MAX } from "./entry.ts";
import type { FileOperations } from "./file-operations.ts";

/** What is handed to the kernel at once. The longest line fits into it. */
const CHUNK_BYTES = 2 * LINE_BYTES_MAX;
const LINE_END = 0x0a;

/** One line without its end, and the bytes of both together. */
export interface Line {
  readonly line: string;
  readonly bytes: number;
}

interface OpenFile {
  readonly day: string;
  readonly path: string;
  readonly fd: number;
  readonly dev: number;
  readonly ino: number;
  /** Bytes of the file after our last write. */
  size: number;
}

/** The day files of one directory, of which at most one is open. Not safe for two callers at a time: the writer's loop is the only one. */
export class DayStream {
  readonly #dir: string;
  readonly #files: FileOperations;
  /** Encoded into and written from, again and again: joining the lines of a batch cost more than writing them. */
  readonly #chunk = Buffer.alloc(CHUNK_BYTES);
  #open: OpenFile | undefined;

  constructor(dir: string, files: FileOperations) {
    this.#dir = dir;
    this.#files = files;
  }

  /** Appends whole lines to the file of `day` (`YYYY-MM-DD`). On failure what was written of them is cut off again, if the disk lets us. */
  async write(day: string, lines: readonly Line[]): Promise<void> {
    const file = this.#open?.day === day ? this.#open : await this.#openDay(day);
    const before = file.size;
    let filled = 0;
    try {
      for (const { line, bytes } of lines) {
        if (filled + bytes > CHUNK_BYTES) {
          this.#writeChunk(file, filled);
          filled = 0;
        }
        if (this.#chunk.write(line, filled) !== bytes - 1) {
          throw new Error("a line is longer than it may be");
        }
        filled += bytes;
        this.#chunk[filled - 1] = LINE_END;
      }
      this.#writeChunk(file, filled);
    } catch (error) {
      const cut = this.#cutOff(file, file.size - before);
      file.size = before;
      throw new AuditError(
        `cannot write to ${file.path}: ${reasonOf(error)}; ${cut}: free the disk and restart the service`,
      );
    }
  }

  /** After a failure the pages may be dropped and the next sync may falsely succeed: it must not be tried again. */
  async sync(): Promise<void> {
    if (this.#open === undefined) {
      return;
    }
    const { fd, path } = this.#open;
    try {
      await this.#files.fdatasync(fd);
    } catch (error) {
      throw new AuditError(`cannot sync ${path}: ${reasonOf(error)}: check the disk and restart the service`);
    }
  }

  /** Throws when the open file is no longer the one under its name, or has lost bytes. */
  check(): void {
    if (this.#open === undefined) {
      return;
    }
    const { path, dev, ino, size } = this.#open;
    const named = this.#files.factsAt(path);
    if (named === undefined || named.dev !== dev || named.ino !== ino) {
      throw new AuditError(
        `${path} was deleted or replaced while the log was open: restore it and restart the service`,
      );
    }
    if (named.size < size) {
      throw new AuditError(`${path} was cut from ${size} to ${named.size} bytes: restore it and restart the service`);
    }
  }

  /** What was acknowledged is safe already, so a close that fails takes nothing away. */
  close(): void {
    const file = this.#open;
    this.#open = undefined;
    try {
      if (file !== undefined) {
        this.#files.close(file.fd);
      }
    } catch {
      // The descriptor is gone all the same.
    }
  }

  #writeChunk(file: OpenFile, filled: number): void {
    const bytes = this.#chunk.subarray(0, filled);
    let written = 0;
    while (written < filled) {
      const count = this.#files.write(file.fd, bytes, written);
      if (count <= 0) {
        throw new Error("nothing was written");
      }
      written += count;
      file.size += count;
    }
  }

  async #openDay(day: string): Promise<OpenFile> {
    this.close();
    const path = join(this.#dir, `${day}.jsonl`);
    try {
      const fd = this.#files.openAppend(path);
      const facts = this.#files.factsOf(fd);
      if (!facts.isFile()) {
        this.#files.close(fd);
        throw new Error("it is not a regular file");
      }
      const file = { day, path, fd, dev: facts.dev, ino: facts.ino, size: facts.size };
      this.#open = file;
      await this.#files.syncDirectory(this.#dir);
      return file;
    } catch (error) {
      throw new AuditError(`cannot open ${path}: ${reasonOf(error)}: mend it and restart the service`);
    }
  }

  /** Counts back from the end the file has now: a line that somebody else added must not shift the cut into ours. */
  #cutOff(file: OpenFile, written: number): string {
    if (written === 0) {
      return "nothing of the batch is in it";
    }
    try {
      this.#files.truncate(file.fd, this.#files.factsOf(file.fd).size - written);
      return "the part that was written is cut off again";
    } catch (error) {
      return `the part that was written could not be cut off (${reasonOf(error)}) and is taken out at the next start`;
    }
  }
}
