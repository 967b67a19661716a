import type { Row } from "../../database/dialect.ts";
import { text } from "../../database/rows.ts";
import type { LeftClaim, ResolvedDoubt } from "../types.ts";
import type { WriteTransaction } from "./database.ts";
import { escalateDue } from "./escalations.ts";
import { resolveKey, subtract } from "./keys.ts";
import { toApproval } from "./rows.ts";
import { end, noteMode } from "./sessions.ts";
import { DAY_MS, SECOND_MS, type Store } from "./store.ts";
import { noteApproval, noteTransition } from "./transitions.ts";

/** Maximum number of rows that one transaction changes, so that other writers wait only briefly. */
const BATCH_MAX = 100;
/** Maximum number of batches of one step per sweep. The next sweep continues. */
const BATCHES_MAX = 200;
const EVENTS_KEPT_MAX = 100_000;
/** More calls than one process runs at once. */
const CLAIMS_MAX = 10_000;
/** Longer than any member repeats a request. */
const HUB_REQUESTS_KEPT_MS = 600_000;

type Step = (tx: WriteTransaction, store: Store) => Promise<readonly Row[]>;

const STEPS: readonly Step[] = [
  ...[expirePending, escalatePending, expireApproved, doubtLostLeases, endModes, endSessions],
  ...[deleteApprovals, deleteGrants, deleteSessions, deleteKeys, deleteTasks, deleteEvents, deleteHubRequests],
];

/** Records expirations and deletes old rows. Any process may run it at any time. */
export async function sweep(store: Store): Promise<void> {
  for (const step of STEPS) await inBatches(store, step);
}

export function claimsOf({ database }: Pick<Store, "database">, claimant: string): Promise<readonly LeftClaim[]> {
  return database.read(async ({ sql, now }) => {
    const rows = await sql`
      SELECT id, state FROM approvals
      WHERE (state = 'claimed' OR (state = 'in_doubt' AND ended_at > ${now - DAY_MS})) AND claimed_by = ${claimant}
      ORDER BY state LIMIT ${CLAIMS_MAX}`;
    return rows.map((row) => ({ id: text(row, "id"), state: text(row, "state") as LeftClaim["state"] }));
  });
}

/**
 * Ends what a process had claimed before it ended: the outcomes of its calls are unknown. Only a process that has taken the former
 * one's place may know that, and before it makes claims of its own.
 */
export async function doubtClaimsOf(store: Store, claimant: string): Promise<void> {
  await inBatches(store, (tx) => doubtWhere(tx, () => tx.sql`claimed_by = ${claimant}`, "process_ended"));
  await inBatches(store, (tx) => doubtKeys(tx, claimant, store));
}

export async function resolveDoubt(
  store: Store,
  { claimant, approvalId, isDone, ...use }: ResolvedDoubt,
): Promise<void> {
  const outcome = isDone ? "executed" : "failed";
  await store.database.write(async (tx) => {
    if (approvalId !== undefined) {
      const rows = await tx.sql`
        UPDATE approvals SET state = ${outcome}, version = version + 1
        WHERE id = ${approvalId} AND state = 'in_doubt' AND claimed_by = ${claimant}
        RETURNING *`;
      const more = { outcome, cause: "resolved" };
      noteTransition(tx, rows, { event: `approval.${outcome}`, journal: "approval.settled", more });
    }
    const keepMs = store.limits.idempotencySeconds * SECOND_MS;
    await resolveKey(tx, { ...use, isDone }, { keepMs, member: store.member });
  });
}

async function doubtKeys(tx: WriteTransaction, claimant: string, { limits }: Store): Promise<readonly Row[]> {
  const isLost = tx.sql`state = 'running' AND claimed_by = ${claimant}`;
  return tx.sql`
    UPDATE approval_keys SET state = 'unknown', expires_at = ${tx.now + limits.idempotencySeconds * SECOND_MS}, claimed_by = NULL
    WHERE (issuer, subject, tool, key_hash) IN (
      SELECT issuer, subject, tool, key_hash FROM approval_keys WHERE ${isLost} LIMIT ${BATCH_MAX})
    RETURNING key_hash`;
}

async function inBatches(store: Store, step: Step): Promise<void> {
  let batches = 0;
  let changed = BATCH_MAX;
  while (changed >= BATCH_MAX && batches < BATCHES_MAX) {
    changed = await store.database.write(async (tx) => (await step(tx, store)).length);
    batches += 1;
  }
}

