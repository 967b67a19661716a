import { readVotes, type Vote } from "../policies/requirement.ts";
import type { View } from "../store/database.ts";
import { integer, optionalInteger, text } from "../store/rows.ts";
import type { Row } from "../store/sql.ts";
import type { Store } from "../store/store.ts";
import { type ApprovalReport, reportOf } from "./report.ts";

/** Of one report, the newest first: older ones are left out, and the report says so. */
const ROWS_MAX = 10_000;
/** Of one look: calls go on in between. */
const PAGE_ROWS = 250;

/** Milliseconds since 1970; `to` is no longer in it. */
export interface ReportRange {
  readonly from: number;
  readonly to: number;
}

export type MakeReport = (range: ReportRange) => Promise<ApprovalReport>;

/** What became of one question, without what it was about. */
export interface ReportRow {
  readonly tool: string;
  readonly category: string;
  readonly classification: string;
  readonly risk: string;
  /** Empty: none that the service trusts. */
  readonly session: string;
  readonly requester: string;
  readonly grantKey: string | undefined;
  readonly offersSession: boolean;
  readonly state: string;
  readonly isYes: boolean;
  readonly scope: string | undefined;
  readonly createdAt: number;
  readonly decidedAt: number | undefined;
  readonly decider: { readonly issuer: string; readonly subject: string } | undefined;
  /** Each yes on the way, where a policy wanted several; the last one is the decider's. */
  readonly votes: readonly Pick<Vote, "issuer" | "subject" | "at">[];
}

export function reports({ database }: Pick<Store, "database">): MakeReport {
  return async (range) => {
    const rows: ReportRow[] = [];
    let before: { readonly createdAt: number; readonly id: string } | undefined;
    for (;;) {
      const page: readonly Row[] = await database.read((view) => readPage(view, range, before));
      rows.push(...page.map(toReportRow));
      const last = page.at(-1);
      if (last === undefined || page.length < PAGE_ROWS || rows.length > ROWS_MAX) break;
      before = { createdAt: integer(last, "created_at"), id: text(last, "id") };
    }
    return reportOf(rows.slice(0, ROWS_MAX), { ...range, isWhole: rows.length <= ROWS_MAX });
  };
}

async function readPage(
  { sql }: View,
  { from, to }: ReportRange,
  before: { readonly createdAt: number; readonly id: string } | undefined,
): Promise<readonly Row[]> {
  const at = before?.createdAt ?? to;
  return sql`
    SELECT id, tool, category, classification, risk, session, issuer, subject, grant_key, scopes, state, scope,
      created_at, decided_at, decided_issuer, decided_subject, votes
    FROM approvals
    WHERE created_at >= ${from} AND (created_at < ${at} OR (created_at = ${at} AND id < ${before?.id ?? ""}))
    ORDER BY created_at DESC, id DESC LIMIT ${PAGE_ROWS}`;
}

function toReportRow(row: Row): ReportRow {
  const decidedAt = optionalInteger(row, "decided_at");
  const scope = row["scope"] === null ? undefined : text(row, "scope");
  return {
    ...{ tool: text(row, "tool"), category: text(row, "category"), classification: text(row, "classification") },
    ...{ risk: text(row, "risk"), session: text(row, "session"), state: text(row, "state"), scope, decidedAt },
    requester: JSON.stringify([text(row, "issuer"), text(row, "subject")]),
    grantKey: row["grant_key"] === null ? undefined : text(row, "grant_key"),
    offersSession: text(row, "scopes").includes('"session"'),
    isYes: decidedAt !== undefined && text(row, "state") !== "denied",
    createdAt: integer(row, "created_at"),
    decider:
      decidedAt === undefined || row["decided_issuer"] === null
        ? undefined
        : { issuer: text(row, "decided_issuer"), subject: text(row, "decided_subject") },
    votes: row["votes"] === "[]" ? [] : (readVotes(JSON.parse(text(row, "votes"))) ?? []),
  };
}
