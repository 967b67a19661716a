import type { Requester } from "../identities.ts";
import type { ReadTransaction, WriteTransaction } from "./database.ts";
import { sessionOf } from "./transitions.ts";

/** Owner of a session: a session id is unique only per owner. */
export type Owner = Pick<Requester, "issuer" | "subject">;

/** Returns whether the session was ended, or was created by the service and has expired. A `sid` expires with its tokens. */
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

/** Inserts a session; does nothing when it already exists. */
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
