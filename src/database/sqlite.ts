import fs from "node:fs";
import { dirname } from "node:path";
import { errorText } from "../core/error-text.ts";
import { asString } from "../core/json.ts";
import { tenantFile } from "../core/tenant-names.ts";
import {
  type ApprovalStore,
  type Dialect,
  type Row,
  type Sql,
  STATE_MS_MAX,
  type StoreFacts,
  type StoreParts,
  StoreProblem,
  schemaVersion,
  type TransactionKind,
  type Transactions,
} from "./dialect.ts";
import { assertOwner, migrate, SQLITE_STEPS } from "./schema.ts";
import { SqliteConnection } from "./sqlite-connection.ts";

/** Time that SQLite itself waits for a lock, in milliseconds: it blocks the whole process meanwhile. */
const BUSY_TIMEOUT_MS = 10;
const OPEN_ATTEMPTS_MAX = 200;
const OPEN_RETRY_MS = 10;
/** Attempts of a transaction to get the write lock while another process holds it: about ten seconds in total. */
const BUSY_ATTEMPTS_MAX = 500;
/** Interval for detecting changes by other processes, in milliseconds. */
const POLL_MS = 200;
const FILE_MODE = 0o600;
const DIRECTORY_MODE = 0o700;
const OTHERS = 0o077;

/**
 * A file on this machine. `sqlite:///absolute/path.sqlite`: the path is used without decoding. A tenant has a file of its own next to
 * it: `path.<tenant>.sqlite`.
 */
