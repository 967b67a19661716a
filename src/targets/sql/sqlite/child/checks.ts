import { type Database, SQLiteError, type Statement } from "bun:sqlite";
import type { StatementUse } from "../protocol.ts";
import { type Instruction, instructionsOf, namedIn } from "./bytecode.ts";
import { nulls } from "./values.ts";

/** The word, but not the function of that name. */
const REPLACES = /\breplace\b(?!\s*\()/i;
const REPLACING_TABLE = /\bon\s+conflict\s+replace\b/i;
const UNCOUNTED = "that removes rows which no bound counts";

/** Thrown for a statement that no tool can have. Its message says why, for the author. */
export class Refused extends Error {}

/** A statement with a number of parameters. */
interface Stated {
  readonly statement: string;
  readonly parameters: number;
}

/** A statement that is accepted. */
interface Accepted {
  readonly prepared: Statement;
  /** Empty for a query. */
  readonly instructions: readonly Instruction[];
}

/** Prepares a query. `limited`: the query within another one without rows. @throws {Refused} */
export function acceptedQuery(database: Database, { statement, parameters }: Stated, limited: string): Accepted {
  checkWhole(database, statement, "query");
  const prepared = database.prepare(limited);
  checkNames(() => prepared.values(nulls(parameters)));
  return { prepared, instructions: [] };
}

/** Prepares a change. @throws {Refused} */
export function acceptedChange(database: Database, { statement, parameters }: Stated): Accepted {
  if (!/^\s*(?:with|insert|replace|update|delete)\b/i.test(statement)) {
    throw new Refused("must be one INSERT, UPDATE or DELETE with RETURNING, without a comment before it");
  }
  if (REPLACES.test(statement)) throw new Refused(`must not REPLACE: ${UNCOUNTED}; use ON CONFLICT … DO UPDATE`);
  checkWhole(database, statement, "change");
  const prepared = database.prepare(statement);
  if (prepared.columnNames.length === 0) throw new Refused("must return something: add RETURNING");
  const instructions = checkNames(() => instructionsOf(database, statement, parameters));
  const isChange = instructions.some(({ name, second }) => name === "Transaction" && second !== 0);
  if (!isChange) throw new Refused("changes nothing: such a tool is one that reads");
  const pages = instructions.map(({ name, second }) => (name === "OpenWrite" ? second : undefined));
  for (const [table, page, sql] of namedIn(database, "table", "rootpage", "sql")) {
    if (!pages.includes(Number(page)) || !REPLACING_TABLE.test(String(sql))) continue;
    throw new Refused(`changes ${table}, which is declared ON CONFLICT REPLACE: ${UNCOUNTED}`);
  }
  return { prepared, instructions };
}

/** A bracket after one whole statement makes it invalid. After a second statement or an open comment, the bracket would go unnoticed. */
function checkWhole(database: Database, statement: string, use: StatementUse): void {
  let isHidden = true;
  try {
    database.prepare(`${statement}\n)`).finalize();
  } catch {
    isHidden = false;
  }
  if (isHidden) throw new Refused(`must be one ${use}, without ; at its end`);
}

/** The driver reveals the names of parameters only in its errors about missing values. */
function checkNames<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof SQLiteError) throw error;
    throw new Refused("has other parameters than $1, $2 and so on; SQLite has no $1::type, but CAST($1 AS type)");
  }
}
