import { readFileSync } from "node:fs";
import { errorText } from "../core/error-text.ts";
import { resultWithin } from "../core/time-limits.ts";
import {
  type Dialect,
  type Row,
  type Sql,
  STATE_MS_MAX,
  type StoreFacts,
  StoreProblem,
  schemaVersion,
  type Transactions,
  transact,
} from "./dialect.ts";
import { ConnectionPool, type PoolLimits } from "./pool.ts";
import { type PostgresAddress, parsePostgresUrl } from "./postgres-url.ts";
import { integer } from "./rows.ts";
import { migrate, POSTGRES_STEPS } from "./schema.ts";

/** Connections per process, plus one that listens. One writer is enough: writers of all replicas take turns. */
const WRITERS = 1;
const READERS = 4;
const STATE_CONNECTIONS = 2;
/** A transaction of the approvals may take this long: the server's own limits are shorter. */
const APPROVAL_LIMITS: PoolLimits = { transactionMs: 12_000, queueMs: 10_000 };
const STATE_LIMITS: PoolLimits = { transactionMs: STATE_MS_MAX, queueMs: STATE_MS_MAX };
const CONNECT_SECONDS_MAX = 5;
/** Limit for the first look at a database, with the connection: a server that has stopped may still accept connections. */
const FIRST_READ_MS_MAX = 8_000;
const IDLE_SECONDS_MAX = 300;
/** Limits that the server enforces, in milliseconds: a statement, a lock wait, and an idle transaction of a stalled process. */
const STATEMENT_MS_MAX = 5_000;
const LOCK_MS_MAX = 4_000;
const IDLE_IN_TRANSACTION_MS_MAX = 10_000;

const WRITE = "ISOLATION LEVEL READ COMMITTED READ WRITE";
const READ = "ISOLATION LEVEL READ COMMITTED READ ONLY";

const CHANNEL = "stc_approvals";
const LISTEN_RETRY_MS = 1_000;
/** Poll interval, in milliseconds: notifications are lost with their connection, and a silent connection raises no error. */
const POLL_MS = 1_000;

/** Advisory lock held during a migration: "stc-appr" in ASCII. */
const MIGRATION_LOCK = "8319383458219585650";
/** Minimum `server_version_num`: PostgreSQL 13. */
const SERVER_VERSION_MIN = 130_000;

/**
 * SQLSTATEs after which a transaction may be retried, because it changed nothing. The service's own transactions take turns,
 * so the conflict comes from an operator, or from a newer release that added a column after a statement was prepared.
 */
const BUSY = new Set(["40001", "40P01", "0A000"]);
const BUSY_ATTEMPTS_MAX = 3;

type Log = (message: string, cause: unknown) => void;

/**
 * Opens or creates the tables in the first schema of the user's search path. Uses the server's clock.
 * @throws Error that names the server and what to do, never the user or the password
 */
export async function openPostgres(url: string, log: Log): Promise<Dialect> {
  const address = parsePostgresUrl(url);
  await connectOnce(address, prepareDatabase);
  const ours = { limits: APPROVAL_LIMITS, open: () => connect(address) };
  const writers = new ConnectionPool({ count: WRITERS, ...ours });
  const readers = new ConnectionPool({ count: READERS, ...ours });
  // A pooler forwards no notifications: events are polled.
  const listener = address.isPooled ? undefined : new Listener(() => connect(address), log);
  const limit = address.isPooled ? limitTransaction : async () => {};
  return {
    begin: (kind, work) =>
      kind !== "read"
        ? writers.run(WRITE, async (sql) => {
            await limit(sql);
            return work(sql, await acquireWriteLock(sql));
          })
        : readers.run(READ, async (sql) => {
            await limit(sql);
            return work(sql, await clockOf(sql));
          }),
    isBusy: (error) => BUSY.has(stateOf(error)),
    busyAttemptsMax: BUSY_ATTEMPTS_MAX,
    announce: async (sql) => {
      await sql`SELECT pg_notify(${CHANNEL}, '')`;
    },
    watch: (changed) => void listener?.listen(changed),
    pollMs: POLL_MS,
    async close() {
      await Promise.all([listener?.close(), writers.close(), readers.close()]);
    },
  };
}

