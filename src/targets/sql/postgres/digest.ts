import type { CalledFunction } from "../engine.ts";
import type { Transaction } from "./database.ts";
import { digestedRights } from "./rights.ts";

export interface FoundFunction extends CalledFunction {
  /** Object id. */
  readonly id: string;
  /** Whether the statement finds it by its name, and not by an operator or a cast. */
  readonly isNamed: boolean;
}

interface Dependencies {
  /** Object ids. */
  readonly relations: readonly string[];
  readonly functions: readonly FoundFunction[];
  /** The statement and its views, as the server has understood them. */
  readonly trees: readonly string[];
  readonly hasViews: boolean;
  readonly isChange: boolean;
  /** Whether transactions get a role from the caller. */
  readonly hasCallerRole: boolean;
}

/** The first object id that is not PostgreSQL's own: `FirstNormalObjectId`. */
const FIRST_OWN_ID = 16_384;

/** The tables that rows of a change may change: those of `$1`, those that inherit from them, and those whose keys follow theirs. */
export const TOUCHED = `WITH RECURSIVE touched(id) AS (SELECT unnest($1::text[]::oid[]) UNION SELECT next.id FROM touched t, LATERAL (
  SELECT inhrelid FROM pg_catalog.pg_inherits WHERE inhparent = t.id
  UNION ALL SELECT conrelid FROM pg_catalog.pg_constraint
  WHERE contype = 'f' AND confrelid = t.id AND (confdeltype IN ('c', 'n', 'd') OR confupdtype IN ('c', 'n', 'd'))) AS next(id))`;

/** The tables of `$1`, and all that they inherit from or that inherit from them. */
const FAMILY = `WITH RECURSIVE up(id) AS (SELECT unnest($1::text[]::oid[]) UNION SELECT inhparent FROM pg_catalog.pg_inherits JOIN up ON inhrelid = id),
down(id) AS (SELECT id FROM up UNION SELECT inhrelid FROM pg_catalog.pg_inherits JOIN down ON inhparent = id)`;

/**
// All operators that are not PostgreSQL's own: a search by name would be slower.
 */
export async function digestSqlOf(transaction: Transaction, depends: Dependencies): Promise<string> {
  const { relations, functions, trees, hasViews, isChange } = depends;
  const rights = digestedRights(depends.hasCallerRole);
  // Functions of PostgreSQL itself change with its version only: what matters is which one a name finds.
  const found = functions.filter(({ id, isNamed }) => isNamed || Number(id) >= FIRST_OWN_ID).map(({ id }) => id);
  const asked = [relations, found].map((ids) => `{${ids.join(",")}}`);
  const [[tables, called, family, touched] = []] = await transaction.query(
    `SELECT (SELECT quote_literal(array_agg(DISTINCT relname)::text) FROM pg_catalog.pg_class WHERE oid = ANY($1::text[]::oid[])),
(SELECT quote_literal(array_agg(DISTINCT proname)::text) FROM pg_catalog.pg_proc WHERE oid = ANY($2::text[]::oid[])),
(${FAMILY} SELECT array_agg(id)::text FROM down), (${TOUCHED} SELECT array_agg(id)::text FROM touched)`,
    asked,
  );
  const ids = `'${asked[0]}'::oid[]`;
  const relatives = `'${family}'::oid[]`;
  const isOfFamily = idsOf(family).length > relations.length;
  const parts = [
    // The object that a name resolves to depends on the schemas that its user may use, in their order.
    `pg_catalog.current_schemas(false), current_setting('is_superuser'), ${rights.user}`,
    // A table that begins to inherit from another one, or another one from it, changes a counter or a flag of its own.
    tables !== null &&
      rows(
        "xmin, attrelid, attnum, attname, atttypid, atttypmod, attinhcount",
        `pg_attribute WHERE attrelid = ANY(${ids}) AND attnum > 0 AND NOT attisdropped ORDER BY attrelid, attnum`,
      ),
    tables !== null &&
      rows(
        `xmin, oid, relkind, relhassubclass, ${schema("relnamespace")}, ${rights.table}`,
        `pg_class WHERE relname = ANY(${tables}::name[]) AND (relpersistence <> 't' OR relnamespace = pg_my_temp_schema()) ORDER BY oid`,
      ),
    isOfFamily &&
      rows(
        "xmin, inhrelid, inhparent",
        `pg_inherits WHERE inhparent = ANY(${relatives}) OR inhrelid = ANY(${relatives}) ORDER BY 1`,
      ),
    (isChange || hasViews) &&
      rows("xmin, oid, md5(ev_action::text)", `pg_rewrite WHERE ev_class = ANY(${ids}) ORDER BY oid`),
    // Keys that change other tables have triggers, too.
    isChange &&
      rows(
        "xmin, oid, tgname, tgfoid, tgtype, tgenabled",
        `pg_trigger WHERE tgrelid = ANY('${touched}'::oid[]) ORDER BY oid`,
      ),
    called !== null &&
      rows(
        `xmin, oid, provolatile, md5(concat(prosrc, prosqlbody)), ${schema("pronamespace")}`,
        `pg_proc WHERE proname = ANY(${called}::name[]) ORDER BY oid`,
      ),
    // All of them: those of a name would be found more slowly.
    trees.length > 0 &&
      rows(
        "xmin, oid, oprname, oprcode::oid, oprnamespace::regnamespace",
        `pg_operator WHERE oid >= ${FIRST_OWN_ID} ORDER BY oid`,
      ),
    // Columns are cast to text around the statement.
    rows("xmin, castsource, casttarget, castfunc, castcontext", `pg_cast WHERE oid >= ${FIRST_OWN_ID} ORDER BY oid`),
  ];
  return `pg_catalog.md5(pg_catalog.concat_ws('/', ${parts.filter((part) => part !== false).join(",\n")}))`;
}

/** Returns the name of a schema, and the transaction that has last changed it or the rights to it. */
function schema(column: string): string {
  return `(SELECT concat_ws(' ', s.xmin, s.nspname) FROM pg_catalog.pg_namespace s WHERE s.oid = ${column})`;
}

/** Returns a column with columns of rows of the catalog. */
function rows(columns: string, from: string): string {
  return `ARRAY(SELECT concat_ws(' ', ${columns}) FROM pg_catalog.${from})`;
}

function idsOf(list: unknown): readonly string[] {
  return typeof list === "string" ? list.slice(1, -1).split(",") : [];
}

/** Returns the object ids that a pattern finds in trees. */
export function idsIn(trees: readonly string[], pattern: RegExp): readonly string[] {
  return [...new Set(trees.flatMap((tree) => [...tree.matchAll(pattern)].flatMap(([, ids = "0"]) => ids.split(" "))))];
}

/** Returns the object ids of the operators in trees. */
export function operatorsIn(trees: readonly string[]): readonly string[] {
  return idsIn(trees, /:(?:opno|eqop|sortop|opnos \(o) (\d+(?: \d+)*)/g);
}
