import fs from "node:fs";
import { join } from "node:path";
import { errorText } from "../../core/error-text.ts";
import { isReportDue, OutageReporter, retryDelayMs } from "../../core/retry.ts";
import { endedWithin } from "../../core/time-limits.ts";
import type { EpochMs, Json } from "../../core/types.ts";
import { countIn, type DayPart, PART_BYTES_MAX, readPart } from "../archive/part.ts";
import type { SettledLog } from "../audit-log.ts";
import type { StreamName } from "../chain/chain.ts";
import { logIdIn } from "../chain/log-id.ts";
import { makeDirectory } from "../journal/file-operations.ts";
import type { Position } from "../query/params.ts";
import { DAY_MS } from "../query/time-range.ts";
import type { UpkeepState } from "../store/upkeep.ts";
import {
  bytesBehind,
  type ExportBatch,
  type ExportLine,
  type Lag,
  lagAt,
  readBatch,
  readNextLine,
  startOf,
} from "./batch.ts";
import {
  deadLettersOf,
  EXPORT_DIR,
  EXPORT_STREAMS,
  type ExportStream,
  readExportPosition,
  writeExportPosition,
} from "./positions.ts";
import { agedFiles, pruneFiles, SEE_VERIFY } from "./prune.ts";
import type { Archive, ArchiveOutcome, Receiver, ReceiverOutcome } from "./receiver.ts";

export interface ExporterTarget {
  /** Part of the names of its files. */
  readonly name: string;
  readonly receiver: Receiver | Archive;
}

type Later = Extract<ReceiverOutcome | ArchiveOutcome, { readonly kind: "later" }>;

interface CommonOptions {
  readonly dir: string;
  /** Returns Unix milliseconds. */
  readonly clock: () => number;
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  /** Writes a problem to the operators' log. */
  readonly report: (message: string) => void;
}

interface ExporterOptions extends CommonOptions {
  readonly stream: ExportStream;
  readonly target: ExporterTarget;
  /** Returns until when the stream is complete on disk; undefined while that is not known. */
  readonly settled?: (() => SettledLog | undefined) | undefined;
  /**
   * `pollMs` is the pause when the log has no new lines, `backoffMs` the pause after a first failure; in milliseconds.
   */
  readonly pollMs?: number;
  readonly backoffMs?: number;
}

export interface ExportState {
  readonly exporter: string;
  readonly stream: ExportStream;
  /** NaN while the log cannot be read, as is `secondsBehind`. */
  readonly bytesBehind: number;
  /**
   * Age of the oldest line that was not accepted yet; 0 when there is none. A checkpoint holds no time: its age counts from when
   * nothing was left to send, at the earliest from the start.
   */
  readonly secondsBehind: number;
  readonly sentLines: number;
  readonly deadLines: number;
  readonly failures: number;
  /**
   * Failed attempts of the receiver since the start to work on what it has stored, such as deleting old days. Undefined without such
   * work, and for all streams but one, because they share the receiver.
   */
  readonly upkeepFailures: number | undefined;
  /** Those of the failures that found something else in the archive. */
  readonly conflicts: number;
  /** When the receiver last accepted lines; undefined before it has since the start. */
  readonly lastAcceptedAt: EpochMs | undefined;
  /** When the first of the failures was since which nothing moved on; undefined while nothing fails. */
  readonly failingSince: EpochMs | undefined;
}

interface ReadPart extends DayPart {
  /** Storing it may take hours: lines that are written in the meantime are not in it. */
  readonly readAt: EpochMs;
}

/** Reason in a report about lines that were rejected after the previous report. */
const REPEATED = "more of the same";
const POLL_MS = 500;
/** Pause between two notes of how far an idle log is complete. */
const SETTLED_EVERY_MS = 5_000;
const BACKOFF_MS = 1_000;
const BACKOFF_MS_MAX = 60_000;

/**
 * Sends one stream of the log, or its checkpoints, to one receiver, in batches, in order, at least once. The position moves past a line only when
 * the receiver has accepted it, or when it is kept as a dead letter. The exporter reads files and is independent of the call
 * pipeline.
 */
