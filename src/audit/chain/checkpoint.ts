import type { KeyObject } from "node:crypto";
import fs from "node:fs";
import { join } from "node:path";
import { SHA256_BYTES } from "../../core/digest.ts";
import { dayIn, readAt } from "../journal/day-files.ts";
import { READ_ONLY, withFile } from "../journal/file-operations.ts";
import { type ChainHead, STREAMS, type StreamName } from "./chain.ts";
import { type Note, signNote } from "./signed-note.ts";

/** Folder of the checkpoints in the audit directory, with one file per day. */
export const CHECKPOINT_DIR = "checkpoints";

const ORIGIN = "safe-tool-call/audit";
export const LOG_ID = /^[0-9a-f]{32}$/;
const SIZE = /^(0|[1-9][0-9]{0,15})$/;
const NOTES_FILE = /^\d{4}-\d{2}-\d{2}\.txt$/;
/** Bytes at the end of a file that a start reads first. */
const TAIL_BYTES = 65_536;
/** Number of newest files whose last note a crash may have cut: one stream may still be writing to yesterday's file. */
const UNFINISHED_FILES_MAX = 2;
/** Maximum size of a file: a day with two checkpoints a second takes less than half of it. */
const FILE_BYTES_MAX = 268_435_456;
const SIGNED = "— ";

/** A signed statement about one stream: its number of lines and their root (c2sp.org/tlog-checkpoint). */
export interface Checkpoint extends Note {
  readonly origin: string;
  readonly stream: StreamName;
  readonly logId: string;
  readonly size: number;
  readonly root: Buffer;
}

export function originOf(stream: StreamName, logId: string): string {
  return `${ORIGIN}/${stream}/${logId}`;
}

/** Returns which log has the origin; undefined for another text. */
export function readOrigin(origin: string): Pick<Checkpoint, "stream" | "logId"> | undefined {
  const stream = STREAMS.find((name) => origin.startsWith(originOf(name, "")));
  const logId = origin.slice(originOf(stream ?? "calls", "").length);
  return stream === undefined || !LOG_ID.test(logId) ? undefined : { stream, logId };
}

export function signCheckpoint(stream: StreamName, { logId, seq, tree }: ChainHead, key: KeyObject): string {
  const origin = originOf(stream, logId ?? "");
  return signNote(`${origin}\n${seq}\n${tree.root().toString("base64")}\n`, origin, key);
}

/**
 * Reads one note, as stored in a checkpoint file or alone. Returns `undefined` when it is not a checkpoint of a stream.
 */
export function readCheckpoint(note: string): Checkpoint | undefined {
  const [body = "", signatures = "", ...rest] = note.split("\n\n");
  const [origin = "", size = "", encoded = "", ...extensions] = body.split("\n");
  const log = readOrigin(origin);
  const root = Buffer.from(encoded, "base64");
  if (
    log === undefined ||
    rest.some((part) => part !== "") ||
    !SIZE.test(size) ||
    !Number.isSafeInteger(Number(size)) ||
    root.length !== SHA256_BYTES ||
    root.toString("base64") !== encoded ||
    extensions.includes("")
  ) {
    return undefined;
  }
  const text = `${body}\n`;
  return { text, signatures: signatures.replace(/\n$/, ""), origin, ...log, size: Number(size), root };
}

/**
 * A note and its location. `checkpoint` is `undefined` when the note is not one of this service's checkpoints.
 */
export interface FoundNote {
  readonly file: string;
  readonly day: string;
  /** Line number of the note's start, from 1. */
  readonly line: number;
  readonly note: string;
  readonly checkpoint: Checkpoint | undefined;
}

/**
 * A file that does not end with a complete note. A crash can do this to one of the newest files only, and the next
 * start fixes it.
 */
export interface TornNotes {
  readonly file: string;
  /** Line number of its last complete note. */
  readonly line: number;
  readonly mayBeCrash: boolean;
}

/** Returns the names of the files of notes, the oldest day first. */
export function listNotes(dir: string): readonly string[] {
  const folder = join(dir, CHECKPOINT_DIR);
  const names = fs.existsSync(folder) ? fs.readdirSync(folder) : [];
  return names.filter((name) => NOTES_FILE.test(name)).sort();
}

/**
 * Yields the complete notes in the text of a file, each of which ends with an empty line. Returns the line number of
 * the last note, and the number of bytes up to its end.
 */
export function* splitNotes(
  text: string,
  name: string,
): Generator<FoundNote, { readonly line: number; readonly bytes: number }> {
  let [at, next, bytes, line] = [0, 1, 0, 1];
  for (;;) {
    const middle = text.indexOf("\n\n", at);
    const end = middle === -1 ? -1 : text.indexOf("\n\n", middle + 2);
    if (end === -1) return { line, bytes };
    const note = text.slice(at, end + 1);
    line = next;
    bytes += Buffer.byteLength(note) + 1;
    yield { file: join(CHECKPOINT_DIR, name), day: dayIn(name), line, note, checkpoint: readCheckpoint(note) };
    next += note.split("\n").length;
    at = end + 2;
  }
}

