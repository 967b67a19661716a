import { sha256Hex } from "../core/digest.ts";
import { openText, sealText } from "../core/sealed.ts";
import type { EpochMs } from "../core/types.ts";
import type { Sql } from "../database/dialect.ts";
import { optionalText } from "../database/rows.ts";
import { HubRefusal } from "./errors.ts";
import { decodeWire, encodeWire, WireError } from "./wire.ts";

/** Longest answer that is kept for a repeated request, in bytes of its JSON: as of an idempotency key. */
const KEPT_BYTES_MAX = 1_048_576;

const USE = "answer of a hub";

export interface OnceKey {
  readonly member: string;
  /** Id of the request, with the number of the write where it has several. Unguessable. */
  readonly id: string;
  /** Digest of the method and the input. */
  readonly digest: string;
}

interface Transaction {
  readonly sql: Sql;
  readonly now: EpochMs;
}

/**
 * Runs `work` within a write transaction, unless the same request has run it before: then returns what it returned. A repetition
 * that comes while the first one runs waits for its transaction at the insertion. Answers may contain text that the store holds
 * encrypted only: each answer is encrypted with the id and the digest of its request; the table has a hash of the id. The sweep of
 * the approvals deletes the rows.
 *
 * @throws {HubRefusal} ANSWER_LOST when the request was carried out and its answer was too large to keep; REQUEST_ID_USED when
 * it asked for something else
 */
export async function once<T>({ sql, now }: Transaction, key: OnceKey, work: () => Promise<T>): Promise<T> {
  const { member, id } = key;
  const [inserted] = await sql`
    INSERT INTO hub_requests (member, id, at) VALUES (${member}, ${sha256Hex(id)}, ${now}) ON CONFLICT DO NOTHING RETURNING id`;
  if (inserted === undefined) {
    const earlier = await answerOf({ sql }, key);
    // It was deleted since the insertion: its member has given up long ago.
    if (earlier === undefined) throw lost();
    return earlier.value as T;
  }
  const value = await work();
  const answer = keepable(key, value);
  if (answer !== undefined) {
    await sql`UPDATE hub_requests SET answer = ${answer} WHERE member = ${member} AND id = ${sha256Hex(id)}`;
  }
  return value;
}

/**
 * Returns what a request answered before; undefined when it has not run.
 *
 * @throws {HubRefusal} ANSWER_LOST, REQUEST_ID_USED
 */
export async function answerOf(
  { sql }: Pick<Transaction, "sql">,
  key: OnceKey,
): Promise<{ readonly value: unknown } | undefined> {
  const { member, id } = key;
  const [row] = await sql`SELECT answer FROM hub_requests WHERE member = ${member} AND id = ${sha256Hex(id)}`;
  if (row === undefined) return undefined;
  const sealed = optionalText(row, "answer");
  if (sealed === undefined) throw lost();
  const answer = openText(secretOf(key), USE, sealed);
  if (answer === undefined) throw used();
  const [value] = decodeWire(answer) as readonly unknown[];
  return { value };
}

function keepable(key: OnceKey, value: unknown): string | undefined {
  try {
    return sealText(secretOf(key), USE, encodeWire([value], KEPT_BYTES_MAX));
  } catch (error) {
    if (error instanceof WireError) return undefined;
    throw error;
  }
}

function secretOf({ id, digest }: OnceKey): string {
  return `${id} ${digest}`;
}

function used(): HubRefusal {
  return new HubRefusal(409, "REQUEST_ID_USED", "Another request had this id.");
}

function lost(): HubRefusal {
  return new HubRefusal(409, "ANSWER_LOST", "The request was carried out before; its answer was not kept.");
}
