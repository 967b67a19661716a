import fs from "node:fs";
import { join } from "node:path";
import { type EntryView, type LineMembers, viewOf } from "../../core/audit-fields.ts";
import { AuditLogError } from "../audit-log-error.ts";
import type { StreamName } from "../chain/chain.ts";
import { LINE_BYTES_MAX } from "../entry.ts";
import {
  type Chunk,
  daysIn,
  isDay,
  isOfOtherDay,
  LINE_END,
  linesOf,
  type OpenDayFile,
  readChunk,
  streamDir,
  withDay,
} from "../journal/day-files.ts";
import { makeDirectory, readSmallFile, syncDirectory } from "../journal/file-operations.ts";
import type { Position } from "../query/params.ts";
import { parseLine } from "../query/view.ts";

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
  readonly stream: StreamName;
  readonly from: Position | undefined;
}

/** Returns the next lines, oldest first; `undefined` when there are none yet. */
export function readBatch(position: ReadPosition): ExportBatch | undefined {
  return readNext(position, BATCH);
}

export function readNextLine(position: ReadPosition): ExportLine | undefined {
  return readNext(position, PEEK)?.lines[0];
}

function readNext({ dir, stream, from }: ReadPosition, limits: BatchLimits): ExportBatch | undefined {
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

function lineOf(
  { offset, line }: { readonly offset: number; readonly line: string },
  { day, stream }: { readonly day: string; readonly stream: StreamName },
): ExportLine {
  const members = parseLine(line) ?? {};
  const entry = viewOf(members);
  return { stream, day, offset, line, members, entry, timeMs: entry?.timeMs ?? Date.parse(`${day}T00:00:00Z`) };
}

export function bytesBehind({ dir, stream, from }: ReadPosition): number {
  const folder = streamDir(dir, stream);
  let bytes = 0;
  for (const day of daysIn(folder).filter((one) => one >= (from?.day ?? ""))) {
    const { size = 0 } = fs.statSync(join(folder, `${day}.jsonl`), { throwIfNoEntry: false }) ?? {};
    bytes += Math.max(0, size - (from?.day === day ? from.offset : 0));
  }
  return bytes;
}

/** Folder in the audit directory in which exporters store their positions and the lines that were refused for good. */
export const EXPORT_DIR = "export";

const POSITION_FILE = /^([a-z0-9][a-z0-9-]{0,63})\.(calls|journal)\.json$/;
const POSITION_BYTES_MAX = 1_024;
const { O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_TRUNC, O_WRONLY } = fs.constants;

/** The position of an exporter in a stream: the receiver has accepted every line before it. */
export interface ExportPosition {
  readonly exporter: string;
  readonly stream: StreamName;
  /** `undefined` when nothing was accepted yet, or the stored position cannot be read. */
  readonly position: Position | undefined;
}

export function readExportPositions(dir: string): readonly ExportPosition[] {
  const folder = join(dir, EXPORT_DIR);
  const names = fs.existsSync(folder) ? fs.readdirSync(folder).sort() : [];
  return names.flatMap((name) => {
    const [, exporter, stream] = POSITION_FILE.exec(name) ?? [];
    if (exporter === undefined || (stream !== "calls" && stream !== "journal")) return [];
    return [{ exporter, stream, position: readPosition(join(folder, name)) }];
  });
}

export function readExportPosition(dir: string, exporter: string, stream: StreamName): ExportPosition {
  return { exporter, stream, position: readPosition(join(dir, EXPORT_DIR, `${exporter}.${stream}.json`)) };
}

/**
 * Writes a position. It is durable on return, and the file is complete at every moment: a new file is written and
 * renamed over the old one.
 */
export function writeExportPosition(dir: string, { exporter, stream, position }: ExportPosition): void {
  const folder = join(dir, EXPORT_DIR);
  makeDirectory(folder);
  const path = join(folder, `${exporter}.${stream}.json`);
  const fd = fs.openSync(`${path}.new`, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK, 0o600);
  try {
    // Unlike `writeSync`, this continues after a short write.
    fs.writeFileSync(fd, `${JSON.stringify(position)}\n`);
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
  fs.renameSync(`${path}.new`, path);
  syncDirectory(folder);
}

function readPosition(path: string): Position | undefined {
  try {
    const { day, offset } = JSON.parse(readSmallFile(path, POSITION_BYTES_MAX) ?? "") as Partial<Position>;
    const isValid = isDay(day) && Number.isSafeInteger(offset) && Number(offset) >= 0;
    return isValid ? { day, offset: Number(offset) } : undefined;
  } catch {
    return undefined;
  }
}
