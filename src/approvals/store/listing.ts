import type { Approval, ApprovalFilter, ApprovalPage, Approvals } from "../types.ts";
import type { View } from "./database.ts";
import { toApproval } from "./rows.ts";
import type { Store } from "./store.ts";

const PAGE_MAX = 200;
/** When it was made and its id: what the order is by. */
const CURSOR = /^([0-9]{1,16})\.([A-Za-z0-9_-]{1,64})$/;

export function listing({ database }: Store): Pick<Approvals, "get" | "list"> {
  return {
    get: (id) => database.read((view) => get(view, id)),
    list: (filter) => database.read((view) => list(view, filter)),
  };
}

export async function get({ sql, now }: View, id: string): Promise<Approval | undefined> {
  const [row] = await sql`SELECT * FROM approvals WHERE id = ${id}`;
  return row === undefined ? undefined : toApproval(row, now);
}

async function list({ sql, now }: View, filter: ApprovalFilter): Promise<ApprovalPage> {
  const from = positionOf(filter.cursor);
  if (from === undefined) return { approvals: [], cursor: undefined };
  const limit = Math.min(Math.max(Math.floor(filter.limit) || 1, 1), PAGE_MAX);
  const { requester } = filter;
  const whose =
    requester === undefined ? sql`1 = 1` : sql`issuer = ${requester.issuer} AND subject = ${requester.subject}`;
  const rows = await sql`
    SELECT * FROM approvals
    WHERE ${whose} AND ${stands({ sql, now }, filter.state)}
      AND (created_at < ${from.createdAt} OR (created_at = ${from.createdAt} AND id < ${from.id}))
    ORDER BY created_at DESC, id DESC LIMIT ${limit + 1}`;
  const approvals = rows.slice(0, limit).map((row) => toApproval(row, now));
  const last = approvals.at(-1);
  const hasMore = rows.length > limit && last !== undefined;
  return { approvals, cursor: hasMore ? `${last.createdAt}.${last.id}` : undefined };
}

/** As `toApproval` tells it: out of time is expired. */
function stands({ sql, now }: View, state: ApprovalFilter["state"]): unknown {
  if (state === undefined) return sql`1 = 1`;
  if (state === "pending") return sql`state = 'pending' AND decide_by > ${now}`;
  if (state === "approved") return sql`state = 'approved' AND execute_by > ${now}`;
  if (state !== "expired") return sql`state = ${state}`;
  return sql`(state = 'expired' OR (state = 'pending' AND decide_by <= ${now}) OR (state = 'approved' AND execute_by <= ${now}))`;
}

/** After everything for the first page; undefined for what is no cursor of ours, and nothing comes after that. */
function positionOf(cursor: string | undefined): { readonly createdAt: number; readonly id: string } | undefined {
  if (cursor === undefined) return { createdAt: Number.MAX_SAFE_INTEGER, id: "" };
  const [, createdAt, id] = CURSOR.exec(cursor) ?? [];
  return createdAt === undefined || id === undefined ? undefined : { createdAt: Number(createdAt), id };
}
