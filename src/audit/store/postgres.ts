import type { Sql, Transactions } from "../../database/dialect.ts";
import { StoreUnavailable } from "../../database/pool.ts";
import { pooledTransactions, stateOf } from "../../database/postgres.ts";
import { parsePostgresUrl } from "../../database/postgres-url.ts";
import type { ExportLine } from "../export/batch.ts";
import type { ReceiverOutcome } from "../export/receiver.ts";
import { DAY_MS, dayOf } from "../query/time-range.ts";
import { type ColumnType, KEY_COLUMNS, LINE_COLUMNS, rowOf, type StoreColumn, type StoreRow } from "./columns.ts";
import { identifier, type SqlDialect, SqlText, type StoreDatabase, sql } from "./sql-text.ts";
import { logRows, type StoreWriter, type WriterOptions } from "./writer.ts";

/** One connection for each stream of the log. */
const WRITERS = 2;
const WRITE_LIMITS = { transactionMs: 30_000, queueMs: 30_000 } as const;
const WRITE_STATEMENT_MS = 20_000;
const READERS = 4;
const CLOSE_GRACE_MS = 1_000;

const SERVER = "the audit store's PostgreSQL";

const TYPES: Readonly<Record<ColumnType, string>> = {
  text: "text",
  name: "text",
  integer: "bigint",
  real: "double precision",
  day: "date",
  texts: "text[]",
};

function definition({ name, type, isOptional }: StoreColumn): string {
  return `${name} ${TYPES[type]}${isOptional === true ? "" : " NOT NULL"}`;
}

/**
 * Tables of the store, in the first schema of the user's search path. `audit_lines` has a partition for each day, which the
 * exporters create.
 */
const TABLES: readonly string[] = [
  `CREATE TABLE IF NOT EXISTS audit_lines (
    ${LINE_COLUMNS.map(definition).join(", ")}, PRIMARY KEY (${KEY_COLUMNS.join(", ")})
  ) PARTITION BY RANGE (day)`,
  "CREATE INDEX IF NOT EXISTS audit_lines_time ON audit_lines (stream, time_ms, log, seq, hash)",
  "CREATE INDEX IF NOT EXISTS audit_lines_sub ON audit_lines (sub, time_ms)",
  "CREATE INDEX IF NOT EXISTS audit_lines_ids ON audit_lines USING gin (ids)",
  `CREATE TABLE IF NOT EXISTS audit_logs (
    log text NOT NULL, stream text NOT NULL, instance text NOT NULL, next_seq bigint NOT NULL, time_ms bigint,
    PRIMARY KEY (log, stream)
  )`,
  `CREATE TABLE IF NOT EXISTS audit_checkpoints (
    log text NOT NULL, stream text NOT NULL, size bigint NOT NULL, note text NOT NULL,
    seen_ms bigint NOT NULL, PRIMARY KEY (log, stream, size, note)
  )`,
];

/** Advisory lock held while tables and partitions are created or dropped: "stc-audi" in ASCII. */
const TABLES_LOCK = "8319383458215879785";

export const postgresDialect: SqlDialect = {
  lines: identifier("audit_lines"),
  logs: identifier("audit_logs"),
  checkpoints: identifier("audit_checkpoints"),
  contains: (text, part) => sql`strpos(${text}, ${part}) > 0`,
  beginsWith: (text, part) => sql`starts_with(${text}, ${part})`,
  // The collation C folds ASCII letters only.
  folded: (text) => sql`lower(${text} COLLATE "C")`,
  hasId: (id) => sql`ids @> ARRAY[${id}]`,
  day: (day) => sql`${day}::date`,
};

/** Runs a statement. Each value is bound, with the type that it has here. */
function run(on: Sql, { parts, values }: SqlText): ReturnType<Sql> {
  const typed = parts.map((part, at) =>
    at === 0 ? part : `::${typeof values[at - 1] === "number" ? "bigint" : "text"}${part}`,
  );
  // The driver accepts a template only, so that no text is taken for one by mistake.
  const template = Object.defineProperty(typed, "raw", { value: typed }) as unknown as TemplateStringsArray;
  return on(template, ...values);
}

interface OpenOptions {
  /** Limit for one statement, in milliseconds. */
  readonly statementMs: number;
}

