/** A raw database row. Read its columns with the functions of `rows.ts`. */
export type Row = Readonly<Record<string, unknown>>;

/** Runs a statement, given as a tagged template. Values are bound, not interpolated; a nested statement becomes a part of it. */
export type Sql = (text: TemplateStringsArray, ...values: readonly unknown[]) => PromiseLike<readonly Row[]>;

export type TransactionKind = "read" | "write" | "relaxed";

/** Transactions on the connections of one user of a database. */
export interface Transactions {
  /**
   * Runs a transaction. `now`: integer Unix milliseconds by the clock that all processes of the database share, read after the
   * right to write is acquired, where `begin` acquires one. `relaxed`: a write that others see as soon as it is committed, but that a
   * crash of the machine may lose; a crash of the process does not.
   */
  begin<T>(kind: TransactionKind, work: (sql: Sql, now: number) => Promise<T>): Promise<T>;
  /** Returns whether the transaction may be retried: another one holds the write lock or conflicted, and nothing was changed. */
  isBusy(error: unknown): boolean;
  close(): Promise<void>;
}

/**
 * Differences between the databases. All other statements work on both. A write transaction gets the exclusive right to write
 * before its work starts: what it reads does not change until it ends. A read transaction sees committed data and never waits
 * for a writer.
 */
export interface Dialect extends Transactions {
  readonly busyAttemptsMax: number;
  /** Announces events to other processes, within the transaction that made them; delivered at its commit. */
  announce(sql: Sql): Promise<void>;
  /** Calls `changed` after announcements of other processes, and when some may have been missed. The call is a hint. */
  watch(changed: () => void): void;
  /** Poll interval for changes that were not announced, in milliseconds. */
  readonly pollMs: number;
}

/** A database that can store approvals. The configuration's checks and error texts are derived from these declarations. */
export interface ApprovalStore {
  readonly name: string;
  /**
   * The setting that names the database: its URL, which is `<scheme>://<path>`, or the file that holds its URL, because the URL
   * contains a password.
   */
  readonly setting: "store" | "storeUrlFile";
  readonly accepts: RegExp;
  /** How to write the URL in the configuration, for messages. */
  readonly form: string;
  /** The URL with an absolute path, for messages. */
  readonly example: string;
  /** @throws {Error} that says what is wrong without quoting the URL */
  open(url: string, parts: StoreParts): Promise<Dialect>;
  /**
   * Checks the database as `open` does, and changes nothing: neither the tables nor a file, and no writer waits.
   *
   * @throws {Error} as `open`
   */
  inspect(url: string, parts: Pick<StoreParts, "now" | "tenant">): Promise<StoreFacts>;
  /**
   * Returns short transactions, separate from the approvals' own, in tables that `open` created: at most two connections, opened at first
   * use. Nobody takes turns: rows are changed by one conditional statement each. A transaction that gets no answer rejects after
   * `STATE_MS_MAX`; whether its changes were made is then unknown.
   */
  stateTransactions(url: string, parts: StoreParts): Promise<Transactions>;
}

/** What an operator may know of a database that can be used. */
export interface StoreFacts {
  /** Version of the tables; 0: there are none yet. `latest`: the version that this release makes. */
  readonly version: number;
  readonly latest: number;
  /** Undefined for a file. */
  readonly server?: {
    readonly release: string;
    readonly roundTripMs: number;
    /** How far the server's clock is ahead of this machine's. */
    readonly aheadMs: number;
    readonly connectionsLeft: number;
    readonly isEncrypted: boolean;
    readonly isPooled: boolean;
  };
  /** Undefined for a server, and before the first start. */
  readonly file?: {
    /** Undefined while no process has the file open. */
    readonly journalMode: string | undefined;
    /** False for a file that is too large to be read whole. */
    readonly isChecked: boolean;
  };
}

/** Limit for a transaction of the policies' state, in milliseconds. */
export const STATE_MS_MAX = 1_000;

/** A problem that an operator can fix; the message continues "approvals store <name>: ". */
export class StoreProblem extends Error {
  override readonly name = "StoreProblem";
}

/**
 * Returns the version of the tables from the rows of `approval_schema`. It may be later than `latest`: a newer release has changed
 * the tables, in a way that this one can live with.
 *
 * @throws {StoreProblem} when it is invalid, or the tables need code that knows more than `latest`
 */
export function schemaVersion(
  rows: readonly Row[],
  { latest, ifDamaged, other }: { readonly latest: number; readonly ifDamaged: string; readonly other: string },
): number {
  const [row = {}] = rows;
  const version = Number(row["version"]);
  // Older tables have no `min_reader`, and their code started on its own version only.
  const minReader = Number(row["min_reader"] ?? version);
  const isValid = [version, minReader].every((each) => Number.isSafeInteger(each) && each >= 1);
  if (rows.length !== 1 || !isValid) throw new StoreProblem(ifDamaged);
  if (minReader <= latest) return version;
  throw new StoreProblem(
    `was changed by a newer version of this service (schema ${version}, for versions that know ${minReader}; this one knows ${latest}): run that version, or name another ${other}`,
  );
}

export interface StoreParts {
  /** Returns Unix milliseconds. */
  readonly now: () => number;
  /**
   * The tenant that uses the database; undefined: the service itself. Each tenant has tables of its own in the database of the URL,
   * and reaches no other tenant's through them.
   */
  readonly tenant?: string | undefined;
  readonly log: (message: string, cause: unknown) => void;
}

/** Runs `work` in a transaction. Do not run statements outside of `begin`: they join any transaction open on the connection. */
export async function transact<T>(
  connection: Bun.SQL,
  mode: string,
  work: (sql: Bun.TransactionSQL) => Promise<T>,
): Promise<T> {
  // Wrap the value: `begin` awaits a thenable result and the members of an array result.
  const { value } = await connection.begin(mode, async (sql): Promise<{ value: T }> => ({ value: await work(sql) }));
  return value;
}
