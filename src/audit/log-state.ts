import type { EpochMs } from "../core/types.ts";
import { STREAMS } from "./chain/chain.ts";
import { readLastNotes } from "./chain/checkpoint.ts";
import { dayFilesOf, readLastLine } from "./journal/day-files.ts";
import { lockHolder } from "./journal/directory-lock.ts";
import { parseLine } from "./query/view.ts";

/** The newest line of a log, the lines that no checkpoint covers, and the process that writes the log. */
export interface LogState {
  /** The process that writes the log: its id, or 0 where it has none here; undefined when none is visible. */
  readonly writer: number | undefined;
  /** Time of the newest line; undefined when there is none. */
  readonly lastLineMs: EpochMs | undefined;
  /** Number of lines at the end that no checkpoint covers, both streams together. */
  readonly uncovered: number;
  /** First day that holds the newest line of both streams. */
  readonly newestDay: string | undefined;
}

/** Takes no lock, and changes nothing. */
export function readLogState(dir: string): LogState {
  const notes = readLastNotes(dir);
  const ends = STREAMS.flatMap((stream) => {
    const newest = dayFilesOf(dir, stream).at(-1);
    if (newest === undefined) return [];
    // A line that is being written is cut off: it counts the next time.
    const { seq, timestamp } = parseLine(readLastLine(newest.path) ?? "") ?? {};
    const covered = notes.findLast(({ checkpoint }) => checkpoint?.stream === stream)?.checkpoint?.size ?? 0;
    const uncovered = typeof seq === "number" ? Math.max(0, seq + 1 - covered) : 0;
    return [{ day: newest.day, timeMs: Date.parse(String(timestamp)), uncovered }];
  });
  const times = ends.map(({ timeMs }) => timeMs).filter((timeMs) => !Number.isNaN(timeMs));
  return {
    writer: lockHolder(dir),
    lastLineMs: times.length === 0 ? undefined : Math.max(...times),
    uncovered: ends.reduce((sum, { uncovered }) => sum + uncovered, 0),
    newestDay: ends.map(({ day }) => day).sort()[0],
  };
}
