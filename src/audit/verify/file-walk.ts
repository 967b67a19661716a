import fs from "node:fs";
import { readLink } from "../chain/chain.ts";
import { ChainWalk } from "../chain/chain-walk.ts";
import { type DayFile, type LineVisit, visitLines } from "../journal/line-files.ts";
import type { SavedStream } from "../journal/saved-position.ts";
import { readLastLine } from "../journal/torn-tail.ts";
import { isOfOtherDay } from "../query/day-bounds.ts";
import type { LinePosition } from "./damage.ts";

/** What a walk that pauses reads between two pauses: some milliseconds of hashing. */
const STEP_BYTES = 1_048_576;
const LINE_END = 0x0a;

/** Where a walk begins. */
export interface ChainStart {
  /** Of the file, among the stream's. */
  readonly index: number;
  readonly offset: number;
  readonly walk: ChainWalk;
}

interface StartQuery {
  /** A walk over all that there is. */
  readonly fromBegin: () => ChainWalk;
  readonly saved: SavedStream | undefined;
  readonly bytesMin: number;
}

/** Whether the newest line has a link, so that there is a chain to go on with. */
export function endsChained(files: readonly DayFile[]): boolean {
  const newest = files.findLast(({ size }) => size > 0);
  const line = Buffer.from(newest === undefined ? "" : (readLastLine(newest.path) ?? ""));
  return readLink(line, 0, line.length) !== undefined;
}

/** From the saved place on, or from farther back when less than `bytesMin` stand behind it; without one, from the begin. */
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

/** The begin of the first line that stands at most `bytes` before the end of the last file. */
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

/** The line at which a visit ended, and the one before it. */
export interface Halt {
  readonly at: LinePosition;
  readonly before: LinePosition | undefined;
  /** The line was taken, but its timestamp is not of the day in the file's name. */
  readonly isOfOtherDay?: true;
}

/** Where a walk starts, and whether it halts at a chained line whose timestamp is not of its file's day. */
export interface WalkStart extends Pick<ChainStart, "index" | "offset"> {
  readonly checksDays?: true;
}

/** What stands after the last line end of a file. */
export interface TornEnd {
  readonly index: number;
  readonly line: number;
  readonly bytes: number;
}

export interface WalkResult {
  readonly halt: Halt | undefined;
  readonly torn: readonly TornEnd[];
  /** Behind the last line that was taken. */
  readonly end: Pick<LinePosition, "index" | "offset">;
}

/** Shows the lines of all files from a place on; tells where `visit` said `false`. */
export function walkFiles(files: readonly DayFile[], start: WalkStart, visit: LineVisit): WalkResult {
  return runToEnd(walkInSteps(files, start, visit));
}

/** The same with a pause after each step, in which no file is open. Yields the bytes of the step. */
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

/** Takes all steps at once. */
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
  /** `undefined` when dates are not checked. */
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

  /** Lines of a step's bytes, at least one. Returns the bytes. */
  step(path: string, visit: LineVisit): number {
    const begin = this.offset;
    let isPause = false;
    this.rest = visitLines(path, begin, (bytes, start, end) => {
      isPause = this.offset - begin >= STEP_BYTES;
      // A line that is longer than any of ours comes in pieces, of which the last alone has a line end.
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

/** Line numbers count from 1 and from the file's begin, which the walk may not have seen. */
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
