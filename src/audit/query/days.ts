import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { errorText } from "../../core/error-text.ts";
import { AuditLogError } from "../audit-log-error.ts";
import type { Filter } from "./filter.ts";
import { closeDay, type OpenDayFile, openDay, readChunk, stampAt } from "./scan.ts";
import { dayOf, withinYears } from "./time-range.ts";

/**
 * Lines of one file are ordered by timestamp. A line out of order is still found if it is at most this many bytes from
 * its proper position.
 */
const DISORDER_BYTES = 1_048_576;
/** A smaller file is read completely, whatever its order. */
const SEEK_BYTES_MIN = 4 * DISORDER_BYTES;

const DAY_FILE = /^\d{4}-\d{2}-\d{2}\.jsonl$/;
const NAME_CHARACTERS = "YYYY-MM-DD".length;

/** The two streams of the log; the journal is a folder in the audit directory. */
export type Stream = "calls" | "journal";

/** Returns the folder of a stream's files. */
export function streamDir(dir: string, stream: Stream): string {
  return stream === "calls" ? dir : join(dir, stream);
}

export function isAuditDir(dir: string): boolean {
  return statSync(dir, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/**
 * Returns the days (`YYYY-MM-DD`) that have a file, oldest first; none when the directory does not exist.
 *
 * @throws {AuditLogError} when the directory cannot be read
 */
export function daysIn(dir: string): readonly string[] {
  try {
    const names = readdirSync(dir).filter((name) => DAY_FILE.test(name));
    return names.map((name) => name.slice(0, NAME_CHARACTERS)).sort();
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw new AuditLogError(`cannot read ${dir}: ${errorText(error)}`);
  }
}

export function daysWithin(
  days: readonly string[],
  { fromMs, toMs }: Pick<Filter, "fromMs" | "toMs">,
): readonly string[] {
  const first = fromMs === undefined ? "" : dayOf(fromMs);
  const last = toMs === undefined ? "9999-12-31" : dayOf(toMs - 1);
  return days.filter((day) => day >= first && day <= last);
}

/**
 * Opens the file of a day, passes it to `use` and closes it. Returns `undefined` when there is no file.
 *
 * @throws {AuditLogError} when the file cannot be read
 */
export function withDay<T>(dir: string, day: string, use: (file: OpenDayFile) => T): T | undefined {
  const file = openDay(join(dir, `${day}.jsonl`), day);
  if (file === undefined) return undefined;
  try {
    return use(file);
  } finally {
    closeDay(file);
  }
}

/** Returns the range of a file outside which no line of this time range starts. */
export function timeRange(file: OpenDayFile, { fromMs, toMs }: Pick<Filter, "fromMs" | "toMs">): Range {
  if (file.size < SEEK_BYTES_MIN) return { from: 0, to: file.size };
  const from = fromMs === undefined ? 0 : seek(file, fromMs).from;
  const to = toMs === undefined ? file.size : seek(file, toMs).to;
  return { from: Math.max(0, from - DISORDER_BYTES), to: Math.min(file.size, to + DISORDER_BYTES) };
}

export interface Range {
  readonly from: number;
  readonly to: number;
}

/**
 * Searches the file by bisection until the first line of that time is known to start in `[from, to)`; stops at a line
 * without a timestamp.
 */
function seek(file: OpenDayFile, ms: number): Range {
  const wanted = new Date(withinYears(ms)).toISOString();
  let [from, to] = [0, file.size];
  while (to - from > DISORDER_BYTES) {
    const middle = Math.floor((from + to) / 2);
    const stamp = firstStamp(file, middle);
    if (stamp === undefined) return { from, to };
    if (stamp < wanted) from = middle;
    else to = middle;
  }
  return { from, to };
}

function firstStamp(file: OpenDayFile, at: number): string | undefined {
  const { bytes, first, last } = readChunk(file, { from: at, to: at + 1 }, Buffer.alloc(0));
  // The start of the next line, wherever it is.
  const begin = first < last ? first : bytes.indexOf(0x0a) + 1;
  return begin === 0 && at > 0 ? undefined : stampAt(bytes, begin);
}
