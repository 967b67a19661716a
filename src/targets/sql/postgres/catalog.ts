import type { Catalog, CatalogColumn, CatalogTable, Place } from "../engine.ts";
import { isValueType, type ParameterType } from "../values.ts";
import type { SentRow, SqlDatabase } from "./database.ts";
import { failureOf } from "./failures.ts";

/** Most tables in a listing, and most columns of all tables together. */
const COLUMNS_MAX = 50_000;

/**
 * One row for each column that the user may read, with its table. Every name is quoted by the server. A domain is compared as its base
 * type. Partitions are left out: their table has their rows. A table that inherits has the paths of the tables above and below
 * it, as in the description of a statement.
 */
const COLUMNS = `WITH RECURSIVE above(base, id) AS (SELECT inhrelid, inhparent FROM pg_catalog.pg_inherits
  UNION SELECT above.base, inhparent FROM above JOIN pg_catalog.pg_inherits ON inhrelid = above.id),
family(base, id) AS (SELECT base, id FROM above UNION SELECT id, base FROM above)
SELECT n.nspname, c.relname, format('%I.%I', n.nspname, c.relname), c.relkind IN ('v', 'm'),
  obj_description(c.oid, 'pg_class'), a.attname, quote_ident(a.attname),
  format_type(coalesce(b.oid, t.oid), NULL), format_type(coalesce(e.oid, b.oid, t.oid), NULL), e.oid IS NOT NULL,
  coalesce(e.typtype, b.typtype, t.typtype) = 'e',
  (SELECT json_agg(l.enumlabel ORDER BY l.enumsortorder)::text FROM pg_catalog.pg_enum l WHERE l.enumtypid = coalesce(e.oid, b.oid, t.oid)),
  CASE WHEN a.atttypid IN ('varchar'::regtype, 'bpchar'::regtype) AND a.atttypmod > 4 THEN (a.atttypmod - 4)::text END,
  NOT a.attnotnull, a.attgenerated = '' AND c.relkind NOT IN ('v', 'm'),
  $1::text <> '' AND a.attgenerated = '' AND a.attidentity <> 'a' AND c.relkind IN ('r', 'p')
    AND has_column_privilege(nullif($1::text, '')::name, c.oid, a.attnum, 'UPDATE'),
  col_description(c.oid, a.attnum), a.attnum = ANY(p.conkey), array_position(p.conkey, a.attnum)::text,
  EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indkey[0] = a.attnum AND i.indpred IS NULL AND i.indisvalid),
  related.places
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid LEFT JOIN pg_catalog.pg_type b ON b.oid = t.typbasetype
LEFT JOIN pg_catalog.pg_type e ON e.oid = coalesce(b.typelem, t.typelem) AND coalesce(b.typcategory, t.typcategory) = 'A'
LEFT JOIN pg_catalog.pg_constraint p ON p.conrelid = c.oid AND p.contype = 'p'
LEFT JOIN (SELECT base, json_agg(json_build_array(fn.nspname, f.relname) ORDER BY f.oid)::text AS places FROM family
  JOIN pg_catalog.pg_class f ON f.oid = family.id JOIN pg_catalog.pg_namespace fn ON fn.oid = f.relnamespace GROUP BY base) AS related
  ON related.base = c.oid
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition AND c.relpersistence <> 't'
AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') AND has_schema_privilege(n.oid, 'USAGE')
AND has_column_privilege(c.oid, a.attnum, 'SELECT') ORDER BY n.nspname, c.relname, a.attnum LIMIT ${COLUMNS_MAX}`;

/** Reads the catalog of a PostgreSQL database as its reading user. `writer`: the name of the user of changes. */
export function postgresCatalog(database: SqlDatabase, writer: string | undefined): Catalog {
  return {
    parameters: "numbered",
    returnsRows: true,
    quote: (name) => `"${name}"`,
    numbered: (statement) => statement,
    async tables(signal) {
      try {
        const rows = await database.read(signal, (transaction) => transaction.query(COLUMNS, [writer ?? ""]));
        const tables = Map.groupBy(rows, ([schema, table]) => JSON.stringify([schema, table]));
        return [...tables.values()].map(tableOf);
      } catch (error) {
        throw failureOf(error);
      }
    },
  };
}

function tableOf(rows: readonly SentRow[]): CatalogTable {
  const [schema, name, sql, isView, comment] = rows[0] ?? [];
  const key = rows.filter((row) => row[IS_KEY] === true);
  return {
    schema: String(schema),
    name: String(name),
    sql: String(sql),
    isView: isView === true,
    comment: textOrNone(comment),
    columns: rows.map(columnOf),
    key: key.sort((one, other) => Number(one[KEY_ORDER]) - Number(other[KEY_ORDER])).map((row) => String(row[NAME])),
    indexed: rows.filter((row) => row[IS_INDEXED] === true).map((row) => String(row[NAME])),
  };
}

const NAME = 5;
const IS_KEY = 17;
const KEY_ORDER = 18;
const IS_INDEXED = 19;

function columnOf(row: SentRow): CatalogColumn {
  const [schema, table, , , , name, sql, type, element, isList, isEnum, labels, charsMax, isNullable] = row;
  const [isStored, mayChange, comment, , , , family] = row.slice(14);
  const parameter: ParameterType = { name: String(element), isList: isList === true, isEnum: isEnum === true };
  // A cast to `character` keeps one character.
  const castTo = String(type).replace(/^character(?=\[|$)/, "bpchar");
  const relatives = typeof family === "string" ? (JSON.parse(family) as readonly [string, string][]) : [];
  return {
    name: String(name),
    sql: String(sql),
    type: String(type),
    isList: isList === true,
    parameter: isValueType(parameter) ? { type: parameter, sql: (reference) => `${reference}::${castTo}` } : undefined,
    labels: typeof labels === "string" ? (JSON.parse(labels) as readonly string[]) : undefined,
    charsMax: typeof charsMax === "string" ? Number(charsMax) : undefined,
    isNullable: isNullable === true,
    isStored: isStored === true,
    mayChange: mayChange === true,
    comment: textOrNone(comment),
    places: [[String(schema), String(table)], ...relatives].map(
      ([schema, table]): Place => [schema ?? "", table ?? "", String(name)],
    ),
  };
}

function textOrNone(value: SentRow[number] | undefined): string | undefined {
  return typeof value === "string" && value.trim() !== "" ? value : undefined;
}
