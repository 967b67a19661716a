import type { ReportRow } from "./report-rows.ts";
import { type Suggestion, suggestionsOf } from "./suggestions.ts";

const HOUR_MS = 3_600_000;
const SECOND_MS = 1_000;
/** Whoever answers sooner has not read the question. */
const HASTY_MS = 2_000;
const LISTED_MAX = 100;

/** From here on a yes to everything, or in no time, says that questions are no longer read. Fewer decisions say nothing. */
const ALERTS = { decidedMin: 20, approvalRateMax: 0.95, hastyShareMax: 0.5 } as const;

export type Alert = "approval_rate" | "hasty_share";

/** Shares are between 0 and 1; what nobody decided has none. */
export interface Decisions {
  readonly approved: number;
  readonly denied: number;
  readonly approvalRate: number | undefined;
  readonly medianSeconds: number | undefined;
  readonly p90Seconds: number | undefined;
  /** Decided in less than two seconds. */
  readonly hastyShare: number | undefined;
  readonly alerts: readonly Alert[];
}

export interface ToolReport extends Decisions {
  readonly tool: string;
  readonly asked: number;
  readonly expired: number;
}

export interface DeciderReport extends Decisions {
  readonly issuer: string;
  readonly subject: string;
  /** Decisions in each hour of the clock in which there were any, and the most of one. */
  readonly perHour: number;
  readonly busiestHour: number;
}

/** How people answered. Times in milliseconds since 1970. */
export interface ApprovalReport extends Decisions {
  readonly from: number;
  readonly to: number;
  /** False: older questions of this time are not in it. */
  readonly isWhole: boolean;
  readonly asked: number;
  readonly pending: number;
  /** Nobody answered. */
  readonly expired: number;
  readonly cancelled: number;
  /** Those with most questions first. */
  readonly tools: readonly ToolReport[];
  readonly deciders: readonly DeciderReport[];
  readonly suggestions: readonly Suggestion[];
}

export interface ReportFrame {
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
    deciders: deciderReports(rows),
    suggestions: suggestionsOf(rows),
  };
}

function unanswered(rows: readonly ReportRow[]): number {
  return rows.filter(({ state, decidedAt }) => state === "expired" && decidedAt === undefined).length;
}

function deciderReports(rows: readonly ReportRow[]): readonly DeciderReport[] {
  const decided = rows.flatMap(decisionsIn);
  const byPerson = Map.groupBy(decided, ({ decider }) => JSON.stringify([decider?.issuer, decider?.subject]));
  return largest(byPerson).flatMap(([, own]) => {
    const decider = own[0]?.decider;
    if (decider === undefined) return [];
    const hours = Map.groupBy(own, ({ decidedAt = 0 }) => Math.floor(decidedAt / HOUR_MS));
    const busiestHour = Math.max(...[...hours.values()].map((hour) => hour.length));
    return [{ ...decider, ...decisionsOf(own), perHour: rounded(own.length / hours.size), busiestHour }];
  });
}

/** Who says yes before the last one has read it, or not, as well. */
function decisionsIn(row: ReportRow): readonly ReportRow[] {
  const yeses = row.votes.map(({ at, ...decider }) => ({ ...row, decider, decidedAt: at, isYes: true }));
  const isAmongThem = row.decider === undefined || (row.isYes && yeses.length > 0);
  return isAmongThem ? yeses : [...yeses, row];
}

function decisionsOf(rows: readonly ReportRow[]): Decisions {
  const decided = rows.filter(({ decidedAt }) => decidedAt !== undefined);
  const approved = decided.filter(({ isYes }) => isYes).length;
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

/** The smallest time that so large a share was decided within. */
function secondsAt(sorted: readonly number[], share: number): number | undefined {
  const ms = sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)];
  return ms === undefined ? undefined : rounded(ms / SECOND_MS);
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
