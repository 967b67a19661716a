import { errorText } from "../../core/error-text.ts";
import { AuditLogError, DiskFullError } from "../audit-log-error.ts";
import type { DayStream, QueuedJson } from "../query/day-stream.ts";

/** Bytes of lines that are not yet on disk. */
export const QUEUE_BYTES_MAX = 16 * 1024 * 1024;
/** How often, at most, the files under us are looked at, in milliseconds. */
const CHECK_INTERVAL_MS = 1_000;
/** A batch that takes longer than this means a disk that does not answer, in milliseconds. */
const BATCH_MS_MAX = 2_000;

/** `fdatasync`: acknowledged means on disk. `write`: acknowledged means handed to the kernel, which a power cut may lose. */
export type Durability = "fdatasync" | "write";

export type AuditHealth = { readonly status: "ok" } | { readonly status: "failing"; readonly reason: string };

/** Lines of one file that became durable together. */
export interface WrittenBatch {
  readonly entries: number;
  readonly bytes: number;
  readonly syncMs: number;
}

export interface QueuedLine extends QueuedJson {
  /** `YYYY-MM-DD`; never earlier than that of the line queued before. */
  readonly day: string;
  /** The first call counts: without an error when the line is durable. */
  readonly settle: (error?: AuditLogError) => void;
}

export interface LineWriterOptions {
  /** In the order in which a batch reaches them: what stands in an earlier one is on disk before a later one is written. */
  readonly streams: readonly DayStream[];
  readonly durability: Durability;
  readonly queueEntriesMax: number;
  /** Milliseconds; measures how long things take. */
  readonly monotonic: () => number;
  /** Throws when the files under us are not ours any more. */
  readonly check: () => void;
  readonly onBatch: (batch: WrittenBatch) => void;
  /** The disk is full: makes room, if there is some to make, and then the batch is tried once more. */
  readonly makeRoom: () => boolean;
  /** Queued lines were refused: their positions in the chain are free again. */
  readonly onRefused: () => void;
  /** Nothing more will be written; the files are still open. Not sound: the last lines may not be on disk. */
  readonly onDrained: (isSound: boolean) => Promise<void>;
}

