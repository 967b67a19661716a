import { createPublicKey, type KeyObject } from "node:crypto";
import { join } from "node:path";
import { AuditLogError } from "../audit-log-error.ts";
import { readIntentSeq, type StreamName } from "../chain/chain.ts";
import type { ChainWalk } from "../chain/chain-walk.ts";
import { type Checkpoint, readCheckpoint } from "../chain/checkpoint.ts";
import { cutTornNotes, readLastNotes } from "../chain/checkpoint-files.ts";
import { verifyNote } from "../chain/signed-note.ts";
import type { StreamPosition } from "../query/day-stream.ts";
import { type Damage, explainHalt, misnamedFile } from "../verify/damage.ts";
import { endsChained, type Halt, startOf, walkFiles } from "../verify/file-walk.ts";
import { type DayFile, dayFilesOf, type LineVisit } from "./line-files.ts";
import { type Intent, intentOf } from "./open-intents.ts";
import { walkFromBegin } from "./pruned-start.ts";
import { readPlace, type SavedPosition, type SavedStream } from "./saved-position.ts";
import { cutTornTail, listDayFiles, readLastLine, type TornTail } from "./torn-tail.ts";

/**
 * Bytes that are read again at every start although they were read before: the most recent bytes are the most likely to
 * be damaged.
 */
const CHECK_BYTES = 16 * 1024 * 1024;
const REMEDY = "restore the directory from a copy, or move it away as a whole and start with an empty one";

/** The positions at which the log continues. */
interface Recovered {
  readonly places: Readonly<Record<StreamName, StreamPosition>>;
  /** The last checkpoint of each stream. */
  readonly notes: Readonly<Record<StreamName, string | undefined>>;
  /** Calls that started and have no entry: their outcome is unknown. */
  readonly intents: readonly Intent[];
}

/**
 * Finds the ends of both chains. Reads the lines after the last saved position, and at least the last 16 MiB of each
 * stream.
 *
 * @throws AuditLogError that names file, line and remedy when a complete line does not fit into the chain: the service
 * does not write to such a log.
 */
export function recover(dir: string, key: KeyObject | undefined): Recovered {
  cutTornNotes(dir);
  const found = readLastNotes(dir).flatMap(({ checkpoint }) => (checkpoint === undefined ? [] : [checkpoint]));
  const saved = credible(readPlace(dir), { key, hasNotes: found.length > 0 });
  const finder = collectIntents(saved?.intents ?? []);
  const journal = recoverStream({ dir, stream: "journal", saved: saved?.streams.journal, found, finder });
  const calls = recoverStream({ dir, stream: "calls", saved: saved?.streams.calls, found, finder });
  return {
    places: { calls: calls.place, journal: journal.place },
    notes: { calls: calls.note, journal: journal.note },
    intents: finder.open(),
  };
}

interface Trust {
  readonly key: KeyObject | undefined;
  readonly hasNotes: boolean;
}

/**
 * Returns the saved position when it can be trusted; otherwise everything is read. With a key, the last checkpoint
 * signed by this service must confirm the position.
 */
function credible(saved: SavedPosition | undefined, { key, hasNotes }: Trust): SavedPosition | undefined {
  if (saved === undefined || key === undefined) {
    return saved;
  }
  const publicKey = createPublicKey(key);
  const streams = Object.values(saved.streams);
  return streams.every((stream) => isCovered(stream, publicKey, hasNotes)) ? saved : undefined;
}

function isCovered({ head, note }: SavedStream, publicKey: KeyObject, hasNotes: boolean): boolean {
  if (note === undefined) {
    return head.seq === 0 || !hasNotes;
  }
  const checkpoint = readCheckpoint(note);
  if (checkpoint === undefined || checkpoint.size !== head.seq || !checkpoint.root.equals(head.tree.root())) {
    return false;
  }
  // A different key is a former key: only holders of its public half can verify its checkpoints.
  return verifyNote(checkpoint, checkpoint.origin, [publicKey]) !== "bad signature";
}

interface StreamQuery {
  readonly dir: string;
  readonly stream: StreamName;
  readonly saved: SavedStream | undefined;
  readonly found: readonly Checkpoint[];
  readonly finder: IntentFinder;
}