/** Opens the store for reading. @throws Error that says what is wrong with the URL */
export function openPostgresStore(url: string, { statementMs }: OpenOptions): StoreDatabase {
  const database = pooledTransactions(parsePostgresUrl(url, "audit store"), {
    count: READERS,
    limits: { transactionMs: statementMs + CLOSE_GRACE_MS, queueMs: statementMs },
    statementMs,
    server: SERVER,
    acceptsStandby: true,
  });
  return {
    dialect: postgresDialect,
    read: (statement) => database.begin("read", async (on) => run(on, statement)),
    close: () => database.close(),
  };
}

/** Opens the store for an exporter, without contacting it. @throws Error that says what is wrong with the URL */
export function openPostgresWriter(url: string, options: WriterOptions): StoreWriter {
  const database = pooledTransactions(parsePostgresUrl(url, "audit store"), {
    count: WRITERS,
    limits: WRITE_LIMITS,
    statementMs: WRITE_STATEMENT_MS,
    server: SERVER,
  });
  const writer = new PostgresWriter(database, options);
  return {
    write: (lines) => attempted(() => (lines.length === 0 ? writer.check() : writer.write(lines))),
    close: () => database.close(),
  };
}

const RETENTION_EVERY_MS = 3_600_000;
/** Pause after a failure: each attempt may wait for locks, and lets readers wait. */
const RETENTION_RETRY_MS = 60_000;

class PostgresWriter {
  readonly #database: Transactions;
  readonly #retentionDays: number | undefined;
  /** Days whose partition is known to exist. */
  readonly #days = new Set<string>();
  #isPrepared = false;
  #retainFromMs = Number.NEGATIVE_INFINITY;

  constructor(database: Transactions, { retentionDays }: WriterOptions) {
    this.#database = database;
    this.#retentionDays = retentionDays;
  }

  /** Changes nothing. */
  async check(): Promise<void> {
    await this.#database.begin("read", async (on) => on`SELECT 1`);
  }

  async write(lines: readonly ExportLine[]): Promise<void> {
    const checkpoints = lines.filter(({ stream }) => stream === "checkpoints");
    const rows = rowsOf(lines.filter(({ stream }) => stream !== "checkpoints"));
    let now: number;
    try {
      now = await this.#database.begin("write", async (on, nowMs) => {
        if (rows.length > 0) await this.#insert(on, rows, nowMs);
        if (checkpoints.length > 0) await this.#insertCheckpoints(on, checkpoints, nowMs);
        return nowMs;
      });
    } catch (error) {
      // A partition that was known may have been dropped.
      this.#days.clear();
      this.#isPrepared = false;
      throw error;
    }
    this.#isPrepared = true;
    // The lines are stored, whatever becomes of older ones.
    await this.#retain(now).catch(() => {});
  }

  async #insert(on: Sql, rows: readonly StoreRow[], nowMs: number): Promise<void> {
    const oldest = this.#oldestDay(nowMs);
    const kept = rows.filter(({ day }) => String(day) >= oldest);
    const missing = new Set(kept.map(({ day }) => String(day)).filter((day) => !this.#days.has(day)));
    if (missing.size > 0) await createTables(on, missing);
    const columns = LINE_COLUMNS.map(({ name }) => name).join(", ");
    const types = LINE_COLUMNS.map(({ name, type }) => `${name} ${TYPES[type]}`).join(", ");
    await run(
      on,
      new SqlText(
        [
          `INSERT INTO audit_lines (${columns}) SELECT ${columns} FROM json_to_recordset((`,
          `)::json) AS line (${types}) ON CONFLICT DO NOTHING`,
        ],
        [JSON.stringify(kept)],
      ),
    );
    for (const { log, stream, instance, next_seq, time_ms } of logRows(rows)) {
      await on`
        INSERT INTO audit_logs AS known (log, stream, instance, next_seq, time_ms)
        VALUES (${log}, ${stream}, ${instance}, ${next_seq}, ${time_ms})
        ON CONFLICT (log, stream) DO UPDATE SET
          instance = excluded.instance, next_seq = greatest(known.next_seq, excluded.next_seq),
          time_ms = greatest(known.time_ms, excluded.time_ms)`;
    }
    for (const day of missing) this.#days.add(day);
  }

  /** Stores the notes as they are: whoever has the public key can verify them. Keeps them when their lines are deleted. */
  async #insertCheckpoints(on: Sql, checkpoints: readonly ExportLine[], nowMs: number): Promise<void> {
    if (!this.#isPrepared) await createTables(on, new Set());
    const rows = checkpoints.flatMap(({ log, covers, seq, line }) => {
      if (log === undefined || covers === undefined || seq === undefined) return [];
      return [{ log, stream: covers, size: seq, note: line, seen_ms: nowMs }];
    });
    await on`
      INSERT INTO audit_checkpoints (log, stream, size, note, seen_ms)
      SELECT log, stream, size, note, seen_ms FROM json_to_recordset((${JSON.stringify(rows)}::text)::json)
        AS checkpoint (log text, stream text, size bigint, note text, seen_ms bigint)
      ON CONFLICT DO NOTHING`;
  }

  #oldestDay(nowMs: number): string {
    return this.#retentionDays === undefined ? "" : dayOf(nowMs - this.#retentionDays * DAY_MS);
  }

  /** Drops the partitions of days beyond the retention time. */
  async #retain(nowMs: number): Promise<void> {
    if (this.#retentionDays === undefined || nowMs < this.#retainFromMs) return;
    this.#retainFromMs = nowMs + RETENTION_RETRY_MS;
    const oldest = partitionOf(this.#oldestDay(nowMs));
    await this.#database.begin("write", async (on) => {
      await on`SELECT pg_advisory_xact_lock(${TABLES_LOCK}::bigint)`;
      const partitions = await on`
        SELECT child.relname AS name FROM pg_inherits
        JOIN pg_class AS child ON child.oid = inhrelid
        WHERE inhparent = 'audit_lines'::regclass`;
      for (const { name } of partitions) {
        const partition = String(name);
        if (PARTITION.test(partition) && partition < oldest) await run(on, sql`DROP TABLE ${identifier(partition)}`);
      }
    });
    this.#retainFromMs = nowMs + RETENTION_EVERY_MS;
  }
}

