import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import { errorText } from "../../core/error-text.ts";
import { AuditLogError } from "../audit-log-error.ts";
import { LINE_BYTES_MAX } from "../entry.ts";
import type { Matcher } from "./filter.ts";
import { type EntryView, parseLine, viewOf } from "./view.ts";

const LINE_END = 0x0a;
const QUOTE = 0x22;
/** Without `O_NONBLOCK`, opening a named pipe in place of a day file would block. */
const READ = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW;
const STAMP_MEMBER = '{"timestamp":"';
const STAMP_CHARACTERS = "YYYY-MM-DDTHH:mm:ss.sssZ".length;

/** One line that matches a query. */
export interface FoundLine {
  /** `YYYY-MM-DD`. */
  readonly day: string;
  /** Start of the line and start of the next line, in bytes. */
  readonly offset: number;
  readonly end: number;
  /** The line as it is in the file, without its line end. */
  readonly line: string;
  readonly entry: EntryView;
}

export interface OpenDayFile {
  readonly day: string;
  readonly fd: number;
  readonly ino: number;
  /** Size in bytes when the file was opened. Files only grow; later bytes are ignored. */
  readonly size: number;
}

/**
 * Opens the file of a day; returns `undefined` when it does not exist.
 *
 * @throws AuditLogError when the file exists but cannot be read: a result that silently left out its lines would be
 * wrong.
 */
export function openDay(path: string, day: string): OpenDayFile | undefined {
  const fd = tryOpen(path);
  if (fd === undefined) return undefined;
  const facts = fstatSync(fd);
  if (facts.isFile()) return { day, fd, ino: facts.ino, size: facts.size };
  closeSync(fd);
  throw new AuditLogError(`cannot read ${path}: it is not a regular file: move it away`);
}

function tryOpen(path: string): number | undefined {
  try {
    return openSync(path, READ);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw new AuditLogError(`cannot read ${path}: ${errorText(error)}`);
  }
}

export function closeDay({ fd }: OpenDayFile): void {
  closeSync(fd);
}

/** The lines of a file that start in `[from, to)`, with their bytes. */
export interface Chunk {
  readonly day: string;
  readonly bytes: Buffer;
  /** Position of `bytes` in the file. */
  readonly base: number;
  /** Positions in `bytes`: `first` is the start of the first line; every line starts before `last`. */
  readonly first: number;
  readonly last: number;
}

/** Reads a chunk. Uses `buffer` when it is large enough; the chunk is then valid until `buffer` is reused. */
export function readChunk(
  file: OpenDayFile,
  range: { readonly from: number; readonly to: number },
  buffer: Buffer,
): Chunk {
  const base = Math.max(0, range.from - 1);
  const to = Math.min(range.to, file.size);
  const length = Math.max(0, Math.min(file.size, to + LINE_BYTES_MAX + 1) - base);
  const bytes = readAt(file.fd, base, length <= buffer.length ? buffer.subarray(0, length) : Buffer.alloc(length));
  const last = to - base;
  const first = range.from === 0 ? 0 : bytes.indexOf(LINE_END) + 1;
  // A line that is longer than everything read starts before it and ends after it: no line starts here.
  return { day: file.day, bytes, base, first: range.from > 0 && first === 0 ? last : first, last };
}

function readAt(fd: number, position: number, into: Buffer): Buffer {
  let filled = 0;
  while (filled < into.length) {
    const count = readSync(fd, into, filled, into.length - filled, position + filled);
    if (count === 0) break;
    filled += count;
  }
  return into.subarray(0, filled);
}

/**
 * Returns the position at which the lines after `[from, to)` start: `to`, or the start of a line that is still being
 * written. Skips a line that is longer than the log ever writes.
 */
export function endOfLines({ bytes, base, first }: Chunk, to: number, { size }: OpenDayFile): number {
  if (to + LINE_BYTES_MAX < size) return to;
  return Math.min(to, base + Math.max(first, bytes.lastIndexOf(LINE_END) + 1));
}

export interface RawLine {
  readonly offset: number;
  readonly end: number;
  readonly line: string;
}

/** Yields every complete line of the chunk. */
export function* linesOf({ bytes, base, first, last }: Chunk): Generator<RawLine, void> {
  let begin = first;
  while (begin < last) {
    const end = bytes.indexOf(LINE_END, begin);
    if (end === -1) return;
    yield { offset: base + begin, end: base + end + 1, line: bytes.toString("utf8", begin, end) };
    begin = end + 1;
  }
}

