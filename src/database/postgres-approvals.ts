import {
  type Dialect,
  type Sql,
  STATE_MS_MAX,
  type StoreFacts,
  type StoreParts,
  type Transactions,
  transact,
} from "./dialect.ts";
import { ConnectionPool, type PoolLimits, StoreUnavailable } from "./pool.ts";
import {
  acquireWriteLock,
  clockOf,
  connect,
  isBusy,
  limitTransaction,
  pooledConnections,
  READ,
  transactionsOn,
  useOf,
  WRITE,
} from "./postgres.ts";
import { Listener } from "./postgres-listener.ts";
import { explain, prepareDatabase, readDatabase } from "./postgres-tables.ts";
import { type PostgresAddress, parsePostgresUrl } from "./postgres-url.ts";
import { integer } from "./rows.ts";
import { POSTGRES_STEPS } from "./schema.ts";
import { Semaphore } from "./semaphore.ts";
import { Sharing } from "./sharing.ts";
import { channelOf } from "./tenant-schema.ts";

/**
 * Connections per process, plus one that listens and one that counts calls; with tenants no more. A tenant has one writer, because
 * writers of all replicas take turns; with two, a tenant whose writer waits does not keep the others from writing.
 */
const WRITERS = 2;
const WRITERS_PER_TENANT = 1;
const READERS = 4;
const STATE_CONNECTIONS = 2;
/** A transaction of the approvals may take this long: the server's own limits are shorter. */
const APPROVAL_LIMITS: PoolLimits = { transactionMs: 12_000, queueMs: 10_000 };
const STATE_LIMITS: PoolLimits = { transactionMs: STATE_MS_MAX, queueMs: STATE_MS_MAX };
/** Poll interval, in milliseconds: notifications are lost with their connection, and a silent connection raises no error. */
const POLL_MS = 1_000;
const BUSY_ATTEMPTS_MAX = 3;

type TenantPart = Pick<StoreParts, "tenant">;

const approvalConnections = new Sharing<ReturnType<typeof openConnections>>();
const stateConnections = new Sharing<ConnectionPool>();
const singleConnections = new Sharing<ConnectionPool>();

/** Tenants are prepared one after another: each by a connection for this time only. */
const preparing = new Semaphore({
  permits: Number.POSITIVE_INFINITY,
  permitsPerKey: 1,
  refused: () => new StoreUnavailable("too many tenants wait for the approvals' PostgreSQL"),
});

/**
 * Opens or creates the tables: a tenant's in a schema of its own, the others in the first schema of the user's search path. Uses the
 * server's clock.
 * @throws Error that names the server and what to do, never the user or the password
 */
export async function openPostgres(url: string, { log, tenant }: Pick<StoreParts, "log" | "tenant">): Promise<Dialect> {
  const address = parsePostgresUrl(url);
  await connectOnce({ url, address, tenant }, (sql) => prepareDatabase(sql, tenant));
  const { resource, leave } = approvalConnections.join(url, tenant, () => openConnections(address));
  const { writers, readers, listener } = resource;
  const limit = address.isPooled ? limitTransaction : async () => {};
  const channel = channelOf(tenant);
  const use = useOf(tenant);
  let stopListening = (): void => {};
  return {
    begin: (kind, work) =>
      kind !== "read"
        ? writers.run(
            WRITE,
            async (sql) => {
              await limit(sql);
              return work(sql, await acquireWriteLock(sql));
            },
            use,
          )
        : readers.run(
            READ,
            async (sql) => {
              await limit(sql);
              return work(sql, await clockOf(sql));
            },
            use,
          ),
    isBusy,
    busyAttemptsMax: BUSY_ATTEMPTS_MAX,
    announce: async (sql) => {
      await sql`SELECT pg_notify(${channel}, '')`;
    },
    watch(changed) {
      stopListening = listener?.listen({ channel, changed, log }) ?? stopListening;
    },
    pollMs: POLL_MS,
    async close() {
      stopListening();
      writers.refuse(tenant);
      readers.refuse(tenant);
      await leave();
    },
  };
}

function openConnections(address: PostgresAddress) {
  const ours = { limits: APPROVAL_LIMITS, open: () => connect(address) };
  const writers = new ConnectionPool({ count: WRITERS, countPerUser: WRITERS_PER_TENANT, ...ours });
  const readers = new ConnectionPool({ count: READERS, ...ours });
  // A pooler forwards no notifications: events are polled.
  const listener = address.isPooled ? undefined : new Listener(() => connect(address));
  return {
    writers,
    readers,
    listener,
    async close() {
      await Promise.all([listener?.close(), writers.close(), readers.close()]);
    },
  };
}

/**
 * Checks the server, the database and its tables as `openPostgres` does, and changes nothing.
 * @throws Error as `openPostgres`
 */
export async function inspectPostgres(
  url: string,
  { now, tenant }: Pick<StoreParts, "now" | "tenant">,
): Promise<StoreFacts> {
  const address = parsePostgresUrl(url);
  return connectOnce({ url, address, tenant }, async (sql) => {
    const version = await readDatabase(sql, tenant);
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

interface Once extends TenantPart {
  readonly url: string;
  readonly address: PostgresAddress;
}

/** @throws Error that names the server and what to do, never the user or the password */
async function connectOnce<T>({ url, address, tenant }: Once, work: (sql: Bun.SQL) => Promise<T>): Promise<T> {
  if (tenant !== undefined) await preparing.acquire(undefined, url);
  const sql = connect(address);
  try {
    return await work(sql);
  } catch (error) {
    const { hostname, port, database } = address;
    throw new Error(`approvals store postgres://${hostname}:${port}/${database}: ${explain(error)}`, { cause: error });
  } finally {
    await sql.close({ timeout: 0 });
    if (tenant !== undefined) preparing.release(url);
  }
}

/** Short transactions on the policies' state. */
export async function postgresState(url: string, { tenant }: TenantPart): Promise<Transactions> {
  const address = parsePostgresUrl(url);
  const { resource: pool, leave } = stateConnections.join(url, tenant, () =>
    pooledConnections(address, { count: STATE_CONNECTIONS, limits: STATE_LIMITS, statementMs: STATE_MS_MAX }),
  );
  return {
    ...transactionsOn(pool, { statementMs: STATE_MS_MAX, tenant }),
    async close() {
      pool.refuse(tenant);
      await leave();
    },
  };
}

interface SingleOptions extends TenantPart {
  /** Limit for the statements of one call of `run`, and for its wait for the connection, in milliseconds. */
  readonly limitMs: number;
}

/** Runs statements that need no transaction, on one connection of the process. */
interface SingleStatements {
  run<T>(work: (sql: Bun.SQL) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** Opens a connection at first use. The statements of a tenant run in a transaction, which gives them its schema. */
export function singleStatements(url: string, { tenant, limitMs }: SingleOptions): SingleStatements {
  const address = parsePostgresUrl(url);
  const limits: PoolLimits = { transactionMs: limitMs, queueMs: limitMs };
  const { resource: pool, leave } = singleConnections.join(
    url,
    tenant,
    () => new ConnectionPool({ count: 1, limits, open: () => connect(address) }),
  );
  const use = tenant === undefined ? { using: withoutTransaction } : useOf(tenant);
  return {
    run: (work) => pool.run(WRITE, work, use),
    async close() {
      pool.refuse(tenant);
      await leave();
    },
  };
}

const withoutTransaction: typeof transact = (connection, _mode, work) =>
  work(connection as unknown as Bun.TransactionSQL);
