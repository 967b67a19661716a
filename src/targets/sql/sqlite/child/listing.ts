import type { Database } from "bun:sqlite";
import type { ListedColumn, ListedTable } from "../protocol.ts";
import { quoted, type SchemaCopy } from "./schema-copy.ts";

/** Most columns of all tables together: the listing is one answer. */
const COLUMNS_MAX = 10_000;
/** A column that only virtual tables have: `SELECT *` does not return it. */
const HIDDEN = 1n;

type ColumnRow = [name: string, type: string, notNull: bigint, key: bigint, hidden: bigint];
type IndexRow = [name: string, origin: string, isPartial: bigint];

/** Returns the tables and views of a database. Virtual tables, their parts and SQLite's own tables are left out. */
export function listedTables(database: Database, schema: SchemaCopy): readonly ListedTable[] {
  const all = database
    .query(
      "SELECT name, type, strict FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'view') ORDER BY name",
    )
    .values() as [string, string, bigint][];
  const listed: ListedTable[] = [];
  let left = COLUMNS_MAX;
  for (const [name, type, strict] of all) {
    if (name.startsWith("sqlite_")) continue;
    const columns = columnsOf(database, schema, name);
    left -= columns.length;
    if (left < 0) break;
    if (columns.length === 0) continue;
    listed.push({ name, isView: type === "view", isStrict: strict === 1n, columns, indexed: indexed(database, name) });
  }
  return listed;
}

/** Returns no column of a view whose tables are missing. */
function columnsOf(database: Database, schema: SchemaCopy, table: string): readonly ListedColumn[] {
  const rows = rowsOf<ColumnRow>(
    database,
    'SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo($table)',
    table,
  ).filter(([, , , , hidden]) => hidden !== HIDDEN);
  if (rows.length === 0) return [];
  const names = rows.map(([name]) => name);
  const statement = `SELECT ${names.map(quoted).join(", ")} FROM ${quoted(table)}`;
  const origins = schema.columnsOf(statement, statement, names);
  // Without an index of its own, the key is the row's number, which is never NULL.
  const isRowNumber = indexesOf(database, table).every(([, origin]) => origin !== "pk");
  return rows.map(([name, type, notNull, key], at) => ({
    name,
    type,
    isNullable: notNull === 0n && !(key > 0n && isRowNumber),
    key: Number(key),
    place: origins[at]?.place,
    isGenerated: origins[at]?.isGenerated === true,
  }));
}

function indexed(database: Database, table: string): readonly string[] {
  const whole = indexesOf(database, table).filter(([, , isPartial]) => isPartial === 0n);
  const first = whole.flatMap(([index]) =>
    rowsOf<[string | null]>(database, "SELECT name FROM pragma_index_info($table) WHERE seqno = 0", index),
  );
  return [...new Set(first.flatMap(([column]) => column ?? []))];
}

function indexesOf(database: Database, table: string): readonly IndexRow[] {
  return rowsOf<IndexRow>(database, "SELECT name, origin, partial FROM pragma_index_list($table)", table);
}

function rowsOf<T>(database: Database, sql: string, table: string): readonly T[] {
  try {
    return database.query(sql).values({ table }) as T[];
  } catch {
    return [];
  }
}
