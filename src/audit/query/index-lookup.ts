import { hash } from "node:crypto";
import { statSync } from "node:fs";
import { join } from "node:path";
import { daysIn, type Range, withDay } from "./days.ts";
import type { Matcher } from "./filter.ts";
import { type Addition, hasIndex, type IndexedDay, IndexFile, removeIndex } from "./index-file.ts";
import { keysOf, keysWanted } from "./index-keys.ts";
import type { Places } from "./query.ts";
import { type DayFile, linesOf, readChunk } from "./scan.ts";
import { parseLine, viewOf } from "./view.ts";

/** The index says in which block of a file a line begins. */
const BLOCK_BYTES = 262_144;
/** What is indexed in one transaction. */
const STEP_BYTES = 8 * BLOCK_BYTES;
/** A shorter end of a file is read as it is. */
const STEP_BYTES_MIN = BLOCK_BYTES;
/** Blocks in which the lines of one step can begin. */
const BLOCKS_MAX = 16;
/** Of all days together. */
const LARGE_BYTES_MIN = 67_108_864;
const HASHED_BYTES = 512;

/**
 * Narrows a search to the blocks in which its values stand. It is never trusted: a day whose file is not the one that was
 * indexed is read whole, so is what was written since, and every line that comes of it was compared with the filter. When the
 * index is missing, busy or broken, everything is read.
 */
export class IndexLookup implements Places {
  readonly #dir: string;
  #file: IndexFile | undefined;
  #isRenewed = false;

  constructor(dir: string) {
    this.#dir = dir;
    this.#file = this.#open();
  }

  narrow(file: DayFile, range: Range, { filter }: Matcher): readonly Range[] {
    const keys = keysWanted(filter);
    const index = this.#file;
    if (index === undefined || keys.length === 0) return [range];
    try {
      const known = knownDay(index, file);
      if (known === undefined) return [range];
      const lists = keys.map((key) => index.blocks(key, file.day));
      return narrowed(range, common(lists), known.indexed);
    } catch (error) {
      this.#fail(error);
      return [range];
    }
  }

