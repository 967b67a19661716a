import type { ApprovalReport, ApproverHour, Decisions, ReportHour } from "../../core/api/report.ts";
import type { Row } from "../../database/dialect.ts";
import { integer, optionalInteger, text } from "../../database/rows.ts";
import { escalatedRequirement } from "../approver-policies/escalation.ts";
import {
  type Requirement,
  readEscalations,
  readRequirement,
  readVotes,
  type Vote,
} from "../approver-policies/requirement.ts";
import { approversOf } from "../approver-policies/supply.ts";
import { type Approver, isAmongRequesters } from "../identities.ts";
import type { ReadTransaction } from "../store/database.ts";
import type { Store } from "../store/store.ts";
import { QUICK_MS } from "./tally.ts";

const HOUR_MS = 3_600_000;
const MS_PER_SECOND = 1_000;
const LISTED_MAX = 100;
/** Approvers of all hours together; older hours are left out. */
const HOURLY_MAX = 2_000;

/** Thresholds beyond which approvers probably no longer read requests. Fewer decisions than `decidedMin` raise no alert. */
const ALERTS = { decidedMin: 20, approvalRateMax: 0.95, hastyShareMax: 0.5 } as const;

/** The part of a report that the approvals know: everything but the dry runs. */
type OwnReport = Omit<ApprovalReport, "dryRuns">;

interface ReportFrame {
  readonly from: number;
  readonly to: number;
  readonly isWhole: boolean;
}

export function reportOf(rows: readonly ReportRow[], { from, to, isWhole }: ReportFrame): OwnReport {
  return {
    from: iso(from),
    to: iso(to),
    isWhole,
    asked: rows.length,
    pending: undecided(rows, "pending"),
    expired: undecided(rows, "expired"),
    cancelled: undecided(rows, "cancelled"),
    ...decisionsOf(rows),
    tools: largest(Map.groupBy(rows, ({ tool }) => tool)).map(([tool, own]) => ({
      tool,
      asked: own.length,
      expired: undecided(own, "expired"),
      ...decisionsOf(own),
    })),
    deciders: approverReports(rows),
    hours: hourReports(rows),
    suggestions: suggestionsOf(rows),
  };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

/** Counts requests without a decision, by state. One that was approved and cancelled afterwards counts as approved. */
function undecided(rows: readonly ReportRow[], wanted: string): number {
  return rows.filter(({ state, decidedAt }) => state === wanted && decidedAt === undefined).length;
}

function approverReports(rows: readonly ReportRow[]): OwnReport["deciders"] {
  const decided = rows.flatMap(decisionsIn);
  const byPerson = Map.groupBy(decided, ({ approver }) => JSON.stringify([approver?.issuer, approver?.subject]));
  return largest(byPerson).flatMap(([, own]) => {
    const approver = own[0]?.approver;
    if (approver === undefined) return [];
    const hours = Map.groupBy(own, ({ decidedAt = 0 }) => Math.floor(decidedAt / HOUR_MS));
    const busiestHour = Math.max(...[...hours.values()].map((hour) => hour.length));
    const { issuer: iss, subject: sub } = approver;
    return [{ iss, sub, perHour: rounded(own.length / hours.size), busiestHour, ...decisionsOf(own) }];
  });
}

interface PersonsHour {
  readonly approver: Approver;
  asked: number;
  readonly decided: ReportRow[];
}

function hourReports(rows: readonly ReportRow[]): readonly ReportHour[] {
  const hours = new Map<number, { asked: number; decided: number; readonly people: Map<string, PersonsHour> }>();
  const hourAt = (ms: number) => {
    const hour = Math.floor(ms / HOUR_MS);
    const found = hours.get(hour) ?? { asked: 0, decided: 0, people: new Map<string, PersonsHour>() };
    hours.set(hour, found);
    return found;
  };
  const personAt = (ms: number, { issuer, subject }: Approver) => {
    const { people } = hourAt(ms);
    const key = JSON.stringify([issuer, subject]);
    const found = people.get(key) ?? { approver: { issuer, subject }, asked: 0, decided: [] };
    people.set(key, found);
    return found;
  };
  for (const row of rows) {
    hourAt(row.createdAt).asked += 1;
    const asked = new Set(row.named.map((one) => personAt(row.createdAt, one)));
    for (const decision of decisionsIn(row)) {
      const { approver, decidedAt } = decision;
      if (approver === undefined || decidedAt === undefined) continue;
      asked.add(personAt(row.createdAt, approver));
      hourAt(decidedAt).decided += 1;
      personAt(decidedAt, approver).decided.push(decision);
    }
    for (const person of asked) person.asked += 1;
  }
  const shown: ReportHour[] = [];
  let left = HOURLY_MAX;
  for (const [hour, { asked, decided, people }] of [...hours].sort(([a], [b]) => b - a)) {
    const approvers = hourly(people);
    left -= approvers.length;
    if (left < 0) break;
    shown.push({ from: iso(hour * HOUR_MS), asked, decided, approvers });
  }
  return shown;
}

function hourly(people: ReadonlyMap<string, PersonsHour>): readonly ApproverHour[] {
  return [...people.values()]
    .sort((a, b) => b.decided.length - a.decided.length || b.asked - a.asked)
    .slice(0, LISTED_MAX)
    .map(({ approver: { issuer: iss, subject: sub }, asked, decided }) => {
      const times = decided.map(timeOf).sort((a, b) => a - b);
      const quickApprovalShare = quickShareOf(decided);
      return { iss, sub, asked, decided: decided.length, medianSeconds: secondsAt(times, 0.5), quickApprovalShare };
    });
}

/** Returns the share of these decisions that were approvals so soon that the request was probably not read. */
function quickShareOf(decided: readonly ReportRow[]): number | null {
  return shareOf(decided.filter((row) => row.isApproved && timeOf(row) <= QUICK_MS).length, decided.length);
}

/** Returns the time from the request to the decision in milliseconds. */
function timeOf({ createdAt, decidedAt = createdAt }: Pick<ReportRow, "createdAt" | "decidedAt">): number {
  return Math.max(0, decidedAt - createdAt);
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
  const times = decided.map(timeOf).sort((a, b) => a - b);
  const approvalRate = shareOf(approved, decided.length);
  const hastyShare = quickShareOf(decided);
  const isEnough = decided.length >= ALERTS.decidedMin;
  return {
    approved,
    denied: decided.length - approved,
    alerts: [
      ...(isEnough && (approvalRate ?? 0) > ALERTS.approvalRateMax ? ["approval_rate"] : []),
      ...(isEnough && (hastyShare ?? 0) > ALERTS.hastyShareMax ? ["hasty_share"] : []),
    ],
    approvalRate,
    medianSeconds: secondsAt(times, 0.5),
    p90Seconds: secondsAt(times, 0.9),
    hastyShare,
  };
}

function largest(groups: Map<string, ReportRow[]>): readonly (readonly [string, readonly ReportRow[]])[] {
  return [...groups].sort(([, a], [, b]) => b.length - a.length).slice(0, LISTED_MAX);
}

function shareOf(part: number, whole: number): number | null {
  return whole === 0 ? null : part / whole;
}

/** Returns the smallest time, in seconds, within which the given share was decided. */
function secondsAt(sorted: readonly number[], share: number): number | null {
  const ms = sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)];
  return ms === undefined ? null : rounded(ms / MS_PER_SECOND);
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

