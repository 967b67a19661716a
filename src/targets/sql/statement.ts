import { digestSql } from "./description.ts";

/** Limits of one result. */
export interface ResultLimits {
  /** Characters of one column in one row. */
  readonly cellChars: number;
  /** Characters of all cells. */
  readonly chars: number;
}

/** A column of the result as the query returns it. */
export interface WrappedColumn {
  readonly isList: boolean;
}

/**
 * Returns the query that runs: the statement inside another one. PostgreSQL accepts a query there and nothing else: no change, no
 * second statement, no lock, no setting. The outer part returns every column as text, bounds rows, cells and all cells together on
 * the server, and adds the digest of what the statement depends on, read while its tables are locked against changes. After the
 * statement's parameters come the number of rows and those of the digest.
 *
 * Each row has the digest, whether it exceeds the limit for all cells (null when there is no row at all), and the columns.
 */
export function wrapped(
  statement: string,
  columns: readonly WrappedColumn[],
  limits: ResultLimits,
  at: number,
): string {
  const names = columns.map((_, index) => `c${index}`);
  const texts = columns.map(({ isList }, index) => {
    // A list of texts as JSON: the notation of arrays would need a parser here.
    const text = isList ? `to_json(q.c${index}::text[])::text` : `q.c${index}::text`;
    return `left(${text}, ${limits.cellChars + 1}) AS c${index}`;
  });
  const size = names.map((name) => `coalesce(length(${name}), 0)`).join(" + ");
  return `SELECT ${digestSql(at + 1)}, ${["used", ...names].map((name) => `w.${name}`).join(", ")} FROM (VALUES (1)) AS always
LEFT JOIN (SELECT used > ${limits.chars} AS used, ${names.join(", ")} FROM (
SELECT *, sum(${size}) OVER (ROWS UNBOUNDED PRECEDING) AS used, ${size} AS own FROM (
SELECT ${texts.join(", ")} FROM (${statement}
) AS q(${names.join(", ")}) LIMIT $${at}::text::int8) AS limited) AS counted WHERE used - own <= ${limits.chars}) AS w ON true`;
}
