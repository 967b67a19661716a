import type { KeyObject } from "node:crypto";
import { join } from "node:path";
import { errorText } from "../core/error-text.ts";
import { mint, type Receipt } from "../core/evidence.ts";
import type { EpochMs } from "../core/types.ts";
import { AuditLogError } from "./audit-log-error.ts";
import { chainBytes, STREAMS, type StreamName } from "./chain/chain.ts";
import { CHECKPOINT_DIR, originOf } from "./chain/checkpoint.ts";
import { CHECKPOINT_INTERVAL_MS, CheckpointKeeper } from "./chain/checkpoint-keeper.ts";
import { type EntryDraft, LINE_BYTES_MAX, serializeEntry, stampEntry } from "./entry.ts";
import { JOURNAL_DIR } from "./journal/day-files.ts";
import { DayStream } from "./journal/day-stream.ts";
import { type DirectoryLock, lockDirectory } from "./journal/directory-lock.ts";
import { DiskReserve } from "./journal/disk-reserve.ts";
import { diskFiles, type FileOperations, makeDirectory } from "./journal/file-operations.ts";
import {
  type InterruptedCall,
  intentOf,
  interruptedCall,
  type JournalLine,
  OpenIntents,
  type Stamp,
  serializeJournalLine,
  unknownOutcome,
} from "./journal/journal.ts";
import { type AuditHealth, type Durability, LineWriter, type WrittenBatch } from "./journal/line-writer.ts";
import { recover } from "./journal/recover.ts";
import { STATE_DIR } from "./journal/saved-position.ts";

/**
 * Limit for the instance name, because it is part of every line and lines have a maximum size. A host name has at most
 * 253 characters.
 */
const INSTANCE_CHARACTERS_MAX = 256;
const DISK_RESERVE_BYTES = 67_108_864;

export interface AuditLogOptions {
  /** Created with access for this user only when missing. Must be on a local file system. */
  readonly dir: string;
  /** The replica that writes; part of every line. At most 256 characters. */
  readonly instance: string;
  /** The tenant whose log it is; part of every line. A log belongs to one tenant, or to the service itself. */
  readonly tenant?: string | undefined;
  /** Returns milliseconds since 1970. */
  readonly clock: () => number;
  readonly durability: Durability;
  /** Maximum number of lines that wait for the disk; their bytes are limited by `QUEUE_BYTES_MAX`. */
  readonly queueEntriesMax: number;
  readonly onBatch?: (batch: WrittenBatch) => void;
  /** Monotonic clock in milliseconds, for measuring durations. Defaults to `clock`. */
  readonly monotonic?: () => number;
  readonly files?: FileOperations;
  /** Returns the `id` of each entry. Without it, entries have no `id`. */
  readonly ids?: () => string;
  /** Ed25519 private key that signs the checkpoints. Without it the chain has no signatures. */
  readonly checkpointKey?: KeyObject | undefined;
  /** Milliseconds between a line and the checkpoint that covers it. */
  readonly checkpointIntervalMs?: number;
  /**
   * New calls are refused when fewer bytes than this are free. Default: 64 MiB, and never more than a sixteenth of the
   * disk.
   */
  readonly diskReserveBytes?: number;
  /** Audit directory of a log that this process writes, too: if it is on the same disk, this log uses its reserve. */
  readonly reserveOf?: string | undefined;
}

/** A stream of a log of which every line before a time is on disk. */
export interface SettledLog {
  readonly log: string;
  readonly stream: StreamName;
  /** `seq` of the line that is written next. */
  readonly nextSeq: number;
  readonly untilMs: EpochMs;
}

