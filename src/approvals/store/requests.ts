import type { ApprovalScope } from "../../core/types.ts";
import { integer, optionalText, text } from "../../database/rows.ts";
import { answerProblem, isReadable } from "../answer.ts";
import { escalationPlanOf } from "../approver-policies/escalation.ts";
import { objectionToDenial, voteResultOf } from "../approver-policies/quorum.ts";
import { chosenTerms } from "../grants.ts";
import { type Approver, isAmongRequesters, type Requester } from "../identities.ts";
import { recordMessage } from "../notify/inbox.ts";
import type {
  Approval,
  ApprovalEvent,
  ApprovalFilter,
  ApprovalPage,
  Approvals,
  Asked,
  Attachable,
  Claim,
  Claimed,
  Decided,
  Decision,
  EarlierDecision,
  NewApproval,
  NotAsked,
  Prior,
  PriorCall,
  Relay,
  SettledAs,
} from "../types.ts";
import type { ReadTransaction, WriteTransaction } from "./database.ts";
import { escalateAll } from "./escalations.ts";
import { toApproval, toEvent } from "./rows.ts";
import { countRun, createGrant, hasRunsLeft, revokeGrantsFrom, stateOfGrant } from "./sessions.ts";
import { type ApprovalLimits, SECOND_MS, type Store } from "./store.ts";
import {
  currentApproval,
  expire,
  identity,
  noteApproval,
  noteTransition,
  type Owner,
  sessionIsOver,
  sessionOf,
} from "./transitions.ts";
import { boundedReason, lackingIn, vote, voterOf } from "./votes.ts";

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
  const pending = await findPending(view, request);
  return pending?.state === "pending" ? undefined : backlogOf(view, request, store);
}

