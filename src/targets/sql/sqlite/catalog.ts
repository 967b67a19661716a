import type { Catalog, CatalogColumn, CatalogTable, Place } from "../engine.ts";
import { quotedName } from "../quoted-name.ts";
import type { ListedColumn, ListedTable } from "./protocol.ts";
import type { SqliteUser } from "./user.ts";

const NOT_ENFORCED =
  "SQLite does not enforce the types of this table's columns. A number or boolean of another type is INVALID_OUTPUT: declare a string to return any value.";

/** Reads the tables and views of a SQLite database. `mayChange`: whether the system has tools that change something. */
export function sqliteCatalog(reader: SqliteUser, mayChange: boolean): Catalog {
  return {
    parameters: "numbered",
    returnsRows: true,
    quote: quotedName,
    numbered: (statement) => statement,
    async tables(signal) {
      const listed = await reader.ask<readonly ListedTable[]>({ do: "tables" }, signal);
      return listed.map((table) => tableOf(table, mayChange));
    },
  };
}

function tableOf({ name, isView, isStrict, columns, indexed }: ListedTable, mayChange: boolean): CatalogTable {
  const found = columns.map((column): CatalogColumn => {
    const { type, parameter } = typesOf(column.type, isStrict);
    return {
      name: column.name,
      sql: quotedName(column.name),
      type,
      isList: false,
      parameter:
        parameter === undefined
          ? undefined
          : { type: { name: parameter, isList: false, isEnum: false }, sql: (reference) => reference },
      labels: undefined,
      charsMax: undefined,
      isNullable: column.isNullable,
      isStored: column.place !== undefined && !column.isGenerated,
      mayChange: mayChange && !isView && !column.isGenerated,
      comment: undefined,
      places: placesOf(column),
    };
  });
  const key = columns.filter((column) => column.key > 0).sort((one, other) => one.key - other.key);
  const isLoose = !isStrict && found.some(({ type }) => type === "boolean" || type === "double");
  return {
    schema: "",
    name,
    sql: quotedName(name),
    isView,
    comment: undefined,
    columns: found,
    key: key.map((column) => column.name),
    indexed,
    notes: isLoose ? [NOT_ENFORCED] : [],
  };
}

function placesOf({ place }: ListedColumn): readonly Place[] {
  return place === undefined ? [] : [["", ...place]];
}

interface Types {
  readonly type: string;
  /** Undefined: a text is stored as it is, so it would differ from a number or bytes. */
  readonly parameter: string | undefined;
}

/**
 * Returns the type for a declared type, by SQLite's rules of affinity (https://www.sqlite.org/datatype3.html#determination_of_column_affinity).
 * Whole numbers may have 64 bits, so they are strings. SQLite converts a string that is compared with such a column.
 */
function typesOf(declared: string, isStrict: boolean): Types {
  const has = (words: RegExp): boolean => words.test(declared);
  if (has(/int/i)) return { type: "bigint", parameter: "int64" };
  if (has(/char|clob|text/i)) return { type: "text", parameter: "text" };
  if (declared === "" || has(/blob/i) || (isStrict && has(/^any$/i))) return { type: "blob", parameter: undefined };
  if (has(/real|floa|doub/i)) return { type: "double", parameter: "double" };
  if (has(/bool/i)) return { type: "boolean", parameter: "boolean" };
  if (has(/time/i)) return { type: "datetime", parameter: "text" };
  if (has(/date/i)) return { type: "date", parameter: "text" };
  return has(/dec|num|money/i) ? { type: "numeric", parameter: "double" } : { type: "text", parameter: "text" };
}