/**
 * Checks the server, the database and its tables as `openPostgres` does, and changes nothing.
 * @throws Error as `openPostgres`
 */
export async function inspectPostgres(url: string, now: () => number): Promise<StoreFacts> {
  const address = parsePostgresUrl(url);
  return connectOnce(address, async (sql) => {
    const version = await readDatabase(sql);
    const server = await transact(sql, READ, (tx) => serverFacts(tx, now));
    return { version, latest: POSTGRES_STEPS.length, server: { ...server, isPooled: address.isPooled } };
  });
}

async function serverFacts(sql: Sql, now: () => number) {
  // The first statement of its kind is also planned.
  await clockOf(sql);
  const sentMs = now();
  const serverMs = await clockOf(sql);
  const roundTripMs = now() - sentMs;
  const [row = {}] = await sql`
    SELECT current_setting('server_version') AS release,
      current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
        - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::integer AS connections,
      coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS encrypted`;
  return {
    release: String(row["release"]),
    roundTripMs,
    aheadMs: serverMs - sentMs - roundTripMs / 2,
    connectionsLeft: integer(row, "connections"),
    isEncrypted: row["encrypted"] === true,
  };
}

/** @throws Error that names the server and what to do, never the user or the password */
async function connectOnce<T>(address: PostgresAddress, work: (sql: Bun.SQL) => Promise<T>): Promise<T> {
  const sql = connect(address);
  try {
    return await work(sql);
  } catch (error) {
    const { hostname, port, database } = address;
    throw new Error(`approvals store postgres://${hostname}:${port}/${database}: ${explain(error)}`, { cause: error });
  } finally {
    await sql.close({ timeout: 0 });
  }
}

/** Short transactions on the policies' state. */
export async function postgresState(url: string): Promise<Transactions> {
  return pooledTransactions(parsePostgresUrl(url), {
    count: STATE_CONNECTIONS,
    limits: STATE_LIMITS,
    statementMs: STATE_MS_MAX,
  });
}

interface PooledOptions {
  readonly count: number;
  readonly limits: PoolLimits;
  /** Limit for one statement, enforced by the server, in milliseconds. */
  readonly statementMs: number;
  /** Name of the server in errors. */
  readonly server?: string;
  /** True when a standby may answer. */
  readonly acceptsStandby?: true;
}

/**
 * Returns transactions that any pooler may carry: no settings of the session and no prepared statements with a name. The limits
 * travel with the statement that reads the clock.
 */
export function pooledTransactions(
  address: PostgresAddress,
  { statementMs, acceptsStandby, ...options }: PooledOptions,
): Transactions {
  const pool = new ConnectionPool({
    ...options,
    open: () => connect(address, { ...POOLED, connectionTimeout: statementMs / 1_000 }),
  });
  return {
    begin: (kind, work) =>
      pool.run(kind === "read" ? READ : WRITE, async (sql) => {
        const row = await boundedClock(sql, statementMs);
        const now = acceptsStandby === true ? integer(row, "now") : primaryClock(row);
        if (kind === "relaxed") await sql`SELECT set_config('synchronous_commit', 'off', true)`;
        return work(sql, now);
      }),
    isBusy: (error) => BUSY.has(stateOf(error)),
    close: () => pool.close(),
  };
}

/** Reads the clock as `clockOf` does, and limits the statements of this transaction. */
async function boundedClock(sql: Sql, statementMs: number): Promise<Row> {
  const [row = {}] = await sql`
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now, pg_is_in_recovery() AS standby,
      set_config('statement_timeout', ${String(statementMs)}, true),
      set_config('lock_timeout', ${String(Math.min(statementMs, LOCK_MS_MAX))}, true),
      set_config('idle_in_transaction_session_timeout', ${String(IDLE_IN_TRANSACTION_MS_MAX)}, true)`;
  return row;
}

