import { type DescribedColumn, type Description, type Place, type ReadingUser, StatementRefused } from "../engine.ts";
import type { ParameterType } from "../values.ts";
import { makeSettings, type SentColumn, type Setting, type Transaction } from "./database.ts";
import { digestSqlOf, type FoundFunction, idsIn, operatorsIn, TOUCHED } from "./digest.ts";
import { OWNS_SQL, RIGHTS_SQL, rightsIn } from "./rights.ts";
import { sizedTypes } from "./sizes.ts";
import { entriesOf, fieldAt, locksRows } from "./tree.ts";

/** The server's description of a statement. */
export interface PostgresDescription extends Description {
  /** Digest of everything that the statement depends on, and the column that reads it. */
  readonly digest: string;
  readonly digestSql: string;
}

interface Checked {
  readonly statement: string;
  /** Returns the query that runs a change; it is prepared and not run. Left out for a query. */
  readonly change?: ((described: Pick<PostgresDescription, "columns" | "digestSql">) => string) | undefined;
  /** Name of the temporary objects in the database. Behind a pooler, objects of another process may still exist, under other names. */
  readonly name: string;
  readonly parameterCount: number;
  readonly areFunctionsChecked: boolean;
  /** Settings that row-level security may read while a statement is planned. */
  readonly settings: readonly Setting[];
  /** Whether transactions get a role from the caller. */
  readonly hasCallerRole: boolean;
}

/** Most levels of views within views. */
const VIEW_DEPTH_MAX = 32;

/**
 * Has the server describe a statement, without running it. A query is placed inside another one, which refuses everything else. The
 * statement is prepared, which reports the types of its parameters. And it becomes the body of a temporary function, whose tree has
 * the id of every function, and the origin of each column of a change.
 * @throws {StatementRefused} when PostgreSQL's own functions are not the first ones that are found, or a query locks rows
 */
export async function describe(transaction: Transaction, checked: Checked): Promise<PostgresDescription> {
  const { statement, change, parameterCount, areFunctionsChecked, name } = checked;
  await checkSchemas(transaction);
  await makeSettings(transaction, checked.settings);
  const nulls = Array.from({ length: parameterCount }, () => null);
  const queried =
    change === undefined
      ? await transaction.columns(describing(statement, parameterCount + 1), [...nulls, "0"])
      : undefined;
  await transaction.command(`PREPARE ${name} AS ${statement}`);
  const parameters = await parametersOf(transaction, name);
  const returned = queried === undefined ? await resultTypesOf(transaction, name) : [];
  await transaction.command(`DEALLOCATE ${name}`);
  const isTreeRead = areFunctionsChecked || queried === undefined;
  const tree = isTreeRead ? await treeOf(transaction, { name, statement, parameters }) : undefined;
  const sent = queried ?? returnedColumns(tree ?? "", returned);
  const relations = await relationsIn(transaction, tree, sent);
  const columns = await columnsOf(transaction, sent);
  const trees = tree === undefined ? relations.trees : [tree, ...relations.trees];
  if (change === undefined && trees.some(locksRows))
    throw new StatementRefused(["locks rows: leave out FOR UPDATE or FOR SHARE"]);
  const types = sent.map(({ type }) => type);
  const functions = areFunctionsChecked ? await functionsIn(transaction, trees, types) : undefined;
  const digestSql = await digestSqlOf(transaction, {
    relations: relations.ids,
    trees,
    functions: functions ?? [],
    hasViews: relations.trees.length > 0,
    isChange: change !== undefined,
    hasCallerRole: checked.hasCallerRole,
  });
  const [[digest] = []] = await transaction.query(`SELECT ${digestSql}`, []);
  if (change !== undefined) {
    await transaction.command(`PREPARE ${name} AS ${change({ columns, digestSql })}`);
    await transaction.command(`DEALLOCATE ${name}`);
  }
  const user = await userOf(transaction, relations.ids);
  const effects = change === undefined ? [] : await effectsOf(transaction, relations.ids);
  const described = {
    parameters: sizedTypes(
      tree ?? "",
      parameters.map(({ type }) => type),
    ),
    columns,
    functions,
    user,
    effects,
  };
  return { ...described, digestSql, digest: String(digest) };
}

/** The query around a statement would call functions of a schema that is searched before PostgreSQL's own. */
async function checkSchemas(transaction: Transaction): Promise<void> {
  const [[listed] = []] = await transaction.query("SELECT pg_catalog.current_schemas(false)::pg_catalog.text", []);
  // Unless it is named, it is searched first. No other schema may begin with pg_.
  const names = String(listed);
  if (!names.includes("pg_catalog") || names.startsWith("{pg_catalog")) return;
  throw new StatementRefused(["is not checked: pg_catalog comes after another schema in the user's search_path"]);
}

