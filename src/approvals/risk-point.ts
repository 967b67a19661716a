import { ALLOWED, type PolicyDecision, type PolicyRequests, type StagePoint } from "../core/policy-point.ts";
import type { Tool } from "../core/types.ts";
import type { RiskAssessment, RiskRules } from "./risk.ts";

/** A verdict; deny > ask > allow. `by` names the rule that decided, for the audit log. */
export interface Verdict {
  readonly verdict: "allow" | "ask" | "deny";
  readonly by: string;
}

type Assessed = Pick<RiskAssessment, "risk" | "rules" | "verdict">;
type FloorRow = (tool: Tool, assessed: Assessed) => Verdict | undefined;

/** Rules that no mode, manifest, grant or callback weakens. The rule that denies comes first, so that deny wins. */
const FLOOR: readonly FloorRow[] = [
  (_tool, { verdict, rules }) => (verdict === "deny" ? { verdict: "deny", by: `floor:${rules.join(",")}` } : undefined),
  (_tool, { verdict, rules }) => (verdict === "ask" ? { verdict: "ask", by: `floor:${rules.join(",")}` } : undefined),
  ({ classification }) => (classification === "destructive" ? { verdict: "ask", by: "floor:destructive" } : undefined),
  ({ approval }) => (approval.required === true ? { verdict: "ask", by: "floor:approval.required" } : undefined),
  ({ category }) => (category === "ask" ? { verdict: "ask", by: "floor:category" } : undefined),
  (_tool, { risk }) => (isHigh({ risk }) ? { verdict: "ask", by: `floor:risk:${risk}` } : undefined),
];

export function floorVerdict(tool: Tool, assessed: Assessed): Verdict | undefined {
  for (const row of FLOOR) {
    const verdict = row(tool, assessed);
    if (verdict !== undefined) return verdict;
  }
  return undefined;
}

/** The decision of the risk rules, with the assessment that the approval gate shows to people. */
interface RiskDecision {
  readonly decision: PolicyDecision;
  readonly assessment: RiskAssessment;
}

export interface RiskPoint extends Omit<StagePoint<"approval">, "decide"> {
  decide(request: PolicyRequests["approval"]): RiskDecision;
}

export function riskPoint(rules: Pick<RiskRules, "assess">): RiskPoint {
  return {
    name: "risk",
    stage: "approval",
    decide(request) {
      const assessment = rules.assess(request);
      return { assessment, decision: decisionOn(request.tool, assessment) };
    },
  };
}

function decisionOn(tool: Tool, assessment: RiskAssessment): PolicyDecision {
  const floor = floorVerdict(tool, assessment);
  if (floor === undefined) return ALLOWED;
  const { rules } = assessment;
  if (floor.verdict === "deny") {
    const message = "A policy forbids this call, whoever asks. It cannot be approved.";
    return { verdict: "deny", reasons: [floor.by], code: "POLICY_DENIED", message, details: { rules } };
  }
  const isGrave = isHigh(assessment) || tool.classification === "destructive" || tool.category === "ask";
  return { verdict: "requireApproval", reasons: [floor.by], rememberable: assessment.rememberable && !isGrave };
}

/** Returns whether calls of this risk always need an approval, which is not remembered. */
function isHigh({ risk }: Pick<RiskAssessment, "risk">): boolean {
  return risk === "high" || risk === "critical";
}