interface RecoveredStream {
  readonly place: StreamPosition;
  readonly note: string | undefined;
}

function recoverStream(query: StreamQuery): RecoveredStream {
  const { dir, stream, saved, found } = query;
  const files = dayFilesOf(dir, stream);
  const claimed = Math.max(saved?.head.seq ?? 0, lastNote(stream, found)?.size ?? 0);
  if (!endsChained(files) && claimed > 0) {
    throw lost(join(dir, files.at(-1)?.file ?? stream), claimed, 0);
  }
  const start = startOf(files, {
    fromBegin: () => walkFromBegin(dir, stream, files),
    saved,
    bytesMin: CHECK_BYTES,
  });
  const { walk } = start;
  const roots = new Map(found.filter((note) => note.stream === stream).map(({ size, root }) => [size, root]));
  const misnamed = misnamedFile(files);
  if (misnamed !== undefined) {
    throw refusalOf(dir, misnamed);
  }
  const { halt } = walkFiles(files, { ...start, checksDays: true }, follow(query, { walk, roots }));
  if (halt !== undefined) {
    throw refusal(dir, { files, walk, halt });
  }
  return finished(query, { walk, files, claimed });
}

interface Following {
  readonly walk: ChainWalk;
  readonly roots: ReadonlyMap<number, Buffer>;
}

function follow({ stream, saved, finder }: StreamQuery, { walk, roots }: Following): LineVisit {
  const savedSeq = saved?.head.seq ?? 0;
  return (bytes, from, to) => {
    const linesBefore = walk.lines;
    if (!walk.take(bytes, from, to)) {
      return false;
    }
    const seq = (walk.expected?.seq ?? 0) - 1;
    if (walk.lines > linesBefore && seq >= savedSeq) {
      finder.look(stream, { seq, bytes, from, to });
    }
    return joinSaved(walk, saved) && isRoot(walk, roots);
  };
}

interface Halted {
  readonly files: readonly DayFile[];
  readonly walk: ChainWalk;
  readonly halt: Halt;
}

function refusal(dir: string, { files, walk, halt }: Halted): AuditLogError {
  return refusalOf(dir, explainHalt(files, { halt, walk, sizesByDay: new Map() }));
}

function refusalOf(dir: string, { file, line, kind, message }: Damage): AuditLogError {
  return new AuditLogError(
    `${join(dir, file)}, line ${line}: ${kind}: ${message}: ${REMEDY} (stc audit verify reads all of it)`,
  );
}

interface Finished {
  readonly walk: ChainWalk;
  readonly files: readonly DayFile[];
  readonly claimed: number;
}

function finished({ dir, stream, saved, found }: StreamQuery, { walk, files, claimed }: Finished): RecoveredStream {
  // Ignores empty files, whatever day their names contain.
  const newest = files.findLast(({ size }) => size > 0);
  const head = walk.head();
  const lines = head?.seq ?? 0;
  const path = join(dir, newest?.file ?? stream);
  if (lines < claimed) {
    throw lost(path, claimed, lines);
  }
  if (head === undefined) {
    throw new AuditLogError(`${path}: the chain does not pass through the place that was saved: ${REMEDY}`);
  }
  const note = lastNote(stream, found);
  const isNewer = note !== undefined && note.size >= (saved?.head.seq ?? 0);
  const text = isNewer ? `${note.text}\n${note.signatures}\n` : saved?.note;
  return { place: { head, day: newest?.day, size: newest?.size ?? 0 }, note: text };
}

/**
 * Starts growing the tree at the saved position. Returns `false` when the lines before it are not the ones that were
 * saved.
 */
function joinSaved(walk: ChainWalk, saved: SavedStream | undefined): boolean {
  const { seq, prev } = walk.expected ?? {};
  if (saved === undefined || seq !== saved.head.seq || walk.lines === 0) {
    return true;
  }
  walk.tree ??= saved.head.tree.copy();
  walk.logId ??= saved.head.logId;
  return prev === saved.head.prev;
}

