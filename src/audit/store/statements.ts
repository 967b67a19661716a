import { FILTER_ROWS, type FilterRow } from "../../core/audit-fields.ts";
import type { StreamName } from "../chain/chain.ts";
import { type Filter, foldAscii } from "../query/filter.ts";
import type { Order } from "../query/params.ts";
import { dayOf, TIME_MS_MAX } from "../query/time-range.ts";
import type { ActivityRange } from "../stats/activity.ts";
import { columnOf, storable } from "./columns.ts";
import { identifier, joined, type SqlDialect, type SqlText, sql } from "./sql-text.ts";

/** Excludes times that `Date` does not have: whoever can write to the store can write any number. */
export const HAS_TIME = sql`time_ms BETWEEN ${-TIME_MS_MAX} AND ${TIME_MS_MAX}`;
/** Excludes numbers that would be rounded here, so that the next page would begin elsewhere. */
const HAS_SEQ = sql`seq BETWEEN ${Number.MIN_SAFE_INTEGER} AND ${Number.MAX_SAFE_INTEGER}`;

/** The position of a line in the order of queries. */
export interface StorePosition {
  readonly timeMs: number;
  readonly log: string;
  readonly seq: number;
  readonly hash: string;
}

export interface PageRequest {
  readonly stream: StreamName;
  readonly filter: Filter;
  readonly order: Order;
  /** The last line of the page before. */
  readonly after?: StorePosition | undefined;
  /** Further conditions. */
  readonly also?: readonly SqlText[];
  readonly limit: number;
}

/** Returns the statement that reads the next lines of a query. */
export function pageStatement(dialect: SqlDialect, { order, after, also = [], limit, ...asked }: PageRequest): SqlText {
  const conditions = [...matching(dialect, asked), HAS_SEQ, ...also];
  if (after !== undefined) {
    const position = sql`(${after.timeMs}, ${after.log}, ${after.seq}, ${after.hash})`;
    const key = sql`(time_ms, log, seq, hash)`;
    // The time alone says where to begin to read, to databases that do not look into a tuple.
    if (order === "oldest") conditions.push(sql`time_ms >= ${after.timeMs}`, sql`${key} > ${position}`);
    else conditions.push(sql`time_ms <= ${after.timeMs}`, sql`${key} < ${position}`);
  }
  const sorted = order === "oldest" ? sql`time_ms, log, seq, hash` : sql`time_ms DESC, log DESC, seq DESC, hash DESC`;
  return sql`SELECT log, day, seq, hash, time_ms, line FROM ${dialect.lines} WHERE ${joined(conditions, " AND ")} ORDER BY ${sorted} LIMIT ${limit}`;
}

/** Returns the conditions of a filter: a line meets them when a `Matcher` of the filter accepts it. */
export function matching(
  dialect: SqlDialect,
  { stream, filter: { fromMs, toMs, exact, text } }: Pick<PageRequest, "stream" | "filter">,
): SqlText[] {
  const conditions = [sql`stream = ${stream}`, HAS_TIME];
  // The days repeat what the times say: partitions of other days are not read.
  if (fromMs !== undefined) conditions.push(sql`time_ms >= ${fromMs}`, sql`day >= ${dialect.day(dayOf(fromMs))}`);
  if (toMs !== undefined) conditions.push(sql`time_ms < ${toMs}`, sql`day <= ${dialect.day(dayOf(toMs - 1))}`);
  for (const row of FILTER_ROWS) {
    const value = exact[row.param];
    if (value === undefined) continue;
    // Finds the line by the index of all its ids.
    if (row.occurs === "once") conditions.push(dialect.hasId(storable(value)));
    conditions.push(valueCondition(dialect, row, value));
  }
  if (text !== undefined) conditions.push(textCondition(dialect, text));
  return conditions;
}

function valueCondition(dialect: SqlDialect, { field, or, parts }: FilterRow, value: string): SqlText {
  const wanted = storable(value);
  const column = identifier(columnOf(field));
  const accepted = [sql`${column} = ${wanted}`];
  if (or !== undefined) accepted.push(sql`${identifier(columnOf(or))} = ${wanted}`);
  if (parts !== undefined && !parts.separators.some((separator) => value.includes(separator))) {
    const [start, end] = parts.bounds;
    const searched = sql`${start} || ${column} || ${end}`;
    const found = parts.around.map(([before, after]) => dialect.contains(searched, `${before}${wanted}${after}`));
    const inParts = sql`(${joined(found, " OR ")})`;
    accepted.push(parts.prefix === "" ? inParts : sql`(${dialect.beginsWith(column, parts.prefix)} AND ${inParts})`);
  }
  return sql`(${joined(accepted, " OR ")})`;
}

