import type { ApprovalScope } from "../../core/types.ts";
import { integer } from "../../database/rows.ts";
import { escalationPlanOf } from "../approver-policies/escalation.ts";
import {
  type Approval,
  type Approvals,
  type Asked,
  type NewApproval,
  NO_PRIOR,
  type NotAsked,
  type Prior,
  type PriorCall,
} from "../types.ts";
import { claimOnce, priorOf } from "./claims.ts";
import type { ReadTransaction, WriteTransaction } from "./database.ts";
import { toApproval } from "./rows.ts";
import { type ApprovalLimits, SECOND_MS, type Store } from "./store.ts";
import { expire, isOwn, membersText, noteApproval, type Owner, sessionOf } from "./transitions.ts";

/**
 * Withdrawn requests allowed for each request that may be pending. They count until their deadline, so that a caller cannot
 * flood approvers by requesting and withdrawing in turns.
 */
const WITHDRAWN_PER_PENDING = 10;
/** Maximum length of the view's JSON, in UTF-16 units. The gate's own limit is far lower. */
const VIEW_LENGTH_MAX = 1_048_576;
/** Maximum length of the requirement's JSON, in UTF-16 units. The configuration's own limit is lower. */
const REQUIREMENT_LENGTH_MAX = 1_048_576;
/** Maximum length of the JSON of an offered grant, in UTF-16 units: more than any manifest can declare. */
const OFFER_LENGTH_MAX = 16_777_216;

export function requests(store: Store): Pick<Approvals, "ask" | "foresee"> {
  return {
    ask: (request) => store.database.write((tx) => ask(tx, request, store)),
    foresee: (request) => store.database.read((view) => foresee(view, request, store)),
  };
}

async function foresee(view: ReadTransaction, request: NewApproval, store: Store): Promise<NotAsked | undefined> {
  const denied = await findDenied(view, request, store.limits.coolDownSeconds * SECOND_MS);
  if (denied !== undefined) return denied;
  const pending = await findPending(view, request, store.member);
  return pending?.state === "pending" ? undefined : backlogOf(view, request, store);
}

async function ask(tx: WriteTransaction, request: NewApproval, store: Store): Promise<Asked> {
  const { limits } = store;
  const prior = request.shownPriors === undefined ? NO_PRIOR : await priorOf(tx, priorCallOf(request), store);
  if (prior.usable !== undefined) return use(tx, prior, { request, store });
  const denied = await findDenied(tx, request, limits.coolDownSeconds * SECOND_MS);
  if (denied !== undefined) return denied;
  const pending = await findPending(tx, request, store.member);
  if (pending?.state === "pending") return { outcome: "asked", approval: pending, joined: true };
  // Past its deadline, but still in the unique index of pending requests.
  if (pending !== undefined) await expire(tx, pending.id);
  if (request.shownPriors !== undefined && !areShown(prior.earlier, request.shownPriors))
    return { outcome: "outdated", prior };
  const backlog = await backlogOf(tx, request, store);
  if (backlog !== undefined) return backlog;
  const approval = await insert(tx, request, store);
  const { category, classification, risk, traceId, viewDigest } = approval;
  const { requirement, decideBy } = approval;
  const asked = requirement && {
    policies: requirement.policies.map(({ name }) => name),
    requirementDigest: requirement.digest,
  };
  const more = { category, classification, risk, traceId, viewDigest, decideBy, ...asked, member: store.member };
  noteApproval(tx, approval, { event: "approval.requested", journal: "approval.asked", more });
  return { outcome: "asked", approval, joined: false };
}

interface Asking {
  readonly request: NewApproval;
  readonly store: Store;
}

/** Claims the usable approval if the request says so. Who did not say so, or comes too late, learns of it. */
async function use(tx: WriteTransaction, prior: Prior, { request, store }: Asking): Promise<Asked> {
  const { usable } = prior;
  const { requester, planDigest, requirementDigest } = priorCallOf(request);
  if (request.claims === true && usable?.state === "approved") {
    const claimed = await claimOnce(tx, { id: usable.id, requester, planDigest, requirementDigest }, store);
    if (claimed.outcome === "claimed") return claimed;
  }
  return { outcome: "outdated", prior };
}

function priorCallOf({ requester, planDigest, requirement, callDigest = "", attach }: NewApproval): PriorCall {
  return { requester, planDigest, requirementDigest: requirement?.digest, callDigest, attach };
}

type Shown = NonNullable<NewApproval["shownPriors"]>;

function areShown(earlier: Shown, shown: Shown): boolean {
  const [now, then] = [earlier, shown].map((each) => each.map(({ id, state }) => `${id} ${state}`).join());
  return now === then;
}

async function findDenied(
  { sql, now }: ReadTransaction,
  request: NewApproval,
  coolDownMs: number,
): Promise<NotAsked | undefined> {
  const { requester, planDigest, callDigest = "" } = request;
  const [row] = await sql`
    SELECT * FROM approvals
    WHERE issuer = ${requester.issuer} AND subject = ${requester.subject}
      AND (plan_digest = ${planDigest} OR call_digest = ${callDigest}) AND state = 'denied' AND decided_at > ${now - coolDownMs}
    ORDER BY decided_at DESC LIMIT 1`;
  if (row === undefined) return undefined;
  const approval = toApproval(row, now);
  const restMs = (approval.decidedAt ?? now) + coolDownMs - now;
  const retryAfterMs = Math.min(restMs, coolDownMs);
  return { outcome: "denied_before", approval, retryAfterMs, askAgainAt: now + retryAfterMs };
}

