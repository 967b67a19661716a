import type { EpochMs } from "../../core/types.ts";
import type { SettledLog } from "../audit-log.ts";
import type { ExportLine } from "../export/batch.ts";
import type { ReceiverOutcome } from "../export/receiver.ts";
import { DAY_MS, dayOf } from "../query/time-range.ts";
import { ClickHouseClient, ClickHouseError } from "./clickhouse-client.ts";
import { parseClickHouseUrl } from "./clickhouse-url.ts";
import { type ColumnType, KEY_COLUMNS, LINE_COLUMNS, type StoreColumn, type StoreRow } from "./columns.ts";
import { isOfTenant, logsOfOthers } from "./scope.ts";
import { identifier, joined, type SqlDialect, SqlText, type StoreAnswer, type StoreDatabase, sql } from "./sql-text.ts";
import { SlowStatement } from "./store-error.ts";
import { runAll, Upkeep } from "./upkeep.ts";
import { LineWithoutRow, LOG_COLUMNS, logRows, type StoreWriter, storedOf, type WriterOptions } from "./writer.ts";

/** One connection for each stream of the log, and for its checkpoints. */
const WRITERS = 3;
const WRITE_MS = 20_000;
const READERS = 4;
const CLOSE_GRACE_MS = 1_000;
const SECOND_MS = 1_000;

/** A time that no line has. In place of NULL, because a key that may hold NULL is not read in its order. */
const NO_TIME = Number.MIN_SAFE_INTEGER;

const TYPES: Readonly<Record<ColumnType, string>> = {
  text: "String",
  name: "String",
  integer: "Int64",
  real: "Float64",
  // Holds every day that a line can have, which `Date` does not, in the order of the days.
  day: "String",
  texts: "Array(String)",
};

function definition({ name, type, isOptional }: StoreColumn): string {
  const isNullable = isOptional === true && name !== "time_ms";
  const value = isNullable ? `Nullable(${TYPES[type]})` : TYPES[type];
  const isRepeated = type === "name" || type === "day";
  const codec = type === "integer" ? "Delta, ZSTD" : "ZSTD";
  return `${name} ${isRepeated ? `LowCardinality(${value})` : value} CODEC(${codec})`;
}

/** Readers want lines by their time. The other columns of the key follow, so that a line that was stored twice collapses. */
const ORDER = ["stream", "time_ms", ...KEY_COLUMNS.filter((column) => column !== "stream")];

/** A stored row is on the disk before the exporter moves on. */
const DURABLE = "fsync_after_insert = 1, fsync_part_directory = 1";

/**
 * Tables of the store. `audit_lines` has a partition for each day, so that dropping a day is quick and exact.
 *
 * The index of texts has a filter of 96 KiB for every granule, about 8,000 lines with 70,000 different sequences of four characters:
 * one in a hundred sequences that are not there seems to be.
 */
const TABLES: readonly string[] = [
  `CREATE TABLE IF NOT EXISTS audit_lines (
    ${LINE_COLUMNS.map(definition).join(", ")},
    INDEX ids_filter ids TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX sub_filter sub TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX line_filter lower(line) TYPE ngrambf_v1(4, 98304, 4, 0) GRANULARITY 1
  ) ENGINE = ReplacingMergeTree PARTITION BY day ORDER BY (${ORDER.join(", ")}) SETTINGS ${DURABLE}`,
  `CREATE TABLE IF NOT EXISTS audit_logs (
    log String, stream LowCardinality(String), instance SimpleAggregateFunction(anyLast, String),
    next_seq SimpleAggregateFunction(max, Int64), time_ms SimpleAggregateFunction(max, Nullable(Int64)),
    complete_ms SimpleAggregateFunction(max, Nullable(Int64)), tenant SimpleAggregateFunction(max, String)
  ) ENGINE = AggregatingMergeTree ORDER BY (log, stream) SETTINGS ${DURABLE}`,
  `CREATE TABLE IF NOT EXISTS audit_checkpoints (
    log String, stream LowCardinality(String), size Int64, note String,
    seen_ms Int64 DEFAULT toUnixTimestamp64Milli(now64(3))
  ) ENGINE = ReplacingMergeTree ORDER BY (log, stream, size, note) SETTINGS ${DURABLE}`,
];