/** A stored line has neither NUL nor a lone surrogate. */
function textCondition(dialect: SqlDialect, text: string): SqlText {
  if (text.includes("\0") || !text.isWellFormed()) return sql`1 = 0`;
  return dialect.contains(dialect.folded(sql`line`), foldAscii(text));
}

/** Groups beyond this number are counted together. */
export const GROUPS_MAX = 60_000;

/** The names of the counts of statistics, with the columns that make up a group. */
export const COUNTED = {
  decision: ["decision"],
  stage: ["stage"],
  code: ["result"],
  tool: ["tool"],
  caller: ["sub", "iss"],
  refusal: ["refused", "result", "stage", "tool"],
} as const;

const GROUPING_COLUMNS = ["decision", "stage", "result", "tool", "sub", "refused"] as const;
export const ACTIVE_COLUMNS = ["decision", "tool", "sub", "code"] as const;

/** Returns the value of GROUPING for a count: a bit for each column that is not part of its groups. */
export function groupingOf(columns: readonly string[], all: readonly string[] = GROUPING_COLUMNS): number {
  return all.reduce((bits, column) => bits * 2 + (columns.includes(column) ? 0 : 1), 0);
}

/** Returns the statement that counts the calls that match, by every group at once. */
export function countsStatement(dialect: SqlDialect, filter: Filter): SqlText {
  const sets = Object.values(COUNTED).map((columns) => sql`(${joined(columns.map(identifier), ", ")})`);
  return sql`
    SELECT GROUPING(${joined(GROUPING_COLUMNS.map(identifier), ", ")}) AS grouped,
      decision, stage, result, tool, sub, iss, refused, sum(calls) AS total
    FROM (
      SELECT decision, stage, tool, sub, iss, count AS calls,
        CASE WHEN code IS NULL AND decision = 'ALLOWED' THEN 'OK' ELSE code END AS result,
        CASE WHEN decision IN ('DENIED', 'ERROR') THEN 1 ELSE 0 END AS refused
      FROM ${dialect.lines} WHERE ${joined(matching(dialect, { stream: "calls", filter }), " AND ")}
    ) AS matching
    GROUP BY GROUPING SETS (${joined(sets, ", ")})
    ORDER BY total DESC LIMIT ${GROUPS_MAX}`;
}

/** The names of the counts of recent activity, with the columns that make up a group. */
export const ACTIVE = {
  caller: ["sub", "iss", "decision"],
  tool: ["tool", "decision"],
  code: ["code", "decision"],
  all: ["decision"],
} as const;

/** Returns the statement that counts the calls of a day by caller, tool, code and decision; those of its end separately, too. */
export function activityStatement(dialect: SqlDialect, { filter, hourFromMs }: ActivityRange): SqlText {
  const sets = Object.values(ACTIVE).map((columns) => sql`(${joined(columns.map(identifier), ", ")})`);
  return sql`
    SELECT GROUPING(${joined(ACTIVE_COLUMNS.map(identifier), ", ")}) AS grouped,
      decision, tool, sub, iss, code, sum(calls) AS total, sum(latest) AS recent, max(at_ms) AS newest_ms
    FROM (
      SELECT decision, tool, sub, iss, code, count AS calls, time_ms AS at_ms,
        CASE WHEN time_ms >= ${hourFromMs} THEN count ELSE 0 END AS latest
      FROM ${dialect.lines} WHERE ${joined(matching(dialect, { stream: "calls", filter }), " AND ")}
    ) AS matching
    GROUP BY GROUPING SETS (${joined(sets, ", ")})
    ORDER BY total DESC LIMIT ${GROUPS_MAX}`;
}

/** Returns the statement that counts lines by tool and rounded duration. Tools that are not named are counted together. */
export function durationsStatement(dialect: SqlDialect, filter: Filter, tools: readonly string[] | undefined): SqlText {
  const named =
    tools === undefined
      ? undefined
      : joined(
          tools.map((tool) => sql`${storable(tool)}`),
          ", ",
        );
  const tool =
    named === undefined ? sql`tool` : sql`CASE WHEN tool IS NULL OR tool IN (${named}) THEN tool ELSE '(others)' END`;
  const conditions = [...matching(dialect, { stream: "calls", filter }), sql`duration_code IS NOT NULL`];
  return sql`
    SELECT timed, duration_code, count(*) AS total
    FROM (SELECT ${tool} AS timed, duration_code FROM ${dialect.lines} WHERE ${joined(conditions, " AND ")}) AS matching
    GROUP BY timed, duration_code`;
}

/** Returns the statement that reads the state of all logs. */
export function logsStatement({ logs }: SqlDialect): SqlText {
  return sql`SELECT log, stream, instance, next_seq, time_ms, complete_ms FROM ${logs} ORDER BY log, stream`;
}
