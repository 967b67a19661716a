import type { FieldFacts, ToolDraft } from "../../../core/target-kind.ts";
import type { Json } from "../../../core/types.ts";
import { ruleOf } from "../checks.ts";
import type { Catalog, CatalogColumn, CatalogTable, DescribedColumn, SqlSystem } from "../engine.ts";
import { ROWS } from "../manifest.ts";
import { columnSchema } from "./schemas.ts";

/** Most rows that a drafted tool returns. */
export const ROWS_DRAFTED = 50;

/** A system whose tools are drafted, with the tables of its database. */
export interface Drafting {
  readonly system: SqlSystem;
  readonly catalog: Catalog;
  readonly tables: readonly CatalogTable[];
}

/** A column that a draft returns, with its name in the result. */
export interface Returned {
  readonly name: string;
  readonly column: Pick<CatalogColumn, "labels" | "isNullable" | "comment"> & Omit<DescribedColumn, "origin">;
}

/** Parts of a draft without a manifest. Its `problem` says why there is none. */
export const EMPTY = { target: {}, input: {}, output: {} } as const;
export const NO_REMARKS = { saysReadOnly: false, hints: [], notes: [] } as const;

/** Returns whether the system has rules for columns. */
export function hasRules({ system: { rules } }: Drafting): boolean {
  return Object.keys(rules.columns).length > 0;
}

/** Returns the JSON Schema of one row. */
export function rowSchema(returned: readonly Returned[]): Json {
  const properties = returned.map(({ name, column }) => [name, columnSchema(column)]);
  return {
    type: "object",
    required: returned.map(({ name }) => name),
    properties: Object.fromEntries(properties),
  };
}

/** Returns the JSON Schema of a result with a list of rows. `others`: its further members. */
export function rowsSchema(
  row: Json,
  others: { readonly [name: string]: Json },
  required: readonly string[] = [],
): Json {
  return {
    type: "object",
    required: [ROWS, ...required],
    properties: { ...others, [ROWS]: { type: "array", items: row } },
  };
}

/** Returns the facts about each field that its name does not show: the name of its column, and the system's rule for it. */
export function fieldsOf(
  { system: { rules } }: Drafting,
  returned: readonly Returned[],
  at: string,
): ToolDraft["fields"] {
  const facts = returned.map(({ name, column: { places } }): [string, FieldFacts] => {
    const [, table, column] = places[0] ?? [];
    const rule = ruleOf(rules, places)?.rule;
    return [
      `${at}${name}`,
      {
        ...(table !== undefined && column !== undefined && { names: [table, column] }),
        ...(rule !== undefined && rule !== "never" && { rule }),
      },
    ];
  });
  return Object.fromEntries(facts);
}

const FREE_TEXT = /^(?:text|character varying|json|jsonb|xml|citext|varchar|longtext|mediumtext)$/;

/** Returns the hint about `dataFlow` when a column holds free text. */
export function untrustedHints(returned: readonly Returned[]): readonly string[] {
  const free = returned.filter(({ column }) => FREE_TEXT.test(column.type) && column.labels === undefined);
  if (free.length === 0) return [];
  return [
    `If people outside your organization write ${free.map(({ name }) => name).join(", ")}, set dataFlow: { reads: [private, untrusted] }.`,
  ];
}
