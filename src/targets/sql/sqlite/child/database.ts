import { Database, type Statement } from "bun:sqlite";
import type { Request, SentChange, SentRows } from "../protocol.ts";
import { CollectedRows } from "./sent-rows.ts";
import { countOf, ROWS, wrapped } from "./statement.ts";
import { CellReader, cut, plainText, valuesOf } from "./values.ts";

const STATEMENTS_MAX = 200;

type Row = Readonly<Record<string, unknown>>;

/** A database that is open for reading, or for changing: its transactions. */
export class OpenDatabase {
  /** The driver's connection. */
  readonly connection: Database;
  readonly #mayChange: boolean;
  readonly #statements = new Map<string, Statement>();
  readonly #reader: CellReader;
  #digest: { readonly version: string; readonly digest: string } | undefined;

  constructor({ file, mayChange, isWal, lockMs }: Extract<Request, { do: "open" }>) {
    const how = mayChange ? { readwrite: true, create: false } : { readonly: true };
    this.connection = new Database(file, { ...how, safeIntegers: true, strict: true });
    this.#mayChange = mayChange;
    this.connection.run(`PRAGMA busy_timeout = ${lockMs}`);
    this.connection.run("PRAGMA trusted_schema = OFF");
    if (mayChange) {
      this.connection.run("PRAGMA foreign_keys = ON");
      if (!isWal) this.#keepJournal();
    } else {
      this.connection.run("PRAGMA query_only = ON");
    }
    this.#reader = new CellReader(String(this.#one("PRAGMA encoding")).toLowerCase() as Bun.Encoding);
  }

  /**
   * Makes SQLite empty the journal instead of removing it: this process may not make files in the database's folder, or remove them.
   * The first look at the file may find a journal of a killed process, with which only exclusive locking does the same.
   */
  #keepJournal(): void {
    for (const setting of ["locking_mode = EXCLUSIVE", "journal_mode = TRUNCATE", "locking_mode = NORMAL"]) {
      this.connection.run(`PRAGMA ${setting}`);
    }
    this.#one("SELECT count(*) FROM sqlite_schema");
  }

  query({ statement, columns, rows, limits, values }: Extract<Request, { do: "query" }>): SentRows {
    return this.rolledBack("BEGIN", () => {
      const digest = this.digest();
      const prepared = this.#prepared(wrapped(statement, columns, limits));
      const sent = new CollectedRows(limits);
      for (const row of prepared.iterate({ ...valuesOf(values), [ROWS]: rows }) as Iterable<Row>) {
        sent.add(
          Array.from({ length: columns }, (_, index) =>
            this.#reader.textOf(row[`t${index}`], row[`c${index}`], limits),
          ),
        );
        if (sent.areFull) break;
      }
      return { digest, rows: sent.rows };
    });
  }

  count({ statement, values }: Extract<Request, { do: "count" }>): string | null {
    return this.rolledBack("BEGIN", () => {
      const [[counted] = []] = this.#prepared(`SELECT n FROM (${countOf(statement)}) LIMIT 1`).values(valuesOf(values));
      return typeof counted === "bigint" ? String(counted) : null;
    });
  }

  /** Leaves a transaction open, which `commit` or `rollback` ends. */
  change({ statement, rows, limits, values }: Extract<Request, { do: "change" }>): SentChange {
    if (!this.#mayChange) throw new Error("the database is open for reading");
    this.connection.run("BEGIN IMMEDIATE");
    try {
      const digest = this.digest();
      const sent = new CollectedRows(limits);
      let changed = 0;
      // Every row is counted: the bound is checked with their number.
      const prepared = this.#prepared(statement);
      for (const row of prepared.iterate(valuesOf(values)) as Iterable<Row>) {
        changed += 1;
        if (changed <= rows) sent.add(prepared.columnNames.map((name) => cut(plainText(row[name]), limits)));
      }
      return { digest, rows: sent.rows, changed };
    } catch (error) {
      this.rollback();
      throw error;
    }
  }

  commit(): null {
    try {
      this.connection.run("COMMIT");
      return null;
    } catch (error) {
      this.rollback();
      throw error;
    }
  }

  rollback(): null {
    if (this.connection.inTransaction) this.connection.run("ROLLBACK");
    return null;
  }

  /** Takes the lock for changes once: SQLite rolls back a killed process's unfinished change then. */
  recover(): null {
    return this.rolledBack("BEGIN IMMEDIATE", () => null);
  }

  rolledBack<T>(begin: "BEGIN" | "BEGIN IMMEDIATE", work: () => T): T {
    this.connection.run(begin);
    try {
      return work();
    } finally {
      this.rollback();
    }
  }

  /** Returns a digest of the whole schema, as this transaction sees it. */
  digest(): string {
    const version = String(this.#one("PRAGMA schema_version"));
    if (this.#digest?.version !== version) {
      const rows = this.connection
        .query("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY 1, 2, 3")
        .values();
      const digest = new Bun.CryptoHasher("sha256").update(JSON.stringify([version, rows])).digest("hex");
      this.#digest = { version, digest };
    }
    return this.#digest.digest;
  }

  #one(sql: string): unknown {
    const statement = this.connection.prepare(sql);
    const [[value] = []] = statement.values();
    statement.finalize();
    return value;
  }

  #prepared(sql: string): Statement {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    const [oldest] = this.#statements;
    if (oldest !== undefined && this.#statements.size >= STATEMENTS_MAX) {
      oldest[1].finalize();
      this.#statements.delete(oldest[0]);
    }
    const made = this.connection.prepare(sql);
    this.#statements.set(sql, made);
    return made;
  }
}
