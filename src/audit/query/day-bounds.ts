import { viewOf } from "../../core/audit-fields.ts";
import { AuditLogError } from "../audit-log-error.ts";
import { type ChainLink, readLink, type StreamName } from "../chain/chain.ts";
import { walkFromStart } from "../chain/chain-walk.ts";
import { LINE_BYTES_MAX } from "../entry.ts";
import {
  dayFilesOf,
  daysIn,
  isOfOtherDay,
  LINE_END,
  type OpenDayFile,
  readAt,
  stampAt,
  streamDir,
  withDay,
} from "../journal/day-files.ts";
import { readSavedPosition } from "../journal/saved-position.ts";
import type { Filter } from "./filter.ts";
import { dayOf } from "./time-range.ts";
import { parseLine } from "./view.ts";

interface Bound {
  /** Milliseconds since 1970; `undefined` when the line has no valid timestamp. */
  readonly timeMs: number | undefined;
  readonly link: ChainLink | undefined;
  /** The day of a chained line (`YYYY-MM-DD`) when it differs from the day in the file's name. */
  readonly otherDay: string | undefined;
}

interface DayBounds {
  readonly first: Bound;
  readonly last: Bound;
}

/** Most lines are shorter than the first length; none is longer than the second. */
const READ_BYTES = [4_096, LINE_BYTES_MAX + 2] as const;
/** Shared by all reads, because they are synchronous. */
const buffer = Buffer.allocUnsafe(LINE_BYTES_MAX + 2);

/**
 * Returns the bounds of the first and last complete lines of a day file, whose lines are in chronological order;
 * `undefined` without a file or a complete line.
 */
export function boundsOf(dir: string, day: string): DayBounds | undefined {
  return withDay(dir, day, (file) => {
    const first = boundOf(file, "first");
    return first && { first, last: boundOf(file, "last") ?? first };
  });
}

/** Returns the bound of the first or last complete line; `undefined` when there is none, or it is too long. */
function boundOf({ day, fd, size }: OpenDayFile, which: "first" | "last"): Bound | undefined {
  for (const length of READ_BYTES) {
    const position = which === "first" ? 0 : Math.max(0, size - length);
    const bytes = readAt(fd, position, buffer.subarray(0, Math.min(length, size)));
    const end = which === "first" ? bytes.indexOf(LINE_END) : bytes.lastIndexOf(LINE_END);
    const before = end <= 0 ? -1 : bytes.lastIndexOf(LINE_END, end - 1);
    const isWhole = end !== -1 && (which === "first" || before !== -1 || bytes.length === size);
    if (isWhole) return boundIn(day, bytes, [before + 1, end]);
  }
  return undefined;
}

function boundIn(day: string, bytes: Buffer, [from, to]: readonly [from: number, to: number]): Bound {
  const timeMs = timeIn(bytes, from, to);
  const isOther = timeMs !== undefined && isOfOtherDay(day, bytes, [from, to]);
  return { timeMs, link: readLink(bytes, from, to), otherDay: isOther ? dayOf(timeMs) : undefined };
}

function timeIn(bytes: Buffer, from: number, to: number): number | undefined {
  const timeMs = Date.parse(stampAt(bytes, from) ?? "");
  if (!Number.isNaN(timeMs)) return timeMs;
  const members = parseLine(bytes.toString("utf8", from, to));
  return members && viewOf(members)?.timeMs;
}

/**
 * Returns the day to which the lines of a misnamed file belong; `undefined` when the name is correct or the file has no
 * complete line.
 */
export function otherDayOf(bounds: DayBounds | undefined): string | undefined {
  return bounds?.first.otherDay ?? bounds?.last.otherDay;
}

/**
 * Returns true when a file holds lines of this time range, whatever its name is. Returns false for an unreadable file,
 * which is assessed by its name alone.
 */
export function holdsTime(dir: string, day: string, { fromMs, toMs }: Pick<Filter, "fromMs" | "toMs">): boolean {
  const { first, last } = readableBounds(dir, day) ?? {};
  if (first?.timeMs === undefined || last?.timeMs === undefined) return false;
  return (toMs === undefined || first.timeMs < toMs) && (fromMs === undefined || last.timeMs >= fromMs);
}

/** Returns true when the log may continue in this file: it is neither empty nor named after another day. */
export function holdsOwnDay(dir: string, day: string): boolean {
  const bounds = readableBounds(dir, day);
  return bounds !== undefined && otherDayOf(bounds) === undefined;
}

/** Returns the bounds; `undefined` also when the file cannot be read. */
function readableBounds(dir: string, day: string): DayBounds | undefined {
  try {
    return boundsOf(dir, day);
  } catch (error) {
    if (error instanceof AuditLogError) return undefined;
    throw error;
  }
}

/**
 * Returns problems with the day files of a stream, one sentence each, as far as file names and first and last lines
 * show them. For readers, whose results may miss lines; `verify` reads everything.
 */
export function dayProblems(dir: string, stream: StreamName): readonly string[] {
  // Read before the files, because the log only grows.
  const claimed = readSavedPosition(dir)?.streams[stream].head.seq ?? 0;
  const problems: string[] = [];
  let next = firstSeq(dir, stream);
  for (const day of daysIn(streamDir(dir, stream))) {
    // A query that reads an unreadable file reports the reason; a query that does not read it misses its lines.
    const bounds = readableBounds(streamDir(dir, stream), day);
    const otherDay = otherDayOf(bounds);
    if (otherDay !== undefined) problems.push(`${day}.jsonl of ${stream} holds lines of ${otherDay}`);
    const [first, last] = [bounds?.first.link?.seq, bounds?.last.link?.seq];
    if (first !== undefined && first !== next) {
      problems.push(`before ${day}.jsonl of ${stream} lines are missing or are in another file`);
    }
    if (last !== undefined) next = last + 1;
  }
  if (next < claimed) problems.push(`${stream} held ${claimed} lines, and its last file ends after ${next}`);
  return problems;
}

function firstSeq(dir: string, stream: StreamName): number {
  try {
    return walkFromStart(dir, stream, dayFilesOf(dir, stream)).expected?.seq ?? 0;
  } catch {
    // Reading the file itself reports the reason.
    return 0;
  }
}
