import { nameInSentence } from "../../../core/printable.ts";
import type { Catalog, CatalogColumn, CatalogParameter, CatalogTable } from "../engine.ts";
import { quotedName } from "../quoted-name.ts";
import type { MariaDbDatabase } from "./database.ts";
import { failureIn } from "./failures.ts";
import { tokensOf } from "./tokens.ts";

/** Most columns of all tables together. */
const COLUMNS_MAX = 50_000;
const OWN_SCHEMAS = "'information_schema', 'performance_schema', 'mysql', 'sys'";

/** One row for each column that the user may read, with its table. A view has the comments of its tables' columns, and none of its own. */
const COLUMNS = `SELECT c.table_schema, c.table_name, t.table_type = 'VIEW', t.table_comment, c.column_name, c.data_type, c.column_type,
  c.character_maximum_length, c.numeric_precision, c.numeric_scale, c.datetime_precision, c.is_nullable = 'YES',
  c.generation_expression IS NOT NULL, COALESCE(e.transactions, 'NO') = 'YES' AND c.extra NOT LIKE '%on update%', c.column_comment
FROM information_schema.columns c JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
LEFT JOIN information_schema.engines e ON e.engine = t.engine
WHERE c.table_schema NOT IN (${OWN_SCHEMAS}) AND t.table_type IN ('BASE TABLE', 'SYSTEM VERSIONED', 'VIEW')
AND FIND_IN_SET('select', c.privileges) ORDER BY 1, 2, c.ordinal_position LIMIT ${COLUMNS_MAX}`;

/** Indexes that a comparison can use. */
const INDEXES = `SELECT table_schema, table_name, column_name, index_name = 'PRIMARY', seq_in_index
FROM information_schema.statistics WHERE table_schema NOT IN (${OWN_SCHEMAS}) AND index_type IN ('BTREE', 'HASH')
AND (index_name = 'PRIMARY' OR seq_in_index = 1) ORDER BY 1, 2, index_name, seq_in_index`;

/** Columns that the user of changes may read and write. */
const WRITTEN = `SELECT table_schema, table_name, column_name FROM information_schema.columns
WHERE table_schema NOT IN (${OWN_SCHEMAS}) AND FIND_IN_SET('select', privileges) AND FIND_IN_SET('update', privileges) LIMIT ${COLUMNS_MAX}`;

type Row = readonly (string | null)[];

interface CatalogDatabases {
  readonly reader: MariaDbDatabase;
  /** Undefined where the system has no tools that change something. */
  readonly writer: MariaDbDatabase | undefined;
  /** The database that connections begin in. */
  readonly schema: string;
}

/** Reads the tables and views of a MariaDB server that its reading user may read, in all databases. */
export function mariaDbCatalog({ reader, writer, schema }: CatalogDatabases): Catalog {
  return {
    parameters: "marks",
    returnsRows: false,
    quote: quotedName,
    numbered,
    async tables(signal) {
      try {
        const [columns, indexes] = await reader.read(signal, async (transaction) => [
          await transaction.ask(COLUMNS),
          await transaction.ask(INDEXES),
        ]);
        const written = (await writer?.read(signal, (transaction) => transaction.ask(WRITTEN))) ?? [];
        const mayWrite = new Set(written.map((row) => JSON.stringify(row)));
        const indexesOf = Map.groupBy(indexes ?? [], tableKey);
        return [...Map.groupBy(columns ?? [], tableKey)].map(([key, rows]) =>
          tableOf(rows, indexesOf.get(key) ?? [], { mayWrite, schema }),
        );
      } catch (error) {
        throw failureIn(signal, error);
      }
    },
  };
}

function tableKey([schema, table]: Row): string {
  return JSON.stringify([schema, table]);
}

/** Returns the statement with `$1`, `$2` for its parameters. */
function numbered(statement: string): string {
  const marks = (tokensOf(statement) ?? []).flatMap(({ kind, at }) => (kind === "parameter" ? [at] : []));
  const parts = [0, ...marks.map((at) => at + 1)].map((from, index) => statement.slice(from, marks[index]));
  return parts.map((part, index) => (index === 0 ? part : `$${index}${part}`)).join("");
}

interface Listing {
  readonly mayWrite: ReadonlySet<string>;
  readonly schema: string;
}

function tableOf(rows: readonly Row[], indexes: readonly Row[], listing: Listing): CatalogTable {
  const [schema = "", name = "", isView, comment] = (rows[0] ?? []).map(textOf);
  const columns = rows.filter((row) => !GEOMETRIES.test(textOf(row[TYPE] ?? null)));
  const left = rows.filter((row) => !columns.includes(row));
  const columnIn = (row: Row): string => textOf(row[2] ?? null);
  return {
    schema,
    name,
    sql: schema === listing.schema ? quotedName(name) : `${quotedName(schema)}.${quotedName(name)}`,
    isView: isView === "1",
    comment: isView === "1" ? undefined : textOrNone(comment),
    columns: columns.map((row) => columnOf(row, listing)),
    key: indexes.filter((row) => row[3] === "1").map(columnIn),
    indexed: [...new Set(indexes.filter((row) => row[4] === "1").map(columnIn))],
    notes: left.map(
      (row) => `Left out, a geometry, which only ST_AsText returns: ${nameInSentence(textOf(row[NAME] ?? null))}.`,
    ),
  };
}

