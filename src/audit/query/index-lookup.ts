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
  #db: Database | undefined;
  #isRenewed = false;

  constructor(dir: string) {
    this.#dir = dir;
    try {
      const isWanted = existsSync(join(dir, INDEX_FILE)) || isLarge(dir);
      this.#db = isWanted ? openCurrent(join(dir, INDEX_FILE)) : undefined;
    } catch (error) {
      if (!isBusy(error)) this.#renew();
    }
  }

  narrow(file: OpenDayFile, range: Range, { filter }: Matcher): readonly Range[] {
    const keys = keysWanted(filter);
    if (keys.length === 0) return [range];
    return this.#attempt([range], (db) => {
      const known = knownDay(db, file);
      if (known === undefined) return [range];
      const lists = keys.map((key) => blocksOf(db, key, file.day));
      return narrowed(range, common(lists), known.indexed);
    });
  }

  /**
   * Indexes what is not indexed yet, newest day first, one step at a time. Yields the bytes of each step; the caller
   * decides when to stop.
   */
  *extend(): Generator<number, void> {
    const days = readableDays(this.#dir);
    this.#attempt(undefined, (db) => {
      const rows = db.query<{ readonly day: string }, []>("SELECT day FROM days").all();
      for (const { day } of rows) if (!days.includes(day)) forget(db, day);
    });
    for (const day of days.toReversed()) {
      for (let bytes = this.#step(day); bytes > 0; bytes = this.#step(day)) yield bytes;
    }
  }

  /** True when there is an index to search. */
  get isOpen(): boolean {
    return this.#db !== undefined;
  }

  close(): void {
    this.#db?.close();
    this.#db = undefined;
  }

  /** Returns the number of bytes that were indexed; 0 when there is nothing to index or indexing fails. */
  #step(day: string): number {
    try {
      return withDay(this.#dir, day, (file) => this.#attempt(0, (db) => indexStep(db, file))) ?? 0;
    } catch {
      // A query that needs the unreadable file reports the reason.
      return 0;
    }
  }

  /** Returns the result of the work; `otherwise` without an index, or when it fails. */
  #attempt<T>(otherwise: T, work: (db: Database) => T): T {
    if (this.#db === undefined) return otherwise;
    try {
      return work(this.#db);
    } catch (error) {
      // A busy index is not used this time; a broken one is deleted and created again, once.
      if (!isBusy(error)) this.#replace();
      return otherwise;
    }
  }

  #replace(): void {
    try {
      this.close();
    } catch {
      this.#db = undefined;
    }
    if (!this.#isRenewed) this.#renew();
    this.#isRenewed = true;
  }

  #renew(): void {
    try {
      for (const suffix of ["", "-wal", "-shm"]) rmSync(join(this.#dir, `${INDEX_FILE}${suffix}`), { force: true });
      this.#db = openCurrent(join(this.#dir, INDEX_FILE));
    } catch {
      // Without an index, everything is read.
    }
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

/** Indexes the next part of a day. Returns its bytes; 0 when the rest is too short. */
function indexStep(db: Database, file: OpenDayFile): number {
  const before = knownDay(db, file)?.indexed ?? 0;
  if (before === 0 && indexedDay(db, file.day) !== undefined) forget(db, file.day);
  if (file.size - before < STEP_BYTES_MIN) return 0;
  const chunk = readChunk(file, { from: before, to: before + STEP_BYTES });
  // Numbers that sort by key, then by block: inserts without duplicates and in ascending order append.
  const slots = new Set<number>();
  const firstBlock = Math.floor(before / BLOCK_BYTES);
  let indexed = before;
  for (const { offset, end, line } of linesOf(chunk)) {
    indexed = end;
    const members = parseLine(line);
    const entry = members && viewOf(members);
    const block = Math.floor(offset / BLOCK_BYTES) - firstBlock;
    for (const key of entry === undefined ? [] : keysOf(entry)) slots.add(key * BLOCKS_MAX + block);
  }
  if (indexed === before) return 0;
  const { day, ino } = file;
  const line = lastLineHash(file, indexed);
  const insert = db.query("INSERT INTO blocks VALUES (?, ?, ?)");
  db.transaction(() => {
    // Another process may have indexed the step already.
    if ((indexedDay(db, day)?.indexed ?? 0) !== before) return;
    const segment = db.query("INSERT INTO segments (day) VALUES (?)").run(day).lastInsertRowid;
    for (const slot of Float64Array.from(slots).sort()) {
      insert.run(segment, Math.floor(slot / BLOCKS_MAX), firstBlock + (slot % BLOCKS_MAX));
    }
    db.query("INSERT OR REPLACE INTO days VALUES (?, ?, ?, ?)").run(day, ino, indexed, line);
  }).immediate();
  return indexed - before;
}

/** The indexed part of a day file. */
interface IndexedDay {
  readonly ino: number;
  /** End of the last indexed line, in bytes. */
  readonly indexed: number;
  /** Hash of the bytes before that end: the file must still contain them there. */
  readonly line: string;
}

function indexedDay(db: Database, day: string): IndexedDay | undefined {
  return db.query<IndexedDay, [string]>("SELECT ino, indexed, line FROM days WHERE day = ?").get(day) ?? undefined;
}

/** Returns `undefined` when the index has no entry for this file, or was built from another file of the same name. */
function knownDay(db: Database, file: OpenDayFile): IndexedDay | undefined {
  const known = indexedDay(db, file.day);
  if (known === undefined || known.ino !== file.ino || known.indexed > file.size) return undefined;
  return lastLineHash(file, known.indexed) === known.line ? known : undefined;
}

/** Returns the blocks of a day that contain a key, in ascending order. */
function blocksOf(db: Database, key: number, day: string): readonly number[] {
  const rows = db.query<{ readonly block: number }, [number, string]>(
    "SELECT b.block FROM segments s CROSS JOIN blocks b ON b.segment = s.id AND b.key = ? WHERE s.day = ? ORDER BY b.block",
  );
  return rows.all(key, day).map(({ block }) => block);
}

function forget(db: Database, day: string): void {
  db.transaction(() => {
    db.query("DELETE FROM blocks WHERE segment IN (SELECT id FROM segments WHERE day = ?)").run(day);
    db.query("DELETE FROM segments WHERE day = ?").run(day);
    db.query("DELETE FROM days WHERE day = ?").run(day);
  }).immediate();
}

/**
 * Returns a hash of the last bytes before `end`. They include the chain's hash, so two files with the same last bytes
 * have the same contents before them.
 */
function lastLineHash(file: OpenDayFile, end: number): string {
  const from = Math.max(0, end - HASHED_BYTES);
  const { base, bytes } = readChunk(file, { from, to: end });
  return hash("sha256", bytes.subarray(from - base, end - base));
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

/**
 * Opens the index file. Creates it, with access for this user only, when it is missing.
 *
 * @throws when the file is busy, broken or of another version.
 */
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
