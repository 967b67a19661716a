import type { EpochMs } from "../../core/types.ts";
import type { Sql, Transactions } from "../../database/dialect.ts";
import { StoreUnavailable } from "../../database/pool.ts";
import { pooledTransactions, stateOf } from "../../database/postgres.ts";
import { parsePostgresUrl } from "../../database/postgres-url.ts";
import type { SettledLog } from "../audit-log.ts";
import type { ExportLine } from "../export/batch.ts";
import type { ReceiverOutcome } from "../export/receiver.ts";
import { DAY_MS, dayOf } from "../query/time-range.ts";
import { type ColumnType, KEY_COLUMNS, LINE_COLUMNS, type StoreColumn, type StoreRow } from "./columns.ts";
import { isOfTenant, logsOfOthers } from "./scope.ts";
import { identifier, type SqlDialect, SqlText, type StoreDatabase, sql } from "./sql-text.ts";
import { SlowStatement } from "./store-error.ts";
import { runAll, Upkeep } from "./upkeep.ts";
import {
  type CheckpointRow,
  LineWithoutRow,
  LOG_COLUMNS,
  logRows,
  type StoreWriter,
  storedOf,
  type WriterOptions,
} from "./writer.ts";

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
    complete_ms bigint, tenant text, PRIMARY KEY (log, stream)
  )`,
  `CREATE TABLE IF NOT EXISTS audit_checkpoints (
    log text NOT NULL, stream text NOT NULL, size bigint NOT NULL, note text NOT NULL,
    seen_ms bigint NOT NULL, PRIMARY KEY (log, stream, size, note)
  )`,
  "CREATE INDEX IF NOT EXISTS audit_checkpoints_seen ON audit_checkpoints (seen_ms)",
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
  // A date has no year 0: it is 1 BC.
  day: (day) => sql`${day.replace(/^0000(.*)/, "0001$1 BC")}::date`,
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
    read: (statement) =>
      database
        .begin("read", async (on) => run(on, statement))
        .catch((error: unknown) => {
          if (stateOf(error) !== QUERY_CANCELED) throw error;
          throw new SlowStatement(`${SERVER} needs more than ${statementMs} ms`, { cause: error });
        }),
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
    upkeep: () => writer.upkeep.state,
    settle: (settled) => attempted(() => writer.settle(settled)),
    close: () => database.close(),
  };
}

/** Days after which one checkpoint of each day is kept, instead of one for nearly every second with a line. */
const EVERY_CHECKPOINT_DAYS = 2;
/** Most checkpoints, or own lines of a day in which others have lines, that one statement deletes. */
const DELETED_MAX = 100_000;

class PostgresWriter {
  readonly #database: Transactions;
  readonly #retentionDays: number | undefined;
  readonly #tenant: string | undefined;
  /** Days whose partition is known to exist. */
  readonly #days = new Set<string>();
  #isPrepared = false;
  readonly upkeep = new Upkeep((error) => causeOf(error));

  constructor(database: Transactions, { retentionDays, tenant }: WriterOptions) {
    this.#database = database;
    this.#retentionDays = retentionDays;
    this.#tenant = tenant;
  }

  /** Changes nothing. */
  async check(): Promise<void> {
    await this.#database.begin("read", async (on) => on`SELECT 1`);
  }

  async write(lines: readonly ExportLine[]): Promise<void> {
    const { rows, checkpoints } = storedOf(lines);
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
    await this.#maintain(now);
  }

  #maintain(nowMs: EpochMs): Promise<void> {
    return this.upkeep.run(nowMs, [
      () => this.#prepare(dayOf(nowMs + DAY_MS)),
      () => this.#dropOld(nowMs),
      () => this.#thinCheckpoints(nowMs),
    ]);
  }

  /** A database that lost lines, for example one that was restored, does not become complete by this. */
  async settle({ log, stream, nextSeq, untilMs }: SettledLog): Promise<void> {
    await this.#database.begin(
      "write",
      async (on) => on`
        UPDATE audit_logs SET complete_ms = greatest(complete_ms, ${untilMs})
        WHERE log = ${log} AND stream = ${stream} AND next_seq >= ${nextSeq}`,
    );
  }

  async #insert(on: Sql, rows: readonly StoreRow[], nowMs: number): Promise<void> {
    const oldest = this.#oldestDay(nowMs);
    const kept = rows.filter(({ day }) => String(day) >= oldest);
    const missing = new Set(kept.map(({ day }) => String(day)).filter((day) => !this.#days.has(day)));
    if (!this.#isPrepared || missing.size > 0) await createTables(on, missing);
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
    const logs = LOG_COLUMNS.join(", ");
    await run(
      on,
      new SqlText(
        [
          `INSERT INTO audit_logs AS known (${logs}) SELECT ${logs} FROM json_to_recordset((`,
          `)::json) AS log (log text, stream text, instance text, tenant text, next_seq bigint, time_ms bigint)
          ON CONFLICT (log, stream) DO UPDATE SET
            instance = CASE WHEN known.next_seq > excluded.next_seq THEN known.instance ELSE excluded.instance END,
            next_seq = greatest(known.next_seq, excluded.next_seq),
            time_ms = greatest(known.time_ms, excluded.time_ms)`,
        ],
        [JSON.stringify(logRows(rows))],
      ),
    );
    for (const day of missing) this.#days.add(day);
  }

  /** Stores the notes as they are: whoever has the public key can verify them. Keeps them when their lines are deleted. */
  async #insertCheckpoints(on: Sql, checkpoints: readonly CheckpointRow[], nowMs: number): Promise<void> {
    if (!this.#isPrepared) await createTables(on, new Set());
    const rows = checkpoints.map((row) => ({ ...row, seen_ms: nowMs }));
    await on`
      INSERT INTO audit_checkpoints (log, stream, size, note, seen_ms)
      SELECT log, stream, size, note, seen_ms FROM json_to_recordset((${JSON.stringify(rows)}::text)::json)
        AS checkpoint (log text, stream text, size bigint, note text, seen_ms bigint)
      ON CONFLICT DO NOTHING`;
  }

  #oldestDay(nowMs: number): string {
    return this.#retentionDays === undefined ? "" : dayOf(nowMs - this.#retentionDays * DAY_MS);
  }

  /** Creates the partition of a day before its first line is there, so that no line waits for it. */
  async #prepare(day: string): Promise<void> {
    if (this.#days.has(day)) return;
    await this.#database.begin("write", (on) => createTables(on, new Set([day])));
    this.#days.add(day);
  }

  /** Each day alone, so that a partition that something else uses does not keep the others. */
  async #dropOld(nowMs: EpochMs): Promise<void> {
    if (this.#retentionDays === undefined) return;
    const old = await this.#partitionsBefore(this.#oldestDay(nowMs));
    await runAll(old.map((partition) => () => this.#drop(partition)));
  }

  /** Returns the partitions of days before this one, as a statement names them. */
  #partitionsBefore(oldest: string): Promise<readonly SqlText[]> {
    return this.#database.begin("read", async (on) => {
      const partitions = await on`
        SELECT child.relname AS name, quote_ident(nspname) AS schema FROM pg_inherits
        JOIN pg_class AS child ON child.oid = inhrelid
        JOIN pg_namespace ON pg_namespace.oid = child.relnamespace
        WHERE inhparent = 'audit_lines'::regclass`;
      return partitions.flatMap(({ name, schema }) => {
        const partition = String(name);
        if (!PARTITION.test(partition) || partition >= partitionOf(oldest)) return [];
        return [new SqlText([`${String(schema)}.${partition}`], [])];
      });
    });
  }

  /** Drops the partition; while it holds lines of other tenants, deletes the own ones. Another exporter may have been faster. */
  async #drop(partition: SqlText): Promise<void> {
    for (let deleted = DELETED_MAX; deleted === DELETED_MAX; ) {
      deleted = await this.#database.begin("write", async (on) => {
        await on`SELECT pg_advisory_xact_lock(${TABLES_LOCK}::bigint)`;
        await on`SELECT set_config('client_min_messages', 'warning', true)`;
        const [found] = await on`SELECT to_regclass(${partition.parts.join("")}::text) AS partition`;
        if (found?.["partition"] === null) return 0;
        if (await this.#isShared(on, partition)) return this.#deleteOwn(on, partition);
        // Dropping takes this lock, too: nobody adds a line after this look.
        await on`LOCK TABLE ONLY audit_lines IN ACCESS EXCLUSIVE MODE`;
        if (await this.#isShared(on, partition)) return this.#deleteOwn(on, partition);
        await run(on, sql`DROP TABLE ${partition}`);
        return 0;
      });
    }
  }

  get #logsOfOthers(): SqlText {
    return logsOfOthers(postgresDialect.logs, this.#tenant);
  }

  /** The key of the lines begins with the log, so that looking for those of a log is quick. */
  async #isShared(on: Sql, partition: SqlText): Promise<boolean> {
    const found = await run(on, sql`SELECT 1 FROM ${partition} WHERE log IN (${this.#logsOfOthers}) LIMIT 1`);
    return found.length > 0;
  }

  /** Returns the number of deleted lines. */
  async #deleteOwn(on: Sql, partition: SqlText): Promise<number> {
    const isOwn = isOfTenant(this.#tenant);
    const logs = sql`SELECT log FROM audit_logs WHERE ${isOwn}`;
    const own = await run(on, sql`SELECT 1 FROM ${partition} WHERE log IN (${logs}) LIMIT 1`);
    if (own.length === 0) return 0;
    const lines = sql`SELECT ctid FROM ${partition} WHERE ${isOwn} LIMIT ${DELETED_MAX}`;
    const deleted = await run(on, sql`DELETE FROM ${partition} WHERE ctid = ANY(ARRAY(${lines})) RETURNING seq`);
    return deleted.length;
  }

  /**
   * Deletes checkpoints, but the newest of each log, which covers all its lines: those of days beyond the retention time, and of the
   * others that are not of these days all but the last of each day.
   */
  async #thinCheckpoints(nowMs: EpochMs): Promise<void> {
    if (this.#retentionDays === undefined) return;
    const startOfDay = (daysAgo: number): EpochMs => Date.parse(dayOf(nowMs - daysAgo * DAY_MS));
    const [oldest, recent] = [startOfDay(this.#retentionDays), startOfDay(EVERY_CHECKPOINT_DAYS)];
    const until = Math.max(oldest, recent);
    await this.#database.begin("write", async (on) =>
      run(
        on,
        sql`WITH last AS (
            SELECT log, stream, seen_ms / ${DAY_MS} AS day, max(size) AS size
            FROM audit_checkpoints WHERE seen_ms < ${until} GROUP BY 1, 2, 3
          )
          DELETE FROM audit_checkpoints WHERE ctid = ANY(ARRAY(
            SELECT old.ctid FROM audit_checkpoints AS old
            JOIN last ON last.log = old.log AND last.stream = old.stream AND last.day = old.seen_ms / ${DAY_MS}
            WHERE old.seen_ms < ${until} AND old.log NOT IN (${this.#logsOfOthers}) AND (old.size < last.size OR old.seen_ms < ${oldest}) AND old.size < (
              SELECT max(size) FROM audit_checkpoints AS own WHERE own.log = old.log AND own.stream = old.stream
            ) LIMIT ${DELETED_MAX}
          ))`,
      ),
    );
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
  for (const day of days) await createPartition(on, day);
}

/** Attaches a table of its own: creating a partition would wait for all who read or write, and let all others wait. */
async function createPartition(on: Sql, day: string): Promise<void> {
  const [found] = await on`
    SELECT schema, to_regclass(schema || ${`.${partitionOf(day)}`}::text) AS partition FROM (
      SELECT quote_ident(nspname) AS schema FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
      WHERE pg_class.oid = 'audit_lines'::regclass
    ) AS place`;
  if (found?.["partition"] !== null) return;
  const schema = String(found["schema"]);
  const [parent, partition] = [`${schema}.audit_lines`, `${schema}.${partitionOf(day)}`];
  const bounds = `FOR VALUES FROM ('${day}') TO ('${dayOf(Date.parse(`${day}T00:00:00Z`) + DAY_MS)}')`;
  await run(on, new SqlText([`CREATE TABLE ${partition} (LIKE ${parent} INCLUDING ALL)`], []));
  await run(on, new SqlText([`ALTER TABLE ${parent} ATTACH PARTITION ${partition} ${bounds}`], []));
}

/** SQLSTATE of a statement that exceeded its limit. */
const QUERY_CANCELED = "57014";
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
    const reason = causeOf(error);
    return error instanceof LineWithoutRow || (state !== NO_PARTITION && FINAL.test(state))
      ? { kind: "refused", reason }
      : { kind: "later", reason, retryAfterMs: undefined };
  }
}

function causeOf(error: unknown): string {
  const state = stateOf(error);
  if (state !== "") return `SQLSTATE ${state}`;
  if (error instanceof StoreUnavailable || error instanceof LineWithoutRow) return error.message;
  return error instanceof Error ? `${SERVER} cannot be used: ${error.name}` : "unknown error";
}
