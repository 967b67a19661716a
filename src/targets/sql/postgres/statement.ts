import type { DescribedColumn, ResultLimits } from "../engine.ts";
import { SERVER_SQL, STATE_SQL, sameStateSql } from "./state.ts";

/** The facts about a statement that its query is built from. */
interface Described {
  readonly columns: readonly Pick<DescribedColumn, "type" | "isList">[];
  /** The column that reads the digest of what the statement depends on. */
  readonly digestSql: string;
}

/**
 * Returns the query that runs: the statement inside another one. PostgreSQL accepts a query there and nothing else: no change, no
 * second statement, no lock, no setting. The outer part returns every column as text, and bounds rows, cells and all cells together on
 * the server. After the statement's parameters comes the number of rows.
 *
 * Each row has whether it exceeds the limit for all cells, and the columns.
 */
function wrapped(statement: string, { columns, limits, at }: WrappedOptions): Rows {
  return bounded(`(${statement}\n) AS q(${namesOf(columns).join(", ")})`, columns, limits, at);
}

interface WrappedOptions extends Pick<Described, "columns"> {
  readonly limits: ResultLimits;
  /** Number of the first parameter after those of the statement. */
  readonly at: number;
}

/** Columns and their source, as SQL. */
interface Rows {
  readonly selected: string;
  readonly from: string;
}

/** One form of a query, with a proof that the statement fits its check, read while the statement's tables are locked against changes. */
export interface ProvenQuery {
  /**
   * Reads the state of the server, and the digest of what the statement depends on: each row has both, then the columns of `wrapped`,
   * which are null when the statement returns no row.
   */
  readonly withDigest: string;
  /**
   * Compares the state of the server with the last two parameters: each row has whether it is the same, then the columns of `wrapped`.
   * Without a row, `STATE_QUERY` compares it: the join with which `withDigest` always has a row takes longer to plan.
   */
  readonly withState: string;
}

/** OFFSET keeps the planner from evaluating the proof again for each row. */
function withDigest({ selected, from }: Rows, { digestSql }: Pick<Described, "digestSql">): string {
  return `SELECT always.*, ${selected} FROM (SELECT ${STATE_SQL}, ${digestSql} OFFSET 0) AS always LEFT JOIN ${from} ON true`;
}

function withState({ selected, from }: Rows, at: number): string {
  return `SELECT (SELECT ${sameStateSql(at)}), ${selected} FROM ${from}`;
}

/** Compares the state of the server with two parameters. */
export const STATE_QUERY = `SELECT ${sameStateSql(1)}`;

/**
 * Returns the change that runs: the statement as the only part of a `WITH` that may change something. PostgreSQL refuses anything there
 * but one INSERT, UPDATE, DELETE or MERGE with RETURNING. The parameters are those of `wrapped`.
 *
 * Each row has the digest, the id of the transaction, the server, the number of changed rows, and what rows of `wrapped` have after the proof.
 */
export function wrappedChange(
  statement: string,
  { columns, digestSql }: Described,
  limits: ResultLimits,
  at: number,
): string {
  const { selected, from } = bounded("q", columns, limits, at);
  return `WITH q(${namesOf(columns).join(", ")}) AS (${statement}
) SELECT ${digestSql}, pg_current_xact_id()::text, (SELECT ${SERVER_SQL}), (SELECT count(*) FROM q)::text, ${selected} FROM (VALUES (1)) AS always LEFT JOIN ${from} ON true`;
}

/** Returns the columns and the source of rows that are bounded. `source`: `q`, with the columns of a statement. */
function bounded(source: string, columns: Described["columns"], { cellChars, bytes }: ResultLimits, at: number): Rows {
  const names = namesOf(columns);
  const texts = textsOf(columns, String(cellChars + 1));
  // The row that exceeds the limit is reported and not sent: it may have many columns.
  const fitting = names.map((name) => `CASE WHEN used <= ${bytes} THEN ${name} END AS ${name}`);
  const size = names.map((name) => `coalesce(octet_length(${name}), 0)`).join(" + ");
  return {
    selected: ["exceeds", ...names].map((name) => `w.${name}`).join(", "),
    from: `
(SELECT used > ${bytes} AS exceeds, ${fitting.join(", ")} FROM (
SELECT *, sum(${size}) OVER (ROWS UNBOUNDED PRECEDING) AS used, ${size} AS own FROM (
SELECT ${texts.join(", ")} FROM ${source} LIMIT $${at}::text::int8) AS limited) AS counted WHERE used - own <= ${bytes}) AS w`,
  };
}

