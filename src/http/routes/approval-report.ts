import { z } from "zod";
import type { ApprovalReport, Decisions, MakeReport } from "../../approvals/notify/report.ts";
import { readTime, TIME_HINT } from "../../audit/query/time-range.ts";
import { Refusal } from "../../core/errors.ts";
import type { Json } from "../../core/types.ts";
import { json } from "../answers.ts";
import { inStore, iso } from "../approval-json.ts";
import { type Endpoint, endpointsWith } from "../endpoint.ts";
import { askingDryRuns } from "./audit.ts";

/** What this endpoint needs of the service. */
export interface ReportPart {
  readonly report: MakeReport;
  /** The audit directory, for the dry runs. */
  readonly auditDir: string;
}

const { endpoint } = endpointsWith<ReportPart>();

const DEFAULT_RANGE = "7d";
const TIME_CHARACTERS_MAX = 64;
/** Concurrent reports: each reads thousands of rows. */
const REPORTS = { totalMax: 2, perCallerMax: 1 } as const;

const time = z.string().min(1).max(TIME_CHARACTERS_MAX).optional();

export const endpoints: readonly Endpoint<ReportPart>[] = [
  endpoint({
    audience: "operators",
    permission: "approvals:decide",
    recordsForgeries: true,
    method: "GET",
    path: "/approvals/report",
    summary: "How approval requests were answered.",
    onlyWith: "`approvals`",
    query: z.strictObject({ from: time, to: time }),
    limits: REPORTS,
    audited: "approvals.reported",
    async handle({ query }, services) {
      const now = services.clock();
      // Includes approval requests from this very millisecond.
      const to = readMoment(query.to, now) ?? now + 1;
      const from = readMoment(query.from ?? DEFAULT_RANGE, now);
      if (from === undefined || from >= to) throw unreadable();
      const report = await inStore(services, () => services.report({ from, to }));
      const dryRuns = await askingDryRuns(services, { from, to });
      return json(200, { report: { ...reportShown(report), dryRuns } }, { recorded: { from: iso(from), to: iso(to) } });
    },
  }),
];

function readMoment(text: string | undefined, now: number): number | undefined {
  if (text === undefined) return undefined;
  const time = readTime(text, now);
  if (time === undefined) throw unreadable();
  return time;
}

function unreadable(): Refusal {
  return new Refusal("MALFORMED_REQUEST", `from and to must each be ${TIME_HINT}, and from the earlier one.`);
}

function reportShown({
  from,
  to,
  tools,
  deciders,
  hours,
  suggestions,
  ...report
}: ApprovalReport): Record<string, Json> {
  const { isWhole, asked, pending, expired, cancelled } = report;
  return {
    from: iso(from),
    to: iso(to),
    isWhole,
    asked,
    pending,
    expired,
    cancelled,
    ...decisionsShown(report),
    tools: tools.map((one) => ({
      tool: one.tool,
      asked: one.asked,
      expired: one.expired,
      ...decisionsShown(one),
    })),
    deciders: deciders.map((one) => ({
      iss: one.issuer,
      sub: one.subject,
      perHour: one.perHour,
      busiestHour: one.busiestHour,
      ...decisionsShown(one),
    })),
    hours: hours.map(({ approvers, ...hour }) => ({
      from: iso(hour.from),
      asked: hour.asked,
      decided: hour.decided,
      approvers: approvers.map(({ issuer, subject, asked, decided, medianSeconds, quickApprovalShare }) => ({
        iss: issuer,
        sub: subject,
        asked,
        decided,
        medianSeconds: medianSeconds ?? null,
        quickApprovalShare: quickApprovalShare ?? null,
      })),
    })),
    suggestions: suggestions.map(({ kind, tool, prompts }) => ({ kind, ...(tool !== undefined && { tool }), prompts })),
  };
}

/** Formats the decisions; values are `null` where nobody has decided anything. */
function decisionsShown(decisions: Decisions): Record<string, Json> {
  const { approved, denied, approvalRate, medianSeconds, p90Seconds, hastyShare, alerts } = decisions;
  return {
    approved,
    denied,
    alerts: [...alerts],
    approvalRate: approvalRate ?? null,
    medianSeconds: medianSeconds ?? null,
    p90Seconds: p90Seconds ?? null,
    hastyShare: hastyShare ?? null,
  };
}
