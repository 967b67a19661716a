import { integer, optionalText, text } from "../../database/rows.ts";
import type { Approval, ApprovalFilter, ApprovalPage, Approvals, Backlog, EarlierDecision } from "../types.ts";
import type { ReadTransaction } from "./database.ts";
import { toApproval } from "./rows.ts";
import type { Store } from "./store.ts";
import { isOwn } from "./transitions.ts";

const PAGE_MAX = 200;
const EARLIER_DECISIONS_MAX = 5;
/** Creation time and id of the last approval on a page: the sort key. */
const CURSOR = /^([0-9]{1,16})\.([A-Za-z0-9_-]{1,64})$/;

export function listing({
  database,
  member,
}: Store): Pick<Approvals, "get" | "ageOf" | "list" | "backlog" | "earlierDecisions"> {
  return {
    get: (id) => database.read((view) => get(view, id)),
    ageOf: (id) =>
      database.read(async (view) => {
        const approval = await get(view, id);
        return approval && view.now - approval.createdAt;
      }),
    list: (filter) => database.read((view) => list(view, filter, member)),
    backlog: () => database.read((view) => backlog(view, member)),
    earlierDecisions: (of) => database.read((view) => earlierDecisions(view, of)),
  };
}

/** Selects the columns of a decision alone: views may be large. */
async function earlierDecisions(
  { sql }: ReadTransaction,
  { id, tool }: Pick<Approval, "id" | "tool">,
): Promise<readonly EarlierDecision[]> {
  const rows = await sql`
    SELECT id, state, decided_at, decided_issuer, decided_subject, decision_reason FROM approvals
    WHERE tool = ${tool} AND decided_at IS NOT NULL AND decided_issuer IS NOT NULL AND id <> ${id}
    ORDER BY decided_at DESC, id DESC LIMIT ${EARLIER_DECISIONS_MAX}`;
  return rows.map((row) => ({
    id: text(row, "id"),
    decision: text(row, "state") === "denied" ? "deny" : "approve",
    at: integer(row, "decided_at"),
    by: { issuer: text(row, "decided_issuer"), subject: text(row, "decided_subject") },
    reason: optionalText(row, "decision_reason"),
  }));
}

async function backlog({ sql, now }: ReadTransaction, member: string | undefined): Promise<Backlog> {
  const [row = {}] = await sql`
    SELECT COUNT(*) AS waiting, COALESCE(MIN(created_at), ${now}) AS oldest FROM approvals
    WHERE ${isInState({ sql, now }, "pending")} AND ${isOf({ sql, now }, member)}`;
  return { waiting: integer(row, "waiting"), oldestMs: now - integer(row, "oldest") };
}

export async function get({ sql, now }: ReadTransaction, id: string): Promise<Approval | undefined> {
  const [row] = await sql`SELECT * FROM approvals WHERE id = ${id}`;
  return row === undefined ? undefined : toApproval(row, now);
}

async function list(
  { sql, now }: ReadTransaction,
  filter: ApprovalFilter,
  member: string | undefined,
): Promise<ApprovalPage> {
  const from = positionOf(filter.cursor);
  if (from === undefined) return { approvals: [], cursor: undefined };
  const limit = Math.min(Math.max(Math.floor(filter.limit) || 1, 1), PAGE_MAX);
  const { requester } = filter;
  const whose =
    requester === undefined ? sql`1 = 1` : sql`issuer = ${requester.issuer} AND subject = ${requester.subject}`;
  const rows = await sql`
    SELECT * FROM approvals
    WHERE ${whose} AND ${isOf({ sql, now }, member)} AND ${isInState({ sql, now }, filter.state)}
      AND (created_at < ${from.createdAt} OR (created_at = ${from.createdAt} AND id < ${from.id}))
    ORDER BY created_at DESC, id DESC LIMIT ${limit + 1}`;
  const approvals = rows.slice(0, limit).map((row) => toApproval(row, now));
  const last = approvals.at(-1);
  const hasMore = rows.length > limit && last !== undefined;
  return { approvals, cursor: hasMore ? `${last.createdAt}.${last.id}` : undefined };
}

/** Without a member of the hub: of all. */
function isOf(view: ReadTransaction, member: string | undefined): unknown {
  return member === undefined ? view.sql`1 = 1` : isOwn(view, member);
}

/** Filters by state as `toApproval` reports it: past its deadline means expired. */
function isInState({ sql, now }: ReadTransaction, state: ApprovalFilter["state"]): unknown {
  if (state === undefined) return sql`1 = 1`;
  if (state === "pending") return sql`state = 'pending' AND decide_by > ${now}`;
  if (state === "approved") return sql`state = 'approved' AND execute_by > ${now}`;
  if (state !== "expired") return sql`state = ${state}`;
  return sql`(state = 'expired' OR (state = 'pending' AND decide_by <= ${now}) OR (state = 'approved' AND execute_by <= ${now}))`;
}

/** Returns where the page starts: at the newest approval without a cursor; undefined (an empty page) for an invalid cursor. */
function positionOf(cursor: string | undefined): { readonly createdAt: number; readonly id: string } | undefined {
  if (cursor === undefined) return { createdAt: Number.MAX_SAFE_INTEGER, id: "" };
  const [, createdAt, id] = CURSOR.exec(cursor) ?? [];
  return createdAt === undefined || id === undefined ? undefined : { createdAt: Number(createdAt), id };
}
