import { join } from "node:path";
import { errorText } from "../../core/error-text.ts";
import { AuditLogError, DiskFullError, isDiskFull } from "../audit-log-error.ts";
import { type ChainHead, LineChain } from "../chain/chain.ts";
import { LINE_BYTES_MAX } from "../entry.ts";
import type { FileOperations } from "../journal/file-operations.ts";

/** What is handed to the kernel at once. The longest line fits into it. */
const CHUNK_BYTES = 2 * LINE_BYTES_MAX;

/** One line as JSON, still without its link, and the bytes that it will have with link and line end. */
export interface QueuedJson {
  readonly line: string;
  readonly bytes: number;
}

/** How far a stream has come: what of it is durable. */
export interface StreamPosition {
  readonly head: ChainHead;
  /** The newest day file, and its bytes; `undefined` before the first line. */
  readonly day: string | undefined;
  readonly size: number;
}

export interface DayStreamOptions {
  readonly dir: string;
  readonly files: FileOperations;
  /** Where the stream goes on. */
  readonly place: StreamPosition;
  /** The stream goes over to another day; what it held of the former one is durable. */
  readonly onDayEnd?: (place: StreamPosition) => void;
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
  readonly #options: DayStreamOptions;
  readonly #files: FileOperations;
  readonly #chain: LineChain;
  /** Encoded into and written from, again and again: joining the lines of a batch cost more than writing them. */
  readonly #chunk = Buffer.alloc(CHUNK_BYTES);
  #open: OpenFile | undefined;
  #place: StreamPosition;
  /** Written, and not yet synced. */
  #isDirty = false;
  /** The latest sync, which may be under way. */
  #syncing: Promise<void> = Promise.resolve();

  constructor(options: DayStreamOptions) {
    this.#options = options;
    this.#files = options.files;
    this.#chain = new LineChain(options.place.head);
    this.#place = options.place;
  }

  /** What is acknowledged. */
  get place(): StreamPosition {
    return this.#place;
  }

  /** What was written is acknowledged. */
  settle(): void {
    this.#place = { head: this.#chain.head(), day: this.#open?.day, size: this.#open?.size ?? 0 };
  }

  /** Appends whole lines to the file of `day` (`YYYY-MM-DD`). On failure what was written of them is cut off again, if the disk lets us. */
  async write(day: string, lines: readonly QueuedJson[]): Promise<void> {
    const file = this.#open?.day === day ? this.#open : await this.#openDay(day);
    const before = file.size;
    this.#isDirty = true;
    try {
      this.#writeLines(file, lines);
    } catch (error) {
      const cut = this.#cutOff(file, file.size - before);
      file.size = before;
      this.#chain.rewind(this.#place.head);
      const text = `cannot write to ${file.path}: ${errorText(error)}; ${cut.text}`;
      throw cut.isClean && isDiskFull(error)
        ? new DiskFullError(`${text}: free some of the disk`)
        : new AuditLogError(`${text}: free the disk and restart the service`);
    }
  }

  /** After a failure the pages may be dropped and the next sync may falsely succeed: it must not be tried again. */
  async sync(): Promise<void> {
    if (this.#open === undefined || !this.#isDirty) {
      return this.#syncing;
    }
    // Lines that are written meanwhile have to be synced again.
    this.#isDirty = false;
    this.#syncing = this.#syncFile(this.#open);
    return this.#syncing;
  }

  async #syncFile({ fd, path }: OpenFile): Promise<void> {
    try {
      await this.#files.fdatasync(fd);
    } catch (error) {
      throw new AuditLogError(`cannot sync ${path}: ${errorText(error)}: check the disk and restart the service`);
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
      throw new AuditLogError(
        `${path} was deleted or replaced while the log was open: restore it and restart the service`,
      );
    }
    if (named.size < size) {
      throw new AuditLogError(
        `${path} was cut from ${size} to ${named.size} bytes: restore it and restart the service`,
      );
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

  /** The chunk's first byte is lent to the hash of the first line. */
  #writeLines(file: OpenFile, lines: readonly QueuedJson[]): void {
    let filled = 1;
    for (const { line, bytes } of lines) {
      if (filled + bytes > CHUNK_BYTES) {
        this.#writeChunk(file, filled);
        filled = 1;
      }
      const end = this.#chain.seal(line, this.#chunk, filled);
      if (end - filled !== bytes) {
        throw new Error("a line is not as long as was counted");
      }
      filled = end;
    }
    this.#writeChunk(file, filled);
  }

  #writeChunk(file: OpenFile, filled: number): void {
    const bytes = this.#chunk.subarray(1, filled);
    let written = 0;
    while (written < bytes.length) {
      const count = this.#files.write(file.fd, bytes, written);
      if (count <= 0) {
        throw new Error("nothing was written");
      }
      written += count;
      file.size += count;
    }
  }

  async #openDay(day: string): Promise<OpenFile> {
    await this.#leaveDay();
    const path = join(this.#options.dir, `${day}.jsonl`);
    let fd: number | undefined;
    try {
      fd = this.#files.openAppend(path);
      const facts = this.#files.factsOf(fd);
      if (!facts.isFile()) {
        this.#files.close(fd);
        throw new Error("it is not a regular file");
      }
      const file = { day, path, fd, dev: facts.dev, ino: facts.ino, size: facts.size };
      this.#open = file;
      await this.#files.syncDirectory(this.#options.dir);
      return file;
    } catch (error) {
      const text = `cannot open ${path}: ${errorText(error)}`;
      this.close();
      // A directory whose sync failed is not tried again.
      throw fd === undefined && isDiskFull(error)
        ? new DiskFullError(`${text}: free some of the disk`)
        : new AuditLogError(`${text}: fix it and restart the service`);
    }
  }

  /** Where lines are acknowledged without a sync, a day is synced before it is left. */
  async #leaveDay(): Promise<void> {
    if (this.#open !== undefined) {
      await this.sync();
      this.#options.onDayEnd?.(this.#place);
      this.close();
    }
  }

  /** Counts back from the end the file has now: a line that somebody else added must not shift the cut into ours. */
  #cutOff(file: OpenFile, written: number): { readonly isClean: boolean; readonly text: string } {
    if (written === 0) {
      return { isClean: true, text: "nothing of the batch is in it" };
    }
    try {
      this.#files.truncate(file.fd, this.#files.factsOf(file.fd).size - written);
      return { isClean: true, text: "the part that was written is cut off again" };
    } catch (error) {
      const text = `the part that was written could not be cut off (${errorText(error)}) and is taken out at the next start`;
      return { isClean: false, text };
    }
  }
}
