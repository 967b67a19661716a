import { errorText } from "../../core/error-text.ts";
import { present } from "../../core/present.ts";
import { AuditLogError, DiskFullError } from "../audit-log-error.ts";
import type { DayStream, QueuedJson } from "./day-stream.ts";

/** Maximum bytes of lines that are not yet on disk. */
export const QUEUE_BYTES_MAX = 16 * 1024 * 1024;
/** Minimum time between two checks that the files are still the writer's own, in milliseconds. */
const CHECK_INTERVAL_MS = 1_000;
/** The disk counts as not responding when a batch takes longer than this, in milliseconds. */
const BATCH_MS_MAX = 2_000;

/**
 * `fdatasync`: an acknowledged line is on disk. `write`: an acknowledged line was handed to the kernel; a power failure
 * can lose it.
 */
export type Durability = "fdatasync" | "write";

export type AuditHealth = { readonly status: "ok" } | { readonly status: "failing"; readonly reason: string };

export interface WrittenBatch {
  readonly entries: number;
  readonly bytes: number;
  readonly syncMs: number;
}

interface QueuedLine extends QueuedJson {
  /** `YYYY-MM-DD`; never earlier than the day of the line queued before. */
  readonly day: string;
  /** Called without an error when the line is durable. Only the first call counts. */
  readonly finish: (error?: AuditLogError) => void;
}

interface LineWriterOptions {
  /**
   * The order in which a batch is written: lines of an earlier stream are on disk before lines of a later stream are
   * written.
   */
  readonly streams: readonly DayStream[];
  readonly durability: Durability;
  readonly queueEntriesMax: number;
  /** Monotonic clock in milliseconds. */
  readonly monotonic: () => number;
  /** Throws when the open files were deleted or replaced. */
  readonly check: () => void;
  readonly onBatch: (batch: WrittenBatch) => void;
  /** Called when the disk is full. Returns true when it made room; the batch is then tried once more. */
  readonly makeRoom: () => boolean;
  /** Called when queued lines were refused: their positions in the chain are free again. */
  readonly onRefused: () => void;
  /**
   * Called when nothing more will be written, while the files are still open. When `isSound` is false, the last lines
   * may not be on disk.
   */
  readonly onDrained: (isSound: boolean) => Promise<void>;
}

/**
 * Group commit: one loop takes all queued lines, writes them, syncs once and settles them. Lines that arrive meanwhile
 * form the next batch. No timer is needed: an idle writer writes immediately, and a busy one fills batches by itself.
 * After a failure, every waiting and every later line is refused. A failure is final, because the contents of the disk
 * are unknown after it. The exception is a full disk when nothing of the batch was written: `resume` tries again.
 */
export class LineWriter {
  readonly #options: LineWriterOptions;
  readonly #queues: Map<DayStream, QueuedLine[]>;
  #pendingEntries = 0;
  #pendingBytes = 0;
  #failure: AuditLogError | undefined;
  #isClosed = false;
  #running: Promise<void> | undefined;
  #batchStartedAt: number | undefined;
  #checkedAt = Number.NEGATIVE_INFINITY;

  constructor(options: LineWriterOptions) {
    this.#options = options;
    this.#queues = new Map(options.streams.map((stream) => [stream, []]));
  }

  /** Queues a line, or throws when it will never be written. `always` ignores the queue limits. */
  enqueue(stream: DayStream, queued: QueuedLine, always = false): void {
    const queue = this.#queues.get(stream);
    const reason = always ? this.#failure : this.#refusal();
    if (queue === undefined || reason !== undefined) {
      throw reason ?? new AuditLogError("this stream is not one of the writer's");
    }
    queue.push(queued);
    this.#pendingEntries += 1;
    this.#pendingBytes += queued.bytes;
    // Runs after the current code, so that callers resumed by the same batch share the next one.
    this.#running ??= Promise.resolve().then(() => this.#run());
  }

  /** True when every line that was queued is on disk, and more lines are accepted. */
  get isIdle(): boolean {
    return this.#pendingEntries === 0 && this.#refusal() === undefined;
  }

  get isFull(): boolean {
    return this.#failure instanceof DiskFullError;
  }

  /** Accepts lines again after the disk was full; the next write shows whether there is room. */
  resume(): void {
    if (this.isFull) this.#failure = undefined;
  }

  hasRoom(now: number): boolean {
    return this.#refusal() === undefined && !this.#isStalled(now);
  }