/**
 * Returns the query that runs first: without a limit for all cells, which PostgreSQL would count row by row at half the speed, but with
 * a lower one for each cell, with which no result of ASCII exceeds it. Where a cell is longer, or all have more bytes, `wrapped` answers.
 * The last parameter is that limit; those before it, and the rows, are those of `wrapped`.
 */
function wrappedShort(statement: string, { columns, at }: Omit<WrappedOptions, "limits">): Rows {
  const share = `$${at + 1}::text::int4`;
  return {
    // Never true. PostgreSQL refuses a parameter without use, and all columns may be of short types.
    selected: `${share} < 0 AS exceeds, ${textsOf(columns, `${share} + 1`).join(", ")}`,
    from: `(${statement}\n) AS q(${namesOf(columns).join(", ")}) LIMIT $${at}::text::int8`,
  };
}

/** Returns the forms of the query that runs. `at`: number of the first parameter after those of the statement. */
export function queriesOf(
  statement: string,
  described: Described,
  limits: ResultLimits,
  at: number,
): { readonly short: ProvenQuery; readonly long: ProvenQuery } {
  const options = { columns: described.columns, limits, at };
  const long = wrapped(statement, options);
  const short = wrappedShort(statement, options);
  const { selected } = long;
  const joined = { selected, from: `(SELECT ${short.selected} FROM ${short.from}) AS w` };
  return {
    short: { withDigest: withDigest(joined, described), withState: withState(short, at + 2) },
    long: { withDigest: withDigest(long, described), withState: withState(long, at + 1) },
  };
}

/** Least characters of a cell for which the short form is worth its query. */
const CELL_CHARS_MIN = 64;

/** Returns the characters of a cell with which no result of so many rows exceeds a limit in ASCII; undefined when they are few. */
export function cellShare(columns: number, rows: number, { cellChars, bytes }: ResultLimits): number | undefined {
  const share = Math.min(cellChars, Math.floor(bytes / (rows * columns)));
  return share < CELL_CHARS_MIN ? undefined : share;
}

function namesOf(columns: Described["columns"]): readonly string[] {
  return columns.map((_, index) => `c${index}`);
}

/** Types of PostgreSQL whose texts are never long. */
const SHORT_TYPES: ReadonlySet<string> = new Set([
  ...["boolean", "smallint", "integer", "bigint", "oid", "real", "double precision", "uuid", "date"],
  ...["time without time zone", "time with time zone", "timestamp without time zone", "timestamp with time zone"],
]);

/** Returns the columns as bounded text. `most`: maximum characters of a cell. */
function textsOf(columns: Described["columns"], most: string): readonly string[] {
  return columns.map((column, index) => {
    const text = textOf(column, `q.c${index}`);
    return `${SHORT_TYPES.has(column.type) ? text : `left(${text}, ${most})`} AS c${index}`;
  });
}

function textOf({ type, isList }: Described["columns"][number], name: string): string {
  // A cast to text drops the spaces at the end of the type `character`.
  if (type === "character") return `pg_catalog.textin(pg_catalog.bpcharout(${name}))`;
  // A list of texts as JSON: the notation of arrays would need a parser here.
  if (isList) return `to_json(${type === "character[]" ? name : `${name}::text[]`})::text`;
  return `${name}::text`;
}

/** Returns the query of a count: inside another one, as with any statement. */
export function countQuery(count: string): string {
  return `SELECT q.n::text FROM (${count}\n) AS q(n)`;
}
