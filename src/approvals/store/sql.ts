/** A row as the database gave it: read its columns with the functions of `rows.ts`. */
export type Row = Readonly<Record<string, unknown>>;

/** One statement as a tagged template: values are bound, never pasted. A statement within a statement becomes a part of it. */
export type Sql = (text: TemplateStringsArray, ...values: readonly unknown[]) => PromiseLike<readonly Row[]>;

/** What the databases do differently. Everything else is written once, in statements that both understand. */
export interface Dialect {
  /**
   * One transaction. One that writes has the right to write, alone, before its work begins: what it counts and finds stays
   * so until it ends. One that looks sees what is committed and never waits for a writer. `now`: whole milliseconds since
   * 1970, by the one clock of all the store's processes, looked at after the right was got.
   */
  begin<T>(kind: "read" | "write", work: (sql: Sql, now: number) => Promise<T>): Promise<T>;
  /** The right to write is another's, or nothing was changed for the sake of another: the same may be tried again. */
  isBusy(error: unknown): boolean;
  /** How often it is tried, before whoever asked is told. */
  readonly busyAttemptsMax: number;
  /** Within a transaction that made events: other processes hear of it when it is committed. */
  announce(sql: Sql): Promise<void>;
  /** Told after other processes' announcements, and whenever some may have been missed. A hint. */
  watch(changed: () => void): void;
  /** How often to look for what nobody announced, in milliseconds. */
  readonly pollMs: number;
  close(): Promise<void>;
}

/** Statements outside of `begin` join whatever transaction is open on their connection, and are rolled back with it. */
export async function transact<T>(connection: Bun.SQL, mode: string, work: (sql: Sql) => Promise<T>): Promise<T> {
  // In an object: `begin` awaits what is thenable and joins what is a list.
  const { value } = await connection.begin(mode, async (sql): Promise<{ value: T }> => ({ value: await work(sql) }));
  return value;
}
