import { singleStatements } from "../../database/postgres-approvals.ts";
import { ANSWER_MS_MAX, type RateTable, type SharedCharge } from "./rates-shared.ts";

const US_PER_MS = 1_000;
/** Every n-th statement also deletes buckets that have long been empty. */
const SWEEP_EVERY_STATEMENTS = 600;
const DELETE_AFTER_SECONDS = 86_400;

/**
 * Opens the buckets in a table of their own, which holds no names. The table does not survive a crash of the server, because an
 * empty bucket is harmless. The clock is the server's. Rejected: rate-limiter-flexible's PostgreSQL store, which needs
 * another client, counts fixed windows and queries the database in every call.
 */
export function openRateTable(url: string, tenant?: string): RateTable {
  let opened: ReturnType<typeof singleStatements> | undefined;
  let isOpen = false;
  let statements = 0;

  const close = async (): Promise<void> => {
    const lost = opened;
    opened = undefined;
    isOpen = false;
    await lost?.close();
  };

  const run: ReturnType<typeof singleStatements>["run"] = (work) => {
    opened ??= singleStatements(url, { tenant, limitMs: ANSWER_MS_MAX });
    return opened.run(work);
  };

  const open = async (): Promise<void> => {
    if (isOpen) return;
    // When several replicas create the table at once, all but one may fail: they find it at their second attempt.
    await run(createTable).catch(() => run(createTable));
    isOpen = true;
  };

  return {
    keeper: "the database",
    open,
    async add(charges) {
      await open();
      return run(async (sql) => {
        statements += 1;
        if (statements % SWEEP_EVERY_STATEMENTS === 0) await sweep(sql);
        return addAll(sql, charges);
      });
    },
    close,
  };
}

/** Creates the table if it is missing. Otherwise, a role without the right to create tables is enough, unlike with `IF NOT EXISTS` alone. */
async function createTable(sql: Bun.SQL): Promise<void> {
  const [found]: readonly { readonly made: boolean }[] =
    await sql`SELECT to_regclass('call_rates') IS NOT NULL AS made`;
  if (found?.made === true) return;
  await sql`
    CREATE UNLOGGED TABLE IF NOT EXISTS call_rates (
      bucket text PRIMARY KEY, empty_at bigint NOT NULL, added bigint NOT NULL)`;
}

async function sweep(sql: Bun.SQL): Promise<void> {
  await sql`
    DELETE FROM call_rates
    WHERE empty_at < (extract(epoch FROM statement_timestamp()) - ${DELETE_AFTER_SECONDS}::int) * 1000000`;
}

/** Adds all charges, ordered by bucket: two replicas that lock the same rows must not deadlock. */
async function addAll(sql: Bun.SQL, charges: readonly SharedCharge[]): Promise<readonly number[]> {
  const rows = charges.map(({ bucket, addedMs }) => ({ bucket, added: Math.ceil(addedMs * US_PER_MS) }));
  const filled: readonly { readonly bucket: string; readonly filled: unknown }[] = await sql`
    WITH at AS MATERIALIZED (SELECT floor(extract(epoch FROM statement_timestamp()) * 1000000)::bigint AS now)
    INSERT INTO call_rates AS kept (bucket, empty_at, added)
    SELECT new.bucket, at.now + new.added, new.added
    FROM at, json_to_recordset(${JSON.stringify(rows)}::text::json) AS new (bucket text, added bigint)
    ORDER BY new.bucket
    ON CONFLICT (bucket) DO UPDATE SET
      added = excluded.added,
      empty_at = GREATEST(kept.empty_at, excluded.empty_at - excluded.added) + excluded.added
    RETURNING bucket, (empty_at - floor(extract(epoch FROM statement_timestamp()) * 1000000)::bigint)::text AS filled`;
  const byBucket = new Map(filled.map(({ bucket, filled: us }) => [bucket, Number(us) / US_PER_MS]));
  return charges.map(({ bucket }) => byBucket.get(bucket) ?? 0);
}
