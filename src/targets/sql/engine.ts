import type { Schema } from "../../core/schema/walk.ts";
import type { ServerProcesses, ServerProcessOptions } from "../../core/server-process.ts";
import type { TargetContext } from "../../core/target-kind.ts";
import type { FieldAction, RunContext } from "../../core/types.ts";
import type { Resilience } from "../../egress/resilience.ts";
import type { EngineSetting, SqlEntry } from "./settings.ts";
import type { ParameterType } from "./values.ts";

/**
 * The declaration of a database engine: the schemes of its URLs, its settings, and how its systems are opened. `engines.ts` lists the
 * engines of a build. Declarations are always loaded; an engine's code is loaded by `open`.
 */
export interface SqlEngine {
  /** Schemes of its URLs, with a colon, such as `postgres:`. */
  readonly schemes: readonly string[];
  /** Its settings in addition to those of every engine. Any other setting is refused. */
  readonly settings: readonly EngineSetting[];
  /** Returns what else is wrong with an entry, beginning with its URL. */
  readonly faults: (entry: SqlEntry) => readonly SettingFault[];
  /** Returns the user in the plans of queries, or of changes; undefined where the engine has no users, or the system no changes. */
  readonly userOf: (entry: SqlEntry, isChange: boolean) => string | undefined;
  /** Returns whether the system may have tools that change something. */
  readonly mayChange: (entry: SqlEntry) => boolean;
  /**
   * Returns the types of parameters for programs that reach no database: as the statement's text and the values of the arguments show
   * them.
   */
  readonly writtenTypes: (statement: string, values: readonly unknown[]) => WrittenTypes | Promise<WrittenTypes>;
  /** Opens a system. Adds what is wrong to `context.problems`, and returns undefined then. */
  readonly open: (context: EngineContext, name: string, entry: SqlEntry) => Promise<SqlSystem | undefined>;
}

/** Types of parameters. Undefined: text. */
export type WrittenTypes = readonly (ParameterType | undefined)[];

export interface SettingFault {
  readonly path: readonly string[];
  readonly message: string;
}

export interface SqlContext extends TargetContext {
  readonly config: {
    readonly commands: {
      readonly confinement: "require" | "prefer" | "off";
      readonly memoryBytesMax?: number | undefined;
    };
  };
}

/** Services of the build that engines need. */
export interface SqlParts {
  /** Loads the launcher of programs; only used with an engine that runs in a process of its own. */
  readonly processes: (options: ServerProcessOptions) => Promise<ServerProcesses>;
}

/** Context in which engines are opened. */
export interface EngineContext extends SqlContext {
  /** Returns the launcher of programs, the same one each time. */
  readonly processes: () => Promise<ServerProcesses>;
}

/** A configured database, opened by its engine. */
export interface SqlSystem {
  readonly name: string;
  readonly read: DatabaseUser;
  /** Undefined where the system has no tools that change something. */
  readonly write: DatabaseUser | undefined;
  /** The setting that gives a system such tools. */
  readonly writeSetting: EngineSetting;
  /** `host:port`, for traces. */
  readonly server: string;
  readonly resilience: Resilience;
  readonly rules: DatabaseRules;
  readonly limits: ResultLimits;
  /** Remarks on the system for operators. */
  readonly notes: readonly string[];
  readonly catalog: Catalog;
  /** Whether rows depend on the caller, so that they cannot be counted for a plan. */
  readonly dependsOnCaller: boolean;
  close(): Promise<void>;
}

/** The rules of a system for the columns and functions of its database. */
export interface DatabaseRules {
  /** Rules by `table.column`, `schema.table.column`, or with `*` as column. */
  readonly columns: Readonly<Record<string, ColumnRule>>;
  /** `schema.name`: functions of any kind that statements may call. */
  readonly functions: readonly string[];
}

export type ColumnRule = Exclude<FieldAction, "allow"> | "never";

/** Limits of one result. */
export interface ResultLimits {
  /** Characters of one column in one row. */
  readonly cellChars: number;
  /** Bytes of all cells, in UTF-8. */
  readonly bytes: number;
}

