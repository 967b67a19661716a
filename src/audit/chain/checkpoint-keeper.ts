import { createPublicKey, type KeyObject } from "node:crypto";
import { join } from "node:path";
import { errorText } from "../../core/error-text.ts";
import type { StreamPosition } from "../journal/day-stream.ts";
import type { FileOperations } from "../journal/file-operations.ts";
import type { Intent } from "../journal/journal.ts";
import { savedPositionPath, serializePosition } from "../journal/saved-position.ts";
import { type ChainHead, STREAMS, type StreamName } from "./chain.ts";
import { CHECKPOINT_DIR, readCheckpoint, signCheckpoint } from "./checkpoint.ts";
import { verifyNote } from "./signed-note.ts";

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
    const { notes, key } = options;
    this.#signed = { calls: signedSize(notes.calls, key), journal: signedSize(notes.journal, key) };
  }

  /** Signs at once what a former run has left unsigned, or signed with another key. */
  start(): void {
    const now = this.#options.positions();
    if (this.#options.key !== undefined && STREAMS.some((stream) => now[stream].head.seq > this.#signed[stream])) {
      this.#tickAfter(0);
    }
  }

  /** Why the last checkpoint is not on disk; `undefined` when it is. */
  get failure(): string | undefined {
    return this.#failure;
  }

  touch(): void {
    this.#isBehind = true;
    if (this.#timer === undefined && !this.#isClosed) this.#tickAfter(this.#options.intervalMs);
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

  #tickAfter(delayMs: number): void {
    this.#timer = setTimeout(() => this.#tick(), delayMs);
    this.#timer.unref();
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
      // An idle stream is signed in today's file, too: only the newest files may end with half a note.
      const today = STREAMS.map((stream) => now[stream].day ?? "")
        .sort()
        .at(-1);
      const due = [
        ...ended.map(({ stream, position: { head, day } }) => ({ stream, head, day })),
        ...STREAMS.map((stream) => ({ stream, head: now[stream].head, day: today })),
      ];
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

  /** Appends a note for each position that this key has not signed yet. */
  async #sign(due: readonly DueNote[]): Promise<void> {
    const { key } = this.#options;
    for (const { stream, head, day } of due) {
      if (key !== undefined && day && head.seq > this.#signed[stream]) {
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

interface DueNote {
  readonly stream: StreamName;
  readonly head: ChainHead;
  /** Day of the file that gets the note. */
  readonly day: string | undefined;
}

/** Returns the number of lines that this key has signed. */
function signedSize(note: string | undefined, key: KeyObject | undefined): number {
  const checkpoint = readCheckpoint(note ?? "");
  if (checkpoint === undefined || key === undefined) return 0;
  return verifyNote(checkpoint, checkpoint.origin, [createPublicKey(key)]) === "valid" ? checkpoint.size : 0;
}
