import { createHash, createPublicKey, type KeyObject } from "node:crypto";
import fs from "node:fs";
import { join } from "node:path";
import { viewOf } from "../../core/audit-fields.ts";
import { ownerText } from "../../core/tenant-names.ts";
import { AuditLogError } from "../audit-log-error.ts";
import { readIntentSeq, readLink, STREAMS, type StreamName } from "../chain/chain.ts";
import { ChainWalk, walkFiles, walkFromStart } from "../chain/chain-walk.ts";
import { type Checkpoint, cutTornNotes, readCheckpoint, readLastNotes } from "../chain/checkpoint.ts";
import { verifyNote } from "../chain/signed-note.ts";
import { LINE_BYTES_MAX } from "../entry.ts";
import { escapeName } from "../escape.ts";
import { parseLine } from "../query/view.ts";
import { type Damage, explainHalt, misnamedFile } from "../verify/damage.ts";
import {
  type DayFile,
  dayFileNames,
  dayFilesOf,
  folderOf,
  lastLineEnd,
  readAt,
  readLastLine,
  visitLines,
} from "./day-files.ts";
import type { StreamPosition } from "./day-stream.ts";
import { makeDirectory, READ_ONLY, READ_WRITE, syncDirectory, withFile, withRegularFile } from "./file-operations.ts";
import { type Intent, intentOf } from "./journal.ts";
import { QUEUE_BYTES_MAX } from "./line-writer.ts";
import { readSavedPosition, type SavedPosition, type SavedStream } from "./saved-position.ts";

/**
 * Bytes that are read again at every start although they were read before: the most recent bytes are the most likely to
 * be damaged.
 */
const CHECK_BYTES = 16 * 1024 * 1024;
const REMEDY = "restore the directory from a copy, or move it away as a whole and start with an empty one";
/**
 * How far the clock may be behind the log, in milliseconds. For that time, timestamps repeat the last one; a larger
 * difference means that the clock is wrong.
 */
const CLOCK_BEHIND_MS_MAX = 24 * 60 * 60 * 1_000;

interface Recovered {
  /** Timestamp of the newest line in any stream, in milliseconds since 1970; 0 when there is none. */
  readonly lastMs: number;
  readonly tornTails: readonly TornTail[];
  readonly positions: Readonly<Record<StreamName, StreamPosition>>;
  readonly notes: Readonly<Record<StreamName, string | undefined>>;
  /** Calls that started and have no entry: their outcome is unknown. */
  readonly intents: readonly Intent[];
}

interface LogToRecover {
  readonly dir: string;
  /** The tenant whose log it must be: lines of another one would be shown to this tenant's operators. */
  readonly tenant: string | undefined;
  readonly key: KeyObject | undefined;
  /** Milliseconds since 1970. */
  readonly nowMs: number;
}

/**
 * Prepares the files of a former run for appending, before anything is written: cuts off incomplete lines and finds the
 * ends of both chains. Reads the lines after the last saved position, and at least the last 16 MiB of each stream.
 *
 * @throws AuditLogError that names file, line and remedy when a complete line does not fit into the chain, when the end
 * of the log cannot be read, belongs to another tenant, or is later than `nowMs` by too much. In each case, nothing is written to the log.
 */
