import { readVotes, type Vote } from "../policies/requirement.ts";
import type { ApprovalJournalLine, ReadTransaction, Row } from "../store/database.ts";
import { integer, optionalInteger, text } from "../store/rows.ts";
import type { Store } from "../store/store.ts";
import type { Approvals } from "../types.ts";

const HOUR_MS = 3_600_000;
const MS_PER_SECOND = 1_000;
/** An approver who decides sooner has not read the request. */
const HASTY_MS = 2_000;
const LISTED_MAX = 100;

/** Thresholds beyond which approvers probably no longer read requests. Fewer decisions than `decidedMin` raise no alert. */
const ALERTS = { decidedMin: 20, approvalRateMax: 0.95, hastyShareMax: 0.5 } as const;

type Alert = "approval_rate" | "hasty_share";

/** Statistics of decisions. Rates and shares are from 0 to 1; undefined without decisions. */
export interface Decisions {
  readonly approved: number;
  readonly denied: number;
  readonly approvalRate: number | undefined;
  readonly medianSeconds: number | undefined;
  readonly p90Seconds: number | undefined;
  /** Share of decisions made in less than two seconds. */
  readonly hastyShare: number | undefined;
  readonly alerts: readonly Alert[];
}

interface ToolReport extends Decisions {
  readonly tool: string;
  readonly asked: number;
  readonly expired: number;
}

interface ApproverReport extends Decisions {
  readonly issuer: string;
  readonly subject: string;
  /** Average number of decisions per clock hour, counting only hours with decisions; and the highest number in one hour. */
  readonly perHour: number;
  readonly busiestHour: number;
}

/** Report on the decisions of a period. Times are in Unix milliseconds. */
export interface ApprovalReport extends Decisions {
  readonly from: number;
  readonly to: number;
  /** False when older requests of the period are left out. */
  readonly isWhole: boolean;
  readonly asked: number;
  readonly pending: number;
  /** Requests that nobody decided in time. */
  readonly expired: number;
  readonly cancelled: number;
  /** Tools with the most requests first. */
  readonly tools: readonly ToolReport[];
  readonly deciders: readonly ApproverReport[];
  readonly suggestions: readonly Suggestion[];
}

interface ReportFrame {
  readonly from: number;
  readonly to: number;
  readonly isWhole: boolean;
}

export function reportOf(rows: readonly ReportRow[], { from, to, isWhole }: ReportFrame): ApprovalReport {
  const inState = (state: string): number => rows.filter((row) => row.state === state).length;
  return {
    ...{ from, to, isWhole, asked: rows.length, pending: inState("pending"), cancelled: inState("cancelled") },
    expired: unanswered(rows),
    ...decisionsOf(rows),
    tools: largest(Map.groupBy(rows, ({ tool }) => tool)).map(([tool, own]) => ({
      ...{ tool, asked: own.length, expired: unanswered(own) },
      ...decisionsOf(own),
    })),
    deciders: approverReports(rows),
    suggestions: suggestionsOf(rows),
  };
}

function unanswered(rows: readonly ReportRow[]): number {
  return rows.filter(({ state, decidedAt }) => state === "expired" && decidedAt === undefined).length;
}

function approverReports(rows: readonly ReportRow[]): readonly ApproverReport[] {
  const decided = rows.flatMap(decisionsIn);
  const byPerson = Map.groupBy(decided, ({ approver }) => JSON.stringify([approver?.issuer, approver?.subject]));
  return largest(byPerson).flatMap(([, own]) => {
    const approver = own[0]?.approver;
    if (approver === undefined) return [];
    const hours = Map.groupBy(own, ({ decidedAt = 0 }) => Math.floor(decidedAt / HOUR_MS));
    const busiestHour = Math.max(...[...hours.values()].map((hour) => hour.length));
    return [{ ...approver, ...decisionsOf(own), perHour: rounded(own.length / hours.size), busiestHour }];
  });
}

/** Returns every person's decision: the votes, and the final decision when it is not one of the votes. */
function decisionsIn(row: ReportRow): readonly ReportRow[] {
  const approvals = row.votes.map(({ at, ...approver }) => ({ ...row, approver, decidedAt: at, isApproved: true }));
  const isVote = row.approver === undefined || (row.isApproved && approvals.length > 0);
  return isVote ? approvals : [...approvals, row];
}

