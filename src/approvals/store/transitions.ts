import type { Json } from "../../core/types.ts";
import type { Row } from "../../database/dialect.ts";
import type { Approver, Requester } from "../identities.ts";
import type { Approval, ApprovalEvent } from "../types.ts";
import type { ReadTransaction, WriteTransaction } from "./database.ts";
import { toApproval } from "./rows.ts";

interface Noted {
  readonly event: ApprovalEvent["type"];
  readonly journal: string;
  /** Summary for event listeners; defaults to the approval's summary. */
  readonly summary?: string | undefined;
  readonly webhooks?: ApprovalEvent["webhooks"];
  readonly more?: Readonly<Record<string, Json | undefined>>;
}

/** Returns the `session` column; empty when there is no session. */
export function sessionOf(requester: Pick<Requester, "session">): string {
  return requester.session ?? "";
}

/** Returns only issuer and subject, as the journal records them. */
export function identity({ issuer, subject }: Approver): { readonly issuer: string; readonly subject: string } {
  return { issuer, subject };
}

/** Notes the event and the journal line, without the arguments and the view. */
export function noteApproval(
  tx: WriteTransaction,
  approval: Approval,
  { event, journal, more, webhooks, ...noted }: Noted,
): void {
  const { id, tool, requester, planDigest } = approval;
  const { summary = approval.summary } = noted;
  const { issuer, subject, session } = requester;
  const [member] = approval.members ?? [];
  tx.note({
    event: { type: event, id, tool, summary, issuer, subject, webhooks, member },
    journal: { type: journal, id, tool, issuer, subject, session, planDigest, ...more },
  });
}

/** Notes the change and returns the updated approval, or undefined when the conditional update matched no row. */
export function noteTransition(tx: WriteTransaction, rows: readonly Row[], noted: Noted): Approval | undefined {
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
  return noteTransition(tx, rows, { event: "approval.expired", journal: "approval.expired" });
}

/** Returns the current approval after recording its expiry; undefined when it does not exist. */
export async function currentApproval(tx: WriteTransaction, id: string): Promise<Approval | undefined> {
  const expired = await expire(tx, id);
  if (expired !== undefined) return expired;
  const [row] = await tx.sql`SELECT * FROM approvals WHERE id = ${id}`;
  return row === undefined ? undefined : toApproval(row, tx.now);
}

/**
 * Returns the condition that the same member of the hub has asked for the approval, or for that of the grant; the service itself
 * without a member. Nobody else uses it: what people were shown is known to be true only to the member that showed it.
 */
export function isOwn({ sql }: ReadTransaction, member: string | undefined): unknown {
  return sql`members = ${membersText(member)}`;
}

/** Returns the `members` column. */
export function membersText(member: string | undefined): string {
  return JSON.stringify(member === undefined ? [] : [member]);
}

export type Owner = Pick<Requester, "issuer" | "subject">;

/** Returns whether the session was ended, or was created by the service and has expired. A `sid` expires with its tokens. */
export async function sessionIsOver(
  { sql, now }: ReadTransaction,
  requester: Pick<Requester, "issuer" | "subject" | "session">,
): Promise<boolean> {
  const [row] = await sql`
    SELECT ended_at FROM approval_sessions
    WHERE issuer = ${requester.issuer} AND subject = ${requester.subject} AND id = ${sessionOf(requester)}
      AND (ended_at IS NOT NULL OR (minted = 1 AND expires_at <= ${now}))`;
  return row !== undefined;
}

interface NewSession {
  readonly id: string;
  readonly owner: Owner;
  readonly minted: boolean;
  readonly expiresAt: number;
}

export async function insertSession(tx: WriteTransaction, { id, owner, minted, expiresAt }: NewSession): Promise<void> {
  const { issuer, subject } = owner;
  const rows = await tx.sql`
    INSERT INTO approval_sessions (issuer, subject, id, minted, mode, created_at, expires_at)
    VALUES (${issuer}, ${subject}, ${id}, ${minted ? 1 : 0}, 'default', ${tx.now}, ${expiresAt})
    ON CONFLICT DO NOTHING
    RETURNING id`;
  if (rows.length === 0) return;
  tx.note({
    event: undefined,
    journal: { type: "session.opened", id, issuer, subject, minted, expiresAt },
  });
}
