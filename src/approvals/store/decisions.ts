import type { ApprovalScope } from "../../core/types.ts";
import { vouchableIn } from "../../core/vouching.ts";
import { answerProblem, isReadable } from "../answer.ts";
import { isEnoughAlone, objectionToDenial, voteResultOf } from "../approver-policies/quorum.ts";
import { chosenTerms } from "../grants.ts";
import { type Approver, isAmongRequesters, type Requester } from "../identities.ts";
import { recordMessage } from "../notify/inbox.ts";
import type { Approval, Approvals, Decided, Decision, Relay } from "../types.ts";
import type { WriteTransaction } from "./database.ts";
import { escalateAll } from "./escalations.ts";
import { createGrant, revokeGrantsFrom } from "./sessions.ts";
import type { Store } from "./store.ts";
import { currentApproval, identity, noteTransition, sessionIsOver } from "./transitions.ts";
import { boundedReason, lackingIn, vote, voterOf } from "./votes.ts";

export function decisions(store: Store): Pick<Approvals, "decide" | "cancel" | "revoke"> {
  const { database } = store;
  return {
    decide: (decision) => database.write((tx) => decide(tx, decision, store)),
    cancel: (id, requester) => database.write((tx) => cancel(tx, id, requester)),
    revoke: (id, by) => database.write((tx) => revoke(tx, id, by)),
  };
}

async function decide(tx: WriteTransaction, decision: Decision, store: Store): Promise<Decided> {
  const { relay } = decision;
  if (relay !== undefined && !(await recordMessage(tx, relay.webhook, relay.messageId))) return { outcome: "replayed" };
  const approval = await currentApproval(tx, decision.id);
  if (approval === undefined) return { outcome: "not_pending", approval };
  if (relay !== undefined) noteRelay(tx, decision, { relay, approval });
  let pending = approval;
  let objection = await objectionTo(tx, decision, pending);
  if (objection?.outcome === "not_eligible" || objection?.outcome === "later_stage") {
    // A step may be due that the next sweep would take.
    pending = (await escalateAll(tx, pending)) ?? pending;
    objection = await objectionTo(tx, decision, pending);
  }
  if (objection !== undefined) return objection;
  const voted = await vote(tx, decision, { approval: pending, limits: store.limits });
  if (voted === undefined) return { outcome: "not_pending", approval: pending };
  if (voted.state === "pending") return { outcome: "counted", approval: voted, lacking: lackingIn(voted) };
  if (voted.scope === "session" || voted.scope === "bounded") await createGrant(tx, voted, store);
  return { outcome: "decided", approval: voted };
}

/** Journals which integration reported the decision, whether or not the decision is accepted. */
function noteRelay(
  tx: WriteTransaction,
  { by, decision }: Decision,
  { relay, approval }: { readonly relay: Relay; readonly approval: Approval },
): void {
  const { id, planDigest } = approval;
  const reported = { id, decision, planDigest, sub: by.subject, iss: by.issuer };
  tx.note({ event: undefined, journal: { type: "approval.relayed", ...relay, ...reported } });
}

async function objectionTo(tx: WriteTransaction, decision: Decision, approval: Approval): Promise<Decided | undefined> {
  if (isAmongRequesters(approval.requester, [decision.by.subject, ...(decision.actors ?? [])]))
    return { outcome: "own_question" };
  if (approval.state !== "pending") return { outcome: "not_pending", approval };
  if (decision.viewDigest !== undefined && decision.viewDigest !== approval.viewDigest)
    return { outcome: "stale_view" };
  const objection = objectionByPolicy(decision, approval) ?? objectionToAnswer(decision, approval);
  if (objection !== undefined || decision.decision === "deny") return objection;
  const offered = await offeredNow(tx, approval);
  const { scope = "once" } = decision;
  if (!offered.includes(scope)) return { outcome: "scope_not_offered", offered };
  return objectionToGrant(decision, approval) ?? objectionToVouching(decision, approval);
}

