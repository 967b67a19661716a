import type { FieldPacket } from "mysql2";
import { type Description, type Place, type ReadingUser, StatementRefused } from "../engine.ts";
import type { MariaDbDatabase, MariaDbTransaction } from "./database.ts";
import { parameterType } from "./parameters.ts";
import { type ReadStatement, readStatement } from "./statement.ts";
import { charsetOf, typeName } from "./values.ts";

/** Facts about a statement, from the server and from its text. */
export interface MariaDbDescription extends Description {
  /** The columns as the server describes them with a result. */
  readonly shape: string;
  /** Whether the origins that the server reports for columns are reliable. */
  readonly tellsOrigins: boolean;
  /** Tables and views that the statement may name. */
  readonly tables: readonly TableName[];
  /** Digest of those tables. */
  readonly digest: string;
}

interface TableName {
  readonly schema: string;
  readonly table: string;
  /** Whether it is a table, not a view. */
  readonly isStored: boolean;
}

interface Checked {
  readonly statement: string;
  readonly isChange: boolean;
  /** The database that connections begin in. */
  readonly schema: string;
  readonly signal: AbortSignal;
}

/**
 * Has the server describe a statement, without running it. A query is prepared within another one, which refuses everything else, and
 * unchanged, which reports its columns. The columns of RETURNING are those of a query with the same list, which the result is compared
 * with before COMMIT. The types of parameters and the called functions come from the statement's text.
 * @throws {StatementRefused}
 */
export async function describeStatement(database: MariaDbDatabase, checked: Checked): Promise<MariaDbDescription> {
  const { statement, isChange, signal } = checked;
  const read = readStatement(statement, isChange);
  if (read.problems.length > 0) throw new StatementRefused(read.problems);
  const asked = (transaction: MariaDbTransaction): Promise<MariaDbDescription> => ask(transaction, checked, read);
  return isChange ? database.look(signal, asked) : database.read(signal, asked);
}

async function ask(
  transaction: MariaDbTransaction,
  { statement, isChange, schema }: Checked,
  read: ReadStatement,
): Promise<MariaDbDescription> {
  if (!isChange) await transaction.prepare(`SELECT * FROM (${statement}\n) AS q LIMIT 0`);
  const prepared = await transaction.prepare(statement);
  // The counts differ when the server reads the text differently.
  if (prepared.parameterCount !== read.parameters.length) throw new StatementRefused([UNREADABLE]);
  const fields = read.returned === undefined ? prepared.columns : (await transaction.prepare(read.returned)).columns;
  const tables = await tablesNamed(transaction, schema, read.names);
  // The server reports a view's column as if it belonged to a table with the view's alias.
  const tellsOrigins = read.tellsOrigins && tables.every(({ isStored }) => isStored);
  const problems = isChange ? await engineProblems(transaction, tables) : [];
  if (problems.length > 0) throw new StatementRefused(problems);
  const origins: (Place | undefined)[] = [];
  for (const field of fields) {
    origins.push(tellsOrigins ? await originOf(transaction, field) : undefined);
  }
  const columns = fields.map((field, at) => {
    const place = origins[at];
    return {
      name: field.name,
      type: typeName(field),
      isList: false,
      origin: place?.join("."),
      places: place === undefined ? [] : [place],
    };
  });
  const odd = columns
    .filter(({ type }) => type === "geometry")
    .map(({ name }) => `returns ${name}, a geometry: use ST_AsText`);
  if (odd.length > 0) throw new StatementRefused(odd);
  return {
    parameters: read.parameters.map(parameterType),
    columns,
    functions: [...read.functions, ...(await storedNamed(transaction, schema, read.known))].map((name) => ({
      name: name.includes(".") ? name : `${schema}.${name}`,
      isVolatile: true,
    })),
    user: userOf((await transaction.ask("SHOW GRANTS")).map(([grant]) => grant ?? "")),
    effects: isChange ? await effectsOf(transaction, tables) : [],
    shape: shapeOf(fields, tellsOrigins),
    tellsOrigins,
    tables,
    digest: await digestOf(transaction, tables),
  };
}

const UNREADABLE = "cannot be read: write its texts, names and comments in a simpler way";

/**
 * Returns the facts about the columns of a result that can be compared. The type of a computed column may depend on the values, and
 * the server reports another table of a view's column with the result than before.
 */