/**
 * Yields all notes from day `from` on, oldest first, with only one file's notes in memory at a time. Returns the torn
 * files.
 */
export function* eachNote(dir: string, from = ""): Generator<FoundNote, readonly TornNotes[]> {
  const torn: TornNotes[] = [];
  const names = listNotes(dir);
  for (const [index, name] of names.entries()) {
    if (dayIn(name) < from) continue;
    const read = readNotes(join(dir, CHECKPOINT_DIR, name));
    const { line, bytes } = yield* splitNotes(read.toString("utf8"), name);
    const mayBeCrash = index >= names.length - UNFINISHED_FILES_MAX;
    if (bytes !== read.length) torn.push({ file: join(CHECKPOINT_DIR, name), line, mayBeCrash });
  }
  return torn;
}

/** Returns the last notes of a log, oldest first. They include the newest note of each stream that has one. */
export function readLastNotes(dir: string): readonly FoundNote[] {
  let notes: readonly FoundNote[] = [];
  for (const name of listNotes(dir).toReversed()) {
    const tail = lastNotes(dir, name, TAIL_BYTES);
    // The last note of an idle stream may be far before the last notes of the other stream.
    notes = [...(hasEach([...tail, ...notes]) ? tail : lastNotes(dir, name, FILE_BYTES_MAX)), ...notes];
    if (hasEach(notes)) break;
  }
  return notes;
}

function hasEach(notes: readonly FoundNote[]): boolean {
  return STREAMS.every((stream) => notes.some(({ checkpoint }) => checkpoint?.stream === stream));
}

function lastNotes(dir: string, name: string, bytesMax: number): readonly FoundNote[] {
  const bytes = readNotes(join(dir, CHECKPOINT_DIR, name), bytesMax);
  // A note contains only one empty line: the one in its middle, before the signatures.
  const text = bytes.toString("utf8");
  return [...splitNotes(bytes.length < bytesMax ? text : text.slice(text.indexOf("\n\nsafe-tool-call/") + 2), name)];
}

/** Reads the last `bytesMax` bytes of a file. Without `bytesMax` it reads the whole file, up to `FILE_BYTES_MAX`. */
function readNotes(path: string, bytesMax?: number): Buffer {
  return withFile(path, READ_ONLY, (fd, { size }) => {
    if (bytesMax === undefined && size > FILE_BYTES_MAX) {
      throw new Error(`${path} has more than ${FILE_BYTES_MAX} bytes`);
    }
    const length = Math.min(size, bytesMax ?? size);
    return readAt(fd, size - length, Buffer.alloc(length));
  });
}

/** Cuts incomplete notes off the newest files: a crash interrupted the writing. */
export function cutTornNotes(dir: string): void {
  for (const name of listNotes(dir).slice(-UNFINISHED_FILES_MAX)) {
    const path = join(dir, CHECKPOINT_DIR, name);
    const bytes = readNotes(path);
    const end = endOfNotes(bytes);
    if (end < bytes.length) fs.truncateSync(path, end);
  }
}

/** Returns the end of the last complete note. */
export function endOfNotes(bytes: Buffer): number {
  const end = bytes.lastIndexOf("\n\n") + 2;
  const before = bytes.subarray(0, Math.max(0, end - 2));
  const lastLine = before.subarray(before.lastIndexOf("\n") + 1).toString("utf8");
  // The last empty line may be the one between a note's text and its signatures.
  const isMiddle =
    bytes.subarray(end).toString("utf8").startsWith(SIGNED) || (end >= 2 && !lastLine.startsWith(SIGNED));
  const whole = isMiddle ? before.lastIndexOf("\n\n") + 2 : end;
  return whole < 2 ? 0 : whole;
}

export interface SignedSize extends Omit<FoundNote, "checkpoint"> {
  readonly checkpoint: Checkpoint;
}

/**
 * Returns the notes of one stream as its lines pass. Notes and lines are both ordered by size, so only one note is
 * examined at a time.
 */
export class NoteCursor {
  readonly #stream: StreamName;
  readonly #notes: Iterator<FoundNote>;
  #next: SignedSize | undefined;
  #size = -1;

  /** Starts with the files of day `from`. */
  constructor(dir: string, stream: StreamName, from?: string) {
    this.#stream = stream;
    this.#notes = eachNote(dir, from);
  }

  /** Returns the next note that covers exactly this number of lines; `undefined` when there is no further one. */
  at(size: number): SignedSize | undefined {
    while (this.#size < size) this.#step();
    const found = this.#size === size ? this.#next : undefined;
    if (found !== undefined) this.#step();
    return found;
  }

  #step(): void {
    for (;;) {
      const step = this.#notes.next();
      if (step.done === true) {
        this.#next = undefined;
        this.#size = Number.POSITIVE_INFINITY;
        return;
      }
      const { checkpoint, ...position } = step.value;
      if (checkpoint?.stream === this.#stream) {
        this.#next = { ...position, checkpoint };
        this.#size = checkpoint.size;
        return;
      }
    }
  }
}
