import { z } from "zod";
import type { MakeReport } from "../../approvals/notify/report.ts";
import { readTime, TIME_HINT } from "../../audit/query/time-range.ts";
import { Refusal } from "../../core/errors.ts";
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
      return json(200, { report: { ...report, dryRuns } }, { recorded: { from: iso(from), to: iso(to) } });
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