/** The only interface to the log. Every failure is an `AuditLogError`. */
export interface AuditLog {
  /** The calls that a former run of the service left without an outcome. */
  readonly interrupted: readonly InterruptedCall[];
  /** Resolves when the entries of the interrupted calls are on disk, or cannot be written. */
  readonly interruptedWritten: Promise<unknown>;
  /** Returns the names of this log in its checkpoints, one for each stream that has lines. */
  origins(): readonly string[];
  /** Returns the id of the journal, which distinguishes this log from all others; undefined before its first line. */
  id(): string | undefined;
  /**
   * Writes the line of one call. Resolves when the line is acknowledged (see `Durability`). If it rejects, the call
   * must not be answered.
   */
  append(entry: EntryDraft): Promise<Receipt>;
  /** Writes one journal line. Durable when resolved: await an intent before running the call that it announces. */
  journal(line: JournalLine): Promise<void>;
  /**
   * Returns until when a stream is complete on disk: no later line will have an earlier time. Returns undefined while lines wait for
   * the disk or none can be written, and before the first line.
   */
  settled(stream: StreamName): SettledLog | undefined;
  /** Returns the health for operators and the readiness check: the reason names files. */
  health(): AuditHealth;
  /**
   * Returns true when a call that starts now can rely on its lines being accepted. `now` is the monotonic time, if the
   * caller knows it.
   */
  hasRoom(now?: number): boolean;
  /** Returns true when the disk is nearly full but lines are still written. */
  isDiskLow(): boolean;
  /** Returns how many bytes are free on the log's disk; undefined while the disk does not tell. */
  diskFreeBytes(): number | undefined;
  /** Tells a process that finds the directory in use that this one is ending: it may wait. */
  noteEnding(): void;
  /**
   * Writes the queued lines and the last checkpoint, refuses new lines and unlocks the directory. Never rejects; may be called more
   * than once. `beforeUnlock` runs when everything is written, and does not reject.
   */
  close(beforeUnlock?: () => Promise<void>): Promise<void>;
}

/**
 * Locks the directory, removes incomplete lines from the ends of its files and opens it for appending.
 *
 * @throws DirectoryInUse when another process writes the directory
 * @throws AuditLogError that says what to fix when the directory cannot be written to, or has lines that are
 * too far ahead of the clock.
 */
export function openAuditLog(options: AuditLogOptions): AuditLog {
  if (options.instance.length > INSTANCE_CHARACTERS_MAX) {
    throw new AuditLogError(`the instance name has more than ${INSTANCE_CHARACTERS_MAX} characters: set a shorter one`);
  }
  let lock: DirectoryLock | undefined;
  try {
    for (const folder of [JOURNAL_DIR, CHECKPOINT_DIR, STATE_DIR]) makeDirectory(join(options.dir, folder));
    lock = lockDirectory(options.dir, holderName(options));
    return new JsonLogger(options, lock);
  } catch (error) {
    lock?.release();
    if (error instanceof AuditLogError) throw error;
    throw new AuditLogError(`cannot open the audit directory ${options.dir}: ${errorText(error)}`);
  }
}

function holderName({ instance, clock }: AuditLogOptions): string {
  return `${instance}, process ${process.pid}, since ${new Date(clock()).toISOString()}`;
}

interface NewLine {
  readonly name: StreamName;
  readonly serialize: (stamp: Stamp) => string;
  readonly finish: (error?: AuditLogError) => void;
  /**
   * Called when the line has its position in the chain: from here on, either this line is written or no line is written
   * any more.
   */
  readonly queued?: (seq: number) => void;
  /** Skips the queue limit: calls of a former run must get their entries. */
  readonly always?: boolean;
}

class JsonLogger implements AuditLog {
  readonly interrupted: readonly InterruptedCall[];
  readonly interruptedWritten: Promise<unknown>;
  readonly #writtenBy: Pick<Stamp, "instance" | "tenant">;
  readonly #monotonic: () => number;
  readonly #ids: () => string | undefined;
  readonly #lock: DirectoryLock;
  readonly #stamps: StampClock;
  readonly #streams: Readonly<Record<StreamName, DayStream>>;
  /** `seq` of the next line to be queued. */
  readonly #next: Record<StreamName, number>;
  readonly #intents = new OpenIntents();
  readonly #writer: LineWriter;
  readonly #keeper: CheckpointKeeper;
  readonly #reserve: DiskReserve;
  /** Intents whose calls ended while the disk was full: their entries must still be written. */
  readonly #unwritten = new Set<number>();
  #isResuming = false;
  #closed: Promise<void> | undefined;