function decisionsOf(rows: readonly ReportRow[]): Decisions {
  const decided = rows.filter(({ decidedAt }) => decidedAt !== undefined);
  const approved = decided.filter(({ isApproved }) => isApproved).length;
  const times = decided.map(({ createdAt, decidedAt = 0 }) => Math.max(0, decidedAt - createdAt)).sort((a, b) => a - b);
  const approvalRate = shareOf(approved, decided.length);
  const hastyShare = shareOf(times.filter((ms) => ms < HASTY_MS).length, decided.length);
  const isEnough = decided.length >= ALERTS.decidedMin;
  return {
    ...{ approved, denied: decided.length - approved, approvalRate, hastyShare },
    ...{ medianSeconds: secondsAt(times, 0.5), p90Seconds: secondsAt(times, 0.9) },
    alerts: [
      ...(isEnough && (approvalRate ?? 0) > ALERTS.approvalRateMax ? (["approval_rate"] as const) : []),
      ...(isEnough && (hastyShare ?? 0) > ALERTS.hastyShareMax ? (["hasty_share"] as const) : []),
    ],
  };
}

function largest(groups: Map<string, ReportRow[]>): readonly (readonly [string, readonly ReportRow[]])[] {
  return [...groups].sort(([, a], [, b]) => b.length - a.length).slice(0, LISTED_MAX);
}

function shareOf(part: number, whole: number): number | undefined {
  return whole === 0 ? undefined : part / whole;
}

/** Returns the smallest time, in seconds, within which the given share was decided. */
function secondsAt(sorted: readonly number[], share: number): number | undefined {
  const ms = sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)];
  return ms === undefined ? undefined : rounded(ms / MS_PER_SECOND);
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}

/** Rows of one report, newest first; older rows are left out, and the report says so. */
const ROWS_MAX = 10_000;
/** Rows per read transaction: calls can proceed in between. */
const PAGE_ROWS = 250;

/** Unix milliseconds; `to` is exclusive. */
interface ReportRange {
  readonly from: number;
  readonly to: number;
}

export type MakeReport = (range: ReportRange) => Promise<ApprovalReport>;

/** An approval request and its outcome, without its contents. */
export type ReportRow = ReturnType<typeof toReportRow>;

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
  { sql }: ReadTransaction,
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

function toReportRow(row: Row) {
  const decidedAt = optionalInteger(row, "decided_at");
  const isByPerson = decidedAt !== undefined && row["decided_issuer"] !== null;
  const votes: readonly Pick<Vote, "issuer" | "subject" | "at">[] =
    row["votes"] === "[]" ? [] : (readVotes(JSON.parse(text(row, "votes"))) ?? []);
  return {
    ...{ tool: text(row, "tool"), category: text(row, "category"), classification: text(row, "classification") },
    ...{ risk: text(row, "risk"), state: text(row, "state"), decidedAt },
    scope: row["scope"] === null ? undefined : text(row, "scope"),
    /** Empty when there is no trusted session. */
    session: text(row, "session"),
    requester: JSON.stringify([text(row, "issuer"), text(row, "subject")]),
    grantKey: row["grant_key"] === null ? undefined : text(row, "grant_key"),
    offersSession: text(row, "scopes").includes('"session"'),
    isApproved: decidedAt !== undefined && text(row, "state") !== "denied",
    createdAt: integer(row, "created_at"),
    approver: isByPerson ? { issuer: text(row, "decided_issuer"), subject: text(row, "decided_subject") } : undefined,
    /** All votes; empty unless a policy required several. The last vote of an approved request is that of `approver`. */
    votes,
  };
}

/** Minimum number of requests, all approved, for a suggestion. */
const SAME_CALL_MIN = 3;
const READ_TOOL_MIN = 5;
const SESSION_WRITES_MIN = 10;
const SUGGESTIONS_MAX = 20;

/** A suggested rule that would have avoided requests that were always approved. People decide whether to adopt it. */
interface Suggestion {
  /**
   * `session_scope`: the same call was repeated in one session; approve it for the session. `read_tool`: a read-only tool needed
   * approvals; review the rules that require them. `auto_edit`: many writes in one session; set its mode to autoEdit for a while.
   */
  readonly kind: "session_scope" | "read_tool" | "auto_edit";
  readonly tool: string | undefined;
  readonly prompts: number;
}

/** Ignores high-risk and destructive calls, which always need an approval. */
function suggestionsOf(rows: readonly ReportRow[]): readonly Suggestion[] {
  const remembered = rows.filter(({ risk, classification }) => isOrdinary(risk) && classification !== "destructive");
  return [...sameCalls(remembered), ...readTools(remembered), ...sessionWrites(remembered)]
    .sort((a, b) => b.prompts - a.prompts)
    .slice(0, SUGGESTIONS_MAX);
}

function isOrdinary(risk: string): boolean {
  return risk === "low" || risk === "medium";
}

