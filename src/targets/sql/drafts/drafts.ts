import type { AskedDrafts, ToolDraft } from "../../../core/target-kind.ts";
import type { SqlSystem } from "../engine.ts";
import { SqlFailure } from "../failures.ts";
import { statementDraft } from "./statements.ts";
import { tableDrafts } from "./tables.ts";

/** Returns drafts of tools for the tables of a database, or for statements; a text when the database does not answer. */
export async function draftsOf(
  system: SqlSystem,
  { statements, hasChanges }: AskedDrafts,
  signal: AbortSignal,
): Promise<readonly ToolDraft[] | string> {
  const { catalog } = system;
  try {
    const tables = await catalog.tables(signal);
    const drafting = { system, catalog, tables };
    if (statements.length === 0) return tables.flatMap((table) => tableDrafts(drafting, table, hasChanges));
    const drafts: ToolDraft[] = [];
    for (const statement of statements) drafts.push(await statementDraft(drafting, statement, signal));
    return drafts;
  } catch (error) {
    if (!(error instanceof SqlFailure)) throw error;
    return `the database does not answer (${error.message})`;
  }
}
