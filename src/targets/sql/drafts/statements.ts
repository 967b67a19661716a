import type { AskedDrafts, ToolDraft } from "../../../core/target-kind.ts";
import type { Json } from "../../../core/types.ts";
import { ruleOf } from "../checks.ts";
import {
  ANY_TYPE,
  type AskedStatement,
  type CatalogColumn,
  type CatalogTable,
  type DatabaseUser,
  type DescribedColumn,
  type Description,
  type SqlSystem,
  StatementRefused,
} from "../engine.ts";
import { SqlFailure } from "../failures.ts";
import { CHANGED, ROWS, TRUNCATED } from "../manifest.ts";
import { countParameters } from "../plan.ts";
import { argumentsOfStatement } from "./arguments.ts";
import { isPlainName } from "./names.ts";
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

/** Returns the draft of a statement's tool: the database says what the statement is, and nothing of it runs. */
export async function statementDraft(
  drafting: Drafting,
  { name, text }: AskedDrafts["statements"][number],
  signal: AbortSignal,
): Promise<ToolDraft> {
  const { system, catalog, tables } = drafting;
  const statement = text.replace(/[\s;]+$/, "").replaceAll("\r\n", "\n");
  const asked = {
    statement,
    parameters: Array.from(
      { length: catalog.parameters === "numbered" ? countParameters(statement) : 0 },
      () => undefined,
    ),
  };
  const prepared = await describedBy(system, asked, signal);
  const isChange = typeof prepared === "object" && prepared.isChange;
  const identified = {
    ...NO_REMARKS,
    name,
    description: `${isChange ? "Changes" : "Reads"} rows of ${system.name}.`,
    classification: isChange ? ("write" as const) : ("read" as const),
  };
  const refused = typeof prepared === "string" ? prepared : problemOf(drafting, prepared.description);
  if (typeof prepared === "string" || refused !== undefined) return { ...EMPTY, ...identified, problem: refused ?? "" };
  const { description } = prepared;
  const returned = description.columns.map((column) => ({
    name: column.name,
    column: { ...column, ...knownOf(tables, column) },
  }));
  const { parameters } = description;
  const { references, input } = argumentsOfStatement({ statement, catalog, tables, parameters });
  const says: Readonly<Record<string, Json>> = isChange
    ? { [CHANGED]: { type: "integer" } }
    : { [TRUNCATED]: { type: "boolean" } };
  const rows: Json = isChange ? { changes: 1 } : { returns: ROWS_DRAFTED };
  return {
    ...identified,
    target: {
      sql: {
        statement,
        ...(references.length > 0 && { parameters: references }),
        rows,
      },
    },
    input,
    output:
      returned.length === 0
        ? { type: "object", required: [CHANGED], properties: says }
        : rowsSchema(rowSchema(returned), says, isChange ? [CHANGED] : []),
    fields: fieldsOf(drafting, returned, `${ROWS}[].`),
    hints: [
      ...(references.length > 0
        ? ["Arguments are named after the columns next to them: judge the names, and what is required."]
        : []),
      ...(isChange ? ["Judge rows.changes, and count the rows for approvers with rows.count."] : []),
      ...untrustedHints(returned),
    ],
  };
}

interface Described {
  readonly isChange: boolean;
  readonly description: Description;
}

const CHANGES = /^\s*(?:insert|update|delete|merge|replace)\b/i;

/** Asks the database what a statement is: a query, or a change. Returns a text when it is neither. @throws {SqlFailure} */
async function describedBy(
  { read, write, writeSetting }: SqlSystem,
  asked: Omit<AskedStatement, "use">,
  signal: AbortSignal,
): Promise<Described | string> {
  const query = await attempt(read, { ...asked, use: "query" }, signal);
  if (typeof query === "object") return { isChange: false, description: query };
  if (write === undefined) return `${query}; as a change, it needs ${writeSetting} in the system`;
  const change = await attempt(write, { ...asked, use: "change" }, signal);
  if (typeof change === "object") return { isChange: true, description: change };
  return CHANGES.test(asked.statement) ? change : query;
}

async function attempt(user: DatabaseUser, asked: AskedStatement, signal: AbortSignal): Promise<Description | string> {
  try {
    return (await user.prepare(asked, signal)).description;
  } catch (error) {
    if (error instanceof StatementRefused) return error.problems.join("; ");
    if (error instanceof SqlFailure && error.isDefinite) return `the database refuses it (${error.message})`;
    throw error;
  }
}

/** Returns why a statement cannot be a tool; undefined when it can. */
function problemOf(drafting: Drafting, { columns }: Description): string | undefined {
  const { rules } = drafting.system;
  const never = columns.map(({ places }) => ruleOf(rules, places)).find((found) => found?.rule === "never");
  if (never !== undefined) return `returns ${never.from}, which the system's columns never release`;
  const names = columns.map(({ name }) => name);
  if (names.some((name, at) => !isPlainName(name) || names.indexOf(name) !== at)) {
    return "has a column without a plain name of its own: use AS";
  }
  const unknown = columns.filter(({ origin }) => origin === undefined).map(({ name }) => name);
  if (!hasRules(drafting) || unknown.length === 0) return undefined;
  return `needs origins for ${unknown.join(", ")}, because the system has rules for columns: write its manifest by hand`;
}

/** Returns what the catalog says of a column. A join may add NULL to any. */
function knownOf(
  tables: readonly CatalogTable[],
  { places, origin, type }: DescribedColumn,
): Pick<CatalogColumn, "labels" | "isNullable" | "comment" | "type"> {
  const [schema, table, name] = places[0] ?? [];
  const own = tables.find((each) => each.schema === schema && each.name === table);
  const column = own?.columns.find((each) => each.name === name);
  return {
    labels: origin === undefined ? undefined : column?.labels,
    isNullable: true,
    comment: column?.comment,
    type: type === ANY_TYPE ? (column?.type ?? type) : type,
  };
}