export const sqliteStore: ApprovalStore = {
  name: "SQLite",
  setting: "store",
  accepts: /^sqlite:\/\/[^?#]+$/,
  form: "sqlite:// and a file, such as sqlite://./var/approvals.sqlite",
  example: "sqlite:///absolute/path.sqlite",
  async open(url, { now, tenant }) {
    const path = /^sqlite:\/\/(\/[^\0?#]+)$/.exec(url)?.[1];
    if (path === undefined) throw new Error(`the approvals store must be named as ${this.example}`);
    return openSqlite(tenantFile(path, tenant), { now, tenant });
  },
  inspect: (url, { tenant }) => inspectSqlite(tenantFile(url.slice("sqlite://".length), tenant), tenant),
  async stateTransactions(url, { now, tenant }) {
    return sqliteState(tenantFile(url.slice("sqlite://".length), tenant), now);
  },
};

/** Waits for no lock itself: whoever calls retries, and the process is not blocked. */
async function sqliteState(path: string, now: () => number): Promise<Transactions> {
  const opened: SqliteConnection[] = [];
  const open = async (kind: TransactionKind): Promise<SqliteConnection> => {
    const sql = new SqliteConnection(path, { create: false });
    opened.push(sql);
    await sql.pragma("busy_timeout = 0");
    if (kind === "read") await sql.pragma("query_only = ON");
    else await sql.pragma(`synchronous = ${kind === "write" ? "FULL" : "NORMAL"}`);
    return sql;
  };
  const connections: Partial<Record<TransactionKind, Promise<SqliteConnection> | undefined>> = {};
  return {
    async begin(kind, work) {
      connections[kind] ??= open(kind).catch((error) => {
        connections[kind] = undefined;
        throw error;
      });
      const run = (sql: Sql) => work(sql, Math.floor(now()));
      const connection = await connections[kind];
      if (kind === "read") return connection.begin("DEFERRED", run);
      return inTurn({ path, queue: "state", waitMsMax: STATE_MS_MAX }, () => connection.begin("IMMEDIATE", run));
    },
    isBusy,
    close: () => closeAll(opened),
  };
}

interface Turn {
  readonly path: string;
  readonly queue: "approvals" | "state";
  readonly waitMsMax?: number;
}

/** Writers of a file in this process. */
interface Writers {
  readonly waiting: Readonly<Record<Turn["queue"], Set<() => void>>>;
  next: Turn["queue"];
}

const writing = new Map<string, Writers>();

/**
 * Runs `act` when no other writer of this process uses the file. The two queues take turns: SQLite gives its lock to whoever asks
 * first after a commit, and a writer with a queue is always first.
 */
async function inTurn<T>({ path, queue, waitMsMax }: Turn, act: () => Promise<T>): Promise<T> {
  const present = writing.get(path);
  if (present === undefined) {
    writing.set(path, { waiting: { approvals: new Set(), state: new Set() }, next: "state" });
  } else await turnIn(present.waiting[queue], waitMsMax);
  try {
    return await act();
  } finally {
    passOn(path);
  }
}

async function turnIn(waiting: Set<() => void>, waitMsMax: number | undefined): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  waiting.add(resolve);
  const giveUp = (): void => {
    waiting.delete(resolve);
    reject(new Error("the approvals' SQLite file is locked by another change"));
  };
  const timer = waitMsMax === undefined ? undefined : setTimeout(giveUp, waitMsMax);
  await promise;
  clearTimeout(timer);
}

/** Begins the next write, or forgets the file. */
function passOn(path: string): void {
  const writers = writing.get(path);
  if (writers === undefined) return;
  const { waiting, next } = writers;
  const other = next === "state" ? "approvals" : "state";
  const queue = waiting[next].size > 0 ? next : other;
  writers.next = queue === next ? other : next;
  const [begin] = waiting[queue];
  if (begin === undefined) {
    writing.delete(path);
    return;
  }
  waiting[queue].delete(begin);
  begin();
}

/** Returns transactions in this process's memory, with the tables of a file. They take turns. */
export function memoryTransactions(now: () => number): Transactions {
  let opened: Promise<SqliteConnection> | undefined;
  const open = async (): Promise<SqliteConnection> => {
    const sql = new SqliteConnection(":memory:", { create: true });
    await sql.begin("IMMEDIATE", async (_sql, script) => SQLITE_STEPS.forEach(script));
    return sql;
  };
  return {
    async begin(_kind, work) {
      opened ??= open();
      return (await opened).begin("IMMEDIATE", (sql) => work(sql, Math.floor(now())));
    },
    isBusy,
    close: async () => (await opened)?.close(),
  };
}

/**
 * Opens or creates the file, accessible to this user only. Uses the clock of this process: all processes that share the file
 * run on one machine.
 * @throws Error that names the file and what to do
 */
async function openSqlite(path: string, { now, tenant }: Pick<StoreParts, "now" | "tenant">): Promise<Dialect> {
  const opened: SqliteConnection[] = [];
  try {
    prepareFile(path);
    const writer = await connect(path, opened);
    await whileBusy(() => prepareDatabase(writer, { path, tenant }));
    const reader = await connect(path, opened);
    await whileBusy(() => reader.pragma("query_only = ON"));
    return {
      begin: (kind, work) => {
        const run = (sql: Sql) => work(sql, Math.floor(now()));
        if (kind === "read") return reader.begin("DEFERRED", run);
        return inTurn({ path, queue: "approvals" }, () => writer.begin("IMMEDIATE", run));
      },
      isBusy,
      busyAttemptsMax: BUSY_ATTEMPTS_MAX,
      announce: () => Promise.resolve(),
      watch: () => {},
      pollMs: POLL_MS,
      close: () => closeAll(opened),
    };
  } catch (error) {
    await closeAll(opened);
    throw new Error(`approvals store ${path}: ${explain(error)}`, { cause: error });
  }
}

/** Larger files are not read whole: SQLite blocks the process meanwhile. */
const CHECKED_BYTES_MAX = 134_217_728;

/**
 * Reads the file without changing it: a file that nobody has open stays without a write-ahead log.
 * @throws Error that names the file and what to do
 */
async function inspectSqlite(path: string, tenant: string | undefined): Promise<StoreFacts> {
  const latest = SQLITE_STEPS.length;
  const opened: SqliteConnection[] = [];
  try {
    if (fs.lstatSync(path, { throwIfNoEntry: false }) === undefined) return { version: 0, latest };
    const { size } = regularFile(path);
    const reads = fs.existsSync(`${path}-wal`) ? "shared" : "alone";
    const sql = new SqliteConnection(path, { create: false, reads });
    opened.push(sql);
    await sql.pragma(`busy_timeout = ${BUSY_TIMEOUT_MS}`);
    const version = await whileBusy(() => sql.begin("DEFERRED", (tx) => versionOf(tx, tenant)));
    const [mode = {}]: readonly Row[] = reads === "shared" ? await sql.pragma("journal_mode") : [];
    const isChecked = size <= CHECKED_BYTES_MAX;
    const [check]: readonly Row[] = isChecked ? await whileBusy(() => sql.pragma("quick_check(1)")) : [];
    if (isChecked && check?.["quick_check"] !== "ok") throw new StoreProblem(DAMAGED);
    return { version, latest, file: { journalMode: asString(mode["journal_mode"]), isChecked } };
  } catch (error) {
    throw new Error(`approvals store ${path}: ${explain(error)}`, { cause: error });
  } finally {
    await closeAll(opened);
  }
}

/** Makes the file private: SQLite would create it readable for all. New `-wal` and `-shm` files inherit its mode. */
function prepareFile(path: string): void {
  const directory = dirname(path);
  fs.mkdirSync(directory, { recursive: true, mode: DIRECTORY_MODE });
  // Do not open an existing file: closing any descriptor of it drops the locks of this process's connections.
  if (createFile(path)) syncDirectory(directory);
  const { mode } = regularFile(path);
  if ((mode & OTHERS) === 0) return;
  for (const file of [path, `${path}-wal`, `${path}-shm`]) {
    if (fs.existsSync(file)) fs.chmodSync(file, FILE_MODE);
  }
}

function createFile(path: string): boolean {
  try {
    fs.closeSync(fs.openSync(path, "wx", FILE_MODE));
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  }
}

function regularFile(path: string): fs.Stats {
  const stats = fs.lstatSync(path);
  if (!stats.isFile()) throw new StoreProblem("is not a regular file: name another path");
  return stats;
}

function syncDirectory(directory: string): void {
  const fd = fs.openSync(directory, "r");
  try {
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

async function connect(path: string, opened: SqliteConnection[]): Promise<SqliteConnection> {
  const sql = new SqliteConnection(path, { create: true });
  opened.push(sql);
  await sql.pragma(`busy_timeout = ${BUSY_TIMEOUT_MS}`);
  return sql;
}

/** Checks the file before it changes anything, so that the file of another program stays unchanged. */
async function prepareDatabase(
  sql: SqliteConnection,
  { path, tenant }: { readonly path: string; readonly tenant: string | undefined },
): Promise<void> {
  await sql.begin("DEFERRED", (tx) => versionOf(tx, tenant));
  const [mode]: readonly Row[] = await sql.pragma("journal_mode = WAL");
  if (mode?.["journal_mode"] !== "wal") {
    throw new StoreProblem("cannot keep a write-ahead log there: put it on a local file system");
  }
  await sql.pragma("synchronous = FULL");
  const [check]: readonly Row[] = await sql.pragma("quick_check(1)");
  if (check?.["quick_check"] !== "ok") throw new StoreProblem(DAMAGED);
  await sql.begin("IMMEDIATE", async (tx, script) => {
    const from = await versionOf(tx, tenant);
    await migrate(tx, { steps: SQLITE_STEPS, from, tenant, run: script });
  });
  regularFile(path);
}

async function versionOf(sql: Sql, tenant: string | undefined): Promise<number> {
  const tables = await sql`SELECT name FROM sqlite_master WHERE type = 'table'`;
  if (tables.length === 0) return 0;
  if (!tables.some((table) => table["name"] === "approval_schema")) {
    throw new StoreProblem("is a database of another program: name another path");
  }
  const rows = await sql`SELECT * FROM approval_schema`;
  const version = schemaVersion(rows, { latest: SQLITE_STEPS.length, ifDamaged: DAMAGED, other: "path" });
  await assertOwner(sql, tenant);
  return version;
}

const DAMAGED = "is damaged: restore it from a backup, or move it away to start with no approvals";

function explain(error: unknown): string {
  if (error instanceof StoreProblem) return error.message;
  const code = codeOf(error);
  const text = errorText(error);
  if (code.startsWith("SQLITE_NOTADB")) return "is not a database: name another path, or move that file away";
  if (code.startsWith("SQLITE_CORRUPT")) return DAMAGED;
  if (isBusy(error)) return "is locked by another process: stop that process";
  return `cannot be opened or written (${text}): make the file and its directory writable for this user`;
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error) || !("code" in error)) return "";
  return String(error.code);
}

function isBusy(error: unknown): boolean {
  const code = codeOf(error);
  return code.startsWith("SQLITE_BUSY") || code.startsWith("SQLITE_LOCKED");
}

/** Retries `act` while the file is busy: other processes may be opening, recovering or closing it. */
async function whileBusy<T>(act: () => PromiseLike<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await act();
    } catch (error) {
      if (!isBusy(error) || attempt >= OPEN_ATTEMPTS_MAX) throw error;
      await new Promise((resolve) => setTimeout(resolve, OPEN_RETRY_MS));
    }
  }
}

async function closeAll(connections: readonly SqliteConnection[]): Promise<void> {
  await Promise.allSettled(connections.map((connection) => connection.close()));
}