export function recover({ dir, tenant, key, nowMs }: LogToRecover): Recovered {
  const [calls, journal] = [readTail(dir, "calls"), readTail(dir, "journal")];
  for (const { newest, ...tail } of [calls, journal]) {
    if (newest === undefined || tail.tenant === tenant) continue;
    const owner = ownerText(tail.tenant && escapeName(tail.tenant));
    throw new AuditLogError(
      `${newest.path} is a log of ${owner}, and this one must be of ${ownerText(tenant)}: move it back to where it was`,
    );
  }
  const lastMs = Math.max(calls.lastMs, journal.lastMs);
  if (lastMs - nowMs > CLOCK_BEHIND_MS_MAX) {
    const [last, clock] = [new Date(lastMs).toISOString(), new Date(nowMs).toISOString()];
    throw new AuditLogError(
      `${dir} holds a line of ${last}, but the clock says ${clock}: set the clock, or move the directory away as a whole`,
    );
  }
  cutTornNotes(dir);
  const notes = readLastNotes(dir).flatMap(({ checkpoint }) => checkpoint ?? []);
  const saved = credible(readSavedPosition(dir), key, notes.length > 0);
  const intents = new Map(saved?.intents.map((intent) => [intent.seq, intent]));
  const known = { dir, saved, notes, intents };
  const ends = { journal: recoverStream(journal, known), calls: recoverStream(calls, known) };
  return {
    lastMs,
    tornTails: [...calls.torn, ...journal.torn],
    positions: { calls: ends.calls.position, journal: ends.journal.position },
    notes: { calls: ends.calls.note, journal: ends.journal.note },
    intents: [...intents.values()],
  };
}

/** The end of a stream, without incomplete lines. */
interface Tail {
  readonly stream: StreamName;
  readonly files: readonly DayFile[];
  readonly torn: readonly TornTail[];
  /** The newest file that is not empty: a crash between creating a file and writing its first line leaves an empty one. */
  readonly newest: DayFile | undefined;
  /** Timestamp of the last line in milliseconds since 1970, or 0. */
  readonly lastMs: number;
  /** The tenant that the last line names. */
  readonly tenant: string | undefined;
  /** True when the last line has a link, so that there is a chain to continue. */
  readonly isChained: boolean;
}

function readTail(dir: string, stream: StreamName): Tail {
  const folder = folderOf(stream);
  const torn = dayFileNames(join(dir, folder)).flatMap((name) => cutTornTail(dir, join(folder, name)) ?? []);
  const files = dayFilesOf(dir, stream);
  const newest = files.findLast(({ size }) => size > 0);
  const line = newest === undefined ? "" : (readLastLine(newest.path) ?? "");
  const last = viewOf(parseLine(line) ?? {});
  if (newest !== undefined && last === undefined) {
    throw new AuditLogError(
      `the last line of ${newest.path} is not a line of this log: find out who wrote it, then move the file away`,
    );
  }
  const bytes = Buffer.from(line);
  const isChained = readLink(bytes, 0, bytes.length) !== undefined;
  return { stream, files, torn, newest, lastMs: last?.timeMs ?? 0, tenant: last?.tenant, isChained };
}

/** Bytes that were cut off the end of a file: an incomplete line that a crash left. */
interface TornTail {
  readonly file: string;
  readonly bytes: number;
  readonly sha256: string;
  readonly quarantine: string;
}

const QUARANTINE = ".quarantine";
/** Maximum number of torn tails of one day file in quarantine. */
const TAILS_MAX = 1_000;
/** A torn tail is part of one batch; the service never writes a longer one. */
const TAIL_BYTES_MAX = QUEUE_BYTES_MAX;
const CREATE = fs.constants.O_WRONLY | fs.constants.O_CREAT | fs.constants.O_EXCL | fs.constants.O_NOFOLLOW;

/**
 * Copies the bytes after the last line end to quarantine, durably, then cuts them off. They were never acknowledged,
 * and if they stayed, the next line would be appended to them. Returns `undefined` when the file ends with a complete
 * line.
 */
function cutTornTail(auditDir: string, file: string): TornTail | undefined {
  const path = join(auditDir, file);
  const { end, tail } = withRegularFile(path, READ_ONLY, (fd, { size }) => {
    const from = Math.max(0, size - TAIL_BYTES_MAX - LINE_BYTES_MAX);
    const lineEnd = lastLineEnd(fd, from, size) ?? (from === 0 ? 0 : undefined);
    if (lineEnd === undefined) {
      throw new AuditLogError(
        `${path} has no line end in its last ${TAIL_BYTES_MAX} bytes: it is not ours; move it away`,
      );
    }
    return { end: lineEnd, tail: readAt(fd, lineEnd, Buffer.alloc(size - lineEnd)) };
  });
  if (tail.length === 0) return undefined;
  const quarantine = keep(auditDir, file, tail);
  withRegularFile(path, READ_WRITE, (fd) => {
    fs.ftruncateSync(fd, end);
    fs.fsyncSync(fd);
  });
  return { file, bytes: tail.length, sha256: createHash("sha256").update(tail).digest("hex"), quarantine };
}

