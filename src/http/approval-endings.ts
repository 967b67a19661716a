import { ANSWER_CHARACTERS_MAX, type AnswerFault } from "../approvals/answer.ts";
import type { Objection } from "../approvals/policies/quorum.ts";
import type { Approval, Decided } from "../approvals/types.ts";
import { Refusal, type RefusalCode } from "../core/errors.ts";
import { OWN_QUESTION, sentenceOf } from "./approval-quorum.ts";

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

type Untaken = Exclude<Decided, { readonly outcome: "decided" | "counted" }>;

/** Why a decision was not taken. */
export function decisionRefusal(decided: Untaken): Refusal {
  switch (decided.outcome) {
    case "not_pending":
      return endedRefusal(decided.approval);
    case "stale_view":
      return new Refusal("APPROVAL_MISMATCH", "You were shown something else than what is asked: read it again.");
    case "scope_not_offered":
      return new Refusal("INVALID_INPUT", "This question does not offer that scope.", {
        details: { offered: decided.offered },
      });
    case "reason_missing":
      return new Refusal("INVALID_INPUT", "A policy wants to know why: send a reason with the decision.", {
        details: { field: "reason" },
      });
    case "answer_refused":
      return answerRefusal(decided);
    case "own_question":
      return new Refusal("PERMISSION_DENIED", OWN_QUESTION);
    case "replayed":
      return new Refusal("APPROVAL_CONSUMED", "This message was received before: it counts once.");
    default:
      return objectionRefusal(decided);
  }
}

const ANSWERS = {
  missing: "This question wants an answer: send it with the yes.",
  not_wanted: "This takes no answer: send the decision without it.",
  too_long: `The answer has more than ${ANSWER_CHARACTERS_MAX} characters.`,
  no_choice: "The answer is none of those that the question offers.",
  differs: "Another answer was given before: say yes to it without one of your own, or say no.",
} as const satisfies Record<AnswerFault, string>;

function answerRefusal({ fault, wanted }: Extract<Untaken, { readonly outcome: "answer_refused" }>): Refusal {
  const offered = wanted?.choices === undefined ? {} : { offered: wanted.choices };
  return new Refusal("INVALID_INPUT", ANSWERS[fault], { details: { field: "answer", ...offered } });
}

/** What a policy has against the one who decides. */
function objectionRefusal(objection: Objection): Refusal {
  const message = sentenceOf(objection);
  if (objection.outcome === "already_voted") {
    return new Refusal("APPROVAL_CONSUMED", message, { details: { missing: objection.lacking } });
  }
  const { policy, stage } = objection.lacking;
  const { outcome } = objection;
  const missing =
    outcome === "not_eligible" ? { missingPermissions: objection.missingPermissions } : { yours: objection.stage };
  return new Refusal("PERMISSION_DENIED", message, { details: { policy, stage, ...missing } });
}
