import fs from "node:fs";
import { join } from "node:path";
import { type EntryView, type LineMembers, viewOf } from "../../core/audit-fields.ts";
import type { EpochMs } from "../../core/types.ts";
import { AuditLogError } from "../audit-log-error.ts";
import { STREAMS, type StreamName } from "../chain/chain.ts";
import { CHECKPOINT_DIR, listNotes, readCheckpoint, readLastNotes, splitNotes } from "../chain/checkpoint.ts";
import { LINE_BYTES_MAX } from "../entry.ts";
import {
  type Chunk,
  dayIn,
  daysIn,
  isOfOtherDay,
  LINE_END,
  linesOf,
  type OpenDayFile,
  readAt,
  readChunk,
  streamDir,
  withDay,
} from "../journal/day-files.ts";
import { READ_ONLY, withRegularFile } from "../journal/file-operations.ts";
import type { Position } from "../query/params.ts";
import { parseLine } from "../query/view.ts";
import type { ExportStream } from "./positions.ts";

/** Limits for one request. A single line is sent whatever its size. */
const BATCH_LINES_MAX = 500;
const BATCH_BYTES_MAX = 1_048_576;
/** Bytes of checkpoints that are read at a time: about two hundred. */
const NOTES_BYTES_MAX = 65_536;

/** A line or a checkpoint with what receivers may search for. `(log, stream, seq)` is the same wherever it is read. */
export interface ExportLine {
  readonly stream: ExportStream;
  readonly day: string;
  readonly offset: number;
  /** The line as it is in the log, or the signed note of a checkpoint. */
  readonly line: string;
  /** Id of the log, as in the origin of its checkpoints; `undefined` before its first line that has a link. */
  readonly log: string | undefined;
  /** Position of the line in the chain; of a checkpoint, the number of lines that it covers. */
  readonly seq: number | undefined;
  /** The stream whose lines a checkpoint covers. */
  readonly covers?: StreamName | undefined;
  /**
   * Empty when the line is not a JSON object. A line that the service did not write is sent unchanged, with the start
   * of its day as its time; so is a checkpoint, which holds no time.
   */
  readonly members: LineMembers;
  readonly entry: EntryView | undefined;
  readonly timeMs: number;
}

export interface ExportBatch {
  readonly lines: readonly ExportLine[];
  readonly next: Position;
}

interface BatchLimits {
  readonly linesMax: number;
  readonly bytesMax: number;
}

const BATCH: BatchLimits = { linesMax: BATCH_LINES_MAX, bytesMax: BATCH_BYTES_MAX };
const PEEK: BatchLimits = { linesMax: 1, bytesMax: 4_096 };

interface ReadPosition {
  readonly dir: string;
  readonly stream: ExportStream;
  readonly from: Position | undefined;
  /** Id of the log; the notes of checkpoints name it themselves. */
  readonly log?: string | undefined;
}

/** The day files of a stream. */
interface Source {
  readonly folder: string;
  readonly suffix: string;
  readonly days: readonly string[];
  /** Reads a file from a byte offset on. */
  readonly read: (day: string, from: number, limits: BatchLimits) => ExportBatch | undefined;
}

function sourceOf({ dir, stream, log }: ReadPosition): Source {
  if (stream === "checkpoints") {
    const folder = join(dir, CHECKPOINT_DIR);
    const read: Source["read"] = (day, from, limits) => readNotes(join(folder, `${day}.txt`), { day, from, ...limits });
    return { folder, suffix: "txt", days: listNotes(dir).map(dayIn), read };
  }
  const folder = streamDir(dir, stream);
  const read: Source["read"] = (day, from, limits) =>
    withDay(folder, day, (file) => readLines(file, { stream, log, from, ...limits }));
  return { folder, suffix: "jsonl", days: daysIn(folder), read };
}

/** Returns the next lines, oldest first; `undefined` when there are none yet. */
export function readBatch(position: ReadPosition): ExportBatch | undefined {
  return readNext(position, BATCH);
}

/** Yields everything from the position on. */
export function* eachBatch({ from, ...log }: ReadPosition): Generator<ExportBatch, void> {
  let batch = readBatch({ ...log, from });
  while (batch !== undefined) {
    yield batch;
    batch = readBatch({ ...log, from: batch.next });
  }
}

export function readNextLine(position: ReadPosition): ExportLine | undefined {
  return readNext(position, PEEK)?.lines[0];
}

/** How much of a stream comes after a position: its bytes, and the age of the oldest line; 0 when there is none. */
export interface Lag {
  readonly bytesBehind: number;
  readonly secondsBehind: number;
}

/** `sentMs`: when everything that was there had been sent. A checkpoint holds no time; one that came later is younger than that. */
export function lagAt(position: ReadPosition, nowMs: EpochMs, sentMs: EpochMs | undefined = undefined): Lag {
  const next = readNextLine(position);
  const sinceMs = Math.max(next?.timeMs ?? 0, sentMs ?? 0);
  const secondsBehind = next === undefined ? 0 : Math.max(0, (nowMs - sinceMs) / 1_000);
  return { bytesBehind: bytesBehind(position), secondsBehind };
}

