import type { Approval, Decided } from "../approvals/types.ts";
import { Refusal, type RefusalCode } from "../core/errors.ts";

/** Why a question in this state takes no decision, cancellation or revocation. */
const ENDED = {
  pending: ["APPROVAL_MISMATCH", "Nobody has decided this yet: deny it instead."],
  approved: ["APPROVAL_CONSUMED", "This was decided already."],
  denied: ["APPROVAL_CONSUMED", "This was decided already."],
  claimed: ["APPROVAL_CONSUMED", "This was decided already, and its call is running."],
  executed: ["APPROVAL_CONSUMED", "This was decided already, and its call has run."],
  failed: ["APPROVAL_CONSUMED", "This was decided already, and its call has failed."],
  in_doubt: ["APPROVAL_CONSUMED", "This was decided already; whether its call has run is not known."],
  expired: ["APPROVAL_EXPIRED", "The time of this question is over."],
  cancelled: ["APPROVAL_CANCELLED", "Whoever asked this has cancelled it."],
  revoked: ["APPROVAL_REVOKED", "The yes to this was taken back."],
} as const satisfies Record<Approval["state"], readonly [RefusalCode, string]>;

/** The same for ids that nobody has given out and for ids of others. */
export function notFound(what = "approval"): Refusal {
  return new Refusal("APPROVAL_NOT_FOUND", `There is no such ${what}.`);
}

/** Nothing can be done to it any more; unknown when there is none. */
export function endedRefusal(approval: Approval | undefined): Refusal {
  if (approval === undefined) return notFound();
  const { id, state } = approval;
  const [code, message] = ENDED[state];
  return new Refusal(code, message, { details: { approval: { id, state } } });
}

/** Why a decision was not taken. */
export function decisionRefusal(decided: Exclude<Decided, { readonly outcome: "decided" }>): Refusal {
  if (decided.outcome === "not_pending") return endedRefusal(decided.approval);
  if (decided.outcome === "stale_view") {
    return new Refusal("APPROVAL_MISMATCH", "You were shown something else than what is asked: read it again.");
  }
  if (decided.outcome === "scope_not_offered") {
    return new Refusal("INVALID_INPUT", "This question does not offer that scope.", {
      details: { offered: decided.offered },
    });
  }
  return new Refusal("PERMISSION_DENIED", "Nobody decides what they ask themselves, or what is asked in their name.");
}
