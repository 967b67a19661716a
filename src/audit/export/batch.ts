import { statSync } from "node:fs";
import { join } from "node:path";
import { AuditLogError } from "../audit-log-error.ts";
import type { StreamName } from "../chain/chain.ts";
import { LINE_BYTES_MAX } from "../entry.ts";
import {
  type Chunk,
  daysIn,
  isOfOtherDay,
  linesOf,
  type OpenDayFile,
  readChunk,
  streamDir,
  withDay,
} from "../journal/day-files.ts";
import type { Position } from "../query/params.ts";
import { type EntryView, type LineMembers, parseLine, viewOf } from "../query/view.ts";

const LINE_END = 0x0a;
/** Limits for one request. A single line is sent whatever its size. */
const BATCH_LINES_MAX = 500;
const BATCH_BYTES_MAX = 1_048_576;

export interface ExportLine {
  readonly stream: StreamName;
  readonly day: string;
  readonly offset: number;
  readonly line: string;
  /**
   * Empty when the line is not a JSON object. A line that the service did not write is sent unchanged, with the start
   * of its day as its time.
   */
  readonly members: LineMembers;
  readonly entry: EntryView | undefined;
  readonly timeMs: number;
}

export interface ExportBatch {
  readonly lines: readonly ExportLine[];
  /** Position after the last line. */
  readonly next: Position;
}

interface BatchLimits {
  readonly linesMax: number;
  readonly bytesMax: number;
}

const BATCH: BatchLimits = { linesMax: BATCH_LINES_MAX, bytesMax: BATCH_BYTES_MAX };
const PEEK: BatchLimits = { linesMax: 1, bytesMax: 4_096 };

interface Place {
  readonly dir: string;
  readonly stream: StreamName;
  readonly from: Position | undefined;
}

/** Returns the next lines, oldest first; `undefined` when there are none yet. */
export function readBatch(place: Place): ExportBatch | undefined {
  return readNext(place, BATCH);
}

/** Returns the next line; `undefined` when there is none yet. */
export function readNextLine(place: Place): ExportLine | undefined {
  return readNext(place, PEEK)?.lines[0];
}

function readNext({ dir, stream, from }: Place, limits: BatchLimits): ExportBatch | undefined {
  const folder = streamDir(dir, stream);
  for (const day of daysIn(folder).filter((one) => one >= (from?.day ?? ""))) {
    const offset = from?.day === day ? from.offset : 0;
    const batch = withDay(folder, day, (file) => readLines(file, { stream, from: offset, ...limits }));
    if (batch !== undefined && batch.lines.length > 0) return batch;
  }
  return undefined;
}

function readLines(
  file: OpenDayFile,
  { stream, from, linesMax, bytesMax }: BatchLimits & { readonly stream: StreamName; readonly from: number },
): ExportBatch {
  const { day } = file;
  let at = from;
  while (at < file.size) {
    const to = at + bytesMax;
    const chunk = readChunk(file, { from: at, to });
    const lines: ExportLine[] = [];
    let end = at;
    for (const raw of linesOf(chunk)) {
      lines.push(lineOf(raw, { day, stream }));
      end = raw.end;
      if (lines.length === linesMax) break;
    }
    if (lines.length > 0) checkDay(day, chunk);
    if (lines.length > 0) return { lines, next: { day, offset: end } };
    // The next line is longer than the log ever writes, or is still being written.
    if (to + LINE_BYTES_MAX >= file.size) break;
    at = to;
  }
  return { lines: [], next: { day, offset: from } };
}

/** Rejects a misnamed file: it would move the position to a day after which the lines of earlier days are not read. */
function checkDay(day: string, { bytes, first }: Chunk): void {
  const to = bytes.indexOf(LINE_END, first);
  if (isOfOtherDay(day, bytes, [first, to])) {
    throw new AuditLogError(`${day}.jsonl holds lines of another day: stc audit verify tells more`);
  }
}

function lineOf(
  { offset, line }: { readonly offset: number; readonly line: string },
  { day, stream }: { readonly day: string; readonly stream: StreamName },
): ExportLine {
  const members = parseLine(line) ?? {};
  const entry = viewOf(members);
  return { stream, day, offset, line, members, entry, timeMs: entry?.timeMs ?? Date.parse(`${day}T00:00:00Z`) };
}

/** Returns the number of bytes after a position. */
export function bytesBehind({ dir, stream, from }: Place): number {
  const folder = streamDir(dir, stream);
  let bytes = 0;
  for (const day of daysIn(folder).filter((one) => one >= (from?.day ?? ""))) {
    const { size = 0 } = statSync(join(folder, `${day}.jsonl`), { throwIfNoEntry: false }) ?? {};
    bytes += Math.max(0, size - (from?.day === day ? from.offset : 0));
  }
  return bytes;
}