export type MakeReport = (range: ReportRange) => Promise<OwnReport>;

/** An approval request and its outcome, without its contents. */
export type ReportRow = ReturnType<typeof toReportRow>;

export function reports({ database }: Pick<Store, "database">): MakeReport {
  return async (range) => {
    const rows: ReportRow[] = [];
    const requirements: Requirements = new Map();
    let before: { readonly createdAt: number; readonly id: string } | undefined;
    for (;;) {
      const page: readonly Row[] = await database.read(async (view) => {
        const read = await readPage(view, range, before);
        await readRequirements(view, read, requirements);
        return read;
      });
      rows.push(...page.map((row) => toReportRow(row, requirements)));
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
      created_at, decided_at, decided_issuer, decided_subject, votes, actors, requirement_digest, escalations
    FROM approvals
    WHERE created_at >= ${from} AND (created_at < ${at} OR (created_at = ${at} AND id < ${before?.id ?? ""}))
    ORDER BY created_at DESC, id DESC LIMIT ${PAGE_ROWS}`;
}

type Requirements = Map<string, Requirement | undefined>;

/** Reads each requirement once: many requests have the same one. */
async function readRequirements({ sql }: ReadTransaction, page: readonly Row[], known: Requirements): Promise<void> {
  for (const row of page) {
    const digest = text(row, "requirement_digest");
    if (digest === "" || known.has(digest)) continue;
    const [found] = await sql`SELECT requirement FROM approvals WHERE id = ${text(row, "id")}`;
    known.set(digest, found && readRequirement(JSON.parse(text(found, "requirement"))));
  }
}

/** Returns the people whom the policies of a request name, without those who may not decide because the request is theirs. */
function namedIn(row: Row, requirements: Requirements): readonly Approver[] {
  const requirement = requirements.get(text(row, "requirement_digest"));
  if (requirement === undefined) return [];
  const taken = row["escalations"] === "[]" ? [] : (readEscalations(JSON.parse(text(row, "escalations"))) ?? []);
  const requester = { subject: text(row, "subject"), actors: JSON.parse(text(row, "actors")) as readonly string[] };
  return escalatedRequirement(requirement, taken)
    .policies.flatMap(({ stages }) => stages.flatMap(approversOf))
    .flatMap(({ subjects = [] }) => subjects)
    .filter(({ subject }) => !isAmongRequesters(requester, [subject]));
}

function toReportRow(row: Row, requirements: Requirements) {
  const decidedAt = optionalInteger(row, "decided_at");
  const isByPerson = decidedAt !== undefined && row["decided_issuer"] !== null;
  const votes: readonly Pick<Vote, "issuer" | "subject" | "at">[] =
    row["votes"] === "[]" ? [] : (readVotes(JSON.parse(text(row, "votes"))) ?? []);
  return {
    tool: text(row, "tool"),
    category: text(row, "category"),
    classification: text(row, "classification"),
    risk: text(row, "risk"),
    state: text(row, "state"),
    decidedAt,
    scope: row["scope"] === null ? undefined : text(row, "scope"),
    /** Empty when there is no trusted session. */
    session: text(row, "session"),
    requester: JSON.stringify([text(row, "issuer"), text(row, "subject")]),
    grantKey: row["grant_key"] === null ? undefined : text(row, "grant_key"),
    offersSession: text(row, "scopes").includes('"session"'),
    offersBounded: text(row, "scopes").includes('"bounded"'),
    isApproved: decidedAt !== undefined && text(row, "state") !== "denied",
    createdAt: integer(row, "created_at"),
    approver: isByPerson ? { issuer: text(row, "decided_issuer"), subject: text(row, "decided_subject") } : undefined,
    named: namedIn(row, requirements),
    /** All votes; empty unless a policy required several. The last vote of an approved request is that of `approver`. */
    votes,
  };
}

/** Minimum number of requests, all approved, for a suggestion. */
const SAME_CALL_MIN = 3;
const MANY_CALLS_MIN = 5;
const READ_TOOL_MIN = 5;
const SESSION_WRITES_MIN = 10;
const SUGGESTIONS_MAX = 20;

/** A suggested rule that would have avoided requests that were always approved. People decide whether to adopt it. */
interface Suggestion {
  /**
   * `session_scope`: the same call was repeated in one session; approve it for the session. `read_tool`: a read-only tool needed
   * approvals; review the rules that require them. `auto_edit`: many writes in one session; set its mode to autoEdit for a while.
   * `bounded_grant`: a tool that offers bounded grants was approved call by call; grant several calls at once.
   */
  readonly kind: "session_scope" | "read_tool" | "auto_edit" | "bounded_grant";
  readonly tool: string | undefined;
  readonly prompts: number;
}

/** Ignores high-risk and destructive calls, which always need an approval. */
function suggestionsOf(rows: readonly ReportRow[]): readonly Suggestion[] {
  const remembered = rows.filter(({ risk, classification }) => isOrdinary(risk) && classification !== "destructive");
  return [...sameCalls(remembered), ...manyCalls(remembered), ...readTools(remembered), ...sessionWrites(remembered)]
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

/** Groups by caller, session and tool: whether one grant would have covered all of the calls is for approvers to see. */
function manyCalls(rows: readonly ReportRow[]): readonly Suggestion[] {
  const askable = rows.filter(({ offersBounded }) => offersBounded);
  const groups = Map.groupBy(askable, ({ requester, session, tool }) => JSON.stringify([requester, session, tool]));
  return byTool("bounded_grant", [...groups.values()].filter(alwaysApproved(MANY_CALLS_MIN)));
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
    kind,
    tool,
    prompts: own.reduce((sum, group) => sum + group.length - 1, 0),
  }));
}

/** Returns a filter for groups in which every request was approved with scope `once`. */
function alwaysApproved(min: number): (rows: readonly ReportRow[]) => boolean {
  return (rows) => rows.length >= min && rows.every(({ isApproved, scope }) => isApproved && scope === "once");
}