  health(): AuditHealth {
    if (this.#failure !== undefined) {
      return { status: "failing", reason: this.#failure.message };
    }
    if (this.#isClosed) {
      return { status: "failing", reason: "the audit log is closed" };
    }
    if (this.#isStalled(this.#options.monotonic())) {
      return { status: "failing", reason: `the disk did not accept a batch for more than ${BATCH_MS_MAX} ms` };
    }
    return { status: "ok" };
  }

  /**
   * Writes the queued lines, accepts no more and closes the files. Does not throw: a line that could not be written was
   * rejected individually.
   */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#running;
    await this.#options.onDrained(this.#failure === undefined || this.isFull);
    for (const stream of this.#options.streams) stream.close();
  }

  #refusal(): AuditLogError | undefined {
    if (this.#failure !== undefined) return this.#failure;
    if (this.#isClosed) return new AuditLogError("the audit log is closed");
    if (this.#pendingEntries >= this.#options.queueEntriesMax) {
      return new AuditLogError(`${this.#pendingEntries} lines already wait for the disk (queueEntriesMax)`);
    }
    if (this.#pendingBytes >= QUEUE_BYTES_MAX) {
      return new AuditLogError(`${this.#pendingBytes} bytes already wait for the disk (limit ${QUEUE_BYTES_MAX})`);
    }
    return undefined;
  }

  #isStalled(now: number): boolean {
    return this.#batchStartedAt !== undefined && now - this.#batchStartedAt > BATCH_MS_MAX;
  }

  async #run(): Promise<void> {
    while (this.#pendingEntries > 0) {
      const taken = this.#take();
      try {
        this.#checkFiles();
        await this.#commit(taken);
      } catch (error) {
        this.#fail(error, taken);
      }
      // Callers resumed by this batch may queue another line immediately: one turn of the event loop lets a busy batch
      // fill.
      if (this.#pendingEntries > 1) await new Promise<void>((resolve) => setImmediate(resolve));
    }
    this.#running = undefined;
  }

  #take(): Map<DayStream, QueuedLine[]> {
    const taken = new Map(this.#queues);
    for (const stream of taken.keys()) this.#queues.set(stream, []);
    return taken;
  }

  #checkFiles(): void {
    const now = this.#options.monotonic();
    if (Math.abs(now - this.#checkedAt) >= CHECK_INTERVAL_MS) {
      this.#checkedAt = now;
      this.#options.check();
    }
  }

  async #commit(taken: Map<DayStream, QueuedLine[]>): Promise<void> {
    for (const [stream, lines] of taken) {
      while (lines.length > 0) {
        const later = lines.findIndex(({ day }) => day !== lines[0]?.day);
        const ofDay = later === -1 ? lines : lines.slice(0, later);
        await this.#commitDay(stream, ofDay);
        lines.splice(0, ofDay.length);
      }
    }
  }

  async #commitDay(stream: DayStream, lines: readonly QueuedLine[]): Promise<void> {
    const { durability, monotonic, onBatch } = this.#options;
    const { day } = present(lines[0], "the first line of a day");
    this.#batchStartedAt = monotonic();
    await this.#write(stream, day, lines);
    const writtenAt = monotonic();
    if (durability === "fdatasync") await stream.sync();
    const syncMs = monotonic() - writtenAt;
    const bytes = lines.reduce((sum, line) => sum + line.bytes, 0);
    this.#batchStartedAt = undefined;
    this.#pendingEntries -= lines.length;
    this.#pendingBytes -= bytes;
    stream.commit();
    for (const { finish } of lines) finish();
    onBatch({ entries: lines.length, bytes, syncMs });
  }

  /** Retries a write that found no room and left nothing in the file. A sync is never retried. */
  async #write(stream: DayStream, day: string, lines: readonly QueuedLine[]): Promise<void> {
    try {
      await stream.write(day, lines);
    } catch (error) {
      if (!(error instanceof DiskFullError) || !this.#options.makeRoom()) throw error;
      await stream.write(day, lines);
    }
  }

  /** Stops the writer after an error outside it that affects the files: no more lines are accepted. */
  stop(error: unknown): void {
    this.#fail(error, new Map());
  }

  #fail(error: unknown, taken: ReadonlyMap<DayStream, readonly QueuedLine[]>): void {
    const failure =
      error instanceof AuditLogError ? error : new AuditLogError(`the audit writer broke: ${errorText(error)}`);
    // A final failure stays, whatever error a batch in progress reports afterwards.
    if (this.#failure === undefined || this.isFull) this.#failure = failure;
    this.#batchStartedAt = undefined;
    this.#pendingEntries = 0;
    this.#pendingBytes = 0;
    for (const { finish } of [...taken.values(), ...this.#take().values()].flat()) finish(failure);
    this.#options.onRefused();
  }
}
