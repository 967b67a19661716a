import { Database, SQLiteError, type Statement } from "bun:sqlite";
import { listedTables } from "./listing.ts";
import {
  type BoundValue,
  INVALID_TEXT,
  type Request,
  type Response,
  type RowCells,
  type SentChange,
  type SentLimits,
  type SentRows,
  type StatementFacts,
  type StatementUse,
} from "./protocol.ts";
import { SchemaCopy } from "./schema-copy.ts";

/**
 * A process that has one database open, and runs one request after another. SQLite cannot be interrupted here: the service kills this
 * process when a call's time is over. It needs nothing but this folder, and is confined to the database's files.
 */

const STATEMENTS_MAX = 200;
const LINE_FEED = 0x0a;
/** Most bytes of a character, in UTF-8 and UTF-16. */
const CHARACTER_BYTES_MAX = 4;
/** The word, but not the function of that name. */
const REPLACES = /\breplace\b(?!\s*\()/i;
const REPLACING_TABLE = /\bon\s+conflict\s+replace\b/i;
const UNCOUNTED = "that removes rows which no bound counts";
/** The text of EXPLAIN at the start of a trigger. */
const TRIGGER = "-- TRIGGER ";

/** Thrown for a statement that no tool can have. Its message says why, for the author. */
class Refused extends Error {}

class InvalidText extends Error {}

/** A row of EXPLAIN: one step of a statement. */
interface Operation {
  readonly name: string;
  readonly first: number;
  readonly second: number;
  readonly text: string;
}

type Values = Readonly<Record<string, string | bigint | number | null>>;

class OpenDatabase {
  readonly #database: Database;
  readonly #mayChange: boolean;
  readonly #statements = new Map<string, Statement>();
  readonly #decoder: TextDecoder;
  #copy: { readonly digest: string; readonly schema: SchemaCopy } | undefined;
  #digest: { readonly version: string; readonly digest: string } | undefined;

  constructor({ file, mayChange, isWal, lockMs }: Extract<Request, { do: "open" }>) {
    const how = mayChange ? { readwrite: true, create: false } : { readonly: true };
    this.#database = new Database(file, { ...how, safeIntegers: true, strict: true });
    this.#mayChange = mayChange;
    this.#database.run(`PRAGMA busy_timeout = ${lockMs}`);
    this.#database.run("PRAGMA trusted_schema = OFF");
    if (mayChange) {
      this.#database.run("PRAGMA foreign_keys = ON");
      if (!isWal) this.#keepJournal();
    } else {
      this.#database.run("PRAGMA query_only = ON");
    }
    const encoding = String(this.#one("PRAGMA encoding")).toLowerCase() as Bun.Encoding;
    this.#decoder = new TextDecoder(encoding, { fatal: true, ignoreBOM: true });
  }

  /**
   * Makes SQLite empty the journal instead of removing it: this process may not make files in the database's folder, or remove them.
   * The first look at the file may find a journal of a killed process, with which only exclusive locking does the same.
   */
  #keepJournal(): void {
    for (const setting of ["locking_mode = EXCLUSIVE", "journal_mode = TRUNCATE", "locking_mode = NORMAL"]) {
      this.#database.run(`PRAGMA ${setting}`);
    }
    this.#one("SELECT count(*) FROM sqlite_schema");
  }

  answer(request: Request): unknown {
    switch (request.do) {
      case "open":
        throw new Error("is open");
      case "describe":
        return this.#rolledBack("BEGIN", () => this.#describe(request));
      case "query":
        return this.#rolledBack("BEGIN", () => this.#query(request));
      case "count":
        return this.#rolledBack("BEGIN", () => {
          const statement = this.#prepared(`SELECT n FROM (${countOf(request.statement)}) LIMIT 1`);
          const [[counted] = []] = statement.values(valuesOf(request.values));
          return typeof counted === "bigint" ? String(counted) : null;
        });
      case "tables":
        return this.#rolledBack("BEGIN", () => listedTables(this.#database, this.#schemaAt(this.#digestNow())));
      case "change":
        return this.#change(request);
      case "commit":
        return this.#commit();
      case "rollback":
        return this.#rollback();
      case "recover":
        return this.#rolledBack("BEGIN IMMEDIATE", () => null);
    }
  }

  #describe({ statement, use, parameters }: Extract<Request, { do: "describe" }>): StatementFacts {
    const digest = this.#digestNow();
    const schema = this.#schemaAt(digest);
    const isChange = use === "change";
    const prepared = isChange ? statement : `SELECT * FROM (${statement}\n) LIMIT 0`;
    const known = isChange
      ? this.#checkChange(statement, parameters)
      : this.#checkQuery(statement, prepared, parameters);
    const names = known.columnNames;
    // This form differs from the one above: text that closes one form early does not fit the other.
    if (!isChange)
      this.#database
        .prepare(use === "count" ? countOf(statement) : wrapped(statement, names.length, NO_LIMIT))
        .finalize();
    const effects = isChange ? this.#effectsOf(statement, parameters) : [];
    const count = known.paramsCount;
    known.finalize();
    return {
      parameters: count,
      columns: schema.columnsOf(statement, prepared, names),
      views: schema.views,
      effects,
      digest,
    };
  }

  #schemaAt(digest: string): SchemaCopy {
    if (this.#copy?.digest !== digest) {
      this.#copy?.schema.close();
      this.#copy = { digest, schema: new SchemaCopy(this.#database) };
    }
    return this.#copy.schema;
  }

  #checkQuery(statement: string, prepared: string, parameters: number): Statement {
    this.#checkWhole(statement, "query");
    const known = this.#database.prepare(prepared);
    checkNames(() => known.values(nulls(parameters)));
    return known;
  }

  #checkChange(statement: string, parameters: number): Statement {
    if (!/^\s*(?:with|insert|replace|update|delete)\b/i.test(statement)) {
      throw new Refused("must be one INSERT, UPDATE or DELETE with RETURNING, without a comment before it");
    }
    if (REPLACES.test(statement)) throw new Refused(`must not REPLACE: ${UNCOUNTED}; use ON CONFLICT … DO UPDATE`);
    this.#checkWhole(statement, "change");
    const known = this.#database.prepare(statement);
    if (known.columnNames.length === 0) throw new Refused("must return something: add RETURNING");
    const operations = checkNames(() => this.#operations(statement, parameters));
    const isChange = operations.some(({ name, second }) => name === "Transaction" && second !== 0);
    if (!isChange) throw new Refused("changes nothing: such a tool is one that reads");
    const pages = operations.map(({ name, second }) => (name === "OpenWrite" ? second : undefined));
    for (const [table, page, sql] of this.#named("table", "rootpage", "sql")) {
      if (!pages.includes(Number(page)) || !REPLACING_TABLE.test(String(sql))) continue;
      throw new Refused(`changes ${table}, which is declared ON CONFLICT REPLACE: ${UNCOUNTED}`);
    }
    return known;
  }

  /** A bracket after one whole statement makes it invalid. After a second statement or an open comment, the bracket would go unnoticed. */
  #checkWhole(statement: string, use: StatementUse): void {
    let isHidden = true;
    try {
      this.#database.prepare(`${statement}\n)`).finalize();
    } catch {
      isHidden = false;
    }
    if (isHidden) throw new Refused(`must be one ${use}, without ; at its end`);
  }

  #operations(statement: string, parameters: number): readonly Operation[] {
    const explained = this.#database.prepare(`EXPLAIN ${statement}`);
    const rows = explained.values(nulls(parameters)) as unknown[][];
    explained.finalize();
    return rows.map(([, name, first, second, , text]) => ({
      name: String(name),
      first: Number(first),
      second: Number(second),
      text: String(text),
    }));
  }

  /** Returns the further effects of a change: triggers, and tables that foreign keys or triggers change. */
  #effectsOf(statement: string, parameters: number): readonly string[] {
    const operations = this.#operations(statement, parameters);
    const tables = new Map(this.#named("table", "rootpage").map(([name, page]) => [Number(page), name] as const));
    const tableOf = new Map(this.#named("trigger", "tbl_name").map(([name, table]) => [name, String(table)] as const));
    const triggers = operations.flatMap(({ text }) => (text.startsWith(TRIGGER) ? [text.slice(TRIGGER.length)] : []));
    // The programs of triggers and keys come after the statement's own, which ends soon after its transaction begins.
    const own = operations.findIndex(({ name }) => name === "Transaction");
    const written = operations.slice(own).flatMap(({ name, first, second }) => {
      if (name === "OpenWrite") return tables.get(second) ?? [];
      // A table of which all rows are deleted is not opened.
      return name === "Clear" ? (tables.get(first) ?? []) : [];
    });
    return [
      ...[...new Set(triggers)].map((name) => `the trigger ${name} of ${tableOf.get(name)} runs`),
      ...[...new Set(written)].map((table) => `rows of ${table} may also change, by a key or a trigger`),
    ];
  }

  #named(type: "table" | "trigger", ...columns: readonly string[]): readonly (readonly [name: string, ...unknown[]])[] {
    const statement = this.#database.query(
      `SELECT ${["name", ...columns].join(", ")} FROM sqlite_schema WHERE type = $type`,
    );
    return statement.values({ type }) as [string, ...unknown[]][];
  }

  #query({ statement, columns, rows, limits, values }: Extract<Request, { do: "query" }>): SentRows {
    const digest = this.#digestNow();
    const prepared = this.#prepared(wrapped(statement, columns, limits));
    const sent: RowCells[] = [];
    let chars = 0;
    for (const row of prepared.iterate({ ...valuesOf(values), [ROWS]: rows }) as Iterable<
      Readonly<Record<string, unknown>>
    >) {
      const cells = Array.from({ length: columns }, (_, index) =>
        this.#text(row[`t${index}`], row[`c${index}`], limits),
      );
      chars += cells.reduce((sum, cell) => sum + (cell?.length ?? 0), 0);
      const isFitting = chars <= limits.chars;
      sent.push(isFitting ? cells : null);
      if (!isFitting) break;
    }
    return { digest, rows: sent };
  }

  #change({ statement, rows, limits, values }: Extract<Request, { do: "change" }>): SentChange {
    if (!this.#mayChange) throw new Error("the database is open for reading");
    this.#database.run("BEGIN IMMEDIATE");
    try {
      const digest = this.#digestNow();
      const sent: RowCells[] = [];
      let changed = 0;
      // Every row is counted: the bound is checked with their number.
      const prepared = this.#prepared(statement);
      for (const row of prepared.iterate(valuesOf(values)) as Iterable<Readonly<Record<string, unknown>>>) {
        changed += 1;
        if (changed <= rows) sent.push(prepared.columnNames.map((name) => cut(textOf(row[name]), limits)));
      }
      return { digest, rows: sent, changed };
    } catch (error) {
      this.#rollback();
      throw error;
    }
  }

  #commit(): null {
    try {
      this.#database.run("COMMIT");
      return null;
    } catch (error) {
      this.#rollback();
      throw error;
    }
  }

  #rollback(): null {
    if (this.#database.inTransaction) this.#database.run("ROLLBACK");
    return null;
  }

  #rolledBack<T>(begin: string, work: () => T): T {
    this.#database.run(begin);
    try {
      return work();
    } finally {
      this.#rollback();
    }
  }

  /** Returns a digest of the whole schema, as this transaction sees it. */
  #digestNow(): string {
    const version = String(this.#one("PRAGMA schema_version"));
    if (this.#digest?.version !== version) {
      const rows = this.#database
        .query("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY 1, 2, 3")
        .values();
      const digest = new Bun.CryptoHasher("sha256").update(JSON.stringify([version, rows])).digest("hex");
      this.#digest = { version, digest };
    }
    return this.#digest.digest;
  }

  #one(sql: string): unknown {
    const statement = this.#database.prepare(sql);
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
    const made = this.#database.prepare(sql);
    this.#statements.set(sql, made);
    return made;
  }

  /** Texts come as their bytes: the driver would replace what is not Unicode, and SQLite's functions for texts end at NUL. */
  #text(type: unknown, value: unknown, limits: SentLimits): string | null {
    // The driver returns empty bytes as NULL.
    if (value === null && type !== "null") return type === "text" ? "" : "\\x";
    if (type !== "text" || !(value instanceof Uint8Array)) return textOf(value);
    // The value was cut at a byte, so the last character may be incomplete: do not decode it.
    if (value.byteLength > bytesOf(limits)) return cut(value.toHex(), limits);
    try {
      return cut(this.#decoder.decode(value), limits);
    } catch {
      throw new InvalidText("a text is not Unicode");
    }
  }
}

