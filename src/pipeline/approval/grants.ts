import { type BoundedCall, boundsKeyOf, type GrantBounds, offerFor } from "../../approvals/grants.ts";
import type { RiskAssessment } from "../../approvals/risk.ts";
import type { Approvals, Grant } from "../../approvals/types.ts";
import type { Planned } from "../../core/evidence.ts";
import { isElevated } from "../built-in-points.ts";
import { type ApprovalNeed, type GatedCall, guarded } from "./call.ts";

/** Returns whether an approval may cover later calls: never where the rules or a finding want a person for each call. */
function isRememberable({ assessment, findings }: GatedCall): boolean {
  return assessment.rememberable && findings.every(({ rememberable }) => rememberable);
}

/** Returns the key of a session grant, which covers only the same plan of the same caller in that session. */
export function grantKeyOf(call: GatedCall, { requester }: ApprovalNeed): string | undefined {
  const { tool, digest } = call.planned;
  const isOffered = tool.approval.scopes?.includes("session") ?? true;
  return isRememberable(call) && isOffered && requester.session !== undefined ? digest : undefined;
}

/** Returns the session's grant for exactly this call. */
export async function findExactGrant(
  approvals: Approvals,
  call: GatedCall,
  need: ApprovalNeed,
): Promise<Grant | undefined> {
  const grantKey = grantKeyOf(call, need);
  return grantKey === undefined ? undefined : await approvals.findGrant(need.requester, grantKey);
}

/** Returns the bounded grants that cover the call and have runs left. */
export async function findBoundedGrants(
  approvals: Approvals,
  call: GatedCall,
  need: ApprovalNeed,
): Promise<readonly Grant[]> {
  const wanted = isRememberable(call) ? boundedCallOf(call, need) : undefined;
  return wanted === undefined ? [] : await approvals.findBoundedGrants(wanted);
}

/** Counts a run of one of the grants, which is used up although the call may not start: the count is durable before anything runs. */
export async function useBoundedGrant(
  approvals: Approvals | undefined,
  call: GatedCall,
  grants: readonly Grant[],
): Promise<Grant | undefined> {
  for (const { id } of grants) {
    // A quota that refuses the call, or a caller that has disconnected, uses no run.
    await call.budget?.reserve(call.planned);
    call.scope.assertOpen();
    const used = await guarded(async () => approvals?.useGrant(id, call.traceId));
    if (used !== undefined) return used;
  }
  return undefined;
}

/** A call whose bounded grants are looked up. */
interface GrantableCall {
  readonly planned: Pick<Planned, "tool" | "identity" | "binding" | "plan" | "input">;
  readonly assessment: Pick<RiskAssessment, "risk" | "rules">;
}

/**
 * Returns what a bounded grant for the call depends on; undefined when its tool offers none. Only for calls that are rememberable:
 * otherwise a person decides about each.
 */
export function boundedCallOf(
  { planned, assessment }: GrantableCall,
  { requester, session, rules }: ApprovalNeed,
): BoundedCall | undefined {
  const { tool, identity, binding, plan, input } = planned;
  if (tool.approval.grants === undefined || !session.hasGrants) return undefined;
  const fixed = binding.fixedParts?.(plan);
  if (fixed === undefined) return undefined;
  return {
    requester,
    input,
    risk: assessment.risk,
    rules: [...rules, ...assessment.rules],
    isElevated: isElevated(tool, input),
    boundsKey: boundsKeyOf(requester, { identity, fixed, within: session.within }),
  };
}

/** Returns the widest bounded grant that approvers of the call may give; undefined when none. */
export function grantOffer(call: GatedCall, need: ApprovalNeed): GrantBounds | undefined {
  const { tool, digest } = call.planned;
  const { grants } = tool.approval;
  const isAllowed = call.assessment.requirement?.scopes.includes("bounded") ?? true;
  const bounded = isAllowed && isRememberable(call) ? boundedCallOf(call, need) : undefined;
  return bounded && grants && offerFor(bounded, grants, digest);
}
