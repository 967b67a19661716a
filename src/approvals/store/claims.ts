import type { Approval, Approvals, Claim, Claimed } from "../types.ts";
import type { Tx } from "./database.ts";
import { toApproval } from "./rows.ts";
import { SECOND_MS, type Store } from "./store.ts";
import { moved, sessionOf, settledView } from "./transitions.ts";

export function claims({ database, limits }: Store): Pick<Approvals, "claim" | "settle"> {
  return {
    claim: (claim) => database.write((tx) => take(tx, claim, limits.claimLeaseSeconds * SECOND_MS)),
    settle: (id, outcome) => database.write((tx) => settle(tx, id, outcome)),
  };
}

/** One statement decides; what follows a miss only says why. */
async function take(tx: Tx, claim: Claim, leaseMs: number): Promise<Claimed> {
  const { id, requester, planDigest } = claim;
  const rows = await tx.sql`
    UPDATE approvals SET state = 'claimed', version = version + 1, lease_until = ${tx.now + leaseMs}
    WHERE id = ${id} AND state = 'approved' AND execute_by > ${tx.now} AND plan_digest = ${planDigest}
      AND issuer = ${requester.issuer} AND subject = ${requester.subject} AND session = ${sessionOf(requester)}
    RETURNING *`;
  const approval = moved(tx, rows, { event: "approval.claimed", journal: "approval.claimed" });
  return approval === undefined ? await missed(tx, claim) : { outcome: "claimed", approval };
}

async function missed(tx: Tx, { id, requester, planDigest }: Claim): Promise<Claimed> {
  const [row] = await tx.sql`
    SELECT * FROM approvals WHERE id = ${id} AND issuer = ${requester.issuer} AND subject = ${requester.subject}`;
  if (row === undefined) return { outcome: "not_found" };
  const found = (await settledView(tx, id)) ?? toApproval(row, tx.now);
  return isOfThisCall(found, requester, planDigest)
    ? { outcome: "not_approved", approval: found }
    : { outcome: "mismatch", approval: found };
}

function isOfThisCall(approval: Approval, requester: Claim["requester"], planDigest: string): boolean {
  return approval.planDigest === planDigest && sessionOf(approval.requester) === sessionOf(requester);
}

/** Without a look at the lease: while the sweeper has not called it in doubt, the one who ran it knows better. */
async function settle(tx: Tx, id: string, outcome: "executed" | "failed" | "in_doubt"): Promise<void> {
  const rows = await tx.sql`
    UPDATE approvals SET state = ${outcome}, version = version + 1, ended_at = ${tx.now}
    WHERE id = ${id} AND state = 'claimed'
    RETURNING *`;
  moved(tx, rows, { event: `approval.${outcome}`, journal: "approval.settled", more: { outcome } });
}