/** Name of the parameter for the maximum number of rows. */
const ROWS = "stc_rows";
const NO_LIMIT: SentLimits = { cellChars: 1, chars: 1 };

/**
 * Returns the query that runs: the statement inside another one, which returns a type and a bounded value for each column. Because of
 * its own LIMIT, `r` stays a query of its own: else an expression would be evaluated for each use, and random() differ between them.
 */
function wrapped(statement: string, columns: number, limits: SentLimits): string {
  const names = Array.from({ length: columns }, (_, index) => `c${index}`);
  const cells = names.map(
    (name, index) =>
      `typeof(${name}) AS t${index}, CASE typeof(${name}) WHEN 'text' THEN substr(CAST(${name} AS BLOB), 1, ${bytesOf(limits) + 1}) WHEN 'blob' THEN substr(${name}, 1, ${limits.cellChars}) ELSE ${name} END AS ${name}`,
  );
  const list = names.join(", ");
  const limit = `LIMIT $${ROWS}`;
  return `WITH q(${list}) AS (${statement}\n), r(${list}) AS (SELECT * FROM q ${limit}) SELECT ${cells.join(", ")} FROM r ${limit}`;
}

/** Returns the bytes that a text of the longest length may have. */
function bytesOf({ cellChars }: SentLimits): number {
  return CHARACTER_BYTES_MAX * cellChars;
}

