import { readFileSync } from "node:fs";
import { errorText } from "../../core/error-text.ts";
import { Lanes } from "./postgres-lanes.ts";
import { SCHEMA_VERSION, STEPS } from "./postgres-schema.ts";
import { type PostgresPlace, parsePostgresUrl } from "./postgres-url.ts";
import { integer } from "./rows.ts";
import { type Dialect, type Row, type Sql, transact } from "./sql.ts";

/** Connections of one process: writers take turns in the whole fleet, so that one is enough; and one more listens. */
const WRITERS = 1;
const READERS = 4;
const CONNECT_SECONDS_MAX = 5;
const IDLE_SECONDS_MAX = 300;
/** What the server itself ends, in milliseconds: a statement, a wait for the right to write, and a process that stopped amidst. */
const STATEMENT_MS_MAX = 5_000;
const LOCK_MS_MAX = 4_000;
const IDLE_IN_TRANSACTION_MS_MAX = 10_000;

const WRITE = "ISOLATION LEVEL READ COMMITTED READ WRITE";
const READ = "ISOLATION LEVEL READ COMMITTED READ ONLY";

const CHANNEL = "stc_approvals";
const LISTEN_RETRY_MS = 1_000;
/** Announcements are lost with their connection, and nobody is told of a connection that is only silent. */
const POLL_MS = 1_000;

/** "stc-appr" in ASCII: whoever brings the tables up to date holds this advisory lock. */
const MIGRATION_LOCK = "8319383458219585650";
/** PostgreSQL 13. */
const SERVER_VERSION_MIN = 130_000;

/**
 * SQLSTATE: another transaction was in the way, and this one changed nothing. Ours take turns: it is an operator's, or a
 * newer release's, which has added a column since a statement was prepared.
 */
const BUSY = new Set(["40001", "40P01", "0A000"]);
const BUSY_ATTEMPTS_MAX = 3;

type Log = (message: string, cause: unknown) => void;

/**
 * Opens, or makes, the tables in the schema that is first on the user's search path. The clock is the server's.
 * @throws Error that names the server and what to do, never the user or the password
 */
export async function openPostgres(url: string, log: Log): Promise<Dialect> {
  const place = parsePostgresUrl(url);
  const first = connect(place);
  try {
    await prepareDatabase(first);
  } catch (error) {
    const { hostname, port, database } = place;
    throw new Error(`approvals store postgres://${hostname}:${port}/${database}: ${explain(error)}`, { cause: error });
  } finally {
    await first.close({ timeout: 0 });
  }
  const writers = new Lanes(WRITERS, () => connect(place));
  const readers = new Lanes(READERS, () => connect(place));
  const listener = new Listener(() => connect(place), log);
  return {
    begin: (kind, work) =>
      kind === "write"
        ? writers.run(WRITE, async (sql) => work(sql, await takeTurn(sql)))
        : readers.run(READ, async (sql) => work(sql, await clockOf(sql))),
    isBusy: (error) => BUSY.has(stateOf(error)),
    busyAttemptsMax: BUSY_ATTEMPTS_MAX,
    announce: async (sql) => {
      await sql`SELECT pg_notify(${CHANNEL}, '')`;
    },
    watch: (changed) => void listener.listen(changed),
    pollMs: POLL_MS,
    async close() {
      await Promise.all([listener.close(), writers.close(), readers.close()]);
    },
  };
}

/**
 * The right to write, as on SQLite: the bounds are a count and then an insert, and events are numbered in the order of
 * commits. Rejected: serializable isolation, which fails commits whose lines are in the journal. The clock is looked at
 * when the row is held, not before.
 */
async function takeTurn(sql: Sql): Promise<number> {
  const [row = {}] = await sql`
    WITH held AS MATERIALIZED (SELECT value FROM approval_counters WHERE name = 'events' FOR UPDATE)
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now FROM held`;
  return integer(row, "now");
}

/** A standby may not know yet that a yes was taken back. */
async function clockOf(sql: Sql): Promise<number> {
  const [row = {}] = await sql`
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now, pg_is_in_recovery() AS standby`;
  if (row["standby"] !== false) throw new StoreFault("is a standby: name the primary");
  return integer(row, "now");
}

