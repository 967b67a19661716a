import type { FastifyInstance } from "fastify";
import { z } from "zod";
import type { ApprovalReport, Decisions } from "../../approvals/notify/report.ts";
import type { NotifiedApprovals } from "../../approvals/notify/webhooks.ts";
import { readTime, TIME_HINT } from "../../audit/query/time-range.ts";
import { Refusal } from "../../core/errors.ts";
import type { Json } from "../../core/types.ts";
import { iso } from "../approval-json.ts";
import { ConcurrencyLimit } from "../concurrency-limit.ts";
import { sendJson } from "../error-reply.ts";
import type { OperatorGuard } from "../operator-guard.ts";

export interface ReportRouteOptions {
  readonly approvals: NotifiedApprovals;
  readonly door: OperatorGuard;
}

const DEFAULT_RANGE = "7d";
const TIME_CHARACTERS_MAX = 64;
/** Limit of concurrent reports: each reads thousands of rows. */
const REPORTS_MAX = 2;

const time = z.string().min(1).max(TIME_CHARACTERS_MAX).optional();
export const reportQuery = z.strictObject({ from: time, to: time });

/** Declares `GET /approvals/report?from=7d&to=`: how people decided. For approvers; each request is recorded. */
export function reportRoute(app: FastifyInstance, { approvals, door }: ReportRouteOptions): void {
  const { report } = approvals;
  if (report === undefined) return;
  const places = new ConcurrencyLimit({ totalMax: REPORTS_MAX, perCallerMax: 1 });
  app.get("/approvals/report", (request, reply) =>
    door.operator(request, "approvals:decide", async (operator) => {
      const asked = door.query(request, reportQuery);
      const now = door.now();
      // Includes approval requests from this very millisecond.
      const range = { from: readMoment(asked.from ?? DEFAULT_RANGE, now), to: readMoment(asked.to, now) ?? now + 1 };
      if (range.from === undefined || range.from >= range.to) throw unreadable();
      const { from, to } = { ...range, from: range.from };
      const leave = places.take(operator);
      try {
        const filters = { from: iso(from), to: iso(to) };
        await door.record({ type: "approvals.reported", sub: operator.subject, iss: operator.issuer, ...filters });
        return sendJson(reply, 200, { report: shown(await door.store(() => report({ from, to }))) });
      } finally {
        leave();
      }
    }),
  );
}

/** @throws {Refusal} MALFORMED_REQUEST */
function readMoment(text: string | undefined, now: number): number | undefined {
  if (text === undefined) return undefined;
  const moment = readTime(text, now);
  if (moment === undefined) throw unreadable();
  return moment;
}

function unreadable(): Refusal {
  return new Refusal("MALFORMED_REQUEST", `from and to must each be ${TIME_HINT}, and from the earlier one.`);
}

function shown({ from, to, tools, deciders, suggestions, ...report }: ApprovalReport): Json {
  const { isWhole, asked, pending, expired, cancelled } = report;
  return {
    ...{ from: iso(from), to: iso(to), isWhole, asked, pending, expired, cancelled },
    ...decisionsShown(report),
    tools: tools.map((one) => ({
      ...{ tool: one.tool, asked: one.asked, expired: one.expired },
      ...decisionsShown(one),
    })),
    deciders: deciders.map((one) => ({
      ...{ iss: one.issuer, sub: one.subject, perHour: one.perHour, busiestHour: one.busiestHour },
      ...decisionsShown(one),
    })),
    suggestions: suggestions.map(({ kind, tool, prompts }) => ({ kind, ...(tool !== undefined && { tool }), prompts })),
  };
}

/** Formats the decisions; values are `null` where nobody has decided anything. */
function decisionsShown(decisions: Decisions): Record<string, Json> {
  const { approved, denied, approvalRate, medianSeconds, p90Seconds, hastyShare, alerts } = decisions;
  return {
    ...{ approved, denied, alerts: [...alerts] },
    ...{ approvalRate: approvalRate ?? null, medianSeconds: medianSeconds ?? null },
    ...{ p90Seconds: p90Seconds ?? null, hastyShare: hastyShare ?? null },
  };
}
