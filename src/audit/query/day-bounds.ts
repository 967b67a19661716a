import { readSync } from "node:fs";
import { AuditLogError } from "../audit-log-error.ts";
import { type ChainLink, readLink } from "../chain/chain.ts";
import { LINE_BYTES_MAX } from "../entry.ts";
import { withDay } from "./days.ts";
import type { Filter } from "./filter.ts";
import { type OpenDayFile, stampAt } from "./scan.ts";
import { dayOf } from "./time-range.ts";
import { parseLine, viewOf } from "./view.ts";

/**
 * Each line is written to the file of the day in its own timestamp, which is the time of the append (UTC). A chained
 * line of another day shows that a file was renamed, swapped or copied. Lines without a link were written before the
 * chain existed, and lines that do not start with the writer's timestamp were not written by the service: neither are
 * checked.
 */

const STAMP_MEMBER = '{"timestamp":"';
const DAY_CHARACTERS = "YYYY-MM-DD".length;
const DAY_AT = STAMP_MEMBER.length;
const LINE_END = 0x0a;

/** Returns true when the chained line `bytes[from, to)` belongs to the file of a day other than `day`. */
export function isOfOtherDay(day: string, bytes: Buffer, [from, to]: readonly [from: number, to: number]): boolean {
  if (bytes.toString("latin1", from + DAY_AT, from + DAY_AT + DAY_CHARACTERS) === day) return false;
  return stampAt(bytes, from) !== undefined && readLink(bytes, from, to) !== undefined;
}

/** Facts from the first or last complete line of a file. */
export interface Bound {
  /** Milliseconds since 1970; `undefined` when the line has no valid timestamp. */
  readonly timeMs: number | undefined;
  readonly link: ChainLink | undefined;
  /** The day of a chained line (`YYYY-MM-DD`) when it differs from the day in the file's name. */
  readonly otherDay: string | undefined;
}

export interface DayBounds {
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

function boundOf({ day, fd, size }: OpenDayFile, which: "first" | "last"): Bound | undefined {
  for (const length of READ_BYTES) {
    const bytes = buffer.subarray(
      0,
      readSync(fd, buffer, 0, length, which === "first" ? 0 : Math.max(0, size - length)),
    );
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
 * which is judged by its name alone.
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
export function readableBounds(dir: string, day: string): DayBounds | undefined {
  try {
    return boundsOf(dir, day);
  } catch (error) {
    if (error instanceof AuditLogError) return undefined;
    throw error;
  }
}
