import type { Approval, Approvals, Claim, Claimed } from "../types.ts";
import type { Tx } from "./database.ts";
import { toApproval } from "./rows.ts";
import { SECOND_MS, type Store } from "./store.ts";
import { moved, sessionOf, settledView } from "./transitions.ts";
import { lackingIn } from "./votes.ts";

export function claims({ database, limits }: Store): Pick<Approvals, "claim" | "settle"> {
  return {
    claim: (claim) => database.write((tx) => take(tx, claim, limits.claimLeaseSeconds * SECOND_MS)),
    settle: (id, outcome) => database.write((tx) => settle(tx, id, outcome)),
  };
}

/** One statement decides; what follows a miss only says why. */
async function take(tx: Tx, claim: Claim, leaseMs: number): Promise<Claimed> {
  const { id, requester, planDigest, requirementDigest = "" } = claim;
  const rows = await tx.sql`
    UPDATE approvals SET state = 'claimed', version = version + 1, lease_until = ${tx.now + leaseMs}
    WHERE id = ${id} AND state = 'approved' AND execute_by > ${tx.now} AND plan_digest = ${planDigest}
      AND requirement_digest = ${requirementDigest} AND issuer = ${requester.issuer} AND subject = ${requester.subject} AND session = ${sessionOf(requester)}
    RETURNING *`;
  const approval = moved(tx, rows, { event: "approval.claimed", journal: "approval.claimed" });
  if (approval === undefined) return missed(tx, claim);
  // An older release that still runs beside this one knows of no votes, and takes any one yes for enough.
  if (lackingIn(approval).length > 0) throw new Error(`approval ${id} was approved by fewer than its policies want`);
  return { outcome: "claimed", approval };
}

async function missed(tx: Tx, claim: Claim): Promise<Claimed> {
  const { id, requester } = claim;
  const [row] = await tx.sql`
    SELECT * FROM approvals WHERE id = ${id} AND issuer = ${requester.issuer} AND subject = ${requester.subject}`;
  if (row === undefined) return { outcome: "not_found" };
  const found = (await settledView(tx, id)) ?? toApproval(row, tx.now);
  return isOfThisCall(found, claim)
    ? { outcome: "not_approved", approval: found }
    : { outcome: "mismatch", approval: found };
}

/** The policies count, too: a yes by others than they want today is another yes. */
function isOfThisCall(approval: Approval, { requester, planDigest, requirementDigest = "" }: Claim): boolean {
  return (
    approval.planDigest === planDigest &&
    (approval.requirement?.digest ?? "") === requirementDigest &&
    sessionOf(approval.requester) === sessionOf(requester)
  );
}

/** Without a look at the lease: while the sweeper has not called it in doubt, the one who ran it knows better. */
async function settle(tx: Tx, id: string, outcome: "executed" | "failed" | "in_doubt"): Promise<void> {
  const rows = await tx.sql`
    UPDATE approvals SET state = ${outcome}, version = version + 1, ended_at = ${tx.now}
    WHERE id = ${id} AND state = 'claimed'
    RETURNING *`;
  moved(tx, rows, { event: `approval.${outcome}`, journal: "approval.settled", more: { outcome } });
}
