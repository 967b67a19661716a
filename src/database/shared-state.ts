import { type ApprovalStore, type Sql, STATE_MS_MAX, type TransactionKind, type Transactions } from "./dialect.ts";
import { memoryTransactions } from "./sqlite.ts";

/** Interval at which watchers are called: each looks up twice a second what other processes wrote. */
const WATCH_MS = 500;
/** Longest delay before a transaction is retried. */
const BUSY_RETRY_MS_MAX = 10;

/** What halts, quotas and data flow know beyond one call. */
export interface SharedState {
  /** "process": rows are in this process's memory (no approvals store). "shared": in the approvals' database, for all that use it. */
  readonly scope: "process" | "shared";
  /**
   * Runs one short transaction on connections of its own, never the approvals' writer: at most two per process, opened at first
   * use. `now`: the database's clock in Unix milliseconds. Transactions of other processes run at the same time on PostgreSQL (READ
   * COMMITTED): change a row by one conditional statement. Rejects within about a second when the database does not answer; whether
   * a write was made is then unknown. Do not wait for it inside a transaction of the approvals, which may hold the lock.
   */
  read<T>(work: (sql: Sql, now: number) => Promise<T>): Promise<T>;
  write<T>(work: (sql: Sql, now: number) => Promise<T>): Promise<T>;
  /** As `write`, but a crash of the machine may lose it: for rows that are many and only help. */
  writeRelaxed<T>(work: (sql: Sql, now: number) => Promise<T>): Promise<T>;
  /** Calls `changed` twice a second, as a hint that another process may have written, until the returned function is called. */
  watch(changed: () => void): () => void;
  close(): Promise<void>;
}

export interface SharedStateOptions {
  /** The approvals' database and its URL, which it accepts; its tables exist. Without it, the state is this process's. */
  readonly store?: { readonly kind: ApprovalStore; readonly url: string } | undefined;
  /** The tenant that has this state; undefined: the service itself. */
  readonly tenant?: string | undefined;
  /** Returns Unix milliseconds. With PostgreSQL, the server's clock counts instead. */
  readonly now: () => number;
  /** Returns milliseconds of a monotonic clock. */
  readonly monotonic: () => number;
  readonly log?: (message: string, cause: unknown) => void;
}

/** Connects to nothing yet. */
export function openSharedState({ store, tenant, now, monotonic, log = () => {} }: SharedStateOptions): SharedState {
  let opened: Promise<Transactions> | undefined;
  let isClosed = false;
  const open = async (): Promise<Transactions> =>
    store === undefined ? memoryTransactions(now) : store.kind.stateTransactions(store.url, { now, tenant, log });

  const run = async <T>(kind: TransactionKind, work: (sql: Sql, now: number) => Promise<T>): Promise<T> => {
    if (isClosed) throw new Error("the shared state is closed");
    opened ??= open();
    const transactions = await opened;
    const endMs = monotonic() + STATE_MS_MAX;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await transactions.begin(kind, work);
      } catch (error) {
        if (!transactions.isBusy(error) || monotonic() >= endMs || isClosed) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 1 + (attempt % BUSY_RETRY_MS_MAX)));
    }
  };

  const watchers = new Set<() => void>();
  let timer: NodeJS.Timeout | undefined;
  const stopWatching = (): void => {
    clearInterval(timer);
    timer = undefined;
  };
  const callAll = (): void => {
    for (const changed of [...watchers]) {
      try {
        changed();
      } catch (error) {
        log("a watcher of the shared state threw", error);
      }
    }
  };

  return {
    scope: store === undefined ? "process" : "shared",
    read: (work) => run("read", work),
    write: (work) => run("write", work),
    writeRelaxed: (work) => run("relaxed", work),
    watch(changed) {
      // An object of its own: the same function may watch twice.
      const watcher = (): void => changed();
      watchers.add(watcher);
      timer ??= setInterval(callAll, WATCH_MS).unref();
      return () => {
        watchers.delete(watcher);
        if (watchers.size === 0) stopWatching();
      };
    },
    async close() {
      isClosed = true;
      watchers.clear();
      stopWatching();
      await (await opened?.catch(() => undefined))?.close();
    },
  };
}
