import fs from "node:fs";
import { readLink } from "../chain/chain.ts";
import { ChainWalk } from "../chain/chain-walk.ts";
import { type DayFile, type LineVisit, visitLines } from "../journal/line-files.ts";
import type { SavedStream } from "../journal/saved-position.ts";
import { readLastLine } from "../journal/torn-tail.ts";
import { isOfOtherDay } from "../query/day-bounds.ts";
import type { LinePosition } from "./damage.ts";

/** Bytes that are read between two pauses: some milliseconds of hashing. */
const STEP_BYTES = 1_048_576;
const LINE_END = 0x0a;

/** The position at which a walk starts. */
export interface ChainStart {
  /** Index of the file among the stream's files. */
  readonly index: number;
  readonly offset: number;
  readonly walk: ChainWalk;
}

interface StartQuery {
  /** Returns a walk over the whole stream. */
  readonly fromBegin: () => ChainWalk;
  readonly saved: SavedStream | undefined;
  readonly bytesMin: number;
}

/** Returns true when the newest line has a link, so that there is a chain to continue. */
export function endsChained(files: readonly DayFile[]): boolean {
  const newest = files.findLast(({ size }) => size > 0);
  const line = Buffer.from(newest === undefined ? "" : (readLastLine(newest.path) ?? ""));
  return readLink(line, 0, line.length) !== undefined;
}

/**
 * Returns the start of a walk: the saved position, or an earlier one when fewer than `bytesMin` bytes follow it.
 * Without a saved position it is the start of the stream.
 */
export function startOf(files: readonly DayFile[], { fromBegin, saved, bytesMin }: StartQuery): ChainStart {
  const index = files.findIndex(({ day, size }) => day === saved?.day && size >= (saved?.size ?? 0));
  if (saved === undefined || saved.head.seq === 0 || index === -1) {
    return { index: 0, offset: 0, walk: fromBegin() };
  }
  const back = stepBack(files, bytesMin);
  if (back.index > index || (back.index === index && back.offset >= saved.size)) {
    const { seq, prev, tree, logId } = saved.head;
    return { index, offset: saved.size, walk: ChainWalk.fromWithin({ seq, prev }, tree.copy(), logId) };
  }
  const isBegin = back.index === 0 && back.offset === 0;
  return { ...back, walk: isBegin ? fromBegin() : ChainWalk.fromWithin() };
}

/** Returns the start of the first line that is at most `bytes` before the end of the last file. */
function stepBack(files: readonly DayFile[], bytes: number): { readonly index: number; readonly offset: number } {
  let left = bytes;
  for (let index = files.length - 1; index >= 0; index -= 1) {
    const { path, size } = files[index] ?? { path: "", size: 0 };
    if (size > left) {
      return { index, offset: nextLine(path, size - left) };
    }
    left -= size;
  }
  return { index: 0, offset: 0 };
}

function nextLine(path: string, offset: number): number {
  let next = offset;
  visitLines(path, offset, (_bytes, from, to) => {
    next += to - from + 1;
    return false;
  });
  return next;
}

/** The line at which a walk stopped, and the line before it. */
export interface Halt {
  readonly at: LinePosition;
  readonly before: LinePosition | undefined;
  /** Set when the line follows, but its timestamp does not belong to the day in the file's name. */
  readonly isOfOtherDay?: true;
}

/**
 * The position at which a walk starts, and whether the walk stops at a chained line whose timestamp belongs to another
 * day than the file.
 */
export interface WalkStart extends Pick<ChainStart, "index" | "offset"> {
  readonly checksDays?: true;
}

/** Bytes after the last line end of a file. */
export interface TornEnd {
  readonly index: number;
  readonly line: number;
  readonly bytes: number;
}

export interface WalkResult {
  readonly halt: Halt | undefined;
  readonly torn: readonly TornEnd[];
  /** Position after the last accepted line. */
  readonly end: Pick<LinePosition, "index" | "offset">;
}

/** Visits the lines of all files from a position on. Returns where `visit` returned `false`. */
export function walkFiles(files: readonly DayFile[], start: WalkStart, visit: LineVisit): WalkResult {
  return runToEnd(walkInSteps(files, start, visit));
}

/**
 * Does the same as `walkFiles`, with a pause after each step, during which no file is open. Yields the bytes of each
 * step.
 */
