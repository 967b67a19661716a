import type { DescribedColumn, ResultLimits } from "../engine.ts";
import { PROCESS_SQL, SERVER_SQL, STATE_SQL, sameStateSql } from "./state.ts";

/** The facts about a statement that its query is built from. */
interface Described {
  readonly columns: readonly Pick<DescribedColumn, "type" | "isList">[];
  /** The column that reads the digest of what the statement depends on. */
  readonly digestSql: string;
}

/**
 * Returns the query that runs: the statement inside another one. PostgreSQL accepts a query there and nothing else: no change, no
 * second statement, no setting (the check of the statement refuses locks of rows). The outer part returns every column as text, and
 * bounds rows, cells and all cells together on the server. Its limits are numbers in its text: PostgreSQL reads a parameter more slowly.
 *
 * Each row has whether it exceeds the limit for all cells, and the columns.
 */
function wrapped(statement: string, { columns, limits, rows }: WrappedOptions): Rows {
  return bounded(`(${statement}\n) AS q(${namesOf(columns).join(", ")})`, columns, limits, String(rows));
}

interface WrappedOptions extends Pick<Described, "columns"> {
  readonly limits: ResultLimits;
  /** Maximum number of rows. */
  readonly rows: number;
}

/** Columns and their source, as SQL. */
interface Rows {
  readonly selected: string;
  readonly from: string;
  /** LIMIT, which follows the conditions; left out when the source has it. */
  readonly limit?: string;
}

/** One form of a query, with a proof that the statement fits its check, read while the statement's tables are locked against changes. */
export interface ProvenQuery {
  /**
   * Reads the state of the server, and the digest of what the statement depends on: each row has both, then the columns of `wrapped`,
   * which are null when the statement returns no row.
   */
  readonly withDigest: string;
  /**
   * Compares the state of the server with the last parameter, and returns no row when it differs. Each row has the server's process,
   * then the columns of `wrapped`. Without a row, `STATE_QUERY` compares it: the join with which `withDigest` always has a row takes
   * longer to plan.
   */
  readonly withState: string;
}

/** OFFSET keeps the planner from evaluating the proof again for each row. */
function withDigest({ selected, from }: Rows, { digestSql }: Pick<Described, "digestSql">): string {
  return `SELECT always.*, ${selected} FROM (SELECT ${STATE_SQL}, ${digestSql} OFFSET 0) AS always LEFT JOIN ${from} ON true`;
}

function withState({ selected, from, limit = "" }: Rows, at: number): string {
  return `SELECT ${PROCESS_SQL}, ${selected} FROM ${from} WHERE ${sameStateSql(at)} ${limit}`;
}

/** Compares the state of the server with a parameter, and returns the server's process when it is the same. */
export const STATE_QUERY = `SELECT ${PROCESS_SQL} WHERE ${sameStateSql(1)}`;

/**
 * Returns the change that runs: the statement as the only part of a `WITH` that may change something. PostgreSQL refuses anything there
 * but one INSERT, UPDATE, DELETE or MERGE with RETURNING. The number of rows is parameter `at`, after those of the statement.
 *
 * Each row has the digest, the id of the transaction, the server, the number of changed rows, and what rows of `wrapped` have after the proof.
 */
export function wrappedChange(
  statement: string,
  { columns, digestSql }: Described,
  limits: ResultLimits,
  at: number,
): string {
  const { selected, from } = bounded("q", columns, limits, `$${at}::text::int8`);
  return `WITH q(${namesOf(columns).join(", ")}) AS (${statement}
) SELECT ${digestSql}, pg_current_xact_id()::text, (SELECT ${SERVER_SQL}), (SELECT count(*) FROM q)::text, ${selected} FROM (VALUES (1)) AS always LEFT JOIN ${from} ON true`;
}

/** Returns the columns and the source of rows that are bounded. `source`: `q`, with the columns of a statement; `most`: maximum number of rows. */
function bounded(
  source: string,
  columns: Described["columns"],
  { cellChars, bytes }: ResultLimits,
  most: string,
): Rows {
  const names = namesOf(columns);
  const texts = textsOf(columns, cellChars + 1);
  // The row that exceeds the limit is reported and not sent: it may have many columns.
  const fitting = names.map((name) => `CASE WHEN used <= ${bytes} THEN ${name} END AS ${name}`);
  const size = names.map((name) => `coalesce(octet_length(${name}), 0)`).join(" + ");
  return {
    selected: ["exceeds", ...names].map((name) => `w.${name}`).join(", "),
    from: `
(SELECT used > ${bytes} AS exceeds, ${fitting.join(", ")} FROM (
SELECT *, sum(${size}) OVER (ROWS UNBOUNDED PRECEDING) AS used, ${size} AS own FROM (
SELECT ${texts.join(", ")} FROM ${source} LIMIT ${most}) AS limited) AS counted WHERE used - own <= ${bytes}) AS w`,
  };
}

/**
 * Returns the query that runs first: without a limit for all cells, which PostgreSQL would count row by row at half the speed, but with
 * a lower one for each cell, with which no result of ASCII exceeds it. Where a cell is longer, or all have more bytes, `wrapped` answers.
 */
function wrappedShort(statement: string, { columns, rows }: Omit<WrappedOptions, "limits">, share: number): Rows {
  return {
    selected: `false AS exceeds, ${textsOf(columns, share + 1).join(", ")}`,
    from: `(${statement}\n) AS q(${namesOf(columns).join(", ")})`,
    limit: `LIMIT ${rows}`,
  };
}

/** The forms of a query for one number of rows. */
export interface Queries {
  readonly rows: number;
  /** Undefined when the characters of a cell would be few. */
  readonly short: (ProvenQuery & { readonly share: number }) | undefined;
  readonly long: ProvenQuery;
}

interface QueriesOptions extends WrappedOptions, Pick<Described, "digestSql"> {
  readonly statement: string;
  readonly parameterCount: number;
}

/** Returns the forms of the query that runs. */
export function queriesOf({ statement, parameterCount, ...options }: QueriesOptions): Queries {
  const { columns, limits, rows } = options;
  const proven = (inner: Rows, joined: Rows): ProvenQuery => ({
    withDigest: withDigest(joined, options),
    withState: withState(inner, parameterCount + 1),
  });
  const long = wrapped(statement, options);
  const share = cellShare(columns.length, rows, limits);
  if (share === undefined) return { rows, short: undefined, long: proven(long, long) };
  const short = wrappedShort(statement, options, share);
  const joined = { ...long, from: `(SELECT ${short.selected} FROM ${short.from} ${short.limit}) AS w` };
  return { rows, short: { ...proven(short, joined), share }, long: proven(long, long) };
}

/** Least characters of a cell for which the short form is worth its query. */
const CELL_CHARS_MIN = 64;

/** Returns the characters of a cell with which no result of so many rows exceeds a limit in ASCII; undefined when they are few. */
function cellShare(columns: number, rows: number, { cellChars, bytes }: ResultLimits): number | undefined {
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
function textsOf(columns: Described["columns"], most: number): readonly string[] {
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
