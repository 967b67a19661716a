import type { Approval, Approvals, Asked, Question, Scope } from "../types.ts";
import type { Tx, View } from "./database.ts";
import { integer, toApproval } from "./rows.ts";
import type { Owner } from "./session-rows.ts";
import { type ApprovalLimits, SECOND_MS, type Store } from "./store.ts";
import { expire, noteApproval, sessionOf } from "./transitions.ts";

/** Withdrawn questions count too until their time is over, so many for each that may wait: asking and withdrawing in turns is a flood. */
const WITHDRAWN_PER_PENDING = 10;
/** UTF-16 units of the view's JSON; the gate bounds what it shows far below. */
const VIEW_LENGTH_MAX = 1_048_576;
/** The same of what the policies want, which the configuration bounds below. */
const REQUIREMENT_LENGTH_MAX = 1_048_576;

export function questions(store: Store): Pick<Approvals, "ask"> {
  return { ask: (question) => store.database.write((tx) => ask(tx, question, store)) };
}

async function ask(tx: Tx, question: Question, store: Store): Promise<Asked> {
  const { limits } = store;
  const denied = await deniedBefore(tx, question, limits.coolDownSeconds * SECOND_MS);
  if (denied !== undefined) return denied;
  const twin = await pendingTwin(tx, question);
  if (twin?.state === "pending") return { outcome: "asked", approval: twin, joined: true };
  // Its time is over, but it still holds the place of the one identical question.
  if (twin !== undefined) await expire(tx, twin.id);
  const backlog = await backlogOf(tx, question, store);
  if (backlog !== undefined) return backlog;
  const approval = await insert(tx, question, store);
  const { category, classification, risk, traceId, viewDigest } = approval;
  const { requirement, decideBy } = approval;
  const asked = requirement && {
    policies: requirement.policies.map(({ name }) => name),
    requirementDigest: requirement.digest,
  };
  const more = { category, classification, risk, traceId, viewDigest, decideBy, ...asked };
  noteApproval(tx, approval, { event: "approval.requested", journal: "approval.asked", more });
  return { outcome: "asked", approval, joined: false };
}

async function deniedBefore({ sql, now }: Tx, question: Question, coolDownMs: number): Promise<Asked | undefined> {
  const { requester, planDigest, callDigest = "" } = question;
  const [row] = await sql`
    SELECT * FROM approvals
    WHERE issuer = ${requester.issuer} AND subject = ${requester.subject}
      AND (plan_digest = ${planDigest} OR call_digest = ${callDigest}) AND state = 'denied' AND decided_at > ${now - coolDownMs}
    ORDER BY decided_at DESC LIMIT 1`;
  if (row === undefined) return undefined;
  const approval = toApproval(row, now);
  const restMs = (approval.decidedAt ?? now) + coolDownMs - now;
  return { outcome: "denied_before", approval, retryAfterMs: Math.min(restMs, coolDownMs) };
}

async function pendingTwin({ sql, now }: Tx, { requester, planDigest }: Question): Promise<Approval | undefined> {
  const [row] = await sql`
    SELECT * FROM approvals
    WHERE issuer = ${requester.issuer} AND subject = ${requester.subject} AND session = ${sessionOf(requester)}
      AND plan_digest = ${planDigest} AND state = 'pending'`;
  return row === undefined ? undefined : toApproval(row, now);
}

async function backlogOf({ sql, now }: Tx, { requester }: Question, { limits }: Store): Promise<Asked | undefined> {
  const session = sessionOf(requester);
  const [row = {}] = await sql`
    SELECT COUNT(*) AS of_caller, COALESCE(MIN(decide_by), 0) AS caller_next,
      COUNT(CASE WHEN session = ${session} THEN 1 END) AS of_session,
      COALESCE(MIN(CASE WHEN session = ${session} THEN decide_by END), 0) AS session_next
    FROM approvals
    WHERE issuer = ${requester.issuer} AND subject = ${requester.subject} AND state = 'pending' AND decide_by > ${now}`;
  if (integer(row, "of_caller") >= limits.pendingPerCallerMax) {
    return backlog(limits.pendingPerCallerMax, integer(row, "caller_next") - now);
  }
  if (session !== "" && integer(row, "of_session") >= limits.pendingPerSessionMax) {
    return backlog(limits.pendingPerSessionMax, integer(row, "session_next") - now);
  }
  return withdrawnTooOften({ sql, now }, requester, limits);
}

async function withdrawnTooOften({ sql, now }: View, owner: Owner, limits: ApprovalLimits): Promise<Asked | undefined> {
  const max = limits.pendingPerCallerMax * WITHDRAWN_PER_PENDING;
  const [row = {}] = await sql`
    SELECT COUNT(*) AS withdrawn, COALESCE(MIN(decide_by), 0) AS next FROM approvals
    WHERE issuer = ${owner.issuer} AND subject = ${owner.subject} AND state = 'cancelled' AND decide_by > ${now}
      AND created_at > ${now - limits.decideBySeconds * SECOND_MS}`;
  return integer(row, "withdrawn") < max ? undefined : backlog(max, integer(row, "next") - now);
}

/** The oldest question is decided or expires by then. */
function backlog(limit: number, restMs: number): Asked {
  return { outcome: "backlog", limit, retryAfterMs: Math.max(restMs, SECOND_MS) };
}

async function insert({ sql, now }: Tx, question: Question, { limits, newId }: Store): Promise<Approval> {
  const { requester, tool, category, classification, risk, planDigest, viewDigest, summary, traceId } = question;
  const { requirement } = question;
  const view = bounded("view", question.view, VIEW_LENGTH_MAX);
  const needs = requirement === undefined ? null : bounded("requirement", requirement, REQUIREMENT_LENGTH_MAX);
  const answer = question.answer === undefined ? null : JSON.stringify(question.answer);
  const decideBySeconds = Math.min(limits.decideBySeconds, requirement?.decideBySeconds ?? limits.decideBySeconds);
  const [row = {}] = await sql`
    INSERT INTO approvals (id, state, version, issuer, subject, actors, session, tool, category, classification, risk,
      rules, plan_digest, call_digest, view, view_digest, summary, scopes, grant_key, trace_id, requirement,
      requirement_digest, answer, created_at, decide_by)
    VALUES (${newId()}, 'pending', 1, ${requester.issuer}, ${requester.subject}, ${JSON.stringify(requester.actors)},
      ${sessionOf(requester)}, ${tool}, ${category}, ${classification}, ${risk}, ${JSON.stringify(question.rules)},
      ${planDigest}, ${question.callDigest ?? null}, ${view}, ${viewDigest}, ${summary}, ${JSON.stringify(offered(question))},
      ${question.grantKey ?? null}, ${traceId}, ${needs}, ${requirement?.digest ?? ""}, ${answer}, ${now},
      ${now + decideBySeconds * SECOND_MS})
    RETURNING *`;
  return toApproval(row, now);
}

function bounded(name: string, value: unknown, lengthMax: number): string {
  const text = JSON.stringify(value);
  if (text.length > lengthMax) throw new Error(`the ${name} of a question has more than ${lengthMax} characters`);
  return text;
}

/**
 * A yes can be remembered only for a session that is known and a call that can be named again, and never when it is risky. The
 * policies narrow what is left.
 */
function offered({ scopes, requester, grantKey, risk, requirement }: Question): readonly Scope[] {
  const rememberable = sessionOf(requester) !== "" && grantKey !== undefined && risk !== "high" && risk !== "critical";
  return scopes.filter(
    (scope) => (scope === "once" || rememberable) && (requirement === undefined || requirement.scopes.includes(scope)),
  );
}
