import { canonicalJson, sha256Hex } from "../core/digest.ts";
import { StartupError } from "../core/errors.ts";
import { shellScriptOf } from "../core/shell-script.ts";
import type { DeclaredKind } from "../core/target-kind.ts";
import type { ExecutionPlan, Tool } from "../core/types.ts";
import {
  SHELL_RULES,
  type ShellDirectories,
  type ShellJudgement,
  type ShellRules,
} from "../shell-rules/shell-rules.ts";
import { type ApproverPolicy, createApproverPolicies } from "./approver-policies/approver-policy.ts";
import type { Requirement } from "./approver-policies/requirement.ts";
import {
  concerns,
  matchesArgs,
  matchesScript,
  matchesShown,
  type OperatorRule,
  readOperatorRules,
} from "./operator-rules.ts";
import { RISKS, type Risk } from "./types.ts";

export interface RiskRequest {
  readonly tool: Tool;
  readonly input: unknown;
  readonly plan: ExecutionPlan;
}

export interface RiskAssessment {
  readonly risk: Risk;
  readonly rules: readonly string[];
  /** Strictest verdict of the matched rules: deny > ask > none. */
  readonly verdict: "deny" | "ask" | "none";
  readonly rememberable: boolean;
  readonly notes: readonly string[];
  /** Requirement when the call needs an approval; undefined when one approver is enough. */
  readonly requirement?: Requirement | undefined;
}

export interface RiskRules {
  /** Returns the hex SHA-256 over the rules and policies that may apply to the tool. */
  versionFor(tool: Tool, kind: Pick<DeclaredKind, "startsShells">): string;
  assess(request: RiskRequest): RiskAssessment;
  /**
   * Returns the mildest and the strictest assessment that calls of a tool can have whose arguments are known only in part:
   * `shown`, with `HIDDEN` for each unknown value. `hasScript`: its calls contain a shell script, which is unknown.
   */
  bounds(tool: Tool, shown: unknown, hasScript: boolean): RiskBounds;
}

interface RiskBounds {
  readonly least: RiskAssessment;
  readonly most: RiskAssessment;
}

const VERDICTS = ["none", "ask", "deny"] as const;
const CLASSIFIED = { read: "low", write: "medium", destructive: "high" } as const;
const VERSION_LIMITS = { depthMax: 64, nodesMax: 1_000_000, bytesMax: 67_108_864 } as const;

/** Returns the problems in the operators' rules, each with its path: `[0].examples.matches[1]: …`. */
export function riskRuleProblems(rules: readonly unknown[]): readonly string[] {
  return readOperatorRules(rules).problems;
}

export interface RiskRulesOptions {
  readonly rules: readonly unknown[];
  readonly policies?: readonly ApproverPolicy[] | undefined;
  /** Default: the built-in rules. */
  readonly shell?: ShellRules | undefined;
}

/**
 * Combines the built-in rules and the operators' rules. Every rule is evaluated each time and the strictest wins, so that no
 * rule can weaken another.
 *
 * @throws {StartupError} when a rule cannot be read, or its own examples contradict it
 */
export function createRiskRules({ rules: written, policies = [], shell = SHELL_RULES }: RiskRulesOptions): RiskRules {
  const { rules, problems } = readOperatorRules(written);
  if (problems.length > 0) throw new StartupError(problems.map((problem) => `approvals.rules${problem}`));
  const known = new WeakMap<Tool, ToolAssessment>();
  const { requirementFor, versionFor } = createApproverPolicies(policies);
  const assessRisk = ({ tool, input, plan }: RiskRequest): RiskAssessment => {
    const { fixed, dependent } = assessmentOf(tool, { rules, known });
    const script = shellScriptOf(plan["argv"]);
    if (script === undefined && dependent.length === 0) return fixed;
    const findings = script === undefined ? undefined : shell.judge(script, directoriesOf(plan));
    const matched = dependent.filter((rule) => isMatch(rule, input, findings)).map(fromOperator);
    return strictest([fixed, ...(findings === undefined ? [] : [shellAssessment(findings, plan)]), ...matched]);
  };
  return {
    versionFor: (tool, { startsShells = false }) =>
      versionOf(tool, { startsShells, rules, shell, policies: versionFor(tool) }),
    assess(request) {
      const assessment = assessRisk(request);
      const requirement = requirementFor({ tool: request.tool, risk: assessment.risk });
      return requirement === undefined ? assessment : { ...assessment, requirement };
    },
    bounds(tool, shown, hasScript) {
      const { fixed, dependent } = assessmentOf(tool, { rules, known });
      const matches = (rule: OperatorRule): boolean | undefined =>
        rule.when.shell === undefined ? matchesShown(rule, shown) : hasScript && undefined;
      const sure = dependent.filter((rule) => matches(rule) === true).map(fromOperator);
      const possible = dependent.filter((rule) => matches(rule) !== false).map(fromOperator);
      const worstScript: RiskAssessment = { ...withoutRules("critical"), verdict: "deny" };
      return {
        least: strictest([fixed, ...sure]),
        most: strictest([fixed, ...possible, ...(hasScript ? [worstScript] : [])]),
      };
    },
  };
}

