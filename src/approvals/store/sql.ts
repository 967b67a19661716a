/** A raw database row. Read its columns with the functions of `rows.ts`. */
export type Row = Readonly<Record<string, unknown>>;

/** Runs a statement, given as a tagged template. Values are bound, not interpolated; a nested statement becomes a part of it. */
export type Sql = (text: TemplateStringsArray, ...values: readonly unknown[]) => PromiseLike<readonly Row[]>;

/** Differences between the databases. All other statements work on both. */
export interface Dialect {
  /**
   * Runs a transaction. A write transaction gets the exclusive right to write before its work starts: what it reads does not
   * change until it ends. A read transaction sees committed data and never waits for a writer. `now`: integer Unix milliseconds
   * by the clock that all processes of the store share, read after the right to write is acquired.
   */
  begin<T>(kind: "read" | "write", work: (sql: Sql, now: number) => Promise<T>): Promise<T>;
  /** Returns whether the transaction may be retried: another one holds the write lock or conflicted, and nothing was changed. */
  isBusy(error: unknown): boolean;
  /** Attempts before the caller gets the error. */
  readonly busyAttemptsMax: number;
  /** Announces events to other processes, within the transaction that made them; delivered at its commit. */
  announce(sql: Sql): Promise<void>;
  /** Calls `changed` after announcements of other processes, and when some may have been missed. The call is a hint. */
  watch(changed: () => void): void;
  /** Poll interval for changes that were not announced, in milliseconds. */
  readonly pollMs: number;
  close(): Promise<void>;
}

/** A database that can store approvals. The configuration's checks and error texts are derived from these declarations. */
export interface ApprovalStore {
  readonly name: string;
  /**
   * The setting that names the database: its URL, which is `<scheme>://<path>`, or the file that holds its URL, because the URL
   * contains a password.
   */
  readonly setting: "store" | "storeUrlFile";
  /** Matches the URLs of this database. */
  readonly accepts: RegExp;
  /** How to write the URL in the configuration, for messages. */
  readonly form: string;
  /** The URL with an absolute path, for messages. */
  readonly example: string;
  /** @throws {Error} that says what is wrong without quoting the URL */
  open(url: string, parts: StoreParts): Promise<Dialect>;
}

export interface StoreParts {
  /** Returns Unix milliseconds. */
  readonly now: () => number;
  readonly log: (message: string, cause: unknown) => void;
}

/** Runs `work` in a transaction. Do not run statements outside of `begin`: they join any transaction open on the connection. */
export async function transact<T>(connection: Bun.SQL, mode: string, work: (sql: Sql) => Promise<T>): Promise<T> {
  // Wrap the value: `begin` awaits a thenable result and the members of an array result.
  const { value } = await connection.begin(mode, async (sql): Promise<{ value: T }> => ({ value: await work(sql) }));
  return value;
}
