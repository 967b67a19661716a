import fs from "node:fs";
import { join } from "node:path";
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
  readonly mayBeCrash: boolean;
}

/** All notes of a log, oldest first. */
export function readNotes(dir: string): { readonly notes: readonly FoundNote[]; readonly torn: readonly TornNotes[] } {
  const notes: FoundNote[] = [];
  const torn: TornNotes[] = [];
  const names = listNotes(dir);
  for (const [index, name] of names.entries()) {
    const file = join(CHECKPOINT_DIR, name);
    const bytes = readFile(join(dir, file));
    const found = splitNotes(bytes.toString("utf8"));
    if ((found.at(-1)?.end ?? 0) !== bytes.length) {
      torn.push({ file, mayBeCrash: index >= names.length - UNFINISHED_FILES_MAX });
    }
    notes.push(...found.map((note) => located(note, name)));
  }
  return { notes, torn };
}

/** The last notes of the newest file. */
export function readLastNotes(dir: string): readonly FoundNote[] {
  const name = listNotes(dir).at(-1);
  if (name === undefined) {
    return [];
  }
  const path = join(dir, CHECKPOINT_DIR, name);
  const fd = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK);
  try {
    const { size } = fs.fstatSync(fd);
    const tail = Buffer.alloc(Math.min(size, TAIL_BYTES));
    fs.readSync(fd, tail, 0, tail.length, size - tail.length);
    // A note's own texts hold no empty line but the one in its middle, behind which a signature begins.
    const text = tail.toString("utf8");
    const begin = tail.length === size ? 0 : text.indexOf("\n\nsafe-tool-call/") + 2;
    return splitNotes(text.slice(begin)).map((note) => located(note, name));
  } finally {
    fs.closeSync(fd);
  }
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

function readFile(path: string): Buffer {
  const fd = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK);
  try {
    if (fs.fstatSync(fd).size > FILE_BYTES_MAX) {
      throw new Error(`${path} has more than ${FILE_BYTES_MAX} bytes`);
    }
    return fs.readFileSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}
