import { sha256Hex } from "../../core/digest.ts";
import type { UsedKey } from "../../core/types.ts";
import type { Row } from "../../database/dialect.ts";
import { integer, optionalText, text } from "../../database/rows.ts";
import type { Approvals, KeyAsked, KeyEnd, KeyState, KeyUse, ResolvedDoubt, StoredAnswer } from "../types.ts";
import type { ReadTransaction, WriteTransaction } from "./database.ts";
import { toAnswer } from "./rows.ts";
import { SECOND_MS, type Store } from "./store.ts";

/** Maximum size of a stored answer's JSON, in UTF-8 bytes. The result of a larger answer is not stored. */
const ANSWER_BYTES_MAX = 1_048_576;
/** Limits per caller: beyond them, new keys are refused, and answers are treated as too large. */
const KEYS_PER_CALLER_MAX = 100_000;
const ANSWER_BYTES_PER_CALLER_MAX = 67_108_864;

export function keys({
  database,
  limits,
  claimant,
  member,
}: Store): Pick<Approvals, "beginKey" | "endKey" | "doubtKey"> {
  const leaseMs = limits.claimLeaseSeconds * SECOND_MS;
  const keepMs = limits.idempotencySeconds * SECOND_MS;
  return {
    beginKey: (use) => database.write((tx) => begin(tx, use, { leaseMs, keepMs, claimant: claimant(), member })),
    endKey: (use, end, unkept = "unknown") => database.write((tx) => finish(tx, use, { end, unkept, keepMs })),
    doubtKey: (key) => database.write((tx) => doubt(tx, key, keepMs)),
  };
}

/** The process that runs the call, and how long it is believed to run it. */
interface Beginning {
  readonly claimant: string | undefined;
  readonly member: string | undefined;
  readonly leaseMs: number;
  readonly keepMs: number;
}

async function begin(tx: WriteTransaction, use: KeyUse, beginning: Beginning): Promise<KeyState> {
  await deleteIfExpired(tx, use);
  if (await insert(tx, use, beginning)) return { outcome: "begin" };
  const again = await beginAgain(tx, use, beginning);
  if (again !== undefined) {
    return { outcome: "begin", ...(again["answer"] !== null && { approvalId: text(again, "answer") }) };
  }
  const [row] = await tx.sql`SELECT * FROM approval_keys WHERE ${keyCondition(tx, use)}`;
  if (row === undefined) throw new Error("an idempotency key was removed while it was read");
  return stateOf(row, use, { now: tx.now, member: beginning.member });
}

/** Returns the SQL condition that selects the row of this key. */
export function keyCondition({ sql }: ReadTransaction, { issuer, subject, tool, keyHash }: UsedKey): unknown {
  return sql`issuer = ${issuer} AND subject = ${subject} AND tool = ${tool} AND key_hash = ${keyHash}`;
}

interface Seen {
  readonly now: number;
  readonly member: string | undefined;
}

function stateOf(row: Row, use: KeyUse, { now, member }: Seen): KeyState {
  if (text(row, "args_hash") !== use.argsHash) return { outcome: "other_args" };
  const state = text(row, "state");
  // No policy of this member has judged what another one of the hub answered.
  if (state === "answered" && optionalText(row, "member") !== member) return { outcome: "unknown" };
  if (state === "answered") return { outcome: "answered", answer: toAnswer(row) };
  // After the lease, the process that ran the call has crashed, or its answer comes too late to be trusted.
  return state === "running" && integer(row, "lease_until") > now ? { outcome: "running" } : { outcome: "unknown" };
}

async function insert(
  tx: WriteTransaction,
  use: KeyUse,
  { leaseMs, keepMs, claimant, member }: Beginning,
): Promise<boolean> {
  const { issuer, subject, tool, keyHash, argsHash } = use;
  const leaseUntil = tx.now + leaseMs;
  const rows = await tx.sql`
    INSERT INTO approval_keys (issuer, subject, tool, key_hash, args_hash, state, lease_until, expires_at, answer_bytes, claimed_by, member)
    VALUES (${issuer}, ${subject}, ${tool}, ${keyHash}, ${argsHash}, 'running', ${leaseUntil}, ${leaseUntil + keepMs}, 0,
      ${claimant ?? null}, ${member ?? null})
    ON CONFLICT DO NOTHING
    RETURNING key_hash`;
  if (rows.length === 0) return false;
  const { heldKeys } = await addToTotals(tx, use, { keys: 1, bytes: 0 });
  if (heldKeys > KEYS_PER_CALLER_MAX) {
    throw new Error(`a caller has more than ${KEYS_PER_CALLER_MAX} idempotency keys: they are kept for a while each`);
  }
  return true;
}

/** Starts a key again whose last use ran nothing. Its `answer` is the approval request that a use has made, if any. */
async function beginAgain(
  tx: WriteTransaction,
  use: KeyUse,
  { leaseMs, keepMs, claimant, member }: Beginning,
): Promise<Row | undefined> {
  const leaseUntil = tx.now + leaseMs;
  const rows = await tx.sql`
    UPDATE approval_keys SET state = 'running', lease_until = ${leaseUntil}, expires_at = ${leaseUntil + keepMs},
      claimed_by = ${claimant ?? null}, member = ${member ?? null}
    WHERE ${keyCondition(tx, use)} AND args_hash = ${use.argsHash} AND state = 'not_run'
    RETURNING answer`;
  return rows[0];
}

interface End {
  readonly end: StoredAnswer | KeyEnd | KeyAsked;
  readonly unkept: KeyEnd;
  readonly keepMs: number;
}

