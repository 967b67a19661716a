import type { Database } from "bun:sqlite";
import { nulls } from "./values.ts";

/** The text of EXPLAIN at the start of a trigger. */
const TRIGGER = "-- TRIGGER ";

/** A row of EXPLAIN: one instruction of the program that SQLite runs for a statement. */
export interface Instruction {
  readonly name: string;
  readonly first: number;
  readonly second: number;
  readonly text: string;
}

export function instructionsOf(database: Database, statement: string, parameters: number): readonly Instruction[] {
  const explained = database.prepare(`EXPLAIN ${statement}`);
  const rows = explained.values(nulls(parameters)) as unknown[][];
  explained.finalize();
  return rows.map(([, name, first, second, , text]) => ({
    name: String(name),
    first: Number(first),
    second: Number(second),
    text: String(text),
  }));
}

/** Returns the further effects of a change: triggers, and tables that foreign keys or triggers change. */
export function effectsOf(database: Database, instructions: readonly Instruction[]): readonly string[] {
  const tables = new Map(namedIn(database, "table", "rootpage").map(([name, page]) => [Number(page), name] as const));
  const tableOf = new Map(
    namedIn(database, "trigger", "tbl_name").map(([name, table]) => [name, String(table)] as const),
  );
  const triggers = instructions.flatMap(({ text }) => (text.startsWith(TRIGGER) ? [text.slice(TRIGGER.length)] : []));
  // The programs of triggers and keys come after the statement's own, which ends soon after its transaction begins.
  const own = instructions.findIndex(({ name }) => name === "Transaction");
  const written = instructions.slice(own).flatMap(({ name, first, second }) => {
    if (name === "OpenWrite") return tables.get(second) ?? [];
    // A table of which all rows are deleted is not opened.
    return name === "Clear" ? (tables.get(first) ?? []) : [];
  });
  return [
    ...[...new Set(triggers)].map((name) => `the trigger ${name} of ${tableOf.get(name)} runs`),
    ...[...new Set(written)].map((table) => `rows of ${table} may also change, by a key or a trigger`),
  ];
}

/** Returns the names of all tables or triggers, each with columns of `sqlite_schema`. */
export function namedIn(
  database: Database,
  type: "table" | "trigger",
  ...columns: readonly string[]
): readonly (readonly [name: string, ...unknown[]])[] {
  const statement = database.query(`SELECT ${["name", ...columns].join(", ")} FROM sqlite_schema WHERE type = $type`);
  return statement.values({ type }) as [string, ...unknown[]][];
}
