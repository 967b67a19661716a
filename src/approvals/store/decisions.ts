import { isAmongAskers } from "../askers.ts";
import type { Approval, Approvals, Decided, Decider, Decision, Requester, Scope } from "../types.ts";
import type { Tx } from "./database.ts";
import { createGrant, revokeGrantsFrom } from "./grants.ts";
import { sessionIsOver } from "./session-rows.ts";
import { SECOND_MS, type Store } from "./store.ts";
import { identity, moved, settledView } from "./transitions.ts";

const REASON_CHARACTERS_MAX = 500;

export function decisions(store: Store): Pick<Approvals, "decide" | "cancel" | "revoke"> {
  const { database } = store;
  return {
    decide: (decision) => database.write((tx) => decide(tx, decision, store)),
    cancel: (id, requester) => database.write((tx) => cancel(tx, id, requester)),
    revoke: (id, by) => database.write((tx) => revoke(tx, id, by)),
  };
}

async function decide(tx: Tx, decision: Decision, store: Store): Promise<Decided> {
  const approval = await settledView(tx, decision.id);
  if (approval === undefined) return { outcome: "not_pending", approval };
  const objection = await objectionTo(tx, decision, approval);
  if (objection !== undefined) return objection;
  const decided = await vote(tx, decision, { approval, executeInMs: store.limits.executeBySeconds * SECOND_MS });
  if (decided === undefined) return { outcome: "not_pending", approval };
  if (decided.scope === "session") await createGrant(tx, decided, store);
  return { outcome: "decided", approval: decided };
}

async function objectionTo(tx: Tx, decision: Decision, approval: Approval): Promise<Decided | undefined> {
  if (isAmongAskers(approval.requester, [decision.by.subject])) return { outcome: "own_question" };
  if (approval.state !== "pending") return { outcome: "not_pending", approval };
  if (decision.viewDigest !== undefined && decision.viewDigest !== approval.viewDigest)
    return { outcome: "stale_view" };
  if (decision.decision === "deny") return undefined;
  const offered = await offeredNow(tx, approval);
  return offered.includes(decision.scope ?? "once") ? undefined : { outcome: "scope_not_offered", offered };
}

/** The session may have ended since the question was asked. */
async function offeredNow(tx: Tx, { scopes, requester }: Approval): Promise<readonly Scope[]> {
  if (!scopes.includes("session") || !(await sessionIsOver(tx, requester))) return scopes;
  return scopes.filter((scope) => scope !== "session");
}

interface Voted {
  readonly approval: Approval;
  readonly executeInMs: number;
}

async function vote(tx: Tx, decision: Decision, { approval, executeInMs }: Voted): Promise<Approval | undefined> {
  const { id, by } = decision;
  const isYes = decision.decision === "approve";
  const scope = isYes ? (decision.scope ?? "once") : null;
  const reason = boundedReason(decision.reason);
  const rows = await tx.sql`
    UPDATE approvals SET state = ${isYes ? "approved" : "denied"}, version = version + 1, scope = ${scope},
      execute_by = ${isYes ? tx.now + executeInMs : null}, ended_at = ${isYes ? null : tx.now}, decided_at = ${tx.now},
      decided_issuer = ${by.issuer}, decided_subject = ${by.subject}, decision_reason = ${reason ?? null}
    WHERE id = ${id} AND state = 'pending' AND decide_by > ${tx.now} AND view_digest = ${approval.viewDigest}
    RETURNING *`;
  return moved(tx, rows, {
    event: isYes ? "approval.approved" : "approval.denied",
    journal: "approval.voted",
    more: {
      decider: identity(by),
      decision: decision.decision,
      scope: scope ?? undefined,
      viewDigest: approval.viewDigest,
      reason,
    },
  });
}

/** By the first so many characters, none of them half of one, and without NUL, which no column takes everywhere. */
function boundedReason(reason: string | undefined): string | undefined {
  return reason?.slice(0, REASON_CHARACTERS_MAX).toWellFormed().replaceAll("\0", "\u{fffd}");
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