function expirePending(tx: WriteTransaction): Promise<readonly Row[]> {
  return expireWhere(tx, () => tx.sql`state = 'pending' AND decide_by <= ${tx.now}`);
}

function escalatePending(tx: WriteTransaction): Promise<readonly Row[]> {
  return escalateDue(tx, BATCH_MAX);
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
function doubtLostLeases(tx: WriteTransaction): Promise<readonly Row[]> {
  return doubtWhere(tx, () => tx.sql`lease_until <= ${tx.now}`, "lease_lost");
}

async function doubtWhere(tx: WriteTransaction, isLost: () => unknown, cause: string): Promise<readonly Row[]> {
  const rows = await tx.sql`
    UPDATE approvals SET state = 'in_doubt', version = version + 1, ended_at = ${tx.now}
    WHERE state = 'claimed' AND ${isLost()} AND id IN (
      SELECT id FROM approvals WHERE state = 'claimed' AND ${isLost()} LIMIT ${BATCH_MAX})
    RETURNING *`;
  const more = { outcome: "in_doubt", cause };
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

function deleteApprovals(tx: WriteTransaction, store: Store): Promise<readonly Row[]> {
  return deleteBatch(tx, {
    table: tx.sql`approvals`,
    key: tx.sql`id`,
    isDue: tx.sql`ended_at <= ${before(tx, store)}`,
  });
}

function deleteGrants(tx: WriteTransaction, store: Store): Promise<readonly Row[]> {
  const isDue = tx.sql`expires_at <= ${before(tx, store)}`;
  return deleteBatch(tx, { table: tx.sql`approval_grants`, key: tx.sql`id`, isDue });
}

/** Deletes sessions. The row of an ended session disables its grants; when it is deleted, all of them have expired. */
function deleteSessions(tx: WriteTransaction, store: Store): Promise<readonly Row[]> {
  const isDue = tx.sql`expires_at <= ${before(tx, store)}`;
  return deleteBatch(tx, { table: tx.sql`approval_sessions`, key: tx.sql`issuer, subject, id`, isDue });
}

async function deleteKeys(tx: WriteTransaction): Promise<readonly Row[]> {
  const isDue = tx.sql`expires_at <= ${tx.now}`;
  const key = tx.sql`issuer, subject, tool, key_hash`;
  const returns = tx.sql`issuer, subject, answer_bytes`;
  const rows = await deleteBatch(tx, { table: tx.sql`approval_keys`, key, isDue, returns });
  await subtract(tx, rows);
  return rows;
}

function deleteTasks(tx: WriteTransaction): Promise<readonly Row[]> {
  const isDue = tx.sql`expires_at <= ${tx.now}`;
  return deleteBatch(tx, { table: tx.sql`approval_tasks`, key: tx.sql`id_hash`, isDue });
}

function deleteEvents(tx: WriteTransaction, store: Store): Promise<readonly Row[]> {
  const isDue = tx.sql`at <= ${before(tx, store)}
    OR seq <= (SELECT value FROM approval_counters WHERE name = 'events') - ${EVENTS_KEPT_MAX}`;
  return deleteBatch(tx, { table: tx.sql`approval_events`, key: tx.sql`seq`, isDue });
}

function deleteHubRequests(tx: WriteTransaction): Promise<readonly Row[]> {
  const isDue = tx.sql`at <= ${tx.now - HUB_REQUESTS_KEPT_MS}`;
  return deleteBatch(tx, { table: tx.sql`hub_requests`, key: tx.sql`member, id`, isDue });
}

/** Returns the time before which ended rows are deleted, in Unix milliseconds. */
function before({ now }: WriteTransaction, { limits }: Store): number {
  return now - limits.retentionDays * DAY_MS;
}

/** Parts of a statement: the table, its key columns, the condition of rows to delete, and the columns to return. */
interface Deletion {
  readonly table: unknown;
  readonly key: unknown;
  readonly isDue: unknown;
  readonly returns?: unknown;
}

async function deleteBatch(
  tx: WriteTransaction,
  { table, key, isDue, returns = key }: Deletion,
): Promise<readonly Row[]> {
  return tx.sql`
    DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${table} WHERE ${isDue} LIMIT ${BATCH_MAX})
    RETURNING ${returns}`;
}
