/** Messages between the service and the process that has a database open: one JSON text in a line, answered in their order. */

/** A value of a parameter, or NULL. */
export type BoundValue = string | null | { readonly integer: string } | { readonly real: number };

export type Request =
  | {
      readonly do: "open";
      readonly file: string;
      readonly mayChange: boolean;
      readonly isWal: boolean;
      readonly lockMs: number;
    }
  | ({ readonly do: "describe"; readonly use: StatementUse; readonly parameters: number } & Stated)
  | ({ readonly do: "query"; readonly columns: number; readonly rows: number; readonly limits: SentLimits } & Bound)
  | ({ readonly do: "count" } & Bound)
  | { readonly do: "tables" }
  /** Leaves a transaction open, which `commit` or `rollback` ends. */
  | ({ readonly do: "change"; readonly rows: number; readonly limits: SentLimits } & Bound)
  | { readonly do: "commit" | "rollback" }
  /** Takes the lock for changes once, with which SQLite rolls back a killed process's unfinished change. */
  | { readonly do: "recover" };

export type StatementUse = "query" | "change" | "count";

interface Stated {
  readonly statement: string;
}

interface Bound extends Stated {
  /** `$1` is the first. */
  readonly values: readonly BoundValue[];
}

export interface SentLimits {
  readonly cellChars: number;
  readonly bytes: number;
}

/** `answer`: what the request returns. `error`: SQLite's name of the error; a transaction of the request is rolled back then. */
export type Response =
  | { readonly answer: unknown }
  | { readonly error: string }
  | { readonly refused: readonly string[] };

export interface StatementFacts {
  readonly parameters: number;
  readonly columns: readonly ColumnFacts[];
  /** Names of all views. */
  readonly views: readonly string[];
  readonly effects: readonly string[];
  readonly digest: string;
}

export interface ColumnFacts {
  readonly name: string;
  /** Table and column; undefined for an expression, and where SQLite does not say. */
  readonly place: readonly [table: string, column: string] | undefined;
  readonly isGenerated: boolean;
}

export interface ListedTable {
  readonly name: string;
  readonly isView: boolean;
  /** Whether SQLite enforces the types of its columns. */
  readonly isStrict: boolean;
  readonly columns: readonly ListedColumn[];
  /** First columns of indexes. */
  readonly indexed: readonly string[];
}

export interface ListedColumn extends ColumnFacts {
  /** Declared type; empty when there is none. */
  readonly type: string;
  readonly isNullable: boolean;
  /** Position in the primary key, from 1; 0: not a part of it. */
  readonly key: number;
}

/** `null`: the first row that is not sent, because all rows are larger than their limit. */
export type RowCells = readonly (string | null)[] | null;

export interface SentRows {
  readonly digest: string;
  readonly rows: readonly RowCells[];
}

export interface SentChange extends SentRows {
  readonly changed: number;
}

/** Errors that are not SQLite's. */
export const INVALID_TEXT = "INVALID_TEXT";
