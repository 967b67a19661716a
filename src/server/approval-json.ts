import { isAmongAskers } from "../approvals/askers.ts";
import type { ReceiptedApprovals } from "../approvals/receipts/receipts.ts";
import type { Approval, Decider, Grant, Session } from "../approvals/types.ts";
import type { Caller, Json } from "../core/types.ts";

type Identity = Pick<Caller, "issuer" | "subject">;

/** Issuer and subject: who somebody is, and nothing else of the token. */
export function identityOf({ issuer, subject }: Caller): Identity {
  return { issuer, subject };
}

export function isSame(a: Identity, b: Identity): boolean {
  return a.issuer === b.issuer && a.subject === b.subject;
}

/** Whether somebody of those who ask stands among those who would decide: a token that was handed on to the asker decides nothing. */
export function isOwnQuestion({ requester }: Approval, { subject, actors }: Caller): boolean {
  return isAmongAskers(requester, [subject, ...actors]);
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

/** What a list shows operators: everything but the view, which is shown one at a time and leaves a line. */
export function forList(approval: Approval, operator: Caller): Record<string, Json> {
  const { version, risk, rules, requester, classification, category, planDigest, viewDigest, traceId } = approval;
  const { decidedAt, decidedBy } = approval;
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
    decidable: approval.state === "pending" && !isOwnQuestion(approval, operator),
  };
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
  return { ...forList(approval, operator), view: approval.view };
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
