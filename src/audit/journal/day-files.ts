import { closeSync, existsSync, fstatSync, openSync, readdirSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import { errorText } from "../../core/error-text.ts";
import { AuditLogError } from "../audit-log-error.ts";
import { readLink, type StreamName } from "../chain/chain.ts";
import { LINE_BYTES_MAX } from "../entry.ts";
import { READ_ONLY, withRegularFile } from "./file-operations.ts";

/**
 * The day files of a log, and the one place where their lines are read: `visitLines` passes over a whole file,
 * `readChunk` reads a part of it.
 */

/** Folder of the journal in the audit directory. */
export const JOURNAL_DIR = "journal";
const DAY = /^\d{4}-\d{2}-\d{2}$/;
const DAY_FILE = /^\d{4}-\d{2}-\d{2}\.jsonl$/;
const DAY_CHARACTERS = "YYYY-MM-DD".length;
/**
 * Bytes that are read at a time. The log never writes a longer line. A longer line from elsewhere is passed on in
 * pieces, which do not fit into the chain.
 */
const BLOCK_BYTES = 1_048_576;
export const LINE_END = 0x0a;
const QUOTE = 0x22;
const ZULU = 0x5a;
/** A line that is being written is complete a moment later, so the end of the file is read this many times. */
const LOOKS_AT_END_MAX = 4;
const BACK_BYTES = 131_072;
/** The start of every line that the service writes. */
const STAMP_MEMBER = '{"timestamp":"';
const STAMP_CHARACTERS = "YYYY-MM-DDTHH:mm:ss.sssZ".length;

/** Returns true for text of the form `YYYY-MM-DD`, whether or not such a day exists. */
export function isDay(value: unknown): value is string {
  return typeof value === "string" && DAY.test(value);
}

export function dayIn(name: string): string {
  return name.slice(0, DAY_CHARACTERS);
}

export function streamDir(dir: string, stream: StreamName): string {
  return join(dir, folderOf(stream));
}

export function folderOf(stream: StreamName): string {
  return stream === "journal" ? JOURNAL_DIR : "";
}

export function isAuditDir(dir: string): boolean {
  return statSync(dir, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

export function isDayFile(name: string): boolean {
  return DAY_FILE.test(name);
}

export function dayFileNames(dir: string): readonly string[] {
  return readdirSync(dir).filter(isDayFile).sort();
}

/**
 * Returns the days (`YYYY-MM-DD`) that have a file, oldest first; none when the directory does not exist.
 *
 * @throws AuditLogError when the directory cannot be read.
 */
export function daysIn(dir: string): readonly string[] {
  try {
    return dayFileNames(dir).map(dayIn);
  } catch (error) {
    if (isMissing(error)) return [];
    throw new AuditLogError(`cannot read ${dir}: ${errorText(error)}`);
  }
}

export interface DayFile {
  /** Relative to the audit directory: `journal/2026-02-16.jsonl`. */
  readonly file: string;
  readonly path: string;
  readonly day: string;
  readonly size: number;
}

/**
 * Returns the day files of a stream, oldest first. Returns none when the folder is missing: a log written before the
 * journal existed has none.
 */
export function dayFilesOf(dir: string, stream: StreamName): readonly DayFile[] {
  const folder = streamDir(dir, stream);
  return (existsSync(folder) ? dayFileNames(folder) : []).map((name) => {
    const path = join(folder, name);
    return { file: join(folderOf(stream), name), path, day: dayIn(name), size: statSync(path).size };
  });
}

/**
 * Receives one line, `bytes[from, to)`, without its line end. The buffer is reused for later lines; the visitor may
 * temporarily overwrite the byte before `from`. Returning `false` stops the visit.
 */
export type LineVisit = (bytes: Buffer, from: number, to: number) => boolean;

/** Visits the complete lines from byte `offset` on, in order. Returns the number of bytes after the last line end. */
export function visitLines(path: string, offset: number, visit: LineVisit): number {
  return withRegularFile(path, READ_ONLY, (fd) => visitOpen(fd, offset, visit));
}

function visitOpen(fd: number, offset: number, visit: LineVisit): number {
  const buffer = Buffer.allocUnsafe(1 + BLOCK_BYTES);
  let position = offset;
  let held = 0;
  let looksAtEnd = 0;
  for (;;) {
    const count = readSync(fd, buffer, 1 + held, BLOCK_BYTES - held, position);
    position += count;
    const filled = 1 + held + count;
    let from = 1;
    for (let to = endIn(buffer, 1 + held, filled); to !== -1; to = endIn(buffer, from, filled)) {
      if (!visit(buffer, from, to)) return 0;
      from = to + 1;
    }
    held = filled - from;
    looksAtEnd = count === 0 ? looksAtEnd + 1 : 0;
    if (count === 0 && (held === 0 || looksAtEnd === LOOKS_AT_END_MAX)) return held;
    if (held === BLOCK_BYTES) {
      if (!visit(buffer, from, filled)) return 0;
      held = 0;
    }
    buffer.copy(buffer, 1, from, from + held);
  }
}

function endIn(buffer: Buffer, from: number, filled: number): number {
  const at = buffer.indexOf(LINE_END, from);
  return at < filled ? at : -1;
}

export function lineEnds(path: string, end: number): number {
  let count = 0;
  let position = 0;
  visitLines(path, 0, (bytes, from, to) => {
    const isWhole = bytes[to] === LINE_END;
    position += to - from + (isWhole ? 1 : 0);
    if (isWhole && position <= end) count += 1;
    return position < end;
  });
  return count;
}

export interface OpenDayFile {
  readonly day: string;
  readonly fd: number;
  readonly ino: number;
  /** Size in bytes when the file was opened. Files only grow; later bytes are ignored. */
  readonly size: number;
}

/**
 * Opens the file of a day, passes it to `use` and closes it. Returns `undefined` when there is no file.
 *
 * @throws AuditLogError when the file exists but cannot be read: a result that silently left out its lines would be
 * wrong.
 */
export function withDay<T>(dir: string, day: string, use: (file: OpenDayFile) => T): T | undefined {
  const path = join(dir, `${day}.jsonl`);
  const fd = openIfPresent(path);
  if (fd === undefined) return undefined;
  try {
    const facts = fstatSync(fd);
    if (!facts.isFile()) throw new AuditLogError(`cannot read ${path}: it is not a regular file: move it away`);
    return use({ day, fd, ino: facts.ino, size: facts.size });
  } finally {
    closeSync(fd);
  }
}

function openIfPresent(path: string): number | undefined {
  try {
    return openSync(path, READ_ONLY);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw new AuditLogError(`cannot read ${path}: ${errorText(error)}`);
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}

/** Reads up to `into.length` bytes at a position. Returns the bytes that the file has there. */
export function readAt(fd: number, position: number, into: Buffer): Buffer {
  let filled = 0;
  while (filled < into.length) {
    const count = readSync(fd, into, filled, into.length - filled, position + filled);
    if (count === 0) break;
    filled += count;
  }
  return into.subarray(0, filled);
}

/** Returns the position after the last line end in `[from, to)` of a file; `undefined` when there is none. */
export function lastLineEnd(fd: number, from: number, to: number): number | undefined {
  const block = Buffer.allocUnsafe(Math.max(0, Math.min(BACK_BYTES, to - from)));
  for (let end = to; end > from; ) {
    const begin = Math.max(from, end - BACK_BYTES);
    const at = readAt(fd, begin, block.subarray(0, end - begin)).lastIndexOf(LINE_END);
    if (at !== -1) return begin + at + 1;
    end = begin;
  }
  return undefined;
}

/**
 * Returns the last line of a file that ends with a complete line, without its line end; `undefined` when the file is
 * empty.
 */
export function readLastLine(path: string): string | undefined {
  return withRegularFile(path, READ_ONLY, (fd, { size }) => {
    if (size === 0) return undefined;
    const from = Math.max(0, size - LINE_BYTES_MAX - 2);
    const end = readAt(fd, from, Buffer.alloc(size - from));
    return end.toString("utf8", end.lastIndexOf(LINE_END, -2) + 1, end.length - 1);
  });
}

export interface Range {
  readonly from: number;
  readonly to: number;
}

export interface Chunk {
  readonly day: string;
  readonly bytes: Buffer;
  /** Position of `bytes` in the file. */
  readonly base: number;
  /** Positions in `bytes`: `first` is the start of the first line; every line starts before `last`. */
  readonly first: number;
  readonly last: number;
}

const NO_BUFFER = Buffer.alloc(0);

/** Reads a chunk. Uses `buffer` when it is large enough; the chunk is then valid until `buffer` is reused. */
export function readChunk(file: OpenDayFile, range: Range, buffer: Buffer = NO_BUFFER): Chunk {
  const base = Math.max(0, range.from - 1);
  const to = Math.min(range.to, file.size);
  const length = Math.max(0, Math.min(file.size, to + LINE_BYTES_MAX + 1) - base);
  const bytes = readAt(file.fd, base, length <= buffer.length ? buffer.subarray(0, length) : Buffer.alloc(length));
  const last = to - base;
  const first = range.from === 0 ? 0 : bytes.indexOf(LINE_END) + 1;
  // A line that is longer than everything read starts before it and ends after it: no line starts here.
  return { day: file.day, bytes, base, first: range.from > 0 && first === 0 ? last : first, last };
}

/**
 * Returns the position at which the lines after `[from, to)` start: `to`, or the start of a line that is still being
 * written. Skips a line that is longer than the log ever writes.
 */
export function endOfLines({ bytes, base, first }: Chunk, to: number, { size }: OpenDayFile): number {
  if (to + LINE_BYTES_MAX < size) return to;
  return Math.min(to, base + Math.max(first, bytes.lastIndexOf(LINE_END) + 1));
}

export function* spansOf({ bytes, first, last }: Chunk): Generator<Range, void> {
  let from = first;
  while (from < last) {
    const to = bytes.indexOf(LINE_END, from);
    if (to === -1) return;
    yield { from, to };
    from = to + 1;
  }
}

export interface RawLine {
  /** Start of the line and start of the next line, in bytes. */
  readonly offset: number;
  readonly end: number;
  readonly line: string;
}

export function* linesOf(chunk: Chunk): Generator<RawLine, void> {
  const { bytes, base } = chunk;
  for (const { from, to } of spansOf(chunk)) {
    yield { offset: base + from, end: base + to + 1, line: bytes.toString("utf8", from, to) };
  }
}

/**
 * Returns the timestamp of the line that starts at `begin`; `undefined` when the line does not start as the writer
 * starts lines.
 */
export function stampAt(bytes: Buffer, begin: number): string | undefined {
  const from = begin + STAMP_MEMBER.length;
  const to = from + STAMP_CHARACTERS;
  const isStamp = bytes[to] === QUOTE && bytes[to - 1] === ZULU;
  return isStamp && bytes.toString("latin1", begin, from) === STAMP_MEMBER
    ? bytes.toString("latin1", from, to)
    : undefined;
}

/**
 * Returns true when the chained line `bytes[from, to)` belongs to the file of a day other than `day`.
 *
 * Each line is written to the file of the day in its own timestamp, which is the time of the append (UTC). A chained
 * line of another day shows that a file was renamed, swapped or copied. Lines without a link were written before the
 * chain existed, and lines that do not start with the writer's timestamp were not written by the service: neither are
 * checked.
 */
export function isOfOtherDay(day: string, bytes: Buffer, [from, to]: readonly [from: number, to: number]): boolean {
  const dayAt = from + STAMP_MEMBER.length;
  if (bytes.toString("latin1", dayAt, dayAt + DAY_CHARACTERS) === day) return false;
  return stampAt(bytes, from) !== undefined && readLink(bytes, from, to) !== undefined;
}
