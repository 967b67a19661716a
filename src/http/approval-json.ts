import type { ReceiptedApprovals } from "../approvals/receipts/receipts.ts";
import type { Approval, Decider, Grant, Session } from "../approvals/types.ts";
import type { Caller, Json } from "../core/types.ts";
import { quorumOf, rightsOf } from "./approval-quorum.ts";

type Identity = Pick<Caller, "issuer" | "subject">;

/** Issuer and subject: who somebody is, and nothing else of the token. */
export function identityOf({ issuer, subject }: Caller): Identity {
  return { issuer, subject };
}

export function isSame(a: Identity, b: Identity): boolean {
  return a.issuer === b.issuer && a.subject === b.subject;
}

/** What the caller who asked is told: how it stands, and nothing about who decides. */
export function forRequester(approval: Approval): Json {
  const { id, state, tool, summary, decideBy, executeBy, scope, decisionReason, scopes, createdAt } = approval;
  return {
    id,
    state,
    tool,
    summary,
    createdAt: iso(createdAt),
    decideBy: iso(decideBy),
    ...(executeBy !== undefined && { executeBy: iso(executeBy) }),
    ...(scope !== undefined && { scope }),
    ...(decisionReason !== undefined && { decisionReason }),
    options: ["cancel", ...scopes],
  };
}

/** What tells a requester's copies apart: the votes on the way, which requesters are not told of, do not count in it. */
export function versionForRequester({ version, votes, decidedBy, state }: Approval): number {
  const hasLastVote = votes.length > 0 && decidedBy !== undefined && state !== "denied";
  return version - votes.length + (hasLastVote ? 1 : 0);
}

/** What a list shows operators: everything but the view, which is shown one at a time and leaves a line. */
export function forList(approval: Approval, operator: Caller): Record<string, Json> {
  const { version, risk, rules, requester, classification, category, planDigest, viewDigest, traceId } = approval;
  const { decidedAt, decidedBy } = approval;
  const quorum = quorumOf(approval, { isWhole: false });
  const { approve, deny, because } = rightsOf(approval, operator);
  return {
    ...(forRequester(approval) as Record<string, Json>),
    version,
    risk,
    rules,
    classification,
    category,
    planDigest,
    viewDigest,
    traceId,
    requester: {
      sub: requester.subject,
      iss: requester.issuer,
      act: requester.actors,
      ...(requester.session !== undefined && { session: requester.session }),
    },
    ...(decidedAt !== undefined && { decidedAt: iso(decidedAt) }),
    ...(decidedBy !== undefined && { decidedBy: person(decidedBy) }),
    ...(quorum !== undefined && { quorum }),
    ...(approval.answer !== undefined && { answer: answerShown(approval.answer) }),
    decidable: approve,
    canDecide: { approve, deny, ...(because !== undefined && { because }) },
  };
}

function answerShown({ choices, text }: NonNullable<Approval["answer"]>): Json {
  return { ...(choices !== undefined && { choices }), ...(text !== undefined && { text }) };
}

/** What was decided, for whoever may carry it on: beside the approval, where the service signs receipts. */
export async function withReceipt(
  shown: Json,
  approval: Approval,
  { receiptOf }: Pick<ReceiptedApprovals, "receiptOf">,
): Promise<Json> {
  const receipt = await receiptOf?.(approval);
  return { approval: shown, ...(receipt !== undefined && { receipt }) };
}

/** What a decider reads before deciding. */
export function forDecider(approval: Approval, operator: Caller): Json {
  const quorum = quorumOf(approval, { isWhole: true });
  return { ...forList(approval, operator), ...(quorum !== undefined && { quorum }), view: approval.view };
}

/** A remembered yes. Whose it is stands in it; who gave it is for operators. */
export function grantForOwner(grant: Grant): Json {
  const { id, issuer, subject, session, tool, summary, approvalId, createdAt, expiresAt } = grant;
  const times = { createdAt: iso(createdAt), expiresAt: iso(expiresAt) };
  return { id, issuer, subject, session, tool, summary, approvalId, ...times };
}

export function grantForOperator(grant: Grant): Json {
  return { ...(grantForOwner(grant) as object), grantedBy: person(grant.grantedBy) };
}

export function sessionForOwner({ id, expiresAt, mode }: Session): Json {
  return { id, expiresAt: iso(expiresAt), mode };
}

export function sessionForOperator(session: Session): Json {
  const { subject, issuer, modeUntil, modeSetBy, createdAt } = session;
  return {
    ...(sessionForOwner(session) as object),
    issuer,
    subject,
    createdAt: iso(createdAt),
    ...(modeUntil !== undefined && { modeUntil: iso(modeUntil) }),
    ...(modeSetBy !== undefined && { modeSetBy: person(modeSetBy) }),
  };
}

function person({ subject, issuer }: Decider): Json {
  return { sub: subject, iss: issuer };
}

/** ISO 8601, UTC. */
export function iso(ms: number): string {
  return new Date(ms).toISOString();
}
