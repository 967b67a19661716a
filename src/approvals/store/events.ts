import { integer } from "../../database/rows.ts";
import type { ApprovalEvent, Approvals } from "../types.ts";
import type { ReadTransaction } from "./database.ts";
import { toEvent } from "./rows.ts";
import type { Store } from "./store.ts";

export const EVENTS_READ_MAX = 1_000;

export function events({ database, notifier }: Store): Pick<Approvals, "eventsAfter" | "onEvents" | "lastSeq"> {
  return {
    eventsAfter: (seq, limit) => database.read((view) => eventsAfter(view, seq, limit)),
    onEvents: (listener) => notifier.listen(listener),
    lastSeq: () => database.read(lastSeq),
  };
}

export async function eventsAfter(
  { sql }: ReadTransaction,
  seq: number,
  limit: number,
): Promise<readonly ApprovalEvent[]> {
  const count = Math.min(Math.max(Math.floor(limit) || 1, 1), EVENTS_READ_MAX);
  const rows = await sql`SELECT * FROM approval_events WHERE seq > ${Math.floor(seq) || 0} ORDER BY seq LIMIT ${count}`;
  return rows.map(toEvent);
}

/** Reads the counter, not the events table: old events are deleted. */
export async function lastSeq({ sql }: ReadTransaction): Promise<number> {
  const [row = {}] = await sql`SELECT value FROM approval_counters WHERE name = 'events'`;
  return integer(row, "value");
}
