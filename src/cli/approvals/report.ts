import { z } from "zod";
import { type ApprovalReport, approvalReport, type Decisions } from "../../core/api/report.ts";
import { printable, printableCell } from "../../core/printable.ts";
import { type ClientOptions, connectAndRequest, unknownAnswer } from "../client.ts";
import { print, table } from "../output.ts";

const answer = z.object({ report: approvalReport });

type ReportOptions = ClientOptions & { readonly since?: string; readonly until?: string };

/** `stc approvals report`: reports how people decided, and which rules would avoid approval requests. */
export async function reportApprovals(options: ReportOptions): Promise<void> {
  const query = new URLSearchParams({
    ...(options.since !== undefined && { from: options.since }),
    ...(options.until !== undefined && { to: options.until }),
  });
  const found = await connectAndRequest(options, { method: "GET", path: `/approvals/report?${query}` });
  if (options.json === true) return print.json(found.body);
  const { report } = answer.safeParse(found.body).data ?? unknownAnswer();
  for (const line of reportLines(report)) print.line(line);
}

const ALERTS: Readonly<Record<string, string>> = {
  approval_rate: "over 95 % are approved: people may have stopped reading",
  hasty_share: "over 50 % of the decisions were approvals within three seconds: nobody reads that fast",
};

const SUGGESTIONS: Readonly<Record<string, (tool: string) => string>> = {
  session_scope: (tool) => `${tool}: the same call repeats in one session: approve it for the session (--session)`,
  read_tool: (tool) => `${tool}: only reads and is always approved: review the rules that require an approval`,
  bounded_grant: (tool) => `${tool}: calls are approved one by one: grant several at once (--grant runs=…,minutes=…)`,
  auto_edit: () => "writes of one session are always approved: stc mode set <session> autoEdit --for 30m",
};

function reportLines(report: ApprovalReport): readonly string[] {
  const { asked, pending, expired, cancelled, approved, denied } = report;
  return [
    `from ${printable(report.from)} to ${printable(report.to)}`,
    `${asked} requests: approved ${approved}, denied ${denied}, expired ${expired}, cancelled ${cancelled}, pending ${pending}`,
    `approval rate ${percent(report.approvalRate)}, median ${seconds(report.medianSeconds)}, p90 ${seconds(report.p90Seconds)}, approved in 3 s ${percent(report.hastyShare)}`,
    ...(report.isWhole ? [] : ["note: there were more approval requests; the oldest are not counted"]),
    ...report.alerts.map((alert) => `ALERT: ${ALERTS[alert] ?? printable(alert)}`),
    ...toolLines(report),
    ...approverLines(report),
    ...hourLines(report),
    ...dryRunLines(report),
    ...suggestionLines(report),
  ];
}

/** Returns how often agents asked whether a call would need an approval, without making it. */
function dryRunLines({ dryRuns }: ApprovalReport): readonly string[] {
  if (dryRuns.length === 0) return [];
  const rows = dryRuns.map(({ tool, dryRuns: count }) => [printableCell(tool), String(count)]);
  return ["", table([["TOOL", "DRY RUNS THAT WOULD HAVE ASKED"], ...rows])];
}

function toolLines({ tools }: ApprovalReport): readonly string[] {
  if (tools.length === 0) return [];
  const rows = tools.map((one) => [printableCell(one.tool), String(one.asked), ...cells(one), String(one.expired)]);
  return ["", table([["TOOL", "REQUESTS", ...HEADS, "EXPIRED"], ...rows])];
}

function approverLines({ deciders }: ApprovalReport): readonly string[] {
  if (deciders.length === 0) return [];
  const rows = deciders.map((one) => [
    ...[printableCell(one.sub), printableCell(one.iss), ...cells(one)],
    ...[String(one.perHour), String(one.busiestHour), one.alerts.length === 0 ? "" : "ALERT"],
  ]);
  return ["", table([["APPROVER", "ISSUER", ...HEADS, "PER HOUR", "BUSIEST", ""], ...rows])];
}

/** Returns the newest hours, of which each line is one approver. */
function hourLines({ hours }: ApprovalReport): readonly string[] {
  const rows = hours.flatMap(({ from, approvers }) =>
    approvers.map(({ iss, sub, asked, decided, medianSeconds, quickApprovalShare }) => [
      ...[printable(from), printableCell(sub), printableCell(iss), String(asked), String(decided)],
      ...[seconds(medianSeconds), percent(quickApprovalShare)],
    ]),
  );
  if (rows.length === 0) return [];
  const heads = ["HOUR", "APPROVER", "ISSUER", "ASKED", "DECIDED", "MEDIAN", "APPROVED IN 3 S"];
  const more = rows.length - HOURLY_ROWS_MAX;
  return [
    "",
    table([heads, ...rows.slice(0, HOURLY_ROWS_MAX)]),
    ...(more > 0 ? [`note: ${more} earlier lines are left out; --json has all of them`] : []),
  ];
}

function suggestionLines({ suggestions }: ApprovalReport): readonly string[] {
  if (suggestions.length === 0) return [];
  const lines = suggestions.map(({ kind, tool = "", prompts }) => {
    const advice = Object.hasOwn(SUGGESTIONS, kind) ? SUGGESTIONS[kind]?.(printable(tool)) : undefined;
    return `  ${prompts} fewer: ${advice ?? printable(kind)}`;
  });
  return ["", "what would have avoided approval requests:", ...lines];
}

/** Lines of the table by hour. */
const HOURLY_ROWS_MAX = 24;
const HEADS = ["APPROVED", "DENIED", "RATE", "MEDIAN", "P90", "IN 3 S"];

/** Returns the cells below `HEADS`. */
function cells({ approved, denied, ...own }: Decisions): readonly string[] {
  const times = [seconds(own.medianSeconds), seconds(own.p90Seconds)];
  return [String(approved), String(denied), percent(own.approvalRate), ...times, percent(own.hastyShare)];
}

function percent(value: number | null): string {
  return value === null ? "-" : `${Math.round(value * 1_000) / 10} %`;
}

function seconds(value: number | null): string {
  return value === null ? "-" : `${value} s`;
}