const NAME = 4;
const TYPE = 5;
const GEOMETRIES = /^(?:geometry|point|linestring|polygon|multi(?:point|linestring|polygon)|geometrycollection)$/;

function columnOf(row: Row, { mayWrite }: Listing): CatalogColumn {
  const [schema = "", table = "", isView, , name = "", type = "", full = ""] = row.map(textOf);
  const [charsMax, precision, scale, fraction, isNullable, isGenerated, isTransactional, comment] = row.slice(7);
  const labels = type === "enum" ? labelsIn(full) : undefined;
  const isText = /^(?:var)?char$/.test(type);
  return {
    name,
    sql: quotedName(name),
    type,
    isList: false,
    parameter: parameterFor({ type, isUnsigned: / unsigned/.test(full), precision, scale, fraction, labels }),
    labels,
    charsMax: isText && charsMax !== null ? Number(charsMax) : undefined,
    isNullable: isNullable === "1",
    isStored: isView !== "1" && isGenerated !== "1",
    mayChange: isTransactional === "1" && isGenerated !== "1" && mayWrite.has(JSON.stringify([schema, table, name])),
    comment: textOrNone(comment),
    places: [[schema, table, name]],
  };
}

interface ColumnType {
  readonly type: string;
  readonly isUnsigned: boolean;
  readonly precision: string | null | undefined;
  readonly scale: string | null | undefined;
  readonly fraction: string | null | undefined;
  readonly labels: readonly string[] | undefined;
}

/** Returns the parameter for a type. Its name is that of its argument's values; the server converts them with CAST. */
function parameterFor({
  type,
  isUnsigned,
  precision,
  scale,
  fraction,
  labels,
}: ColumnType): CatalogParameter | undefined {
  const whole = isUnsigned ? "unsigned" : "signed";
  const sizes = fraction === null || fraction === undefined || fraction === "0" ? "" : `(${fraction})`;
  switch (type) {
    case "tinyint":
    case "smallint":
      return cast(isUnsigned ? "integer" : "smallint", whole);
    case "mediumint":
    case "int":
      return cast(isUnsigned ? "int unsigned" : "integer", whole);
    case "bigint":
      return cast(whole, whole);
    case "bit":
      return cast("unsigned", "unsigned");
    case "year":
      return cast("year", "unsigned");
    case "decimal":
      return cast("decimal", `decimal(${precision},${scale})`);
    case "float":
    case "double":
      return cast("double", "double");
    case "date":
    case "uuid":
      return cast(type, type);
    case "time":
      return cast("time", `time${sizes}`);
    case "datetime":
    case "timestamp":
      return cast("datetime", `datetime${sizes}`);
    case "enum":
      // Another text may be the number of a label.
      return labels === undefined ? undefined : text();
    default:
      return TEXTS.test(type) ? text() : undefined;
  }
}

/** A `SET` is not a text: MariaDB stores a number as the set of these bits. */
const TEXTS = /^(?:char|varchar|tinytext|text|mediumtext|longtext|json|inet4|inet6)$/;

function cast(name: string, type: string): CatalogParameter {
  return { type: { name, isList: false, isEnum: false }, sql: (reference) => `cast(${reference} as ${type})` };
}

function text(): CatalogParameter {
  return { type: { name: "text", isList: false, isEnum: false }, sql: (reference) => reference };
}

const LABEL = /'((?:[^'\\]|''|\\[\s\S])*)'/g;
const ESCAPED: ReadonlyMap<string, string> = new Map([
  ["0", "\0"],
  ["n", "\n"],
  ["r", "\r"],
]);

/**
 * Reads the labels of `enum('a','b')`. Returns undefined when one may be another than it seems: the server writes `?` for characters
 * that its catalog cannot have.
 */
function labelsIn(type: string): readonly string[] | undefined {
  const labels = [...type.matchAll(LABEL)].map(([, label = ""]) =>
    label.replaceAll("''", "'").replaceAll(/\\([\s\S])/g, (_, escaped: string) => ESCAPED.get(escaped) ?? escaped),
  );
  return labels.some((label) => label.includes("?") || label.includes("\0")) ? undefined : labels;
}

function textOf(value: string | null): string {
  return value ?? "";
}

function textOrNone(value: string | null | undefined): string | undefined {
  return value === null || value === undefined || value.trim() === "" ? undefined : value;
}
