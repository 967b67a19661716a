import type { EpochMs } from "../core/types.ts";
import type { Row, Sql } from "../database/dialect.ts";
import { integer, oneOf, text } from "../database/rows.ts";
import {
  leaseSize,
  periodAt,
  QUOTA_UNITS,
  type Quota,
  type QuotaPeriod,
  type QuotaUnit,
  type QuotaUser,
  rowKey,
} from "./rules.ts";

/** The part of a quota that its row depends on. `limit`: in the unit's parts. */
export type CountedQuota = Pick<Quota, "name" | "unit" | "window" | "limit">;

/** What a process wants of one row, all at once. Amounts are in the unit's parts. */
export interface UseOrder {
  readonly quota: CountedQuota;
  readonly user: QuotaUser;
  /** What an earlier window or the current one is given back, because nobody uses it. */
  readonly givenBack?: Taken | undefined;
  /** Used without having been taken before; added whatever the limit is. */
  readonly owed: number;
  /** What the waiting calls need: together, and the first of them. `least` 0: nothing is wanted. */
  readonly wanted: number;
  readonly least: number;
  /** Whether more may be taken than the waiting calls need. */
  readonly inBlocks: boolean;
  /** The use as this process knows it. */
  readonly knownUse: number;
}

export interface Taken {
  readonly amount: number;
  readonly startsAt: EpochMs;
  readonly epoch: number;
}

/** How an order was filled. */
export interface Filled extends QuotaPeriod {
  /** Taken from the limit; 0: what the first call needs is not left. */
  readonly granted: number;
  readonly used: number;
  readonly epoch: number;
}

/** Fills orders in one transaction, in the order of the keys: two processes that lock the same rows must not deadlock. */
export async function fill(sql: Sql, now: EpochMs, orders: readonly UseOrder[]): Promise<readonly Filled[]> {
  const keyed = orders.map((order, index) => {
    const period = periodAt(order.quota.window, now);
    return { order, index, period, id: rowKey(order.quota, order.user, period.startsAt) };
  });
  keyed.sort((a, b) => (a.id < b.id ? -1 : 1));
  const filled: Filled[] = [];
  for (const { order, index, period, id } of keyed) {
    const { givenBack, owed, least, user, quota } = order;
    // Only the current window's rest is worth something, so that one row is locked, in the order of the keys.
    if (givenBack !== undefined && givenBack.startsAt === period.startsAt) await giveBack(sql, id, givenBack);
    const row = { sql, id, quota, user, period };
    const after = owed > 0 ? await add(row, owed) : undefined;
    const use = { used: after?.used ?? order.knownUse, epoch: after?.epoch ?? 0, granted: 0 };
    filled[index] = { ...period, ...(least > 0 ? await take(row, order, use) : use) };
  }
  return filled;
}

async function giveBack(sql: Sql, id: string, { amount, epoch }: Taken): Promise<void> {
  await sql`
    UPDATE policy_quota_use SET used = used - ${amount}
    WHERE id = ${id} AND epoch = ${epoch} AND used >= ${amount}`;
}

interface UsedRow {
  readonly sql: Sql;
  readonly id: string;
  readonly quota: CountedQuota;
  readonly user: QuotaUser;
  readonly period: QuotaPeriod;
}

interface Use {
  readonly used: number;
  readonly epoch: number;
}

/** Adds to the row, or creates it. Returns undefined, and changes nothing, when the sum would be more than `limit`. */
async function add(
  { sql, id, quota, user, period }: UsedRow,
  amount: number,
  limit: number = Number.MAX_SAFE_INTEGER,
): Promise<Use | undefined> {
  if (amount > limit) return undefined;
  const { issuer, subject, tool, system } = user;
  const [row] = await sql`
    INSERT INTO policy_quota_use AS kept
      (id, quota, unit, issuer, subject, tool, system, starts_at, ends_at, used, epoch)
    VALUES (${id}, ${quota.name}, ${quota.unit}, ${issuer}, ${subject}, ${tool}, ${system},
      ${period.startsAt}, ${period.endsAt}, ${amount}, 0)
    ON CONFLICT (id) DO UPDATE SET used = kept.used + excluded.used
      WHERE kept.used + excluded.used <= ${limit}
    RETURNING used, epoch`;
  return row && useIn(row);
}

function useIn(row: Row): Use {
  return { used: integer(row, "used"), epoch: integer(row, "epoch") };
}

/** Attempts to take from a row that others change at the same time. */
const ATTEMPTS_MAX = 8;