/** A line that has no row: sending it again cannot help. */
class LineWithoutRow extends Error {
  override readonly name = "LineWithoutRow";
}

/** @throws {LineWithoutRow} */
function rowsOf(lines: readonly ExportLine[]): readonly StoreRow[] {
  try {
    return lines.map(rowOf);
  } catch (error) {
    throw new LineWithoutRow("a line cannot be stored", { cause: error });
  }
}

const PARTITION = /^audit_lines_\d{8}$/;

function partitionOf(day: string): string {
  return `audit_lines_${day.replaceAll("-", "")}`;
}

/** Creates what is missing of the tables and of the days' partitions. Other exporters wait for each other here. */
async function createTables(on: Sql, days: ReadonlySet<string>): Promise<void> {
  await on`SELECT pg_advisory_xact_lock(${TABLES_LOCK}::bigint)`;
  await on`SELECT set_config('client_min_messages', 'warning', true)`;
  const found = await on`SELECT to_regclass('audit_lines') AS lines, to_regclass('audit_checkpoints') AS checkpoints`;
  if (found[0]?.["lines"] === null || found[0]?.["checkpoints"] === null) {
    for (const table of TABLES) await run(on, new SqlText([table], []));
  }
  for (const day of days) {
    const next = dayOf(Date.parse(`${day}T00:00:00Z`) + DAY_MS);
    const bounds = `FOR VALUES FROM ('${day}') TO ('${next}')`;
    await run(
      on,
      new SqlText([`CREATE TABLE IF NOT EXISTS ${partitionOf(day)} PARTITION OF audit_lines ${bounds}`], []),
    );
  }
}

/** SQLSTATE of a row that belongs to no partition. */
const NO_PARTITION = "23514";
/** SQLSTATEs that are about the lines: bad data, violated constraints, too large for an index, a day that has no next one. */
const FINAL = /^(?:22|23|54|42P17)/;

async function attempted(work: () => Promise<void>): Promise<ReceiverOutcome> {
  try {
    await work();
    return { kind: "taken", rejected: 0 };
  } catch (error) {
    const state = stateOf(error);
    const reason = state === "" ? reasonOf(error) : `SQLSTATE ${state}`;
    return error instanceof LineWithoutRow || (state !== NO_PARTITION && FINAL.test(state))
      ? { kind: "refused", reason }
      : { kind: "later", reason, retryAfterMs: undefined };
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof StoreUnavailable || error instanceof LineWithoutRow) return error.message;
  return error instanceof Error ? `${SERVER} cannot be used: ${error.name}` : "unknown error";
}