interface SentParameter {
  readonly type: ParameterType;
  /** Name of the type in PostgreSQL's notation, with its schema if it needs one. */
  readonly declared: string;
}

async function parametersOf(transaction: Transaction, name: string): Promise<readonly SentParameter[]> {
  const rows = await transaction.query(
    `SELECT format_type(p.type, NULL), format_type(coalesce(e.oid, t.oid), NULL), e.oid IS NOT NULL, coalesce(e.typtype, t.typtype) = 'e'
FROM pg_catalog.pg_prepared_statements s, unnest(s.parameter_types) WITH ORDINALITY AS p(type, at)
JOIN pg_catalog.pg_type t ON t.oid = p.type LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'
WHERE s.name = $1::text ORDER BY p.at`,
    [name],
  );
  return rows.map(([declared, name, isList, isEnum]) => ({
    declared: String(declared),
    type: { name: String(name), isList: isList === true, isEnum: isEnum === true },
  }));
}

/** Returns the types of a prepared statement's columns. @throws {Error} before PostgreSQL 16, which does not report them */
async function resultTypesOf(transaction: Transaction, name: string): Promise<readonly number[]> {
  const rows = await transaction.query(
    `SELECT t.name::regtype::oid::text FROM pg_catalog.pg_prepared_statements s,
jsonb_array_elements_text(to_jsonb(s) -> 'result_types') WITH ORDINALITY AS t(name, at) WHERE s.name = $1::text ORDER BY t.at`,
    [name],
  );
  return rows.map(([oid]) => Number(oid));
}

const RETURNED =
  /:resname ((?:\\.|[^\s\\])+) :ressortgroupref \d+ :resorigtbl (\d+) :resorigcol (\d+) :resjunk (true|false)\}$/;

/** Returns the columns of RETURNING in a tree; in trees, characters of names that mean something there have a backslash. */
function returnedColumns(tree: string, types: readonly number[]): readonly SentColumn[] {
  const entries = entriesOf(tree, tree.lastIndexOf(RETURNING_LIST) + RETURNING_LIST.length).map((entry) => {
    const [, name = "", table, number, isJunk] = RETURNED.exec(entry) ?? [];
    return { name: name.replaceAll(/\\(.)/g, "$1"), table: Number(table), number: Number(number), isJunk };
  });
  const columns = entries.filter(({ isJunk }) => isJunk !== "true");
  // If one column were missing, each later column would get the origin of another one. The server refuses a change without columns.
  if (columns.length !== types.length) return [];
  const isCopied = copiedColumns(tree);
  return columns.map(({ name, table, number }, index) => {
    const type = types[index] ?? 0;
    return isCopied(number) ? { name, table: 0, number: 0, type } : { name, table, number, type };
  });
}

const ASSIGNED =
  /:resno (\d+) :resname (?:\\.|[^\s\\])+ :ressortgroupref \d+ :resorigtbl \d+ :resorigcol \d+ :resjunk \w+\}$/;
