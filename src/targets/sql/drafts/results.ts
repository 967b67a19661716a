import type { FieldFacts, ToolDraft } from "../../../core/target-kind.ts";
import type { Json } from "../../../core/types.ts";
import { ruleOf } from "../checks.ts";
import type { Catalog, CatalogColumn, CatalogTable, DescribedColumn, SqlSystem } from "../engine.ts";
import { ROWS } from "../manifest.ts";
import { columnSchema } from "./schemas.ts";

/** Most rows that a drafted tool returns. */
export const ROWS_DRAFTED = 50;

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

/** The parts of a draft that no manifest can be made of. */
export const EMPTY = { target: {}, input: {}, output: {} } as const;
export const NO_REMARKS = { saysReadOnly: false, hints: [], notes: [] } as const;

export function hasRules({ system: { rules } }: Drafting): boolean {
  return Object.keys(rules.columns).length > 0;
}

export function rowSchema(returned: readonly Returned[]): Json {
  const properties = returned.map(({ name, column }) => [name, columnSchema(column)]);
  return {
    type: "object",
    required: returned.map(({ name }) => name),
    properties: Object.fromEntries(properties),
  };
}

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

/** Returns what else is known of the fields: the names of their columns, and what the system's rules say of those. */
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

export function untrustedHints(returned: readonly Returned[]): readonly string[] {
  const free = returned.filter(({ column }) => FREE_TEXT.test(column.type) && column.labels === undefined);
  if (free.length === 0) return [];
  return [
    `If others than your own people write ${free.map(({ name }) => name).join(", ")}: dataFlow: { reads: [private, untrusted] }.`,
  ];
}