  /**
   * Indexes what is not indexed yet, newest day first, a step at a time. Yields the bytes of each step; whoever drives it
   * decides how long.
   */
  *extend(): Generator<number, void> {
    const days = readableDays(this.#dir);
    this.#forgetAllBut(days);
    for (const day of days.toReversed()) {
      for (;;) {
        const bytes = this.#stepOf(day);
        if (bytes === 0) break;
        yield bytes;
      }
    }
  }

  /** Whether there is anything to look up in. */
  get isOpen(): boolean {
    return this.#file !== undefined;
  }

  close(): void {
    this.#file?.close();
    this.#file = undefined;
  }

  /** Files that were deleted need no index. */
  #forgetAllBut(days: readonly string[]): void {
    try {
      for (const day of this.#file?.days() ?? []) if (!days.includes(day)) this.#file?.forget(day);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** What cannot be read is not indexed; who asks for it hears why. */
  #stepOf(day: string): number {
    try {
      return withDay(this.#dir, day, (file) => this.#step(file)) ?? 0;
    } catch {
      return 0;
    }
  }

  /** Bytes that were indexed; 0 when there is nothing to do, or nothing can be done. */
  #step(file: DayFile): number {
    const index = this.#file;
    if (index === undefined) return 0;
    try {
      const known = knownDay(index, file);
      const before = known?.indexed ?? 0;
      if (known === undefined && index.day(file.day) !== undefined) index.forget(file.day);
      if (file.size - before < STEP_BYTES_MIN) return 0;
      const addition = readStep(file, before);
      if (addition === undefined) return 0;
      index.add(file.day, addition);
      return addition.after.indexed - before;
    } catch (error) {
      this.#fail(error);
      return 0;
    }
  }

  #open(): IndexFile | undefined {
    try {
      return hasIndex(this.#dir) || isLarge(this.#dir) ? new IndexFile(this.#dir) : undefined;
    } catch (error) {
      return isBusy(error) ? undefined : this.#openAnew();
    }
  }

  #openAnew(): IndexFile | undefined {
    try {
      removeIndex(this.#dir);
      return new IndexFile(this.#dir);
    } catch {
      return undefined;
    }
  }

  /** A busy index is done without this time; a broken one is taken away and begun anew, once. */
  #fail(error: unknown): void {
    if (isBusy(error)) return;
    try {
      this.close();
    } catch {
      this.#file = undefined;
    }
    if (this.#isRenewed) return;
    this.#isRenewed = true;
    this.#file = this.#openAnew();
  }
}

/** What cannot be read is not indexed. */
function readableDays(dir: string): readonly string[] {
  try {
    return daysIn(dir);
  } catch {
    return [];
  }
}

/** A small log is read as fast without, and a directory that is only looked at stays as it is. */
function isLarge(dir: string): boolean {
  let bytes = 0;
  for (const day of readableDays(dir))
    bytes += statSync(join(dir, `${day}.jsonl`), { throwIfNoEntry: false })?.size ?? 0;
  return bytes >= LARGE_BYTES_MIN;
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && "code" in error && String(error.code).startsWith("SQLITE_BUSY");
}

/** `undefined` when the index does not know this file, or knows another one of its name. */
function knownDay(index: IndexFile, file: DayFile): IndexedDay | undefined {
  const known = index.day(file.day);
  if (known === undefined || known.ino !== file.ino || known.indexed > file.size) return undefined;
  return lastLineHash(file, known.indexed) === known.line ? known : undefined;
}

/** Of the last bytes before `end`: with the chain's hash among them, two files that share them share everything before. */
function lastLineHash(file: DayFile, end: number): string {
  const from = Math.max(0, end - HASHED_BYTES);
  const { base, bytes } = readChunk(file, { from, to: end }, Buffer.alloc(0));
  return hash("sha256", bytes.subarray(from - base, end - base));
}

function readStep(file: DayFile, before: number): Addition | undefined {
  const chunk = readChunk(file, { from: before, to: before + STEP_BYTES }, Buffer.alloc(0));
  const places = new Set<number>();
  const firstBlock = Math.floor(before / BLOCK_BYTES);
  let indexed = before;
  for (const { offset, end, line } of linesOf(chunk)) {
    indexed = end;
    const members = parseLine(line);
    const entry = members && viewOf(members);
    if (entry === undefined) continue;
    const block = Math.floor(offset / BLOCK_BYTES) - firstBlock;
    for (const key of keysOf(entry)) places.add(key * BLOCKS_MAX + block);
  }
  if (indexed === before) return undefined;
  const sorted = Float64Array.from(places).sort();
  const pairs = Array.from(sorted, (place): readonly [number, number] => [
    Math.floor(place / BLOCKS_MAX),
    firstBlock + (place % BLOCKS_MAX),
  ]);
  return { before, places: pairs, after: { ino: file.ino, indexed, line: lastLineHash(file, indexed) } };
}

/** Blocks that stand in every list. */
function common(lists: readonly (readonly number[])[]): readonly number[] {
  const [first = [], ...others] = [...lists].sort((one, other) => one.length - other.length);
  const sets = others.map((list) => new Set(list));
  return first.filter((block) => sets.every((set) => set.has(block)));
}

/** The blocks, neighbours joined, and what the index does not know; all of it within the range. */
function narrowed(range: Range, blocks: readonly number[], indexed: number): readonly Range[] {
  const ranges: Range[] = [];
  const add = (from: number, to: number): void => {
    const within = { from: Math.max(from, range.from), to: Math.min(to, range.to) };
    if (within.from >= within.to) return;
    const last = ranges.at(-1);
    if (last !== undefined && last.to >= within.from) ranges[ranges.length - 1] = { from: last.from, to: within.to };
    else ranges.push(within);
  };
  for (const block of blocks) add(block * BLOCK_BYTES, Math.min(indexed, (block + 1) * BLOCK_BYTES));
  add(indexed, range.to);
  return ranges;
}
