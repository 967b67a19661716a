import type { ReportRow } from "./report-rows.ts";

/** So often was the same asked, and never refused, before it is worth a rule. */
const SAME_CALL_MIN = 3;
const READ_TOOL_MIN = 5;
const SESSION_WRITES_MIN = 10;
const LISTED_MAX = 20;

/** A rule that would have spared people questions to which they always said yes. People decide whether it is a good one. */
export interface Suggestion {
  /**
   * `session_scope`: the very same call, in one session: approve it for the session. `read_tool`: a tool that only reads and is
   * asked about: look at the rules that ask. `auto_edit`: one session's writes: set its mode to autoEdit for a while.
   */
  readonly kind: "session_scope" | "read_tool" | "auto_edit";
  readonly tool: string | undefined;
  /** Questions that would not have been asked. */
  readonly prompts: number;
}

/** Never about what is high risk or destroys something: these always ask. */
export function suggestionsOf(rows: readonly ReportRow[]): readonly Suggestion[] {
  const remembered = rows.filter(({ risk, classification }) => isOrdinary(risk) && classification !== "destructive");
  return [...sameCalls(remembered), ...readTools(remembered), ...sessionWrites(remembered)]
    .sort((a, b) => b.prompts - a.prompts)
    .slice(0, LISTED_MAX);
}

function isOrdinary(risk: string): boolean {
  return risk === "low" || risk === "medium";
}

function sameCalls(rows: readonly ReportRow[]): readonly Suggestion[] {
  const askable = rows.filter(
    ({ grantKey, offersSession, session }) => grantKey !== undefined && offersSession && session !== "",
  );
  const groups = Map.groupBy(askable, ({ requester, session, grantKey }) =>
    JSON.stringify([requester, session, grantKey]),
  );
  return byTool("session_scope", [...groups.values()].filter(alwaysYes(SAME_CALL_MIN)));
}

function readTools(rows: readonly ReportRow[]): readonly Suggestion[] {
  const reads = rows.filter(({ classification }) => classification === "read");
  const groups = Map.groupBy(reads, ({ tool }) => tool);
  return [...groups]
    .filter(([, own]) => alwaysYes(READ_TOOL_MIN)(own))
    .map(([tool, own]) => ({ kind: "read_tool", tool, prompts: own.length }));
}

function sessionWrites(rows: readonly ReportRow[]): readonly Suggestion[] {
  const writes = rows.filter(({ category, session }) => category === "write" && session !== "");
  const groups = Map.groupBy(writes, ({ requester, session }) => JSON.stringify([requester, session]));
  return [...groups.values()]
    .filter(alwaysYes(SESSION_WRITES_MIN))
    .map((own) => ({ kind: "auto_edit", tool: undefined, prompts: own.length }));
}

/** The first question of each group would have been asked all the same. */
function byTool(kind: Suggestion["kind"], groups: readonly (readonly ReportRow[])[]): readonly Suggestion[] {
  const tools = Map.groupBy(groups, ([first]) => first?.tool ?? "");
  return [...tools].map(([tool, own]) => ({
    ...{ kind, tool, prompts: own.reduce((sum, group) => sum + group.length - 1, 0) },
  }));
}

/** One question that is open or that nobody answered is no yes. */
function alwaysYes(min: number): (rows: readonly ReportRow[]) => boolean {
  return (rows) => rows.length >= min && rows.every(({ isYes, scope }) => isYes && scope === "once");
}
