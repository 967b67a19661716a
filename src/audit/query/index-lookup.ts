import { Database } from "bun:sqlite";
import { hash } from "node:crypto";
import { closeSync, constants, existsSync, fchmodSync, openSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { daysIn, type Range, withDay } from "./days.ts";
import type { Field, Filter, Matcher } from "./filter.ts";
import type { LineIndex } from "./query.ts";
import { linesOf, type OpenDayFile, readChunk } from "./scan.ts";
import { type EntryView, parseLine, viewOf } from "./view.ts";

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
function knownDay(index: IndexFile, file: OpenDayFile): IndexedDay | undefined {
  const known = index.day(file.day);
  if (known === undefined || known.ino !== file.ino || known.indexed > file.size) return undefined;
  return lastLineHash(file, known.indexed) === known.line ? known : undefined;
}

/** Of the last bytes before `end`: with the chain's hash among them, two files that share them share everything before. */
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

/** Fields that are indexed. Two values may share a key: it only says where to look, and what is found there is compared in full. */
const KEYED = ["traceId", "approval", "sub", "code", "tool", "system"] as const satisfies readonly Field[];

/** The keys of one line. */
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

/** Every line that the filter lets through has all of them. */
function keysWanted({ exact }: Filter): readonly number[] {
  return KEYED.flatMap((field) => keyOf(field, exact[field]));
}

function keyOf(field: (typeof KEYED)[number], value: string | undefined): readonly number[] {
  return value === undefined ? [] : [Bun.hash.xxHash32(`${field} ${value}`)];
}

/** Name of the index in the audit directory. It is made of the log alone: deleting it loses nothing but time. */
const INDEX_FILE = "index.sqlite";
const VERSION = 1;
/** Both readers and the log wait for nobody: an index that is busy is done without. */
const BUSY_MS = 50;
const PRIVATE_FILE_MODE = 0o600;
const { O_CREAT, O_NOFOLLOW, O_RDWR } = constants;

/** What is added at once is a segment of its own: keys are random, and one tree of all of them would be rewritten with every addition. */
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

/** How far the index knows a day's file. */
interface IndexedDay {
  readonly ino: number;
  /** Bytes: the end of the last line that it knows. */
  readonly indexed: number;
  /** Hash of that line: the file must still hold it there. */
  readonly line: string;
}

/** In which blocks of which day a key stands. Everything throws when the file is busy or broken; who uses it does without then. */
class IndexFile {
  readonly #db: Database;

  /** Makes the file, for us alone, when it is missing or of another version. */
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

  /** Ascending. */
  blocks(key: number, day: string): readonly number[] {
    const rows = this.#db.query<{ readonly block: number }, [number, string]>(
      "SELECT b.block FROM segments s CROSS JOIN blocks b ON b.segment = s.id AND b.key = ? WHERE s.day = ? ORDER BY b.block",
    );
    return rows.all(key, day).map(({ block }) => block);
  }

  /** All or nothing, and only when nobody else was faster. */
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
  /** What the day's `indexed` must be right now. */
  readonly before: number;
  readonly after: IndexedDay;
  /** Each once, ascending: so they are appended. */
  readonly places: readonly (readonly [key: number, block: number])[];
}

function hasIndex(dir: string): boolean {
  return existsSync(join(dir, INDEX_FILE));
}

/** Takes a broken index, or one of another version, away. For who opens it anew. */
function removeIndex(dir: string): void {
  for (const suffix of ["", "-wal", "-shm"]) rmSync(join(dir, `${INDEX_FILE}${suffix}`), { force: true });
}

function openCurrent(path: string): Database {
  // Made by us, so that it is nobody else's to read from its first byte on.
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
