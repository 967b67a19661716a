import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { errorText } from "../../core/error-text.ts";
import { AuditLogError } from "../audit-log-error.ts";
import type { Filter } from "./filter.ts";
import { closeDay, type OpenDayFile, openDay, readChunk, stampAt } from "./scan.ts";
import { dayOf, withinYears } from "./time-range.ts";

/** Lines of one file are in the order of their stamps; those that are not are found as long as they are no further than this, in bytes, from their place. */
const DISORDER_BYTES = 1_048_576;
/** A file below this is read whole, in whatever order it is. */
const SEEK_BYTES_MIN = 4 * DISORDER_BYTES;

const DAY_FILE = /^\d{4}-\d{2}-\d{2}\.jsonl$/;
const NAME_CHARACTERS = "YYYY-MM-DD".length;

/** The log's two streams; the journal is a folder of it. */
export type Stream = "calls" | "journal";

/** Where the files of a stream lie. */
export function streamDir(dir: string, stream: Stream): string {
  return stream === "calls" ? dir : join(dir, stream);
}

export function isAuditDir(dir: string): boolean {
  return statSync(dir, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/**
 * Days (`YYYY-MM-DD`) that have a file, oldest first; none when there is no such directory.
 *
 * @throws {AuditLogError} when there is one that cannot be read
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
 * Hands the file of a day to `use` and closes it. `undefined` when there is none.
 *
 * @throws {AuditLogError} when it cannot be read
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

/** The bytes of a file outside of which no line of this time begins. */
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

/** Halves the file until the first line of that time is known to begin in `[from, to)`; no halving where a line has no stamp. */
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
  // The line that begins next, wherever that is.
  const begin = first < last ? first : bytes.indexOf(0x0a) + 1;
  return begin === 0 && at > 0 ? undefined : stampAt(bytes, begin);
}
