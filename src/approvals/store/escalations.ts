import type { Json } from "../../core/types.ts";
import type { Row } from "../../database/dialect.ts";
import { escalationPlanOf } from "../approver-policies/escalation.ts";
import type { Approval } from "../types.ts";
import type { WriteTransaction } from "./database.ts";
import { toApproval } from "./rows.ts";
import { SECOND_MS } from "./store.ts";
import { noteTransition } from "./transitions.ts";

/**
 * Takes the next escalation step of a pending request if it is due, in one conditional statement. Returns undefined when no step
 * is due, or the request has ended.
 */
export async function escalate(tx: WriteTransaction, approval: Approval): Promise<Approval | undefined> {
  const { id, version, escalations: taken } = approval;
  const plan = escalationPlanOf(approval);
  const due = plan[taken.length];
  if (due === undefined) return undefined;
  const { policy, step, policyName, stageName, afterSeconds, adds, webhooks } = due;
  const rows = await tx.sql`
    UPDATE approvals SET escalations = ${JSON.stringify([...taken, { policy, step, at: tx.now }])},
      escalate_at = ${plan[taken.length + 1]?.dueAt ?? null}, version = version + 1
    WHERE id = ${id} AND state = 'pending' AND decide_by > ${tx.now} AND escalate_at <= ${tx.now} AND version = ${version}
    RETURNING *`;
  const waited = `${policyName}: no decision for ${afterSeconds} s`;
  return noteTransition(tx, rows, {
    event: "approval.escalated",
    journal: "approval.escalated",
    summary: `${approval.summary}; ${waited}`,
    webhooks,
    more: {
      policy: policyName,
      afterSeconds,
      waitedSeconds: Math.floor((tx.now - approval.createdAt) / SECOND_MS),
      ...(adds !== undefined && { stage: stageName, deciders: adds.deciders as unknown as Json }),
      ...(webhooks !== undefined && { webhooks: [...webhooks] }),
    },
  });
}

/** Takes every step of a request that is due. Returns the request after the last one; undefined when none was due. */
export async function escalateAll(tx: WriteTransaction, approval: Approval): Promise<Approval | undefined> {
  let last: Approval | undefined;
  for (let next = await escalate(tx, approval); next !== undefined; next = await escalate(tx, next)) last = next;
  return last;
}

/** Takes the due steps of at most `max` requests. */
export async function escalateDue(tx: WriteTransaction, max: number): Promise<readonly Row[]> {
  const rows = await tx.sql`
    SELECT * FROM approvals WHERE state = 'pending' AND escalate_at <= ${tx.now} AND decide_by > ${tx.now} LIMIT ${max}`;
  for (const row of rows) await escalateAll(tx, toApproval(row, tx.now));
  return rows;
}
