import type { SentLimits } from "../protocol.ts";
import { textBytesMax } from "./values.ts";

/** Name of the parameter for the maximum number of rows. */
export const ROWS = "stc_rows";
const NO_LIMIT: SentLimits = { cellChars: 1, bytes: 1 };

/**
 * Returns the query that runs: the statement inside another one, which returns a type and a bounded value for each column. Because of
 * its own LIMIT, `r` stays a query of its own: else an expression would be evaluated for each use, and random() differ between them.
 */
export function wrapped(statement: string, columns: number, limits = NO_LIMIT): string {
  const names = Array.from({ length: columns }, (_, index) => `c${index}`);
  const cells = names.map(
    (name, index) =>
      `typeof(${name}) AS t${index}, CASE typeof(${name}) WHEN 'text' THEN substr(CAST(${name} AS BLOB), 1, ${textBytesMax(limits) + 1}) WHEN 'blob' THEN substr(${name}, 1, ${limits.cellChars}) ELSE ${name} END AS ${name}`,
  );
  const list = names.join(", ");
  const limit = `LIMIT $${ROWS}`;
  return `WITH q(${list}) AS (${statement}\n), r(${list}) AS (SELECT * FROM q ${limit}) SELECT ${cells.join(", ")} FROM r ${limit}`;
}

/** Returns the query of a count: the statement inside another one. */
export function countOf(statement: string): string {
  return `WITH q(n) AS (${statement}\n) SELECT n FROM q`;
}
