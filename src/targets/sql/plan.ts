import { isTable } from "../../core/json.ts";
import type { ExecutionPlan, Json } from "../../core/types.ts";
import type { SqlEngine } from "./engine.ts";
import { argumentsOf, ROWS_DEFAULT, type SqlPart } from "./manifest.ts";
import { parameterText, TEXT_TYPE } from "./values.ts";

/** Returns the plan of a call: the statement, and the text of each parameter. */
export function planOf(
  { system, user }: { readonly system: string; readonly user: string | undefined },
  part: SqlPart,
  parameters: readonly (string | null)[],
): ExecutionPlan {
  return { kind: "sql", system, ...userPart(user), statement: part.statement, parameters, rows: rowsMax(part) };
}

interface Expected {
  /** The number of rows that the change would change now; undefined when they are not counted. */
  readonly matches: number | undefined;
  /** Further effects (triggers, cascades), in words for approvers. */
  readonly effects: readonly string[];
}

/** Returns the plan of a change. */
export function changePlanOf(
  { system, user }: { readonly system: string; readonly user: string | undefined },
  part: SqlPart,
  parameters: readonly (string | null)[],
  { matches, effects }: Expected,
): ExecutionPlan {
  const changes = Math.min(changesMax(part), matches ?? Number.POSITIVE_INFINITY);
  const expected = { ...(matches !== undefined && { matches }), ...(effects.length > 0 && { effects }) };
  return { kind: "sql", system, ...userPart(user), statement: part.statement, parameters, ...expected, changes };
}

function userPart(user: string | undefined): Readonly<Record<string, Json>> {
  return user === undefined ? {} : { user };
}

/** Returns the most rows that a change may change. */
export function changesMax({ rows }: SqlPart): number {
  return rows?.changes ?? 1;
}

/** Returns the most rows of a result. */
export function rowsMax({ rows, one }: SqlPart): number {
  return one === true ? 1 : (rows?.returns ?? ROWS_DEFAULT);
}

/** Returns the texts of the parameters for programs that reach no database. `engine`: the engine of the tool's system. */
export async function offlineTexts(
  { writtenTypes }: Pick<SqlEngine, "writtenTypes">,
  part: SqlPart,
  input: Json,
): Promise<readonly (string | null)[]> {
  const args: { readonly [name: string]: unknown } = isTable(input) ? input : {};
  const names = argumentsOf(part);
  const values = names.map((name) => args[name]);
  const types = await writtenTypes(part.statement, values);
  return names.map((name, index) => parameterText(name, values[index], types[index] ?? TEXT_TYPE));
}

/** Returns the number of parameters that a count has: it uses the first ones of the change. */
export function countParameters(count: string): number {
  return Math.max(0, ...[...count.matchAll(/\$(\d{1,3})/g)].map(([, at]) => Number(at)));
}