function sameCalls(rows: readonly ReportRow[]): readonly Suggestion[] {
  const askable = rows.filter(
    ({ grantKey, offersSession, session }) => grantKey !== undefined && offersSession && session !== "",
  );
  const groups = Map.groupBy(askable, ({ requester, session, grantKey }) =>
    JSON.stringify([requester, session, grantKey]),
  );
  return byTool("session_scope", [...groups.values()].filter(alwaysApproved(SAME_CALL_MIN)));
}

function readTools(rows: readonly ReportRow[]): readonly Suggestion[] {
  const reads = rows.filter(({ classification }) => classification === "read");
  const groups = Map.groupBy(reads, ({ tool }) => tool);
  return [...groups]
    .filter(([, own]) => alwaysApproved(READ_TOOL_MIN)(own))
    .map(([tool, own]) => ({ kind: "read_tool", tool, prompts: own.length }));
}

function sessionWrites(rows: readonly ReportRow[]): readonly Suggestion[] {
  const writes = rows.filter(({ category, session }) => category === "write" && session !== "");
  const groups = Map.groupBy(writes, ({ requester, session }) => JSON.stringify([requester, session]));
  return [...groups.values()]
    .filter(alwaysApproved(SESSION_WRITES_MIN))
    .map((own) => ({ kind: "auto_edit", tool: undefined, prompts: own.length }));
}

/** Counts all requests of each group but the first, which would still have been needed. */
function byTool(kind: Suggestion["kind"], groups: readonly (readonly ReportRow[])[]): readonly Suggestion[] {
  const tools = Map.groupBy(groups, ([first]) => first?.tool ?? "");
  return [...tools].map(([tool, own]) => ({
    ...{ kind, tool, prompts: own.reduce((sum, group) => sum + group.length - 1, 0) },
  }));
}

/** Returns a filter for groups in which every request was approved with scope `once`. */
function alwaysApproved(min: number): (rows: readonly ReportRow[]) => boolean {
  return (rows) => rows.length >= min && rows.every(({ isApproved, scope }) => isApproved && scope === "once");
}

/** Bucket bounds for the time to decide, in seconds. The bound 2 separates decisions made without reading. */
export const DECISION_SECONDS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600] as const;

export interface Tally {
  /** Counts by outcome: `approved`, `denied`, `cancelled`, `revoked`, `expired`. */
  readonly ended: ReadonlyMap<string, number>;
  /** Escalation steps by policy. */
  readonly escalated: ReadonlyMap<string, number>;
  /** Decisions per bucket of `DECISION_SECONDS`; the last bucket is unbounded. */
  readonly decisionCounts: readonly number[];
  readonly decisionSecondsSum: number;
}

/** Counts decisions of this process. Other replicas count their own. */
export class DecisionTally implements Tally {
  readonly ended = new Map<string, number>();
  readonly escalated = new Map<string, number>();
  readonly decisionCounts: number[] = Array.from({ length: DECISION_SECONDS.length + 1 }, () => 0);
  decisionSecondsSum = 0;

  counted({ decide, cancel, revoke }: Approvals): Pick<Approvals, "decide" | "cancel" | "revoke"> {
    return {
      decide: async (decision) => {
        const decided = await decide(decision);
        if (decided.outcome === "decided") {
          const { createdAt, decidedAt = createdAt } = decided.approval;
          this.#add(decision.decision === "approve" ? "approved" : "denied");
          this.#observe((decidedAt - createdAt) / MS_PER_SECOND);
        }
        return decided;
      },
      cancel: async (id, requester) => {
        const cancelled = await cancel(id, requester);
        if (cancelled !== undefined) this.#add("cancelled");
        return cancelled;
      },
      revoke: async (id, by) => {
        const revoked = await revoke(id, by);
        if (revoked !== undefined) this.#add("revoked");
        return revoked;
      },
    };
  }

  /** Counts expirations and escalations from journal lines, their only source. */
  noteLine({ type, ...line }: ApprovalJournalLine): void {
    if (type === "approval.expired") this.#add("expired");
    const { policy } = line;
    if (type === "approval.escalated" && typeof policy === "string")
      this.escalated.set(policy, (this.escalated.get(policy) ?? 0) + 1);
  }

  #add(outcome: string): void {
    this.ended.set(outcome, (this.ended.get(outcome) ?? 0) + 1);
  }

  #observe(seconds: number): void {
    const bucket = DECISION_SECONDS.findIndex((bound) => seconds <= bound);
    const at = bucket === -1 ? DECISION_SECONDS.length : bucket;
    this.decisionCounts[at] = (this.decisionCounts[at] ?? 0) + 1;
    this.decisionSecondsSum += seconds;
  }
}