async function finish(tx: WriteTransaction, use: KeyUse, { end, unkept, keepMs }: End): Promise<void> {
  if (typeof end === "object" && "approvalId" in end) return finishAsked(tx, use, { keepMs, ...end });
  const stored =
    typeof end === "string" ? end : keepable(end, unkept, Math.min(ANSWER_BYTES_MAX, await bytesLeft(tx, use)));
  const answer = typeof stored === "string" ? null : JSON.stringify(stored);
  const kept = answer === null ? 0 : Buffer.byteLength(answer);
  const rows = await tx.sql`
    UPDATE approval_keys SET state = ${typeof stored === "string" ? stored : "answered"},
      answer = COALESCE(${answer}, answer), answer_bytes = ${kept}, expires_at = ${tx.now + keepMs}, claimed_by = NULL
    WHERE ${keyCondition(tx, use)} AND args_hash = ${use.argsHash} AND state = 'running'
    RETURNING key_hash`;
  if (rows.length > 0 && kept > 0) await addToTotals(tx, use, { keys: 0, bytes: kept });
}

async function finishAsked(
  tx: WriteTransaction,
  use: KeyUse,
  { approvalId, keepMs }: KeyAsked & Pick<Beginning, "keepMs">,
): Promise<void> {
  await tx.sql`
    UPDATE approval_keys SET state = 'not_run', answer = ${approvalId}, expires_at = ${tx.now + keepMs}, claimed_by = NULL
    WHERE ${keyCondition(tx, use)} AND args_hash = ${use.argsHash} AND state = 'running'`;
}

/** Releases before the column `claimed_by` leave it empty: the row of any other claimant belongs to a later use of the key. */
async function doubt(tx: WriteTransaction, key: UsedKey, keepMs: number): Promise<void> {
  await tx.sql`
    UPDATE approval_keys SET state = 'unknown', expires_at = ${tx.now + keepMs}
    WHERE ${keyCondition(tx, key)} AND state = 'running' AND claimed_by IS NULL`;
}

/**
 * Settles an unknown use of the member, or of a process with a database (`member`: undefined). The result of a change that was made is
 * lost. A use that may have begun after this one expired stays as it is.
 */
export async function resolveKey(
  tx: WriteTransaction,
  { key, startedAt, isDone }: Pick<ResolvedDoubt, "key" | "startedAt" | "isDone">,
  { keepMs, member }: Pick<Beginning, "keepMs" | "member">,
): Promise<void> {
  if (key === undefined || !(tx.now < startedAt + keepMs)) return;
  const answer = isDone ? JSON.stringify(unkeptAnswer(sha256Hex("null"))) : null;
  const kept = answer === null ? 0 : Buffer.byteLength(answer);
  const isOwn = member === undefined ? tx.sql`member IS NULL` : tx.sql`member = ${member}`;
  const rows = await tx.sql`
    UPDATE approval_keys SET state = ${isDone ? "answered" : "not_run"}, answer = COALESCE(${answer}, answer), answer_bytes = ${kept}
    WHERE ${keyCondition(tx, key)} AND state = 'unknown' AND ${isOwn}
    RETURNING key_hash`;
  if (rows.length > 0 && kept > 0) await addToTotals(tx, key, { keys: 0, bytes: kept });
}

/** Returns what to store. For an answer that is too large: only that the call was made, or `not_run` when it may run again. */
function keepable(answer: StoredAnswer, unkept: KeyEnd, bytesMax: number): StoredAnswer | KeyEnd {
  if (Buffer.byteLength(JSON.stringify(answer)) <= bytesMax) return answer;
  if (unkept === "not_run") return unkept;
  return unkeptAnswer(answer.outputHash);
}

function unkeptAnswer(outputHash: string): StoredAnswer {
  return { result: null, filteredFields: ["*"], truncated: true, outputHash };
}

async function bytesLeft(tx: WriteTransaction, { issuer, subject }: KeyUse): Promise<number> {
  const [row] = await tx.sql`
    SELECT held_bytes FROM approval_key_totals WHERE issuer = ${issuer} AND subject = ${subject}`;
  return ANSWER_BYTES_PER_CALLER_MAX - (row === undefined ? 0 : integer(row, "held_bytes"));
}

async function deleteIfExpired(tx: WriteTransaction, use: KeyUse): Promise<void> {
  const rows = await tx.sql`
    DELETE FROM approval_keys WHERE ${keyCondition(tx, use)} AND expires_at <= ${tx.now}
    RETURNING issuer, subject, answer_bytes`;
  await subtract(tx, rows);
}

export async function subtract(tx: WriteTransaction, rows: readonly Row[]): Promise<void> {
  for (const row of rows) {
    const owner = { issuer: text(row, "issuer"), subject: text(row, "subject") };
    await addToTotals(tx, owner, { keys: -1, bytes: -integer(row, "answer_bytes") });
  }
}

interface Amount {
  readonly keys: number;
  readonly bytes: number;
}

async function addToTotals(
  tx: WriteTransaction,
  { issuer, subject }: Pick<KeyUse, "issuer" | "subject">,
  { keys: count, bytes }: Amount,
): Promise<{ readonly heldKeys: number }> {
  const [row = {}] = await tx.sql`
    INSERT INTO approval_key_totals (issuer, subject, held_keys, held_bytes)
    VALUES (${issuer}, ${subject}, ${count}, ${bytes})
    ON CONFLICT (issuer, subject) DO UPDATE SET
      held_keys = approval_key_totals.held_keys + excluded.held_keys,
      held_bytes = approval_key_totals.held_bytes + excluded.held_bytes
    RETURNING held_keys`;
  return { heldKeys: integer(row, "held_keys") };
}
