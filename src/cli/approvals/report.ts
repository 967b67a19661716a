import { z } from "zod";
import { ask, type ClientOptions, connect, notUnderstood } from "../client.ts";
import { print, table } from "../output.ts";
import { printable, printableCell } from "../printable.ts";

const share = z.number().nullable();
const decisions = z.object({
  approved: z.number(),
  denied: z.number(),
  approvalRate: share,
  medianSeconds: share,
  p90Seconds: share,
  hastyShare: share,
  alerts: z.array(z.string()),
});
const answer = z.object({
  report: decisions.extend({
    from: z.string(),
    to: z.string(),
    isWhole: z.boolean(),
    asked: z.number(),
    pending: z.number(),
    expired: z.number(),
    cancelled: z.number(),
    tools: z.array(decisions.extend({ tool: z.string(), asked: z.number(), expired: z.number() })),
    deciders: z.array(
      decisions.extend({ iss: z.string(), sub: z.string(), perHour: z.number(), busiestHour: z.number() }),
    ),
    suggestions: z.array(z.object({ kind: z.string(), tool: z.string().optional(), prompts: z.number() })),
  }),
});

type Report = z.output<typeof answer>["report"];
type Decisions = z.output<typeof decisions>;

export interface ReportOptions extends ClientOptions {
  readonly since?: string;
  readonly until?: string;
}

/** `stc approvals report`: reports how people decided, and which rules would avoid approval requests. */
export async function reportApprovals(options: ReportOptions): Promise<void> {
  const client = connect(options);
  if (client === undefined) return;
  const query = new URLSearchParams({
    ...(options.since !== undefined && { from: options.since }),
    ...(options.until !== undefined && { to: options.until }),
  });
  const found = await ask(client, { method: "GET", path: `/approvals/report?${query}` }, options);
  if (found === undefined) return;
  if (options.json === true) return print.json(found.body);
  const read = answer.safeParse(found.body);
  if (!read.success) return notUnderstood();
  for (const line of reportLines(read.data.report)) print.line(line);
}

const ALERTS: Readonly<Record<string, string>> = {
  approval_rate: "nearly everything is approved: people may have stopped reading (over 95 %)",
  hasty_share: "most decisions took less than two seconds: nobody reads that fast (over 50 %)",
};

const SUGGESTIONS: Readonly<Record<string, (tool: string) => string>> = {
  session_scope: (tool) => `${tool}: the same call again in one session: approve it for the session (--session)`,
  read_tool: (tool) => `${tool}: only reads, is asked about and always approved: look at the rules that ask`,
  auto_edit: () => "writes of one session were always approved: stc mode set <session> autoEdit --for 30m",
};

function reportLines(report: Report): readonly string[] {
  const { asked, pending, expired, cancelled, approved, denied } = report;
  return [
    `from ${printable(report.from)} to ${printable(report.to)}`,
    `asked ${asked}: approved ${approved}, denied ${denied}, expired ${expired}, cancelled ${cancelled}, pending ${pending}`,
    `approval rate ${percent(report.approvalRate)}, median ${seconds(report.medianSeconds)}, p90 ${seconds(report.p90Seconds)}, under 2 s ${percent(report.hastyShare)}`,
    ...(report.isWhole ? [] : ["note: there were more questions; older ones are not counted"]),
    ...report.alerts.map((alert) => `ALERT: ${ALERTS[alert] ?? printable(alert)}`),
    ...toolLines(report),
    ...deciderLines(report),
    ...suggestionLines(report),
  ];
}

function toolLines({ tools }: Report): readonly string[] {
  if (tools.length === 0) return [];
  const rows = tools.map((one) => [printableCell(one.tool), String(one.asked), ...cells(one), String(one.expired)]);
  return ["", table([["TOOL", "ASKED", "YES", "NO", "RATE", "MEDIAN", "P90", "UNDER 2 S", "EXPIRED"], ...rows])];
}

function deciderLines({ deciders }: Report): readonly string[] {
  if (deciders.length === 0) return [];
  const rows = deciders.map((one) => [
    ...[printableCell(one.sub), printableCell(one.iss), ...cells(one)],
    ...[String(one.perHour), String(one.busiestHour), one.alerts.length === 0 ? "" : "ALERT"],
  ]);
  const head = ["DECIDER", "ISSUER", "YES", "NO", "RATE", "MEDIAN", "P90", "UNDER 2 S", "PER HOUR", "BUSIEST", ""];
  return ["", table([head, ...rows])];
}

function suggestionLines({ suggestions }: Report): readonly string[] {
  if (suggestions.length === 0) return [];
  const lines = suggestions.map(({ kind, tool = "", prompts }) => {
    const says = Object.hasOwn(SUGGESTIONS, kind) ? SUGGESTIONS[kind]?.(printable(tool)) : undefined;
    return `  ${prompts} fewer: ${says ?? printable(kind)}`;
  });
  return ["", "what would have spared questions:", ...lines];
}

function cells({
  approved,
  denied,
  approvalRate,
  medianSeconds,
  p90Seconds,
  hastyShare,
}: Decisions): readonly string[] {
  const times = [seconds(medianSeconds), seconds(p90Seconds)];
  return [String(approved), String(denied), percent(approvalRate), ...times, percent(hastyShare)];
}

function percent(value: number | null): string {
  return value === null ? "-" : `${Math.round(value * 1_000) / 10} %`;
}

function seconds(value: number | null): string {
  return value === null ? "-" : `${value} s`;
}