/** Returns false when a checkpoint exists for this number of lines and its root differs from the tree's. */
function isRoot(walk: ChainWalk, roots: ReadonlyMap<number, Buffer>): boolean {
  const root = roots.get(walk.expected?.seq ?? 0);
  return root === undefined || walk.tree === undefined || walk.lines === 0 || walk.tree.root().equals(root);
}

function lastNote(stream: StreamName, found: readonly Checkpoint[]): Checkpoint | undefined {
  return found.findLast((note) => note.stream === stream);
}

function lost(path: string, claimed: number, lines: number): AuditLogError {
  return new AuditLogError(`${path}: the log held ${claimed} lines and ends after ${lines}, it was cut off: ${REMEDY}`);
}

const MARK = '"type":"intent"';

interface Seen {
  readonly seq: number;
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
}

/** Collects intents from the journal lines and removes those whose calls have an entry. */
interface IntentFinder {
  look(stream: StreamName, line: Seen): void;
  open(): readonly Intent[];
}

function collectIntents(known: readonly Intent[]): IntentFinder {
  const open = new Map(known.map((intent) => [intent.seq, intent]));
  return {
    look(stream, { seq, bytes, from, to }) {
      if (stream === "calls") {
        const intentSeq = readIntentSeq(bytes, from, to);
        if (intentSeq !== undefined) {
          open.delete(intentSeq);
        }
        return;
      }
      const text = bytes.toString("utf8", from, to);
      const intent = text.includes(MARK) ? parse(seq, text) : undefined;
      if (intent !== undefined) {
        open.set(seq, intent);
      }
    },
    open: () => [...open.values()],
  };
}

function parse(seq: number, text: string): Intent | undefined {
  try {
    return intentOf(seq, JSON.parse(text));
  } catch {
    return undefined;
  }
}

/**
 * How far the clock may be behind the log, in milliseconds. For that time, timestamps repeat the last one; a larger
 * difference means that the clock is wrong.
 */
const CLOCK_BEHIND_MS_MAX = 24 * 60 * 60 * 1_000;

interface Resumed {
  /** Timestamp of the newest line in any stream, in milliseconds since 1970; 0 when there is none. */
  readonly lastMs: number;
  readonly tornTails: readonly TornTail[];
}

/**
 * Prepares the files of a former run for appending, before anything is written. `folders` are the folders of the
 * streams in `dir`.
 *
 * @throws AuditLogError when the end of the log cannot be read or is too far ahead of `now`.
 */
export function resume(dir: string, folders: readonly string[], now: number): Resumed {
  const tornTails: TornTail[] = [];
  let lastMs = 0;
  for (const folder of folders) {
    const names = listDayFiles(join(dir, folder));
    for (const name of names) {
      const tail = cutTornTail(dir, join(folder, name));
      if (tail !== undefined) {
        tornTails.push(tail);
      }
    }
    lastMs = Math.max(lastMs, newestMs(join(dir, folder), names));
  }
  if (lastMs - now > CLOCK_BEHIND_MS_MAX) {
    const [last, clock] = [new Date(lastMs).toISOString(), new Date(now).toISOString()];
    throw new AuditLogError(
      `${dir} holds a line of ${last}, but the clock says ${clock}: set the clock, or move the directory away as a whole`,
    );
  }
  return { lastMs, tornTails };
}

/**
 * Returns the timestamp of the newest line, or 0. Skips empty files: a crash between creating a file and writing its
 * first line leaves one.
 */
function newestMs(dir: string, names: readonly string[]): number {
  for (const name of names.toReversed()) {
    const line = readLastLine(join(dir, name));
    if (line !== undefined) {
      return timestampOf(line, join(dir, name));
    }
  }
  return 0;
}

function timestampOf(line: string, path: string): number {
  const ms = Date.parse(stampIn(line) ?? "");
  if (Number.isNaN(ms)) {
    throw new AuditLogError(
      `the last line of ${path} is not a line of this log: find out who wrote it, then move the file away`,
    );
  }
  return ms;
}

function stampIn(line: string): string | undefined {
  try {
    const parsed: unknown = JSON.parse(line);
    const hasStamp = typeof parsed === "object" && parsed !== null && "timestamp" in parsed;
    return hasStamp && typeof parsed.timestamp === "string" ? parsed.timestamp : undefined;
  } catch {
    return undefined;
  }
}