/** An approver can vouch only when this decision alone is enough: one vote of several does not speak for the others. */
function objectionToVouching(decision: Decision, approval: Approval): Decided | undefined {
  const { vouch = [] } = decision;
  if (vouch.length === 0) return undefined;
  const offered = new Set(vouchableIn(approval).map(({ value }) => value));
  if (vouch.some((value) => !offered.has(value))) return { outcome: "vouch_refused", fault: "not_offered" };
  return isEnoughAlone(approval, voterOf(decision))
    ? undefined
    : { outcome: "vouch_refused", fault: "several_approvers" };
}

function objectionToGrant({ scope, grant }: Decision, { offer }: Approval): Decided | undefined {
  if (grant === undefined) return undefined;
  const problem =
    scope === "bounded" && offer !== undefined
      ? chosenTerms(offer.terms, grant)
      : { field: "grant", message: "belongs to the scope bounded" };
  return "field" in problem ? { outcome: "grant_refused", problem } : undefined;
}

/** Checks the requirement stored with the request; current policies apply to new requests only. */
function objectionByPolicy(decision: Decision, { requirement, votes }: Approval): Decided | undefined {
  if (requirement === undefined) return undefined;
  const voter = voterOf(decision);
  const isDenial = decision.decision === "deny";
  const result = isDenial ? objectionToDenial(requirement, votes, voter) : voteResultOf(requirement, votes, voter);
  if (result !== undefined && "outcome" in result) return result;
  const { reasonRequired } = requirement;
  const wantsReason = reasonRequired === "always" || (isDenial && reasonRequired === "deny");
  return wantsReason && !isReadable(boundedReason(decision.reason)) ? { outcome: "reason_missing" } : undefined;
}

/** Accepts every denial, whatever answer comes with it; that answer is not stored. */
function objectionToAnswer(decision: Decision, { answer: wanted }: Approval): Decided | undefined {
  if (decision.decision === "deny") return undefined;
  // An integration does not show the approver what an earlier approver answered.
  const isBlind = decision.relay !== undefined && wanted !== undefined && decision.answer === undefined;
  const fault = isBlind ? "missing" : answerProblem(wanted, decision.answer);
  return fault && { outcome: "answer_refused", fault, wanted };
}

/** Drops the scopes of grants when the session has ended since the request was made. */
async function offeredNow(tx: WriteTransaction, { scopes, requester }: Approval): Promise<readonly ApprovalScope[]> {
  const isOnlyOnce = scopes.every((scope) => scope === "once");
  if (isOnlyOnce || !(await sessionIsOver(tx, requester))) return scopes;
  return scopes.filter((scope) => scope === "once");
}

export async function cancel(
  tx: WriteTransaction,
  id: string,
  by: Pick<Requester, "issuer" | "subject">,
): Promise<Approval | undefined> {
  const rows = await tx.sql`
    UPDATE approvals SET state = 'cancelled', version = version + 1, ended_at = ${tx.now}
    WHERE id = ${id} AND issuer = ${by.issuer} AND subject = ${by.subject}
      AND ((state = 'pending' AND decide_by > ${tx.now}) OR (state = 'approved' AND execute_by > ${tx.now}))
    RETURNING *`;
  return noteTransition(tx, rows, { event: "approval.cancelled", journal: "approval.cancelled" });
}

/** Revokes an approval with its grants, so that it allows no further calls. */
async function revoke(tx: WriteTransaction, id: string, by: Approver): Promise<Approval | undefined> {
  const rows = await tx.sql`
    UPDATE approvals SET state = 'revoked', version = version + 1, ended_at = ${tx.now}
    WHERE id = ${id} AND state = 'approved' AND execute_by > ${tx.now}
    RETURNING *`;
  const revoked = noteTransition(tx, rows, {
    event: "approval.revoked",
    journal: "approval.revoked",
    more: { decider: identity(by) },
  });
  if (revoked !== undefined) await revokeGrantsFrom(tx, id, by);
  return revoked;
}