/** A user of a database, with connections of its own. */
export interface DatabaseUser {
  /** Undefined where the engine has no users. */
  readonly name: string | undefined;
  /** Whether the last transaction had an answer. */
  readonly hasAnswered: boolean;
  /** Has the database describe a statement, without running it. @throws {SqlFailure | StatementRefused} */
  prepare(asked: AskedStatement, signal: AbortSignal): Promise<PreparedStatement>;
  /** Returns the keys of `DatabaseRules.columns` that match no column. Left out where the engine cannot know. @throws {SqlFailure} */
  unknownColumns?(keys: readonly string[], signal: AbortSignal): Promise<readonly string[]>;
  /**
   * Returns the outcome of a transaction of an earlier process; undefined when the outcome cannot be known. Left out where the engine
   * keeps no record of transactions.
   */
  outcomeOf?(transaction: RecordedTransaction, signal: AbortSignal): Promise<Outcome | undefined>;
}

/** The tables and views of a database, for drafts of tools. Only its catalog is read. */
export interface Catalog {
  /** How a statement refers to its parameters: `$1`, any number of times, or one `?` for each use. */
  readonly parameters: "numbered" | "marks";
  /** Whether a change returns rows. */
  readonly returnsRows: boolean;
  /** Returns a name of letters, digits and `_`, quoted for a statement: it may be a reserved word. */
  readonly quote: (name: string) => string;
  /** Returns a statement with its parameters as `$1`, `$2`, to find what they are compared with. */
  readonly numbered: (statement: string) => string;
  /** Returns the tables and views that the reading user may select from. @throws {SqlFailure} */
  tables(signal: AbortSignal): Promise<readonly CatalogTable[]>;
}

/** A table or view that the reading user may select from. */
export interface CatalogTable {
  /** Empty where the engine has no schemas. */
  readonly schema: string;
  readonly name: string;
  /** Name for use in statements, quoted by the engine. */
  readonly sql: string;
  readonly isView: boolean;
  readonly comment: string | undefined;
  /** Columns that the reading user may read. */
  readonly columns: readonly CatalogColumn[];
  /** Columns of the primary key; empty when there is none. */
  readonly key: readonly string[];
  /** First columns of indexes. */
  readonly indexed: readonly string[];
  /** Remarks for authors, such as columns that no tool can return. */
  readonly notes?: readonly string[];
}

/** A column of such a table. */
export interface CatalogColumn extends Omit<DescribedColumn, "origin"> {
  /** Name for use in statements, quoted by the engine. */
  readonly sql: string;
  /** Parameter that can be compared with the column; undefined when no type of parameter has its values. */
  readonly parameter: CatalogParameter | undefined;
  /** Values of an enumeration. */
  readonly labels: readonly string[] | undefined;
  /** Most characters of a text; undefined: unlimited. */
  readonly charsMax: number | undefined;
  readonly isNullable: boolean;
  /** Whether it is stored, so that the server reports the origin of its values. */
  readonly isStored: boolean;
  /** Whether the user of tools that change something may write it. */
  readonly mayChange: boolean;
  readonly comment: string | undefined;
}

/** The type of a parameter, and its notation in a statement. */
export interface CatalogParameter {
  readonly type: ParameterType;
  /** Returns a parameter with its type, such as `$1::bigint`. `reference`: `$1`, or `?`. */
  readonly sql: (reference: string) => string;
}

/** A statement to describe. */
export interface AskedStatement {
  readonly statement: string;
  /** `count`: a query that returns one number. */
  readonly use: "query" | "change" | "count";
  /** The input schema of each parameter; undefined where it is unknown. */
  readonly parameters: readonly (Schema | undefined)[];
}

