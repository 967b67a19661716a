import type { Requester } from "../identities.ts";
import type { ReadTransaction, WriteTransaction } from "./database.ts";
import { sessionOf } from "./transitions.ts";

/** Whose a session is: its id means nothing without its owner. */
export type Owner = Pick<Requester, "issuer" | "subject">;

/** Ended, or minted here and out of time. A token's `sid` ends with the tokens, unless somebody ended it here. */
export async function sessionIsOver({ sql, now }: ReadTransaction, requester: Requester): Promise<boolean> {
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

/** Does nothing when it is there already. */
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