export const clickHouseDialect: SqlDialect = {
  lines: identifier("audit_lines"),
  logs: identifier("audit_logs"),
  checkpoints: identifier("audit_checkpoints"),
  // Compares bytes, which for UTF-8 is the same. Unlike `position`, uses the index of texts.
  contains: (text, part) => sql`multiSearchAny(${text}, [${part}])`,
  beginsWith: (text, part) => sql`startsWith(${text}, ${part})`,
  // Folds ASCII letters only.
  folded: (text) => sql`lower(${text})`,
  hasId: (id) => sql`has(ids, ${id})`,
  day: (day) => sql`${day}`,
};

const READ_SETTINGS = {
  // Each line, log and checkpoint counts once, whether or not the server has merged its copies.
  final: 1,
  do_not_merge_across_partitions_select_final: 1,
  // Copies of a line are equal, so that no index can find one and miss another.
  use_skip_indexes_if_final: 1,
  use_skip_indexes_if_final_exact_mode: 0,
  output_format_json_quote_64bit_integers: 1,
  readonly: 2,
  cancel_http_readonly_queries_on_client_close: 1,
} as const;

/** Number of the error of a statement that exceeded its limit. */
const TIME_LIMIT = 159;

interface OpenOptions {
  /** Limit for one statement, in milliseconds. */
  readonly statementMs: number;
}

/** Opens the store for reading. @throws Error that says what is wrong with the URL */
export function openClickHouseStore(url: string, { statementMs }: OpenOptions): StoreDatabase {
  const client = new ClickHouseClient(parseClickHouseUrl(url), {
    connectionsMax: READERS,
    timeoutMs: statementMs + CLOSE_GRACE_MS,
    settings: { ...READ_SETTINGS, max_execution_time: statementMs / SECOND_MS },
  });
  return {
    dialect: clickHouseDialect,
    async read(statement) {
      const rows = await client.read(statement).catch((error: unknown) => {
        const isSlow = error instanceof ClickHouseError && error.code === TIME_LIMIT;
        throw isSlow ? new SlowStatement(error.message, { cause: error }) : error;
      });
      return rows.map((row) => (Number(row["time_ms"]) === NO_TIME ? { ...row, time_ms: null } : row));
    },
    async close() {
      client.close();
    },
  };
}

const WRITE_SETTINGS = {
  // A day is a partition, and lines of more than a hundred days may come at once.
  max_partitions_per_insert_block: 0,
  // With asynchronous inserts, too, the answer comes after the rows are stored.
  wait_for_async_insert: 1,
  max_execution_time: WRITE_MS / SECOND_MS,
} as const;

/** Opens the store for an exporter, without contacting it. @throws Error that says what is wrong with the URL */
export function openClickHouseWriter(url: string, options: WriterOptions): StoreWriter {
  const client = new ClickHouseClient(parseClickHouseUrl(url), {
    connectionsMax: WRITERS,
    timeoutMs: WRITE_MS + CLOSE_GRACE_MS,
    settings: WRITE_SETTINGS,
  });
  const writer = new ClickHouseWriter(client, options);
  return {
    write: (lines) => attempted(() => (lines.length === 0 ? writer.check() : writer.write(lines))),
    upkeep: () => writer.upkeep.state,
    settle: (settled) => attempted(() => writer.settle(settled)),
    async close() {
      client.close();
    },
  };
}

/** Time between two rows that say until when an idle log is complete. Each row is a part, which the server must merge. */
const SETTLED_EVERY_MS = 25_000;
/** Days after which one checkpoint of each day is kept, instead of one for nearly every second with a line. */
const EVERY_CHECKPOINT_DAYS = 2;
/** Days, and checkpoints of a log and a day, that are deleted at once. */
const DELETED_MAX = 1_000;
/** Groups of checkpoints, each of a log and a day, that one statement deletes: the server accepts a thousand unfinished mutations. */
const GROUPS_AT_ONCE = 100;
const DAY = /^\d{4}-\d{2}-\d{2}$/;
const LINE_NAMES = LINE_COLUMNS.map(({ name }) => name);

