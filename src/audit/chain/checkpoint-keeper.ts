import type { KeyObject } from "node:crypto";
import { join } from "node:path";
import { errorText } from "../../core/error-text.ts";
import type { StreamPosition } from "../journal/day-stream.ts";
import type { FileOperations } from "../journal/file-operations.ts";
import type { Intent } from "../journal/journal.ts";
import { savedPositionPath, serializePosition } from "../journal/saved-position.ts";
import { STREAMS, type StreamName } from "./chain.ts";
import { CHECKPOINT_DIR, readCheckpoint, signCheckpoint } from "./checkpoint.ts";

/** Time from a line to the next checkpoint, in milliseconds. */
export const CHECKPOINT_INTERVAL_MS = 1_000;

type Positions = Readonly<Record<StreamName, StreamPosition>>;

interface CheckpointKeeperOptions {
  readonly dir: string;
  readonly files: FileOperations;
  /** Ed25519 private key. Without it nothing is signed, but the position is still saved. */
  readonly key: KeyObject | undefined;
  /** Time from a line to the next checkpoint, in milliseconds. */
  readonly intervalMs: number;
  readonly notes: Readonly<Record<StreamName, string | undefined>>;
  /**
   * Returns the acknowledged positions of both streams. `intents` returns the open intents among them. Both are read at
   * the same moment.
   */
  readonly positions: () => Positions;
  readonly intents: (journalLines: number) => readonly Intent[];
  /** Makes written lines durable when their acknowledgement did not wait for that. */
  readonly sync: () => Promise<void>;
}

/**
 * Signs durable lines: one second after a line, at the end of a day and at the end of the run. Also saves the position
 * for the next start. A checkpoint that cannot be written is retried; until then, `failure` reports it.
 */
export class CheckpointKeeper {
  readonly #options: CheckpointKeeperOptions;
  readonly #notes: Record<StreamName, string | undefined>;
  readonly #signed: Record<StreamName, number>;
  #ended: { readonly stream: StreamName; readonly position: StreamPosition }[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #running: Promise<void> | undefined;
  #failure: string | undefined;
  #lastDay = "";
  #isClosed = false;
  /** True when lines were written since the start of the last checkpoint. */
  #isBehind = false;

  constructor(options: CheckpointKeeperOptions) {
    this.#options = options;
    this.#notes = { ...options.notes };
    this.#signed = { calls: sizeOf(options.notes.calls), journal: sizeOf(options.notes.journal) };
  }

  /** Why the last checkpoint is not on disk; `undefined` when it is. */
  get failure(): string | undefined {
    return this.#failure;
  }

  touch(): void {
    this.#isBehind = true;
    if (this.#timer === undefined && !this.#isClosed) {
      this.#timer = setTimeout(() => this.#tick(), this.#options.intervalMs);
      this.#timer.unref();
    }
  }

  dayEnded(stream: StreamName, position: StreamPosition): void {
    this.#ended.push({ stream, position });
    this.touch();
  }

  /**
   * Writes the last checkpoint when `isSound` is true, then stops. Does not throw: acknowledged lines are safe without
   * the checkpoint.
   */
  async close(isSound: boolean): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#running;
    if (isSound) await this.#keep();
  }

  #tick(): void {
    this.#running = this.#keep().finally(() => {
      this.#running = undefined;
      this.#timer = undefined;
      // Lines that were written in the meantime did not start a timer.
      if (this.#isBehind || this.#failure !== undefined) this.touch();
    });
  }

  async #keep(): Promise<void> {
    const { dir, files, positions, intents, sync } = this.#options;
    const ended = this.#ended;
    this.#isBehind = false;
    const now = positions();
    const open = intents(now.journal.head.seq);
    try {
      await sync();
      const due = [...ended, ...STREAMS.map((stream) => ({ stream, position: now[stream] }))];
      await this.#sign(due);
      this.#ended = this.#ended.filter((end) => !ended.includes(end));
      const { calls, journal } = this.#notes;
      const streams = { calls: { ...now.calls, note: calls }, journal: { ...now.journal, note: journal } };
      await files.replace(savedPositionPath(dir), serializePosition({ streams, intents: open }));
      this.#failure = undefined;
    } catch (error) {
      this.#failure = `no checkpoint can be written: ${errorText(error)}: free or repair the disk`;
    }
  }

  /** Appends a note for each position that is not covered yet, to the file of the day of its last line. */
  async #sign(due: readonly { readonly stream: StreamName; readonly position: StreamPosition }[]): Promise<void> {
    const { key } = this.#options;
    for (const { stream, position } of due) {
      const { head, day } = position;
      if (key !== undefined && day !== undefined && head.seq > this.#signed[stream]) {
        const note = signCheckpoint(stream, head, key);
        await this.#append(day, `${note}\n`);
        this.#notes[stream] = note;
        this.#signed[stream] = head.seq;
      }
    }
  }

  async #append(day: string, text: string): Promise<void> {
    const { dir, files } = this.#options;
    const folder = join(dir, CHECKPOINT_DIR);
    const fd = files.openAppend(join(folder, `${day}.txt`));
    try {
      const before = files.factsOf(fd).size;
      const bytes = Buffer.from(text);
      try {
        for (let written = 0; written < bytes.length; ) written += files.write(fd, bytes, written);
        await files.fdatasync(fd);
      } catch (error) {
        files.truncate(fd, before);
        throw error;
      }
    } finally {
      files.close(fd);
    }
    if (this.#lastDay !== day) {
      await files.syncDirectory(folder);
      this.#lastDay = day;
    }
  }
}

function sizeOf(note: string | undefined): number {
  return note === undefined ? 0 : (readCheckpoint(note)?.size ?? 0);
}