function countOf(statement: string): string {
  return `WITH q(n) AS (${statement}\n) SELECT n FROM q`;
}

function textOf(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  if (typeof value === "number") return realText(value);
  return value instanceof Uint8Array ? `\\x${Buffer.from(value).toString("hex")}` : String(value);
}

/** Returns a number in SQLite's notation, but with every digit. */
function realText(value: number): string {
  return Number.isInteger(value) && Math.abs(value) < 1e15 ? value.toFixed(1) : String(value);
}

/** One character more than fits is enough to see that a text does not fit. */
function cut(text: string | null, { cellChars }: SentLimits): string | null {
  return text === null ? null : text.slice(0, cellChars + 1);
}

function valuesOf(values: readonly BoundValue[]): Values {
  return Object.fromEntries(
    values.map((value, index) => {
      if (value === null || typeof value === "string") return [index + 1, value];
      return [index + 1, "integer" in value ? BigInt(value.integer) : value.real];
    }),
  );
}

function nulls(count: number): Values {
  return valuesOf(Array.from({ length: count }, () => null));
}

/** The driver reveals the names of parameters only in its errors about missing values. */
function checkNames<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof SQLiteError) throw error;
    throw new Refused("has other parameters than $1, $2 and so on; SQLite has no $1::type, but CAST($1 AS type)");
  }
}

let open: OpenDatabase | undefined;

function respond(request: Request): Response {
  try {
    if (request.do === "open") {
      open = new OpenDatabase(request);
      return { answer: null };
    }
    return { answer: open?.answer(request) };
  } catch (error) {
    // SQLite's own texts hold values.
    if (error instanceof Refused) return { refused: [error.message] };
    if (error instanceof InvalidText) return { error: INVALID_TEXT };
    return { error: (error instanceof SQLiteError && error.code) || "SQLITE_ERROR" };
  }
}

const answers = Bun.stdout.writer();
let rest = Buffer.alloc(0);
for await (const chunk of Bun.stdin.stream()) {
  rest = Buffer.concat([rest, chunk]);
  for (let end = rest.indexOf(LINE_FEED); end !== -1; end = rest.indexOf(LINE_FEED)) {
    const request = JSON.parse(rest.subarray(0, end).toString("utf8")) as Request;
    rest = rest.subarray(end + 1);
    answers.write(`${JSON.stringify(respond(request))}\n`);
    await answers.flush();
  }
}