export function* walkInSteps(
  files: readonly DayFile[],
  { index: first, offset: begin, checksDays }: WalkStart,
  visit: LineVisit,
): Generator<number, WalkResult> {
  const torn: TornEnd[] = [];
  let before: LinePosition | undefined;
  let end = { index: first, offset: begin };
  for (let index = first; index < files.length; index += 1) {
    const { path, day } = files[index] ?? { path: "", day: "" };
    const offset = index === first ? begin : 0;
    const file = new FileWalk({ index, offset, before, day: checksDays === true ? day : undefined });
    while (!file.isOver) yield file.step(path, visit);
    before = file.before;
    end = { index, offset: file.offset };
    if (file.haltedAt !== undefined) {
      const halt = numbered(files, { at: file.haltedAt, before }, { first, begin });
      return { halt: file.isOfOtherDay ? { ...halt, isOfOtherDay: true } : halt, torn, end };
    }
    if (file.rest > 0) {
      torn.push({ index, line: file.lines + 1, bytes: file.rest });
    }
  }
  return { halt: undefined, torn, end };
}

/** Runs all steps without a pause. */
export function runToEnd<T>(steps: Generator<number, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) {
      return step.value;
    }
  }
}

interface FileWalkStart {
  readonly index: number;
  readonly offset: number;
  readonly before: LinePosition | undefined;
  readonly day: string | undefined;
}

/** One file of a walk. */
class FileWalk {
  readonly #index: number;
  /** `undefined` when days are not checked. */
  readonly #day: string | undefined;
  before: LinePosition | undefined;
  haltedAt: LinePosition | undefined;
  isOfOtherDay = false;
  offset: number;
  lines = 0;
  rest = 0;
  isOver = false;

  constructor({ index, offset, before, day }: FileWalkStart) {
    this.#index = index;
    this.#day = day;
    this.offset = offset;
    this.before = before;
  }

  /** Visits the lines of one step, at least one. Returns their bytes. */
  step(path: string, visit: LineVisit): number {
    const begin = this.offset;
    let isPause = false;
    this.rest = visitLines(path, begin, (bytes, start, end) => {
      isPause = this.offset - begin >= STEP_BYTES;
      // A line that is longer than the log ever writes arrives in pieces, of which only the last has a line end.
      if (isPause) return false;
      const isTaken = visit(bytes, start, end);
      this.isOfOtherDay = isTaken && this.#day !== undefined && isOfOtherDay(this.#day, bytes, [start, end]);
      return this.#take(isTaken && !this.isOfOtherDay, end - start + (bytes[end] === LINE_END ? 1 : 0));
    });
    this.isOver = !isPause;
    return this.offset - begin;
  }

  #take(isTaken: boolean, bytes: number): boolean {
    const place = { index: this.#index, offset: this.offset, line: this.lines };
    if (!isTaken) {
      this.haltedAt = place;
      return false;
    }
    this.before = place;
    this.offset += bytes;
    this.lines += 1;
    return true;
  }
}

/** Adds line numbers, which count from 1 at the start of the file. The walk may have started later in the file. */
function numbered(files: readonly DayFile[], halt: Halt, { first, begin }: { first: number; begin: number }): Halt {
  const skipped = begin === 0 ? 0 : lineEnds(files[first]?.path ?? "", begin);
  const number = (place: LinePosition): LinePosition => ({
    ...place,
    line: place.line + 1 + (place.index === first ? skipped : 0),
  });
  return { at: number(halt.at), before: halt.before && number(halt.before) };
}

const BLOCK_BYTES = 1_048_576;

function lineEnds(path: string, end: number): number {
  const fd = fs.openSync(path, "r");
  const block = Buffer.alloc(BLOCK_BYTES);
  let count = 0;
  try {
    for (let position = 0; position < end; ) {
      const length = fs.readSync(fd, block, 0, Math.min(BLOCK_BYTES, end - position), position);
      const read = block.subarray(0, length);
      for (let at = read.indexOf(LINE_END); at !== -1; at = read.indexOf(LINE_END, at + 1)) {
        count += 1;
      }
      position = length === 0 ? end : position + length;
    }
    return count;
  } finally {
    fs.closeSync(fd);
  }
}
