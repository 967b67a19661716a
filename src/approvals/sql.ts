/** A row as the database gave it: read its columns with the functions of `rows.ts`. */
export type Row = Readonly<Record<string, unknown>>;

/** One statement as a tagged template: values are bound, never pasted. A statement within a statement becomes a part of it. */
export type Sql = (text: TemplateStringsArray, ...values: readonly unknown[]) => PromiseLike<readonly Row[]>;

/** What the databases do differently. Everything else is written once, in statements that both understand. */
export interface Dialect {
  /** For transactions that change something: it holds the right to write from its first statement. */
  readonly writer: Bun.SQL;
  /** For those that look: they see what is committed and never wait for a writer. */
  readonly reader: Bun.SQL;
  /** What `begin` is told on either. */
  readonly writeMode: string;
  readonly readMode: string;
  /** Milliseconds since 1970, whole: the database's clock, one for all its clients. */
  now(sql: Sql): Promise<number>;
  /** Another process has the right to write: try again. */
  isBusy(error: unknown): boolean;
  close(): Promise<void>;
}