  constructor(options: AuditLogOptions, lock: DirectoryLock) {
    const { dir, clock, durability, files = diskFiles, monotonic = clock, ids } = options;
    const { lastMs, tornTails, positions, notes, intents } = recover({
      dir,
      tenant: options.tenant,
      key: options.checkpointKey,
      nowMs: clock(),
    });
    this.#writtenBy = { instance: options.instance, tenant: options.tenant };
    this.#monotonic = monotonic;
    this.#ids = ids ?? (() => undefined);
    this.#lock = lock;
    this.#stamps = new StampClock(clock, lastMs);
    const stream = (name: StreamName) =>
      new DayStream({
        dir: join(dir, name === "journal" ? JOURNAL_DIR : ""),
        files,
        position: positions[name],
        onDayEnd: (position) => this.#keeper.dayEnded(name, position),
      });
    this.#streams = { calls: stream("calls"), journal: stream("journal") };
    this.#next = { calls: positions.calls.head.seq, journal: positions.journal.head.seq };
    this.#reserve = new DiskReserve({
      dir: join(dir, STATE_DIR),
      sharedDir: options.reserveOf && join(options.reserveOf, STATE_DIR),
      bytes: options.diskReserveBytes ?? DISK_RESERVE_BYTES,
      files,
      monotonic,
    });
    this.#keeper = new CheckpointKeeper({
      dir,
      files,
      key: options.checkpointKey,
      intervalMs: options.checkpointIntervalMs ?? CHECKPOINT_INTERVAL_MS,
      notes,
      positions: () => ({ calls: this.#streams.calls.position, journal: this.#streams.journal.position }),
      intents: (journalLines) => this.#intents.list(journalLines),
      sync: durability === "write" ? () => this.#sync() : async () => undefined,
    });
    this.#writer = new LineWriter({
      streams: [this.#streams.journal, this.#streams.calls],
      durability,
      queueEntriesMax: options.queueEntriesMax,
      monotonic,
      check: () => this.#check(),
      onBatch: (batch) => {
        this.#keeper.touch();
        options.onBatch?.(batch);
      },
      makeRoom: () => this.#reserve.giveUp(),
      onRefused: () => {
        for (const name of STREAMS) this.#next[name] = this.#streams[name].position.head.seq;
      },
      onDrained: (isSound) => this.#keeper.close(isSound),
    });
    // If one of these lines fails, every later line fails too, and `health` reports the reason.
    for (const tail of tornTails) {
      this.journal({ type: "torn_tail", ...tail }).catch(() => undefined);
    }
    this.interruptedWritten = Promise.allSettled(
      intents.map((intent) => {
        this.#intents.open(intent);
        return this.#append(unknownOutcome(intent), true);
      }),
    );
    this.interrupted = intents.map(interruptedCall);
    this.#reserve.isLow();
    this.#keeper.start();
  }

  origins(): readonly string[] {
    return STREAMS.flatMap((stream) => {
      const { logId } = this.#streams[stream].position.head;
      return logId === undefined ? [] : [originOf(stream, logId)];
    });
  }

  id(): string | undefined {
    return this.#streams.journal.position.head.logId;
  }

  settled(stream: StreamName): SettledLog | undefined {
    const { logId: log } = this.#streams[stream].position.head;
    if (log === undefined || !this.#writer.isIdle) return undefined;
    return { log, stream, nextSeq: this.#next[stream], untilMs: Date.parse(this.#stamps.next()) };
  }

  append(draft: EntryDraft): Promise<Receipt> {
    return this.#append(draft, false);
  }

  #append(draft: EntryDraft, always: boolean): Promise<Receipt> {
    return new Promise((resolve, reject) => {
      const receipt = mint<Receipt>({ traceId: draft.traceId });
      const intentSeq = this.#intents.seqOf(draft.traceId);
      this.#enqueue({
        name: "calls",
        always,
        serialize: ({ timestamp, instance, tenant }) =>
          serializeEntry(stampEntry(draft, { timestamp, instance, tenant, id: this.#ids(), intentSeq })),
        finish: (error) => {
          if (error !== undefined) {
            if (intentSeq !== undefined) this.#unwritten.add(intentSeq);
            return reject(error);
          }
          if (intentSeq !== undefined) this.#intents.close(intentSeq);
          resolve(receipt);
        },
      });
    });
  }

  journal(line: JournalLine): Promise<void> {
    return new Promise((resolve, reject) => {
      let opened: number | undefined;
      this.#enqueue({
        name: "journal",
        serialize: (stamp) => {
          this.#intents.checkRoom();
          return serializeJournalLine(line, stamp);
        },
        queued: (seq) => {
          const intent = intentOf(seq, line);
          if (intent === undefined) return;
          this.#intents.open(intent);
          opened = seq;
        },
        finish: (error) => {
          if (error === undefined) return resolve();
          if (opened !== undefined) this.#intents.close(opened);
          reject(error);
        },
      });
    });
  }

  health(): AuditHealth {
    this.#resumeWhenFree();
    const health = this.#writer.health();
    if (health.status === "failing") return health;
    const isLow = this.#isResuming || this.#reserve.isLow();
    const reason = this.#keeper.failure ?? (isLow ? "the disk is nearly full: free some of it" : "");
    return reason === "" ? health : { status: "failing", reason };
  }

  hasRoom(now: number = this.#monotonic()): boolean {
    this.#resumeWhenFree();
    const isReady = this.#writer.hasRoom(now) && !this.#isResuming;
    return isReady && this.#keeper.failure === undefined && !this.#reserve.isLow(now);
  }

  isDiskLow(): boolean {
    return this.#writer.health().status !== "failing" && this.#reserve.isLow();
  }

  diskFreeBytes(): number | undefined {
    return this.#reserve.freeBytes();
  }

  /**
   * After the disk was full, writes a journal line to test whether there is room again. No call is accepted until that
   * line is durable.
   */
  #resumeWhenFree(): void {
    if (this.#closed !== undefined || !this.#writer.isFull || this.#isResuming || this.#reserve.isLow()) return;
    this.#isResuming = true;
    this.#writer.resume();
    this.journal({ type: "audit.resumed", reason: "the disk was full" })
      .then(() => this.#writeMissing())
      .catch(() => undefined)
      .finally(() => {
        this.#isResuming = false;
      });
  }

  /** Writes the missing entries of calls that ended while the disk was full: no client received their results. */
  #writeMissing(): void {
    const missing = this.#intents.list(Number.POSITIVE_INFINITY).filter(({ seq }) => this.#unwritten.has(seq));
    this.#unwritten.clear();
    for (const intent of missing) this.#append(unknownOutcome(intent), true).catch(() => undefined);
  }

  noteEnding(): void {
    this.#lock.noteEnding();
  }

  close(beforeUnlock?: () => Promise<void>): Promise<void> {
    this.#closed ??= this.#writer
      .close()
      .then(() => this.#reserve.close())
      .then(beforeUnlock)
      .finally(() => this.#lock.release());
    return this.#closed;
  }

  #enqueue({ name, serialize, finish, queued, always }: NewLine): void {
    try {
      const timestamp = this.#stamps.next();
      const line = serialize({ timestamp, ...this.#writtenBy });
      const day = timestamp.slice(0, "YYYY-MM-DD".length);
      const seq = this.#next[name];
      const bytes = Buffer.byteLength(line) + chainBytes(seq) + 1;
      if (bytes > LINE_BYTES_MAX + 1) {
        throw new AuditLogError(`the line has ${bytes} bytes, which is over the limit`);
      }
      this.#writer.enqueue(this.#streams[name], { day, line, bytes, finish }, always);
      this.#next[name] += 1;
      queued?.(seq);
    } catch (error) {
      finish(error instanceof AuditLogError ? error : new AuditLogError(`no line can be written: ${errorText(error)}`));
    }
  }

  async #sync(): Promise<void> {
    try {
      await Promise.all(Object.values(this.#streams).map((stream) => stream.sync()));
    } catch (error) {
      this.#writer.stop(error);
      throw error;
    }
  }

  #check(): void {
    this.#lock.check();
    this.#streams.calls.check();
    this.#streams.journal.check();
  }
}

/** Last millisecond of the year 9999: later timestamps have no four-digit year and therefore no day file. */
const STAMP_MS_MAX = 253_402_300_799_999;

/**
 * Source of timestamps that never decrease: when the clock is set back, it repeats the last timestamp until the clock
 * has caught up.
 */
class StampClock {
  readonly #clock: () => number;
  #lastMs: number;
  #lastStamp: string;

  /** No timestamp will be earlier than `lastMs` (milliseconds since 1970). */
  constructor(clock: () => number, lastMs: number) {
    this.#clock = clock;
    this.#lastMs = lastMs;
    this.#lastStamp = new Date(lastMs).toISOString();
  }

  next(): string {
    const now = Math.floor(this.#clock());
    if (!(now >= 0 && now <= STAMP_MS_MAX)) {
      throw new AuditLogError(`the clock says ${now} ms since 1970: set it`);
    }
    if (now > this.#lastMs) {
      this.#lastMs = now;
      this.#lastStamp = new Date(now).toISOString();
    }
    return this.#lastStamp;
  }
}
