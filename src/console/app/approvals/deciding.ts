import { effect, signal } from "@preact/signals";
import type { ApprovalTerms } from "../../../core/api/approvals.ts";
import type { ApprovalScope } from "../../../core/types.ts";
import { isReachable } from "../api.ts";
import { announce } from "../state.ts";
import { decideSoon, outgoingFor } from "./decisions.ts";
import { isHighRisk, isPending, type ListedRequest, type ShownRequest, scopesOf } from "./model.ts";
import { askToConfirm, confirming, granting, isArmed, openId, unseenParts, vouchedValues } from "./reading.ts";
import { vouchedIn } from "./vouching.tsx";

/** The form for the open request: the text that an approver has written, and the decision made from it. */

/** Id of the request whose denial is being written. */
export const denying = signal<string | undefined>(undefined);
export const reason = signal("");
export const answer = signal("");
/** The terms of the grant that is being written, as typed, and the arguments that must be as in the call. */
export const written = signal<{ readonly runs: string; readonly minutes: string; readonly same: ReadonlySet<string> }>({
  runs: "",
  minutes: "",
  same: new Set(),
});

// Text written about one request never belongs to another.
effect(() => {
  void openId.value;
  denying.value = undefined;
  reason.value = "";
  answer.value = "";
  confirming.value = undefined;
  granting.value = undefined;
  vouchedValues.value = new Set();
});

export const UNREACHABLE = "The service cannot be reached.";

/** Returns what is missing before an approval can be sent. */
export function missingOf(request: ShownRequest): string | undefined {
  const { answer: wanted } = request;
  if (!isReachable.value) return UNREACHABLE;
  if (wanted !== undefined && wanted.text === undefined && answer.value.trim() === "")
    return "The agent waits for an answer.";
  if (asksReason(request) && reason.value.trim() === "") return "A policy wants a reason.";
  return undefined;
}

/** Returns why an approval cannot be sent now; undefined when it can. */
function objectionTo(request: ShownRequest, scope: ApprovalScope): string | undefined {
  const { canDecide } = request;
  if (canDecide?.approve !== true) return canDecide?.because ?? "You cannot approve this request.";
  if (!scopesOf(request).includes(scope)) return "This request cannot be approved in this scope.";
  if (unseenParts(request).length > 0) return "Show all of the plan first, with e.";
  if (!isArmed.value) return "The request has only just appeared. Press again.";
  return missingOf(request);
}

/** Approves, as the button or its key does. A call of high risk is approved by the second press. */
export function pressApprove(request: ShownRequest, scope: ApprovalScope): void {
  const { id, tool, viewDigest } = request;
  if (!isPending(request) || outgoingFor(id) !== undefined) return;
  const objection = objectionTo(request, scope);
  if (objection !== undefined) {
    announce(`Not approved: ${objection}`);
    return;
  }
  const isConfirmed = confirming.value?.id === id && confirming.value.scope === scope;
  if (isHighRisk(request) && !isConfirmed) {
    askToConfirm(id, scope);
    announce("The risk is high. Press again to approve.");
    return;
  }
  confirming.value = undefined;
  const wanted = request.answer;
  const text = wanted !== undefined && wanted.text === undefined ? answer.value : undefined;
  const grant = scope === "bounded" ? writtenTerms(request) : undefined;
  if (scope === "bounded" && grant === undefined) return;
  granting.value = undefined;
  // The form of a grant does not show the values that were ticked.
  const vouch = scope === "bounded" ? [] : vouchedIn(request);
  // The page may hold the draft of a reason for a denial, which it no longer shows. An approval without a reason field must not send it.
  const why = asksReason(request) ? reason.value.trim() : undefined;
  const made = { decision: "approve", scope, grant, answer: text, vouch, reason: why } as const;
  decideSoon([{ id, tool, viewDigest }], made);
}

/** Opens the form in which a grant of several calls is written. Nothing is granted before it is pressed there. */
export function startGrant(request: ShownRequest): void {
  const { id, offer } = request;
  if (!isPending(request) || outgoingFor(id) !== undefined) return;
  const objection = objectionTo(request, "bounded");
  if (offer === undefined || (objection !== undefined && isArmed.value)) {
    announce(`Not approved: ${objection ?? "This request cannot be approved in this scope."}`);
    return;
  }
  denying.value = undefined;
  written.value = { runs: "", minutes: String(offer.minutes), same: new Set() };
  granting.value = id;
}

/** Returns the terms as written; undefined when a number is not within the offered ones. */
export function writtenTerms({ offer }: ShownRequest): ApprovalTerms | undefined {
  if (offer === undefined) return undefined;
  const { runs, minutes, same } = written.value;
  const isWithin = (text: string, max: number): boolean => /^[1-9]\d{0,5}$/.test(text) && Number(text) <= max;
  if (!isWithin(runs, offer.runs) || !isWithin(minutes, offer.minutes)) return undefined;
  const bounds = Object.fromEntries([...same].map((name) => [name, "equal"]));
  return { runs: Number(runs), minutes: Number(minutes), arguments: bounds };
}

/** Opens the form in which the reason of a denial is written. */
export function startDenial(request: ShownRequest): void {
  const { id, canDecide } = request;
  if (!isPending(request) || outgoingFor(id) !== undefined) return;
  if (!isReachable.value) {
    announce(UNREACHABLE);
    return;
  }
  granting.value = undefined;
  if (canDecide?.deny === true) denying.value = id;
  else announce(canDecide?.because ?? "You cannot deny this request.");
}

/** Closes the form of a denial or of a grant. Returns whether one was open. */
export function closeForm(): boolean {
  const isOpen = denying.value !== undefined || granting.value !== undefined;
  denying.value = undefined;
  granting.value = undefined;
  return isOpen;
}

/** Closes the form that is open, and gives the focus of its field to the request. Returns whether one was open. */
export function leaveForm(): boolean {
  const wasOpen = closeForm();
  if (wasOpen) document.getElementById("request-title")?.focus({ preventScroll: true });
  return wasOpen;
}

/** Returns whether the policies of a request require a reason for an approval. The field is shown only then. */
export function asksReason({ quorum }: ListedRequest): boolean {
  return quorum?.reasonRequired === "always";
}

/** Returns whether the policies of a request require a reason for a denial. */
export function needsReason({ quorum }: ListedRequest): boolean {
  return quorum !== undefined && quorum.reasonRequired !== "never";
}

/** Takes what was written into the field of a reason. */
export function takeReason(): string {
  const text = reason.value.trim();
  reason.value = "";
  return text;
}