function keep(auditDir: string, file: string, tail: Buffer): string {
  const dir = join(auditDir, QUARANTINE);
  makeDirectory(dir);
  const name = freeName(dir, file.replaceAll("/", "-"));
  withFile(join(dir, name), CREATE, (fd) => {
    fs.writeFileSync(fd, tail);
    fs.fsyncSync(fd);
  });
  syncDirectory(dir);
  return join(QUARANTINE, name);
}

function freeName(dir: string, file: string): string {
  for (let count = 1; count <= TAILS_MAX; count += 1) {
    const name = `${file}.${count}`;
    if (fs.lstatSync(join(dir, name), { throwIfNoEntry: false }) === undefined) return name;
  }
  throw new AuditLogError(`${dir} holds ${TAILS_MAX} torn ends of ${file}: find out why, then move them away`);
}

/**
 * Returns the saved position when it can be trusted; otherwise everything is read. With a key, the last checkpoint
 * signed by this service must confirm the position.
 */
function credible(
  saved: SavedPosition | undefined,
  key: KeyObject | undefined,
  hasNotes: boolean,
): SavedPosition | undefined {
  if (saved === undefined || key === undefined) return saved;
  const publicKey = createPublicKey(key);
  return STREAMS.every((stream) => isCovered(saved.streams[stream], publicKey, hasNotes)) ? saved : undefined;
}

function isCovered({ head, note }: SavedStream, publicKey: KeyObject, hasNotes: boolean): boolean {
  if (note === undefined) return head.seq === 0 || !hasNotes;
  const checkpoint = readCheckpoint(note);
  if (checkpoint?.size !== head.seq || !checkpoint.root.equals(head.tree.root())) return false;
  // A different key is a former key: only holders of its public half can verify its checkpoints.
  return verifyNote(checkpoint, checkpoint.origin, [publicKey]) !== "bad signature";
}

/** The state of a log that is known before its lines are read. */
interface KnownLog {
  readonly dir: string;
  readonly saved: SavedPosition | undefined;
  readonly notes: readonly Checkpoint[];
  /** Calls without an entry, by the `seq` of their intent. The journal adds to them and the calls remove from them. */
  readonly intents: Map<number, Intent>;
}

interface StreamEnd {
  readonly position: StreamPosition;
  readonly note: string | undefined;
}

function recoverStream(
  { stream, files, newest, isChained }: Tail,
  { dir, saved, notes, intents }: KnownLog,
): StreamEnd {
  const position = saved?.streams[stream];
  const savedSeq = position?.head.seq ?? 0;
  const ownNotes = notes.filter((note) => note.stream === stream);
  const note = ownNotes.at(-1);
  const claimed = Math.max(savedSeq, note?.size ?? 0);
  if (!isChained && claimed > 0) throw lost(join(dir, files.at(-1)?.file ?? stream), claimed, 0);
  const { walk, ...start } = startOf(dir, stream, files, position);
  const misnamed = misnamedFile(files);
  if (misnamed !== undefined) throw refusal(dir, misnamed);

  const roots = new Map(ownNotes.map(({ size, root }) => [size, root]));
  const { halt } = walkFiles(files, { ...start, checksDays: true }, (bytes, from, to) => {
    const linesBefore = walk.lines;
    if (!walk.take(bytes, from, to)) return false;
    if (walk.lines === linesBefore) return true;
    const { seq, prev } = walk.expected ?? { seq: 0, prev: "" };
    if (seq > savedSeq) trackIntent(intents, stream, { seq: seq - 1, bytes, from, to });
    if (position !== undefined && seq === savedSeq) {
      // The tree grows from the saved position, if the lines before it are the ones that were saved.
      walk.tree ??= position.head.tree.copy();
      walk.logId ??= position.head.logId;
      if (prev !== position.head.prev) return false;
    }
    const root = roots.get(seq);
    return root === undefined || walk.tree === undefined || walk.tree.root().equals(root);
  });
  if (halt !== undefined) throw refusal(dir, explainHalt(files, { halt, walk, sizesByDay: new Map() }));

  const head = walk.head();
  const path = join(dir, newest?.file ?? stream);
  if ((head?.seq ?? 0) < claimed) throw lost(path, claimed, head?.seq ?? 0);
  if (head === undefined) {
    throw new AuditLogError(`${path}: the chain does not contain the saved position: ${REMEDY}`);
  }
  const isNewer = note !== undefined && note.size >= savedSeq;
  return {
    position: { head, day: newest?.day, size: newest?.size ?? 0 },
    note: isNewer ? `${note.text}\n${note.signatures}\n` : position?.note,
  };
}

