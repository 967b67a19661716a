import { Database } from "bun:sqlite";
import { closeSync, constants, existsSync, fchmodSync, openSync, rmSync } from "node:fs";
import { join } from "node:path";

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
export interface IndexedDay {
  readonly ino: number;
  /** Bytes: the end of the last line that it knows. */
  readonly indexed: number;
  /** Hash of that line: the file must still hold it there. */
  readonly line: string;
}

/** In which blocks of which day a key stands. Everything throws when the file is busy or broken; who uses it does without then. */
export class IndexFile {
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

export interface Addition {
  /** What the day's `indexed` must be right now. */
  readonly before: number;
  readonly after: IndexedDay;
  /** Each once, ascending: so they are appended. */
  readonly places: readonly (readonly [key: number, block: number])[];
}

export function hasIndex(dir: string): boolean {
  return existsSync(join(dir, INDEX_FILE));
}

/** Takes a broken index, or one of another version, away. For who opens it anew. */
export function removeIndex(dir: string): void {
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
