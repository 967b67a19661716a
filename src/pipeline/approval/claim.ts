import type { Approver, Requester } from "../../approvals/identities.ts";
import type { Approval } from "../../approvals/types.ts";
import { Refusal } from "../../core/errors.ts";
import type { Planned } from "../../core/evidence.ts";
import { REFUSALS } from "../../core/refusals.ts";
import type { EpochMs, GivenAnswer } from "../../core/types.ts";
import type { PolicyEvaluator } from "../policy-points.ts";
import { type GatedCall, type GateOptions, guarded } from "./call.ts";
import { claimRefusal, inProgress, pendingRefusal } from "./refusals.ts";

type Confirm = NonNullable<ReturnType<PolicyEvaluator["confirmation"]>>;

interface ClaimOrder {
  readonly requester: Requester;
  readonly id: string;
}

/** The approval that a call has claimed. */
interface UsedApproval {
  readonly by: string;
  readonly approvalId: string;
  readonly answer: GivenAnswer | undefined;
}

/**
 * Claims the approval for this run.
 *
 * @throws {Refusal} an APPROVAL_… code when it does not approve this plan
 */
export async function claim(options: GateOptions, call: GatedCall, order: ClaimOrder): Promise<UsedApproval> {
  const { approvals } = options;
  const { requester, id } = order;
  const { planned } = call;
  const { tool, digest: planDigest } = planned;
  if (approvals === undefined) throw claimRefusal({ outcome: "not_found" }, tool);
  await call.budget?.reserve(planned);
  // A disconnected caller consumes no approval.
  call.scope.assertOpen();
  const confirm = options.confirmation?.(call);
  if (confirm !== undefined) await confirmApproval(options, call, { ...order, confirm });
  const requirementDigest = call.assessment.requirement?.digest;
  const claimed = await guarded(() => approvals.claim({ id, requester, planDigest, requirementDigest }));
  if (claimed.outcome !== "claimed") throw claimRefusal(claimed, tool);
  return usedBy(planned, claimed.approval);
}

/**
 * Returns whether nothing has to be asked or taken between the request for an approval and its use: the request may use it. A
 * disconnected caller consumes no approval.
 */
export function mayClaimAtOnce({ approvals, confirmation }: GateOptions, call: GatedCall): boolean {
  const { budget, planned, scope } = call;
  if (approvals?.isRemote !== true || scope.hasEnded || budget?.takes(planned) === true) return false;
  return confirmation?.(call) === undefined;
}

/** Returns what the call's run says of the approval that it has claimed. */
export function usedBy(planned: Planned, approval: Approval): UsedApproval {
  // No name can look like that of a further person.
  const people = approversOf(approval).map(
    ({ issuer, subject }) => `human:${issuer}|${subject.replaceAll(", human:", ",%20human:")}`,
  );
  return { by: people.join(", "), approvalId: approval.id, answer: answerIn(approval, planned) };
}

/**
 * Asks the points that required the approval about it, while it is approved and not used. A pending request ends the call here: it
 * could be approved between this question and the claim. In any other state it can never be claimed.
 *
 * @throws {Refusal} the denial of a point, or APPROVAL_REQUIRED
 */
async function confirmApproval(
  { approvals }: GateOptions,
  { planned, scope }: GatedCall,
  { requester, id, confirm }: ClaimOrder & { readonly confirm: Confirm },
): Promise<void> {
  const approval = await guarded(async () => approvals?.get(id));
  const isOwn = approval?.requester.issuer === requester.issuer && approval.requester.subject === requester.subject;
  if (approval === undefined || !isOwn || approval.planDigest !== planned.digest) return;
  if (approval.state === "pending") throw pendingRefusal(approval);
  if (approval.state !== "approved") return;
  const approvers = approversOf(approval).map(({ issuer, subject }) => ({ issuer, subject }));
  await confirm({ id, approvers, decidedAt: decidedAtOf(approval), usableUntil: approval.executeBy });
  // A caller that has disconnected meanwhile consumes no approval.
  scope.assertOpen();
}

/** @throws {Error} when an approval lacks the answer that the manifest requires */
function answerIn(approval: Approval, planned: Planned): GivenAnswer | undefined {
  const { answer } = approval;
  if (answer?.text !== undefined) return { text: answer.text, at: decidedAtOf(approval) };
  if (answer === undefined && planned.tool.approval.answer === undefined) return undefined;
  throw new Error("an approval lacks the answer that its request needs");
}

/** Returns everyone whose approval counted. */
function approversOf({ votes, decidedBy }: Approval): readonly Approver[] {
  if (votes.length > 0) return votes;
  if (decidedBy === undefined) throw new Error("an approval lacks its approver");
  return [decidedBy];
}

function decidedAtOf({ decidedAt }: Approval): EpochMs {
  if (decidedAt === undefined) throw new Error("an approval lacks the time of its decision");
  return decidedAt;
}

/**
 * Claims an approval that the call does not name. Returns undefined when the approval has expired or was taken back meanwhile.
 *
 * @throws {Refusal} CALL_IN_PROGRESS when a concurrent identical call has claimed it first
 */
export async function claimUnnamed(
  options: GateOptions,
  call: GatedCall,
  order: ClaimOrder,
): Promise<UsedApproval | undefined> {
  try {
    return await claim(options, call, order);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (error.code === "APPROVAL_CONSUMED") throw inProgress(order.id);
    if (REFUSALS[error.code].http === HTTP_GONE) return undefined;
    throw error;
  }
}

/** Status of an approval that has ended unused. */
const HTTP_GONE = 410;