export class Exporter {
  readonly #options: ExporterOptions;
  readonly #counts = { sentLines: 0, deadLines: 0, failures: 0, conflicts: 0 };
  #position: Position | undefined;
  /** The position in the file. */
  #saved: Position | undefined;
  /** Id of the log, once it is known: it never changes. */
  #log: string | undefined;
  #lastAcceptedAt: EpochMs | undefined;
  #failingSince: EpochMs | undefined;
  /** Time at which the receiver last had all lines. */
  #completeAt: EpochMs | undefined;
  /** When the last part was read after which the log had nothing, or when there was last no further part. */
  #exhaustedAt: EpochMs | undefined;
  readonly #stopping = new AbortController();
  /** True when it stops as soon as it would wait. */
  #isEnding = false;
  readonly #outages: OutageReporter;
  readonly #upkeep: OutageReporter;
  #settledAtMs = Number.NEGATIVE_INFINITY;
  #rejectedUnreported = 0;
  #rejectedReportedAtMs = Number.NEGATIVE_INFINITY;
  #wake: () => void = () => {};
  readonly #done: Promise<void>;

  constructor(options: ExporterOptions) {
    this.#options = options;
    const { dir, stream, target, clock, report } = options;
    this.#outages = new OutageReporter(clock, report);
    this.#upkeep = new OutageReporter(clock, report);
    if (stream === "checkpoints") this.#completeAt = clock();
    this.#saved = readExportPosition(dir, target.name, stream).position;
    this.#position = this.#saved;
    this.#done = this.#run();
  }

