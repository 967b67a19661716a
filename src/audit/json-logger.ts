import { join } from "node:path";
import { mint, type Receipt } from "../core/evidence.ts";
import { AuditError, reasonOf } from "./audit-error.ts";
import { DayStream } from "./day-stream.ts";
import { type DirectoryLock, lockDirectory } from "./directory-lock.ts";
import { type EntryDraft, serializeEntry, stampEntry } from "./entry.ts";
import { diskFiles, type FileOperations, makeDirectory } from "./file-operations.ts";
import { type JournalLine, type Stamp, serializeJournalLine } from "./journal.ts";
import { type Batch, type Durability, type Health, LineWriter } from "./line-writer.ts";
import { resume } from "./resume.ts";
import { StampClock } from "./stamp-clock.ts";

/** Folder of the journal below the audit directory. */
const JOURNAL_DIR = "journal";
/** It stands in every line, whose size is bounded. A host name has 253. */
const INSTANCE_CHARACTERS_MAX = 256;

export interface AuditLogOptions {
  /** Created, for us alone, when missing. On a local file system. */
  readonly dir: string;
  /** Which replica writes; stands in every line. At most 256 characters. */
  readonly instance: string;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  readonly durability: Durability;
  /** Lines that may wait for the disk; bytes are bounded by `QUEUE_BYTES_MAX`. */
  readonly queueEntriesMax: number;
  readonly onBatch?: (batch: Batch) => void;
  /** Milliseconds for measuring; without it the clock measures. */
  readonly monotonic?: () => number;
  readonly files?: FileOperations;
}

/** The only door to the log. Everything that fails here is an `AuditError`. */
export interface AuditLog {
  /** One call's line. Resolves when it is on disk; rejects when it is not, and then the call may not be answered. */
  append(entry: EntryDraft): Promise<Receipt>;
  /** One line beside the calls. Durable when resolved: an intent is awaited before what it announces. */
  journal(line: JournalLine): Promise<void>;
  /** For operators and readiness: the reason names files. */
  health(): Health;
  /** Whether a call that starts now may count on its lines being taken. */
  hasRoom(): boolean;
  /** Writes what waits, refuses what comes, frees the directory. Never rejects; may be called again. */
  close(): Promise<void>;
}

/**
 * Locks the directory, takes torn ends out of its files and opens it for appending. Throws an `AuditError` that says
 * what to mend when the directory is in use, cannot be written, or does not go with the clock.
 */
export function openAuditLog(options: AuditLogOptions): AuditLog {
  if (options.instance.length > INSTANCE_CHARACTERS_MAX) {
    throw new AuditError(`the instance name has more than ${INSTANCE_CHARACTERS_MAX} characters: set a shorter one`);
  }
  let lock: DirectoryLock | undefined;
  try {
    makeDirectory(join(options.dir, JOURNAL_DIR));
    lock = lockDirectory(options.dir, `${options.instance}, process ${process.pid}`);
    return new JsonLogger(options, lock);
  } catch (error) {
    lock?.release();
    if (error instanceof AuditError) {
      throw error;
    }
    throw new AuditError(`cannot open the audit directory ${options.dir}: ${reasonOf(error)}`);
  }
}

class JsonLogger implements AuditLog {
  readonly #instance: string;
  readonly #lock: DirectoryLock;
  readonly #stamps: StampClock;
  readonly #calls: DayStream;
  readonly #journal: DayStream;
  readonly #writer: LineWriter;
  #closed: Promise<void> | undefined;

  constructor(options: AuditLogOptions, lock: DirectoryLock) {
    const { dir, clock, files = diskFiles } = options;
    const { lastMs, tornTails } = resume(dir, ["", JOURNAL_DIR], clock());
    this.#instance = options.instance;
    this.#lock = lock;
    this.#stamps = new StampClock(clock, lastMs);
    this.#calls = new DayStream(dir, files);
    this.#journal = new DayStream(join(dir, JOURNAL_DIR), files);
    this.#writer = new LineWriter({
      streams: [this.#journal, this.#calls],
      durability: options.durability,
      queueEntriesMax: options.queueEntriesMax,
      monotonic: options.monotonic ?? clock,
      check: () => this.#check(),
      onBatch: options.onBatch ?? (() => undefined),
    });
    for (const tail of tornTails) {
      // Should it fail, so does every line after it, and `health` says why.
      this.journal({ type: "torn_tail", ...tail }).catch(() => undefined);
    }
  }

  append(draft: EntryDraft): Promise<Receipt> {
    return new Promise((resolve, reject) => {
      const receipt = mint<Receipt>({ traceId: draft.traceId });
      this.#enqueue(this.#calls, {
        serialize: ({ timestamp, instance }) => serializeEntry(stampEntry(draft, timestamp, instance)),
        settle: (error) => (error === undefined ? resolve(receipt) : reject(error)),
      });
    });
  }

  journal(line: JournalLine): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#enqueue(this.#journal, {
        serialize: (stamp) => serializeJournalLine(line, stamp),
        settle: (error) => (error === undefined ? resolve() : reject(error)),
      });
    });
  }

  health(): Health {
    return this.#writer.health();
  }

  hasRoom(): boolean {
    return this.#writer.hasRoom();
  }

  close(): Promise<void> {
    this.#closed ??= this.#writer.close().finally(() => this.#lock.release());
    return this.#closed;
  }

  #enqueue(stream: DayStream, line: { serialize(stamp: Stamp): string; settle(error?: AuditError): void }): void {
    try {
      const timestamp = this.#stamps.next();
      const text = line.serialize({ timestamp, instance: this.#instance });
      const day = timestamp.slice(0, "YYYY-MM-DD".length);
      const bytes = Buffer.byteLength(text) + 1;
      this.#writer.enqueue(stream, { day, line: text, bytes, settle: line.settle });
    } catch (error) {
      line.settle(error instanceof AuditError ? error : new AuditError(`no line can be made: ${reasonOf(error)}`));
    }
  }

  #check(): void {
    this.#lock.check();
    this.#calls.check();
    this.#journal.check();
  }
}