class ClickHouseWriter {
  readonly #client: ClickHouseClient;
  readonly #retentionDays: number | undefined;
  readonly #tenant: string | undefined;
  #isPrepared = false;
  /** Until when logs are stored as complete, by stream: an exporter sends one log of each. */
  readonly #settled = new Map<string, EpochMs>();
  readonly upkeep = new Upkeep(reasonOf);

  constructor(client: ClickHouseClient, { retentionDays, tenant }: WriterOptions) {
    this.#client = client;
    this.#retentionDays = retentionDays;
    this.#tenant = tenant;
  }

  /** Changes nothing. */
  async check(): Promise<void> {
    await this.#client.read(sql`SELECT 1`);
  }

  async write(lines: readonly ExportLine[]): Promise<void> {
    const { rows, checkpoints } = storedOf(lines);
    const days = this.#retentionDays;
    let nowMs = 0;
    try {
      if (!this.#isPrepared) await this.#createTables();
      this.#isPrepared = true;
      if (days !== undefined) nowMs = await this.#serverTime();
      const oldest = days === undefined ? "" : dayOf(nowMs - days * DAY_MS);
      const kept = rows.filter(({ day }) => String(day) >= oldest).map(timed);
      await this.#insert("audit_lines", LINE_NAMES, kept);
      // After the lines: what is sent again because this fails is stored once.
      await this.#insert("audit_logs", LOG_COLUMNS, logRows(rows));
      await this.#insert("audit_checkpoints", ["log", "stream", "size", "note"], checkpoints);
    } catch (error) {
      // The tables may have been dropped.
      this.#isPrepared = false;
      throw error;
    }
    if (days !== undefined)
      await this.upkeep.run(nowMs, [() => this.#dropDays(nowMs, days), () => this.#thinCheckpoints(nowMs, days)]);
  }

  /** A database that lost lines, for example one that was restored, does not become complete by this. */
  async settle({ log, stream, nextSeq, untilMs }: SettledLog): Promise<void> {
    if (Math.abs(untilMs - (this.#settled.get(stream) ?? 0)) < SETTLED_EVERY_MS) return;
    await this.#client.run(
      sql`INSERT INTO audit_logs (log, stream, instance, next_seq, time_ms, complete_ms)
        SELECT log, stream, instance, next_seq, time_ms, ${untilMs} FROM audit_logs FINAL
        WHERE log = ${log} AND stream = ${stream} AND next_seq >= ${nextSeq}`,
    );
    this.#settled.set(stream, untilMs);
  }

  /** Replicas may have other clocks. */
  async #serverTime(): Promise<EpochMs> {
    const [clock] = await this.#client.read(sql`SELECT toUnixTimestamp64Milli(now64(3)) AS now_ms`);
    return Number(clock?.["now_ms"]);
  }

  async #insert(table: string, columns: readonly string[], rows: readonly object[]) {
    if (rows.length > 0) await this.#client.insert(table, columns, rows as readonly StoreAnswer[]);
  }

  /** Existing tables can be used without the permission to create tables. */
  async #createTables(): Promise<void> {
    const [found] = await this.#client.read(
      sql`SELECT count() AS tables FROM system.tables
        WHERE database = currentDatabase() AND name IN ('audit_lines', 'audit_logs', 'audit_checkpoints')`,
    );
    if (Number(found?.["tables"]) === TABLES.length) return;
    for (const table of TABLES) await this.#client.run(new SqlText([table], []));
  }

  /** Drops whole days; of a store that other tenants fill, too, deletes the own lines of these days. */
  async #dropDays(nowMs: EpochMs, retentionDays: number): Promise<void> {
    const isShared = (await this.#client.read(sql`${this.#logsOfOthers} LIMIT 1`)).length > 0;
    const own = isShared ? sql` AND ${isOfTenant(this.#tenant)}` : sql``;
    const days = await this.#client.read(
      sql`SELECT DISTINCT day FROM audit_lines WHERE day < ${dayOf(nowMs - retentionDays * DAY_MS)}${own}
        ORDER BY day LIMIT ${DELETED_MAX}`,
    );
    const names = days.map(({ day }) => String(day)).filter((day) => DAY.test(day));
    const deletion = (day: string): SqlText =>
      isShared
        ? sql`DELETE FROM audit_lines WHERE day = ${day}${own}`
        : sql`ALTER TABLE audit_lines DROP PARTITION ${day}`;
    await runAll(names.map((day) => () => this.#client.run(deletion(day))));
  }

  get #logsOfOthers(): SqlText {
    // Until the server merges them, a log has rows without its tenant.
    return logsOfOthers(sql`audit_logs FINAL`, this.#tenant);
  }

  /** Deletes the checkpoints that PostgreSQL's store deletes, with statements that replicated tables accept: without subqueries. */
  async #thinCheckpoints(nowMs: EpochMs, retentionDays: number): Promise<void> {
    const startOfDay = (daysAgo: number): EpochMs => Date.parse(dayOf(nowMs - daysAgo * DAY_MS));
    const [oldest, recent] = [startOfDay(retentionDays), startOfDay(EVERY_CHECKPOINT_DAYS)];
    const aged = await this.#client.read(
      sql`SELECT log, stream, intDiv(seen_ms, ${DAY_MS}) AS day, max(size) AS kept FROM audit_checkpoints
        WHERE seen_ms < ${Math.max(oldest, recent)} AND log NOT IN (${this.#logsOfOthers}) GROUP BY log, stream, day HAVING min(size) < kept LIMIT ${DELETED_MAX}`,
    );
    const old = await this.#client.read(
      sql`SELECT log, stream, max(size) AS kept FROM audit_checkpoints
        WHERE log NOT IN (${this.#logsOfOthers}) GROUP BY log, stream HAVING minIf(size, seen_ms < ${oldest}) < kept AND min(seen_ms) < ${oldest} LIMIT ${DELETED_MAX}`,
    );
    const smaller = ({ log, stream, kept }: StoreAnswer) =>
      sql`log = ${String(log)} AND stream = ${String(stream)} AND size < ${Number(kept)}`;
    const groups = [
      ...aged.map((row) => sql`(${smaller(row)} AND intDiv(seen_ms, ${DAY_MS}) = ${Number(row["day"])})`),
      ...old.map((row) => sql`(${smaller(row)} AND seen_ms < ${oldest})`),
    ];
    const steps: (() => Promise<void>)[] = [];
    for (let at = 0; at < groups.length; at += GROUPS_AT_ONCE) {
      const those = joined(groups.slice(at, at + GROUPS_AT_ONCE), " OR ");
      steps.push(() => this.#client.run(sql`DELETE FROM audit_checkpoints WHERE ${those}`));
    }
    await runAll(steps);
  }
}

function timed(row: StoreRow): StoreRow {
  return { ...row, time_ms: row["time_ms"] ?? NO_TIME };
}

/**
 * Numbers of errors that are about the rows: text, dates and numbers that cannot be read or are out of range, texts that are too
 * large, a constraint that does not hold. An error that tables with other columns cause is not among them.
 */
const FINAL: ReadonlySet<number> = new Set([6, 25, 26, 27, 38, 41, 69, 72, 117, 128, 131, 321, 349, 469]);

async function attempted(work: () => Promise<void>): Promise<ReceiverOutcome> {
  try {
    await work();
    return { kind: "taken", rejected: 0 };
  } catch (error) {
    const reason = reasonOf(error);
    const code = error instanceof ClickHouseError ? error.code : undefined;
    const isFinal = error instanceof LineWithoutRow || (code !== undefined && FINAL.has(code));
    return isFinal ? { kind: "refused", reason } : { kind: "later", reason, retryAfterMs: undefined };
  }
}

function reasonOf(error: unknown): string {
  return error instanceof ClickHouseError || error instanceof LineWithoutRow ? error.message : "unknown error";
}
