import type { Row, WriteTransaction } from "./database.ts";
import { subtract } from "./keys.ts";
import { toApproval } from "./rows.ts";
import { end, noteMode } from "./sessions.ts";
import { DAY_MS, type Store } from "./store.ts";
import { noteApproval } from "./transitions.ts";

/** Rows that one transaction changes: keeps other writers' waits short. */
const BATCH_MAX = 100;
/** Batches of one step per sweep; the next sweep continues. */
const BATCHES_MAX = 200;
const EVENTS_KEPT_MAX = 100_000;

type Step = (tx: WriteTransaction, store: Store) => Promise<readonly Row[]>;

const STEPS: readonly Step[] = [
  ...[expirePending, expireApproved, doubtLostLeases, endModes, endSessions],
  ...[deleteApprovals, deleteGrants, deleteSessions, deleteKeys, deleteEvents],
];

/** Records expirations and deletes old rows. Any process may run it at any time. */
export async function sweep(store: Store): Promise<void> {
  for (const step of STEPS) {
    let batches = 0;
    let changed = BATCH_MAX;
    while (changed >= BATCH_MAX && batches < BATCHES_MAX) {
      changed = (await store.database.write((tx) => step(tx, store))).length;
      batches += 1;
    }
  }
}

function expirePending(tx: WriteTransaction): Promise<readonly Row[]> {
  return expireWhere(tx, () => tx.sql`state = 'pending' AND decide_by <= ${tx.now}`);
}

function expireApproved(tx: WriteTransaction): Promise<readonly Row[]> {
  return expireWhere(tx, () => tx.sql`state = 'approved' AND execute_by <= ${tx.now}`);
}

async function expireWhere(tx: WriteTransaction, isDue: () => unknown): Promise<readonly Row[]> {
  const rows = await tx.sql`
    UPDATE approvals SET state = 'expired', version = version + 1, ended_at = ${tx.now}
    WHERE ${isDue()} AND id IN (SELECT id FROM approvals WHERE ${isDue()} LIMIT ${BATCH_MAX})
    RETURNING *`;
  for (const row of rows) {
    noteApproval(tx, toApproval(row, tx.now), { event: "approval.expired", journal: "approval.expired" });
  }
  return rows;
}

/** Marks claims with an expired lease as in doubt: the process crashed or hangs, and the outcome of the call is unknown. */
async function doubtLostLeases(tx: WriteTransaction): Promise<readonly Row[]> {
  const rows = await tx.sql`
    UPDATE approvals SET state = 'in_doubt', version = version + 1, ended_at = ${tx.now}
    WHERE state = 'claimed' AND lease_until <= ${tx.now} AND id IN (
      SELECT id FROM approvals WHERE state = 'claimed' AND lease_until <= ${tx.now} LIMIT ${BATCH_MAX})
    RETURNING *`;
  const more = { outcome: "in_doubt", cause: "lease_lost" };
  for (const row of rows) {
    noteApproval(tx, toApproval(row, tx.now), { event: "approval.in_doubt", journal: "approval.settled", more });
  }
  return rows;
}

async function endModes(tx: WriteTransaction): Promise<readonly Row[]> {
  const rows = await tx.sql`
    UPDATE approval_sessions SET mode = 'default', mode_until = NULL, mode_issuer = NULL, mode_subject = NULL
    WHERE (issuer, subject, id) IN (
      SELECT issuer, subject, id FROM approval_sessions
      WHERE mode_until <= ${tx.now} AND ended_at IS NULL LIMIT ${BATCH_MAX})
    RETURNING *`;
  for (const row of rows) noteMode(tx, row, { mode: "default", until: undefined, decider: undefined });
  return rows;
}

async function endSessions(tx: WriteTransaction): Promise<readonly Row[]> {
  const rows = await tx.sql`
    SELECT * FROM approval_sessions WHERE minted = 1 AND ended_at IS NULL AND expires_at <= ${tx.now} LIMIT ${BATCH_MAX}`;
  for (const row of rows) await end(tx, row);
  return rows;
}

async function deleteApprovals(tx: WriteTransaction, { limits }: Store): Promise<readonly Row[]> {
  const before = tx.now - limits.retentionDays * DAY_MS;
  return tx.sql`
    DELETE FROM approvals WHERE id IN (SELECT id FROM approvals WHERE ended_at <= ${before} LIMIT ${BATCH_MAX})
    RETURNING id`;
}

async function deleteGrants(tx: WriteTransaction, { limits }: Store): Promise<readonly Row[]> {
  const before = tx.now - limits.retentionDays * DAY_MS;
  return tx.sql`
    DELETE FROM approval_grants
    WHERE id IN (SELECT id FROM approval_grants WHERE expires_at <= ${before} LIMIT ${BATCH_MAX})
    RETURNING id`;
}

/** Deletes sessions. The row of an ended session disables its grants; when it is deleted, all of them have expired. */
async function deleteSessions(tx: WriteTransaction, { limits }: Store): Promise<readonly Row[]> {
  const before = tx.now - limits.retentionDays * DAY_MS;
  return tx.sql`
    DELETE FROM approval_sessions WHERE (issuer, subject, id) IN (
      SELECT issuer, subject, id FROM approval_sessions WHERE expires_at <= ${before} LIMIT ${BATCH_MAX})
    RETURNING id`;
}

async function deleteKeys(tx: WriteTransaction): Promise<readonly Row[]> {
  const rows = await tx.sql`
    DELETE FROM approval_keys WHERE (issuer, subject, tool, key_hash) IN (
      SELECT issuer, subject, tool, key_hash FROM approval_keys WHERE expires_at <= ${tx.now} LIMIT ${BATCH_MAX})
    RETURNING issuer, subject, answer_bytes`;
  await subtract(tx, rows);
  return rows;
}

async function deleteEvents(tx: WriteTransaction, { limits }: Store): Promise<readonly Row[]> {
  const before = tx.now - limits.retentionDays * DAY_MS;
  return tx.sql`
    DELETE FROM approval_events WHERE seq IN (
      SELECT seq FROM approval_events
      WHERE at <= ${before} OR seq <= (SELECT value FROM approval_counters WHERE name = 'events') - ${EVENTS_KEPT_MAX}
      LIMIT ${BATCH_MAX})
    RETURNING seq`;
}
