import fs from "node:fs";
import { join } from "node:path";
import { STREAMS } from "./chain.ts";
import { CHECKPOINT_DIR, type Checkpoint, type FiledNote, readCheckpoint, splitNotes } from "./checkpoint.ts";

const NOTES_FILE = /^\d{4}-\d{2}-\d{2}\.txt$/;
/** Bytes at the end of a file that a start reads first. */
const TAIL_BYTES = 65_536;
/** Number of newest files whose last note a crash may have cut: one stream may still be writing to yesterday's file. */
const UNFINISHED_FILES_MAX = 2;
/** Maximum size of a file: a day with two checkpoints a second takes less than half of it. */
const FILE_BYTES_MAX = 268_435_456;

/** A note and its location. `checkpoint` is `undefined` when the note is not one of this service's checkpoints. */
export interface FoundNote extends FiledNote {
  readonly file: string;
  readonly day: string;
  readonly checkpoint: Checkpoint | undefined;
}

/** Returns the names of the checkpoint files, oldest first. */
function listNotes(dir: string): readonly string[] {
  const folder = join(dir, CHECKPOINT_DIR);
  const names = fs.existsSync(folder) ? fs.readdirSync(folder) : [];
  return names.filter((name) => NOTES_FILE.test(name)).sort();
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

/**
 * Yields all notes from day `from` on, oldest first, with only one file's notes in memory at a time. Returns the torn
 * files.
 */
export function* eachNote(dir: string, from = ""): Generator<FoundNote, readonly TornNotes[]> {
  const torn: TornNotes[] = [];
  const names = listNotes(dir);
  for (const [index, name] of names.entries()) {
    if (name.slice(0, "YYYY-MM-DD".length) < from) {
      continue;
    }
    const file = join(CHECKPOINT_DIR, name);
    const bytes = readFile(join(dir, file));
    let [end, line] = [0, 1];
    for (const note of splitNotes(bytes.toString("utf8"))) {
      ({ end, line } = note);
      yield located(note, name);
    }
    if (end !== bytes.length) {
      torn.push({ file, line, mayBeCrash: index >= names.length - UNFINISHED_FILES_MAX });
    }
  }
  return torn;
}

/** Returns the last notes of a log, oldest first. They include the newest note of each stream that has one. */
export function readLastNotes(dir: string): readonly FoundNote[] {
  let notes: readonly FoundNote[] = [];
  for (const name of listNotes(dir).toReversed()) {
    const tail = readNotes(dir, name, TAIL_BYTES);
    // The last note of an idle stream may be far before the last notes of the other stream.
    const found = hasEach([...tail, ...notes]) ? tail : readNotes(dir, name, FILE_BYTES_MAX);
    notes = [...found, ...notes];
    if (hasEach(notes)) {
      break;
    }
  }
  return notes;
}

function hasEach(notes: readonly FoundNote[]): boolean {
  return STREAMS.every((stream) => notes.some(({ checkpoint }) => checkpoint?.stream === stream));
}

/** Returns the complete notes in the last bytes of a file. */
function readNotes(dir: string, name: string, bytesMax: number): readonly FoundNote[] {
  const bytes = readFile(join(dir, CHECKPOINT_DIR, name), bytesMax);
  // A note contains only one empty line: the one in its middle, before the signatures.
  const text = bytes.toString("utf8");
  const begin = bytes.length < bytesMax ? 0 : text.indexOf("\n\nsafe-tool-call/") + 2;
  return Array.from(splitNotes(text.slice(begin)), (note) => located(note, name));
}

/** Cuts incomplete notes off the newest files: a crash interrupted the writing. */
export function cutTornNotes(dir: string): void {
  for (const name of listNotes(dir).slice(-UNFINISHED_FILES_MAX)) {
    cutTornNote(join(dir, CHECKPOINT_DIR, name));
  }
}

function cutTornNote(path: string): void {
  const bytes = readFile(path);
  const end = bytes.lastIndexOf("\n\n") + 2;
  const isMiddle = bytes.subarray(end).toString("utf8").startsWith("— ") || endsInMiddle(bytes, end);
  const whole = isMiddle ? bytes.subarray(0, end - 2).lastIndexOf("\n\n") + 2 : end;
  const to = whole < 2 ? 0 : whole;
  if (to < bytes.length) {
    fs.truncateSync(path, to);
  }
}

/** Returns true when the last empty line is the one between a note's text and its signatures. */
function endsInMiddle(bytes: Buffer, end: number): boolean {
  const before = bytes.subarray(0, Math.max(0, end - 2));
  const lastLine = before.subarray(before.lastIndexOf("\n") + 1).toString("utf8");
  return end >= 2 && !lastLine.startsWith("— ");
}

function located(note: FiledNote, name: string): FoundNote {
  const day = name.slice(0, "YYYY-MM-DD".length);
  return { ...note, file: join(CHECKPOINT_DIR, name), day, checkpoint: readCheckpoint(note.note) };
}

/** Reads the last `bytesMax` bytes of a file. Without `bytesMax` it reads the whole file, up to `FILE_BYTES_MAX`. */
function readFile(path: string, bytesMax?: number): Buffer {
  const fd = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK);
  try {
    const { size } = fs.fstatSync(fd);
    if (bytesMax === undefined && size > FILE_BYTES_MAX) {
      throw new Error(`${path} has more than ${FILE_BYTES_MAX} bytes`);
    }
    const bytes = Buffer.alloc(Math.min(size, bytesMax ?? size));
    return bytes.subarray(0, fs.readSync(fd, bytes, 0, bytes.length, size - bytes.length));
  } finally {
    fs.closeSync(fd);
  }
}