const READ = /\{VAR :varno (-?\d+) :varattno (-?\d+) /g;

/** A query in an assignment, or a value of one that assigns several columns: that query is an entry of its own. */
const QUERIED = /\{SUBLINK |:paramkind 3 /;

/**
 * Returns a function that says whether a change stores the value of another column in the column of a number: RETURNING would return
 * that value, under the origin of the column that it is stored in.
 */
function copiedColumns(tree: string): (column: number) => boolean {
  const target = /^\d+/.exec(tree.slice(fieldAt(tree, ":resultRelation ")))?.[0];
  const [assigned, conflict] = [fieldAt(tree, ":targetList ("), fieldAt(tree, ":onConflict {")];
  if (fieldAt(tree, ":mergeActionList (") !== -1 || target === undefined) return () => true;
  const set = ":onConflictSet (";
  const updated = conflict === -1 ? -1 : tree.indexOf(set, conflict);
  const found = [
    ...(assigned === -1 ? [] : entriesOf(tree, assigned).map((entry) => copyIn(entry, target))),
    // Only the table itself and the proposed row can be read here. A value of the proposed row is judged above.
    ...(updated === -1 ? [] : entriesOf(tree, updated + set.length).map((entry) => copyIn(entry))),
  ];
  return (column) => found.some((copied) => copied === "any" || copied === column);
}

/** Returns the number of the column when an assignment reads another column; `any` when the assignment cannot be read. */
function copyIn(entry: string, target?: string): number | "any" | undefined {
  const [, column] = ASSIGNED.exec(entry) ?? [];
  if (column === undefined) return "any";
  const reads = [...entry.matchAll(READ)].some(
    ([, table, number]) => number !== column || (target !== undefined && table !== target),
  );
  return reads || QUERIED.test(entry) ? Number(column) : undefined;
}

const RETURNING_LIST = ":returningList (";

/** Returns the effects of changes of these tables: triggers, and foreign keys that change other tables. */
async function effectsOf(transaction: Transaction, relations: readonly string[]): Promise<readonly string[]> {
  const rows = await transaction.query(
    `${TOUCHED}
SELECT format('the trigger %s of %s runs', tgname, tgrelid::regclass) FROM pg_catalog.pg_trigger
WHERE tgrelid IN (SELECT id FROM touched) AND NOT tgisinternal AND tgenabled <> 'D'
UNION ALL SELECT format('a %s row of %s also changes %s', act.how, confrelid::regclass, conrelid::regclass)
FROM pg_catalog.pg_constraint, LATERAL (VALUES ('deleted', confdeltype), ('changed', confupdtype)) AS act(how, does)
WHERE contype = 'f' AND confrelid IN (SELECT id FROM touched) AND act.does IN ('c', 'n', 'd') ORDER BY 1`,
    [`{${relations.join(",")}}`],
  );
  return rows.map(([effect]) => String(effect));
}

interface Prepared {
  readonly name: string;
  readonly statement: string;
  readonly parameters: readonly SentParameter[];
}

/** Returns the statement as the server has understood it. */
async function treeOf(transaction: Transaction, { name, statement, parameters }: Prepared): Promise<string> {
  const types = parameters.map(({ declared }) => declared).join(", ");
  await transaction.command(
    `CREATE FUNCTION pg_temp.${name}(${types}) RETURNS SETOF record BEGIN ATOMIC ${statement}\n; END`,
  );
  const [[tree] = []] = await transaction.query(
    "SELECT prosqlbody::text FROM pg_catalog.pg_proc WHERE proname = $1::text AND pronamespace = pg_my_temp_schema()",
    [name],
  );
  return String(tree);
}

interface Relations {
  readonly ids: readonly string[];
  /** Trees of the views. */
  readonly trees: readonly string[];
}

/** Returns the tables and views in a tree, and those that its views read. Without a tree, those of the columns. */
async function relationsIn(
  transaction: Transaction,
  tree: string | undefined,
  columns: readonly SentColumn[],
): Promise<Relations> {
  const named = tree === undefined ? columns.map(({ table }) => String(table)) : idsIn([tree], /:relid (\d+)/g);
  const ids = new Set(named.filter((id) => id !== "0"));
  const trees: string[] = [];
  let unread = [...ids];
  for (let depth = 0; unread.length > 0 && depth < VIEW_DEPTH_MAX; depth += 1) {
    const rows = await transaction.query(
      `SELECT r.ev_action::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_rewrite r ON r.ev_class = c.oid
WHERE c.oid = ANY($1::text[]::oid[]) AND c.relkind = 'v'`,
      [`{${unread.join(",")}}`],
    );
    const found = rows.map(([action]) => String(action));
    trees.push(...found);
    unread = idsIn(found, /:relid (\d+)/g).filter((id) => id !== "0" && !ids.has(id));
    for (const id of unread) ids.add(id);
  }
  return { ids: [...ids], trees };
}

/** Describes columns. A domain is read as its base type: the cast of `character` to text would drop spaces behind a domain, too. */
async function columnsOf(transaction: Transaction, sent: readonly SentColumn[]): Promise<readonly DescribedColumn[]> {
  const facts = await Promise.all(
    sent.map(async ({ type, table, number }) => {
      const [row = []] = await transaction.query(
        `WITH RECURSIVE up(id) AS (SELECT $2::text::oid UNION SELECT inhparent FROM pg_catalog.pg_inherits JOIN up ON inhrelid = id),
down(id) AS (SELECT $2::text::oid UNION SELECT inhrelid FROM pg_catalog.pg_inherits JOIN down ON inhparent = id),
base(id, n) AS (SELECT $1::text::oid, 0 UNION ALL SELECT typbasetype, n + 1 FROM base JOIN pg_catalog.pg_type ON oid = id WHERE typtype = 'd'),
element(id, n) AS (SELECT typelem, 0 FROM pg_catalog.pg_type WHERE oid = (SELECT id FROM base ORDER BY n DESC LIMIT 1)
    AND format_type(oid, NULL) LIKE '%[]'
  UNION ALL SELECT typbasetype, n + 1 FROM element JOIN pg_catalog.pg_type ON oid = id WHERE typtype = 'd')
SELECT coalesce((SELECT format_type(id, NULL) || '[]' FROM element ORDER BY n DESC LIMIT 1),
  (SELECT format_type(id, NULL) FROM base ORDER BY n DESC LIMIT 1)), t.typcategory = 'A', a.attgenerated = '' AND c.relkind NOT IN ('v', 'm'),
(SELECT json_agg(json_build_array(n.nspname, r.relname, a.attname) ORDER BY r.oid <> c.oid, r.oid)::text
  FROM pg_catalog.pg_class r JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
  WHERE r.oid IN (SELECT id FROM up UNION SELECT id FROM down))
FROM pg_catalog.pg_type t LEFT JOIN (pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid)
ON a.attrelid = $2::text::oid AND a.attnum = $3::text::int2 WHERE t.oid = $1::text::oid`,
        [String(type), String(table), String(number)],
      );
      return row;
    }),
  );
  return sent.map(({ name }, index) => {
    const [type, isList, isStored, found] = facts[index] ?? [];
    const places = isStored === null ? [] : (JSON.parse(String(found)) as readonly Place[]);
    const origin = isStored === true ? places[0]?.join(".") : undefined;
    return { name, type: String(type), isList: isList === true, origin, places };
  });
}

async function userOf(transaction: Transaction, relations: readonly string[]): Promise<ReadingUser> {
  const [[rights, owned, changes] = []] = await transaction.query(
    `SELECT ${RIGHTS_SQL}, (SELECT count(*) FILTER (WHERE ${OWNS_SQL}) FROM pg_catalog.pg_class WHERE oid = ANY($1::text[]::oid[])) > 0,
(SELECT string_agg(oid::regclass::text, ', ' ORDER BY oid) FROM pg_catalog.pg_class
WHERE oid = ANY($1::text[]::oid[]) AND has_table_privilege(oid, 'INSERT, UPDATE, DELETE, TRUNCATE'))`,
    [`{${relations.join(",")}}`],
  );
  const found = rightsIn(String(rights));
  return {
    ...found,
    bypassesRowSecurity: found.bypassesRowSecurity || owned === true,
    changes: changes === null ? undefined : String(changes),
  };
}

/** Functions of PostgreSQL that read whatever table or schema their argument names: no origin of such a column is known. */
const READERS = "^(table|schema|database)_to_xml";

/** Functions in a tree but those of casts, whose `funcformat` is 1 or 2. */
const NAMED =
  /:(?:aggfnoid|winfnoid|funcid(?! \d+ :funcresulttype \d+ :funcretset \w+ :funcvariadic \w+ :funcformat [12] )) (\d+)/g;

async function functionsIn(
  transaction: Transaction,
  trees: readonly string[],
  types: readonly number[],
): Promise<readonly FoundFunction[]> {
  const ids = idsIn(trees, /:(?:funcid|opfuncid|aggfnoid|winfnoid) (\d+)/g);
  const named = new Set(idsIn(trees, NAMED));
  // Columns are cast to text around the statement.
  const rows = await transaction.query(
    `WITH RECURSIVE shown(id) AS (SELECT unnest($3::text[]::oid[]) UNION SELECT part FROM shown
  JOIN pg_catalog.pg_type t ON t.oid = shown.id, LATERAL (VALUES (typelem), (typbasetype)) AS parts(part))
SELECT p.oid::text, concat_ws('.', n.nspname, p.proname), p.provolatile = 'v' OR (n.nspname = 'pg_catalog' AND p.proname ~ '${READERS}') FROM pg_catalog.pg_proc p
JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE p.oid = ANY($1::text[]::oid[]) OR p.oid IN (SELECT oprcode FROM pg_catalog.pg_operator WHERE oid = ANY($2::text[]::oid[]))
OR p.oid IN (SELECT castfunc FROM pg_catalog.pg_cast WHERE castsource IN (SELECT id FROM shown) AND casttarget = 'text'::regtype)
ORDER BY 2, 1`,
    [ids, operatorsIn(trees), types].map((each) => `{${each.join(",")}}`),
  );
  return rows.map(([id, name, isVolatile]) => ({
    id: String(id),
    name: String(name),
    isVolatile: isVolatile === true,
    isNamed: named.has(String(id)),
  }));
}

/** Returns a query that describes the columns without running the statement. */
function describing(statement: string, at: number): string {
  return `SELECT * FROM (${statement}\n) AS q LIMIT $${at}::text::int8`;
}
