import type { Json } from "../../core/types.ts";
import type { Decider, Requester } from "../identities.ts";
import type { Approval, ApprovalEvent } from "../types.ts";
import type { WriteTransaction } from "./database.ts";
import { toApproval } from "./rows.ts";
import type { Row } from "./sql.ts";

interface Noted {
  readonly event: ApprovalEvent["type"];
  readonly journal: string;
  /** Summary for event listeners; defaults to the approval's summary. */
  readonly summary?: string | undefined;
  readonly more?: Readonly<Record<string, Json | undefined>>;
}

/** Returns the `session` column; empty when there is no session. */
export function sessionOf(requester: Pick<Requester, "session">): string {
  return requester.session ?? "";
}

/** Returns only issuer and subject, as the journal records them. */
export function identity({ issuer, subject }: Decider): { readonly issuer: string; readonly subject: string } {
  return { issuer, subject };
}

/** Notes the event and the journal line, without the arguments and the view. */
export function noteApproval(
  tx: WriteTransaction,
  approval: Approval,
  { event, journal, more, ...noted }: Noted,
): void {
  const { id, tool, requester, planDigest } = approval;
  const { summary = approval.summary } = noted;
  const { issuer, subject, session } = requester;
  tx.note({
    event: { type: event, id, tool, summary, issuer, subject },
    journal: { type: journal, id, tool, issuer, subject, session, planDigest, ...more },
  });
}

/** Notes the change and returns the updated approval, or undefined when the conditional update matched no row. */
export function moved(tx: WriteTransaction, rows: readonly Row[], noted: Noted): Approval | undefined {
  const [row] = rows;
  if (row === undefined) return undefined;
  const approval = toApproval(row, tx.now);
  noteApproval(tx, approval, noted);
  return approval;
}

/** Records the expiry, so that an approval reported as expired does not become valid again when the clock is set back. */
export async function expire(tx: WriteTransaction, id: string): Promise<Approval | undefined> {
  const rows = await tx.sql`
    UPDATE approvals SET state = 'expired', version = version + 1, ended_at = ${tx.now}
    WHERE id = ${id} AND ((state = 'pending' AND decide_by <= ${tx.now}) OR (state = 'approved' AND execute_by <= ${tx.now}))
    RETURNING *`;
  return moved(tx, rows, { event: "approval.expired", journal: "approval.expired" });
}

/** Returns the current approval after recording its expiry; undefined when it does not exist. */
export async function settledView(tx: WriteTransaction, id: string): Promise<Approval | undefined> {
  const expired = await expire(tx, id);
  if (expired !== undefined) return expired;
  const [row] = await tx.sql`SELECT * FROM approvals WHERE id = ${id}`;
  return row === undefined ? undefined : toApproval(row, tx.now);
}