/**
 * Group commit: one loop takes all lines that are queued, writes them, syncs once and settles them; what arrives
 * meanwhile is the next batch. No timer: an idle writer writes at once, a busy one fills batches by itself.
 * After a failure every waiting and every later line is refused. A failure is final, for after it nobody knows what the disk
 * holds; only a full disk can be tried again, when nothing of the batch is on it (`resume`).
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

  /** Queues a line, or throws when it will never be written. `always`: however many wait already. */
  enqueue(stream: DayStream, queued: QueuedLine, always = false): void {
    const queue = this.#queues.get(stream);
    const reason = always ? this.#failure : this.#refusal();
    if (queue === undefined || reason !== undefined) {
      throw reason ?? new AuditLogError("this stream is not one of the writer's");
    }
    queue.push(queued);
    this.#pendingEntries += 1;
    this.#pendingBytes += queued.bytes;
    // After the code that runs now: callers that a batch woke together share the next one.
    this.#running ??= Promise.resolve().then(() => this.#run());
  }

  /** Whether lines are refused because the disk is full, and nothing else is wrong. */
  get isFull(): boolean {
    return this.#failure instanceof DiskFullError;
  }

  /** There may be room again: lines are taken, and the next write tells. */
  resume(): void {
    if (this.isFull) this.#failure = undefined;
  }

  hasRoom(): boolean {
    return this.#refusal() === undefined && !this.#isStalled();
  }

  health(): AuditHealth {
    if (this.#failure !== undefined) {
      return { status: "failing", reason: this.#failure.message };
    }
    if (this.#isClosed) {
      return { status: "failing", reason: "the audit log is closed" };
    }
    if (this.#isStalled()) {
      return { status: "failing", reason: `the disk has not taken a batch for more than ${BATCH_MS_MAX} ms` };
    }
    return { status: "ok" };
  }

  /** Writes what is queued, takes no more, closes the files. Does not throw: a line that could not be written was refused by itself. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#running;
    await this.#options.onDrained(this.#failure === undefined || this.isFull);
    for (const stream of this.#options.streams) {
      stream.close();
    }
  }

  #refusal(): AuditLogError | undefined {
    if (this.#failure !== undefined) {
      return this.#failure;
    }
    if (this.#isClosed) {
      return new AuditLogError("the audit log is closed");
    }
    if (this.#pendingEntries >= this.#options.queueEntriesMax) {
      return new AuditLogError(`${this.#pendingEntries} lines already wait for the disk (queueEntriesMax)`);
    }
    if (this.#pendingBytes >= QUEUE_BYTES_MAX) {
      return new AuditLogError(`${this.#pendingBytes} bytes already wait for the disk (limit ${QUEUE_BYTES_MAX})`);
    }
    return undefined;
  }

  #isStalled(): boolean {
    return this.#batchStartedAt !== undefined && this.#options.monotonic() - this.#batchStartedAt > BATCH_MS_MAX;
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
      // Whom this batch woke may have another line at once: one turn of the loop lets a busy batch fill.
      if (this.#pendingEntries > 1) await new Promise<void>((resolve) => setImmediate(resolve));
    }
    this.#running = undefined;
  }

  #take(): Map<DayStream, QueuedLine[]> {
    const taken = new Map(this.#queues);
    for (const stream of taken.keys()) {
      this.#queues.set(stream, []);
    }
    return taken;
  }

  #checkFiles(): void {
    const now = this.#options.monotonic();
    if (Math.abs(now - this.#checkedAt) >= CHECK_INTERVAL_MS) {
      this.#checkedAt = now;
      this.#options.check();
    }
  }

  /** Takes out what became durable. */
  async #commit(taken: Map<DayStream, QueuedLine[]>): Promise<void> {
    for (const [stream, lines] of taken) {
      while (lines.length > 0) {
        const to = endOfDay(lines, 0);
        await this.#commitDay(stream, lines.slice(0, to));
        lines.splice(0, to);
      }
    }
  }

  /** The lines are of one day. */
  async #commitDay(stream: DayStream, lines: readonly QueuedLine[]): Promise<void> {
    const { durability, monotonic, onBatch } = this.#options;
    const day = lines[0]?.day ?? "";
    this.#batchStartedAt = monotonic();
    await this.#write(stream, day, lines);
    const writtenAt = monotonic();
    if (durability === "fdatasync") {
      await stream.sync();
    }
    const syncMs = monotonic() - writtenAt;
    const bytes = lines.reduce((sum, line) => sum + line.bytes, 0);
    this.#batchStartedAt = undefined;
    this.#pendingEntries -= lines.length;
    this.#pendingBytes -= bytes;
    stream.settle();
    for (const { settle } of lines) {
      settle();
    }
    onBatch({ entries: lines.length, bytes, syncMs });
  }

  /** A write that found no room and left nothing behind may be tried again; a sync never. */
  async #write(stream: DayStream, day: string, lines: readonly QueuedLine[]): Promise<void> {
    try {
      await stream.write(day, lines);
    } catch (error) {
      if (!(error instanceof DiskFullError) || !this.#options.makeRoom()) {
        throw error;
      }
      await stream.write(day, lines);
    }
  }

  /** For what else harms the files: no line is taken any more. */
  stop(error: unknown): void {
    this.#fail(error, new Map());
  }

  /** Refuses what was taken and is not durable, and what is queued. */
  #fail(error: unknown, taken: ReadonlyMap<DayStream, readonly QueuedLine[]>): void {
    const failure =
      error instanceof AuditLogError ? error : new AuditLogError(`the audit writer broke: ${errorText(error)}`);
    // A final failure stays, whatever a batch under way meets after it.
    if (this.#failure === undefined || this.isFull) this.#failure = failure;
    this.#batchStartedAt = undefined;
    this.#pendingEntries = 0;
    this.#pendingBytes = 0;
    for (const { settle } of [...taken.values(), ...this.#take().values()].flat()) {
      settle(failure);
    }
    this.#options.onRefused();
  }
}

function endOfDay(lines: readonly QueuedLine[], from: number): number {
  const day = lines[from]?.day;
  let to = from + 1;
  while (to < lines.length && lines[to]?.day === day) {
    to += 1;
  }
  return to;
}