/**
 * Gets the exclusive right to write, as on SQLite: limits are checked by a count before an insert, and events are numbered in
 * commit order. Rejected: serializable isolation, which fails commits whose lines are already in the journal. Reads the clock
 * after the row lock is acquired, not before.
 * @returns Unix time in milliseconds
 */
async function acquireWriteLock(sql: Sql): Promise<number> {
  const [row = {}] = await sql`
    WITH held AS MATERIALIZED (SELECT value FROM approval_counters WHERE name = 'events' FOR UPDATE)
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now FROM held`;
  return integer(row, "now");
}

/** Returns the server's Unix time in milliseconds. Rejects a standby: it may not know yet that an approval was revoked. */
async function clockOf(sql: Sql): Promise<number> {
  const [row = {}] = await sql`
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now, pg_is_in_recovery() AS standby`;
  return primaryClock(row);
}

function primaryClock(row: Row): number {
  if (row["standby"] !== false) throw new StoreProblem("is a standby: name the primary");
  return integer(row, "now");
}

/** Sets the limits of a connection for this transaction: a pooler refuses them when it is connected to. */
async function limitTransaction(sql: Sql): Promise<void> {
  await sql`
    SELECT set_config('statement_timeout', ${String(STATEMENT_MS_MAX)}, true),
      set_config('lock_timeout', ${String(LOCK_MS_MAX)}, true),
      set_config('idle_in_transaction_session_timeout', ${String(IDLE_IN_TRANSACTION_MS_MAX)}, true)`;
}

interface ConnectOptions {
  readonly prepare?: boolean;
  readonly connectionTimeout?: number;
  readonly connection?: Readonly<Record<string, string | number>>;
}

/** A pooler passes the application's name on, and refuses other settings. */
const POOLED = { prepare: false, connection: { application_name: "safe-tool-call" } };

export function connect(
  { hostname, port, database, username, password, ...address }: PostgresAddress,
  options: ConnectOptions = address.isPooled ? POOLED : {},
): Bun.SQL {
  // Set every option: Bun reads omitted ones from the environment.
  return new Bun.SQL({
    url: `postgres://host/?sslmode=${address.sslMode}`,
    adapter: "postgres",
    hostname,
    port,
    database,
    username,
    password,
    tls: tlsOf(address),
    max: 1,
    connectionTimeout: CONNECT_SECONDS_MAX,
    idleTimeout: IDLE_SECONDS_MAX,
    channelBinding: address.sslMode === "disable" ? "disable" : "prefer",
    connection: {
      application_name: "safe-tool-call",
      statement_timeout: STATEMENT_MS_MAX,
      lock_timeout: LOCK_MS_MAX,
      idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS_MAX,
    },
    ...options,
  });
}

type Tls = NonNullable<Bun.SQL.PostgresOrMySQLOptions["tls"]>;

/** Reads the files for each connection: they may have been renewed. */
function tlsOf({ sslMode, rootCert, cert, key }: Pick<PostgresAddress, "sslMode" | "rootCert" | "cert" | "key">): Tls {
  if (sslMode === "disable") return "disable";
  return {
    rejectUnauthorized: sslMode !== "require",
    ...(rootCert !== undefined && { ca: readFileSync(rootCert, "utf8") }),
    ...(cert !== undefined && { cert: readFileSync(cert, "utf8") }),
    ...(key !== undefined && { key: readFileSync(key, "utf8") }),
  };
}

/** Returns the version of the tables, once the server and the database are known to be usable. Changes nothing. */
function readDatabase(sql: Bun.SQL): Promise<number> {
  const tooLate = (): Error => new Error(`no answer within ${FIRST_READ_MS_MAX / 1_000} s`);
  return resultWithin(readUsable(sql), FIRST_READ_MS_MAX, tooLate);
}

