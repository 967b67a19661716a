import type { Tool } from "../core/types.ts";
import type { Mode, Risk } from "./types.ts";

/** Result of the risk rules for a call. */
export interface Assessed {
  readonly risk: Risk;
  /** Names of the rules that matched. */
  readonly rules: readonly string[];
  /** Strictest verdict of the matched rules. */
  readonly verdict: "deny" | "ask" | "none";
}

/** A verdict; deny > ask > allow. `by` names the rule that decided, for the audit log. */
export interface Verdict {
  readonly verdict: "allow" | "ask" | "deny";
  readonly by: string;
}

type FloorRow = (tool: Tool, assessed: Assessed) => Verdict | undefined;
type StepRow = (tool: Tool, mode: Mode) => Verdict | undefined;

/** Step 0: no mode, manifest, grant or callback weakens these rules. The deny rule comes first, so that deny wins. */
const FLOOR: readonly FloorRow[] = [
  (_tool, { verdict, rules }) => (verdict === "deny" ? { verdict: "deny", by: `floor:${rules.join(",")}` } : undefined),
  (_tool, { verdict, rules }) => (verdict === "ask" ? { verdict: "ask", by: `floor:${rules.join(",")}` } : undefined),
  ({ classification }) => (classification === "destructive" ? { verdict: "ask", by: "floor:destructive" } : undefined),
  ({ approval }) => (approval.required === true ? { verdict: "ask", by: "floor:approval.required" } : undefined),
  ({ category }) => (category === "ask" ? { verdict: "ask", by: "floor:category" } : undefined),
  (_tool, { risk }) => (isHigh(risk) ? { verdict: "ask", by: `floor:risk:${risk}` } : undefined),
];

/** Steps 1 and 2. The rule for `read` ignores the mode, so that a read does not need a session lookup. */
const BEFORE_MANIFEST: readonly StepRow[] = [
  ({ category }) => (category === "read" ? { verdict: "allow", by: "category:read" } : undefined),
  (_tool, mode) => (mode === "yolo" ? { verdict: "allow", by: "mode:yolo" } : undefined),
];

/** Step 4. The manifest's own setting is step 3. */
const AFTER_MANIFEST: readonly StepRow[] = [
  ({ category }, mode) =>
    mode === "autoEdit" && category === "write" ? { verdict: "allow", by: "mode:autoEdit" } : undefined,
];

export function floorVerdict(tool: Tool, assessed: Assessed): Verdict | undefined {
  return first(FLOOR, (row) => row(tool, assessed));
}

export function verdictBeforeManifest(tool: Tool, mode: Mode): Verdict | undefined {
  return first(BEFORE_MANIFEST, (row) => row(tool, mode));
}

export function verdictAfterManifest(tool: Tool, mode: Mode): Verdict | undefined {
  return first(AFTER_MANIFEST, (row) => row(tool, mode));
}

/** Returns whether calls of this risk always need an approval, which is not remembered. */
export function isHigh(risk: Risk): boolean {
  return risk === "high" || risk === "critical";
}

function first<Row>(rows: readonly Row[], ask: (row: Row) => Verdict | undefined): Verdict | undefined {
  for (const row of rows) {
    const verdict = ask(row);
    if (verdict !== undefined) return verdict;
  }
  return undefined;
}