async function ask(tx: WriteTransaction, request: NewApproval, store: Store): Promise<Asked> {
  const { limits } = store;
  const { earlier, usable } = request.shownPriors === undefined ? NO_PRIOR : await priorOf(tx, priorCallOf(request));
  if (usable !== undefined) return { outcome: "outdated" };
  const denied = await findDenied(tx, request, limits.coolDownSeconds * SECOND_MS);
  if (denied !== undefined) return denied;
  const pending = await findPending(tx, request);
  if (pending?.state === "pending") return { outcome: "asked", approval: pending, joined: true };
  // Past its deadline, but still in the unique index of pending requests.
  if (pending !== undefined) await expire(tx, pending.id);
  if (request.shownPriors !== undefined && !areShown(earlier, request.shownPriors)) return { outcome: "outdated" };
  const backlog = await backlogOf(tx, request, store);
  if (backlog !== undefined) return backlog;
  const approval = await insert(tx, request, store);
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

function priorCallOf({ requester, planDigest, requirement, callDigest = "", attach }: NewApproval): PriorCall {
  return { requester, planDigest, requirementDigest: requirement?.digest, callDigest, attach };
}

function areShown(earlier: readonly Approval[], shown: readonly Approval[]): boolean {
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
  { sql, now }: ReadTransaction,
  { requester, planDigest }: NewApproval,
): Promise<Approval | undefined> {
  const [row] = await sql`
    SELECT * FROM approvals
    WHERE issuer = ${requester.issuer} AND subject = ${requester.subject} AND session = ${sessionOf(requester)}
      AND plan_digest = ${planDigest} AND state = 'pending'`;
  return row === undefined ? undefined : toApproval(row, now);
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
  { limits, newId }: Store,
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
      requirement, requirement_digest, answer, created_at, decide_by, escalate_at)
    VALUES (${newId()}, 'pending', 1, ${requester.issuer}, ${requester.subject}, ${JSON.stringify(requester.actors)},
      ${sessionOf(requester)}, ${tool}, ${category}, ${classification}, ${risk}, ${JSON.stringify(request.rules)},
      ${planDigest}, ${request.callDigest ?? null}, ${view}, ${viewDigest}, ${summary}, ${JSON.stringify(offered(request))},
      ${request.grantKey ?? null}, ${offer}, ${traceId}, ${needs}, ${requirement?.digest ?? ""}, ${answer}, ${now},
      ${decideBy}, ${firstStep?.dueAt ?? null})
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

export function claims({ database, limits }: Store): Pick<Approvals, "claim" | "priorOf" | "settle"> {
  return {
    priorOf: (call) => database.read((view) => priorOf(view, call)),
    claim: (claim) => database.write((tx) => claimOnce(tx, claim, limits.claimLeaseSeconds * SECOND_MS)),
    settle: (id, outcome) => database.write((tx) => (outcome === "unused" ? unclaim(tx, id) : settle(tx, id, outcome))),
  };
}

/** Time after a run within which approvers of the same call are shown that it has already run. */
const RAN_RECENTLY_MS = 600_000;

const NO_PRIOR: Prior = { usable: undefined, earlier: [] };
const EARLIER_MAX = 5;

async function priorOf(view: ReadTransaction, call: PriorCall): Promise<Prior> {
  const usable = call.attach === undefined ? undefined : await findUsable(view, call, call.attach);
  return { usable, earlier: await findEarlier(view, call) };
}

/**
 * Finds the approval that this call may use, a claimed one first. An approval before a later denial is used only by a call that
 * names it, and so is one for the session: its grant covers this call, unless the grant was revoked.
 */
async function findUsable(
  { sql, now }: ReadTransaction,
  { requester, planDigest, requirementDigest = "" }: PriorCall,
  attach: Attachable,
): Promise<Approval | undefined> {
  const [row] = await sql`
    SELECT * FROM approvals
    WHERE issuer = ${requester.issuer} AND subject = ${requester.subject} AND session = ${sessionOf(requester)}
      AND actors = ${JSON.stringify(requester.actors)} AND plan_digest = ${planDigest}
      AND ${attach === "any" ? sql`1 = 1` : sql`id = ${attach.id}`}
      AND ((state = 'approved' AND scope = 'once' AND execute_by > ${now} AND requirement_digest = ${requirementDigest} AND NOT EXISTS (
          SELECT 1 FROM approvals AS later
          WHERE later.issuer = approvals.issuer AND later.subject = approvals.subject
            AND later.plan_digest = approvals.plan_digest AND later.state = 'denied'
            AND later.decided_at >= approvals.decided_at))
        OR state = 'claimed')
    ORDER BY CASE state WHEN 'claimed' THEN 0 ELSE 1 END, decided_at DESC LIMIT 1`;
  return row === undefined ? undefined : toApproval(row, now);
}

/**
 * Ignores the session, which an agent may choose: no choice hides an earlier run from the approver, and no later approval hides a
 * run whose outcome is unknown.
 */
async function findEarlier(
  { sql, now }: ReadTransaction,
  { requester, planDigest, callDigest }: PriorCall,
): Promise<readonly Approval[]> {
  const rows = await sql`
    SELECT * FROM approvals
    WHERE issuer = ${requester.issuer} AND subject = ${requester.subject}
      AND (plan_digest = ${planDigest} OR call_digest = ${callDigest})
      AND ((state = 'approved' AND execute_by > ${now}) OR state IN ('claimed', 'in_doubt')
        OR (state IN ('executed', 'failed') AND ended_at > ${now - RAN_RECENTLY_MS}))
    ORDER BY CASE state WHEN 'in_doubt' THEN 0 ELSE 1 END, decided_at DESC, id DESC LIMIT ${EARLIER_MAX}`;
  return rows.map((row) => toApproval(row, now));
}

/** Claims the approval in one conditional statement. The queries after a miss only find the reason. */
async function claimOnce(tx: WriteTransaction, claim: Claim, leaseMs: number): Promise<Claimed> {
  const { id, requester, planDigest, requirementDigest = "" } = claim;
  const rows = await tx.sql`
    UPDATE approvals SET state = 'claimed', version = version + 1, lease_until = ${tx.now + leaseMs}
    WHERE id = ${id} AND state = 'approved' AND execute_by > ${tx.now} AND plan_digest = ${planDigest}
      AND requirement_digest = ${requirementDigest} AND issuer = ${requester.issuer} AND subject = ${requester.subject} AND session = ${sessionOf(requester)}
      AND (COALESCE(scope, 'once') <> 'bounded' OR EXISTS (SELECT 1 FROM approval_grants AS held WHERE approval_id = approvals.id AND ${hasRunsLeft(tx)}))
    RETURNING *`;
  const approval = noteTransition(tx, rows, { event: "approval.claimed", journal: "approval.claimed" });
  if (approval === undefined) return claimFailure(tx, claim);
  // The approved call is one of the runs of its grant.
  if (approval.scope === "bounded") await countRun(tx, tx.sql`approval_id = ${id}`, approval.traceId);
  // An older release that runs at the same time does not know votes and accepts a single approval.
  if (lackingIn(approval).length > 0)
    throw new Error(`approval ${id} was approved by fewer people than its policies require`);
  return { outcome: "claimed", approval };
}

async function claimFailure(tx: WriteTransaction, claim: Claim): Promise<Claimed> {
  const { id, requester } = claim;
  const [row] = await tx.sql`
    SELECT * FROM approvals WHERE id = ${id} AND issuer = ${requester.issuer} AND subject = ${requester.subject}`;
  if (row === undefined) return { outcome: "not_found" };
  const found = (await currentApproval(tx, id)) ?? toApproval(row, tx.now);
  if (!isOfThisCall(found, claim)) return { outcome: "mismatch", approval: found };
  const isGrantOver = found.state === "approved" && found.scope === "bounded";
  const state = isGrantOver ? await stateOfGrant(tx, id) : found.state;
  return { outcome: "not_approved", approval: { ...found, state } };
}

/** Compares the requirement too: approvers whom the current policies do not accept have approved something else. */
function isOfThisCall(approval: Approval, { requester, planDigest, requirementDigest = "" }: Claim): boolean {
  return (
    approval.planDigest === planDigest &&
    (approval.requirement?.digest ?? "") === requirementDigest &&
    sessionOf(approval.requester) === sessionOf(requester)
  );
}

/** Ignores the lease: until the sweep marks the approval as in doubt, the process that ran the call knows the outcome. */
async function settle(tx: WriteTransaction, id: string, outcome: Exclude<SettledAs, "unused">): Promise<void> {
  const rows = await tx.sql`
    UPDATE approvals SET state = ${outcome}, version = version + 1, ended_at = ${tx.now}
    WHERE id = ${id} AND state = 'claimed'
    RETURNING *`;
  noteTransition(tx, rows, { event: `approval.${outcome}`, journal: "approval.settled", more: { outcome } });
}

/** The event tells listeners that the approval can be used, as when it was given. */
async function unclaim(tx: WriteTransaction, id: string): Promise<void> {
  const rows = await tx.sql`
    UPDATE approvals SET state = 'approved', version = version + 1, lease_until = NULL
    WHERE id = ${id} AND state = 'claimed'
    RETURNING *`;
  noteTransition(tx, rows, { event: "approval.approved", journal: "approval.settled", more: { outcome: "unused" } });
}

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
  return offered.includes(scope) ? objectionToGrant(decision, approval) : { outcome: "scope_not_offered", offered };
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

const PAGE_MAX = 200;
/** Creation time and id of the last approval on a page: the sort key. */
const CURSOR = /^([0-9]{1,16})\.([A-Za-z0-9_-]{1,64})$/;

export function listing({ database }: Store): Pick<Approvals, "get" | "ageOf" | "list" | "earlierDecisions"> {
  return {
    get: (id) => database.read((view) => get(view, id)),
    ageOf: (id) =>
      database.read(async (view) => {
        const approval = await get(view, id);
        return approval && view.now - approval.createdAt;
      }),
    list: (filter) => database.read((view) => list(view, filter)),
    earlierDecisions: (of) => database.read((view) => earlierDecisions(view, of)),
  };
}

/** Selects the columns of a decision alone: views may be large. */
async function earlierDecisions(
  { sql }: ReadTransaction,
  { id, tool }: Pick<Approval, "id" | "tool">,
): Promise<readonly EarlierDecision[]> {
  const rows = await sql`
    SELECT id, state, decided_at, decided_issuer, decided_subject, decision_reason FROM approvals
    WHERE tool = ${tool} AND decided_at IS NOT NULL AND decided_issuer IS NOT NULL AND id <> ${id}
    ORDER BY decided_at DESC, id DESC LIMIT ${EARLIER_MAX}`;
  return rows.map((row) => ({
    id: text(row, "id"),
    decision: text(row, "state") === "denied" ? "deny" : "approve",
    at: integer(row, "decided_at"),
    by: { issuer: text(row, "decided_issuer"), subject: text(row, "decided_subject") },
    reason: optionalText(row, "decision_reason"),
  }));
}

export async function get({ sql, now }: ReadTransaction, id: string): Promise<Approval | undefined> {
  const [row] = await sql`SELECT * FROM approvals WHERE id = ${id}`;
  return row === undefined ? undefined : toApproval(row, now);
}

async function list({ sql, now }: ReadTransaction, filter: ApprovalFilter): Promise<ApprovalPage> {
  const from = positionOf(filter.cursor);
  if (from === undefined) return { approvals: [], cursor: undefined };
  const limit = Math.min(Math.max(Math.floor(filter.limit) || 1, 1), PAGE_MAX);
  const { requester } = filter;
  const whose =
    requester === undefined ? sql`1 = 1` : sql`issuer = ${requester.issuer} AND subject = ${requester.subject}`;
  const rows = await sql`
    SELECT * FROM approvals
    WHERE ${whose} AND ${isInState({ sql, now }, filter.state)}
      AND (created_at < ${from.createdAt} OR (created_at = ${from.createdAt} AND id < ${from.id}))
    ORDER BY created_at DESC, id DESC LIMIT ${limit + 1}`;
  const approvals = rows.slice(0, limit).map((row) => toApproval(row, now));
  const last = approvals.at(-1);
  const hasMore = rows.length > limit && last !== undefined;
  return { approvals, cursor: hasMore ? `${last.createdAt}.${last.id}` : undefined };
}

/** Filters by state as `toApproval` reports it: past its deadline means expired. */
function isInState({ sql, now }: ReadTransaction, state: ApprovalFilter["state"]): unknown {
  if (state === undefined) return sql`1 = 1`;
  if (state === "pending") return sql`state = 'pending' AND decide_by > ${now}`;
  if (state === "approved") return sql`state = 'approved' AND execute_by > ${now}`;
  if (state !== "expired") return sql`state = ${state}`;
  return sql`(state = 'expired' OR (state = 'pending' AND decide_by <= ${now}) OR (state = 'approved' AND execute_by <= ${now}))`;
}

/** Returns where the page starts: at the newest approval without a cursor; undefined (an empty page) for an invalid cursor. */
function positionOf(cursor: string | undefined): { readonly createdAt: number; readonly id: string } | undefined {
  if (cursor === undefined) return { createdAt: Number.MAX_SAFE_INTEGER, id: "" };
  const [, createdAt, id] = CURSOR.exec(cursor) ?? [];
  return createdAt === undefined || id === undefined ? undefined : { createdAt: Number(createdAt), id };
}

const EVENTS_READ_MAX = 1_000;

export function events({ database, notifier }: Store): Pick<Approvals, "eventsAfter" | "onEvents" | "lastSeq"> {
  return {
    eventsAfter: (seq, limit) => database.read((view) => eventsAfter(view, seq, limit)),
    onEvents: (listener) => notifier.listen(listener),
    lastSeq: () => database.read(lastSeq),
  };
}

export async function eventsAfter(
  { sql }: ReadTransaction,
  seq: number,
  limit: number,
): Promise<readonly ApprovalEvent[]> {
  const count = Math.min(Math.max(Math.floor(limit) || 1, 1), EVENTS_READ_MAX);
  const rows = await sql`SELECT * FROM approval_events WHERE seq > ${Math.floor(seq) || 0} ORDER BY seq LIMIT ${count}`;
  return rows.map(toEvent);
}

/** Reads the counter, not the events table: old events are deleted. */
export async function lastSeq({ sql }: ReadTransaction): Promise<number> {
  const [row = {}] = await sql`SELECT value FROM approval_counters WHERE name = 'events'`;
  return integer(row, "value");
}