function readUsable(sql: Bun.SQL): Promise<number> {
  return transact(sql, READ, async (tx) => {
    await clockOf(tx);
    const [row = {}] = await tx`
      SELECT current_setting('server_version_num')::integer AS version, current_setting('server_encoding') AS encoding,
        current_setting('synchronous_commit') AS durable, has_schema_privilege(current_schema(), 'CREATE') AS creates`;
    if (integer(row, "version") < SERVER_VERSION_MIN)
      throw new StoreProblem("is too old: it must be PostgreSQL 13 or later");
    if (row["encoding"] !== "UTF8") throw new StoreProblem("must be a database with the encoding UTF8");
    if (row["durable"] === "off") {
      throw new StoreProblem("forgets commits when it crashes: set synchronous_commit to on for this user");
    }
    const version = await versionOf(tx);
    if (version < POSTGRES_STEPS.length && row["creates"] !== true) {
      throw new StoreProblem("may not be used or written by this user: grant it CREATE in its schema");
    }
    return version;
  });
}

async function prepareDatabase(sql: Bun.SQL): Promise<void> {
  if ((await readDatabase(sql)) >= POSTGRES_STEPS.length) return;
  await sql.begin(WRITE, async (tx) => {
    await limitTransaction(tx);
    await tx`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK}::bigint)`;
    // Another process may have migrated the tables while this one waited for the lock.
    await migrate(tx, { steps: POSTGRES_STEPS, from: await versionOf(tx), run: (step) => tx.unsafe(step) });
  });
}

/**
 * Returns the schema version; 0 for a database without the service's tables. Queries the catalog because `to_regclass` may
 * return a state from before a lock wait.
 */
async function versionOf(sql: Sql): Promise<number> {
  const tables = await sql`
    SELECT tablename AS name FROM pg_tables
    WHERE schemaname = ANY (current_schemas(false)) AND tablename IN ('approval_schema', 'approvals')`;
  if (!tables.some((table) => table["name"] === "approval_schema")) {
    if (tables.length > 0) throw new StoreProblem("has a table `approvals` of another program: name another database");
    return 0;
  }
  return schemaVersion(await sql`SELECT * FROM approval_schema`, {
    latest: POSTGRES_STEPS.length,
    ifDamaged: "is damaged: restore it from a backup, or drop its tables to start with no approvals",
    other: "database",
  });
}

/** A connection that listens for notifications. The runtime reconnects it and calls back each time. */
class Listener {
  readonly #sql: Bun.SQL;
  readonly #log: Log;
  #closed = false;

  constructor(connectNew: () => Bun.SQL, log: Log) {
    this.#sql = connectNew();
    this.#log = log;
  }

  async listen(changed: () => void): Promise<void> {
    for (let isFirst = true; !this.#closed; isFirst = false) {
      try {
        await this.#sql.listen(CHANNEL, changed, changed);
        return;
      } catch (error) {
        if (isFirst && !this.#closed) this.#log("approval events are not announced; they are polled", error);
      }
      await new Promise((resolve) => setTimeout(resolve, LISTEN_RETRY_MS).unref());
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#sql.close({ timeout: 0 }).catch(() => {});
  }
}

function explain(error: unknown): string {
  if (error instanceof StoreProblem) return error.message;
  const state = stateOf(error);
  const text = errorText(error);
  if (state.startsWith("28")) return "refuses this user or password, or this way of connecting (pg_hba.conf)";
  if (state === "3D000") return "there is no such database: create it";
  if (state === "42501") return `may not be used or written by this user (${text}): grant it CREATE in its schema`;
  if (state !== "") return `cannot be prepared (${text})`;
  return `cannot be reached (${text}): check its address, and the certificates of sslmode, and that it runs`;
}

/** Returns the SQLSTATE; an empty text when the error is not the server's. */
export function stateOf(error: unknown): string {
  return error instanceof Bun.SQL.PostgresError ? (error.errno ?? "") : "";
}
