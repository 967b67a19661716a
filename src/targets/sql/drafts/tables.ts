import { nameInSentence } from "../../../core/printable.ts";
import type { ToolDraft } from "../../../core/target-kind.ts";
import type { Json } from "../../../core/types.ts";
import { ruleOf } from "../checks.ts";
import type { CatalogColumn, CatalogTable } from "../engine.ts";
import { CHANGED, ROWS, TRUNCATED } from "../manifest.ts";
import { isPlainName, plainName } from "./names.ts";
import { DraftParameters } from "./parameters.ts";
import {
  type Drafting,
  EMPTY,
  fieldsOf,
  hasRules,
  NO_REMARKS,
  ROWS_DRAFTED,
  rowSchema,
  rowsSchema,
  untrustedHints,
} from "./results.ts";

/** Returns the drafts for one table or view. */
export function tableDrafts(drafting: Drafting, table: CatalogTable, hasChanges: boolean): readonly ToolDraft[] {
  const { rules, write } = drafting.system;
  const never = table.columns.filter(({ places }) => ruleOf(rules, places)?.rule === "never");
  const unknown = hasRules(drafting) ? table.columns.filter(({ isStored }) => !isStored) : [];
  const left = [
    ...never.map(({ name }) => `Left out, as the system's columns say: ${nameInSentence(name)}.`),
    ...unknown.map(({ name }) => `Left out, because the database does not tell its origin: ${nameInSentence(name)}.`),
    ...(table.notes ?? []),
  ];
  const columns = table.columns.filter((column) => !never.includes(column) && !unknown.includes(column));
  const base = { drafting, table, returned: named(columns), left };
  const label = labelOf(drafting, table);
  if (columns.length === 0) {
    const problem =
      table.isView && unknown.length > 0
        ? "is a view, of whose columns the database does not tell the origin: write its manifest with origins, as the system has rules for columns"
        : "has no column that a tool may return";
    return [{ ...EMPTY, ...identity(base), name: `${label} list`, classification: "read", problem }];
  }
  const key = keyOf(table);
  const isKnown = key.length > 0 && key.every((column) => isComparable(column) && columns.includes(column));
  const byIndex = table.columns.filter(
    (column) =>
      table.indexed.includes(column.name) && isComparable(column) && !never.includes(column) && !isOnlyKey(key, column),
  );
  const lists = byIndex.map((column) => listDraft(base, `${label} by ${column.name}`, isKnown ? key : [], column));
  const isAlone = !isKnown && lists.length === 0;
  return [
    ...(isKnown ? [getDraft(base, `${label} get`, key)] : []),
    ...lists,
    ...(isAlone ? [listDraft(base, `${label} list`, [])] : []),
    ...(hasChanges && write !== undefined && isKnown ? updateDraft(base, `${label} update`, key) : []),
  ];
}

/** Returns the words for a table in the names of its tools: with its schema where another one has the name. */
function labelOf({ tables }: Drafting, { schema, name }: CatalogTable): string {
  const isUnique = tables.filter((each) => each.name === name).length === 1;
  return isUnique ? name : `${schema} ${name}`;
}

function keyOf({ key, columns }: CatalogTable): readonly CatalogColumn[] {
  const found = key.flatMap((name) => columns.find((column) => column.name === name) ?? []);
  return found.length === key.length ? found : [];
}

function isOnlyKey([first, another]: readonly CatalogColumn[], column: CatalogColumn): boolean {
  return first === column && another === undefined;
}

/** Returns whether an argument can be compared with the values of a column. */
function isComparable({ parameter, isList, type }: CatalogColumn): boolean {
  return parameter !== undefined && !isList && !/^jsonb?$/.test(type);
}

/** Returns the columns with names that policies can name. A name that is plain stays. */
function named(
  columns: readonly CatalogColumn[],
): readonly { readonly name: string; readonly column: CatalogColumn }[] {
  const taken = new Set(columns.map(({ name }) => name).filter(isPlainName));
  return columns.map((column) => {
    if (isPlainName(column.name)) return { name: column.name, column };
    const name = plainName(column.name, taken, "column");
    taken.add(name);
    return { name, column };
  });
}

interface Base {
  readonly drafting: Drafting;
  readonly table: CatalogTable;
  readonly returned: readonly { readonly name: string; readonly column: CatalogColumn }[];
  /** Remarks on what is left out. */
  readonly left: readonly string[];
}

function identity({ table: { schema, name, comment }, drafting: { system } }: Base, how = "") {
  const rows = (comment ?? `Rows of ${name} in ${system.name}`).trim().replace(/[.!?]$/, "");
  const partOf = [name, ...(schema === "" ? [] : [`${schema}.${name}`])];
  return {
    partOf,
    description: `${rows}${how}.`,
    ...NO_REMARKS,
  };
}

function namesOf(columns: readonly CatalogColumn[]): string {
  return columns.map(({ name }) => nameInSentence(name)).join(" and ");
}

