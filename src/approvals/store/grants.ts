import type { Decider, Requester } from "../identities.ts";
import type { Approval, Approvals, Grant } from "../types.ts";
import type { ReadTransaction, WriteTransaction } from "./database.ts";
import { text, toGrant } from "./rows.ts";
import { insertSession, type Owner } from "./session-rows.ts";
import type { Row } from "./sql.ts";
import { SECOND_MS, type Store } from "./store.ts";
import { identity } from "./transitions.ts";

const GRANTS_LISTED_MAX = 1_000;

type GrantParts = Pick<Approvals, "findGrant" | "listGrants" | "revokeGrant" | "revokeGrantsFor">;

export function grants({ database }: Store): GrantParts {
  return {
    async findGrant(requester, grantKey) {
      return requester.session ? database.read((view) => find(view, requester, grantKey)) : undefined;
    },
    listGrants: ({ requester }) => database.read((view) => list(view, requester)),
    revokeGrant: (id, by) => database.write((tx) => revokeOne(tx, id, by)),
    async revokeGrantsFor(tools, by) {
      const granted = await database.read(grantedTools);
      const held = tools.filter((tool) => granted.has(tool));
      // Usually there are none, and no write transaction is needed.
      if (held.length > 0) await database.write((tx) => revokeFor(tx, held, by));
    },
  };
}

/** Remembers an approval for the session. Revokes an older grant for the same call, so that at most one exists. */
export async function createGrant(tx: WriteTransaction, approval: Approval, { limits, newId }: Store): Promise<void> {
  const { id: approvalId, requester, tool, grantKey, summary, decidedBy } = approval;
  const { issuer, subject, session } = requester;
  if (grantKey === undefined || session === undefined || decidedBy === undefined) return;
  const replaced = await tx.sql`
    UPDATE approval_grants SET revoked_at = ${tx.now}
    WHERE issuer = ${issuer} AND subject = ${subject} AND session = ${session} AND grant_key = ${grantKey}
      AND revoked_at IS NULL
    RETURNING *`;
  noteRevoked(tx, replaced, decidedBy);
  const expiresAt = tx.now + limits.grantSeconds * SECOND_MS;
  const sessionExpiresAt = tx.now + limits.sessionSeconds * SECOND_MS;
  await insertSession(tx, { id: session, owner: requester, minted: false, expiresAt: sessionExpiresAt });
  const id = newId();
  await tx.sql`
    INSERT INTO approval_grants (id, issuer, subject, session, tool, grant_key, summary, approval_id, granted_issuer,
      granted_subject, created_at, expires_at)
    VALUES (${id}, ${issuer}, ${subject}, ${session}, ${tool}, ${grantKey}, ${summary}, ${approvalId},
      ${decidedBy.issuer}, ${decidedBy.subject}, ${tx.now}, ${expiresAt})`;
  tx.note({
    event: { type: "grant.created", id, tool, summary, issuer, subject },
    journal: {
      type: "grant.created",
      ...{ id, tool, issuer, subject, session, grantKey, approvalId, expiresAt },
      decider: identity(decidedBy),
    },
  });
}

/** Revokes the grants of a session that ends. `by` is undefined when the session has expired. */
export async function revokeGrantsOf(
  tx: WriteTransaction,
  owner: Owner & { readonly id: string },
  by?: Decider,
): Promise<void> {
  const revoked = await tx.sql`
    UPDATE approval_grants SET revoked_at = ${tx.now}
    WHERE issuer = ${owner.issuer} AND subject = ${owner.subject} AND session = ${owner.id} AND revoked_at IS NULL
      AND expires_at > ${tx.now}
    RETURNING *`;
  noteRevoked(tx, revoked, by);
}

/** Revokes the grants that one approval created. */
export async function revokeGrantsFrom(tx: WriteTransaction, approvalId: string, by: Decider): Promise<void> {
  const revoked = await tx.sql`
    UPDATE approval_grants SET revoked_at = ${tx.now}
    WHERE approval_id = ${approvalId} AND revoked_at IS NULL AND expires_at > ${tx.now}
    RETURNING *`;
  noteRevoked(tx, revoked, by);
}

async function find({ sql, now }: ReadTransaction, requester: Requester, grantKey: string): Promise<Grant | undefined> {
  const [row] = await sql`
    SELECT * FROM approval_grants AS held
    WHERE issuer = ${requester.issuer} AND subject = ${requester.subject} AND session = ${requester.session}
      AND grant_key = ${grantKey} AND revoked_at IS NULL AND expires_at > ${now} AND ${sessionLives(sql, now)}`;
  return row === undefined ? undefined : toGrant(row);
}

/** Returns the condition that the grant's session is live. A session without a row is a `sid`, live as long as its tokens. */
function sessionLives(sql: ReadTransaction["sql"], now: number): unknown {
  return sql`NOT EXISTS (
    SELECT 1 FROM approval_sessions AS held_in
    WHERE held_in.issuer = held.issuer AND held_in.subject = held.subject AND held_in.id = held.session
      AND (held_in.ended_at IS NOT NULL OR (held_in.minted = 1 AND held_in.expires_at <= ${now})))`;
}

async function list({ sql, now }: ReadTransaction, owner: Owner | undefined): Promise<readonly Grant[]> {
  const whose = owner === undefined ? sql`1 = 1` : sql`issuer = ${owner.issuer} AND subject = ${owner.subject}`;
  const rows = await sql`
    SELECT * FROM approval_grants AS held
    WHERE ${whose} AND revoked_at IS NULL AND expires_at > ${now} AND ${sessionLives(sql, now)}
    ORDER BY created_at DESC, id DESC LIMIT ${GRANTS_LISTED_MAX}`;
  return rows.map(toGrant);
}

async function grantedTools({ sql, now }: ReadTransaction): Promise<ReadonlySet<string>> {
  const rows = await sql`
    SELECT DISTINCT tool FROM approval_grants WHERE revoked_at IS NULL AND expires_at > ${now}`;
  return new Set(rows.map((row) => text(row, "tool")));
}

async function revokeFor(tx: WriteTransaction, tools: readonly string[], by: Decider): Promise<void> {
  for (const tool of tools) {
    const revoked = await tx.sql`
      UPDATE approval_grants SET revoked_at = ${tx.now}
      WHERE tool = ${tool} AND revoked_at IS NULL AND expires_at > ${tx.now}
      RETURNING *`;
    noteRevoked(tx, revoked, by);
  }
}

async function revokeOne(tx: WriteTransaction, id: string, by: Decider): Promise<boolean> {
  const rows = await tx.sql`
    UPDATE approval_grants SET revoked_at = ${tx.now}
    WHERE id = ${id} AND revoked_at IS NULL AND expires_at > ${tx.now}
    RETURNING *`;
  noteRevoked(tx, rows, by);
  return rows.length > 0;
}

function noteRevoked(tx: WriteTransaction, rows: readonly Row[], by: Decider | undefined): void {
  for (const { id, tool, summary, issuer, subject, session, grantKey } of rows.map(toGrant)) {
    tx.note({
      event: { type: "grant.revoked", id, tool, summary, issuer, subject },
      journal: {
        type: "grant.revoked",
        ...{ id, tool, issuer, subject, session, grantKey },
        decider: by === undefined ? undefined : identity(by),
      },
    });
  }
}