async function findPending(
  view: ReadTransaction,
  { requester, planDigest }: NewApproval,
  member: string | undefined,
): Promise<Approval | undefined> {
  const [row] = await view.sql`
    SELECT * FROM approvals
    WHERE issuer = ${requester.issuer} AND subject = ${requester.subject} AND session = ${sessionOf(requester)}
      AND plan_digest = ${planDigest} AND state = 'pending' AND ${isOwn(view, member)}`;
  return row === undefined ? undefined : toApproval(row, view.now);
}

async function backlogOf(
  { sql, now }: ReadTransaction,
  { requester }: NewApproval,
  { limits }: Store,
): Promise<NotAsked | undefined> {
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
  return withdrawnBacklog({ sql, now }, requester, limits);
}

async function withdrawnBacklog(
  { sql, now }: ReadTransaction,
  owner: Owner,
  limits: ApprovalLimits,
): Promise<NotAsked | undefined> {
  const max = limits.pendingPerCallerMax * WITHDRAWN_PER_PENDING;
  const [row = {}] = await sql`
    SELECT COUNT(*) AS withdrawn, COALESCE(MIN(decide_by), 0) AS next FROM approvals
    WHERE issuer = ${owner.issuer} AND subject = ${owner.subject} AND state = 'cancelled' AND decide_by > ${now}
      AND created_at > ${now - limits.decideBySeconds * SECOND_MS}`;
  return integer(row, "withdrawn") < max ? undefined : backlog(max, integer(row, "next") - now);
}

/** Refuses the request. `restMs` is the time after which the first of the counted requests no longer counts. */
function backlog(limit: number, restMs: number): NotAsked {
  return { outcome: "backlog", limit, retryAfterMs: Math.max(restMs, SECOND_MS) };
}

async function insert(
  { sql, now }: WriteTransaction,
  request: NewApproval,
  { limits, newId, member }: Store,
): Promise<Approval> {
  const { requester, tool, category, classification, risk, planDigest, viewDigest, summary, traceId } = request;
  const { requirement } = request;
  const view = bounded("view", request.view, VIEW_LENGTH_MAX);
  const needs = requirement === undefined ? null : bounded("requirement", requirement, REQUIREMENT_LENGTH_MAX);
  const answer = request.answer === undefined ? null : JSON.stringify(request.answer);
  const offer = request.offer === undefined ? null : bounded("grant", request.offer, OFFER_LENGTH_MAX);
  const decideBySeconds = Math.min(limits.decideBySeconds, requirement?.decideBySeconds ?? limits.decideBySeconds);
  const decideBy = now + decideBySeconds * SECOND_MS;
  const [firstStep] = escalationPlanOf({ requirement, createdAt: now, decideBy });
  const [row = {}] = await sql`
    INSERT INTO approvals (id, state, version, issuer, subject, actors, session, tool, category, classification, risk,
      rules, plan_digest, call_digest, view, view_digest, summary, scopes, grant_key, grant_offer, trace_id,
      requirement, requirement_digest, answer, created_at, decide_by, escalate_at, members)
    VALUES (${newId()}, 'pending', 1, ${requester.issuer}, ${requester.subject}, ${JSON.stringify(requester.actors)},
      ${sessionOf(requester)}, ${tool}, ${category}, ${classification}, ${risk}, ${JSON.stringify(request.rules)},
      ${planDigest}, ${request.callDigest ?? null}, ${view}, ${viewDigest}, ${summary}, ${JSON.stringify(offered(request))},
      ${request.grantKey ?? null}, ${offer}, ${traceId}, ${needs}, ${requirement?.digest ?? ""}, ${answer}, ${now},
      ${decideBy}, ${firstStep?.dueAt ?? null}, ${membersText(member)})
    RETURNING *`;
  return toApproval(row, now);
}

function bounded(name: string, value: unknown, lengthMax: number): string {
  const text = JSON.stringify(value);
  if (text.length > lengthMax)
    throw new Error(`the ${name} of an approval request has more than ${lengthMax} characters`);
  return text;
}

/**
 * Returns the scopes to offer. An approval can be remembered only at low and medium risk: for a session that is trusted and a call
 * with a grant key, or within the bounds of an offered grant. The policies restrict the scopes further.
 */
function offered({ scopes, requester, grantKey, offer, risk, requirement }: NewApproval): readonly ApprovalScope[] {
  const isLow = risk === "low" || risk === "medium";
  const isPossible: Readonly<Record<ApprovalScope, boolean>> = {
    once: true,
    session: isLow && sessionOf(requester) !== "" && grantKey !== undefined,
    bounded: isLow && offer !== undefined,
  };
  return scopes.filter((scope) => isPossible[scope] && (requirement?.scopes.includes(scope) ?? true));
}