export function connect({ hostname, port, database, username, password, ...place }: PostgresPlace): Bun.SQL {
  // Every member is given: for what is left out, the environment would be asked.
  return new Bun.SQL({
    url: `postgres://host/?sslmode=${place.sslMode}`,
    ...{ adapter: "postgres", hostname, port, database, username, password, tls: tlsOf(place) },
    max: 1,
    connectionTimeout: CONNECT_SECONDS_MAX,
    idleTimeout: IDLE_SECONDS_MAX,
    channelBinding: place.sslMode === "disable" ? "disable" : "prefer",
    connection: {
      application_name: "safe-tool-call",
      statement_timeout: STATEMENT_MS_MAX,
      lock_timeout: LOCK_MS_MAX,
      idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS_MAX,
    },
  });
}

type Tls = NonNullable<Bun.SQL.PostgresOrMySQLOptions["tls"]>;

/** Files are read for each connection: they may have been renewed. */
function tlsOf({ sslMode, rootCert, cert, key }: Pick<PostgresPlace, "sslMode" | "rootCert" | "cert" | "key">): Tls {
  if (sslMode === "disable") return "disable";
  return {
    rejectUnauthorized: sslMode !== "require",
    ...(rootCert !== undefined && { ca: readFileSync(rootCert, "utf8") }),
    ...(cert !== undefined && { cert: readFileSync(cert, "utf8") }),
    ...(key !== undefined && { key: readFileSync(key, "utf8") }),
  };
}

async function prepareDatabase(sql: Bun.SQL): Promise<void> {
  await transact(sql, READ, async (tx) => {
    await clockOf(tx);
    const [row = {}] = await tx`
      SELECT current_setting('server_version_num')::integer AS version, current_setting('server_encoding') AS encoding,
        current_setting('synchronous_commit') AS durable`;
    if (integer(row, "version") < SERVER_VERSION_MIN)
      throw new StoreFault("is too old: it must be PostgreSQL 13 or later");
    if (row["encoding"] !== "UTF8") throw new StoreFault("must be a database with the encoding UTF8");
    if (row["durable"] === "off") {
      throw new StoreFault("forgets commits when it crashes: set synchronous_commit to on for this user");
    }
  });
  if ((await transact(sql, READ, versionOf)) === SCHEMA_VERSION) return;
  await sql.begin(WRITE, async (tx) => {
    await tx`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK}::bigint)`;
    // Another process may have done it while we waited.
    for (const step of STEPS.slice(await versionOf(tx))) await tx.unsafe(step);
    await tx`UPDATE approval_schema SET version = ${SCHEMA_VERSION} WHERE version < ${SCHEMA_VERSION}`;
  });
}

/** 0 for a database without our tables. Looked for in the catalogue's rows: `to_regclass` may answer from before a wait. */
async function versionOf(sql: Sql): Promise<number> {
  const tables = await sql`
    SELECT tablename AS name FROM pg_tables
    WHERE schemaname = ANY (current_schemas(false)) AND tablename IN ('approval_schema', 'approvals')`;
  if (!tables.some((table) => table["name"] === "approval_schema")) {
    if (tables.length > 0) throw new StoreFault("has a table `approvals` of something else: name another database");
    return 0;
  }
  const rows: readonly Row[] = await sql`SELECT version FROM approval_schema`;
  const version = Number(rows[0]?.["version"]);
  if (rows.length !== 1 || !Number.isSafeInteger(version) || version < 1) {
    throw new StoreFault("is damaged: restore it from a backup, or drop its tables to start with no approvals");
  }
  if (version > SCHEMA_VERSION) {
    throw new StoreFault(
      `was written by a newer version of this service (schema ${version}, this one knows ${SCHEMA_VERSION}): run that version, or name another database`,
    );
  }
  return version;
}

/** One connection that hears what is announced. The runtime connects it again, and says so each time. */
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
        if (isFirst && !this.#closed) this.#log("approval events are not announced; they are looked for", error);
      }
      await new Promise((resolve) => setTimeout(resolve, LISTEN_RETRY_MS).unref());
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#sql.close({ timeout: 0 }).catch(() => {});
  }
}

class StoreFault extends Error {
  override readonly name = "StoreFault";
}

function explain(error: unknown): string {
  if (error instanceof StoreFault) return error.message;
  const state = stateOf(error);
  const text = errorText(error);
  if (state.startsWith("28")) return "refuses this user or password, or this way of connecting (pg_hba.conf)";
  if (state === "3D000") return "there is no such database: create it";
  if (state === "42501") return `may not be used or written by this user (${text}): grant it CREATE in its schema`;
  if (state !== "") return `cannot be prepared (${text})`;
  return `cannot be reached (${text}): check its address, and the certificates of sslmode, and that it runs`;
}

function stateOf(error: unknown): string {
  return error instanceof Bun.SQL.PostgresError ? (error.errno ?? "") : "";
}
