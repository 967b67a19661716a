import type { WriteTransaction } from "../store/database.ts";
import type { Store } from "../store/store.ts";

/** Time for which received ids are kept: longer than twice the accepted clock difference. */
const REMEMBERED_MS = 3_600_000;
const FORGOTTEN_AT_ONCE_MAX = 200;

export type Inbox = ReturnType<typeof inbox>;

/** Stores received messages. Each counts once across all replicas. */
export function inbox({ database }: Pick<Store, "database">) {
  return {
    /** Records a message. Returns false when a message with this id was received before. */
    receive: (webhook: string, id: string): Promise<boolean> => database.write((tx) => recordMessage(tx, webhook, id)),
  };
}

/** Records a message, in the transaction of its decision if it has one. Returns false when it was recorded before. */
export async function recordMessage({ sql, now }: WriteTransaction, webhook: string, id: string): Promise<boolean> {
  await sql`
    DELETE FROM approval_messages WHERE (webhook, id) IN (
      SELECT webhook, id FROM approval_messages WHERE received_at <= ${now - REMEMBERED_MS}
      LIMIT ${FORGOTTEN_AT_ONCE_MAX})`;
  const rows = await sql`
    INSERT INTO approval_messages (webhook, id, received_at) VALUES (${webhook}, ${id}, ${now})
    ON CONFLICT (webhook, id) DO NOTHING RETURNING id`;
  return rows.length === 1;
}
