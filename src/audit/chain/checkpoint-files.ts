import fs from "node:fs";
import { join } from "node:path";
import { STREAMS } from "./chain.ts";
import { CHECKPOINT_DIR, type Checkpoint, type FiledNote, readCheckpoint, splitNotes } from "./checkpoint.ts";

const NOTES_FILE = /^\d{4}-\d{2}-\d{2}\.txt$/;
/** Of the newest file, what a start looks at. */
const TAIL_BYTES = 65_536;
/** Files whose last note a crash may have cut: one stream may still be in yesterday. */
const UNFINISHED_FILES_MAX = 2;
/** A day of two checkpoints a second has not half of it. */
const FILE_BYTES_MAX = 268_435_456;

/** A note, and where it was found. `checkpoint` is missing when the note is none of ours. */
export interface FoundNote extends FiledNote {
  readonly file: string;
  readonly day: string;
  readonly checkpoint: Checkpoint | undefined;
}

/** Names of the files of checkpoints, oldest first. */
function listNotes(dir: string): readonly string[] {
  const folder = join(dir, CHECKPOINT_DIR);
  const names = fs.existsSync(folder) ? fs.readdirSync(folder) : [];
  return names.filter((name) => NOTES_FILE.test(name)).sort();
}

/** A file that does not end with a whole note. A crash cuts one of the newest, and the next start mends it. */
export interface TornNotes {
  readonly file: string;
  /** Of its last whole note. */
  readonly line: number;
  readonly mayBeCrash: boolean;
}

/** All notes from those of a day on, oldest first, of which one file's are held at a time; at the end, the files that are torn. */
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

/** The last notes of a log, oldest first: the newest one of each stream that has one is among them. */
export function readLastNotes(dir: string): readonly FoundNote[] {
  let notes: readonly FoundNote[] = [];
  for (const name of listNotes(dir).toReversed()) {
    const tail = readNotes(dir, name, TAIL_BYTES);
    // A stream that rests may have its last note far before the others' last ones.
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

/** The whole notes in the last bytes of a file. */
function readNotes(dir: string, name: string, bytesMax: number): readonly FoundNote[] {
  const bytes = readFile(join(dir, CHECKPOINT_DIR, name), bytesMax);
  // A note's own texts hold no empty line but the one in its middle, behind which a signature begins.
  const text = bytes.toString("utf8");
  const begin = bytes.length < bytesMax ? 0 : text.indexOf("\n\nsafe-tool-call/") + 2;
  return Array.from(splitNotes(text.slice(begin)), (note) => located(note, name));
}

/** Takes what stands after the last whole note off the newest files: a crash cut its writing short. */
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

/** Whether the last empty line is the one between a note's text and its signatures. */
function endsInMiddle(bytes: Buffer, end: number): boolean {
  const before = bytes.subarray(0, Math.max(0, end - 2));
  const lastLine = before.subarray(before.lastIndexOf("\n") + 1).toString("utf8");
  return end >= 2 && !lastLine.startsWith("— ");
}

function located(note: FiledNote, name: string): FoundNote {
  const day = name.slice(0, "YYYY-MM-DD".length);
  return { ...note, file: join(CHECKPOINT_DIR, name), day, checkpoint: readCheckpoint(note.note) };
}

/** The last `bytesMax` bytes of a file; all of them by default, and then no more than a bound. */
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