function getDraft(base: Base, name: string, key: readonly CatalogColumn[]): ToolDraft {
  const statement = new DraftParameters(base.drafting.catalog);
  const where = key.map((column) => `${column.sql} = ${statement.argument(column)}`).join(" and ");
  return {
    ...identity(base, `: one, by ${namesOf(key)}`),
    name,
    classification: "read",
    target: sqlTarget(statement, `select ${listOf(base)}\nfrom ${base.table.sql}\nwhere ${where}`, { one: true }),
    input: statement.input(),
    output: rowSchema(base.returned),
    fields: fieldsOf(base.drafting, base.returned, ""),
    hints: [...base.left, ...untrustedHints(base.returned)],
  };
}

function listDraft(base: Base, name: string, key: readonly CatalogColumn[], by?: CatalogColumn): ToolDraft {
  const { drafting, table, returned, left } = base;
  const statement = new DraftParameters(drafting.catalog);
  const [after, another] = key;
  const isMasked = after !== undefined && ruleOf(drafting.system.rules, after.places) !== undefined;
  // An enumeration may be sorted by its order, and compared by its labels.
  const isPaged = after !== undefined && another === undefined && !isMasked && after.labels === undefined;
  const conditions = [
    ...(by === undefined ? [] : [conditionOf(by, statement)]),
    ...(isPaged
      ? [`(${statement.optional(after, AFTER)} is null or ${after.sql} > ${statement.optional(after, AFTER)})`]
      : []),
  ];
  const where = conditions.length === 0 ? "" : `\nwhere ${conditions.join("\n  and ")}`;
  const order = key.length === 0 ? "" : `\norder by ${key.map(({ sql }) => sql).join(", ")}`;
  return {
    ...identity(base, by === undefined ? "" : `: those by ${namesOf([by])}, ${ROWS_DRAFTED} at a time`),
    name,
    classification: "read",
    target: sqlTarget(statement, `select ${listOf(base)}\nfrom ${table.sql}${where}${order}`, {
      rows: { returns: ROWS_DRAFTED },
    }),
    input: statement.input(),
    output: rowsSchema(rowSchema(returned), { [TRUNCATED]: { type: "boolean" } }),
    fields: fieldsOf(drafting, returned, `${ROWS}[].`),
    hints: [
      ...left,
      ...(isPaged ? [`The next page: call again with ${AFTER}, the key of the last row.`] : []),
      ...untrustedHints(returned),
    ],
  };
}

const AFTER = "after";

/** Returns the condition for a column: a range for timestamps, because exact times are rarely known; otherwise equality. */
function conditionOf(column: CatalogColumn, statement: DraftParameters): string {
  if (!/^(?:timestamp|datetime)/.test(column.type)) return `${column.sql} = ${statement.argument(column)}`;
  return `${column.sql} >= ${statement.argument(column, "from")} and ${column.sql} < ${statement.argument(column, "to")}`;
}

function updateDraft(base: Base, name: string, key: readonly CatalogColumn[]): readonly ToolDraft[] {
  const { drafting, table, left } = base;
  const { catalog, system } = drafting;
  const written = base.returned.filter(
    ({ column }) => column.mayChange && column.parameter !== undefined && !key.includes(column),
  );
  if (written.length === 0) return [];
  const statement = new DraftParameters(catalog);
  const set = written.map(({ column }) => `${column.sql} = coalesce(${statement.optional(column)}, ${column.sql})`);
  const where = key.map((column) => `${column.sql} = ${statement.argument(column)}`).join(" and ");
  const returned = base.returned.filter(({ column }) => key.includes(column));
  const returning = catalog.returnsRows ? `\nreturning ${listOf({ ...base, returned })}` : "";
  const changed = { [CHANGED]: { type: "integer" } };
  return [
    {
      ...identity(base),
      name,
      description: `Changes one row of ${table.name} in ${system.name}. A value that is left out stays.`,
      classification: "write",
      target: sqlTarget(statement, `update ${table.sql}\nset ${set.join(",\n  ")}\nwhere ${where}${returning}`, {
        rows: { changes: 1 },
      }),
      input: statement.input(),
      output: catalog.returnsRows
        ? rowsSchema(rowSchema(returned), changed, [CHANGED])
        : { type: "object", required: [CHANGED], properties: changed },
      fields: catalog.returnsRows ? fieldsOf(drafting, returned, `${ROWS}[].`) : {},
      hints: [
        ...left,
        ...(catalog.returnsRows
          ? []
          : ["The result is the number of rows alone: MariaDB returns no rows of an UPDATE."]),
        "Leave out the columns that agents must not change. No value can be set to NULL.",
      ],
    },
  ];
}

function sqlTarget(
  statement: DraftParameters,
  text: string,
  others: Readonly<Record<string, Json>>,
): ToolDraft["target"] {
  const parameters = statement.references;
  return { sql: { statement: text, ...(parameters.length > 0 && { parameters }), ...others } };
}

function listOf({ returned, drafting: { catalog } }: Pick<Base, "returned" | "drafting">): string {
  return returned
    .map(({ name, column }) => (name === column.name ? column.sql : `${column.sql} as ${catalog.quote(name)}`))
    .join(", ");
}