/** The part of the assessment that a tool alone determines, and the rules that depend on the arguments. */
interface ToolAssessment {
  readonly fixed: RiskAssessment;
  readonly dependent: readonly OperatorRule[];
}

interface ToolAssessments {
  readonly rules: readonly OperatorRule[];
  readonly known: WeakMap<Tool, ToolAssessment>;
}

function assessmentOf(tool: Tool, { rules, known }: ToolAssessments): ToolAssessment {
  const found = known.get(tool);
  if (found !== undefined) return found;
  const own = rules.filter((rule) => concerns(rule, tool));
  const made = {
    fixed: strictest([
      withoutRules(CLASSIFIED[tool.classification]),
      withoutRules(tool.approval.risk ?? "low"),
      ...own.filter((rule) => !readsArguments(rule)).map(fromOperator),
    ]),
    dependent: own.filter(readsArguments),
  };
  known.set(tool, made);
  return made;
}

function readsArguments({ when }: OperatorRule): boolean {
  return when.args !== undefined || when.shell !== undefined;
}

function isMatch(rule: OperatorRule, input: unknown, findings: ShellJudgement | undefined): boolean {
  if (rule.when.shell === undefined) return matchesArgs(rule, input);
  return findings !== undefined && matchesScript(rule, findings.script);
}

function withoutRules(risk: Risk): RiskAssessment {
  return { risk, rules: [], verdict: "none", rememberable: true, notes: [] };
}

function fromOperator({ name, verdict, risk }: OperatorRule): RiskAssessment {
  return { risk: risk ?? "low", rules: [`operator:${name}`], verdict, rememberable: true, notes: [] };
}

/** Joins assessments; commutative, and never weaker than any of them. High and critical risk is never rememberable. */
function strictest(all: readonly RiskAssessment[]): RiskAssessment {
  const risk = RISKS[Math.max(...all.map((one) => RISKS.indexOf(one.risk)))] ?? "critical";
  return Object.freeze({
    risk,
    rules: Object.freeze([...new Set(all.flatMap(({ rules }) => rules))]),
    verdict: VERDICTS[Math.max(...all.map(({ verdict }) => VERDICTS.indexOf(verdict)))] ?? "deny",
    rememberable: all.every(({ rememberable }) => rememberable) && RISKS.indexOf(risk) < RISKS.indexOf("high"),
    notes: Object.freeze([...new Set(all.flatMap(({ notes }) => notes))]),
  });
}

function shellAssessment({ rules, notes }: ShellJudgement, plan: ExecutionPlan): RiskAssessment {
  const files = plan["files"];
  const namesFiles = typeof files === "object" && files !== null && Object.keys(files).length > 0;
  const unhashed = plan["unhashed"];
  const hasUnhashed = Array.isArray(unhashed) && unhashed.length > 0;
  return strictest([
    { ...withoutRules("low"), rememberable: !namesFiles && !hasUnhashed },
    ...rules.map(({ id, risk, verdict, rememberable }) => ({ risk, verdict, rememberable, rules: [id], notes: [] })),
    {
      ...withoutRules("low"),
      notes: [
        ...notes,
        ...(namesFiles ? ["Names files of the workspace: their contents are part of what is approved."] : []),
        ...(hasUnhashed
          ? ["Names folders or large files of the workspace, whose contents are not part of what is approved."]
          : []),
      ],
    },
  ]);
}

function directoriesOf({ cwd, environment }: ExecutionPlan): ShellDirectories {
  const home: unknown = (environment as Readonly<Record<string, unknown>> | undefined)?.["HOME"];
  return { cwd: typeof cwd === "string" ? cwd : undefined, home: typeof home === "string" ? home : undefined };
}

interface Versioned {
  readonly startsShells: boolean;
  readonly rules: readonly OperatorRule[];
  readonly shell: ShellRules;
  readonly policies: string;
}

/** Ignores the order of the rules and their examples, which decide nothing, and rules for shells where the tool starts none. */
function versionOf(tool: Tool, { startsShells, rules, shell, policies }: Versioned): string {
  const own = rules
    .filter((rule) => concerns(rule, tool) && (startsShells || rule.when.shell === undefined))
    .map(({ examples: _, ...rule }) => rule)
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const table = startsShells ? shell.text() : "";
  return sha256Hex(canonicalJson({ t: "stc/risk/v2", table, rules: own, policies }, VERSION_LIMITS));
}