async function take(
  row: UsedRow,
  { wanted, least, inBlocks, quota: { limit } }: UseOrder,
  known: Use,
): Promise<Use & { readonly granted: number }> {
  let { used, epoch } = known;
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
    const granted = leaseSize({ limit, used, wanted, least, inBlocks });
    const taken = granted > 0 ? await add(row, granted, limit) : undefined;
    if (taken !== undefined) return { ...taken, granted };
    const [found] = await row.sql`SELECT used, epoch FROM policy_quota_use WHERE id = ${row.id}`;
    // What this process knows may be of an earlier window.
    ({ used, epoch } = found === undefined ? { used: 0, epoch: 0 } : useIn(found));
    if (limit - used < least) return { used, epoch, granted: 0 };
  }
  throw new Error("the row of a quota changed each time it was read");
}

/** The quotas and users whose use is read. */
export type UseQuestion = Pick<UseOrder, "quota" | "user">;

/** Returns the use of each in its current window. */
export async function readUse(
  sql: Sql,
  now: EpochMs,
  questions: readonly UseQuestion[],
): Promise<readonly (QuotaPeriod & { readonly used: number })[]> {
  const uses: (QuotaPeriod & { readonly used: number })[] = [];
  for (const { quota, user } of questions) {
    const period = periodAt(quota.window, now);
    const [row] = await sql`SELECT used FROM policy_quota_use WHERE id = ${rowKey(quota, user, period.startsAt)}`;
    uses.push({ ...period, used: row === undefined ? 0 : integer(row, "used") });
  }
  return uses;
}

export type QuotaUseFilter = { readonly [Member in keyof QuotaUser | "quota"]?: string | undefined };

/** One row of the current windows, as it is stored. */
export interface StoredUse extends QuotaUser, QuotaPeriod {
  readonly id: string;
  readonly quota: string;
  readonly unit: QuotaUnit;
  /** In the unit's parts. */
  readonly used: number;
}

/** Where a page ended. */
export type UsePosition = Pick<StoredUse, "quota" | "used" | "id">;

interface Page {
  readonly filter: QuotaUseFilter;
  readonly after?: UsePosition | undefined;
  readonly limit: number;
}

/** Returns the use of the current windows: by quota, the largest first. Use that grows meanwhile may appear twice or not at all. */
export async function listUse(sql: Sql, now: EpochMs, { filter, after, limit }: Page): Promise<readonly StoredUse[]> {
  const isLater =
    after === undefined
      ? sql``
      : sql`AND (quota > ${after.quota} OR (quota = ${after.quota}
          AND (used < ${after.used} OR (used = ${after.used} AND id > ${after.id}))))`;
  const rows = await sql`
    SELECT id, quota, unit, issuer, subject, tool, system, starts_at, ends_at, used FROM policy_quota_use
    WHERE ends_at > ${now} ${matching(sql, filter)} ${isLater}
    ORDER BY quota, used DESC, id LIMIT ${limit}`;
  return [...rows].map((row) => ({
    id: text(row, "id"),
    quota: text(row, "quota"),
    unit: oneOf(row, "unit", QUOTA_UNITS),
    issuer: text(row, "issuer"),
    subject: text(row, "subject"),
    tool: text(row, "tool"),
    system: text(row, "system"),
    startsAt: integer(row, "starts_at"),
    endsAt: integer(row, "ends_at"),
    used: integer(row, "used"),
  }));
}

function matching(sql: Sql, { quota, issuer, subject, tool, system }: QuotaUseFilter) {
  return sql`
    ${quota === undefined ? sql`` : sql`AND quota = ${quota}`}
    ${issuer === undefined ? sql`` : sql`AND issuer = ${issuer}`}
    ${subject === undefined ? sql`` : sql`AND subject = ${subject}`}
    ${tool === undefined ? sql`` : sql`AND tool = ${tool}`}
    ${system === undefined ? sql`` : sql`AND system = ${system}`}`;
}

/** Maximum number of rows that one statement changes. */
export const ROWS_MAX = 100;

/** Sets up to `ROWS_MAX` rows of the current windows to zero, in the order of their keys. Returns their keys. */
export async function resetUse(
  sql: Sql,
  now: EpochMs,
  { filter, after }: { readonly filter: QuotaUseFilter; readonly after: string },
): Promise<readonly string[]> {
  const rows = await sql`
    UPDATE policy_quota_use SET used = 0, epoch = epoch + 1
    WHERE id IN (
      SELECT id FROM policy_quota_use WHERE id > ${after} AND ends_at > ${now} ${matching(sql, filter)}
      ORDER BY id LIMIT ${ROWS_MAX})
    RETURNING id`;
  return [...rows].map((row) => text(row, "id")).sort();
}

const KEPT_MS = 86_400_000;

/** Deletes up to `ROWS_MAX` rows of windows that ended a day ago. Returns how many. */
export async function sweepUse(sql: Sql, now: EpochMs): Promise<number> {
  const rows = await sql`
    DELETE FROM policy_quota_use
    WHERE id IN (SELECT id FROM policy_quota_use WHERE ends_at <= ${now - KEPT_MS} LIMIT ${ROWS_MAX})
    RETURNING id`;
  return rows.length;
}