export function shapeOf(fields: readonly FieldPacket[], tellsOrigins: boolean): string {
  return JSON.stringify(
    fields.map((field) => {
      const { db, orgTable, orgName, name } = field;
      return !tellsOrigins || orgTable === ""
        ? [name]
        : [name, db, orgTable, orgName, typeName(field), charsetOf(field)];
    }),
  );
}

/** Rights that change no table and give no access to the server: a user with only these rights is not a superuser. */
const ORDINARY = new Set([
  ...["USAGE", "SELECT", "SHOW VIEW", "SHOW DATABASES", "EXECUTE", "LOCK TABLES", "REFERENCES", "TRIGGER", "EVENT"],
  ...[
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "DROP",
    "ALTER",
    "INDEX",
    "CREATE VIEW",
    "CREATE ROUTINE",
    "ALTER ROUTINE",
  ],
  ...["CREATE TEMPORARY TABLES", "DELETE HISTORY"],
]);
const HARMLESS = new Set(["USAGE", "SELECT", "SHOW VIEW", "SHOW DATABASES", "EXECUTE", "REFERENCES"]);

/** Reads the rights of a user and of its roles: `GRANT SELECT, INSERT (id) ON …`. */
function userOf(grants: readonly string[]): ReadingUser {
  const given = grants.flatMap((grant) => {
    const [, rights] = /^GRANT (.+?) ON (?:`|\*|TABLE|PROCEDURE|FUNCTION|PACKAGE)/.exec(grant) ?? [];
    const isOfServer = /^GRANT .+? ON \*\.\* TO /.test(grant);
    const names = (rights ?? "").replaceAll(/\([^)]*\)/g, "").split(",");
    return names.map((name) => ({ right: name.trim(), isOfServer })).filter(({ right }) => right !== "");
  });
  const changing = [...new Set(given.map(({ right }) => right).filter((right) => !HARMLESS.has(right)))];
  return {
    isSuperuser: given.some(({ right, isOfServer }) => isOfServer && !ORDINARY.has(right)),
    bypassesRowSecurity: false,
    changes: changing.length === 0 ? undefined : `something, by ${changing.join(", ")}`,
  };
}

/** Returns the tables and views whose names are in a statement. There may be more than it reads, and never less. */
async function tablesNamed(
  transaction: MariaDbTransaction,
  schema: string,
  names: readonly string[],
): Promise<readonly TableName[]> {
  const lower = JSON.stringify([...new Set([schema, ...names].map((name) => name.toLowerCase()))]);
  const inList = (column: string): string =>
    `LOWER(${column}) IN (SELECT name FROM JSON_TABLE(?, '$[*]' COLUMNS (name varchar(64) PATH '$')) AS n)`;
  const rows = await transaction.ask(
    `SELECT table_schema, table_name, table_type IN (${STORED}) FROM information_schema.tables
WHERE ${inList("table_schema")} AND ${inList("table_name")} ORDER BY 1, 2`,
    [lower, lower],
  );
  return rows.map(([schema, table, isStored]) => ({
    schema: schema ?? "",
    table: table ?? "",
    isStored: isStored === "1",
  }));
}

const STORED = "'BASE TABLE', 'SYSTEM VERSIONED'";

/** Returns the names that belong to stored functions. The user sees only functions that it may call. */
async function storedNamed(
  transaction: MariaDbTransaction,
  schema: string,
  names: readonly string[],
): Promise<readonly string[]> {
  const rows = await transaction.ask(
    `SELECT routine_name FROM information_schema.routines WHERE routine_schema = ? AND routine_type = 'FUNCTION'
AND LOWER(routine_name) IN (SELECT name FROM JSON_TABLE(?, '$[*]' COLUMNS (name varchar(64) PATH '$')) AS n)`,
    [schema, JSON.stringify(names)],
  );
  return rows.flatMap(([name]) => name ?? []);
}

/** Returns the origin of a column that is stored in a table: not of a view, and not generated. */
async function originOf(transaction: MariaDbTransaction, field: FieldPacket): Promise<Place | undefined> {
  const { db = "", orgTable, orgName } = field;
  if (orgTable === "" || orgName === "") return undefined;
  const [found] = await transaction.ask(
    `SELECT t.table_schema, t.table_name, c.column_name FROM information_schema.tables t
JOIN information_schema.columns c ON c.table_schema = t.table_schema AND c.table_name = t.table_name
WHERE t.table_schema = ? AND t.table_name = ? AND c.table_schema = ? AND c.table_name = ? AND c.column_name = ?
AND t.table_type IN (${STORED}) AND c.generation_expression IS NULL`,
    [db, orgTable, db, orgTable, orgName],
  );
  return found === undefined ? undefined : [found[0] ?? "", found[1] ?? "", found[2] ?? ""];
}

/** A change of a table without transactions cannot be rolled back. A view does not reveal the tables behind it. */
function engineProblems(transaction: MariaDbTransaction, tables: readonly TableName[]): Promise<readonly string[]> {
  return forEach(
    transaction,
    tables,
    `SELECT CONCAT('names ', t.table_schema, '.', t.table_name,
IF(t.table_type = 'VIEW', ', a view: name its tables', CONCAT(', a table of ', t.engine, ', in which changes cannot be taken back')))
FROM information_schema.tables t LEFT JOIN information_schema.engines e ON e.engine = t.engine
WHERE t.table_schema = ? AND t.table_name = ? AND COALESCE(e.transactions, 'NO') <> 'YES'`,
  );
}

const FOLLOWS = new Set(["CASCADE", "SET NULL", "SET DEFAULT"]);

/**
 * Returns the effects of changes of these tables, as far as the user may see them: triggers are visible only with the TRIGGER right.
 * Rows that a foreign key changes run no triggers.
 */
export async function effectsOf(
  transaction: MariaDbTransaction,
  tables: readonly TableName[],
): Promise<readonly string[]> {
  const triggers = await forEach(
    transaction,
    tables,
    `SELECT CONCAT('the trigger ', trigger_name, ' of ', event_object_table, ' runs') FROM information_schema.triggers
WHERE event_object_schema = ? AND event_object_table = ?`,
  );
  const effects = new Set(triggers);
  const touched = new Map(tables.map((each) => [`${each.schema}.${each.table}`, each]));
  for (const name of touched.values()) {
    const keys = await transaction.ask(
      `SELECT constraint_schema, table_name, delete_rule, update_rule FROM information_schema.referential_constraints
WHERE unique_constraint_schema = ? AND referenced_table_name = ?`,
      [name.schema, name.table],
    );
    for (const [schema = "", table = "", onDelete = "", onUpdate = ""] of keys.map((key) => key.map(String))) {
      const follows = FOLLOWS.has(onDelete) || FOLLOWS.has(onUpdate);
      if (FOLLOWS.has(onDelete)) effects.add(`a deleted row of ${name.table} also changes ${table}`);
      if (FOLLOWS.has(onUpdate)) effects.add(`a changed row of ${name.table} also changes ${table}`);
      if (follows && !touched.has(`${schema}.${table}`))
        touched.set(`${schema}.${table}`, { schema, table, isStored: true });
    }
  }
  return [...effects].sort();
}

/** Returns the first column of a query about each table. */
async function forEach(
  transaction: MariaDbTransaction,
  tables: readonly TableName[],
  sql: string,
): Promise<readonly string[]> {
  const found: string[] = [];
  for (const { schema, table } of tables) {
    found.push(...(await transaction.ask(sql, [schema, table])).map(([text]) => text ?? ""));
  }
  return found;
}

/** Returns a digest of the definitions of tables and views. */
export async function digestOf(transaction: MariaDbTransaction, tables: readonly TableName[]): Promise<string> {
  if (tables.length === 0) return "";
  const one = `SELECT CONCAT_WS(' ', (SELECT CONCAT_WS(' ', table_schema, table_name, table_type, engine) FROM information_schema.tables WHERE table_schema = ? AND table_name = ?),
(SELECT GROUP_CONCAT(CONCAT_WS(' ', column_name, column_type, collation_name, is_nullable, generation_expression) ORDER BY ordinal_position)
FROM information_schema.columns WHERE table_schema = ? AND table_name = ?)) AS t`;
  const rows = await transaction.ask(
    `SELECT MD5(GROUP_CONCAT(t ORDER BY t SEPARATOR '/')) FROM (${tables.map(() => one).join(" UNION ALL ")}) AS all_tables`,
    tables.flatMap(({ schema, table }) => [schema, table, schema, table]),
  );
  return rows[0]?.[0] ?? "";
}
