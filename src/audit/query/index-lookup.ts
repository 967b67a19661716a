import { Database } from "bun:sqlite";
import { hash } from "node:crypto";
import { closeSync, constants, existsSync, fchmodSync, openSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { daysIn, linesOf, type OpenDayFile, type Range, readChunk, withDay } from "../journal/day-files.ts";
import type { Field, Filter, Matcher } from "./filter.ts";
import type { LineIndex } from "./query.ts";
import { type EntryView, parseLine, viewOf } from "./view.ts";

/** Size of a block: the index stores the block of a file in which a line starts. */
const BLOCK_BYTES = 262_144;
/** Bytes that are indexed in one transaction. */
const STEP_BYTES = 8 * BLOCK_BYTES;
/** A shorter end of a file is not indexed but read directly. */
const STEP_BYTES_MIN = BLOCK_BYTES;
/** Maximum number of blocks in which the lines of one step can start. */
const BLOCKS_MAX = 16;
/** Minimum size of a large log: all days together, in bytes. */
const LARGE_BYTES_MIN = 67_108_864;
const HASHED_BYTES = 512;

/**
 * Narrows a search to the blocks that contain its values. The index is never trusted: a day whose file is not the
 * indexed one is read completely, so are lines written since, and every line found is compared with the filter. When
 * the index is missing, busy or broken, everything is read.
 */
export class IndexLookup implements LineIndex {
  readonly #dir: string;
  #file: IndexFile | undefined;
  #isRenewed = false;

  constructor(dir: string) {
    this.#dir = dir;
    this.#file = this.#open();
  }

  narrow(file: OpenDayFile, range: Range, { filter }: Matcher): readonly Range[] {
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
   * Indexes what is not indexed yet, newest day first, one step at a time. Yields the bytes of each step; the caller
   * decides when to stop.
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

  /** True when there is an index to search. */
  get isOpen(): boolean {
    return this.#file !== undefined;
  }

  close(): void {
    this.#file?.close();
    this.#file = undefined;
  }

  /** Removes the index entries of deleted files. */
  #forgetAllBut(days: readonly string[]): void {
    try {
      for (const day of this.#file?.days() ?? []) if (!days.includes(day)) this.#file?.forget(day);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Indexes one step of a day. Skips an unreadable file: a query that needs it reports the reason. */
  #stepOf(day: string): number {
    try {
      return withDay(this.#dir, day, (file) => this.#step(file)) ?? 0;
    } catch {
      return 0;
    }
  }

  /** Returns the number of bytes that were indexed; 0 when there is nothing to index or indexing fails. */
  #step(file: OpenDayFile): number {
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

  /** Handles an index error. A busy index is not used this time; a broken one is deleted and created again, once. */
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

/** Returns the days to index; none when the directory cannot be read. */
function readableDays(dir: string): readonly string[] {
  try {
    return daysIn(dir);
  } catch {
    return [];
  }
}

/**
 * Returns true when the log is large enough for an index. A small log is as fast to read without one, and a directory
 * that is only read stays unchanged.
 */
function isLarge(dir: string): boolean {
  let bytes = 0;
  for (const day of readableDays(dir))
    bytes += statSync(join(dir, `${day}.jsonl`), { throwIfNoEntry: false })?.size ?? 0;
  return bytes >= LARGE_BYTES_MIN;
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && "code" in error && String(error.code).startsWith("SQLITE_BUSY");
}

/** Returns `undefined` when the index has no entry for this file, or was built from another file of the same name. */
function knownDay(index: IndexFile, file: OpenDayFile): IndexedDay | undefined {
  const known = index.day(file.day);
  if (known === undefined || known.ino !== file.ino || known.indexed > file.size) return undefined;
  return lastLineHash(file, known.indexed) === known.line ? known : undefined;
}

/**
 * Returns a hash of the last bytes before `end`. They include the chain's hash, so two files with the same last bytes
 * have the same contents before them.
 */
function lastLineHash(file: OpenDayFile, end: number): string {
  const from = Math.max(0, end - HASHED_BYTES);
  const { base, bytes } = readChunk(file, { from, to: end }, Buffer.alloc(0));
  return hash("sha256", bytes.subarray(from - base, end - base));
}

function readStep(file: OpenDayFile, before: number): Addition | undefined {
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

/** Returns the blocks that are in every list. */
function common(lists: readonly (readonly number[])[]): readonly number[] {
  const [first = [], ...others] = [...lists].sort((one, other) => one.length - other.length);
  const sets = others.map((list) => new Set(list));
  return first.filter((block) => sets.every((set) => set.has(block)));
}

/**
 * Returns the ranges to read within `range`: the blocks, with adjacent ones joined, and everything that is not indexed.
 */
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

/**
 * Indexed fields. Two values may share a key: the key only determines where to look, and the lines found there are
 * compared in full.
 */
const KEYED = ["traceId", "approval", "sub", "code", "tool", "system"] as const satisfies readonly Field[];

/** Returns the keys of one line. */
function keysOf(entry: EntryView): readonly number[] {
  const { traceId, wireTraceId, approvalId, sub, code, tool, system } = entry;
  return [
    ...keyOf("traceId", traceId),
    ...keyOf("traceId", wireTraceId),
    ...keyOf("approval", approvalId),
    ...keyOf("sub", sub),
    ...keyOf("code", code),
    ...keyOf("tool", tool),
    ...keyOf("system", system),
  ];
}

/** Returns the keys that every line matching the filter has. */
function keysWanted({ exact }: Filter): readonly number[] {
  return KEYED.flatMap((field) => keyOf(field, exact[field]));
}

function keyOf(field: (typeof KEYED)[number], value: string | undefined): readonly number[] {
  return value === undefined ? [] : [Bun.hash.xxHash32(`${field} ${value}`)];
}

/** Name of the index file in the audit directory. It is derived from the log alone: deleting it only costs time. */
const INDEX_FILE = "index.sqlite";
const VERSION = 1;
/** Neither readers nor the log wait longer for the index: a busy index is not used. */
const BUSY_MS = 50;
const PRIVATE_FILE_MODE = 0o600;
const { O_CREAT, O_NOFOLLOW, O_RDWR } = constants;

/**
 * Each addition is a segment of its own: keys are random, and a single tree of all keys would be rewritten with every
 * addition.
 */
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS days (
    day TEXT PRIMARY KEY, ino INTEGER NOT NULL, indexed INTEGER NOT NULL, line TEXT NOT NULL
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS segments (id INTEGER PRIMARY KEY, day TEXT NOT NULL);
  CREATE INDEX IF NOT EXISTS segments_by_day ON segments (day);
  CREATE TABLE IF NOT EXISTS blocks (
    segment INTEGER NOT NULL, key INTEGER NOT NULL, block INTEGER NOT NULL, PRIMARY KEY (segment, key, block)
  ) WITHOUT ROWID;
  PRAGMA user_version = ${VERSION};
`;

/** The indexed part of a day file. */
interface IndexedDay {
  readonly ino: number;
  /** End of the last indexed line, in bytes. */
  readonly indexed: number;
  /** Hash of the bytes before that end: the file must still contain them there. */
  readonly line: string;
}

/**
 * Stores which blocks of which day contain a key. Every method throws when the file is busy or broken; callers then
 * work without the index.
 */
class IndexFile {
  readonly #db: Database;

  /**
   * Opens the index file. Creates it, with access for this user only, when it is missing.
   *
   * @throws when the file has another version
   */
  constructor(dir: string) {
    this.#db = openCurrent(join(dir, INDEX_FILE));
  }

  day(day: string): IndexedDay | undefined {
    return (
      this.#db.query<IndexedDay, [string]>("SELECT ino, indexed, line FROM days WHERE day = ?").get(day) ?? undefined
    );
  }

  days(): readonly string[] {
    const rows = this.#db.query<{ readonly day: string }, []>("SELECT day FROM days").all();
    return rows.map(({ day }) => day);
  }

  /** Returns the blocks in ascending order. */
  blocks(key: number, day: string): readonly number[] {
    const rows = this.#db.query<{ readonly block: number }, [number, string]>(
      "SELECT b.block FROM segments s CROSS JOIN blocks b ON b.segment = s.id AND b.key = ? WHERE s.day = ? ORDER BY b.block",
    );
    return rows.all(key, day).map(({ block }) => block);
  }

  /** Adds the keys of one step in one transaction. Does nothing when another process has indexed the step already. */
  add(day: string, { before, after, places }: Addition): void {
    const insert = this.#db.query("INSERT INTO blocks VALUES (?, ?, ?)");
    this.#db
      .transaction(() => {
        if ((this.day(day)?.indexed ?? 0) !== before) return;
        const segment = this.#db.query("INSERT INTO segments (day) VALUES (?)").run(day).lastInsertRowid;
        for (const [key, block] of places) insert.run(segment, key, block);
        this.#db
          .query("INSERT OR REPLACE INTO days VALUES (?, ?, ?, ?)")
          .run(day, after.ino, after.indexed, after.line);
      })
      .immediate();
  }

  forget(day: string): void {
    this.#db
      .transaction(() => {
        this.#db.query("DELETE FROM blocks WHERE segment IN (SELECT id FROM segments WHERE day = ?)").run(day);
        this.#db.query("DELETE FROM segments WHERE day = ?").run(day);
        this.#db.query("DELETE FROM days WHERE day = ?").run(day);
      })
      .immediate();
  }

  close(): void {
    this.#db.close();
  }
}

interface Addition {
  /** Expected current value of the day's `indexed`. */
  readonly before: number;
  readonly after: IndexedDay;
  /** Without duplicates and in ascending order, so that inserts append. */
  readonly places: readonly (readonly [key: number, block: number])[];
}

function hasIndex(dir: string): boolean {
  return existsSync(join(dir, INDEX_FILE));
}

/** Deletes an index that is broken or of another version, so that it can be created again. */
function removeIndex(dir: string): void {
  for (const suffix of ["", "-wal", "-shm"]) rmSync(join(dir, `${INDEX_FILE}${suffix}`), { force: true });
}

function openCurrent(path: string): Database {
  // Creates the file with private permissions before SQLite opens it, so that no other user can ever read it.
  const fd = openSync(path, O_RDWR | O_CREAT | O_NOFOLLOW, PRIVATE_FILE_MODE);
  try {
    fchmodSync(fd, PRIVATE_FILE_MODE);
  } finally {
    closeSync(fd);
  }
  const db = new Database(path, { readwrite: true, create: false, strict: true });
  try {
    db.run(`PRAGMA busy_timeout = ${BUSY_MS}`);
    db.run("PRAGMA journal_mode = WAL");
    db.run("PRAGMA synchronous = NORMAL");
    const version = db.query<{ readonly user_version: number }, []>("PRAGMA user_version").get()?.user_version ?? 0;
    if (version !== 0 && version !== VERSION) throw new Error(`an index of version ${version}`);
    if (version === 0) db.run(SCHEMA);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}
