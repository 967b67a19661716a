import { join } from "node:path";
import { errorText } from "../../core/error-text.ts";
import { AuditLogError, DiskFullError, isDiskFull } from "../audit-log-error.ts";
import { type ChainHead, LineChain } from "../chain/chain.ts";
import { LINE_BYTES_MAX } from "../entry.ts";
import type { FileOperations } from "../journal/file-operations.ts";

/** Bytes that are written in one call. The longest line fits. */
const CHUNK_BYTES = 2 * LINE_BYTES_MAX;

/** One line as JSON, without its link, and the number of bytes that it will have with link and line end. */
export interface QueuedJson {
  readonly line: string;
  readonly bytes: number;
}

export interface StreamPosition {
  readonly head: ChainHead;
  /** The newest day file and its size in bytes; `undefined` before the first line. */
  readonly day: string | undefined;
  readonly size: number;
}

interface DayStreamOptions {
  readonly dir: string;
  readonly files: FileOperations;
  readonly position: StreamPosition;
  /** Called when the stream switches to another day. Lines of the former day are durable. */
  readonly onDayEnd?: (position: StreamPosition) => void;
}

interface OpenFile {
  readonly day: string;
  readonly path: string;
  readonly fd: number;
  readonly dev: number;
  readonly ino: number;
  size: number;
}

/**
 * The day files of one directory, of which at most one is open. Not safe for concurrent callers: the writer's loop is
 * the only caller.
 */
export class DayStream {
  readonly #options: DayStreamOptions;
  readonly #files: FileOperations;
  readonly #chain: LineChain;
  /**
   * Buffer in which lines are encoded and from which they are written, reused for every batch: joining the lines of a
   * batch took longer than writing them.
   */
  readonly #chunk = Buffer.alloc(CHUNK_BYTES);
  #open: OpenFile | undefined;
  #position: StreamPosition;
  #isDirty = false;
  /** The latest sync, which may still be running. */
  #syncing: Promise<void> = Promise.resolve();

  constructor(options: DayStreamOptions) {
    this.#options = options;
    this.#files = options.files;
    this.#chain = new LineChain(options.position.head);
    this.#position = options.position;
  }

  get position(): StreamPosition {
    return this.#position;
  }

  commit(): void {
    this.#position = { head: this.#chain.head(), day: this.#open?.day, size: this.#open?.size ?? 0 };
  }

  /**
   * Appends complete lines to the file of `day` (`YYYY-MM-DD`). On failure, cuts off what was written of them, if the
   * disk allows it.
   */
  async write(day: string, lines: readonly QueuedJson[]): Promise<void> {
    const file = this.#open?.day === day ? this.#open : await this.#openDay(day);
    const before = file.size;
    this.#isDirty = true;
    try {
      this.#writeLines(file, lines);
    } catch (error) {
      const cut = this.#cutOff(file, file.size - before);
      file.size = before;
      this.#chain.rewind(this.#position.head);
      const text = `cannot write to ${file.path}: ${errorText(error)}; ${cut.text}`;
      throw cut.isClean && isDiskFull(error)
        ? new DiskFullError(`${text}: free some of the disk`)
        : new AuditLogError(`${text}: free the disk and restart the service`);
    }
  }

  /**
   * Syncs the open file. Must not be retried after a failure: the kernel may have dropped the pages, so the next sync
   * could falsely succeed.
   */
  async sync(): Promise<void> {
    if (this.#open === undefined || !this.#isDirty) return this.#syncing;
    // Lines that are written during the sync must be synced again.
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

  /** Throws when the open file no longer has its name, or was shortened. */
  check(): void {
    if (this.#open === undefined) return;
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

  /** Closes the file. Ignores errors, because acknowledged lines are already safe. */
  close(): void {
    const file = this.#open;
    this.#open = undefined;
    try {
      if (file !== undefined) this.#files.close(file.fd);
    } catch {
      // The descriptor is released anyway.
    }
  }

  /** Writes lines in chunks. The first byte of the chunk is reserved for hashing the first line. */
  #writeLines(file: OpenFile, lines: readonly QueuedJson[]): void {
    let filled = 1;
    for (const { line, bytes } of lines) {
      if (filled + bytes > CHUNK_BYTES) {
        this.#writeChunk(file, filled);
        filled = 1;
      }
      const end = this.#chain.seal(line, this.#chunk, filled);
      if (end - filled !== bytes) throw new Error("a line is not as long as was counted");
      filled = end;
    }
    this.#writeChunk(file, filled);
  }

  #writeChunk(file: OpenFile, filled: number): void {
    const bytes = this.#chunk.subarray(1, filled);
    let written = 0;
    while (written < bytes.length) {
      const count = this.#files.write(file.fd, bytes, written);
      if (count <= 0) throw new Error("nothing was written");
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
      // After a failed directory sync there is no retry.
      throw fd === undefined && isDiskFull(error)
        ? new DiskFullError(`${text}: free some of the disk`)
        : new AuditLogError(`${text}: fix it and restart the service`);
    }
  }

  /**
   * Closes the current day. With durability `write`, lines are acknowledged without a sync, so the day is synced first.
   */
  async #leaveDay(): Promise<void> {
    if (this.#open !== undefined) {
      await this.sync();
      this.#options.onDayEnd?.(this.#position);
      this.close();
    }
  }

  /**
   * Cuts off the last `written` bytes. Counts back from the current end of the file: a line that another process
   * appended must not move the cut into this log's lines.
   */
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