interface ChainStart {
  /** Index of the file among the stream's files. */
  readonly index: number;
  readonly offset: number;
  readonly walk: ChainWalk;
}

/**
 * Returns the start of a walk: the saved position, or an earlier one when fewer than `CHECK_BYTES` follow it. Without a
 * saved position it is the start of the stream.
 */
function startOf(
  dir: string,
  stream: StreamName,
  files: readonly DayFile[],
  saved: SavedStream | undefined,
): ChainStart {
  const index = files.findIndex(({ day, size }) => day === saved?.day && size >= saved.size);
  const back = stepBack(files, CHECK_BYTES);
  if (saved === undefined || saved.head.seq === 0 || index === -1 || (back.index === 0 && back.offset === 0)) {
    return { index: 0, offset: 0, walk: walkFromStart(dir, stream, files) };
  }
  return back.index > index || (back.index === index && back.offset >= saved.size)
    ? { index, offset: saved.size, walk: ChainWalk.after(saved.head) }
    : { ...back, walk: ChainWalk.fromWithin() };
}

/** Returns the start of the first line that is at most `bytes` before the end of the last file. */
function stepBack(files: readonly DayFile[], bytes: number): Omit<ChainStart, "walk"> {
  let left = bytes;
  for (const [index, { path, size }] of [...files.entries()].toReversed()) {
    if (size > left) return { index, offset: nextLine(path, size - left) };
    left -= size;
  }
  return { index: 0, offset: 0 };
}

function nextLine(path: string, offset: number): number {
  let next = offset;
  visitLines(path, offset, (_bytes, from, to) => {
    next += to - from + 1;
    return false;
  });
  return next;
}

const MARK = '"type":"intent"';

interface SeenLine {
  readonly seq: number;
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
}

/** Adds the intent of a journal line, or removes the intent whose call has its entry in this line. */
function trackIntent(intents: Map<number, Intent>, stream: StreamName, { seq, bytes, from, to }: SeenLine): void {
  if (stream === "calls") {
    const intentSeq = readIntentSeq(bytes, from, to);
    if (intentSeq !== undefined) intents.delete(intentSeq);
    return;
  }
  const text = bytes.toString("utf8", from, to);
  const intent = text.includes(MARK) ? intentOf(seq, parseLine(text) ?? {}) : undefined;
  if (intent !== undefined) intents.set(seq, intent);
}

function lost(path: string, claimed: number, lines: number): AuditLogError {
  return new AuditLogError(`${path}: the log held ${claimed} lines and ends after ${lines}, it was cut off: ${REMEDY}`);
}

function refusal(dir: string, { file, line, kind, message }: Damage): AuditLogError {
  return new AuditLogError(
    `${join(dir, file)}, line ${line}: ${kind}: ${message}: ${REMEDY} (stc audit verify reads all of it)`,
  );
}
