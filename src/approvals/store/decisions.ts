import { answerFault, isReadable } from "../answer.ts";
import { isAmongAskers } from "../askers.ts";
import type { Relay } from "../decision.ts";
import { takeMessage } from "../notify/inbox.ts";
import { objectionToNo, standingOf } from "../policies/quorum.ts";
import type { Approval, Approvals, Decided, Decider, Decision, Requester, Scope } from "../types.ts";
import type { Tx } from "./database.ts";
import { createGrant, revokeGrantsFrom } from "./grants.ts";
import { sessionIsOver } from "./session-rows.ts";
import type { Store } from "./store.ts";
import { identity, moved, settledView } from "./transitions.ts";
import { boundedReason, lackingIn, vote, voterOf } from "./votes.ts";

export function decisions(store: Store): Pick<Approvals, "decide" | "cancel" | "revoke"> {
  const { database } = store;
  return {
    decide: (decision) => database.write((tx) => decide(tx, decision, store)),
    cancel: (id, requester) => database.write((tx) => cancel(tx, id, requester)),
    revoke: (id, by) => database.write((tx) => revoke(tx, id, by)),
  };
}

async function decide(tx: Tx, decision: Decision, store: Store): Promise<Decided> {
  const { relay } = decision;
  if (relay !== undefined && !(await takeMessage(tx, relay.webhook, relay.messageId))) return { outcome: "replayed" };
  const approval = await settledView(tx, decision.id);
  if (approval === undefined) return { outcome: "not_pending", approval };
  if (relay !== undefined) noteRelay(tx, decision, { relay, approval });
  const objection = await objectionTo(tx, decision, approval);
  if (objection !== undefined) return objection;
  const voted = await vote(tx, decision, { approval, limits: store.limits });
  if (voted === undefined) return { outcome: "not_pending", approval };
  if (voted.state === "pending") return { outcome: "counted", approval: voted, lacking: lackingIn(voted) };
  if (voted.scope === "session") await createGrant(tx, voted, store);
  return { outcome: "decided", approval: voted };
}

interface Relayed {
  readonly relay: Relay;
  readonly approval: Approval;
}

/** Whatever becomes of it: who says that somebody decided. */
function noteRelay(tx: Tx, { by, decision }: Decision, { relay, approval }: Relayed): void {
  const { id, planDigest } = approval;
  const said = { id, decision, planDigest, sub: by.subject, iss: by.issuer };
  tx.note({ event: undefined, journal: { type: "approval.relayed", ...relay, ...said } });
}

async function objectionTo(tx: Tx, decision: Decision, approval: Approval): Promise<Decided | undefined> {
  if (isAmongAskers(approval.requester, [decision.by.subject, ...(decision.actors ?? [])]))
    return { outcome: "own_question" };
  if (approval.state !== "pending") return { outcome: "not_pending", approval };
  if (decision.viewDigest !== undefined && decision.viewDigest !== approval.viewDigest)
    return { outcome: "stale_view" };
  const objection = objectionByPolicy(decision, approval) ?? objectionToAnswer(decision, approval);
  if (objection !== undefined || decision.decision === "deny") return objection;
  const offered = await offeredNow(tx, approval);
  return offered.includes(decision.scope ?? "once") ? undefined : { outcome: "scope_not_offered", offered };
}

/** By what the policies wanted when it was asked: what they want today is for questions of today. */
function objectionByPolicy(decision: Decision, { requirement, votes }: Approval): Decided | undefined {
  if (requirement === undefined) return undefined;
  const voter = voterOf(decision);
  const isNo = decision.decision === "deny";
  const standing = isNo ? objectionToNo(requirement, votes, voter) : standingOf(requirement, votes, voter);
  if (standing !== undefined && "outcome" in standing) return standing;
  const { reasonRequired } = requirement;
  const wantsReason = reasonRequired === "always" || (isNo && reasonRequired === "deny");
  return wantsReason && !isReadable(boundedReason(decision.reason)) ? { outcome: "reason_missing" } : undefined;
}

/** A no is a no, whatever is sent beside it; none of it is kept. */
function objectionToAnswer(decision: Decision, { answer: wanted }: Approval): Decided | undefined {
  if (decision.decision === "deny") return undefined;
  // Through an integration nobody was shown what somebody else has answered.
  const isBlind = decision.relay !== undefined && wanted !== undefined && decision.answer === undefined;
  const fault = isBlind ? "missing" : answerFault(wanted, decision.answer);
  return fault && { outcome: "answer_refused", fault, wanted };
}

/** The session may have ended since the question was asked. */
async function offeredNow(tx: Tx, { scopes, requester }: Approval): Promise<readonly Scope[]> {
  if (!scopes.includes("session") || !(await sessionIsOver(tx, requester))) return scopes;
  return scopes.filter((scope) => scope !== "session");
}

async function cancel(tx: Tx, id: string, by: Pick<Requester, "issuer" | "subject">): Promise<Approval | undefined> {
  const rows = await tx.sql`
    UPDATE approvals SET state = 'cancelled', version = version + 1, ended_at = ${tx.now}
    WHERE id = ${id} AND issuer = ${by.issuer} AND subject = ${by.subject}
      AND ((state = 'pending' AND decide_by > ${tx.now}) OR (state = 'approved' AND execute_by > ${tx.now}))
    RETURNING *`;
  return moved(tx, rows, { event: "approval.cancelled", journal: "approval.cancelled" });
}

/** With what it is remembered for: a yes that is taken back lets nothing through any more. */
async function revoke(tx: Tx, id: string, by: Decider): Promise<Approval | undefined> {
  const rows = await tx.sql`
    UPDATE approvals SET state = 'revoked', version = version + 1, ended_at = ${tx.now}
    WHERE id = ${id} AND state = 'approved' AND execute_by > ${tx.now}
    RETURNING *`;
  const revoked = moved(tx, rows, {
    event: "approval.revoked",
    journal: "approval.revoked",
    more: { decider: identity(by) },
  });
  if (revoked !== undefined) await revokeGrantsFrom(tx, id, by);
  return revoked;
}
