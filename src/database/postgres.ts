import { readFileSync } from "node:fs";
import { type Row, type Sql, StoreProblem, type Transactions, transact } from "./dialect.ts";
import { ConnectionPool, type PoolLimits } from "./pool.ts";
import type { PostgresAddress } from "./postgres-url.ts";
import { integer } from "./rows.ts";
import { quotedSchemaOf } from "./tenant-schema.ts";

const CONNECT_SECONDS_MAX = 5;
const IDLE_SECONDS_MAX = 300;
/** Limits that the server enforces, in milliseconds: a statement, a lock wait, and an idle transaction of a stalled process. */
const STATEMENT_MS_MAX = 5_000;
const LOCK_MS_MAX = 4_000;
const IDLE_IN_TRANSACTION_MS_MAX = 10_000;

export const WRITE = "ISOLATION LEVEL READ COMMITTED READ WRITE";
export const READ = "ISOLATION LEVEL READ COMMITTED READ ONLY";

/**
 * SQLSTATEs after which a transaction may be retried, because it changed nothing. The service's own transactions take turns,
 * so the conflict comes from an operator, or from a newer release that added a column after a statement was prepared.
 */
const BUSY = new Set(["40001", "40P01", "0A000"]);

/** Returns whether the transaction may be retried. */
export function isBusy(error: unknown): boolean {
  return BUSY.has(stateOf(error));
}

interface StatementOptions {
  /** Limit for one statement, enforced by the server, in milliseconds. */
  readonly statementMs: number;
  /** True when a standby may answer. */
  readonly acceptsStandby?: true;
  /** The tenant whose tables the statements use; undefined: those of the search path. */
  readonly tenant?: string | undefined;
}

interface PooledOptions extends Omit<StatementOptions, "tenant"> {
  readonly count: number;
  readonly limits: PoolLimits;
  /** Name of the server in errors. */
  readonly server?: string;
}

/**
 * Returns transactions that any pooler may carry: no settings of the session and no prepared statements with a name. The limits
 * travel with the statement that reads the clock.
 */
export function pooledTransactions(
  address: PostgresAddress,
  { statementMs, acceptsStandby, ...options }: PooledOptions,
): Transactions {
  const pool = pooledConnections(address, { ...options, statementMs });
  return {
    ...transactionsOn(pool, { statementMs, ...(acceptsStandby && { acceptsStandby }) }),
    close: () => pool.close(),
  };
}

/** Returns the connections of `transactionsOn`. */
export function pooledConnections(
  address: PostgresAddress,
  { statementMs, ...options }: PooledOptions,
): ConnectionPool {
  return new ConnectionPool({
    ...options,
    open: () => connect(address, { ...POOLED, connectionTimeout: statementMs / 1_000 }),
  });
}

/** Returns the transactions of one user of the connections. */
export function transactionsOn(
  pool: Pick<ConnectionPool, "run">,
  { statementMs, acceptsStandby, tenant }: StatementOptions,
): Omit<Transactions, "close"> {
  const use = useOf(tenant);
  return {
    begin: (kind, work) =>
      pool.run(
        kind === "read" ? READ : WRITE,
        async (sql) => {
          const row = await boundedClock(sql, statementMs);
          const now = acceptsStandby === true ? integer(row, "now") : primaryClock(row);
          if (kind === "relaxed") await sql`SELECT set_config('synchronous_commit', 'off', true)`;
          return work(sql, now);
        },
        use,
      ),
    isBusy,
  };
}

/** Returns how a tenant uses connections that it shares with others; undefined: the service itself. */
export function useOf(tenant: string | undefined): { readonly user?: string; readonly using: typeof transact } {
  return tenant === undefined ? { using: transact } : { user: tenant, using: inSchemaOf(tenant) };
}

/**
 * Returns how a transaction of a tenant begins and ends: the tenant's schema is the only one in which its statements look for tables.
 * The setting ends with the transaction, so that the connection can then serve another tenant, also behind a pooler; PostgreSQL
 * parses a prepared statement again under another search path. It is sent with BEGIN and takes no time of its own. Rejected: the
 * schema in the text of each statement, where one can be forgotten.
 */
function inSchemaOf(tenant: string): typeof transact {
  const setting = `SET LOCAL search_path = ${quotedSchemaOf(tenant)}`;
  return async (connection, mode, work) => {
    // Reserves one connection: after a lost one, the runtime would run the statement on a new connection, outside of the transaction.
    const held = await connection.reserve();
    try {
      await held.unsafe(`BEGIN ${mode}; ${setting}`);
      const result = await work(held as unknown as Bun.TransactionSQL);
      await held.unsafe("COMMIT");
      return result;
    } catch (error) {
      await held.unsafe("ROLLBACK");
      throw error;
    } finally {
      held.release();
    }
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
export async function acquireWriteLock(sql: Sql): Promise<number> {
  const [row = {}] = await sql`
    WITH held AS MATERIALIZED (SELECT value FROM approval_counters WHERE name = 'events' FOR UPDATE)
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now FROM held`;
  return integer(row, "now");
}

/** Returns the server's Unix time in milliseconds. Rejects a standby: it may not know yet that an approval was revoked. */
export async function clockOf(sql: Sql): Promise<number> {
  const [row = {}] = await sql`
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now, pg_is_in_recovery() AS standby`;
  return primaryClock(row);
}

function primaryClock(row: Row): number {
  if (row["standby"] !== false) throw new StoreProblem("is a standby: name the primary");
  return integer(row, "now");
}

/** Sets the limits of a connection for this transaction: a pooler refuses them when it is connected to. */
export async function limitTransaction(sql: Sql): Promise<void> {
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

/** Returns the SQLSTATE; an empty text when the error is not the server's. */
export function stateOf(error: unknown): string {
  return error instanceof Bun.SQL.PostgresError ? (error.errno ?? "") : "";
}
