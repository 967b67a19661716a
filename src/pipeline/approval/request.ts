import type {
  Approval,
  Approvals,
  Asked,
  Attachable,
  NewApproval,
  PriorApproval,
  PriorCall,
} from "../../approvals/types.ts";
import { type PolicyFinding, Refusal } from "../../core/errors.ts";
import { digestInAnySession } from "../planner.ts";
import { type ApprovalNeed, type GatedCall, type GateOptions, guarded } from "./call.ts";
import { grantKeyOf, grantOffer } from "./grants.ts";
import { wantedAnswerOf } from "./manifest.ts";
import { notAsked, pendingRefusal } from "./refusals.ts";
import { renderCall } from "./view.ts";

/** Returns the call as the store searches for its earlier approvals. */
export function priorCallOf({ attaches }: GateOptions, call: GatedCall, { requester }: ApprovalNeed): PriorCall {
  const { planned, assessment } = call;
  return {
    requester,
    planDigest: planned.digest,
    requirementDigest: assessment.requirement?.digest,
    callDigest: digestInAnySession(planned),
    attach: attaches ? attachableBy(call) : undefined,
  };
}

/** Returns which approvals the call may use that names none. An idempotency key uses only the one that was requested with it. */
function attachableBy({ planned, request }: GatedCall): Attachable | undefined {
  if (request.newApproval === true) return undefined;
  if (planned.keyUse === undefined) return "any";
  return planned.keyApprovalId === undefined ? undefined : { id: planned.keyApprovalId };
}

/** What people are asked about a call, and the earlier approvals that they are told of. */
interface Request {
  readonly need: ApprovalNeed;
  readonly prior: PriorCall;
  readonly earlier: readonly PriorApproval[];
  /** Whether an approval that the call may use is claimed at once. */
  readonly claims?: boolean;
}

/**
 * Asks people about the call. Returns only when it has an approval, or earlier ones that people must be told of.
 *
 * @throws {Refusal} APPROVAL_REQUIRED, or when nobody is asked
 */
export async function requestApproval(
  { approvals, detector }: Pick<GateOptions, "detector"> & { readonly approvals: Approvals },
  call: GatedCall,
  request: Request,
): Promise<Extract<Asked, { outcome: "outdated" | "claimed" }>> {
  const wanted = newApprovalOf(detector, call, request);
  // Nobody is asked about a call that was halted while it was planned and judged.
  call.scope.assertNotHalted();
  const asked = await guarded(() => approvals.ask(wanted));
  if (asked.outcome === "outdated" || asked.outcome === "claimed") return asked;
  if (asked.outcome === "asked") throw pendingRefusal(asked.approval);
  throw notAsked(call.planned.tool, asked);
}

/**
 * Asks nobody and writes nothing.
 *
 * @throws {Refusal} when the request for an approval would be refused
 */
export async function assertAskable(
  { approvals, detector }: Pick<GateOptions, "detector"> & { readonly approvals: Approvals },
  call: GatedCall,
  request: Request,
): Promise<void> {
  const wanted = newApprovalOf(detector, call, request);
  const refused = await guarded(() => approvals.foresee(wanted));
  if (refused !== undefined) throw notAsked(call.planned.tool, refused);
}

/**
 * Returns what approvers are asked.
 *
 * @throws {Refusal} APPROVAL_DENIED when they could not read it
 */
function newApprovalOf(
  detector: GateOptions["detector"],
  call: GatedCall,
  { need, prior: { callDigest, attach }, earlier, claims }: Request,
): NewApproval {
  const { planned, assessment, request, traceId, flow } = call;
  const { tool, digest: planDigest } = planned;
  const { risk, requirement } = assessment;
  const { requester } = need;
  const rules = [...need.rules, ...assessment.rules];
  const notes = [
    ...earlier.map(priorNote),
    ...assessment.notes,
    ...call.findings.filter(({ point }) => point !== "risk").map(noteOf),
  ];
  const offer = grantOffer(call, need);
  const rendered = renderCall(detector, {
    planned,
    requester,
    assessment: { risk, rules, notes },
    reason: request.reason,
    offer,
    flow,
    hasGrants: need.session.hasGrants,
  });
  if (rendered === undefined)
    throw new Refusal("APPROVAL_DENIED", "This call is too large to show to an approver. Send less at once.");
  const grantKey = grantKeyOf(call, need);
  return {
    requester,
    tool: tool.name,
    category: tool.category,
    classification: tool.classification,
    risk,
    rules,
    planDigest,
    callDigest,
    attach,
    shownPriors: earlier,
    ...(claims === true && { claims }),
    ...rendered,
    scopes: [
      ...(grantKey === undefined ? (["once"] as const) : (tool.approval.scopes ?? (["once", "session"] as const))),
      ...(offer === undefined ? [] : (["bounded"] as const)),
    ],
    grantKey,
    offer,
    traceId,
    requirement,
    answer: wantedAnswerOf(planned),
  };
}

/** Returns the approver's note about an earlier approval of the same call. */
function priorNote({ decidedAt = 0, state, scope }: PriorApproval): string {
  const at = new Date(decidedAt).toISOString();
  if (state === "approved" && scope === "session") return `The same call was approved at ${at} for the session.`;
  if (state === "approved" && scope === "bounded")
    return `The same call was approved at ${at}, with further calls within bounds.`;
  return `The same call was approved at ${at} and ${PRIOR[state] ?? "has run"}.`;
}

const PRIOR: Partial<Record<Approval["state"], string>> = {
  approved: "has not run yet",
  claimed: "is running",
  failed: "has run, and its outcome is a failure",
  in_doubt: "has run, and its outcome is unknown",
};

function noteOf({ point, reason }: PolicyFinding): string {
  return `The policy ${point} requires an approval: ${reason}`;
}
