import { HIDDEN } from "../approvals/operator-rules.ts";
import type { RiskAssessment, RiskRules } from "../approvals/risk.ts";
import { floorVerdict } from "../approvals/risk-point.ts";
import { Refusal } from "../core/errors.ts";
import { type Known, mint, type Parsed, type RegisteredTool, type WithinRate } from "../core/evidence.ts";
import type { RefusalCode } from "../core/refusals.ts";
import type { CallerContext, ExecutionPlan, Tool } from "../core/types.ts";
import type { Halts } from "../halts/halts.ts";
import { couldUse } from "./built-in-points.ts";
import type { Snapshot } from "./proxy.ts";
import { parseInput } from "./schema-validator.ts";

/** A question of another program: may this agent call this tool? */
export interface AccessQuestion {
  readonly tool: string;
  readonly subject: string;
  /** Issuer of the subject; only needed where several issuers are for agents. */
  readonly issuer?: string | undefined;
  /** The agent's token. Without it, only what the configuration says about the subject counts. */
  readonly token?: string | undefined;
  /** Undefined when the asker does not know them: then a call counts as elevated. */
  readonly args?: unknown;
}

/** The decision of the policy points, as far as it is known without a plan. Nothing is planned, looked up or counted. */
export type AccessDecision =
  | { readonly isAllowed: true }
  | {
      readonly isAllowed: false;
      /** PERMISSION_DENIED also for a tool that does not exist. */
      readonly code: RefusalCode;
    };

/** The policies of a configuration, and what they know of the call that is asked about. */
interface AccessParts extends Pick<Snapshot, "registry" | "callers" | "policy"> {
  readonly halts: Halts;
  readonly risk: RiskRules;
  readonly session: undefined;
  /** A new id, for decision points. */
  readonly traceId: string;
}

/**
 * Decides like the pipeline would, by the same points and in the same order, up to the arguments' elevation, and by what the risk
 * rules say whatever the plan is. A call that requires an approval is denied, because nobody is asked. One that a mode or a grant
 * may let pass is allowed. The evidence that the points need never leaves this function.
 *
 * @throws {Error} for an error of the service
 */
export async function evaluateAccess(
  { registry, callers, policy, risk, ...call }: AccessParts,
  question: AccessQuestion,
): Promise<AccessDecision> {
  try {
    const caller = await callerOf(callers, question);
    const { registered } = registry.find(question.tool);
    // This comes before every point, so that no point's answer shows whether a tool exists that the subject may not use.
    const isUsable = registered !== undefined && couldUse(caller.permissions, registered.tool.permissions.required);
    if (!isUsable) return denied("PERMISSION_DENIED");
    const permitted = await policy.permit(mint<Known>({ ...partsOf(registered), caller }), call);
    const limited = mint<WithinRate>(permitted);
    const parsed = question.args === undefined ? withoutArguments(limited) : parseInput(limited, question.args);
    const { findings } = await policy.elevate(parsed, call);
    const floor = floorVerdict(registered.tool, leastRisk(risk, parsed));
    if (floor?.verdict === "deny") return denied("POLICY_DENIED");
    return findings === undefined && floor === undefined ? { isAllowed: true } : denied("APPROVAL_REQUIRED");
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return denied(error.code);
  }
}

/** Placeholder for the plan of a target whose plans the risk rules do not read. */
const NO_PLAN: ExecutionPlan = { kind: "none" };

/** Returns the mildest assessment that the call can have. */
function leastRisk(risk: RiskRules, { tool, input, binding }: Parsed): RiskAssessment {
  if (input === undefined) return risk.bounds(tool, HIDDEN, true).least;
  const plan = binding.planForRules === undefined ? NO_PLAN : binding.planForRules(input);
  return plan === undefined ? risk.bounds(tool, input, true).least : risk.assess({ tool, input, plan });
}

function denied(code: RefusalCode): AccessDecision {
  return { isAllowed: false, code };
}

/** Returns the agent: as its token says, or as the configuration alone knows it. The token must be the subject's. */
async function callerOf(callers: Snapshot["callers"], question: AccessQuestion): Promise<CallerContext> {
  const { token, subject, issuer } = question;
  if (token === undefined) return callers.configuredAgent({ issuer, subject });
  const { caller } = await callers.verifyToken(token, "agents");
  if (caller.subject === subject && (issuer === undefined || caller.issuer === issuer)) return caller;
  throw new Refusal("UNAUTHENTICATED", "The token is another subject's.");
}

function partsOf({ tool, binding, outputPolicy, inputPolicy, scan, identity }: RegisteredTool): RegisteredTool {
  return { tool, binding, outputPolicy, inputPolicy, scan, identity };
}

/** Unknown arguments could be any, so the call counts as elevated. Points see no arguments. */
function withoutArguments(limited: WithinRate): Parsed {
  return mint<Parsed>({ ...limited, tool: alwaysElevated(limited.tool), input: undefined });
}

function alwaysElevated(tool: Tool): Tool {
  const { permissions } = tool;
  if (permissions.elevatedIf === undefined) return tool;
  return { ...tool, permissions: { ...permissions, elevatedIf: { ...permissions.elevatedIf, when: () => true } } };
}
