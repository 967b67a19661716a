import { Database } from "bun:sqlite";
import { closeSync, constants, existsSync, fchmodSync, fstatSync, openSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { LINE_BYTES_MAX } from "../entry.ts";
import { type Chunk, daysIn, type OpenDayFile, type Range, readChunk, withDay } from "../journal/day-files.ts";
import type { Filter } from "./filter.ts";
import {
  COLUMNS_VERSION,
  keysWanted,
  type LineRows,
  type PackedRows,
  packLines,
  rowTest,
  SEGMENT_BYTES,
  segmentAt,
  traceTest,
  unpackRows,
} from "./line-rows.ts";
import type { Order } from "./params.ts";

/** Minimum size of a large log: all days together, in bytes. */
const LARGE_BYTES_MIN = 16_777_216;
const TAIL_BYTES = 512;
const CHECK_BYTES = 8;

/**
 * Keeps the rows of the log's lines, one for each line, in `index.sqlite`. It is derived from the log alone and never
 * trusted: rows are counted only while the bytes of their segment have the same hash, and lines found by them are read
 * and compared with the filter. When the index is missing, busy, broken or from another file, everything is read.
 */
export class LineIndex {
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

  /** True when there is an index to search. */
  get isOpen(): boolean {
    return this.#db !== undefined;
  }

  /**
   * Returns the parts of a range in which lines that match the filter can start, in the order of the query. An empty
   * part means that, in this order, no line up to its offset can match.
   */
  narrow(file: OpenDayFile, range: Range, filter: Filter, order: Order): Iterable<Range> {
    const isNarrowed = Object.keys(filter.exact).length > 0;
    const isUsable = isNarrowed && this.#attempt(false, (db) => isKnown(db, file));
    return isUsable ? this.#narrowed(file.day, range, filter, order) : [range];
  }

  /** Returns the rows of a segment: the stored ones if its bytes have their hash. Stores what had to be parsed. */
  rowsOf(file: OpenDayFile, at: number, buffer: Buffer): LineRows {
    const before = stateOf(file);
    const chunk = readChunk(file, segmentAt(at), buffer);
    if (!isWhole(file, at)) return unpackRows(packLines(chunk).rows);
    const [day, digest] = [file.day, digestOf(chunk)];
    const stored = this.#attempt(undefined, (db) => rowsIn(db, { day, at }, digest));
    if (stored !== undefined) return stored;
    const packed = packLines(chunk);
    this.#attempt(undefined, (db) => store(db, file, { at, before, digest, packed }));
    return unpackRows(packed.rows);
  }

  /**
   * Indexes what is not indexed yet, newest day first, one segment at a time. Yields the bytes of each; the caller
   * decides when to stop.
   */
  *extend(): Generator<number, void> {
    if (!this.isOpen) return;
    const days = readableDays(this.#dir);
    this.#attempt(undefined, (db) => {
      const rows = db.query<{ readonly day: string }, []>("SELECT day FROM days").all();
      for (const { day } of rows) if (!days.includes(day)) forget(db, day);
    });
    for (const day of days.toReversed()) {
      const known = this.#known(day);
      for (let at = 0; ; at += 1) {
        if (known.has(at)) continue;
        const bytes = this.#indexSegment(day, at);
        if (bytes === 0) break;
        yield bytes;
      }
    }
  }

  close(): void {
    this.#db?.close();
    this.#db = undefined;
  }

  *#narrowed(day: string, range: Range, filter: Filter, order: Order): Generator<Range, void> {
    const first = Math.floor(range.from / SEGMENT_BYTES);
    const last = Math.ceil(range.to / SEGMENT_BYTES) - 1;
    for (let step = 0; step <= last - first; step += 1) {
      const at = order === "oldest" ? first + step : last - step;
      const segment = segmentAt(at);
      const part = { from: Math.max(range.from, segment.from), to: Math.min(range.to, segment.to) };
      const offsets = this.#attempt(undefined, (db) => offsetsIn(db, { day, at }, filter));
      if (offsets === undefined) {
        yield part;
        continue;
      }
      const starts = offsets.map((offset) => segment.from + offset);
      for (const from of order === "oldest" ? starts : starts.toReversed()) {
        if (from >= part.from && from < part.to) yield { from, to: from + 1 };
      }
      const end = order === "oldest" ? part.to : part.from;
      yield { from: end, to: end };
    }
  }

  /** Returns the segments of a day that are indexed. Forgets them when they are those of another file. */
  #known(day: string): ReadonlySet<number> {
    const known = this.#read(day, (file, db) => {
      if (!isKnown(db, file)) forget(db, day);
      return db.query<{ readonly at: number }, [string]>("SELECT at FROM segments WHERE day = ?").all(day);
    });
    return new Set(known?.map(({ at }) => at));
  }

  /** Returns the number of bytes that were indexed; 0 when the segment is not complete or indexing fails. */
  #indexSegment(day: string, at: number): number {
    const bytes = this.#read(day, (file, db) => {
      if (!isWhole(file, at)) return 0;
      const before = stateOf(file);
      const chunk = readChunk(file, segmentAt(at));
      store(db, file, { at, before, digest: digestOf(chunk), packed: packLines(chunk) });
      return SEGMENT_BYTES;
    });
    return bytes ?? 0;
  }

  #read<T>(day: string, work: (file: OpenDayFile, db: Database) => T): T | undefined {
    try {
      return withDay(this.#dir, day, (file) => this.#attempt(undefined, (db) => work(file, db)));
    } catch {
      // A query that needs the unreadable file reports the reason.
      return undefined;
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

/** True when everything that is read for a segment is in the file: lines added later do not change its rows. */
function isWhole({ size }: OpenDayFile, at: number): boolean {
  return segmentAt(at).to + LINE_BYTES_MAX < size;
}

/** Returns a hash of all bytes read for a segment. It detects accidental changes; `stc audit verify` detects forgeries. */
function digestOf({ bytes }: Chunk): string {
  return Bun.hash.xxHash3(bytes).toString(36);
}

/** Facts that identify a day file and its state, to detect that it is not the indexed one. */
interface FileState {
  readonly ino: number;
  readonly size: number;
  /** Time of the last change to the file or its metadata, in nanoseconds. */
  readonly changed: string;
}

interface KnownDay extends FileState {
  /** End of the last indexed segment, in bytes. */
  readonly indexed: number;
  /** Hash of the bytes before that end: a file that has grown must still contain them there. */
  readonly tail: string;
}

/** Returns the current state: lines may have been added since the file was opened. */
function stateOf({ fd, ino }: OpenDayFile): FileState {
  const { size, ctimeNs } = fstatSync(fd, { bigint: true });
  return { ino, size: Number(size), changed: String(ctimeNs) };
}

function knownDay(db: Database, day: string): KnownDay | undefined {
  return db.query<KnownDay, [string]>("SELECT * FROM days WHERE day = ?").get(day) ?? undefined;
}

/**
 * Returns true when the file is the indexed one, unchanged or with more bytes after those that were indexed. Otherwise
 * its day is unknown from now on, whatever is added to the file later.
 */
function isKnown(db: Database, file: OpenDayFile): boolean {
  const known = knownDay(db, file.day);
  if (known === undefined) return false;
  const { ino, size, changed, indexed, tail } = known;
  const now = stateOf(file);
  const isSame = size === now.size ? changed === now.changed : indexed <= file.size && tailOf(file, indexed) === tail;
  if (ino === file.ino && isSame) return true;
  db.query("DELETE FROM days WHERE day = ?").run(file.day);
  return false;
}

function tailOf(file: OpenDayFile, end: number): string {
  const from = Math.max(0, end - TAIL_BYTES);
  const { base, bytes } = readChunk(file, { from, to: end });
  return Bun.hash.xxHash3(bytes.subarray(from - base, end - base)).toString(36);
}

interface SegmentKey {
  readonly day: string;
  readonly at: number;
}

interface Segment {
  readonly at: number;
  /** State of the file before the segment was read. */
  readonly before: FileState;
  readonly digest: string;
  readonly packed: PackedRows;
}

function store(db: Database, file: OpenDayFile, { at, before, digest, packed }: Segment): void {
  const { day } = file;
  const origin = `${day} ${at} ${digest}`;
  db.transaction(() => {
    if (!isKnown(db, file)) forget(db, day);
    const indexedEnd = Math.max(segmentAt(at).to, knownDay(db, day)?.indexed ?? 0);
    const { ino, size, changed } = before;
    db.query("INSERT OR REPLACE INTO days VALUES (?, ?, ?, ?, ?, ?)").run(
      day,
      ino,
      size,
      changed,
      indexedEnd,
      tailOf(file, indexedEnd),
    );
    const insert = db.query("INSERT OR REPLACE INTO segments VALUES (?, ?, ?, ?, ?)");
    insert.run(day, at, digest, sealed(packed.keys, origin), sealed(packed.rows, origin));
  }).immediate();
}

function forget(db: Database, day: string): void {
  db.transaction(() => {
    db.query("DELETE FROM segments WHERE day = ?").run(day);
    db.query("DELETE FROM days WHERE day = ?").run(day);
  }).immediate();
}

interface Stored {
  readonly digest: string;
  readonly bytes: Uint8Array;
}

/** @throws when the bytes are not those that were stored: SQLite does not notice every damage. */
function storedIn(db: Database, column: "keys" | "rows", { day, at }: SegmentKey): Stored | undefined {
  const sql = `SELECT digest, ${column} AS bytes FROM segments WHERE day = ? AND at = ?`;
  const stored = db.query<Stored, [string, number]>(sql).get(day, at);
  if (stored === null) return undefined;
  const { digest } = stored;
  const bytes = stored.bytes.slice(0, -CHECK_BYTES);
  const check = stored.bytes.subarray(bytes.length);
  if (checkOf(bytes, `${day} ${at} ${digest}`).compare(check) !== 0) throw new Error("the index is damaged");
  return { digest, bytes };
}

/** Returns the rows of a segment, `undefined` when it is not indexed or was indexed from other bytes. */
function rowsIn(db: Database, key: SegmentKey, digest: string): LineRows | undefined {
  const stored = storedIn(db, "rows", key);
  return stored?.digest === digest ? unpackRows(stored.bytes) : undefined;
}

/** Returns where the matching lines of a segment start, in ascending order; `undefined` when it is not indexed. */
function offsetsIn(db: Database, key: SegmentKey, filter: Filter): readonly number[] | undefined {
  const stored = storedIn(db, "keys", key);
  if (stored === undefined) return undefined;
  const keys = new Uint32Array(stored.bytes.buffer);
  if (!keysWanted(filter).every((wanted) => keys.includes(wanted))) return [];
  const rows = rowsIn(db, key, stored.digest);
  if (rows === undefined) return undefined;
  const [isWanted, hasTrace] = [rowTest(rows, filter), traceTest(keys, filter)];
  const offsets: number[] = [];
  for (let row = 0; isWanted !== undefined && row < rows.size; row += 1) {
    if (hasTrace(row) && isWanted(row)) offsets.push(rows.offsets[row] ?? 0);
  }
  return offsets;
}

/** Appends a hash of the bytes and of their origin, which is the day, the segment and its digest. */
function sealed(bytes: Uint8Array, origin: string): Uint8Array {
  return Buffer.concat([bytes, checkOf(bytes, origin)]);
}

function checkOf(bytes: Uint8Array, origin: string): Buffer {
  const check = Buffer.alloc(CHECK_BYTES);
  check.writeBigUInt64BE(Bun.hash.xxHash3(bytes, BigInt(Bun.hash.xxHash32(origin))));
  return check;
}

/** Name of the index file in the audit directory. It is derived from the log alone: deleting it only costs time. */
const INDEX_FILE = "index.sqlite";
/** Raised when the tables or the meaning of a column change. */
const LAYOUT = 4;
const VERSION = COLUMNS_VERSION ^ LAYOUT;
/** Neither readers nor the log wait longer for the index: a busy index is not used. */
const BUSY_MS = 50;
const PRIVATE_FILE_MODE = 0o600;
const { O_CREAT, O_NOFOLLOW, O_RDWR } = constants;

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS days (
    day TEXT PRIMARY KEY, ino INTEGER NOT NULL, size INTEGER NOT NULL, changed TEXT NOT NULL,
    indexed INTEGER NOT NULL, tail TEXT NOT NULL
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS segments (
    day TEXT NOT NULL, at INTEGER NOT NULL, digest TEXT NOT NULL, keys BLOB NOT NULL, rows BLOB NOT NULL,
    PRIMARY KEY (day, at)
  );
  PRAGMA user_version = ${VERSION};
`;
/** A segment is some 50 KB: larger pages are read faster. */
const PAGE_BYTES = 16_384;

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
    db.run(`PRAGMA page_size = ${PAGE_BYTES}`);
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