/** A statement that its database has described, ready to run. */
export interface PreparedStatement {
  readonly description: Description;
  /** Runs a query. `rows`: the most rows that are returned. @throws {SqlFailure | Refusal} */
  query(parameters: Texts, rows: number, context: RunContext): Promise<SqlAnswer>;
  /** Runs a query that counts. Returns undefined when its result is not one number. @throws {SqlFailure | Refusal} */
  count(parameters: Texts, signal: AbortSignal): Promise<number | undefined>;
  /**
   * Runs a change in one transaction. Returns the value of `accept` after COMMIT. When `accept` throws, rolls back and throws the same
   * error.
   * @throws {SqlFailure | Refusal} Before `accept` has returned, nothing is changed. Afterwards, only `isDefinite` guarantees that.
   */
  change<T>(asked: AskedChange, accept: (changed: Changed) => Promise<T>): Promise<T>;
  /** Returns the outcome of a transaction whose COMMIT was not answered; undefined when the outcome cannot be known. */
  outcomeOf(transaction: RecordedTransaction, signal: AbortSignal): Promise<Outcome | undefined>;
}

/** The text of each parameter, as in the plan. */
export type Texts = readonly (string | null)[];

export type Outcome = "committed" | "aborted" | "in progress";

/** A change to run. */
export interface AskedChange {
  readonly parameters: Texts;
  /** Most rows that are returned. */
  readonly rows: number;
  readonly context: RunContext;
}

/** The result of a query. */
export interface SqlAnswer {
  /** Whether tables and functions are still those that the statement was checked with. */
  readonly isCurrent: boolean;
  readonly rows: readonly AnsweredRow[];
}

/** The text of each column. Undefined: the first row that was not sent, because all rows together exceed the limit. */
export type AnsweredRow = readonly (string | null)[] | undefined;

/** Names a transaction in the journal; `outcomeOf` takes it. */
export interface RecordedTransaction {
  readonly transaction: string;
  /** The running server that has given the id, where another one may give the same id to another transaction. */
  readonly server?: string;
}

/** A change before COMMIT. */
export interface Changed extends SqlAnswer, RecordedTransaction {
  /** Number of changed rows. */
  readonly changed: number;
}

/** The description of a statement by its database. */
export interface Description {
  readonly parameters: readonly ParameterType[];
  readonly columns: readonly DescribedColumn[];
  /** The functions that it calls, also by operators and within views. Undefined: they are not checked. */
  readonly functions: readonly CalledFunction[] | undefined;
  /** Rights of the user that a reading user must not have. */
  readonly user: ReadingUser;
  /** Further effects of a change (triggers, cascades), in words for approvers. */
  readonly effects: readonly string[];
}

/** Rights of a database user that matter for tools. */
export interface ReadingUser {
  readonly isSuperuser: boolean;
  readonly bypassesRowSecurity: boolean;
  /** Names of all rights over the whole server. Left out: none. */
  readonly serverRights?: readonly string[];
  /** Names of rights on every table. Left out: none. */
  readonly tableRights?: readonly string[];
  /** Names of the statement's tables that the user may change; undefined: none. */
  readonly changes: string | undefined;
}

/** A column of a statement's result. */
export interface DescribedColumn {
  readonly name: string;
  /** Name of the type in the engine's own notation. `ANY_TYPE`: values may have any type, and are checked when they are read. */
  readonly type: string;
  readonly isList: boolean;
  /** `schema.table.column`; undefined for a computed or generated column, and for one of a view. */
  readonly origin: string | undefined;
  /** Paths under which rules may name it: in its table or view, and in tables above and below it in an inheritance. */
  readonly places: readonly Place[];
}

export const ANY_TYPE = "any";

/** Path of a column. Without schemas, the first part is empty. */
export type Place = readonly [schema: string, table: string, column: string];

/** A function that a statement calls. */
export interface CalledFunction {
  /** `schema.name`. */
  readonly name: string;
  /** Whether every function of the name may change something, or lasts longer than the statement. */
  readonly isVolatile: boolean;
}

/** Thrown by an engine for a statement that no tool can have. Errors of its database are `SqlFailure`s. */
export class StatementRefused extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super("the statement cannot be a tool");
    this.problems = problems;
  }
}
