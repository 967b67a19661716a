import type { Store } from "../store/store.ts";

/** Longer than a message's time may be from ours, both ways. */
const REMEMBERED_MS = 3_600_000;
const FORGOTTEN_AT_ONCE_MAX = 200;

/** Which messages came in: each counts once, whichever replica it reaches. */
export interface Inbox {
  /** False when a message of this id was received before. */
  receive(webhook: string, id: string): Promise<boolean>;
  /** Nothing came of it, through no fault of its own: it may come again. */
  putBack(webhook: string, id: string): Promise<void>;
}

export function inbox({ database }: Pick<Store, "database">): Inbox {
  return {
    receive: (webhook, id) =>
      database.write(async ({ sql, now }) => {
        await sql`
          DELETE FROM approval_messages WHERE (webhook, id) IN (
            SELECT webhook, id FROM approval_messages WHERE received_at <= ${now - REMEMBERED_MS}
            LIMIT ${FORGOTTEN_AT_ONCE_MAX})`;
        const rows = await sql`
          INSERT INTO approval_messages (webhook, id, received_at) VALUES (${webhook}, ${id}, ${now})
          ON CONFLICT (webhook, id) DO NOTHING RETURNING id`;
        return rows.length === 1;
      }),
    putBack: (webhook, id) =>
      database.write(async ({ sql }) => {
        await sql`DELETE FROM approval_messages WHERE webhook = ${webhook} AND id = ${id}`;
      }),
  };
}