  state(): ExportState {
    const { stream, target } = this.#options;
    const times = { lastAcceptedAt: this.#lastAcceptedAt, failingSince: this.#failingSince };
    const upkeepFailures = this.#upkeepState()?.failures;
    return { exporter: target.name, stream, ...this.#lag(), ...this.#counts, upkeepFailures, ...times };
  }

  #upkeepState(): UpkeepState | undefined {
    const { stream, target } = this.#options;
    return stream === EXPORT_STREAMS[0] ? target.receiver.upkeep?.() : undefined;
  }

  /**
   * Sends what is on disk, until the receiver fails or this time has passed, and then aborts the running request. Lines that were not
   * confirmed as accepted are sent after the next start.
   */
  async stop(withinMs = 0): Promise<void> {
    const abort = (): void => this.#stopping.abort();
    this.#isEnding = true;
    const timer = withinMs > 0 ? setTimeout(abort, withinMs) : abort();
    this.#wake();
    await this.#done;
    clearTimeout(timer ?? undefined);
    this.#reportRejected(REPEATED);
  }

  #lag(): Lag {
    const { dir, stream, clock } = this.#options;
    try {
      return lagAt({ dir, stream, from: this.#position }, clock(), this.#completeAt);
    } catch {
      // The log cannot be read; the exporter reports the reason itself.
      return { bytesBehind: Number.NaN, secondsBehind: Number.NaN };
    }
  }

  async #run(): Promise<void> {
    const { dir, stream, target, clock, pollMs = POLL_MS } = this.#options;
    let failures = 0;
    let isBegun = this.#position !== undefined;
    while (!this.#stopping.signal.aborted) {
      try {
        if (!isBegun && "deliver" in target.receiver) this.#position = startOf(dir, stream);
        isBegun = true;
        this.#save();
        // Asked before: a line that is written in the meantime has a later time.
        const settled = this.#dueSettled();
        const wasEnding = this.#isEnding;
        const deliver = await this.#next();
        // Lines may have been written since the log was read, before the end.
        if (deliver === undefined && this.#isEnding && !wasEnding) continue;
        if (deliver === undefined) {
          this.#failingSince = undefined;
          if (settled !== undefined) await this.#noteSettled(settled);
          await this.#wait(pollMs);
        } else {
          // Even after a failure, so that the lines before it are not sent again.
          await deliver().finally(() => this.#save());
        }
        failures = 0;
      } catch (error) {
        failures += 1;
        // The receiver's failures are outcomes: an error comes from this machine's files.
        this.#fail(`the audit's ${stream} cannot be exported to ${target.name}: local error: ${errorText(error)}`);
        await this.#wait(this.#pauseMs(failures));
      }
      if (isReportDue(this.#rejectedReportedAtMs, clock())) this.#reportRejected(REPEATED);
      this.#reportUpkeep();
    }
  }

  /** Returns the delivery of what is next; undefined while there is nothing to send. */
  async #next(): Promise<(() => Promise<unknown>) | undefined> {
    const { dir, stream, target } = this.#options;
    const { receiver } = target;
    const readAt = this.#options.clock();
    if ("deliver" in receiver) {
      const batch = this.#nextBatch();
      if (batch === undefined) this.#completeAt = readAt;
      return batch && (() => this.#deliver(batch, receiver));
    }
    const position = { dir, stream, from: this.#position };
    const bytes = bytesBehind(position);
    if (bytes === 0) this.#completeAt = readAt;
    if (!this.#isDue(receiver, bytes)) return undefined;
    const part = await readPart(position);
    if (part === undefined) this.#exhaustedAt = readAt;
    return part && (() => this.#archive({ ...part, readAt }, receiver));
  }

  #dueSettled(): SettledLog | undefined {
    const { target, settled, clock } = this.#options;
    const isDue = Math.abs(clock() - this.#settledAtMs) >= SETTLED_EVERY_MS;
    return target.receiver.settled !== undefined && isDue ? settled?.() : undefined;
  }

  async #noteSettled(settled: SettledLog): Promise<void> {
    const { stream, target, clock } = this.#options;
    this.#settledAtMs = clock();
    const outcome = await target.receiver.settled?.(settled, this.#stopping.signal);
    if (outcome === undefined || this.#stopping.signal.aborted) return;
    if (outcome.kind === "taken") return this.#outages.recovered();
    this.#counts.failures += 1;
    this.#outages.failed(
      `${target.name} does not note until when the audit's ${stream} are complete: ${outcome.reason}`,
    );
  }

  #nextBatch(): ExportBatch | undefined {
    const { dir, stream } = this.#options;
    const position = { dir, stream, from: this.#position };
    if (stream !== "checkpoints" && this.#log === undefined) {
      // A line that is written after the id was looked for would be sent without it.
      if (readNextLine(position) === undefined) return undefined;
      this.#log = logIdIn(dir, stream);
    }
    return readBatch({ ...position, log: this.#log });
  }

  /** Lines that exist at the start are sent at once, as at the end, so that a process that restarts often still sends. */
  #isDue({ intervalMs }: Archive, bytes: number): boolean {
    const isOver = Math.abs(this.#options.clock() - (this.#exhaustedAt ?? 0)) >= intervalMs;
    return bytes > 0 && (bytes >= PART_BYTES_MAX || isOver || this.#isEnding);
  }

  #save(): void {
    const { dir, stream, target } = this.#options;
    const position = this.#position;
    if (position === undefined || position === this.#saved) return;
    writeExportPosition(dir, { exporter: target.name, stream, position });
    this.#saved = position;
  }

  /** Sends until the answer is final. Returns undefined when the exporter was stopped before. */
  async #settle<Final extends { readonly kind: "taken" | "refused" }>(
    send: (signal: AbortSignal) => Promise<Final | Later>,
  ): Promise<Final | undefined> {
    const { stream, target } = this.#options;
    const { signal } = this.#stopping;
    for (let attempt = 1; !signal.aborted; attempt += 1) {
      const outcome = await send(signal);
      if (outcome.kind !== "later") {
        if (outcome.kind === "taken") this.#outages.recovered();
        return outcome;
      }
      if (signal.aborted) break;
      if ("isConflict" in outcome && outcome.isConflict) this.#counts.conflicts += 1;
      this.#fail(`${target.name} does not accept the audit's ${stream}: ${outcome.reason}`);
      await this.#wait(this.#pauseMs(attempt, outcome.retryAfterMs));
    }
    return undefined;
  }

  /** Delivers a batch. Returns `false` when the exporter was stopped before everything was accepted. */
  async #deliver({ lines, next }: ExportBatch, receiver: Receiver): Promise<boolean> {
    const outcome = await this.#settle((signal) => receiver.deliver(lines, signal));
    if (outcome === undefined) return false;
    if (outcome.kind === "refused") return this.#refused({ lines, next }, receiver, outcome.reason);
    if (outcome.rejected > 0) this.#keepRejected(lines, `${outcome.rejected} of ${lines.length} rejected`);
    else this.#counts.sentLines += lines.length;
    if (outcome.rejected < lines.length) this.#lastAcceptedAt = this.#options.clock();
    this.#moveTo(next);
    return true;
  }

  /** Stores a part. The archive may hold less of it: what was stored in its place before a crash. */
  async #archive(part: ReadPart, archive: Archive): Promise<void> {
    const { stream, day, offset, bytes, isLast, readAt } = part;
    const outcome = await this.#settle((signal) => archive.store(part, signal));
    if (outcome === undefined) return;
    this.#counts.sentLines += countIn(stream, bytes.subarray(0, outcome.bytes));
    this.#lastAcceptedAt = this.#options.clock();
    if (isLast && outcome.bytes === bytes.length) {
      this.#completeAt = readAt;
      this.#exhaustedAt = readAt;
    }
    this.#moveTo({ day, offset: offset + outcome.bytes });
  }

  /**
   * Splits a refused batch in half until a bad line is alone, because one bad line makes the receiver refuse the whole
   * batch. Loki stores the good lines of a batch that it refuses, and does not say which these are. They are sent again:
   * Loki drops an entry whose stream, time, line and structured metadata it already has.
   */
  async #refused({ lines, next }: ExportBatch, receiver: Receiver, reason: string): Promise<boolean> {
    const middle = Math.ceil(lines.length / 2);
    const after = lines[middle];
    if (after === undefined) {
      this.#keepRejected(lines, reason);
      this.#moveTo(next);
      return true;
    }
    const { day, offset } = after;
    const isFirstDone = await this.#deliver({ lines: lines.slice(0, middle), next: { day, offset } }, receiver);
    return isFirstDone && this.#deliver({ lines: lines.slice(middle), next }, receiver);
  }

  #moveTo(next: Position): void {
    this.#position = next;
    this.#failingSince = undefined;
  }

  #keepRejected(lines: readonly ExportLine[], reason: string): void {
    const { dir, target, clock } = this.#options;
    keepDeadLetters(dir, { exporter: target.name, reason, lines });
    this.#counts.deadLines += lines.length;
    this.#rejectedUnreported += lines.length;
    if (isReportDue(this.#rejectedReportedAtMs, clock())) this.#reportRejected(reason);
  }

  #reportRejected(reason: string): void {
    if (this.#rejectedUnreported === 0) return;
    const { report, target, clock } = this.#options;
    report(`${target.name} refused ${this.#rejectedUnreported} audit lines permanently: ${reason}`);
    this.#rejectedUnreported = 0;
    this.#rejectedReportedAtMs = clock();
  }

  #reportUpkeep(): void {
    const { problem } = this.#upkeepState() ?? {};
    if (problem === undefined) this.#upkeep.recovered();
    else this.#upkeep.failed(`${this.#options.target.name} cannot delete old days or prepare the next: ${problem}`);
  }

  #fail(message: string): void {
    this.#counts.failures += 1;
    this.#failingSince ??= this.#options.clock();
    this.#outages.failed(message);
  }

  #pauseMs(failures: number, retryAfterMs = 0): number {
    const { random, backoffMs = BACKOFF_MS } = this.#options;
    return Math.max(retryAfterMs, retryDelayMs({ firstMs: backoffMs, maxMs: BACKOFF_MS_MAX }, failures, random()));
  }

  async #wait(ms: number): Promise<void> {
    if (this.#isEnding) this.#stopping.abort();
    if (this.#stopping.signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    const timer = setTimeout(resolve, ms);
    await promise;
    clearTimeout(timer);
  }
}

/**
 * Maximum bytes of one exporter's dead letters. A full file stops the exporter: lines that are neither accepted nor
 * kept would be lost.
 */
export const DEAD_LETTERS_BYTES_MAX = 67_108_864;
const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_WRONLY } = fs.constants;

interface DeadLetters {
  readonly exporter: string;
  readonly reason: string;
  readonly lines: readonly ExportLine[];
}

/**
 * Durably stores lines that the receiver refused for good in `export/<name>.dead.jsonl`. The audit log itself still
 * contains them.
 *
 * @throws when the file is full or cannot be written
 */
function keepDeadLetters(dir: string, { exporter, reason, lines }: DeadLetters): void {
  const folder = join(dir, EXPORT_DIR);
  makeDirectory(folder);
  const path = deadLettersOf(dir, exporter);
  const text = lines
    .map(
      ({ stream, log, day, offset, line }) =>
        `${JSON.stringify({ exporter, reason, stream, log, day, offset, line })}\n`,
    )
    .join("");
  const fd = fs.openSync(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600);
  try {
    const facts = fs.fstatSync(fd);
    if (!facts.isFile()) throw new Error(`${path} is not a regular file: move it away`);
    let rest: Uint8Array = Buffer.from(text);
    if (facts.size + rest.length > DEAD_LETTERS_BYTES_MAX) {
      throw new Error(`${path} is full: fix the cause of the refusals, then move the file away`);
    }
    while (rest.length > 0) rest = rest.subarray(fs.writeSync(fd, rest));
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

interface ExportersOptions extends CommonOptions {
  readonly targets: readonly ExporterTarget[];
  /** Returns until when a stream of the log is complete on disk. */
  readonly settled?: ((stream: StreamName) => SettledLog | undefined) | undefined;
  /** When `undefined`, nothing is ever deleted. */
  readonly retentionDays: number | undefined;
  /** Writes a journal line; durable when resolved. */
  readonly journal: (line: { readonly type: "audit.pruned"; readonly [member: string]: Json }) => Promise<void>;
  readonly pruneEveryMs?: number;
}

export type Exporters = ReturnType<typeof startExporters>;

const PRUNE_EVERY_MS = 3_600_000;
/** Limit for closing a receiver's connections. */
const CLOSE_MS = 1_000;

/** Starts the exporters and the periodic deletion of old files. */
export function startExporters(options: ExportersOptions) {
  const { dir, targets, clock, random, report, settled, pruneEveryMs = PRUNE_EVERY_MS } = options;
  const exporters = targets.flatMap((target) =>
    EXPORT_STREAMS.map((stream) => {
      const own = stream === "checkpoints" ? undefined : () => settled?.(stream);
      return new Exporter({ dir, stream, target, clock, random, report, settled: own });
    }),
  );
  let pruning: Promise<void> | undefined;
  const stopping = new AbortController();
  const startPruning = (): void => {
    pruning ??= prune(options, stopping.signal)
      .catch((error: unknown) => {
        if (!stopping.signal.aborted) report(`old audit files stay: ${String(error)}`);
      })
      .finally(() => {
        pruning = undefined;
      });
  };
  const timer = setInterval(startPruning, pruneEveryMs);
  timer.unref();
  startPruning();
  const stopPruning = async (): Promise<void> => {
    clearInterval(timer);
    stopping.abort();
    await pruning;
  };
  return {
    states: (): readonly ExportState[] => exporters.map((exporter) => exporter.state()),
    /** Ends the deletion of old files, which writes to the journal. */
    stopPruning,
    /** Sends what is on disk, for at most this time, and stops. Never rejects. */
    async stop(withinMs = 0): Promise<void> {
      await Promise.all([stopPruning(), ...exporters.map((exporter) => exporter.stop(withinMs))]);
      await endedWithin(Promise.allSettled(targets.map(({ receiver }) => receiver.close?.())), CLOSE_MS);
    },
  };
}

/** Deletes old files. Each deletion is in the journal before it happens. */
async function prune(
  { dir, targets, retentionDays, clock, journal, report }: ExportersOptions,
  signal: AbortSignal,
): Promise<void> {
  if (retentionDays === undefined) return;
  const nowMs = clock();
  const options = { dir, nowMs, keepMs: retentionDays * DAY_MS, exporters: targets.map(({ name }) => name), signal };
  const aged = await pruneFiles(agedFiles(options), options, ({ stream, day, bytes }) =>
    journal({ type: "audit.pruned", stream, day, bytes }),
  );
  for (const { path, keptBecause } of aged) {
    if (keptBecause?.endsWith(SEE_VERIFY) === true) report(`${path} stays: ${keptBecause}`);
  }
}
