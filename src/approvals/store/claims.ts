import type {
  Approval,
  Approvals,
  Attachable,
  Claim,
  Claimed,
  Prior,
  PriorApproval,
  PriorCall,
  SettledAs,
} from "../types.ts";
import type { ReadTransaction, WriteTransaction } from "./database.ts";
import { toApproval } from "./rows.ts";
import { countRun, hasRunsLeft, stateOfGrant } from "./sessions.ts";
import { SECOND_MS, type Store } from "./store.ts";
import { currentApproval, isOwn, noteTransition, sessionOf } from "./transitions.ts";
import { lackingIn } from "./votes.ts";

export function claims(store: Store): Pick<Approvals, "claim" | "priorOf" | "settle"> {
  const { database } = store;
  return {
    priorOf: (call) => database.read((view) => priorOf(view, call, store)),
    claim: (claim) => database.write((tx) => claimOnce(tx, claim, store)),
    settle: (id, outcome) => database.write((tx) => (outcome === "unused" ? unclaim(tx, id) : settle(tx, id, outcome))),
  };
}

/** Time after a run within which approvers of the same call are shown that it has already run. */
const RAN_RECENTLY_MS = 600_000;

const EARLIER_MAX = 5;

export async function priorOf(
  view: ReadTransaction,
  call: PriorCall,
  { member }: Pick<Store, "member">,
): Promise<Prior> {
  const usable = call.attach === undefined ? undefined : await findUsable(view, call, { attach: call.attach, member });
  const earlier = await findEarlier(view, call);
  return { usable: usable && brief(usable), earlier: earlier.map(brief) };
}

function brief({ id, state, scope, decidedAt }: Approval): PriorApproval {
  return { id, state, scope, decidedAt };
}

/**
 * Finds the approval that this call may use, a claimed one first. An approval before a later denial is used only by a call that
 * names it, and so is one for the session: its grant covers this call, unless the grant was revoked.
 */
async function findUsable(
  view: ReadTransaction,
  { requester, planDigest, requirementDigest = "" }: PriorCall,
  { attach, member }: { readonly attach: Attachable; readonly member: string | undefined },
): Promise<Approval | undefined> {
  const { sql, now } = view;
  const [row] = await sql`
    SELECT * FROM approvals
    WHERE issuer = ${requester.issuer} AND subject = ${requester.subject} AND session = ${sessionOf(requester)}
      AND actors = ${JSON.stringify(requester.actors)} AND plan_digest = ${planDigest}
      AND ${attach === "any" ? sql`1 = 1` : sql`id = ${attach.id}`} AND ${isOwn(view, member)}
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
export async function claimOnce(
  tx: WriteTransaction,
  claim: Claim,
  { limits, claimant, member }: Pick<Store, "limits" | "claimant" | "member">,
): Promise<Claimed> {
  const leaseMs = limits.claimLeaseSeconds * SECOND_MS;
  const { id, requester, planDigest, requirementDigest = "" } = claim;
  const rows = await tx.sql`
    UPDATE approvals SET state = 'claimed', version = version + 1, lease_until = ${tx.now + leaseMs},
      claimed_by = ${claimant() ?? null}
    WHERE id = ${id} AND state = 'approved' AND execute_by > ${tx.now} AND plan_digest = ${planDigest}
      AND requirement_digest = ${requirementDigest} AND issuer = ${requester.issuer} AND subject = ${requester.subject} AND session = ${sessionOf(requester)} AND ${isOwn(tx, member)}
      AND (COALESCE(scope, 'once') <> 'bounded' OR EXISTS (SELECT 1 FROM approval_grants AS held WHERE approval_id = approvals.id AND ${hasRunsLeft(tx)}))
    RETURNING *`;
  const approval = noteTransition(tx, rows, {
    ...({ event: "approval.claimed", journal: "approval.claimed" } as const),
    more: { member },
  });
  if (approval === undefined) return claimFailure(tx, claim, member);
  // The approved call is one of the runs of its grant.
  if (approval.scope === "bounded") await countRun(tx, tx.sql`approval_id = ${id}`, approval.traceId);
  // An older release that runs at the same time does not know votes and accepts a single approval.
  if (lackingIn(approval).length > 0)
    throw new Error(`approval ${id} was approved by fewer people than its policies require`);
  return { outcome: "claimed", approval };
}

async function claimFailure(tx: WriteTransaction, claim: Claim, member: string | undefined): Promise<Claimed> {
  const { id, requester } = claim;
  const [row] = await tx.sql`
    SELECT * FROM approvals
    WHERE id = ${id} AND issuer = ${requester.issuer} AND subject = ${requester.subject} AND ${isOwn(tx, member)}`;
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
    UPDATE approvals SET state = 'approved', version = version + 1, lease_until = NULL, claimed_by = NULL
    WHERE id = ${id} AND state = 'claimed'
    RETURNING *`;
  noteTransition(tx, rows, { event: "approval.approved", journal: "approval.settled", more: { outcome: "unused" } });
}