/**
 * Returns where an exporter without a position begins: at the first line, but at the newest checkpoints of both streams, because
 * these cover the lines of all days before. `undefined` is the beginning.
 */
export function startOf(dir: string, stream: ExportStream): Position | undefined {
  if (stream !== "checkpoints") return undefined;
  const day = newestNotesOf(dir);
  return day === undefined ? undefined : { day, offset: 0 };
}

/** Returns the day from which on there is a checkpoint of each stream that has one. */
function newestNotesOf(dir: string): string | undefined {
  try {
    const notes = readLastNotes(dir);
    return STREAMS.flatMap(
      (name) => notes.findLast(({ checkpoint }) => checkpoint?.stream === name)?.day ?? [],
    ).sort()[0];
  } catch {
    // A file that cannot be read is reported when it is next.
    return listNotes(dir).map(dayIn).at(-1);
  }
}

function readNext(position: ReadPosition, limits: BatchLimits): ExportBatch | undefined {
  const { from } = position;
  const { days, read } = sourceOf(position);
  for (const day of days.filter((one) => one >= (from?.day ?? ""))) {
    const batch = read(day, from?.day === day ? from.offset : 0, limits);
    if (batch !== undefined && batch.lines.length > 0) return batch;
  }
  return undefined;
}

/**
 * Reads complete notes. A note that is written to the day before after one of today, shortly after midnight, may be left out:
 * the notes of today cover its lines.
 */
function readNotes(
  path: string,
  { day, from, linesMax }: Pick<BatchLimits, "linesMax"> & { readonly day: string; readonly from: number },
): ExportBatch {
  const bytes = withRegularFile(path, READ_ONLY, (fd, { size }) =>
    readAt(fd, from, Buffer.alloc(Math.max(0, Math.min(NOTES_BYTES_MAX, size - from)))),
  );
  const lines: ExportLine[] = [];
  let end = from;
  for (const { note } of splitNotes(bytes.toString("utf8"), `${day}.txt`)) {
    lines.push(exportLine({ stream: "checkpoints", day, offset: end, line: note, log: undefined }));
    end += Buffer.byteLength(note) + 1;
    if (lines.length === linesMax) break;
  }
  if (lines.length === 0 && bytes.length === NOTES_BYTES_MAX) {
    throw new AuditLogError(`${path} holds no checkpoint at byte ${from}: stc audit verify shows more`);
  }
  return { lines, next: { day, offset: end } };
}

interface LinesToRead extends BatchLimits, Pick<ReadPosition, "log"> {
  readonly stream: StreamName;
  readonly from: number;
}

function readLines(file: OpenDayFile, { stream, log, from, linesMax, bytesMax }: LinesToRead): ExportBatch {
  const { day } = file;
  let at = from;
  while (at < file.size) {
    const to = at + bytesMax;
    const chunk = readChunk(file, { from: at, to });
    const lines: ExportLine[] = [];
    let end = at;
    for (const raw of linesOf(chunk)) {
      lines.push(exportLine({ stream, day, offset: raw.offset, line: raw.line, log }));
      end = raw.end;
      if (lines.length === linesMax) break;
    }
    if (lines.length > 0) checkDay(day, chunk);
    if (lines.length > 0) return { lines, next: { day, offset: end } };
    // The next line is not complete yet, or is longer than any line that the log writes.
    if (to + LINE_BYTES_MAX >= file.size) break;
    at = to;
  }
  return { lines: [], next: { day, offset: from } };
}

/** Rejects a file whose lines belong to another day: after it, the exporter would skip the lines of earlier days. */
function checkDay(day: string, { bytes, first }: Chunk): void {
  const to = bytes.indexOf(LINE_END, first);
  if (isOfOtherDay(day, bytes, [first, to])) {
    throw new AuditLogError(`${day}.jsonl holds lines of another day: stc audit verify shows more`);
  }
}

/** A line with the facts that its own text does not say. The note of a checkpoint says which log it belongs to. */
type LinePosition = Pick<ExportLine, "stream" | "day" | "offset" | "line" | "log">;

export function exportLine(position: LinePosition): ExportLine {
  const { stream, day, line } = position;
  const dayMs = Date.parse(`${day}T00:00:00Z`);
  if (stream === "checkpoints") {
    const { logId: log, size: seq, stream: covers } = readCheckpoint(line) ?? {};
    return { ...position, log, seq, covers, members: {}, entry: undefined, timeMs: dayMs };
  }
  const members = parseLine(line) ?? {};
  const entry = viewOf(members);
  const { seq } = members;
  const timeMs = entry?.timeMs ?? dayMs;
  return { ...position, seq: typeof seq === "number" ? seq : undefined, members, entry, timeMs };
}

/** Returns the number of bytes from the position to the end of the stream. */
export function bytesBehind(position: ReadPosition): number {
  const { from } = position;
  const { folder, suffix, days } = sourceOf(position);
  let bytes = 0;
  for (const day of days.filter((one) => one >= (from?.day ?? ""))) {
    const { size = 0 } = fs.statSync(join(folder, `${day}.${suffix}`), { throwIfNoEntry: false }) ?? {};
    bytes += Math.max(0, size - (from?.day === day ? from.offset : 0));
  }
  return bytes;
}