/** Returns the lines of the chunk that the matcher accepts, in file order. Parses only lines that can match. */
export function findIn(chunk: Chunk, matcher: Matcher): readonly FoundLine[] {
  const found: FoundLine[] = [];
  for (const { begin, end } of candidates(chunk, matcher)) {
    const line = chunk.bytes.toString("utf8", begin, end);
    const members = parseLine(line);
    const entry = members && viewOf(members);
    if (entry === undefined || !matcher.accepts(entry, line)) continue;
    found.push({ day: chunk.day, offset: chunk.base + begin, end: chunk.base + end + 1, line, entry });
  }
  return found;
}

interface Span {
  readonly begin: number;
  readonly end: number;
}

function candidates(chunk: Chunk, matcher: Matcher): Iterable<Span> {
  const [needle, ...others] = matcher.needles;
  if (needle !== undefined) return withNeedle(chunk, (at) => chunk.bytes.indexOf(needle, at), others);
  if (matcher.folded === undefined) return inTime(chunk, matcher);
  const folded = foldBytes(chunk.bytes);
  const text = matcher.folded;
  return withNeedle(chunk, (at) => folded.indexOf(text, at), []);
}

function* withNeedle(
  { bytes, first, last }: Chunk,
  search: (at: number) => number,
  others: readonly Buffer[],
): Generator<Span, void> {
  let at = first;
  for (;;) {
    const hit = search(at);
    if (hit === -1) return;
    const begin = Math.max(first, bytes.lastIndexOf(LINE_END, hit) + 1);
    const end = bytes.indexOf(LINE_END, hit);
    if (begin >= last || end === -1) return;
    at = end + 1;
    if (others.every((other) => holds(bytes, { begin, end }, other))) yield { begin, end };
  }
}

function holds(bytes: Buffer, { begin, end }: Span, needle: Buffer): boolean {
  return bytes.subarray(begin, end).includes(needle);
}

/**
 * Yields the lines that can be in the filter's time range, when there is no text to search for. Decides by the
 * timestamp as the writer spells it; yields every line that starts differently, so that it is parsed.
 */
function* inTime({ bytes, first, last }: Chunk, { filter }: Matcher): Generator<Span, void> {
  const [from, to] = [stampOf(filter.fromMs), stampOf(filter.toMs)];
  let begin = first;
  while (begin < last) {
    const end = bytes.indexOf(LINE_END, begin);
    if (end === -1) return;
    const stamp = from === undefined && to === undefined ? undefined : stampAt(bytes, begin);
    const isOutside =
      stamp !== undefined && ((from !== undefined && stamp < from) || (to !== undefined && stamp >= to));
    if (!isOutside) yield { begin, end };
    begin = end + 1;
  }
}

function stampOf(ms: number | undefined): string | undefined {
  if (ms === undefined) return undefined;
  const stamp = new Date(ms).toISOString();
  return stamp.length === STAMP_CHARACTERS ? stamp : undefined;
}

/**
 * Returns the timestamp of the line that starts at `begin`; `undefined` when the line does not start as the writer
 * starts lines.
 */
export function stampAt(bytes: Buffer, begin: number): string | undefined {
  const from = begin + STAMP_MEMBER.length;
  const to = from + STAMP_CHARACTERS;
  if (bytes[to] !== QUOTE || bytes[to - 1] !== 0x5a || bytes.toString("latin1", begin, from) !== STAMP_MEMBER)
    return undefined;
  return bytes.toString("latin1", from, to);
}

const HIGH_BITS = 0x80808080;
const LOW_BITS = 0x7f7f7f7f;
/** Added to a byte below 128, they set its high bit when the byte is at least "A", or above "Z". */
const FROM_A = 0x3f3f3f3f;
const ABOVE_Z = 0x25252525;
/** Shift from the high bit to the bit that distinguishes lowercase from uppercase. */
const TO_CASE_BIT = 2;
const WORD_BYTES = 4;

/** Reused by each call: the contents are valid until the next one. */
let words = new Int32Array(0);

/**
 * Returns the bytes with ASCII letters in lowercase, converting four bytes at a time. The result shares its memory with
 * that of the next call.
 */
export function foldBytes(bytes: Buffer): Buffer {
  const length = Math.ceil(bytes.length / WORD_BYTES);
  if (words.length < length) words = new Int32Array(length);
  const folded = Buffer.from(words.buffer, 0, bytes.length);
  bytes.copy(folded);
  foldWords(words, length);
  return folded;
}

function foldWords(all: Int32Array, length: number): void {
  for (let at = 0; at < length; at += 1) {
    const word = all[at] ?? 0;
    const low = word & LOW_BITS;
    const isCapital = (low + FROM_A) & ~(low + ABOVE_Z) & ~word & HIGH_BITS;
    all[at] = word | (isCapital >>> TO_CASE_BIT);
  }
}
