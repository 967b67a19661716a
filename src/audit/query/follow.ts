import {
  daysIn,
  endOfLines,
  lastLineEnd,
  linesOf,
  type OpenDayFile,
  type RawLine,
  readChunk,
  withDay,
} from "../journal/day-files.ts";
import { holdsOwnDay } from "./day-bounds.ts";
import type { Position } from "./params.ts";

/** Maximum bytes that `readNewLines` reads from one file: its next call reads the rest. */
const READ_BYTES_MAX = 1_048_576;
const BACK_BYTES = 131_072;

export interface DayLine extends RawLine {
  readonly day: string;
}

interface Seen {
  readonly offset: number;
  readonly ino: number;
}

/**
 * Follows the folder of a stream, across midnight. A file that was replaced by another one of the same name is read
 * from its start.
 */
export class Follower {
  readonly #dir: string;
  readonly #seen = new Map<string, Seen>();
  /** Day of the oldest file that is still read: files of earlier days have been read to their end. */
  #oldestDay: string;
  /** Day of the newest line that was read: a file's name alone does not show that the log continues in it. */
  #newestDay: string;

  /** Starts after the last complete line, or at `from`. */
  constructor(dir: string, from?: Position) {
    this.#dir = dir;
    const days = daysIn(dir);
    this.#oldestDay = from?.day ?? days.findLast((day) => holdsOwnDay(dir, day)) ?? "";
    this.#newestDay = this.#oldestDay;
    for (const day of days) {
      withDay(dir, day, (file) => this.#seen.set(day, { ino: file.ino, offset: startOf(file, from) }));
    }
  }

  /** Returns the read position in each day file, oldest first. */
  ends(): ReadonlyMap<string, number> {
    return new Map([...this.#seen].map(([day, { offset }]) => [day, offset]));
  }

  /** Returns the complete lines written since the previous call, in order, at most about two megabytes. */
  readNewLines(): readonly DayLine[] {
    const days = daysIn(this.#dir).filter((day) => day >= this.#oldestDay);
    const lines: DayLine[] = [];
    for (const day of days) {
      const isBehind = withDay(this.#dir, day, (file) => this.#read(file, lines)) ?? false;
      // This day must be read to its end before the next day starts.
      if (isBehind) return lines;
    }
    if (lines.length === 0) this.#oldestDay = this.#newestDay;
    this.#newestDay = lines.at(-1)?.day ?? this.#newestDay;
    return lines;
  }

  /** Appends the file's new lines to `lines`. Returns true when the file has further data to read. */
  #read(file: OpenDayFile, lines: DayLine[]): boolean {
    const { day, ino, size } = file;
    const seen = this.#seen.get(day);
    const from = seen === undefined || seen.ino !== ino || seen.offset > size ? 0 : seen.offset;
    const to = from + READ_BYTES_MAX;
    let offset = from;
    if (size > from) {
      const chunk = readChunk(file, { from, to });
      for (const line of linesOf(chunk)) lines.push({ day, ...line });
      offset = endOfLines(chunk, to, file);
    }
    this.#seen.set(day, { ino, offset });
    return offset === to && to < size;
  }
}

function startOf(file: OpenDayFile, from: Position | undefined): number {
  if (from === undefined || file.day < from.day) return endOf(file);
  return file.day === from.day ? Math.min(from.offset, endOf(file)) : 0;
}

function endOf({ fd, size }: OpenDayFile): number {
  return lastLineEnd(fd, 0, size) ?? 0;
}

/** Returns the last `count` lines before these offsets, by day, oldest first. Does not parse or filter them. */
export function lastLines(dir: string, ends: ReadonlyMap<string, number>, count: number): readonly string[] {
  const days: (readonly string[])[] = [];
  let left = count;
  for (const [day, end] of [...ends].toReversed()) {
    if (left <= 0) break;
    const lines = withDay(dir, day, (file) => lastOf(file, end, left)) ?? [];
    days.push(lines);
    left -= lines.length;
  }
  return days.toReversed().flat();
}

function lastOf(file: OpenDayFile, end: number, count: number): readonly string[] {
  const pieces: (readonly string[])[] = [];
  let [to, found] = [end, 0];
  while (to > 0 && found < count) {
    const from = Math.max(0, to - BACK_BYTES);
    const lines = Array.from(linesOf(readChunk(file, { from, to })), ({ line }) => line);
    pieces.push(lines);
    found += lines.length;
    to = from;
  }
  return pieces.toReversed().flat().slice(-count);
}
