import type { WriteTransaction } from "../store/database.ts";
import type { Store } from "../store/store.ts";

/** Longer than a message's time may be from ours, both ways. */
const REMEMBERED_MS = 3_600_000;
const FORGOTTEN_AT_ONCE_MAX = 200;

/** Which messages came in: each counts once, whichever replica it reaches. One that decides is taken with its decision. */
export interface Inbox {
  /** False when a message of this id was received before. */
  receive(webhook: string, id: string): Promise<boolean>;
}

export function inbox({ database }: Pick<Store, "database">): Inbox {
  return { receive: (webhook, id) => database.write((tx) => takeMessage(tx, webhook, id)) };
}

/** False when it was taken before. */
export async function takeMessage({ sql, now }: WriteTransaction, webhook: string, id: string): Promise<boolean> {
  await sql`
    DELETE FROM approval_messages WHERE (webhook, id) IN (
      SELECT webhook, id FROM approval_messages WHERE received_at <= ${now - REMEMBERED_MS}
      LIMIT ${FORGOTTEN_AT_ONCE_MAX})`;
  const rows = await sql`
    INSERT INTO approval_messages (webhook, id, received_at) VALUES (${webhook}, ${id}, ${now})
    ON CONFLICT (webhook, id) DO NOTHING RETURNING id`;
  return rows.length === 1;
}
